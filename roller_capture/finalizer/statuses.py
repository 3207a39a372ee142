"""The statuses: pure functions from what was seen to the protocol's words (design sections 5 and 8)."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from roller_capture.capture_protocol import NativeParticipant
from roller_capture.finalizer.identity import Identity
from roller_capture.finalizer.survey import SurveyedCall, response_file_errors
from roller_capture.model_protocols.types import DecodeError
from roller_capture.records import CallError, Lifecycle, NativeOutputCoverage, StatusReasonRecord
from roller_capture.vocabulary import (
    Blocker,
    CallErrorCode,
    CaptureStatus,
    CoverageStatus,
    CutBy,
    DebugRetention,
    ExecutionStatus,
    ExportStatus,
    IdentityStatus,
    LifecycleStatus,
    ModelMatch,
    ResponseCaptureStatus,
    Role,
    StatusReason,
    SubtaskSupport,
)

_CAPTURE_ERRORS = frozenset(
    {
        CallErrorCode.DISK_ERROR,
        CallErrorCode.RECORDER_ERROR,
        CallErrorCode.BODY_FILE_DAMAGED,
        CallErrorCode.DECODED_BODY_TOO_LARGE,
        CallErrorCode.IMPORT_BYTES_UNPROVEN,
        CallErrorCode.IMPORT_BODY_MISSING,
        CallErrorCode.IMPORT_ALTERED,
    }
)
_MODEL_BLOCKERS: dict[str, Blocker] = {
    ModelMatch.MISMATCH: Blocker.MODEL_MISMATCH,
    ModelMatch.UNREQUESTED: Blocker.MODEL_MISMATCH,
    ModelMatch.UNREPORTED: Blocker.MODEL_UNREPORTED,
}


class CallStatuses(NamedTuple):
    """The statuses of one call that do not come from the response alone."""

    response_capture_status: ResponseCaptureStatus
    capture_status: CaptureStatus
    export_status: ExportStatus
    blockers: list[Blocker]
    errors: list[CallError]


def call_statuses(call: SurveyedCall, identity: Identity, model_match: str) -> CallStatuses:
    """Joins what the request, the response, the files, the model names and the identity say about one call."""
    errors = _call_errors(call, identity)
    # A response that was recorded and is gone is not on disk, whatever its head says of it.
    gone = bool(response_file_errors(call.recorded))
    damaged = gone or any(error.code in _CAPTURE_ERRORS for error in errors) or _not_stored(call)
    response_status = call.response.response_capture_status
    if damaged and response_status is ResponseCaptureStatus.COMPLETE:
        response_status = ResponseCaptureStatus.PARTIAL
    whole = call.request.whole and response_status is ResponseCaptureStatus.COMPLETE and not damaged
    blockers = list(call.response.blockers)
    if damaged:
        blockers.append(Blocker.CAPTURE_ERROR)
    if not call.request.whole:
        blockers.append(Blocker.REQUEST_INCOMPLETE)
    if not call.request.is_json:
        blockers.append(Blocker.CONTEXT_NOT_JSON)
    if identity.status is not IdentityStatus.RESOLVED:
        blockers.append(Blocker.IDENTITY_UNRESOLVED)
    # A failed call names no model, and a request that is no JSON asks for none: their own blockers say so already.
    if (
        model_match in _MODEL_BLOCKERS
        and (call.response.model is not None or call.response.execution_status is ExecutionStatus.COMPLETED)
        and (call.request.is_json or model_match != ModelMatch.UNREQUESTED)
    ):
        blockers.append(_MODEL_BLOCKERS[model_match])
    blockers = list(dict.fromkeys(blockers))
    return CallStatuses(
        response_status,
        CaptureStatus.COMPLETE if whole else CaptureStatus.PARTIAL,
        ExportStatus.BLOCKED if blockers else ExportStatus.EXPORTABLE,
        blockers,
        errors,
    )


def _call_errors(call: SurveyedCall, identity: Identity) -> list[CallError]:
    recorded = call.recorded
    errors = [*call.request.errors, *response_file_errors(recorded)]
    # Of a body that nobody kept, nobody can say that its end mark was missing.
    unseen = any(code is CallErrorCode.IMPORT_BODY_MISSING for code, _ in recorded.recorder_errors)
    errors += [CallError(code=code, message=message) for code, message in recorded.recorder_errors]
    errors += [
        CallError(code=error.code, message=_message(call, error), cut_by=_cut_by(call, error.code))
        for error in call.response.errors
        if not (unseen and error.code is CallErrorCode.TERMINAL_MARKER_MISSING)
    ]
    if recorded.masked:
        message = "a credential that the response echoed is masked in the stored copy"
        if _not_stored(call):
            message = "the encoded error body was too large to be checked for credentials, so it was not stored"
        errors.append(CallError(code=CallErrorCode.CREDENTIAL_MASKED, message=message))
    if recorded.foreign_credential:
        message = "the request did not carry this attempt's credential: nothing shows that an agent of this run made it"
        errors.append(CallError(code=CallErrorCode.FOREIGN_CREDENTIAL, message=message))
    if identity.conflict is not None:
        errors.append(CallError(code=CallErrorCode.IDENTITY_CONFLICT, message=identity.conflict))
    return errors


def _message(call: SurveyedCall, error: DecodeError) -> str:
    """Where the proxy itself cut a call, or nobody knows who did, the recorder's own words say the most; where the
    service was not reached, they say why."""
    told = call.recorded.failure_message
    if error.code is CallErrorCode.UPSTREAM_UNREACHABLE:
        return f"{error.message}: {told}" if told else error.message
    own_words = error.code is CallErrorCode.RESPONSE_CUT and call.recorded.cut_by in (CutBy.PROXY, None)
    return told if own_words and told else error.message


def _not_stored(call: SurveyedCall) -> bool:
    """An encoded error body that the recorder could not check is not on disk; only its event says so."""
    return call.recorded.masked == "decoded" and call.recorded.response_body is None


_CUTS = frozenset({CallErrorCode.RESPONSE_CUT, CallErrorCode.REQUEST_CUT})


def _cut_by(call: SurveyedCall, code: CallErrorCode) -> CutBy | None:
    return call.recorded.cut_by if code in _CUTS else None


def lifecycle(
    participants: Iterable[NativeParticipant],
    ids: dict[str, str],
    subtasks: SubtaskSupport,
    override: LifecycleStatus | None,
) -> Lifecycle:
    """Have all subtasks ended and been delivered? Pending participants are named by their published ids."""
    children = [item for item in participants if item.role is Role.CHILD]
    pending = [ids[item.key] for item in children if item.lifecycle is LifecycleStatus.PENDING]
    if override is not None:
        return Lifecycle(status=override, pending_participant_ids=pending)
    if subtasks is SubtaskSupport.NOT_AVAILABLE and not children:
        return Lifecycle(status=LifecycleStatus.UNSUPPORTED, pending_participant_ids=[])
    if any(item.lifecycle is LifecycleStatus.UNKNOWN for item in children) or subtasks is SubtaskSupport.UNKNOWN:
        return Lifecycle(status=LifecycleStatus.UNKNOWN, pending_participant_ids=pending)
    status = LifecycleStatus.PENDING if pending else LifecycleStatus.COMPLETE
    return Lifecycle(status=status, pending_participant_ids=pending)


class CallVerdict(NamedTuple):
    """What the whole needs to know of one call."""

    call_id: str
    execution_status: ExecutionStatus
    capture_status: CaptureStatus
    identity_status: IdentityStatus
    side_call: bool


def status_reasons(
    verdicts: Sequence[CallVerdict],
    coverage: NativeOutputCoverage,
    lifecycle_status: LifecycleStatus,
    *,
    recorder_closed: bool,
    error_count: int,
) -> list[StatusReasonRecord]:
    """Every reason why the capture is not complete; none means complete (design section 8)."""
    by_call = {
        StatusReason.CALL_INCOMPLETE: [
            item.call_id for item in verdicts if item.capture_status is not CaptureStatus.COMPLETE
        ],
        StatusReason.IDENTITY_AMBIGUOUS: [
            item.call_id for item in verdicts if item.identity_status is IdentityStatus.AMBIGUOUS
        ],
        StatusReason.IDENTITY_UNATTRIBUTED: [
            item.call_id
            for item in verdicts
            if item.identity_status is IdentityStatus.UNATTRIBUTED and not item.side_call
        ],
    }
    reasons = [
        StatusReasonRecord(code=code, count=len(call_ids), call_ids=call_ids)
        for code, call_ids in by_call.items()
        if call_ids
    ]
    whole = {
        StatusReason.COVERAGE_INCOMPLETE: len(coverage.missing) or coverage.expected - coverage.observed
        if coverage.status is CoverageStatus.INCOMPLETE
        else 0,
        StatusReason.COVERAGE_UNKNOWN: int(coverage.status is CoverageStatus.UNKNOWN),
        StatusReason.LIFECYCLE_PENDING: int(lifecycle_status is LifecycleStatus.PENDING),
        StatusReason.LIFECYCLE_UNKNOWN: int(lifecycle_status is LifecycleStatus.UNKNOWN),
        StatusReason.RECORDER_NOT_CLOSED: int(not recorder_closed),
        StatusReason.ERRORS: error_count,
    }
    reasons += [StatusReasonRecord(code=code, count=count, call_ids=[]) for code, count in whole.items() if count]
    return reasons


def keeps_raw(
    retention: DebugRetention,
    execution_status: ExecutionStatus,
    capture_status: CaptureStatus,
    verdicts: Iterable[CallVerdict],
    participants: Iterable[NativeParticipant],
) -> bool:
    """Is `raw/` kept (design section 4)?"""
    if retention is not DebugRetention.ON_ERROR:
        return retention is DebugRetention.FULL
    return (
        execution_status is not ExecutionStatus.COMPLETED
        or capture_status is not CaptureStatus.COMPLETE
        or any(item.execution_status is not ExecutionStatus.COMPLETED for item in verdicts)
        or any(
            item.role is Role.CHILD and item.execution_status is not ExecutionStatus.COMPLETED for item in participants
        )
    )
