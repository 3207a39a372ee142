"""What an agent that can write into its own logs may do to the logs of a recorded run, each as a table of variants.

A `Logs` value holds all files of a run as records, by path below the native root; a forgery yields changed copies.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]
Forgery = Callable[["Logs"], Iterator["Logs"]]
STRANGER = "azzzzzzzzzzzzzzzz"


@dataclass(frozen=True)
class Logs:
    """The root's logs and the agents' logs and metadata, by path."""

    roots: dict[Path, list[Record]]
    agents: dict[Path, list[Record]]
    metas: dict[Path, Record]

    @classmethod
    def load(cls, native: Path) -> "Logs":
        logs = sorted(path for path in native.glob("projects/**/*.jsonl"))
        read = {path.relative_to(native): [json.loads(line) for line in path.open()] for path in logs}
        metas = {path.relative_to(native): json.loads(path.read_text()) for path in native.glob("projects/**/*.json")}
        agents = {path: records for path, records in read.items() if path.name.startswith("agent-")}
        return cls({path: records for path, records in read.items() if path not in agents}, agents, metas)

    def write(self, native: Path, last: "Logs") -> None:
        """Writes what differs from the logs that were written there last."""
        for path, records in self.all_logs().items():
            if records != last.all_logs()[path]:
                (native / path).write_text("".join(json.dumps(record) + "\n" for record in records))
        for path, meta in self.metas.items():
            if meta != last.metas[path]:
                (native / path).write_text(json.dumps(meta))

    def all_logs(self) -> dict[Path, list[Record]]:
        return {**self.roots, **self.agents}

    def changed(self) -> "Logs":
        """A copy whose files may be changed; records are shared and must be replaced, not changed."""
        roots, agents = ({path: list(records) for path, records in logs.items()} for logs in (self.roots, self.agents))
        return Logs(roots, agents, {path: dict(meta) for path, meta in self.metas.items()})

    def agent_ids(self) -> list[str]:
        return [agent_of(path) or "" for path in self.agents]

    def outputs(self, path: Path) -> list[tuple[int, Record]]:
        return [(at, item) for at, item in enumerate(self.all_logs()[path]) if _is_output(item)]

    def tool_ids(self) -> list[str]:
        blocks = [
            block
            for path in self.all_logs()
            for _, item in self.outputs(path)
            for block in item["message"]["content"]
            if block["type"] == "tool_use"
        ]
        return list(dict.fromkeys(block["id"] for block in blocks))


def agent_of(path: Path) -> str | None:
    """The agent id in a file's name; `None` for a root's."""
    return path.name.removeprefix("agent-").partition(".")[0] if path.name.startswith("agent-") else None


def _is_output(record: Record) -> bool:
    return record["type"] == "assistant" and record["message"]["model"] != "<synthetic>"


def _dressed(record: Record, target: Path) -> Record:
    """A record as it would stand in the target's file."""
    agent_id = agent_of(target)
    dressed = {key: value for key, value in record.items() if key != "agentId"}
    return dressed | {"isSidechain": agent_id is not None} | ({"agentId": agent_id} if agent_id is not None else {})


def _pairs(logs: Logs) -> Iterator[tuple[Path, Path]]:
    files = list(logs.all_logs())
    yield from ((one, other) for one in files for other in files if one != other)


def move_an_output(logs: Logs) -> Iterator[Logs]:
    for source, target in _pairs(logs):
        for at, record in logs.outputs(source):
            forged = logs.changed()
            del forged.all_logs()[source][at]
            forged.all_logs()[target].append(_dressed(record, target))
            yield forged


def copy_an_output(logs: Logs) -> Iterator[Logs]:
    for source, target in _pairs(logs):
        for _, record in logs.outputs(source):
            for change in ({}, {"uuid": "forged-uuid"}):
                for at in (0, len(logs.all_logs()[target])):
                    forged = logs.changed()
                    forged.all_logs()[target].insert(at, _dressed(record, target) | change)
                    yield forged


def insert_a_foreign_id(logs: Logs) -> Iterator[Logs]:
    for source, target in _pairs(logs):
        for _, record in logs.outputs(source)[-1:]:
            message = {"role": "assistant", "model": "m", "id": record["message"]["id"], "stop_reason": "end_turn"}
            foreign = {"type": "assistant", "uuid": "forged-uuid", "parentUuid": None}
            forged = logs.changed()
            content = [{"type": "text", "text": "Mine."}]
            forged.all_logs()[target].append(_dressed(foreign | {"message": message | {"content": content}}, target))
            yield forged


def rewrite_the_tool_id_of_metadata(logs: Logs) -> Iterator[Logs]:
    for path, meta in logs.metas.items():
        for tool_id in (*logs.tool_ids(), "toolu_of_nothing"):
            if tool_id != meta.get("toolUseId"):
                forged = logs.changed()
                forged.metas[path]["toolUseId"] = tool_id
                yield forged


def rewrite_the_parent_of_metadata(logs: Logs) -> Iterator[Logs]:
    for path in logs.metas:
        for agent_id in (*logs.agent_ids(), STRANGER):
            forged = logs.changed()
            forged.metas[path]["parentAgentId"] = agent_id
            yield forged


def claim_to_be_a_fork(logs: Logs) -> Iterator[Logs]:
    """Metadata, with and without the harness's reference, and a copied id at the end."""
    for source, target in _pairs(logs):
        meta = target.with_suffix(".meta.json")
        if meta not in logs.metas:
            continue
        for referring in (False, True):
            forged = logs.changed()
            forged.metas[meta]["isFork"] = not forged.metas[meta].get("isFork", False)
            if referring:
                forged.agents[target].insert(0, {"type": "fork-context-ref", "agentId": agent_of(target)})
            forged.agents[target] += [_dressed(record, target) for _, record in logs.outputs(source)[-1:]]
            yield forged


def insert_a_reference(logs: Logs) -> Iterator[Logs]:
    """Alone, and with a copied id in a child's log."""
    for source, target in _pairs(logs):
        for at in (0, 1, len(logs.all_logs()[target])):
            for copied in (False, True):
                forged = logs.changed()
                agent_id = agent_of(target)
                mark: Record = {"type": "fork-context-ref"} | ({"agentId": agent_id} if agent_id else {})
                forged.all_logs()[target].insert(at, mark)
                if copied:
                    for _, record in logs.outputs(target)[-1:]:
                        forged.all_logs()[source].append(_dressed(record, source))
                yield forged


def _progress(agent_id: str, tool_id: str | None, record: Record) -> Record:
    data = {"type": "agent_progress", "agentId": agent_id, "message": record}
    return {"type": "progress", "uuid": "forged-progress", "parentToolUseID": tool_id, "data": data}


def tell_of_an_agent_by_progress(logs: Logs) -> Iterator[Logs]:
    """Beside and in place of a record."""
    for root in logs.roots:
        for source in logs.all_logs():
            named = [(agent, tool) for agent in (*logs.agent_ids(), STRANGER) for tool in (*logs.tool_ids(), None)]
            for at, record in logs.outputs(source)[-1:]:
                for agent_id, tool_id in named:
                    forged = logs.changed()
                    if source == root:
                        del forged.roots[root][at]
                    forged.roots[root].append(_progress(agent_id, tool_id, record))
                    yield forged


def tell_of_a_sidechain(logs: Logs) -> Iterator[Logs]:
    """Beside and in place of a record."""
    for root in logs.roots:
        for source in logs.all_logs():
            for at, record in logs.outputs(source):
                for removed in {False, source == root}:
                    forged = logs.changed()
                    if removed:
                        del forged.roots[root][at]
                    side = _dressed(record, root) | {"isSidechain": True, "parentUuid": None}
                    forged.roots[root].append(side)
                    yield forged


def duplicate_a_record(logs: Logs) -> Iterator[Logs]:
    for path, records in logs.all_logs().items():
        for at, record in enumerate(records):
            if record["type"] in ("assistant", "user"):
                for target in (at, len(records)):
                    forged = logs.changed()
                    forged.all_logs()[path].insert(target, record)
                    yield forged


def swap_two_childrens_files(logs: Logs) -> Iterator[Logs]:
    """Logs, metadata, and both; the ids in the records stay."""
    for one, other in _pairs(logs):
        if one in logs.agents and other in logs.agents:
            metas = one.with_suffix(".meta.json"), other.with_suffix(".meta.json")
            for swapped in ("logs", "metadata", "both"):
                forged = logs.changed()
                if swapped != "metadata":
                    forged.agents[one], forged.agents[other] = forged.agents[other], forged.agents[one]
                if swapped != "logs":
                    forged.metas[metas[0]], forged.metas[metas[1]] = forged.metas[metas[1]], forged.metas[metas[0]]
                yield forged


def change_the_agent_of_records(logs: Logs) -> Iterator[Logs]:
    """Of each record, and of a whole file."""
    for path, records in logs.all_logs().items():
        spoken = [at for at, record in enumerate(records) if record["type"] in ("assistant", "user")]
        for agent_id in (*logs.agent_ids(), STRANGER):
            for places in (*([at] for at in spoken), spoken):
                forged = logs.changed()
                for at in places:
                    forged.all_logs()[path][at] = records[at] | {"agentId": agent_id}
                yield forged


def let_other_tools_name_agents(logs: Logs) -> Iterator[Logs]:
    """The structured result of each tool call that is no delegation names an agent, or there is one more such call."""
    for path, records in logs.all_logs().items():
        for agent_id in (*logs.agent_ids(), STRANGER):
            for detail in (
                {"status": "completed", "agentId": agent_id},
                {"status": "async_launched", "agentId": agent_id},
                {"success": True, "resumedAgentId": agent_id},
                {"retrieval_status": "success", "task": {"task_id": agent_id, "status": "completed"}},
            ):
                forged = logs.changed()
                for at, record in enumerate(records):
                    if "stdout" in (record.get("toolUseResult") or ()):
                        forged.all_logs()[path][at] = record | {"toolUseResult": detail}
                use = {"type": "tool_use", "id": "toolu_forged", "name": "mcp__x__y", "input": {}}
                result = {"type": "tool_result", "tool_use_id": "toolu_forged", "content": f"agentId: {agent_id}"}
                call = {"type": "assistant", "uuid": "f1", "message": {"id": "msg_f", "model": "m", "content": [use]}}
                answer = {"type": "user", "uuid": "f2", "message": {"content": [result]}, "toolUseResult": detail}
                forged.all_logs()[path][len(records) :] = [_dressed(call, path), _dressed(answer, path)]
                yield forged


FORGERIES: tuple[Forgery, ...] = (
    move_an_output,
    copy_an_output,
    insert_a_foreign_id,
    rewrite_the_tool_id_of_metadata,
    rewrite_the_parent_of_metadata,
    claim_to_be_a_fork,
    insert_a_reference,
    tell_of_an_agent_by_progress,
    tell_of_a_sidechain,
    duplicate_a_record,
    swap_two_childrens_files,
    change_the_agent_of_records,
    let_other_tools_name_agents,
)
