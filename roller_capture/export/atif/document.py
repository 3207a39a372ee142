"""A trajectory as JSON text, written step by step: no document is in memory, only what the family said."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from roller_capture import json_text
from roller_capture.api import Participant
from roller_capture.export.atif.conversation import Stretch, Turn
from roller_capture.export.atif.family import Family
from roller_capture.export.atif.steps import Step, referred_ids
from roller_capture.export.main.chain import NoTrajectoryError
from roller_capture.export.surrogates import has_lone_surrogate
from roller_capture.vocabulary import Role

VERSION: Final = "ATIF-v1.8"
_UNKNOWN: Final = "unknown"
"""What the format's own producers write where an agent's version, which it demands, is not known."""


class Document:
    """The root's trajectory of one conversation between compactions, with the agents launched in it inside."""

    def __init__(self, family: Family, manifest_path: str, number: int, continued_in: str | None) -> None:
        """`number` counts the root's conversations from 0; `continued_in` is the name of the next one's file."""
        self._family = family
        self._manifest_path = manifest_path
        self._number = number
        self._continued_in = continued_in
        self.steps = 0
        self.subagents = 0

    def pieces(self) -> Iterator[bytes]:
        """The document. Raises `NoTrajectoryError` where the format cannot hold what was said."""
        yield from self._trajectory(self._family.root, self._number)
        yield b"\n"

    def _trajectory(self, participant: Participant, number: int) -> Iterator[bytes]:
        conversation = self._family.conversation(participant)
        stretch = conversation.stretches[number]
        steps = stretch.steps
        head = self._head(participant, stretch, number)
        yield json_text.dumps(head)[:-1] + b',"steps":['
        for step in steps:
            yield (b"," if step["step_id"] > 1 else b"") + json_text.dumps(step)
        yield b"]"
        yield from _members({"final_metrics": _final_metrics(steps, stretch, conversation.turns)})
        if participant.role is Role.ROOT and self._continued_in:
            yield from _members({"continued_trajectory_ref": self._continued_in})
        self.steps += len(steps)
        yield from self._inside(participant, number)
        yield b"}"

    def _inside(self, participant: Participant, number: int) -> Iterator[bytes]:
        """The agents that these steps refer to. One that no step of any conversation refers to is in the last."""
        stretches = self._family.conversation(participant).stretches
        here = referred_ids(stretches[number].steps)
        is_last = number == len(stretches) - 1
        opened = False
        for child in self._family.children(participant):
            names = self._family.trajectory_ids(child)
            wanted = names[0] in here or (is_last and names[0] not in self._family.referred)
            for position in range(len(names) if wanted else 0):
                yield b"," if opened else b',"subagent_trajectories":['
                opened = True
                self.subagents += 1
                yield from self._trajectory(child, position)
        if opened:
            yield b"]"

    def _head(self, participant: Participant, stretch: Stretch, number: int) -> dict[str, Any]:
        head = {
            "schema_version": VERSION,
            "session_id": self._family.attempt.capture_id,
            "trajectory_id": self._family.trajectory_ids(participant)[number],
            "agent": self._agent(participant, stretch),
            "extra": {"roller": self._origin(participant, stretch, number)},
        }
        if has_lone_surrogate(head):
            raise NoTrajectoryError("lone surrogate", stretch.segment.links[-1].call_id)
        return head

    def _agent(self, participant: Participant, stretch: Stretch) -> dict[str, Any]:
        attempt, chat = self._family.attempt, stretch.segment.last
        turns = self._family.conversation(participant).turns
        models = {turns[link.call_id].model for link in stretch.segment.links}
        agent: dict[str, Any] = {"name": attempt.harness, "version": attempt.harness_version or _UNKNOWN}
        if len(models) == 1 and None not in models:
            agent["model_name"] = models.pop()
        functions = [tool for tool in chat.tools if tool["type"] == "function"]
        if functions:
            agent["tool_definitions"] = functions
        others = [tool for tool in chat.tools if tool["type"] != "function"] + chat.other_tools
        agent["extra"] = {"parameters": stretch.parameters, **({"other_tools": others} if others else {})}
        return agent

    def _origin(self, participant: Participant, stretch: Stretch, number: int) -> dict[str, Any]:
        """Where it is from, and what is not in it."""
        attempt, segment = self._family.attempt, stretch.segment
        origin = {
            "participant_id": participant.participant_id,
            "role": participant.role,
            "native_ids": participant.native_ids,
            "execution_status": participant.execution_status,
            "protocol": stretch.protocol,
            "segment": {
                "number": number + 1,
                "of": len(self._family.conversation(participant).stretches),
                "cut_by": segment.cut_by,
            },
            "call_ids": [link.call_id for link in segment.links],
            "abandoned_call_ids": segment.abandoned,
            "left_out_calls": stretch.left_out,
            "tools_changed_at": segment.changes("tools"),
            "system_changed_at": segment.changes("head"),
        }
        if participant.role is not Role.ROOT:
            return origin
        return {
            "sample_id": attempt.sample_id,
            "attempt": attempt.path.absolute().name,
            "capture_id": attempt.capture_id,
            "capture_status": attempt.capture_status,
            "manifest_path": self._manifest_path,
            "manifest_sha256": attempt.manifest_sha256,
            **origin,
            "subagents_left_out": [item._asdict() for item in self._family.left_out],
            "unattributed_call_ids": self._family.unattributed,
        }


def _members(members: dict[str, Any]) -> Iterator[bytes]:
    yield b"," + json_text.dumps(members)[1:-1]


def _final_metrics(steps: Sequence[Step], stretch: Stretch, turns: dict[str, Turn]) -> dict[str, Any]:
    """Sums over the calls of this conversation. One of which a call reported nothing is no sum, and is left away."""
    used = [turns[link.call_id].usage for link in stretch.segment.links]
    metrics: dict[str, Any] = {"total_steps": len(steps), "extra": {"llm_calls": len(used)}}
    for name, counts in (
        ("total_prompt_tokens", [usage.input for usage in used]),
        ("total_completion_tokens", [usage.output for usage in used]),
        ("total_cached_tokens", [usage.cache_read for usage in used]),
    ):
        known = [count for count in counts if count is not None]
        if len(known) == len(counts):
            metrics[name] = sum(known)
    return metrics
