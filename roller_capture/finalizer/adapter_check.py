"""Holds an adapter's answer to its contract, so that one wrong row never spoils the rest of an attempt.

Native logs are hostile and adapters are many. What breaks the contract is dropped and named; nothing is repaired.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import TypeVar

from roller_capture.capture_protocol import Gap, NativeCapture, NativeParticipant, NativeRelation
from roller_capture.vocabulary import AttemptErrorCode, RelationType

_Item = TypeVar("_Item")

_NATIVE_TYPES = frozenset(RelationType) - {RelationType.RESULT_IN_CONTEXT, RelationType.LAUNCH_ACK_IN_CONTEXT}
_DELIVERED_TYPES = frozenset({RelationType.RESULT_DELIVERED, RelationType.LAUNCH_ACKNOWLEDGED})


def checked(native: NativeCapture) -> NativeCapture:
    """The same capture without rows that name unknown participants, repeat a key or lack what their type needs."""
    check = _Check()
    participants = check.unique(native.participants)
    keys = frozenset(item.key for item in participants)

    def known(key: str | None) -> bool:
        return key is None or key in keys

    def relation_holds(item: NativeRelation) -> bool:
        named = item.child_key in keys and known(item.parent_key) and known(item.receiver_key)
        shaped = item.type in _NATIVE_TYPES and bool(item.evidence) and item.delegation >= 1
        return named and shaped and _has_what_its_type_needs(item)

    coverage = native.coverage
    if coverage.outputs is not None:
        outputs = check.keep(coverage.outputs, lambda item: item.participant_key in keys, "output")
        coverage = dataclasses.replace(coverage, outputs=outputs)
    return dataclasses.replace(
        native,
        participants=tuple(
            item if known(item.parent_key) else dataclasses.replace(item, parent_key=None) for item in participants
        ),
        identity_claims=check.keep(native.identity_claims, lambda item: item.participant_key in keys, "claim"),
        absent_header_claims=check.keep(
            native.absent_header_claims, lambda item: item.participant_key in keys, "claim"
        ),
        relations=check.keep(native.relations, relation_holds, "relation"),
        context_probes=check.keep(
            native.context_probes,
            lambda item: relation_holds(item.relation) and item.relation.type in _DELIVERED_TYPES,
            "probe",
        ),
        coverage=coverage,
        gaps=(*native.gaps, *check.gaps),
    )


def _has_what_its_type_needs(item: NativeRelation) -> bool:
    """The relation table of docs/protocol.md."""
    if item.type in _DELIVERED_TYPES:
        return item.delivery is not None and item.parent_key is not None
    if item.type is RelationType.SPAWN and item.tool_call_id is None:
        return False
    if item.type is RelationType.CHILD_FAILED and item.outcome is None:
        return False
    return item.delivery is None


class _Check:
    def __init__(self) -> None:
        self.gaps: list[Gap] = []

    def keep(self, items: Iterable[_Item], holds: Callable[[_Item], bool], what: str) -> tuple[_Item, ...]:
        """The items for which `holds`; the others become one gap."""
        every = tuple(items)
        good = tuple(item for item in every if holds(item))
        if len(good) < len(every):
            self._drop(f"the adapter returned a {what} that breaks its contract")
        return good

    def unique(self, participants: Iterable[NativeParticipant]) -> tuple[NativeParticipant, ...]:
        """The first participant of each key."""
        every = tuple(participants)
        first: dict[str, NativeParticipant] = {}
        for item in every:
            first.setdefault(item.key, item)
        if len(first) < len(every):
            self._drop("the adapter returned two participants under one key")
        return tuple(first.values())

    def _drop(self, message: str) -> None:
        self.gaps.append(Gap(AttemptErrorCode.ADAPTER_FAILED, message))
