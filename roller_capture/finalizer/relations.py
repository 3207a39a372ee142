"""Relations: what native logs prove, tied to the calls, and what the requests of a receiver hold (design section 7)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roller_capture.capture_protocol import (
    ContextProbe,
    Evidence,
    NativeCapture,
    NativeRelation,
    NotificationItem,
    ToolResultItem,
)
from roller_capture.finalizer.identity import Identity
from roller_capture.finalizer.survey import HeldText, RequestFacts, SurveyedCall
from roller_capture.model_protocols.types import ToolRef
from roller_capture.records import DeliveryRecord, ModelToolRef, RelationEvidence, RelationRecord
from roller_capture.vocabulary import AttemptErrorCode, CallErrorCode, EvidenceKind, ParentCallStatus, RelationType
from roller_capture.working_files import AttemptFault

_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_.:|/+=@-]+")

_IN_CONTEXT: Final = {
    RelationType.RESULT_DELIVERED: RelationType.RESULT_IN_CONTEXT,
    RelationType.LAUNCH_ACKNOWLEDGED: RelationType.LAUNCH_ACK_IN_CONTEXT,
}


@dataclass(frozen=True, slots=True)
class UsableProbe:
    """A probe that can prove something; `digest` is that of a notification's text in the request it was bound in."""

    relation: NativeRelation
    item: ToolResultItem | NotificationItem
    digest: str | None = None

    def place_in(self, request: RequestFacts) -> str | None:
        """Where the item stands in the request, or None. An item that stands there twice is not unique."""
        places = self.places_in(request)
        return places[0] if len(places) == 1 else None

    def places_in(self, request: RequestFacts) -> tuple[str, ...]:
        """Every place in the request where the item stands."""
        if isinstance(self.item, ToolResultItem):
            return request.tool_results.get(self.item.tool_call_id, ())
        held = request.notifications.get(self.item.texts, ())
        places = tuple(one.pointer for one in held if self._is_same(self.item, one))
        if not places and self.item.later_texts:
            places = tuple(one.pointer for one in request.notifications.get(self.item.later_texts, ()))
        return places

    def _is_same(self, item: NotificationItem, held: HeldText) -> bool:
        return held.item_id == item.item_id if item.item_id is not None else held.digest == self.digest


class ProbesOfReceivers:
    """Finds the probes that a request may hold, so that the many calls of an agent with many children are not searched
    for every one of them."""

    def __init__(self, probes: Iterable[UsableProbe]) -> None:
        self._of: dict[str | None, list[UsableProbe]] = {}
        self._by_item: dict[tuple[str | None, str | tuple[str, ...]], list[int]] = {}
        for probe in probes:
            receiver = receiver_key(probe.relation)
            mine = self._of.setdefault(receiver, [])
            for item in _items(probe):
                self._by_item.setdefault((receiver, item), []).append(len(mine))
            mine.append(probe)

    def of(self, receiver: str) -> Sequence[UsableProbe]:
        """All of a receiver's."""
        return self._of.get(receiver, ())

    def held_by(self, receiver: str, request: RequestFacts) -> list[UsableProbe]:
        """Those of a receiver whose item may stand in the request, in their order."""
        items: list[str | tuple[str, ...]] = [*request.tool_results, *request.notifications]
        found: set[int] = set()
        for item in items:
            found.update(self._by_item.get((receiver, item), ()))
        return [self._of[receiver][place] for place in sorted(found)]


def _items(probe: UsableProbe) -> tuple[str | tuple[str, ...], ...]:
    """What of a probe is looked for in requests: a tool id, or the texts of a notification in both of its forms."""
    item = probe.item
    if isinstance(item, ToolResultItem):
        return (item.tool_call_id,)
    return (item.texts, item.later_texts) if item.later_texts else (item.texts,)


class ParentCalls:
    """Finds the call whose output made a delegation, by the tool call id in it."""

    def __init__(self, calls: Sequence[SurveyedCall], identities: Sequence[Identity]) -> None:
        self._by_tool_id: dict[str, list[tuple[int, ToolRef]]] = {}
        self._calls = calls
        self._identities = identities
        for index, call in enumerate(calls):
            if call.recorded.foreign_credential:  # no agent of this run made it
                continue
            for ref in call.response.tool_refs:
                if ref.tool_call_id is not None:
                    self._by_tool_id.setdefault(ref.tool_call_id, []).append((index, ref))

    def find(self, relation: NativeRelation) -> tuple[int, ToolRef] | None:
        """Index of the call and the reference in it, or None where there is none or more than one."""
        if relation.tool_call_id is None:
            return None
        found = self._by_tool_id.get(relation.tool_call_id, [])
        if not found and "|" in relation.tool_call_id:
            # OpenClaw's native id joins call id and item id; both must match (protocol, "Relation semantics").
            call_id, _, item_id = relation.tool_call_id.partition("|")
            found = [(index, ref) for index, ref in self._by_tool_id.get(call_id, []) if ref.item_id == item_id]
        found = [
            place
            for place in found
            if self._may_own(place[0], relation.parent_key) and self._is_output(place[0], relation)
        ]
        return found[0] if len(found) == 1 else None

    def _is_output(self, index: int, relation: NativeRelation) -> bool:
        """Where the log names the output that holds the delegation, a call with another response id is not the one."""
        response_id = self._calls[index].response.response_id
        known = response_id is not None and relation.parent_output_id is not None
        return not known or response_id == relation.parent_output_id

    def _may_own(self, index: int, parent_key: str | None) -> bool:
        identity = self._identities[index]
        if identity.participant_key is None:
            return not identity.candidates or parent_key in identity.candidates
        return identity.participant_key == parent_key


class RelationWriter:
    """Makes the published relations of one attempt."""

    def __init__(
        self,
        native: NativeCapture,
        calls: Sequence[SurveyedCall],
        identities: Sequence[Identity],
        *,
        scope: str,
        call_ids: Sequence[str],
        participant_ids: Mapping[str, str],
        retained_sources: frozenset[str],
    ) -> None:
        self._native = native
        self._calls = calls
        self._identities = identities
        self._scope = scope
        self._call_ids = call_ids
        self._participant_ids = participant_ids
        self._retained_sources = retained_sources
        self._parents = ParentCalls(calls, identities)
        self._serial = 0

    def native_relations(self) -> Iterator[RelationRecord]:
        """One record for each relation that the native logs prove."""
        for relation in self._native.relations:
            yield self._record(relation, relation.type, None, None)

    def context_relations(self, probes: Sequence[UsableProbe]) -> Iterator[RelationRecord]:
        """One record for each request of the receiver that holds a delivered item, failed and retried calls too."""
        waiting = ProbesOfReceivers(probes)
        for index, (call, identity) in enumerate(zip(self._calls, self._identities, strict=True)):
            if identity.participant_key is None:
                continue
            for probe in waiting.held_by(identity.participant_key, call.request):
                place = probe.place_in(call.request)
                if place is not None:
                    yield self._record(probe.relation, _IN_CONTEXT[probe.relation.type], index, place)

    def _record(
        self, relation: NativeRelation, kind: RelationType, context_index: int | None, place: str | None
    ) -> RelationRecord:
        self._serial += 1
        parent = self._parents.find(relation)
        receiver = relation.receiver_key if relation.receiver_key != relation.parent_key else None
        evidence = [self._evidence(item) for item in relation.evidence]
        if parent is not None:
            evidence.append(self._formal(EvidenceKind.TOOL_CALL_ID, parent[0], parent[1].tool_call_id))
        if context_index is not None:
            evidence.append(self._formal(EvidenceKind.REQUEST_CONTEXT, context_index, None))
        return RelationRecord(
            schema_="roller.relation/v1",
            relation_id=f"rel_{self._scope}_{self._serial:06d}",
            type=kind,
            parent_participant_id=self._id(relation.parent_key),
            child_participant_id=self._participant_ids[relation.child_key],
            receiver_participant_id=self._id(receiver),
            tool_call_id=relation.tool_call_id,
            model_tool_ref=ModelToolRef(call_id=parent[1].tool_call_id, item_id=parent[1].item_id) if parent else None,
            task_index=relation.task_index,
            delegation=relation.delegation,
            parent_call_id=self._call_ids[parent[0]] if parent else None,
            parent_call_status=ParentCallStatus.RESOLVED if parent else ParentCallStatus.UNKNOWN,
            delivery=DeliveryRecord(
                kind=relation.delivery.kind, bound_by=relation.delivery.bound_by, bound_id=relation.delivery.bound_id
            )
            if relation.delivery
            else None,
            context_call_id=None if context_index is None else self._call_ids[context_index],
            context_pointer=place,
            outcome=relation.outcome,
            evidence=evidence,
        )

    def _id(self, key: str | None) -> str | None:
        return None if key is None else self._participant_ids[key]

    def _evidence(self, item: Evidence) -> RelationEvidence:
        return RelationEvidence(
            kind=item.kind, source=item.source, locator=item.locator, retained=item.source in self._retained_sources
        )

    def _formal(self, kind: EvidenceKind, index: int, value: str | None) -> RelationEvidence:
        locator = f"line:{index + 1} call:{self._call_ids[index]}"
        if value is not None and _PLAIN_ID.fullmatch(value):
            locator += f" tool:{value}"  # an id that JSON escapes, or with a space, could not be found as it stands
        return RelationEvidence(kind=kind, source="calls.jsonl", locator=locator, retained=True)


def receiver_key(relation: NativeRelation) -> str | None:
    """Who received the result: the spawner, unless the log names another."""
    return relation.receiver_key if relation.receiver_key is not None else relation.parent_key


def usable_probes(
    native: NativeCapture, calls: Sequence[SurveyedCall], identities: Sequence[Identity]
) -> tuple[list[UsableProbe], list[AttemptFault]]:
    """The probes that can prove something, and a fault for each that cannot.

    A tool id that stands for two delegations of one receiver is not unique. A notification must stand, once, in the
    request of the very call that answered it; elsewhere only the same text, whole, is the same item, or the form that
    its adapter says it has there.
    """
    uses = Counter(_tool_use(probe) for probe in native.context_probes)
    answers = _Answers(calls, identities)
    usable: list[UsableProbe] = []
    faults: list[AttemptFault] = []
    for probe in native.context_probes:
        if isinstance(probe.item, NotificationItem) and probe.item.item_id is None:
            held = answers.holding(probe, probe.item)
            if len(held) == 1:
                usable.append(UsableProbe(probe.relation, probe.item, held[0].digest))
            else:
                message = "the notification does not stand, once, in the request that it should have caused"
                faults.append(_unproven(probe, AttemptErrorCode.NATIVE_RELATION_UNPROVEN, message))
        elif uses[_tool_use(probe)] > 1:
            faults.append(_unproven(probe, AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, "its tool or item id is not unique"))
        else:
            usable.append(UsableProbe(probe.relation, probe.item))
    return usable, faults


def unclear_places(
    probes: Sequence[UsableProbe], calls: Sequence[SurveyedCall], identities: Sequence[Identity]
) -> Iterator[AttemptFault]:
    """A fault for each request of a receiver in which an item stands twice, or that could not be searched for it."""
    waiting = ProbesOfReceivers(probes)
    for call, identity in zip(calls, identities, strict=True):
        owner = identity.participant_key
        if owner is None:
            continue
        unread = any(error.code is CallErrorCode.CONTEXT_TOO_DEEP for error in call.request.errors)
        for probe in waiting.of(owner) if unread else waiting.held_by(owner, call.request):
            # Of a notification, only the request that answered it must hold it once; it may be quoted later.
            count = len(probe.places_in(call.request)) if isinstance(probe.item, ToolResultItem) else 0
            if count > 1 or unread:
                reason = (
                    f"it stands {count} times in one request" if count > 1 else "a request nests too deep to search"
                )
                evidence = probe.relation.evidence[0]
                message = f"the result of {probe.relation.tool_call_id} is not tied to a request: {reason}"
                yield AttemptFault(
                    AttemptErrorCode.NATIVE_RELATION_UNPROVEN, message, evidence.source, evidence.locator
                )


def _tool_use(probe: ContextProbe) -> tuple[str | None, str, int | None] | None:
    if isinstance(probe.item, ToolResultItem):
        return receiver_key(probe.relation), probe.item.tool_call_id, probe.relation.task_index
    if probe.item.item_id is not None:
        return receiver_key(probe.relation), probe.item.item_id, None
    return None


class _Answers:
    """Finds the calls that a field names, each field read once of every call."""

    def __init__(self, calls: Sequence[SurveyedCall], identities: Sequence[Identity]) -> None:
        self._calls = calls
        self._identities = identities
        self._by_value: dict[str, dict[str, list[int]]] = {}

    def holding(self, probe: ContextProbe, item: NotificationItem) -> tuple[HeldText, ...]:
        """Where the notification stands in the first request of the receiver that must hold it."""
        named = self._with(item.field).get(item.value, [])
        if not named or (item.field == "response_id" and len(named) > 1):
            return ()
        if self._identities[named[0]].participant_key != receiver_key(probe.relation):
            return ()
        return self._calls[named[0]].request.notifications.get(item.texts, ())

    def _with(self, field: str) -> Mapping[str, list[int]]:
        if field not in self._by_value:
            places: dict[str, list[int]] = {}
            for index, call in enumerate(self._calls):
                for value in call.values(field):
                    places.setdefault(value, []).append(index)
            self._by_value[field] = places
        return self._by_value[field]


def _unproven(probe: ContextProbe, code: AttemptErrorCode, reason: str) -> AttemptFault:
    evidence = probe.relation.evidence[0]
    message = f"{probe.relation.type} of {probe.relation.tool_call_id} is not tied to any request: {reason}"
    return AttemptFault(code, message, evidence.source, evidence.locator)
