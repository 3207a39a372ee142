"""The request body of a call: is it the one of the hash, and does it hold what relations and evidence say of it?"""

import hashlib
from collections.abc import Collection, Container, Iterator
from typing import Any, Final

from roller_capture import json_text
from roller_capture.integrity.findings import Finding
from roller_capture.model_protocols import iter_messages_text, iter_tool_results
from roller_capture.publication import RELATIONS
from roller_capture.vocabulary import Blocker, BoundBy, CallErrorCode, DeliveryKind, Protocol

Record = dict[str, Any]

_CONTEXT: Final = "context:"
_NULL: Final = b"null"
_BOM_BYTES: Final = 3
_MOST_DIGITS: Final = 18
_IMPORT: Final = "import_"
_BODY_ERRORS: Final = frozenset(
    {
        CallErrorCode.BODY_FILE_DAMAGED,
        CallErrorCode.BODY_FILE_MISSING,
        CallErrorCode.DISK_ERROR,
        CallErrorCode.RECORDER_ERROR,
    }
)


def hash_contradictions(call: Record, text: memoryview) -> Iterator[str]:
    """Whether the context's own text is that of `context_sha256`, and `context_exact` says so."""
    if "context_raw" in call or call["context_sha256"] is None:
        if bytes(text[:5]) != _NULL:
            yield "context is there, though context_raw or the lack of a body says that there is none"
        return
    if (hashlib.sha256(text).hexdigest() == call["context_sha256"]) != call["context_exact"]:
        yield "context is not the text of context_sha256, or context_exact does not say so"


def length_contradictions(call: Record, text: memoryview) -> Iterator[str]:
    """Whether the context has as many bytes as the request said; a byte order mark is left out of it."""
    told = _told_length(call)
    if told is not None and told - len(text) not in ((0,) if call["context_exact"] else (0, _BOM_BYTES)):
        yield f"context has {len(text)} bytes, the request was said to have {told}"


def _told_length(call: Record) -> int | None:
    """Bytes of the body by its own `content-length`; `None` where that says nothing of the context."""
    if "context_raw" in call:
        return None
    http = call["http"]
    told: list[str] = http["request_headers"].get("content-length", [])
    coded = "content-encoding" in {*http["request_headers"], *http["request_other_headers"]}
    whole = Blocker.REQUEST_INCOMPLETE not in call["export_blockers"]
    recorded = call["request_sha256"] is not None and not any(
        error["code"].startswith(_IMPORT) or error["code"] in _BODY_ERRORS for error in call["errors"]
    )
    if coded or not whole or not recorded or len(told) != 1 or not (told[0].isascii() and told[0].isdigit()):
        return None
    return int(told[0]) if len(told[0]) <= _MOST_DIGITS else None


def check_context(
    call: Record,
    text: memoryview,
    where: str,
    relations: Collection[tuple[int, Record]],
    provider_tools: Container[str],
) -> Iterator[Finding]:
    """Parses a context, and looks up what is said of it: the model, evidence, and every item of `relations`.

    `provider_tools` are the ids of the tool calls that earlier calls gave.
    """
    try:
        context = json_text.parse(bytes(text), exact_numbers=False)
    except json_text.JsonError as error:
        yield Finding(where, f"context is no JSON: {error}")
        return
    named = context.get("model") if isinstance(context, dict) else None
    if "context_raw" not in call and call["model"]["requested"] != (
        named if isinstance(named, str) and named else None
    ):
        yield Finding(where, "model.requested is not the model of the context")
    for one in call["native_identity"]["evidence"]:
        place = str(one["name"]).removeprefix(_CONTEXT)
        if place != one["name"] and _at(context, place) != one["value"]:
            yield Finding(where, f"evidence {one['name']} is not what the context holds")
    if relations:
        items = _Items(Protocol(call["protocol"]), context, provider_tools)
        for number, relation in relations:
            problem = items.problem(relation)
            if problem is not None:
                yield Finding(f"{RELATIONS}:{number}", f"context_pointer {relation['context_pointer']}: {problem}")


def _at(context: Any, place: str) -> Any:
    try:
        return json_text.resolve_pointer(context, place)
    except LookupError:
        return None


class _Items:
    """What stands in a request that a delivery can be: tool results by their place, and places of message texts."""

    def __init__(self, protocol: Protocol, context: Any, provider_tools: Container[str]) -> None:
        self._context = context
        self._provider_tools = provider_tools
        self._results: dict[str, str] = {place: tool for tool, place in iter_tool_results(protocol, context)}
        self._texts = frozenset(place for place, _ in iter_messages_text(protocol, context))

    def problem(self, relation: Record) -> str | None:
        """Why the item at a relation's pointer is not the one that it tells of."""
        place, delivery = relation["context_pointer"], relation["delivery"]
        if _at(self._context, place) is None:
            return "names nothing in the context"
        if delivery["kind"] == DeliveryKind.TOOL_RESULT:
            if place not in self._results:
                return "names no tool result"
            return None if self._is_bound(self._results[place], relation) else "names the result of another tool call"
        if place not in self._texts or any(place == one or place.startswith(f"{one}/") for one in self._results):
            return "names no message"
        if delivery["bound_by"] == BoundBy.ITEM_ID and self._item_id(place) != delivery["bound_id"]:
            return "names another item"
        return None

    def _is_bound(self, tool_id: str, relation: Record) -> bool:
        """A harness may send its native id, the part of it that the provider gave, or one of its own making."""
        ids = {relation["delivery"]["bound_id"], relation["tool_call_id"]}
        if relation["model_tool_ref"] is not None:
            ids.add(relation["model_tool_ref"]["call_id"])
        ids |= {one.partition("|")[0] for one in ids if one is not None}
        return tool_id in ids or tool_id not in self._provider_tools

    def _item_id(self, place: str) -> Any:
        """The id of the item of a Responses `input` that the place lies in."""
        item = _at(self._context, "/".join(place.split("/")[:3]))
        return item.get("id") if isinstance(item, dict) else None
