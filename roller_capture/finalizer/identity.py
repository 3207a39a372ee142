"""Who made a call: the adapter's claims, held against what the call carried (design section 6; protocol, "Statuses").

Ids only. The provider's response id comes first, native headers second, and they must agree; an absent header proves
something only where this attempt proves that the harness would have sent it; two proofs that disagree are `ambiguous`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from roller_capture.capture_protocol import AbsentHeaderClaim, IdentityClaim, NativeCapture
from roller_capture.finalizer.survey import SurveyedCall
from roller_capture.records import IdentityEvidence
from roller_capture.vocabulary import EvidenceKind, IdentityStatus, Role


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of one call. `participant_key` is set only when resolved, `candidates` only when ambiguous."""

    status: IdentityStatus
    participant_key: str | None
    candidates: tuple[str, ...]
    evidence: tuple[IdentityEvidence, ...]
    conflict: str | None = None


@dataclass(frozen=True, slots=True)
class _Matched:
    """The participants that one kind of evidence names."""

    keys: frozenset[str]
    evidence: tuple[IdentityEvidence, ...]


class Attributor:
    """Resolves the calls of one attempt. Needs all of them, since uniqueness and absence are facts of the attempt."""

    def __init__(self, native: NativeCapture, calls: Sequence[SurveyedCall]) -> None:
        self._native = native
        self._claims: dict[tuple[str, str], list[IdentityClaim]] = {}
        for claim in native.identity_claims:
            self._claims.setdefault((claim.field, claim.value), []).append(claim)
        self._context_fields = sorted(
            {claim.field for claim in native.identity_claims if claim.field.startswith("context:")}
        )
        self._header_fields = sorted(
            {claim.field for claim in native.identity_claims if claim.field.startswith("header:")}
        )
        self._marked: dict[str, frozenset[str]] = {
            field.header: frozenset(
                claim.participant_key for claim in native.identity_claims if claim.field == f"header:{field.header}"
            )
            for field in native.identity_fields
            if field.exclusive
        }
        """By exclusive header, the participants that the harness marks with it."""
        self._sent = {header for header in self._marked if any(call.recorded.header_values(header) for call in calls)}
        self._family_seen = bool(self._sent) or self._delegated(calls)
        self._session_ids = {
            participant.key: frozenset(participant.native_ids.get("session_id", ()))
            for participant in native.participants
        }
        self._response_id_uses = Counter(call.response.response_id for call in calls)
        self._absence = [claim for claim in native.absent_header_claims if self._absence_proven(claim, calls)]

    def attribute(self, call: SurveyedCall) -> Identity:
        """The owner of `call`, or why there is none."""
        if call.recorded.foreign_credential:
            return _undecided(frozenset(), (), None)
        primary = self._by_response_id(call)
        secondary = self._by_fields(call)
        evidence = (*primary.evidence, *secondary.evidence)
        strange = self._contradiction(call)
        if strange is not None:
            return _undecided(primary.keys | secondary.keys, evidence, strange)
        unique = len(primary.keys) == 1 and self._response_id_uses[call.response.response_id] == 1
        if unique and secondary.keys and secondary.keys != primary.keys:
            return _undecided(primary.keys | secondary.keys, evidence, "response id and header name different owners")
        if not unique and not secondary.keys:
            secondary = self._by_absence(call)
            evidence = (*evidence, *secondary.evidence)
        deciding = primary.keys if unique else secondary.keys
        keys = deciding & primary.keys if primary.keys else deciding
        if len(keys) != 1 or len(deciding) != 1:
            reason = "the response id is not unique in this attempt" if primary.keys else None
            return _undecided(primary.keys | secondary.keys, evidence, reason)
        return self._confirmed(call, next(iter(keys)), primary.keys | secondary.keys, evidence)

    def _confirmed(
        self, call: SurveyedCall, key: str, named: frozenset[str], evidence: tuple[IdentityEvidence, ...]
    ) -> Identity:
        """One participant is proven; whatever else the call carries, or should carry, must agree with it."""
        if not self._session_agrees(call, key):
            return _undecided(named, evidence, "the session header names another session than the native log")
        if not self._family_seen and any(key in keys for keys in self._marked.values()):
            return _undecided(named, evidence, "no call of this attempt shows a child: no header, no delegation")
        for header in self._sent:
            if key in self._marked[header] and not call.recorded.header_values(header):
                return _undecided(named, evidence, f"the owner's calls carry header {header}, this one does not")
        return Identity(IdentityStatus.RESOLVED, key, (), evidence)

    def _by_response_id(self, call: SurveyedCall) -> _Matched:
        return self._matched([("response_id", call.response.response_id or "")])

    def _by_fields(self, call: SurveyedCall) -> _Matched:
        named = [(field, value) for field in self._header_fields for value in self._header(call, field)]
        named += [
            (field, call.request.context_values.get(field.removeprefix("context:"), ""))
            for field in self._context_fields
        ]
        return self._matched(named)

    @staticmethod
    def _header(call: SurveyedCall, field: str) -> list[str]:
        return sorted(set(call.recorded.header_values(field.removeprefix("header:"))))

    def _matched(self, named: Iterable[tuple[str, str]]) -> _Matched:
        claims = [claim for pair in named for claim in self._claims.get(pair, ())]
        return _Matched(
            frozenset(claim.participant_key for claim in claims),
            tuple(
                IdentityEvidence(
                    kind=claim.evidence.kind, name=claim.field, value=claim.value, source=claim.evidence.source
                )
                for claim in claims
            ),
        )

    def _contradiction(self, call: SurveyedCall) -> str | None:
        """A correlation header with two values, or one that only one participant has, with a value no log knows."""
        for field in self._native.identity_fields:
            values = set(call.recorded.header_values(field.header))
            if len(values) > 1:
                return f"header {field.header} has {len(values)} different values"
            if field.exclusive and any((f"header:{field.header}", value) not in self._claims for value in values):
                return f"header {field.header} has a value that no native log knows"
        return None

    def _session_agrees(self, call: SurveyedCall, key: str) -> bool:
        known = self._session_ids.get(key, frozenset())
        headers = [field.header for field in self._native.identity_fields if field.published_as == "session_id"]
        sent = {value for header in headers for value in call.recorded.header_values(header)}
        return not known or sent <= known

    def _by_absence(self, call: SurveyedCall) -> _Matched:
        claims = [claim for claim in self._absence if _fits(claim, call)]
        return _Matched(
            frozenset(claim.participant_key for claim in claims),
            tuple(
                IdentityEvidence(
                    kind=EvidenceKind.HEADER_ABSENT,
                    name=f"header:{claim.header}",
                    value=None,
                    source=claim.evidence.source,
                )
                for claim in claims
            ),
        )

    def _absence_proven(self, claim: AbsentHeaderClaim, calls: Sequence[SurveyedCall]) -> bool:
        """Would the harness have sent the header? Proven by calls of children that carry it, disproven by one that
        does not. Where nothing in the attempt - no log, no header, no delegation in any output - shows a child at all,
        the session header alone names the only executor there is."""
        marked = self._marked.get(claim.header, frozenset())
        for call in calls:
            owners = self._by_response_id(call).keys
            if owners and owners <= marked and not call.recorded.header_values(claim.header):
                return False
        if claim.header in self._sent:
            return True
        children = any(item.role is Role.CHILD for item in self._native.participants)
        return not (children or self._delegated(calls))

    def _delegated(self, calls: Sequence[SurveyedCall]) -> bool:
        tools = self._native.delegation_tools
        return any(ref.name is None or ref.name in tools for call in calls for ref in call.response.tool_refs)


def _fits(claim: AbsentHeaderClaim, call: SurveyedCall) -> bool:
    recorded = call.recorded
    return not recorded.header_values(claim.header) and all(
        set(recorded.header_values(name)) == {value} for name, value in claim.required
    )


def _undecided(keys: frozenset[str], evidence: tuple[IdentityEvidence, ...], conflict: str | None) -> Identity:
    if keys:
        return Identity(IdentityStatus.AMBIGUOUS, None, tuple(sorted(keys)), evidence, conflict)
    return Identity(IdentityStatus.UNATTRIBUTED, None, (), evidence, conflict)
