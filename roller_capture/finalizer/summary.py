"""The parts of the manifest that sum up: errors, participants, capabilities, counts."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from roller_capture.capture_protocol import NativeCapture, NativeParticipant
from roller_capture.finalizer.judge import JudgedCall
from roller_capture.records import AttemptError, Capabilities, Counts, NativeOutputCoverage, ParticipantRecord
from roller_capture.vocabulary import ExportStatus, IdentityStatus
from roller_capture.working_files import AttemptFault

_MOST_ERRORS_OF_A_CODE: Final = 50
_RESPONSE_ID: Final = "response_id"


def aggregate(faults: Iterable[AttemptFault]) -> list[AttemptError]:
    """Equal faults become one error with a count; of one code at most a few dozen are told apart."""
    groups: dict[tuple[Any, ...], list[AttemptFault]] = {}
    kinds: Counter[str] = Counter()
    for fault in faults:
        key: tuple[Any, ...] = (fault.code, fault.source, fault.message)
        if key not in groups:
            kinds[fault.code] += 1
            if kinds[fault.code] > _MOST_ERRORS_OF_A_CODE:
                key = (fault.code, None, "more of the same code, not listed one by one")
        groups.setdefault(key, []).append(fault)
    return [
        AttemptError(code=key[0], message=key[2], source=key[1], locator=group[0].locator, count=len(group))
        for key, group in groups.items()
    ]


def participants(
    participants: Iterable[NativeParticipant], ids: Mapping[str, str], judged: Iterable[JudgedCall]
) -> list[ParticipantRecord]:
    """Each participant with the calls that are proven to be its own."""
    owned: dict[str | None, list[str]] = {}
    for item in judged:
        owned.setdefault(item.identity.participant_key, []).append(item.call_id)
    return [
        ParticipantRecord(
            participant_id=ids[item.key],
            role=item.role,
            parent_participant_id=None if item.parent_key is None else ids[item.parent_key],
            native_ids={kind: list(values) for kind, values in item.native_ids.items()},
            execution_status=item.execution_status,
            identity_status=IdentityStatus.RESOLVED,
            call_ids=owned.get(item.key, []),
        )
        for item in participants
    ]


def capabilities(native: NativeCapture, coverage: NativeOutputCoverage) -> Capabilities:
    """What this harness, as it was run, can show: by which fields its logs tell owners, the provider's own id first."""
    fields = {claim.field for claim in native.identity_claims}
    for claim in native.absent_header_claims:
        fields |= {f"header:{name}" for name in (claim.header, *(name for name, _ in claim.required))}
    return Capabilities(
        subtasks=native.subtasks,
        identity=sorted(fields, key=lambda name: (name != _RESPONSE_ID, name)),
        native_id_headers=list(dict.fromkeys(item.header for item in native.identity_fields)),
        native_output_coverage=coverage,
    )


def counts(judged: Sequence[JudgedCall], relations: Counter[str], participants: int) -> Counts:
    """Totals over the records."""
    return Counts(
        calls=len(judged),
        exportable_calls=sum(item.statuses.export_status is ExportStatus.EXPORTABLE for item in judged),
        execution_status=dict(Counter(item.survey.response.execution_status.value for item in judged)),
        identity_status=dict(Counter(item.identity.status.value for item in judged)),
        capture_status=dict(Counter(item.statuses.capture_status.value for item in judged)),
        participants=participants,
        relations={str(kind): count for kind, count in relations.items()},
    )
