"""What is in two of the imported files is no two calls."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.importing.command import ImportRequest, import_attempt, outcome_lines
from roller_capture.vocabulary import AttemptErrorCode
from roller_capture.working_files import read_working_files
from tests.importing.recorded import flow, har_entry, write_flows, write_har


def _said(*sources: Path, attempt: Path) -> tuple[int, list[str]]:
    """How many calls were imported, and what was said."""
    request = ImportRequest(sources, attempt, "generic")
    outcome = import_attempt(request)
    return outcome.calls, list(outcome_lines(request, outcome))


@pytest.mark.parametrize("kind", ["named twice", "copied", "linked", "HAR"])
def test_the_same_file_twice_is_refused(tmp_path: Path, kind: str) -> None:
    """By its content, whatever it is called; one line, exit 2, nothing is there."""
    first = write_flows(tmp_path / "f", flow()) if kind != "HAR" else write_har(tmp_path / "f", har_entry())
    second = tmp_path / "g"
    if kind == "named twice":
        second = first
    elif kind == "linked":
        second.symlink_to(first)
    else:
        second.write_bytes(first.read_bytes())
    arguments = ["import", str(first), str(second), "--attempt", str(tmp_path / "attempt"), "--harness", "generic"]
    result = CliRunner().invoke(app, arguments)
    what = "named twice" if kind == "named twice" else f"the same file as {first}"
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {second}: is {what}: name each file once, or its calls would count twice\n",
    )
    assert not (tmp_path / "attempt").exists()


def test_empty_files_are_told_as_such(tmp_path: Path) -> None:
    """They are the same by their content, too."""
    for name in ("f", "g"):
        (tmp_path / name).touch()
    with pytest.raises(RollerError, match="is empty"):
        import_attempt(ImportRequest((tmp_path / "f", tmp_path / "g"), tmp_path / "attempt", "generic"))


def test_a_flow_in_two_files_counts_once_and_is_named(tmp_path: Path) -> None:
    """A copy that was made while mitmdump went on, and its whole file; wherever they stand."""
    one, two, three = (flow(started_at=moment) for moment in (1.0, 2.0, 3.0))
    part = write_flows(tmp_path / "part", two)
    whole = write_flows(tmp_path / "whole", one, two, three, three)
    calls, said = _said(part, whole, attempt=tmp_path / "attempt")
    assert calls == 3
    assert f"warning: {whole}: 2 records left out: copies of flows that stand before them" in said
    attempt = read_working_files(tmp_path / "attempt")
    assert [call.flow for call in attempt.calls] == ["2:1", "1:1", "2:3"]
    (fault,) = (fault for fault in attempt.faults if fault.code is AttemptErrorCode.IMPORT_SOURCE_DAMAGED)
    assert fault.message == "2 records of file 2 left out: copies of flows that stand before them"


def test_equal_flows_with_ids_of_their_own_are_two_calls(tmp_path: Path) -> None:
    """Nothing but the id counts."""
    calls, said = _said(
        write_flows(tmp_path / "f", flow(), flow()), write_flows(tmp_path / "g", flow()), attempt=tmp_path / "attempt"
    )
    assert calls == 3
    assert not any("left out" in line for line in said)


def test_a_har_beside_other_files_may_hold_their_calls(tmp_path: Path) -> None:
    """It has no ids: said, and in the attempt. Alone there is nothing to share."""
    flows, har = write_flows(tmp_path / "f", flow()), write_har(tmp_path / "h.har", har_entry())
    words = "a HAR has no ids"
    _, said = _said(flows, har, attempt=tmp_path / "two")
    assert [line for line in said if words in line] == [
        f"warning: {har}: a HAR has no ids: what the other files hold of it, too, was imported twice"
    ]
    assert any(words in fault.message for fault in read_working_files(tmp_path / "two").faults)
    _, said = _said(har, attempt=tmp_path / "one")
    assert not any(words in line for line in said)
    assert not any(words in fault.message for fault in read_working_files(tmp_path / "one").faults)


@pytest.mark.parametrize(
    ("harness", "native", "option"),
    [("claude-code", False, " --native HOME"), ("claude-code", True, " --native HOME"), ("generic", False, "")],
)
def test_the_next_command_keeps_the_attribution(tmp_path: Path, harness: str, native: bool, option: str) -> None:
    """Without the logs it would be lost for good; an agent of one's own may have none."""
    (tmp_path / "home").mkdir()
    path = write_flows(tmp_path / "f", flow())
    request = ImportRequest((path,), tmp_path / "attempt", harness, tmp_path / "home" if native else None)
    *before, last = outcome_lines(request, import_attempt(request))
    assert last.startswith(f"now: roller-capture finalize {tmp_path / 'attempt'}{option} --execution-status completed")
    assert "what is published is final" in before[-1]
    assert "--native" in before[-1]


def test_with_the_logs_there_the_next_command_needs_none(tmp_path: Path) -> None:
    """They are below work/native then."""
    session = "11111111-2222-4333-8444-555555555555"
    log = tmp_path / "home" / ".claude" / "projects" / "p" / f"{session}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps({"sessionId": session, "type": "user"}) + "\n")
    path = write_flows(tmp_path / "f", flow("/v1/messages", (b"x-claude-code-session-id", session.encode())))
    request = ImportRequest((path,), tmp_path / "attempt", "claude-code", tmp_path / "home")
    assert not any("--native" in line for line in outcome_lines(request, import_attempt(request)))
