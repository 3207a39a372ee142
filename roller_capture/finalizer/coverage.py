"""Does every model output that the native logs hold have its call? (design section 6: one-sided)"""

from collections.abc import Sequence

from roller_capture.capture_protocol import NativeCoverage, NativeOutput
from roller_capture.finalizer.identity import Identity
from roller_capture.finalizer.survey import SurveyedCall
from roller_capture.records import NativeOutputCoverage, ProtocolCount
from roller_capture.vocabulary import CoverageStatus, CoverageStrength, ExecutionStatus


def native_output_coverage(
    native: NativeCoverage, calls: Sequence[SurveyedCall], identities: Sequence[Identity]
) -> NativeOutputCoverage:
    """Compares native outputs with calls by the adapter's key. `identities` stand in the order of `calls`."""
    if native.outputs is None or native.strength is CoverageStrength.NONE:
        return _record(native, expected=0, observed=0, missing=[], surplus=0, status=CoverageStatus.UNKNOWN)
    if native.strength is CoverageStrength.PER_ID:
        return _per_id(native, native.outputs, calls)
    return _by_count(native, native.outputs, calls, identities)


def _per_id(
    native: NativeCoverage, outputs: tuple[NativeOutput, ...], calls: Sequence[SurveyedCall]
) -> NativeOutputCoverage:
    expected = {output.output_id for output in outputs if output.output_id is not None}
    nameless = sum(output.output_id is None for output in outputs)
    seen: set[str] = set()
    surplus = 0
    for call in calls:
        completed = call.response.execution_status is ExecutionStatus.COMPLETED
        ids = call.values(native.field)
        # A response id is itself an answer; an id of the request says only that one was asked for.
        if completed or native.field == "response_id":
            seen |= ids
        surplus += completed and not ids & expected
    missing = sorted(expected - seen)
    status = CoverageStatus.INCOMPLETE if missing else CoverageStatus.COMPLETE
    if nameless and not missing:
        status = CoverageStatus.UNKNOWN  # an output without an id can be compared with nothing
    return _record(
        native,
        expected=len(expected) + nameless,
        observed=len(expected & seen),
        missing=missing,
        surplus=surplus,
        status=status,
    )


def _by_count(
    native: NativeCoverage,
    outputs: tuple[NativeOutput, ...],
    calls: Sequence[SurveyedCall],
    identities: Sequence[Identity],
) -> NativeOutputCoverage:
    """Outputs without ids: each participant's number of completed calls must reach its number of outputs."""
    expected: dict[str, int] = {}
    for output in outputs:
        expected[output.participant_key] = expected.get(output.participant_key, 0) + 1
    made: dict[str, int] = {}
    for call, identity in zip(calls, identities, strict=True):
        if call.response.execution_status is ExecutionStatus.COMPLETED and identity.participant_key is not None:
            made[identity.participant_key] = made.get(identity.participant_key, 0) + 1
    observed = sum(min(count, made.get(key, 0)) for key, count in expected.items())
    complete = observed == len(outputs)
    return _record(
        native,
        expected=len(outputs),
        observed=observed,
        missing=[],
        surplus=sum(made.values()) - observed,
        status=CoverageStatus.COMPLETE if complete else CoverageStatus.INCOMPLETE,
    )


def _record(
    native: NativeCoverage, *, expected: int, observed: int, missing: list[str], surplus: int, status: CoverageStatus
) -> NativeOutputCoverage:
    return NativeOutputCoverage(
        key=native.field,
        strength=native.strength,
        expected=expected,
        observed=observed,
        missing=missing,
        surplus_calls=surplus,
        status=status,
        protocol_count=ProtocolCount(
            name=native.protocol_count_name, expected=sum(native.protocol_count.values()), observed=observed
        )
        if native.outputs is not None
        else None,
    )
