"""The steps of a trajectory, from the messages of a conversation.

A step is a message. A tool's result is no step of its own: it is an observation in the step that called the tool.
Of a call that answered with several messages the first step has the metrics, so that sums are right.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from roller_capture import json_text
from roller_capture.export.atif.conversation import Conversation, Stretch, Turn
from roller_capture.export.atif.images import Images, content_parts
from roller_capture.export.main.chain import NoTrajectoryError, head_length
from roller_capture.export.main.trajectory import Row, told_messages
from roller_capture.export.surrogates import has_lone_surrogate

Step = dict[str, Any]
Launches = Mapping[tuple[str, str], Sequence[dict[str, Any]]]
"""(call id, tool call id) → references to the trajectories of the agents that this tool call launched."""

Authors = Mapping[str, Sequence[dict[str, Any]]]
"""Participant id → references to its trajectories."""

_SOURCES: Final = {"system": "system", "developer": "system", "user": "user", "assistant": "agent"}


def told_steps(conversation: Conversation, stretch: Stretch) -> list[Step]:
    """The steps, numbered from 1; `stretch.images` gets the images that they refer to.

    Raises `NoTrajectoryError` where the format cannot hold what was said.
    """
    segment = stretch.segment
    marks = conversation.notifications.get(segment.links[-1].call_id, [])
    first = head_length(segment.last.messages) + segment.links[0].start
    builder = _Steps(conversation.turns, segment.last.extra["context"], first)
    for position, row in enumerate(told_messages(segment, marks)):
        builder.add(position, row)
    if has_lone_surrogate([builder.steps, segment.last.tools, segment.last.other_tools, stretch.parameters]):
        raise NoTrajectoryError("lone surrogate", segment.links[-1].call_id)
    stretch.images = builder.images
    return builder.steps


def refer(steps: Sequence[Step], launches: Launches, authors: Authors) -> None:
    """Puts the references at the results of the tool calls that launched the agents, and at messages of agents.

    Where a tool call has no result yet, a reference is all that is known of it.
    """
    for step in steps:
        for result in step.get("observation", {}).get("results", ()):
            told = [note["child_participant_id"] for note in result.get("extra", {}).get("notifications", ())]
            references = [reference for child in dict.fromkeys(told) for reference in authors.get(child, ())]
            if references:
                result["subagent_trajectory_ref"] = references
        call_id = step.get("extra", {}).get("call_id")
        for tool_call in step.get("tool_calls", ()):
            launched = launches.get((str(call_id), tool_call["tool_call_id"]))
            if launched:
                _refer(step, tool_call["tool_call_id"], list(launched))


def referred_ids(steps: Sequence[Step]) -> set[str]:
    """The trajectories that steps refer to."""
    return {
        reference["trajectory_id"]
        for step in steps
        for result in step.get("observation", {}).get("results", ())
        for reference in result.get("subagent_trajectory_ref", ())
    }


class _Steps:
    """Puts messages into steps. What stands before `first_answer` was there before any call of this conversation."""

    def __init__(self, turns: Mapping[str, Turn], extra: Mapping[str, Any], first_answer: int) -> None:
        self._turns = turns
        self._extra = extra
        self._first_answer = first_answer
        self.steps: list[Step] = []
        self.images: Images = {}
        self._callers: dict[str, Step] = {}
        self._told: set[str] = set()

    def add(self, position: int, row: Row) -> None:
        role = row["role"]
        if role == "tool":
            self._observe(row)
            return
        if role == "agent_message":
            self._hear(row)
            return
        source = _SOURCES.get(role)
        if source is None:
            raise NoTrajectoryError("a message with a role that the format has not")
        step: Step = {"step_id": len(self.steps) + 1, "source": source, "message": self._content(row) or ""}
        if source == "agent":
            self._answer(step, row, copied=position < self._first_answer)
        elif "name" in row or row["notifications"]:
            told = {"name": row.get("name"), "notifications": row["notifications"]}
            step["extra"] = {name: value for name, value in told.items() if value}
        self.steps.append(step)

    def _answer(self, step: Step, row: Row, *, copied: bool) -> None:
        turn = self._turns.get(row["call_id"] or "")
        if "reasoning_content" in row:
            step["reasoning_content"] = row["reasoning_content"]
        if row.get("tool_calls"):
            step["tool_calls"] = [_tool_call(call) for call in row["tool_calls"]]
            self._callers |= {call["id"]: step for call in row["tool_calls"]}
        if turn is None:
            step |= {"is_copied_context": True} if copied else {}
            step["extra"] = {"call_id": None}
            return
        known = {"timestamp": turn.timestamp, "model_name": turn.model, "reasoning_effort": turn.effort}
        step |= {name: value for name, value in known.items() if value is not None}
        step["extra"] = turn.extra
        if row["call_id"] not in self._told:
            self._told.add(row["call_id"])
            step["llm_call_count"] = 1
            step |= {"metrics": turn.metrics} if turn.metrics else {}

    def _observe(self, row: Row) -> None:
        caller = self._callers.get(row.get("tool_call_id", ""))
        if caller is None:
            raise NoTrajectoryError("the result of a tool call that is not in the conversation")
        result: dict[str, Any] = {"source_call_id": row["tool_call_id"], "content": self._content(row)}
        is_error = self._extra.get(f"{row['origin']['at']}/is_error") is True
        told = {"is_error": is_error, "notifications": row["notifications"]}
        if any(told.values()):
            result["extra"] = {name: value for name, value in told.items() if value}
        caller.setdefault("observation", {"results": []})["results"].append(result)

    def _content(self, row: Row) -> Any:
        """A text, or parts where there are images; `None` where there is nothing at all."""
        return content_parts(row["parts"], self.images) if "parts" in row else row["content"]

    def _hear(self, row: Row) -> None:
        """A message of another agent: something that the system brought, with the agent's trajectory at it."""
        at = row["origin"]["at"]
        told = {
            "type": "agent_message",
            "id": row.get("id"),
            "author": row.get("name"),
            **{
                pointer.removeprefix(f"{at}/"): value
                for pointer, value in self._extra.items()
                if pointer.startswith(f"{at}/")
            },
            "notifications": row["notifications"],
        }
        result = {"content": row["content"], "extra": {name: value for name, value in told.items() if value}}
        self.steps.append(
            {"step_id": len(self.steps) + 1, "source": "system", "message": "", "observation": {"results": [result]}}
        )


def _refer(step: Step, tool_call_id: str, references: list[dict[str, Any]]) -> None:
    results = step.setdefault("observation", {"results": []})["results"]
    for result in results:
        if result["source_call_id"] == tool_call_id:
            result["subagent_trajectory_ref"] = references
            return
    results.append({"source_call_id": tool_call_id, "subagent_trajectory_ref": references})


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    """Arguments are an object there; no text at all is none. Free text is what the API itself calls it: `input`."""
    told = {"tool_call_id": call["id"], "function_name": call[call["type"]]["name"]}
    if call["type"] == "custom":
        return {**told, "arguments": {"input": call["custom"]["input"]}, "extra": {"type": "custom"}}
    text = call["function"]["arguments"]
    try:
        arguments = json_text.parse(text.encode("utf-8", "surrogatepass")) if text.strip() else {}
    except json_text.JsonError:
        arguments = None
    if not isinstance(arguments, dict):
        raise NoTrajectoryError("arguments that are no JSON object")
    return {**told, "arguments": arguments}
