"""Everything that is decided about one call before retention is known: its owner, model, purpose and statuses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from roller_capture.capture_protocol import NativeCapture, PurposeClaim
from roller_capture.finalizer.identity import Identity
from roller_capture.finalizer.model_names import match_models
from roller_capture.finalizer.statuses import CallStatuses, CallVerdict, call_statuses
from roller_capture.finalizer.survey import SurveyedCall
from roller_capture.vocabulary import Purpose


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A call with all verdicts on it."""

    call_id: str
    survey: SurveyedCall
    identity: Identity
    model_match: str
    statuses: CallStatuses
    purpose: Purpose
    side_call: bool

    @property
    def verdict(self) -> CallVerdict:
        """What the whole needs to know of it."""
        return CallVerdict(
            self.call_id,
            self.survey.response.execution_status,
            self.statuses.capture_status,
            self.identity.status,
            self.side_call,
        )


def judge(
    surveyed: Sequence[SurveyedCall],
    identities: Sequence[Identity],
    native: NativeCapture,
    model_aliases: Mapping[str, str],
    scope: str,
) -> list[JudgedCall]:
    """The calls in order, each with its verdicts. `scope` is the capture's random part of every id."""
    purposes: dict[tuple[str, str], PurposeClaim] = {
        (claim.field, claim.value): claim for claim in native.purpose_claims
    }
    judged: list[JudgedCall] = []
    for call, identity in zip(surveyed, identities, strict=True):
        match = match_models(call.request.model, call.response.model, model_aliases)
        claim = _purpose_claim(call, purposes)
        judged.append(
            JudgedCall(
                call_id=f"call_{scope}_{call.recorded.sequence:06d}",
                survey=call,
                identity=identity,
                model_match=match,
                statuses=call_statuses(call, identity, match),
                purpose=claim.purpose if claim else Purpose.UNKNOWN,
                side_call=claim is not None and claim.side_call,
            )
        )
    return judged


def _purpose_claim(call: SurveyedCall, claims: Mapping[tuple[str, str], PurposeClaim]) -> PurposeClaim | None:
    fields = [("response_id", call.response.response_id or "")]
    fields += [(f"header:{name}", value) for name, value in (*call.recorded.headers, *call.recorded.roller_headers)]
    fields += [(f"context:{place}", value) for place, value in call.request.context_values.items()]
    found = [claims[item] for item in fields if item in claims]
    # The harness's own mark on a side call says more than what the call has in common with its agent's turns.
    found = [claim for claim in found if claim.side_call] or found
    return found[0] if len({claim.purpose for claim in found}) == 1 else None
