"""The demo's stand-in sends what Claude Code sends and writes what Claude Code writes."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.demo import scripted_agents
from roller_capture.demo_client import VERSION, run_client
from roller_capture.errors import RollerError
from roller_capture.scripted_provider import Reply, ScriptedProvider, TruthRecord

RECORDED = Path(__file__).parent / "fixtures" / "harness" / "claude-code" / VERSION / "single" / "native"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[TruthRecord, ...]]:
    home: Path = tmp_path_factory.mktemp("home")
    with ScriptedProvider(scripted_agents()) as provider:
        run_client(provider.url, home, "ROOT: go")
    assert provider.script_errors == []
    return home / ".claude", provider.truth.records


def logs(native: Path) -> list[Json]:
    files = sorted((native / "projects").rglob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def shape(record: Json) -> tuple[str, bool, bool]:
    return record["type"], "agentId" in record, "sourceToolAssistantUUID" in record


def members(records: Iterable[Json]) -> dict[tuple[str, bool, bool], list[set[str]]]:
    """The members of the records of each shape, with those of `message` and `toolUseResult` as paths."""
    found: dict[tuple[str, bool, bool], list[set[str]]] = {}
    for record in records:
        inner = {f"{name}.{key}" for name in ("message", "toolUseResult") for key in record.get(name, {})}
        found.setdefault(shape(record), []).append(set(record) | inner)
    return found


def test_requests_carry_the_identity_headers(run: tuple[Path, tuple[TruthRecord, ...]]) -> None:
    """One session for all; an agent id for the subagent only."""
    _, truth = run
    assert [record.owner for record in truth] == ["root", "child", "child", "root"]
    assert len({record.headers["x-claude-code-session-id"] for record in truth}) == 1
    agents = [record.headers.get("x-claude-code-agent-id") for record in truth]
    assert agents[0] is agents[3] is None
    assert agents[1] == agents[2] is not None


def test_every_record_is_of_a_recorded_shape(run: tuple[Path, tuple[TruthRecord, ...]]) -> None:
    """No member that the real logs do not have, in no kind of record that they do not have."""
    real = members(logs(RECORDED))
    for kind, records in members(logs(run[0])).items():
        known = set.union(*real[kind])
        for record in records:
            assert record <= known, kind


def test_no_member_that_proves_something_is_left_out(run: tuple[Path, tuple[TruthRecord, ...]]) -> None:
    """Ids and links are all there, in every record that really has them."""
    proving = {"uuid", "parentUuid", "sessionId", "agentId", "isSidechain", "timestamp", "version", "cwd", "message"}
    proving |= {"requestId", "requestRef", "apiBlockIndex", "sourceToolAssistantUUID", "toolUseResult", "id"}
    proving |= {"message.id", "message.model", "message.stop_reason", "message.usage", "message.content"}
    proving |= {"toolUseResult.status", "toolUseResult.agentId", "toolUseResult.content", "querySource"}
    real = members(logs(RECORDED))
    for kind, records in members(logs(run[0])).items():
        always = set.intersection(*real[kind]) & proving
        for record in records:
            assert always <= record, kind


def test_the_log_holds_the_ids_of_the_wire(run: tuple[Path, tuple[TruthRecord, ...]]) -> None:
    """Response ids per file, several records for several blocks, and the subagent's file named by its id."""
    claude, truth = run
    ids = {
        file.stem: {record["message"]["id"] for record in map(json.loads, file.open()) if record["type"] == "assistant"}
        for file in (claude / "projects").rglob("*.jsonl")
    }
    session, agent = truth[1].headers["x-claude-code-session-id"], truth[1].headers["x-claude-code-agent-id"]
    assert ids == {
        session: {truth[0].response_id, truth[3].response_id},
        f"agent-{agent}": {truth[1].response_id, truth[2].response_id},
    }
    [meta] = (claude / "projects").rglob("*.meta.json")
    [recorded] = RECORDED.rglob("*.meta.json")
    written = json.loads(meta.read_bytes())
    assert set(written) <= set(json.loads(recorded.read_bytes()))
    assert (written["toolUseId"], written["finished"]) == (truth[0].tool_ids[0], True)


def test_an_error_answer_is_one_clear_line(tmp_path: Path) -> None:
    """The demo never shows a traceback."""
    with ScriptedProvider(lambda _: Reply(status=500)) as provider, pytest.raises(RollerError, match="500"):
        run_client(provider.url, tmp_path, "ROOT: go")
