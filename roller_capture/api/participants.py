"""Participants and relations: a published record, with names for what everybody needs of it."""

from dataclasses import dataclass
from typing import Any

from roller_capture.vocabulary import ExecutionStatus, RelationType, Role


@dataclass(frozen=True, slots=True)
class Participant:
    """One native executor. The id is opaque: root or child is told by `role` alone."""

    record: dict[str, Any]

    @property
    def participant_id(self) -> str:
        """Its id, valid within this attempt."""
        return str(self.record["participant_id"])

    @property
    def role(self) -> Role:
        """Root or child."""
        return Role(self.record["role"])

    @property
    def parent_participant_id(self) -> str | None:
        """Who launched it, where that is known."""
        parent = self.record["parent_participant_id"]
        return None if parent is None else str(parent)

    @property
    def native_ids(self) -> dict[str, list[str]]:
        """The harness's own ids, by kind."""
        return dict(self.record["native_ids"])

    @property
    def execution_status(self) -> ExecutionStatus:
        """How it ended."""
        return ExecutionStatus(self.record["execution_status"])

    @property
    def call_ids(self) -> tuple[str, ...]:
        """The calls that it is proven to have made."""
        return tuple(self.record["call_ids"])


@dataclass(frozen=True, slots=True)
class Relation:
    """One proven launch, result delivery or context association; all its members are in `record`."""

    record: dict[str, Any]

    @property
    def relation_id(self) -> str:
        """Its id."""
        return str(self.record["relation_id"])

    @property
    def type(self) -> RelationType:
        """Which of the protocol's relations it is."""
        return RelationType(self.record["type"])

    @property
    def child_participant_id(self) -> str:
        """The subtask that it is about."""
        return str(self.record["child_participant_id"])

    @property
    def parent_participant_id(self) -> str | None:
        """Who launched the subtask."""
        return self._text("parent_participant_id")

    @property
    def receiver_participant_id(self) -> str | None:
        """Who received the result: the parent, unless the record names another."""
        return self._text("receiver_participant_id") or self.parent_participant_id

    @property
    def tool_call_id(self) -> str | None:
        """The harness's own id of the delegation."""
        return self._text("tool_call_id")

    @property
    def parent_call_id(self) -> str | None:
        """The call whose output made the delegation."""
        return self._text("parent_call_id")

    @property
    def context_call_id(self) -> str | None:
        """The call whose request holds the result, or the acknowledgement."""
        return self._text("context_call_id")

    @property
    def context_pointer(self) -> str | None:
        """Where in that call's context: a JSON Pointer."""
        return self._text("context_pointer")

    def _text(self, name: str) -> str | None:
        value = self.record[name]
        return None if value is None else str(value)
