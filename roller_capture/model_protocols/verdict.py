"""The truth table of one response (design section 5): from what was seen to statuses, blockers and errors. Pure.

Where two rows could apply, the order of the rows in `judge` decides: a provider's own error first, then the HTTP
status, then the content coding, then the terminal marker.
"""

from dataclasses import dataclass

from roller_capture.model_protocols.folding import Folded
from roller_capture.model_protocols.types import DecodeError
from roller_capture.vocabulary import Blocker, CallErrorCode, ExecutionStatus, HttpEnd, ResponseCaptureStatus

FINISH_BLOCKERS: dict[str, Blocker | None] = {
    "end_turn": None,
    "tool_use": None,
    "stop_sequence": None,
    "pause_turn": None,
    "refusal": None,
    "stop": None,
    "tool_calls": None,
    "function_call": None,
    "completed": None,
    "max_tokens": Blocker.OUTPUT_TRUNCATED,
    "length": Blocker.OUTPUT_TRUNCATED,
    "incomplete": Blocker.OUTPUT_TRUNCATED,
    "model_context_window_exceeded": Blocker.OUTPUT_TRUNCATED,
    "content_filter": Blocker.CONTENT_FILTERED,
}
"""What each finish word means for export; a word that is not here is unknown. One list for all protocols, since
gateways translate answers and leave the words of the model behind them."""

_BROKEN_OFF = frozenset({Blocker.OUTPUT_TRUNCATED, Blocker.CONTENT_FILTERED})
"""The service says itself that it broke the output off, so that a block without its end is no loss on the way."""

_CUT_MESSAGES = {
    HttpEnd.CUT_BY_CLIENT: "the client left",
    HttpEnd.CUT_BY_UPSTREAM: "the model service broke off",
    HttpEnd.CUT: "the exchange broke; nothing tells which side broke it",
    HttpEnd.PROXY_STOPPED: "the proxy was stopped",
    HttpEnd.PROXY_KILLED: "the proxy was killed",
    HttpEnd.UNREACHABLE: "the model service broke off",
    HttpEnd.COMPLETE: "there is no response head",
}


@dataclass(frozen=True, slots=True)
class Transfer:
    """How the bytes came. `status` is the HTTP status; `torn` tells that an event stream ends inside an event."""

    status: int
    http_end: HttpEnd
    encoded_bytes: int
    torn: bool = False
    coding_ended: bool = True
    coding_invalid: str | None = None
    coding_unknown: str | None = None
    too_large: bool = False
    disk_error: str | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def coding_broken(self) -> bool:
        """The coding is wrong, or did not end although HTTP did. A cut before its end is the cut's fault."""
        unfinished = self.http_end is HttpEnd.COMPLETE and not self.coding_ended
        return unfinished or self.coding_invalid is not None or self.coding_unknown is not None

    @property
    def whole(self) -> bool:
        """Did the body come to its own end?"""
        return self.http_end is HttpEnd.COMPLETE and not self.coding_broken


@dataclass(frozen=True, slots=True)
class Verdict:
    """The statuses of a response, what of it bars export, and what went wrong."""

    execution: ExecutionStatus
    capture: ResponseCaptureStatus
    blockers: tuple[Blocker, ...]
    errors: tuple[DecodeError, ...]


def judge_without_head(http_end: HttpEnd) -> Verdict:
    """No response head ever came: the service could not be reached, or someone left while waiting for it."""
    missing = ResponseCaptureStatus.MISSING
    if http_end is HttpEnd.UNREACHABLE:
        error = DecodeError(CallErrorCode.UPSTREAM_UNREACHABLE, "the model service could not be reached")
        return Verdict(ExecutionStatus.FAILED, missing, (Blocker.EXECUTION_NOT_COMPLETED,), (error,))
    error = DecodeError(CallErrorCode.RESPONSE_CUT, _CUT_MESSAGES[http_end])
    return Verdict(ExecutionStatus.INTERRUPTED, missing, (Blocker.RESPONSE_INCOMPLETE,), (error,))


def judge(transfer: Transfer, folded: Folded) -> Verdict:
    """The row of the truth table that applies.

    The terminal marker counts whoever broke the connection behind it, client or service. A body that ends inside an
    event, or whose coding did not end, has not come to a clean end.
    """
    execution = _execution(transfer, folded)
    capture, blockers = _completeness(transfer, folded, execution)
    return Verdict(execution, capture, blockers, tuple(_errors(transfer, folded, execution)))


def _execution(transfer: Transfer, folded: Folded) -> ExecutionStatus:
    clean = transfer.whole and not transfer.torn and not transfer.too_large and transfer.disk_error is None
    if folded.error is not None or (folded.shape is not None and (folded.terminal or clean)):
        return ExecutionStatus.FAILED
    if not transfer.ok:
        return ExecutionStatus.FAILED if transfer.whole else ExecutionStatus.INTERRUPTED
    if transfer.coding_broken:
        return ExecutionStatus.INTERRUPTED
    if folded.terminal or (folded.finished and clean):
        return ExecutionStatus.COMPLETED
    return ExecutionStatus.INTERRUPTED


def _completeness(
    transfer: Transfer, folded: Folded, execution: ExecutionStatus
) -> tuple[ResponseCaptureStatus, tuple[Blocker, ...]]:
    failed = (Blocker.EXECUTION_NOT_COMPLETED,) if execution is ExecutionStatus.FAILED else ()
    if transfer.too_large or transfer.disk_error is not None:
        return ResponseCaptureStatus.PARTIAL, (*failed, Blocker.CAPTURE_ERROR)
    if execution is ExecutionStatus.INTERRUPTED:
        missing = transfer.encoded_bytes == 0
        capture = ResponseCaptureStatus.MISSING if missing else ResponseCaptureStatus.PARTIAL
        return capture, (Blocker.RESPONSE_INCOMPLETE,)
    if execution is ExecutionStatus.FAILED:
        if transfer.coding_broken:
            return ResponseCaptureStatus.PARTIAL, (*failed, Blocker.RESPONSE_INCOMPLETE)
        return ResponseCaptureStatus.COMPLETE, failed
    blockers = finish_blockers(folded.finish_reasons)
    if folded.tool_call_missing:
        blockers = (*blockers, Blocker.TOOL_CALL_MISSING)
    loss = _loss(folded)
    if loss is not None:
        blockers = (*blockers, Blocker.RESPONSE_INCOMPLETE)
    partial = folded.tool_call_missing or loss is not None
    return ResponseCaptureStatus.PARTIAL if partial else ResponseCaptureStatus.COMPLETE, blockers


def _loss(folded: Folded) -> str | None:
    """What a completed response is known to lack."""
    if folded.loss is None and _BROKEN_OFF.isdisjoint(finish_blockers(folded.finish_reasons)):
        return folded.unfinished
    return folded.loss


def finish_blockers(reasons: tuple[str, ...]) -> tuple[Blocker, ...]:
    """What follows from the finish words; several choices can have several, and no word at all is unknown too."""
    found = [FINISH_BLOCKERS.get(reason, Blocker.FINISH_UNKNOWN) for reason in reasons] or [Blocker.FINISH_UNKNOWN]
    return tuple(dict.fromkeys(blocker for blocker in found if blocker is not None))


def _errors(transfer: Transfer, folded: Folded, execution: ExecutionStatus) -> list[DecodeError]:
    errors = []
    if not transfer.ok:
        message = f"HTTP {transfer.status}" + (f": {folded.error}" if folded.error is not None else "")
        errors.append(DecodeError(CallErrorCode.HTTP_ERROR, message))
    elif folded.error is not None:
        errors.append(DecodeError(CallErrorCode.PROVIDER_ERROR, folded.error))
    elif folded.shape is not None:
        errors.append(DecodeError(CallErrorCode.RESPONSE_UNPARSEABLE, folded.shape))
    errors += _coding_errors(transfer)
    if execution is ExecutionStatus.INTERRUPTED:
        if transfer.http_end is not HttpEnd.COMPLETE:
            errors.append(DecodeError(CallErrorCode.RESPONSE_CUT, _CUT_MESSAGES[transfer.http_end]))
        elif not errors:
            message = folded.loss or "the body ended without the protocol's end mark"
            errors.append(DecodeError(CallErrorCode.TERMINAL_MARKER_MISSING, message))
    else:
        loss = _loss(folded) if execution is ExecutionStatus.COMPLETED else folded.loss
        if loss is not None:
            errors.append(DecodeError(CallErrorCode.STREAM_DAMAGED, loss))
    return errors


def _coding_errors(transfer: Transfer) -> list[DecodeError]:
    errors = []
    if transfer.coding_unknown is not None:
        errors.append(DecodeError(CallErrorCode.CONTENT_CODING_UNKNOWN, transfer.coding_unknown[:80]))
    elif transfer.coding_invalid is not None:
        errors.append(DecodeError(CallErrorCode.CONTENT_CODING_INVALID, transfer.coding_invalid))
    elif transfer.coding_broken and not transfer.too_large:
        errors.append(DecodeError(CallErrorCode.CONTENT_CODING_INCOMPLETE, "the content coding did not end"))
    if transfer.too_large:
        errors.append(DecodeError(CallErrorCode.DECODED_BODY_TOO_LARGE, "the decoded body is larger than the limit"))
    if transfer.disk_error is not None:
        errors.append(DecodeError(CallErrorCode.DISK_ERROR, transfer.disk_error))
    return errors
