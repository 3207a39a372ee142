"""The recorded fixtures hold structure, ids and our own words, and nothing else."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.claude_code_sanitiser import Neutral, sanitised, sanitised_record, sanitised_stdout, sanitised_text, slug
from scripts.record_fixtures import FIXTURES, RECORDED
from tests.support.harness_install import CLAUDE_CODE_VERSIONS

NONCE = "n0n0123456789abn"


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        ("general-purpose", "general-purpose"),
        (f"The answer is 41. [{NONCE}]", f"The answer is 41. [{NONCE}]"),
        ("Some text of theirs", "…"),
        (f"  indented, theirs\n  All done. [{NONCE}]", f"  …\n  All done. [{NONCE}]"),
        ("Done: <status>completed</status> and more", "… <status>completed</status> …"),
        ("<result>two words</result>", "<result>…</result>"),
        ("agentId: a0123456789abcdef (ask nicely)", "agentId: a0123456789abcdef …"),
        ('{"a":"their words","b":["x"]}', '{"a":"…","b":["x"]}'),
        ("{ no json", "…"),
        (f"call toolu_01{NONCE}0 of 2", f"… toolu_01{NONCE}0 …"),
    ],
)
def test_foreign_prose_becomes_an_ellipsis(raw: str, kept: str) -> None:
    """Words of others go, with line breaks, ids, tags and our words in place."""
    assert sanitised_text(raw) == kept


def test_bulky_records_keep_their_keys() -> None:
    """Snapshots and blobs lose their content; a notification that was absorbed keeps its ids."""
    blob = {"type": "api-request-blob", "hash": "h", "message": {"content": "theirs, long"}}
    snapshot = {"type": "attachment", "uuid": "u", "attachment": {"type": "prompt_snapshot", "tools": ["x"]}}
    queued = {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "<task-id>a b</task-id>"}}
    assert sanitised_record(blob) == {"type": "api-request-blob", "hash": "h"}
    assert sanitised_record(snapshot) == {
        "type": "attachment",
        "uuid": "u",
        "attachment": {"type": "prompt_snapshot"},
    }
    assert sanitised_record(queued)["attachment"] == {"type": "queued_command", "prompt": "<task-id>…</task-id>"}


def test_the_output_stream_keeps_what_the_logs_do_not_have() -> None:
    """The start record loses its listings; lines that repeat the log are left out."""
    init = {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash"], "agents": []}
    assert sanitised_stdout(init) == {"type": "system", "subtype": "init", "session_id": "s"}
    assert sanitised_stdout({"type": "assistant"}) is None


def test_names_of_this_machine_become_neutral() -> None:
    """Folders, their slugs and user ids."""
    neutral = Neutral(Path("/data/my_run/workspace"), Path("/data/my_run/home"))
    assert neutral("/data/my_run/workspace/x -data-my-run-workspace") == "/workspace/x -workspace"
    assert neutral("/tmp/claude-0/-data-my-run-workspace/s") == "/tmp/claude-1000/-workspace/s"
    assert slug("/a_b/c.d") == "-a-b-c-d"


def fixture_values() -> Iterator[tuple[Path, Any]]:
    for path in sorted(FIXTURES.rglob("*.json*")):
        text = path.read_text(encoding="utf-8")
        parts = text.splitlines() if path.suffix == ".jsonl" else [text]
        yield from ((path, json.loads(part)) for part in parts)


def test_every_scenario_is_recorded_for_every_version() -> None:
    """Fixtures of both pinned versions, each with logs and the provider's record."""
    recorded = {str(path.parent.relative_to(FIXTURES)) for path in FIXTURES.rglob("calls.json")}
    assert recorded == {f"{version}/{name}" for version in CLAUDE_CODE_VERSIONS for name in RECORDED}
    assert all(any((FIXTURES / folder / "native" / "projects").rglob("*.jsonl")) for folder in recorded)


def test_the_fixtures_are_sanitised() -> None:
    """Sanitising them again changes nothing, and they name no machine, no user and no address."""
    foreign = re.compile(r"(?i)\"/(?:root|home|Users)/|[\w.]+@[\w.]+|device_id|sk-ant-")
    for path, value in fixture_values():
        exact = value if path.name in ("calls.json", "launcher.json") else sanitised(value)
        assert exact == value, path
        assert not foreign.search(json.dumps(value)), path
