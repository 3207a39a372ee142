"""Does every model output that the native logs hold have its call? (design section 6: one-sided)"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from roller_capture.capture_protocol import NativeCoverage, NativeOutput
from roller_capture.finalizer.identity import Identity
from roller_capture.finalizer.survey import SurveyedCall
from roller_capture.records import NativeOutputCoverage, ProtocolCount
from roller_capture.vocabulary import CoverageStatus, CoverageStrength, ExecutionStatus

_RESPONSE_ID: Final = "response_id"
_Key = tuple[str | None, str]
"""An id; before it the participant that gave it, where ids are numbers of its own."""


def native_output_coverage(
    native: NativeCoverage, calls: Sequence[SurveyedCall], identities: Sequence[Identity]
) -> NativeOutputCoverage:
    """Compares native outputs with calls by the adapter's key. `identities` stand in the order of `calls`."""
    if native.outputs is None:
        return _record(native, None, expected=0, observed=0, missing=[], surplus=0, status=CoverageStatus.UNKNOWN)
    answered = _answered_calls(native, calls, identities)
    beside = _protocol_count(native, answered)
    if native.strength is CoverageStrength.NONE:
        return _record(native, beside, expected=0, observed=0, missing=[], surplus=0, status=CoverageStatus.UNKNOWN)
    if native.strength is CoverageStrength.PER_ID:
        return _per_id(native, native.outputs, calls, identities, beside)
    return _by_count(native, native.outputs, answered, beside)


def _answered_calls(
    native: NativeCoverage, calls: Sequence[SurveyedCall], identities: Sequence[Identity]
) -> Mapping[str, int]:
    """The number of each participant's calls that gave an output: completed ones, and cut ones whose answer's id its
    log holds all the same."""
    logged = {output.output_id for output in native.outputs or () if native.field == _RESPONSE_ID}
    return Counter(
        identity.participant_key
        for call, identity in zip(calls, identities, strict=True)
        if identity.participant_key is not None
        and (
            call.response.execution_status is ExecutionStatus.COMPLETED
            or not logged.isdisjoint(call.values(native.field))
        )
    )


def _matched(expected: Mapping[str, int], answered: Mapping[str, int]) -> int:
    """How many of these have a call of their participant. A surplus of one never makes up for what another lacks."""
    return sum(min(count, answered.get(key, 0)) for key, count in expected.items())


def _protocol_count(native: NativeCoverage, answered: Mapping[str, int]) -> ProtocolCount:
    """The protocol's own count, which knows no ids. As one-sided as the other: calls beyond it are not observed in it,
    but counted as surplus where they have no native output."""
    return ProtocolCount(
        name=native.protocol_count_name,
        expected=sum(native.protocol_count.values()),
        observed=_matched(native.protocol_count, answered),
    )


def _per_id(
    native: NativeCoverage,
    outputs: tuple[NativeOutput, ...],
    calls: Sequence[SurveyedCall],
    identities: Sequence[Identity],
    beside: ProtocolCount,
) -> NativeOutputCoverage:
    expected = _expected(native, outputs)
    seen: Counter[_Key] = Counter()
    surplus = 0
    for call, identity in zip(calls, identities, strict=True):
        completed = call.response.execution_status is ExecutionStatus.COMPLETED
        scope = identity.participant_key if native.within_participant else None
        keys = {(scope, value) for value in call.values(native.field)}
        # A response id is itself an answer; an id of the request says only that one was asked for.
        if completed or native.field == _RESPONSE_ID:
            seen.update(keys)
        surplus += completed and not any(_has_output(native, key, expected, seen) for key in keys)
    missing = sorted(map(_named, (expected - seen).elements()))  # an id as often as it lacks a call
    nameless = sum(output.output_id is None for output in outputs)
    status = CoverageStatus.INCOMPLETE if missing else CoverageStatus.COMPLETE
    if nameless and not missing:
        status = CoverageStatus.UNKNOWN  # an output without an id can be compared with nothing
    return _record(
        native,
        beside,
        expected=expected.total() + nameless,
        observed=(expected & seen).total(),
        missing=missing,
        surplus=surplus,
        status=status,
    )


def _expected(native: NativeCoverage, outputs: tuple[NativeOutput, ...]) -> Counter[_Key]:
    """How many calls each id needs: one, but where participants number their own calls."""
    within = native.within_participant
    keys = [(item.participant_key if within else None, item.output_id) for item in outputs]
    named = [(scope, output_id) for scope, output_id in keys if output_id is not None]
    return Counter(named if within else set(named))


def _has_output(native: NativeCoverage, key: _Key, expected: Counter[_Key], seen: Counter[_Key]) -> bool:
    """Whether a call with this id, the newest one seen, has an output; several attempts at one output share its id."""
    return seen[key] <= expected[key] if native.within_participant else key in expected


def _named(key: _Key) -> str:
    scope, output_id = key
    return output_id if scope is None else f"{scope}/{output_id}"


def _by_count(
    native: NativeCoverage, outputs: tuple[NativeOutput, ...], answered: Mapping[str, int], beside: ProtocolCount
) -> NativeOutputCoverage:
    """Outputs without ids: each participant's number of completed calls must reach its number of outputs."""
    observed = _matched(Counter(output.participant_key for output in outputs), answered)
    return _record(
        native,
        beside,
        expected=len(outputs),
        observed=observed,
        missing=[],
        surplus=sum(answered.values()) - observed,
        status=CoverageStatus.COMPLETE if observed == len(outputs) else CoverageStatus.INCOMPLETE,
    )


def _record(
    native: NativeCoverage,
    beside: ProtocolCount | None,
    *,
    expected: int,
    observed: int,
    missing: list[str],
    surplus: int,
    status: CoverageStatus,
) -> NativeOutputCoverage:
    return NativeOutputCoverage(
        key=native.field,
        strength=native.strength,
        expected=expected,
        observed=observed,
        missing=missing,
        surplus_calls=surplus,
        status=status,
        protocol_count=beside,
    )
