"""Do the statuses of one published call follow from what stands beside them?

The hash finds a changed byte; this finds a record that was changed together with its hashes: a status raised by hand, a
blocker taken out, an output exchanged. Each rule is a row of the design's truth table (section 5), read backwards from
the record. A record may always say less than its data would allow (an oddity of the stream that the output does not
show); it may never say more.
"""

import base64
import hashlib
from collections.abc import Iterator
from typing import Any, Final

from roller_capture.finalizer.model_names import match_models
from roller_capture.integrity.evidence_rules import evidence_contradictions
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
    RawEncoding,
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
    CallErrorCode.IMPORT_BYTES_UNPROVEN: Blocker.CAPTURE_ERROR,
    CallErrorCode.IMPORT_BODY_MISSING: Blocker.CAPTURE_ERROR,
    CallErrorCode.IMPORT_ALTERED: Blocker.CAPTURE_ERROR,
    CallErrorCode.REQUEST_CUT: Blocker.REQUEST_INCOMPLETE,
    CallErrorCode.FOREIGN_CREDENTIAL: Blocker.IDENTITY_UNRESOLVED,
    CallErrorCode.IDENTITY_CONFLICT: Blocker.IDENTITY_UNRESOLVED,
}
_ENDPOINTS: Final = {
    "/messages": Protocol.ANTHROPIC_MESSAGES,
    "/chat/completions": Protocol.OPENAI_CHAT_COMPLETIONS,
    "/responses": Protocol.OPENAI_RESPONSES,
}
"""As every service spells them; a path that ends otherwise says nothing here."""

_FAILURES: Final = frozenset(
    {
        CallErrorCode.HTTP_ERROR,
        CallErrorCode.PROVIDER_ERROR,
        CallErrorCode.RESPONSE_UNPARSEABLE,
        CallErrorCode.UPSTREAM_UNREACHABLE,
    }
)
_CODINGS: Final = frozenset(
    {
        CallErrorCode.CONTENT_CODING_INCOMPLETE,
        CallErrorCode.CONTENT_CODING_INVALID,
        CallErrorCode.CONTENT_CODING_UNKNOWN,
    }
)
_OF_THE_RESPONSE: Final = _NOT_COMPLETED | {CallErrorCode.STREAM_DAMAGED, CallErrorCode.CREDENTIAL_MASKED}
_CUTS: Final = frozenset({CallErrorCode.RESPONSE_CUT, CallErrorCode.REQUEST_CUT})
_MISMATCHES: Final = frozenset({ModelMatch.MISMATCH, ModelMatch.UNREQUESTED})
_LOSS_OF_A_BODY: Final = frozenset({CallErrorCode.CREDENTIAL_MASKED, CallErrorCode.BODY_FILE_MISSING})
_LOWERS_CAPTURE: Final = frozenset({Blocker.CAPTURE_ERROR, Blocker.REQUEST_INCOMPLETE})


def contradictions(call: Call) -> Iterator[str]:
    """What in a call's record, which fits the schema, cannot be true together. Nothing for a record of ours."""
    yield from _execution(call)
    yield from _completed(call)
    if _tells_of_http(call):
        yield from _causes(call)
        yield from _request(call)
        yield from evidence_contradictions(call)
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


def _causes(call: Call) -> Iterator[str]:
    """Each status and blocker that lowers a call has an error that says why, and each error stands where it can."""
    codes, blockers, execution = _codes(call), call["export_blockers"], call["execution_status"]
    imported = any(code.startswith("import_") for code in codes)
    status = call["http"]["status"]
    if len(set(blockers)) != len(blockers):
        yield "a blocker stands there twice"
    if (CallErrorCode.HTTP_ERROR in codes) != (status is not None and not _is_good(status)):
        yield f"the error http_error and HTTP status {status} contradict each other"
    if execution == ExecutionStatus.FAILED and not codes & _FAILURES:
        yield "execution_status failed, without an error that says why"
    if execution == ExecutionStatus.INTERRUPTED and not imported and not codes - {CallErrorCode.CREDENTIAL_MASKED}:
        yield "execution_status interrupted, without an error that says why"
    whole = execution == ExecutionStatus.COMPLETED and CallErrorCode.STREAM_DAMAGED not in codes
    if Blocker.RESPONSE_INCOMPLETE in blockers and (
        whole or (execution == ExecutionStatus.FAILED and not codes & _CODINGS)
    ):
        yield "the blocker response_incomplete, without an error for it"
    if Blocker.REQUEST_INCOMPLETE in blockers and not codes - _OF_THE_RESPONSE:
        yield "the blocker request_incomplete, without an error for it"
    lossy = {code for code, blocker in _ERROR_BLOCKERS.items() if blocker == Blocker.CAPTURE_ERROR}
    if Blocker.CAPTURE_ERROR in blockers and not codes & (lossy | _LOSS_OF_A_BODY):
        yield "the blocker capture_error, without an error for it"
    if Blocker.MODEL_MISMATCH in blockers and call["model"]["match"] not in _MISMATCHES:
        yield f"the blocker model_mismatch, with model.match {call['model']['match']}"
    if Blocker.MODEL_UNREPORTED in blockers and call["model"]["match"] != ModelMatch.UNREPORTED:
        yield f"the blocker model_unreported, with model.match {call['model']['match']}"
    if any(error.get("cut_by") is not None and error["code"] not in _CUTS for error in call["errors"]):
        yield "cut_by of an error that is no cut"


def _request(call: Call) -> Iterator[str]:
    """Endpoint, hashes and form of the request body."""
    path = call["endpoint"]["path"].partition("?")[0].rstrip("/")
    named = next((protocol for ending, protocol in _ENDPOINTS.items() if path.endswith(ending)), None)
    if named is not None and named != call["protocol"]:
        yield f"protocol {call['protocol']}, of an endpoint of {named}"
    http, raw = call["http"], call.get("context_raw")
    body = call["context_sha256"] is not None
    coded = "content-encoding" in {*http["request_headers"], *http["request_other_headers"]}
    if not coded and not _codes(call) & _CODINGS and call["request_sha256"] not in (call["context_sha256"], None):
        yield "request_sha256 and context_sha256 differ, of a body without content-encoding"
    if call["request_sha256"] is not None and not body:
        yield "request_sha256 without context_sha256"
    if call["request_sha256"] is None and body and not any(code.startswith("import_") for code in _codes(call)):
        yield "context_sha256 without request_sha256, of a call that was recorded here"
    if (Blocker.CONTEXT_NOT_JSON in call["export_blockers"]) != (raw is not None or not body):
        yield "the blocker context_not_json and the form of the context contradict each other"
    if call["context_exact"] and not body:
        yield "context_exact, without context_sha256"
    if raw is not None:
        data = raw_body(raw)
        if data is None or not call["context_exact"] or hashlib.sha256(data).hexdigest() != call["context_sha256"]:
            yield "context_raw is not the body of context_sha256"


def raw_body(raw: dict[str, str]) -> bytes | None:
    """The bytes of `context_raw`; `None` where it does not hold any."""
    if raw["encoding"] == RawEncoding.UTF8:
        return raw["data"].encode("utf-8", "surrogatepass")
    try:
        return base64.b64decode(raw["data"], validate=True)
    except ValueError:
        return None


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
        yield from _partial_output(call)
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
    yield from _taken(call, folded)


def _partial_output(call: Call) -> Iterator[str]:
    """Of a call that did not complete, what came says the same too; an answer that broke off with an error is read
    as that error alone."""
    output = call["output"]
    if isinstance(output, dict):
        folded = READERS[Protocol(call["protocol"])](output, Warnings())
        if folded.error is None or "id" not in output:
            yield from _taken(call, folded)
    elif output is None:
        yield from _taken(call, Folded())


def _taken(call: Call, folded: Folded) -> Iterator[str]:
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
