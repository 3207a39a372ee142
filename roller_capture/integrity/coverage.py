"""Coverage, lifecycle and status reasons: the manifest's own figures that follow from others (design section 8).

What the native logs held is not in the records; but how many outputs were expected, observed and missing, and how many
calls answered, are figures of one sum.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from roller_capture.integrity.call_facts import HEADER, RESPONSE_ID, CallFacts
from roller_capture.integrity.findings import Finding
from roller_capture.integrity.records import Seen
from roller_capture.publication import MANIFEST
from roller_capture.vocabulary import (
    AttemptErrorCode,
    CoverageStatus,
    CoverageStrength,
    LifecycleStatus,
    Role,
    StatusReason,
    SubtaskSupport,
)

Record = dict[str, Any]

_CONTEXT: Final = "context:"

_ONE: Final = frozenset(
    {
        StatusReason.COVERAGE_UNKNOWN,
        StatusReason.LIFECYCLE_PENDING,
        StatusReason.LIFECYCLE_UNKNOWN,
        StatusReason.RECORDER_NOT_CLOSED,
    }
)
_OF_THE_WHOLE: Final = _ONE | {StatusReason.COVERAGE_INCOMPLETE, StatusReason.ERRORS}


def check_coverage(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Coverage, lifecycle and reasons of a manifest that the finalizer wrote."""
    yield from (Finding(MANIFEST, text) for text in _fields(manifest, seen))
    coverage = manifest["capabilities"]["native_output_coverage"]
    yield from (Finding(MANIFEST, f"native_output_coverage: {text}") for text in _coverage(coverage, seen))
    yield from (Finding(MANIFEST, f"lifecycle: {text}") for text in _lifecycle(manifest))
    yield from (Finding(MANIFEST, text) for text in _reasons(manifest, coverage))


def _fields(manifest: Record, seen: Seen) -> Iterator[str]:
    """The fields by which owners are told: in order, each once, and every one that a call's evidence names. Each header
    among them is a native id too."""
    capabilities = manifest["capabilities"]
    if capabilities.get("native_id_headers") is None:
        yield from _fields_with_key(manifest)
        return
    fields = capabilities["identity"]
    if fields != sorted(set(fields), key=lambda name: (name != RESPONSE_ID, name)):
        yield "capabilities.identity names a field twice, or not in the order of its strength"
    headers = {f"{HEADER}{name}" for name in capabilities["native_id_headers"]}
    for name in fields:
        if name != RESPONSE_ID and not name.startswith(_CONTEXT) and name not in headers:
            yield f"capabilities.identity has {name}, which is no native id of a call"
    coverage = capabilities["native_output_coverage"]
    key = coverage["key"]
    if coverage["expected"] and key != RESPONSE_ID and not key.startswith((HEADER, _CONTEXT)):
        yield f"native outputs are compared by {key}, which is nothing that a call has"
    for name in sorted(frozenset().union(*(call.proofs for call in seen.calls)) - set(fields)):
        yield f"a call's evidence is {name}, which capabilities.identity does not have"


def _fields_with_key(manifest: Record) -> Iterator[str]:
    """Of earlier versions: coverage's key is the strongest identity field, unless each session counts it for itself;
    the others are headers, and none is named twice."""
    fields = manifest["capabilities"]["identity"]
    key = manifest["capabilities"]["native_output_coverage"]["key"]
    told = fields if key.startswith(_CONTEXT) and key not in fields else fields[1:]
    if (told is not fields and fields[:1] != [key]) or len(set(fields)) != len(fields):
        yield f"capabilities.identity does not begin with the coverage's key {key}, or names a field twice"
    if not all(name.startswith(HEADER) for name in told):
        yield "capabilities.identity has a field that is no header"


def _coverage(coverage: Record, seen: Seen) -> Iterator[str]:
    expected, observed, missing, surplus = (
        coverage[name] for name in ("expected", "observed", "missing", "surplus_calls")
    )
    status, strength, beside = coverage["status"], coverage["strength"], coverage["protocol_count"]
    compared = any((expected, observed, missing, surplus)) or status != CoverageStatus.UNKNOWN
    if strength == CoverageStrength.NONE and compared:
        yield "figures, with strength none"
    if beside is None and compared:
        yield "figures, without the protocol's own count: no native log was read"
    if beside is not None and beside["observed"] > _answered(seen)[1]:
        yield "protocol_count has observed more than calls answered"
    if strength == CoverageStrength.NONE or not compared:
        return
    if status not in _possible(coverage):
        yield f"status {status} does not follow from expected {expected}, observed {observed}, missing {len(missing)}"
    if strength == CoverageStrength.PER_ID:
        yield from _per_id(coverage, seen.calls)
    else:
        least, most = _answered(seen)
        if not least <= observed + surplus <= most:
            yield f"observed {observed} and surplus_calls {surplus} are not the {most} calls that answered"


def _possible(coverage: Record) -> tuple[str, ...]:
    expected, observed, missing = coverage["expected"], coverage["observed"], len(coverage["missing"])
    if observed + missing > expected or (coverage["strength"] == CoverageStrength.COUNT and missing):
        return ()
    if coverage["strength"] == CoverageStrength.COUNT:
        return (CoverageStatus.COMPLETE if observed == expected else CoverageStatus.INCOMPLETE,)
    if missing:
        return (CoverageStatus.INCOMPLETE,)
    return (CoverageStatus.COMPLETE if observed == expected else CoverageStatus.UNKNOWN,)


def _answered(seen: Seen) -> tuple[int, int]:
    """How many calls of participants answered, at least and at most: one that was cut counts where its log has its
    response id all the same."""
    owned = [call for call in seen.calls if call.owner is not None]
    least = sum(call.completed for call in owned)
    return least, least + sum(not call.completed and call.response_id is not None for call in owned)


def _per_id(coverage: Record, calls: Sequence[CallFacts]) -> Iterator[str]:
    """Each output has an id: `surplus_calls` are the completed calls without one that was expected. What participants
    number for themselves, in the context, can be missing more than once; any other id is one output's."""
    if not coverage["key"].startswith(_CONTEXT) and len(set(coverage["missing"])) < len(coverage["missing"]):
        yield "missing names an id twice"
    answers = [call for call in calls if call.completed]
    values = [_values(coverage["key"], call) for call in answers]
    if any(value is None for value in values):  # an id in the context, which is not read here
        if coverage["surplus_calls"] > len(answers):
            yield f"surplus_calls {coverage['surplus_calls']}, with {len(answers)} completed calls"
        return
    ids = frozenset().union(*(value for value in values if value))
    cut: frozenset[str] = frozenset()
    if coverage["key"] == RESPONSE_ID:
        cut = frozenset(call.response_id for call in calls if call.response_id is not None) - ids
    matched = len(answers) - coverage["surplus_calls"]
    carried = sum(len(value) for value in values if value)
    most = min(len(ids), matched + carried - sum(bool(value) for value in values)) + len(cut)
    if not (matched >= 0 and matched - (carried - len(ids)) <= coverage["observed"] <= most):
        yield (
            f"observed {coverage['observed']} and surplus_calls {coverage['surplus_calls']} do not fit "
            f"{len(answers)} completed calls with {len(ids)} ids"
        )
    found = sorted((ids | cut) & set(coverage["missing"]))
    if found:
        yield f"{found[0]} is missing, and a call has it"


def _values(key: str, call: CallFacts) -> frozenset[str] | None:
    """What the call has in the coverage's key; `None` where the record's head does not tell."""
    if key == RESPONSE_ID:
        return frozenset() if call.response_id is None else frozenset({call.response_id})
    return call.headers.get(key.removeprefix(HEADER), frozenset()) if key.startswith(HEADER) else None


def _lifecycle(manifest: Record) -> Iterator[str]:
    status, pending = manifest["lifecycle"]["status"], manifest["lifecycle"]["pending_participant_ids"]
    support = manifest["capabilities"]["subtasks"]
    children = {item["participant_id"] for item in manifest["participants"] if item["role"] == Role.CHILD}
    if not set(pending) <= children or len(set(pending)) != len(pending):
        yield "pending_participant_ids are no children, or named twice"
    if pending and status not in (LifecycleStatus.PENDING, LifecycleStatus.UNKNOWN):
        yield f"status {status}, with pending participants"
    if status == LifecycleStatus.PENDING and not pending:
        yield "status pending, without pending participants"
    possible = support == SubtaskSupport.NOT_AVAILABLE and not children
    if status != LifecycleStatus.UNKNOWN and (
        possible != (status == LifecycleStatus.UNSUPPORTED) or support == SubtaskSupport.UNKNOWN
    ):
        yield f"status {status} does not follow from subtasks {support} and {len(children)} children"


def _reasons(manifest: Record, coverage: Record) -> Iterator[str]:
    codes = [reason["code"] for reason in manifest["status_reasons"]]
    if len(set(codes)) != len(codes):
        yield "a status reason stands there twice"
    counts: Mapping[str, int] = {
        **dict.fromkeys(_ONE, 1),
        StatusReason.COVERAGE_INCOMPLETE: len(coverage["missing"]) or coverage["expected"] - coverage["observed"],
        StatusReason.ERRORS: len(manifest["errors"]),
    }
    for reason in manifest["status_reasons"]:
        if reason["code"] in _OF_THE_WHOLE and (reason["count"] != counts[reason["code"]] or reason["call_ids"]):
            yield f"status reason {reason['code']} has another count, or names calls"
    errors = {error["code"] for error in manifest["errors"]}
    # A time that no calendar holds (a clock that was set far back) is a damage of attempt.json.
    is_told = StatusReason.RECORDER_NOT_CLOSED in codes or AttemptErrorCode.ATTEMPT_FILE_UNREADABLE in errors
    if manifest["closed_at"] is None and not is_told:
        yield "closed_at is null, and recorder_not_closed no status reason"
    not_closed = AttemptErrorCode.RECORDER_NOT_CLOSED in errors
    if not_closed != (StatusReason.RECORDER_NOT_CLOSED in codes):
        yield "the error recorder_not_closed and the status reason contradict each other"
