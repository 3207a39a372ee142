"""What the three folds share: the value they return, warnings, and merging of provider JSON.

A provider's JSON is never trusted to have the documented types: every helper takes any value and never raises. Nothing
here changes a value it was given; a merge makes a new one.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from roller_capture.model_protocols.types import OutputWarning, ToolRef
from roller_capture.vocabulary import OutputWarningCode

JsonObject: TypeAlias = dict[str, Any]

MERGE_DEPTH = 8
"""How deep objects are merged member by member; provider objects nest three or four levels."""

_WARNING_LIMIT = 100
_NAME_LIMIT = 80
_MESSAGE_LIMIT = 4000


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold made of a stream, or a reader of a JSON body.

    `finish_reasons` holds every finish word that was seen, first the one to publish. `terminal` tells that the
    protocol's terminal marker came; `finished` that a clean end of the body would do without it (Chat Completions).
    `error` is the provider's error text, `loss` says why the output is known to lack something, and `shape` why a JSON
    body is no response of this protocol at all.
    """

    output: Any = None
    response_id: str | None = None
    model: str | None = None
    usage: JsonObject | None = None
    tool_refs: tuple[ToolRef, ...] = ()
    finish_reasons: tuple[str, ...] = ()
    terminal: bool = False
    finished: bool = False
    error: str | None = None
    loss: str | None = None
    shape: str | None = None
    tool_call_missing: bool = False


class Warnings:
    """Collects oddities, each once, and not without bound."""

    def __init__(self) -> None:
        self._seen: dict[OutputWarning, None] = {}

    def add(self, code: OutputWarningCode, detail: str) -> None:
        if len(self._seen) < _WARNING_LIMIT:
            self._seen.setdefault(OutputWarning(code, detail))

    def all(self) -> tuple[OutputWarning, ...]:
        return tuple(self._seen)


class Fold(Protocol):
    """A fold of one protocol's stream events into the shape that the provider gives without streaming."""

    terminal: bool

    def add(self, kind: str | None, payload: JsonObject) -> None:
        """Fold one event. `kind` is the payload's own `type`, or the `event:` line where it has none."""

    def done(self) -> None:
        """The line `data: [DONE]` came."""

    def finish(self) -> Folded:
        """The result; the stream is over, wherever it was."""


def name_of(value: object) -> str:
    """A provider's word, made fit for a warning: words only, bounded, never content."""
    return value[:_NAME_LIMIT] if isinstance(value, str) else type(value).__name__


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def object_or_none(value: object) -> JsonObject | None:
    return value if isinstance(value, dict) else None


def objects(value: object) -> list[JsonObject]:
    """The objects in a list; nothing for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def joined(parts: Iterable[str]) -> str:
    """The pieces as one text. A surrogate pair that was cut between two pieces becomes its character again."""
    text = "".join(parts)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


class Merger:
    """Merges objects member by member; later non-null wins. Linear in what is added, and owns all that it changes."""

    def __init__(self, start: JsonObject | None = None) -> None:
        self.value: JsonObject = {}
        if start is not None:
            self.add(start)

    def add(self, later: JsonObject, without: Container[str] = ()) -> None:
        for key, value in later.items():
            if key not in without:
                _merge_member(self.value, key, value, MERGE_DEPTH)


def _merge_member(own: JsonObject, key: str, value: Any, depth: int) -> None:
    if value is None:
        own.setdefault(key, None)
    elif not isinstance(value, dict) or depth == 0:
        own[key] = value
    else:
        if not isinstance(own.get(key), dict):
            own[key] = {}
        for member, item in value.items():
            _merge_member(own[key], member, item, depth - 1)


def provider_error(payload: JsonObject) -> str | None:
    """The provider's error in one line, `type (code): message`, or `None` when the object reports none.

    Known shapes: `{"error": {...}}`, `{"error": "text"}`, `{"type": "error", ...}`, `{"object": "error", ...}`.
    """
    error = payload.get("error")
    if not error:
        if payload.get("type") != "error" and payload.get("object") != "error":
            return None
        error = payload
    if not isinstance(error, dict):
        return str(error)[:_MESSAGE_LIMIT]
    words = [_word(error.get(name)) for name in ("type", "code")]
    kind, code = (None if word == "error" else word for word in words)
    label = f"{kind} ({code})" if kind and code else kind or code
    return ": ".join(part for part in (label, bare_error(error)) if part)[:_MESSAGE_LIMIT] or "error"


def bare_error(payload: JsonObject) -> str | None:
    """The text of `{"message": "…"}` or `{"detail": "…"}`, which gateways and frameworks answer with."""
    texts = (payload.get(name) for name in ("message", "detail"))
    return next((text[:_MESSAGE_LIMIT] for text in texts if isinstance(text, str) and text), None)


def _word(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def id_of(value: JsonObject, member: str, warnings: Warnings) -> str | None:
    """An id, which has to be a text with something in it."""
    found = value.get(member)
    if found is None or found == "":
        return None
    if isinstance(found, str):
        return found
    warnings.add(OutputWarningCode.UNEXPECTED_SHAPE, f"{member} is {name_of(found)}")
    return None


def usage_of(value: object, warnings: Warnings) -> JsonObject | None:
    if value is None or isinstance(value, dict):
        return value
    warnings.add(OutputWarningCode.UNEXPECTED_SHAPE, f"usage is {name_of(value)}")
    return None
