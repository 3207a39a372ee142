"""`finalize_capture`: the common finalizer (protocol, "Common layer and adapter layer").

It associates HTTP calls with participants, determines the statuses, makes the relations, and stages the files and the
manifest. The order of the steps reads like the protocol; each step is a function of its own module.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from roller_capture import __version__, json_text
from roller_capture.capture_protocol import NativeCapture, NativeSource
from roller_capture.derivation import derivation
from roller_capture.finalizer import raw_folder
from roller_capture.finalizer.call_lines import stage_calls
from roller_capture.finalizer.coverage import native_output_coverage
from roller_capture.finalizer.identity import Attributor, Identity
from roller_capture.finalizer.judge import JudgedCall, judge
from roller_capture.finalizer.relations import RelationWriter, UsableProbe, unclear_places, usable_probes
from roller_capture.finalizer.statuses import keeps_raw, lifecycle, status_reasons
from roller_capture.finalizer.summary import aggregate, capabilities, counts, participants
from roller_capture.finalizer.survey import Interest, OutputSpool, SurveyedCall, survey_call
from roller_capture.finalizer.times import timestamp
from roller_capture.publication import RELATIONS, Staging
from roller_capture.records import (
    AttemptError,
    HarnessInfo,
    Lifecycle,
    Manifest,
    NativeOutputCoverage,
    StatusReasonRecord,
    Tool,
    plain,
)
from roller_capture.vocabulary import AttemptErrorCode, CaptureStatus, DebugRetention, ExecutionStatus
from roller_capture.working_files import EVENTS, AttemptFault, WorkingAttempt


@dataclass(frozen=True, slots=True)
class FinalizeOptions:
    """What the caller decides."""

    capture_id: str
    harness: str
    execution_status: ExecutionStatus = ExecutionStatus.UNKNOWN
    debug_retention: DebugRetention = DebugRetention.ON_ERROR
    model_aliases: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[int, int], None] | None = None
    """Called with (calls done, calls in all) during the first pass."""
    compress: bool = False
    """Stage calls.jsonl.zst in the place of calls.jsonl."""


@dataclass(frozen=True, slots=True)
class _Decided:
    """All verdicts on an attempt, before anything is written."""

    judged: list[JudgedCall]
    identities: list[Identity]
    participant_ids: dict[str, str]
    coverage: NativeOutputCoverage
    lifecycle: Lifecycle
    probes: list[UsableProbe]
    sources: list[NativeSource]
    errors: list[AttemptError]
    reasons: list[StatusReasonRecord]
    capture_status: CaptureStatus
    raw_retained: bool


def finalize_capture(
    attempt: WorkingAttempt, native: NativeCapture, options: FinalizeOptions, staging: Staging
) -> Manifest:
    """Stages calls.jsonl, relations.jsonl, raw/ (if retained) and manifest.json, and returns the manifest."""
    scope = options.capture_id.removeprefix("cap_")
    spool = OutputSpool(staging.directory)
    try:
        surveyed = _survey(attempt, native, options, spool)
        decided = _decide(attempt, native, options, surveyed, scope)
        stage_calls(
            decided.judged,
            decided.participant_ids,
            native,
            spool,
            staging,
            raw_retained=decided.raw_retained,
            compressed=options.compress,
        )
    finally:
        spool.close()
    call_ids = [item.call_id for item in decided.judged]
    writer = RelationWriter(
        native,
        surveyed,
        decided.identities,
        scope=scope,
        call_ids=call_ids,
        participant_ids=decided.participant_ids,
        retained_sources=_retained(decided.sources) if decided.raw_retained else frozenset(),
    )
    relation_counts = _stage_relations(writer, decided.probes, staging)
    if decided.raw_retained:
        _stage_raw(attempt, decided.sources, call_ids, staging)
    manifest = _manifest(attempt, native, options, decided, relation_counts, staging)
    staging.write_manifest(manifest)
    return manifest


def _decide(
    attempt: WorkingAttempt,
    native: NativeCapture,
    options: FinalizeOptions,
    surveyed: list[SurveyedCall],
    scope: str,
) -> _Decided:
    attributor = Attributor(native, surveyed)
    identities = [attributor.attribute(call) for call in surveyed]
    judged = judge(surveyed, identities, native, options.model_aliases, scope)
    verdicts = [item.verdict for item in judged]
    participant_ids = {item.key: f"p_{scope}_{index + 1:03d}" for index, item in enumerate(native.participants)}
    coverage = native_output_coverage(native.coverage, surveyed, identities)
    life = lifecycle(native.participants, participant_ids, native.subtasks, native.lifecycle)
    probes, unproven = usable_probes(native, surveyed, identities)
    sources, refused = raw_folder.usable_sources(native)
    unproven += unclear_places(probes, surveyed, identities)
    errors = aggregate([*attempt.faults, *_gap_faults(native), *_hook_faults(native, judged), *unproven, *refused])
    reasons = status_reasons(verdicts, coverage, life.status, recorder_closed=attempt.closed, error_count=len(errors))
    capture_status = CaptureStatus.PARTIAL if reasons else CaptureStatus.COMPLETE
    raw_retained = keeps_raw(
        options.debug_retention, options.execution_status, capture_status, verdicts, native.participants
    )
    return _Decided(
        judged,
        identities,
        participant_ids,
        coverage,
        life,
        probes,
        sources,
        errors,
        reasons,
        capture_status,
        raw_retained,
    )


def _manifest(
    attempt: WorkingAttempt,
    native: NativeCapture,
    options: FinalizeOptions,
    decided: _Decided,
    relation_counts: Counter[str],
    staging: Staging,
) -> Manifest:
    return Manifest(
        schema_="roller.capture/v1",
        capture_id=options.capture_id,
        storage_layout="compact/v2",
        harness=HarnessInfo(name=options.harness, version=native.harness_version, tested=native.version_tested),
        started_at=timestamp(attempt.started_at),
        closed_at=timestamp(attempt.closed_at),
        execution_status=options.execution_status,
        capture_status=decided.capture_status,
        status_reasons=decided.reasons,
        debug_retention=options.debug_retention,
        raw_retained=decided.raw_retained,
        lifecycle=decided.lifecycle,
        participants=participants(native.participants, decided.participant_ids, decided.judged),
        capabilities=capabilities(native, decided.coverage),
        counts=counts(decided.judged, relation_counts, len(native.participants)),
        other_requests=attempt.other_requests,
        errors=decided.errors,
        files=staging.files,
        calls_compression=staging.calls_compression,
        tool=Tool(
            name="roller-capture",
            version=__version__,
            recorder_version=attempt.recorder_version,
            derivation=derivation(),
        ),
    )


def _survey(
    attempt: WorkingAttempt, native: NativeCapture, options: FinalizeOptions, spool: OutputSpool
) -> list[SurveyedCall]:
    interest = Interest.of(native)
    surveyed: list[SurveyedCall] = []
    for index, call in enumerate(attempt.calls):
        surveyed.append(survey_call(call, interest, spool))
        if options.progress is not None:
            options.progress(index + 1, len(attempt.calls))
    return surveyed


def _hook_faults(native: NativeCapture, judged: Sequence[JudgedCall]) -> list[AttemptFault]:
    """Calls on which our hook should have put its header, and did not: each is one fault, published with a count."""
    if native.hook_header is None:
        return []
    message = f"a model call carries no {native.hook_header}"
    unseen = [
        item
        for item in judged
        if not item.side_call
        and not item.survey.recorded.foreign_credential
        and not item.survey.recorded.header_values(native.hook_header)
    ]
    return [AttemptFault(AttemptErrorCode.HOOK_NOT_SEEN, message) for _ in unseen]


def _gap_faults(native: NativeCapture) -> list[AttemptFault]:
    return [AttemptFault(gap.code, gap.message, gap.source, gap.locator) for gap in native.gaps]


def _stage_relations(writer: RelationWriter, probes: Sequence[UsableProbe], staging: Staging) -> Counter[str]:
    counts: Counter[str] = Counter()
    with staging.open(RELATIONS) as stream:
        for relations in (writer.native_relations(), writer.context_relations(probes)):
            for relation in relations:
                counts[relation.type] += 1
                stream.write(json_text.dumps(plain(relation)) + b"\n")
    return counts


def _retained(sources: Iterable[NativeSource]) -> frozenset[str]:
    return frozenset({EVENTS, *(item.source for item in sources)})


def _stage_raw(
    attempt: WorkingAttempt, sources: Iterable[NativeSource], call_ids: Sequence[str], staging: Staging
) -> None:
    placed = raw_folder.stage_native_sources(sources, staging)
    raw_folder.stage_responses(attempt.calls, call_ids, staging)
    kept = raw_folder.stage_kept_bodies(attempt, staging)
    raw_folder.stage_events(attempt, call_ids, kept, staging)
    raw_folder.stage_sources(placed, staging)
