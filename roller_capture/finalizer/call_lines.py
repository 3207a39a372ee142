"""Second pass: writes calls.jsonl, each request body's own text spliced behind the head of its line."""

import base64
from collections.abc import Iterable, Mapping, Sequence

from roller_capture import json_text
from roller_capture.capture_protocol import NativeCapture
from roller_capture.finalizer import raw_folder
from roller_capture.finalizer.judge import JudgedCall
from roller_capture.finalizer.survey import OutputSpool, SurveyedCall, read_request_body
from roller_capture.finalizer.times import milliseconds, timestamp
from roller_capture.json_text import RawJson
from roller_capture.publication import Staging
from roller_capture.records import (
    CallRecord,
    ContextRaw,
    Endpoint,
    Http,
    IdentityEvidence,
    Model,
    NativeIdentity,
    OutputWarningRecord,
    Timing,
    ToolRefRecord,
    plain,
)
from roller_capture.vocabulary import RawEncoding
from roller_capture.working_files import RecordedCall

_DEFAULT_PORTS = {"http": 80, "https": 443}


def stage_calls(
    judged: Sequence[JudgedCall],
    participant_ids: Mapping[str, str],
    native: NativeCapture,
    spool: OutputSpool,
    staging: Staging,
    *,
    raw_retained: bool,
    compressed: bool,
) -> None:
    """Writes each line's head, then the request body's own text behind it, without a copy of the two."""
    published_as = {item.header: item.published_as for item in native.identity_fields}
    with staging.open_calls(compressed=compressed) as writer:
        for item in judged:
            context, context_raw, exact = _context(item.survey)
            record = _call_record(
                item,
                participant_ids,
                published_as,
                output=RawJson(spool.get(item.survey.output)),
                context_exact=exact,
                context_raw=context_raw,
                response_path=raw_folder.response_path(item.call_id)
                if raw_retained and raw_folder.has_response_file(item.survey.recorded)
                else None,
            )
            head = plain(record)
            del head["context"]
            writer.write(json_text.dumps(head)[:-1])
            writer.write(b',"context":')
            writer.write(context)
            writer.write(b"}\n")
            staging.call_ends.append(writer.size)


def _context(call: SurveyedCall) -> tuple[bytes, ContextRaw | None, bool]:
    """The text for `context`, what stands in `context_raw` instead, and whether the text is exactly the body."""
    body = read_request_body(call.recorded)
    if body is None:
        return b"null", None, False
    if call.request.is_json:
        text, exact = json_text.one_line(body.data)
        return text, None, exact
    try:
        raw = ContextRaw(encoding=RawEncoding.UTF8, data=body.data.decode("utf-8"))
    except UnicodeDecodeError:
        raw = ContextRaw(encoding=RawEncoding.BASE64, data=base64.b64encode(body.data).decode())
    return b"null", raw, True


def _call_record(
    item: JudgedCall,
    participant_ids: Mapping[str, str],
    published_as: Mapping[str, str],
    *,
    output: RawJson,
    context_exact: bool,
    context_raw: ContextRaw | None,
    response_path: str | None,
) -> CallRecord:
    recorded, response, request = item.survey.recorded, item.survey.response, item.survey.request
    key = item.identity.participant_key
    # Built without validation: every value here is ours already, and the schema files check the written line.
    return CallRecord.model_construct(
        schema_="roller.call/v1",
        call_id=item.call_id,
        participant_id=None if key is None else participant_ids[key],
        identity_candidates=[participant_ids[candidate] for candidate in item.identity.candidates],
        sequence=recorded.sequence,
        protocol=recorded.protocol,
        endpoint=Endpoint(method=recorded.method, path=recorded.path, host=_host(recorded)),
        model=Model(requested=request.model, responded=response.model, match=item.model_match),
        purpose=item.purpose,
        execution_status=response.execution_status,
        response_capture_status=item.statuses.response_capture_status,
        identity_status=item.identity.status,
        capture_status=item.statuses.capture_status,
        export_status=item.statuses.export_status,
        export_blockers=item.statuses.blockers,
        output=output,
        output_warnings=[OutputWarningRecord(code=one.code, detail=one.detail) for one in response.warnings],
        response_id=response.response_id,
        tool_refs=[
            ToolRefRecord(tool_call_id=ref.tool_call_id, item_id=ref.item_id, name=ref.name)
            for ref in response.tool_refs
        ],
        usage=response.usage,
        http=_http(recorded),
        timing=_timing(recorded),
        errors=item.statuses.errors,
        native_identity=_native_identity(item, published_as),
        response_path=response_path,
        request_sha256=request.wire_sha256,
        context_sha256=request.context_sha256,
        context_exact=context_exact,
        context_raw=context_raw,
        context=None,
    )


def _host(call: RecordedCall) -> str:
    if call.port is None or call.port == _DEFAULT_PORTS.get(call.scheme):
        return call.host
    return f"[{call.host}]:{call.port}" if ":" in call.host else f"{call.host}:{call.port}"


def _http(call: RecordedCall) -> Http:
    return Http(
        status=call.status,
        request_version=call.request_version,
        response_version=call.response_version,
        request_headers=_header_map((*call.headers, *call.roller_headers)),
        request_other_headers=call.other_headers,
        response_headers=_header_map(call.response_headers),
        response_other_headers=call.response_other_headers,
    )


def _header_map(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in pairs:
        headers.setdefault(name, []).append(value)
    return headers


def _timing(call: RecordedCall) -> Timing:
    return Timing(
        request_start=timestamp(call.request_start),
        request_end=timestamp(call.request_end),
        first_byte=timestamp(call.first_byte_at),
        end=timestamp(call.ended_at),
        first_byte_ms=milliseconds(call.request_end_ns, call.first_byte_ns),
        duration_ms=milliseconds(call.request_end_ns, call.ended_ns),
        chunks=call.chunks,
    )


def _native_identity(item: JudgedCall, published_as: Mapping[str, str]) -> NativeIdentity:
    recorded = item.survey.recorded
    ids: dict[str, str] = {}
    for header, name in published_as.items():
        values = set(recorded.header_values(header))
        if len(values) == 1:
            ids[name] = values.pop()
    evidence: tuple[IdentityEvidence, ...] = item.identity.evidence
    if any(one.name == "response_id" for one in evidence):
        ids["message_id"] = item.survey.response.response_id or ""
    return NativeIdentity(evidence=list(evidence), **ids)
