"""An old call record, made into one of today's."""

from typing import Any, Final

from roller_capture.finalizer.model_names import match_models
from roller_capture.model_protocols.folding import Folded, Warnings
from roller_capture.model_protocols.response import READERS
from roller_capture.model_protocols.verdict import finish_blockers
from roller_capture.vocabulary import (
    Blocker,
    CaptureStatus,
    ExecutionStatus,
    ExportStatus,
    IdentityStatus,
    ModelMatch,
    Protocol,
    Purpose,
    ResponseCaptureStatus,
)

Record = dict[str, Any]

CALL_MEMBERS: Final[Record] = {
    "identity_candidates": [],
    "purpose": Purpose.UNKNOWN,
    "output": None,
    "output_warnings": [],
    "response_id": None,
    "tool_refs": [],
    "usage": None,
    "errors": [],
    "response_path": None,
    "request_sha256": None,
    "context_sha256": None,
    "context_exact": False,
}
_HTTP: Final[Record] = {
    "status": None,
    "request_version": None,
    "response_version": None,
    "request_headers": {},
    "request_other_headers": [],
    "response_headers": {},
    "response_other_headers": [],
}
_TIMING: Final[Record] = {
    "request_start": None,
    "request_end": None,
    "first_byte": None,
    "end": None,
    "first_byte_ms": None,
    "duration_ms": None,
    "chunks": 0,
}
_ENDPOINT: Final[Record] = {"method": "POST", "path": "", "host": ""}
_MODEL_BLOCKERS: Final = {
    ModelMatch.MISMATCH: Blocker.MODEL_MISMATCH,
    ModelMatch.UNREQUESTED: Blocker.MODEL_MISMATCH,
    ModelMatch.UNREPORTED: Blocker.MODEL_UNREPORTED,
}
_ORDER: Final[tuple[str, ...]] = (
    "schema", "call_id", "participant_id", "identity_candidates", "sequence", "protocol", "endpoint", "model",
    "purpose", "execution_status", "response_capture_status", "identity_status", "capture_status", "export_status",
    "export_blockers", "output", "output_warnings", "response_id", "tool_refs", "usage", "http", "timing", "errors",
    "native_identity", "response_path", "request_sha256", "context_sha256", "context_exact", "context_raw",
)  # fmt: skip


def upgraded_call(head: Record, *, owner: str | None, number: int, asked: str | None) -> Record:
    """The head of an old call with every member that today's has; what stands there stays.

    `owner` is the participant whose folder it lay in, `number` its place for reading, `asked` the model that its
    context names. Statuses that the record lacks follow from its output by the truth table (design section 5).
    """
    record: Record = {"schema": "roller.call/v1", "sequence": number, **CALL_MEMBERS, **head}
    record.setdefault("participant_id", owner)
    record["http"] = _filled(_HTTP, record.get("http"))
    record["timing"] = _filled(_TIMING, record.get("timing"))
    record["endpoint"] = _filled(_ENDPOINT, record.get("endpoint"))
    record["native_identity"] = _filled({"evidence": []}, record.get("native_identity"))
    folded = _folded(record)
    _fill_from_output(record, folded)
    _fill_model(record, folded, asked)
    _fill_statuses(record, folded)
    known = {name: record[name] for name in _ORDER if name in record}
    return {**known, **{name: value for name, value in record.items() if name not in known}}


def _filled(defaults: Record, value: Any) -> Any:
    return {**defaults, **value} if isinstance(value, dict) else (dict(defaults) if value is None else value)


def _folded(record: Record) -> Folded:
    protocol = next((one for one in Protocol if one == record.get("protocol")), None)
    if protocol is None or not isinstance(record["output"], dict):
        return Folded()
    return READERS[protocol](record["output"], Warnings())


def _fill_from_output(record: Record, folded: Folded) -> None:
    if record["response_id"] is None:
        record["response_id"] = folded.response_id
    if record["usage"] is None:
        record["usage"] = folded.usage
    if not record["tool_refs"]:
        record["tool_refs"] = [
            {"tool_call_id": ref.tool_call_id, "item_id": ref.item_id, "name": ref.name} for ref in folded.tool_refs
        ]


def _fill_model(record: Record, folded: Folded, asked: str | None) -> None:
    model = record.get("model")
    if isinstance(model, str):
        model = {"requested": model}
    if model is None or isinstance(model, dict):
        model = {"requested": asked, "responded": folded.model, **(model or {})}
        if "match" not in model:
            model["match"] = match_models(model["requested"], model["responded"], {})
    record["model"] = model


def _fill_statuses(record: Record, folded: Folded) -> None:
    execution = record.setdefault("execution_status", _execution(folded))
    response = record.setdefault("response_capture_status", _response(execution, record["output"]))
    whole = response == ResponseCaptureStatus.COMPLETE
    record.setdefault("capture_status", CaptureStatus.COMPLETE if whole else CaptureStatus.PARTIAL)
    named = record["participant_id"] is not None
    record.setdefault("identity_status", IdentityStatus.RESOLVED if named else IdentityStatus.UNATTRIBUTED)
    if "export_blockers" not in record:
        record["export_blockers"] = list(dict.fromkeys(_blockers(record, folded)))
    record.setdefault("export_status", ExportStatus.BLOCKED if record["export_blockers"] else ExportStatus.EXPORTABLE)


def _execution(folded: Folded) -> ExecutionStatus:
    if folded.error is not None:
        return ExecutionStatus.FAILED
    return ExecutionStatus.COMPLETED if folded.finish_reasons else ExecutionStatus.INTERRUPTED


def _response(execution: Any, output: Any) -> ResponseCaptureStatus:
    if output is None:
        return ResponseCaptureStatus.MISSING
    interrupted = execution == ExecutionStatus.INTERRUPTED
    return ResponseCaptureStatus.PARTIAL if interrupted else ResponseCaptureStatus.COMPLETE


def _blockers(record: Record, folded: Folded) -> list[Blocker]:
    blockers: list[Blocker] = []
    execution = record["execution_status"]
    if execution == ExecutionStatus.FAILED:
        blockers.append(Blocker.EXECUTION_NOT_COMPLETED)
    elif execution == ExecutionStatus.COMPLETED:
        blockers += finish_blockers(folded.finish_reasons)
    else:
        blockers.append(Blocker.RESPONSE_INCOMPLETE)
    if record["identity_status"] != IdentityStatus.RESOLVED:
        blockers.append(Blocker.IDENTITY_UNRESOLVED)
    if "context_raw" in record:
        blockers.append(Blocker.CONTEXT_NOT_JSON)
    model = record["model"]
    match = model.get("match") if isinstance(model, dict) else None
    if match in _MODEL_BLOCKERS and execution == ExecutionStatus.COMPLETED:
        blockers.append(_MODEL_BLOCKERS[match])
    return blockers
