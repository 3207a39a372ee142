"""What the folds of the three protocols have in common: the value they return, their warnings, and how events end."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from roller_capture.model_protocols import shapes
from roller_capture.model_protocols.merging import Merger
from roller_capture.model_protocols.shapes import JsonObject
from roller_capture.model_protocols.types import OutputWarning, ToolRef
from roller_capture.vocabulary import OutputWarningCode

_WARNING_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold made of a stream, or a reader of a JSON body.

    `finish_reasons` holds every finish word that was seen, first the one to publish. `terminal` tells that the
    protocol's terminal marker came; `finished` that a clean end of the body would do without it (Chat Completions).
    `error` is the provider's error text, and `shape` says why a JSON body is no response of this protocol at all.
    `loss` says why the output is known to lack something. `unfinished` says which part of the output never came to its
    own end, which is a loss too, unless the finish word itself says that the service broke the output off.
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
    unfinished: str | None = None
    shape: str | None = None
    tool_call_missing: bool = False


class Warnings:
    """Collects oddities, each once, and not without bound."""

    def __init__(self) -> None:
        self._seen: dict[OutputWarning, None] = {}

    def add(self, code: OutputWarningCode, detail: str) -> None:
        if len(self._seen) < _WARNING_LIMIT:
            self._seen.setdefault(OutputWarning(code, detail))

    def unexpected(self, what: str, value: object) -> None:
        """A member is not of the type that it should have."""
        self.add(OutputWarningCode.UNEXPECTED_SHAPE, f"{what} is {shapes.name_of(value)}")

    def unknown_event(self, kind: str | None) -> None:
        self.add(OutputWarningCode.UNKNOWN_EVENT, shapes.name_of(kind) if kind else "no type")

    def all(self) -> tuple[OutputWarning, ...]:
        return tuple(self._seen)


class Fold(Protocol):
    """A fold of one protocol's stream events into the shape that the provider gives without streaming."""

    terminal: bool

    def add(self, kind: str | None, payload: JsonObject) -> bool:
        """Fold one event. `kind` is the payload's own `type`, or the `event:` line where it has none.

        False when the event, or a part of it that has a meaning, found no place: its kind or its shape is not known.
        Then a warning says so, and it is the caller who keeps the payload. A known event behind the terminal marker is
        passed over, and that is true.
        """

    def done(self) -> None:
        """The line `data: [DONE]` came."""

    def finish(self) -> Folded:
        """The result; the stream is over, wherever it was."""


EventHandler: TypeAlias = Callable[[JsonObject], bool]
"""Folds one payload; its result is that of `Fold.add`."""


class TypedFold(ABC):
    """The part of a fold that is the same in the protocols whose events have a `type`."""

    def __init__(self, warnings: Warnings) -> None:
        self.terminal = False
        self._warnings = warnings
        self._usage = Merger()
        self._error: str | None = None
        self._error_payload: JsonObject | None = None

    @abstractmethod
    def _handler(self, kind: str) -> EventHandler | None:
        """What folds events of this kind, or `None` for a kind that is not known."""

    def add(self, kind: str | None, payload: JsonObject) -> bool:
        handler = self._handler(kind) if kind is not None else None
        if handler is None and (kind == "error" or shapes.provider_error(payload) is not None):
            handler = self._fail
        if handler is None:
            self._warnings.unknown_event(kind)
            return False
        return self.terminal or handler(payload)

    def done(self) -> None:  # noqa: B027 - a subclass has nothing to add
        """Gateways end a stream so; it says nothing about the response."""

    def _fail(self, payload: JsonObject) -> bool:
        self._error = self._error or shapes.provider_error({"type": "error", **payload})
        self._error_payload = self._error_payload or payload
        return True

    def _add_usage(self, value: object) -> None:
        usage = usage_of(value, self._warnings)
        if usage is not None:
            self._usage.add(usage)

    def _only_error(self) -> Folded:
        """The result where nothing but an error came, or nothing at all."""
        return Folded(output=self._error_payload, terminal=self.terminal, error=self._error)


def id_of(value: JsonObject, member: str, warnings: Warnings) -> str | None:
    """An id, which has to be a text with something in it."""
    found = value.get(member)
    if found is None or found == "":
        return None
    if isinstance(found, str):
        return found
    warnings.unexpected(member, found)
    return None


def usage_of(value: object, warnings: Warnings) -> JsonObject | None:
    if value is None or isinstance(value, dict):
        return value
    warnings.unexpected("usage", value)
    return None
