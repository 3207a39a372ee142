"""Attempts to look at: many agents side by side with growing contexts, and one in which everything is hostile."""

import copy
import random
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.publish import lines, publish_family
from tests.view.published import Record, forge

_WORDS: Final = (
    "the",
    "parser",
    "reads",
    "every",
    "line",
    "of",
    "a",
    "file",
    "and",
    "keeps",
    "what",
    "cannot",
    "be",
    "read",
)
_TOOLS: Final = ("Bash", "Read", "Grep", "Edit")


def long_attempt(directory: Path, monkeypatch: pytest.MonkeyPatch, *, agents: int, calls_each: int) -> Path:
    """A root with `agents` children that run side by side, each of `calls_each` calls; `agents` + 1 calls of the root.

    Built on a published attempt whose records are multiplied, so it has the right shapes and the wrong hashes.
    """
    publish_family(directory, monkeypatch)
    session = _Session(directory, agents, calls_each)
    return forge(directory, manifest=session.manifest, calls=session.calls, relations=session.relations)


class _Session:
    def __init__(self, directory: Path, agents: int, calls_each: int) -> None:
        self._agents = agents
        self._calls_each = calls_each
        self._random = random.Random(7)
        self._template = lines(directory / "calls.jsonl")[0]
        relations = lines(directory / "relations.jsonl")
        self._spawn = next(item for item in relations if item["type"] == "spawn")
        self._held = next(item for item in relations if item["type"] == "result_in_context")
        self._made: list[Record] = []
        self._new_relations: list[Record] = []

    def calls(self, records: list[Record]) -> None:
        root: list[Any] = [{"role": "user", "content": "Look at every part of the project, and say what is missing."}]
        clock = 0.0
        for child in range(self._agents):
            tool = f"toolu_{child}"
            asked = self._words(12)
            use = {"type": "tool_use", "id": tool, "name": "Agent", "input": {"description": "a part", "prompt": asked}}
            call = self._call("root", root, [{"type": "text", "text": self._words(9)}, use], clock, 2.5)
            spawn = copy.deepcopy(self._spawn)
            spawn |= {"relation_id": f"rel_s{child}", "child_participant_id": f"p_{child}", "tool_call_id": tool}
            spawn |= {"parent_call_id": call["call_id"], "model_tool_ref": {"call_id": tool, "item_id": None}}
            self._new_relations.append(spawn)
            self._child(child, asked, clock + 2.6)
            root += [
                {"role": "assistant", "content": call["output"]["content"]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": tool, "content": self._words(30)}]},
            ]
            held = copy.deepcopy(self._held)
            held |= {"relation_id": f"rel_h{child}", "child_participant_id": f"p_{child}", "tool_call_id": tool}
            held |= {"parent_call_id": call["call_id"], "model_tool_ref": {"call_id": tool, "item_id": None}}
            held |= {"context_pointer": f"/messages/{len(root) - 1}/content/0", "context_call_id": "call_last"}
            held["delivery"] |= {"bound_id": tool}
            self._new_relations.append(held)
            clock += 3.0
        last = self._call("root", root, [{"type": "text", "text": "All parts were looked at."}], clock + 40, 4.0)
        last["call_id"] = "call_last"
        self._made.sort(key=lambda call: str(call["timing"]["request_start"]))
        for sequence, call in enumerate(self._made, 1):
            call["sequence"] = sequence
        records[:] = self._made

    def _child(self, child: int, asked: str, clock: float) -> None:
        messages: list[Any] = [{"role": "user", "content": asked}]
        for turn in range(self._calls_each):
            is_last = turn == self._calls_each - 1
            tool, name = f"toolu_{child}_{turn}", self._random.choice(_TOOLS)
            use = {"type": "tool_use", "id": tool, "name": name, "input": {"command": self._words(4)}}
            content: list[Any] = [{"type": "text", "text": self._words(10)}, *([] if is_last else [use])]
            seconds = self._random.uniform(0.4, 3.0)
            self._call(f"p_{child}", messages, content, clock, seconds)
            result = {"type": "tool_result", "tool_use_id": tool, "content": self._words(40)}
            messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
            clock += seconds + self._random.uniform(0.05, 0.8)

    def _call(self, owner: str, messages: list[Any], content: list[Any], clock: float, seconds: float) -> Record:
        call = copy.deepcopy(self._template)
        tools = [item for item in content if item["type"] == "tool_use"]
        name = f"call_{len(self._made):06d}"
        size = 900 + 180 * len(messages)
        usage = {"input_tokens": 200, "output_tokens": 40 + 8 * len(content), "cache_creation_input_tokens": 180}
        usage["cache_read_input_tokens"] = max(0, size - 400)
        call |= {"call_id": name, "participant_id": owner, "purpose": "agent", "usage": usage}
        call |= {"tool_refs": [{"tool_call_id": item["id"], "item_id": None, "name": item["name"]} for item in tools]}
        call["output"] |= {"content": content, "stop_reason": "tool_use" if tools else "end_turn", "usage": usage}
        call["timing"] |= {
            "request_start": moment(clock),
            "end": moment(clock + seconds),
            "first_byte_ms": seconds * 300.0,
            "duration_ms": seconds * 1000.0,
        }
        call["context"] |= {
            "system": [{"type": "text", "text": "You are a careful agent. " * 200}],
            "tools": [{"name": tool, "description": "a tool", "input_schema": {"type": "object"}} for tool in _TOOLS],
            "messages": list(messages),
        }
        call["context"]["messages"] = [*messages[:-1], _marked(messages[-1])]
        self._made.append(call)
        return call

    def _words(self, number: int) -> str:
        return " ".join(self._random.choices(_WORDS, k=number))

    def relations(self, records: list[Record]) -> None:
        for relation in self._new_relations:
            relation["parent_participant_id"] = "root"
        records[:] = self._new_relations

    def manifest(self, whole: Record) -> None:
        root, child = whole["participants"]
        made = {item["participant_id"]: item for item in [{**root, "participant_id": "root", "call_ids": []}]}
        for place in range(self._agents):
            ids = {"agent_id": [f"{(place + 1) * 2654435761 % 2**32:08x}{place:08x}"]}
            made[f"p_{place}"] = {
                **child,
                "participant_id": f"p_{place}",
                "parent_participant_id": "root",
                "native_ids": ids,
                "call_ids": [],
            }
        for call in self._made:
            made[call["participant_id"]]["call_ids"].append(call["call_id"])
        whole["participants"] = list(made.values())
        whole["counts"] |= {"calls": len(self._made), "participants": len(made)}


def _marked(message: Any) -> Any:
    """With the cache mark that a harness puts on its newest message."""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]}


def moment(seconds: float) -> str:
    """So long after the first request, as a record has it."""
    return f"2026-11-30T10:{int(seconds // 60) % 60:02}:{seconds % 60:09.6f}Z"
