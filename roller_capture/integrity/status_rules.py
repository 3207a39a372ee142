"""Do the statuses of one published call follow from what stands beside them?

The hash finds a changed byte; this finds a record that was changed together with its hashes: a status raised by hand, a
blocker taken out, an output exchanged. Each rule is a row of the design's truth table (section 5), read backwards from
the record. A record may always say less than its data would allow (an oddity of the stream that the output does not
show); it may never say more.
"""

from collections.abc import Iterator
from typing import Any, Final

from roller_capture.finalizer.model_names import match_models
from roller_capture.model_protocols.folding import Folded, Warnings
from roller_capture.model_protocols.response import READERS
from roller_capture.model_protocols.verdict import finish_blockers
from roller_capture.vocabulary import (
    Blocker,
    CallErrorCode,
    CaptureStatus,
    ExecutionStatus,
    IdentityStatus,
    ModelMatch,
    Protocol,
    ResponseCaptureStatus,
)

Call = dict[str, Any]

_NOT_COMPLETED: Final = frozenset(
    {
        CallErrorCode.HTTP_ERROR,
        CallErrorCode.PROVIDER_ERROR,
        CallErrorCode.RESPONSE_UNPARSEABLE,
        CallErrorCode.UPSTREAM_UNREACHABLE,
        CallErrorCode.RESPONSE_CUT,
        CallErrorCode.TERMINAL_MARKER_MISSING,
    }
)
_ERROR_BLOCKERS: Final = {
    CallErrorCode.DISK_ERROR: Blocker.CAPTURE_ERROR,
    CallErrorCode.RECORDER_ERROR: Blocker.CAPTURE_ERROR,
    CallErrorCode.BODY_FILE_DAMAGED: Blocker.CAPTURE_ERROR,
    CallErrorCode.DECODED_BODY_TOO_LARGE: Blocker.CAPTURE_ERROR,
    CallErrorCode.REQUEST_CUT: Blocker.REQUEST_INCOMPLETE,
    CallErrorCode.FOREIGN_CREDENTIAL: Blocker.IDENTITY_UNRESOLVED,
    CallErrorCode.IDENTITY_CONFLICT: Blocker.IDENTITY_UNRESOLVED,
}
_LOWERS_CAPTURE: Final = frozenset({Blocker.CAPTURE_ERROR, Blocker.REQUEST_INCOMPLETE})


def contradictions(call: Call) -> Iterator[str]:
    """What in a call's record, which fits the schema, cannot be true together. Nothing for a record of ours."""
    yield from _execution(call)
    yield from _completed(call)
    yield from _capture(call)
    yield from _identity_and_model(call)
    yield from _output(call)


def _execution(call: Call) -> Iterator[str]:
    execution, response, status = call["execution_status"], call["response_capture_status"], call["http"]["status"]
    blockers = set(call["export_blockers"])
    if (execution == ExecutionStatus.FAILED) != (Blocker.EXECUTION_NOT_COMPLETED in blockers):
        yield f"execution_status {execution} and the export_blockers contradict each other"
    if execution == ExecutionStatus.INTERRUPTED:
        if not blockers & {Blocker.RESPONSE_INCOMPLETE, Blocker.CAPTURE_ERROR}:
            yield "an interrupted call has no blocker for it"
        if response == ResponseCaptureStatus.COMPLETE:
            yield "response_capture_status complete, of an interrupted call"
    if status is None and response == ResponseCaptureStatus.COMPLETE and _tells_of_http(call):
        yield f"response_capture_status {response}, without any response head"
    if response != ResponseCaptureStatus.MISSING and CallErrorCode.UPSTREAM_UNREACHABLE in _codes(call):
        yield f"response_capture_status {response}, of a service that could not be reached"
    if _is_good(status) and CallErrorCode.HTTP_ERROR in _codes(call):
        yield f"the error http_error, with HTTP status {status}"


def _completed(call: Call) -> Iterator[str]:
    if call["execution_status"] != ExecutionStatus.COMPLETED:
        return
    if not _is_good(call["http"]["status"]) and _tells_of_http(call):
        yield f"execution_status completed, with HTTP status {call['http']['status']}"
    if call["response_capture_status"] == ResponseCaptureStatus.MISSING:
        yield "execution_status completed, with response_capture_status missing"
    codes = _codes(call)
    yield from (f"execution_status completed, with the error {code}" for code in sorted(codes & _NOT_COMPLETED))
    if CallErrorCode.STREAM_DAMAGED in codes and Blocker.RESPONSE_INCOMPLETE not in call["export_blockers"]:
        yield "the error stream_damaged stands there without the blocker response_incomplete"


def _tells_of_http(call: Call) -> bool:
    """A call that was migrated from an early layout holds nothing of its exchange."""
    http = call["http"]
    return any(http[name] is not None for name in ("status", "request_version", "response_version"))


def _is_good(status: int | None) -> bool:
    return status is not None and 200 <= status < 300


def _codes(call: Call) -> set[str]:
    return {error["code"] for error in call["errors"]}


def _capture(call: Call) -> Iterator[str]:
    blockers = set(call["export_blockers"])
    for code in sorted(_codes(call)):
        blocker = _ERROR_BLOCKERS.get(CallErrorCode(code))
        if blocker is not None and blocker not in blockers:
            yield f"the error {code} stands there without the blocker {blocker}"
    whole = call["response_capture_status"] == ResponseCaptureStatus.COMPLETE and not blockers & _LOWERS_CAPTURE
    if (call["capture_status"] == CaptureStatus.COMPLETE) != whole:
        yield f"capture_status {call['capture_status']} does not follow from request and response"
    if "context_raw" in call and Blocker.CONTEXT_NOT_JSON not in blockers:
        yield "context_raw without the blocker context_not_json"


def _identity_and_model(call: Call) -> Iterator[str]:
    blockers = call["export_blockers"]
    if (call["identity_status"] != IdentityStatus.RESOLVED) != (Blocker.IDENTITY_UNRESOLVED in blockers):
        yield f"identity_status {call['identity_status']} and the export_blockers contradict each other"
    requested, responded, match = (call["model"][name] for name in ("requested", "responded", "match"))
    aliases = {requested: responded} if match == ModelMatch.ALIAS and requested and responded else {}
    derived = match_models(requested, responded, aliases)
    if match != derived:
        yield f"model.match is {match}, the names say {derived}"
    answered = responded is not None or call["execution_status"] == ExecutionStatus.COMPLETED
    differs = match == ModelMatch.MISMATCH or (
        match == ModelMatch.UNREQUESTED and Blocker.CONTEXT_NOT_JSON not in blockers
    )
    if answered and differs and Blocker.MODEL_MISMATCH not in blockers:
        yield "two different models without the blocker model_mismatch"
    if answered and match == ModelMatch.UNREPORTED and Blocker.MODEL_UNREPORTED not in blockers:
        yield "no model named by the response, without the blocker model_unreported"


def _output(call: Call) -> Iterator[str]:
    """The members that are taken from the output are those of the output."""
    output = call["output"]
    if call["response_capture_status"] == ResponseCaptureStatus.MISSING and output is not None:
        yield "an output, with response_capture_status missing"
    if call["execution_status"] != ExecutionStatus.COMPLETED:
        return
    if not isinstance(output, dict):
        yield "execution_status completed, without an output"
        return
    folded = READERS[Protocol(call["protocol"])](output, Warnings())
    missing = [one for one in _lowest_blockers(folded) if one not in call["export_blockers"]]
    if missing:
        yield f"the output has the blocker {missing[0]}, export_blockers does not"
    if folded.error is not None or folded.shape is not None:
        yield "execution_status completed, with an output that is none"
    for name, value in (("response_id", folded.response_id), ("usage", folded.usage)):
        if call[name] != value:
            yield f"{name} is not the one of the output"
    if call["model"]["responded"] != folded.model:
        yield "model.responded is not the one of the output"
    listed = [(ref["tool_call_id"], ref["item_id"], ref["name"]) for ref in call["tool_refs"]]
    if listed != [(ref.tool_call_id, ref.item_id, ref.name) for ref in folded.tool_refs]:
        yield "tool_refs are not the tool calls of the output"


def _lowest_blockers(folded: Folded) -> tuple[Blocker, ...]:
    missing = (Blocker.TOOL_CALL_MISSING,) if folded.tool_call_missing else ()
    return (*finish_blockers(folded.finish_reasons), *missing)
