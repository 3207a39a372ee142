"""What summaries say of runs that did not end well, and of calls that nobody said anything about."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect.summary import _details
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.importing.command import ImportRequest, import_attempt
from roller_capture.vocabulary import ExecutionStatus, Purpose
from tests.export.families import GO, answer, asked, publish, publish_generations, run_export, text
from tests.importing.recorded import flow, write_flows

OUTPUTS = {"calls": "o.jsonl", "main": "o.jsonl", "atif": "o", "otel": "o.jsonl", "har": "o.har"}
ENDS = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED)
HEADERS = ("--purpose unknown", "x-roller-purpose")
SESSIONS = ("--allow identity_unresolved", "x-roller-session")


def summary(kind: str, place: Path, *options: str) -> tuple[list[str], dict[str, Any]]:
    """The lines, and the document."""
    output = place.parent / f"out-{place.name}-{OUTPUTS[kind]}"
    _, out, err = run_export(kind, place, "--output", output, "--overwrite", "--json", *options)
    return err.splitlines(), json.loads(out)


def silent(directory: Path, monkeypatch: pytest.MonkeyPatch, harness: str) -> Path:
    """An attempt of one call that nobody says the purpose of."""
    reply = answer("r1", text("done"))
    purposes = {reply["id"]: Purpose.UNKNOWN}
    calls: list[Any] = [("root", asked(GO), reply, {})]
    return publish(directory, monkeypatch, calls, parents={}, relations=(), purposes=purposes, harness=harness)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_runs_that_did_not_end_well_are_counted(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In what is exported, by how they ended; nothing is said where all ended well."""
    for number, status in enumerate(ENDS, 1):
        place = tmp_path / "run" / status
        publish_generations(place, monkeypatch, status=status, capture_id=f"cap_abcdefghij012345678{number}")
    said, document = summary(kind, tmp_path / "run")
    counts = document["by_execution_status"]
    assert counts.keys() == set(ENDS)
    exported = document[{"main": "rows", "atif": "trajectories", "otel": "spans"}.get(kind, "calls")]
    assert [3 * number for number in counts.values()] == [exported] * 3
    each = exported // 3
    assert f"  of runs that failed: {each}, that were interrupted: {each}" in said
    said, document = summary(kind, tmp_path / "run" / "completed")
    assert not any("of runs" in line for line in said)
    assert document["by_execution_status"] == {"completed": each}


@pytest.mark.parametrize("harness", ["generic", "claude-code"])
@pytest.mark.parametrize("kind", ["calls", "main", "atif"])
def test_calls_without_a_purpose_get_a_hint(
    kind: str, harness: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option that takes them; the header only where the user writes the agent."""
    said = "\n".join(summary(kind, silent(tmp_path / "a", monkeypatch, harness))[0])
    option, header = HEADERS
    assert "purpose unknown" in said
    assert option in said
    assert (header in said) is (harness == "generic")
    assert not any(words in said for words in SESSIONS)


@pytest.mark.parametrize("kind", ["calls", "main", "atif"])
def test_calls_of_nobody_get_a_hint(kind: str, tmp_path: Path) -> None:
    """The same for those of agents that do not say who calls."""
    flows = write_flows(tmp_path / "flows.mitm", flow())
    import_attempt(ImportRequest((flows,), tmp_path / "a", "generic"))
    finalize_attempt(tmp_path / "a", FinalizeRequest(execution_status=ExecutionStatus.COMPLETED))
    said = "\n".join(summary(kind, tmp_path / "a")[0])
    assert all(words in said for words in SESSIONS)
    taking = ("--allow", "identity_unresolved", "--purpose", "agent", "--purpose", "unknown")
    assert kind != "calls" or summary(kind, tmp_path / "a", *taking)[1]["calls"] == 1


def test_collect_tells_of_calls_without_a_purpose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of agents of the user's own alone: others cannot say it."""
    line = "1 exportable call without x-roller-purpose: no export takes such calls by itself"
    assert line in list(_details(silent(tmp_path / "a", monkeypatch, "generic"), stopped=False))
    assert line not in list(_details(silent(tmp_path / "b", monkeypatch, "claude-code"), stopped=False))
