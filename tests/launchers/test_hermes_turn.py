"""Tests of the script around one turn: what it says of the session, the answer and the end."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from roller_capture.launchers import hermes_turn

SCRIPT = Path(hermes_turn.__file__)


def _run(folder: Path, body: str) -> tuple[int, dict[str, Any], str]:
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    command = (sys.executable, "-I", str(SCRIPT), str(folder / "report.json"), str(program))
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    [line] = process.stdout.splitlines()
    return process.returncode, json.loads(line), process.stderr


def _report(folder: Path, **values: object) -> str:
    return f"echo '{json.dumps(values)}' > {folder / 'report.json'}"


@pytest.mark.parametrize(
    ("values", "end", "code", "answered"),
    [
        ({"session_id": "s1", "completed": True, "failed": False}, "exit 0", 0, True),
        ({"session_id": "s1", "completed": False, "failed": True}, "exit 0", 1, False),
        ({"session_id": "s1", "completed": True}, "exit 2", 2, False),
    ],
)
def test_the_reports_session_and_the_true_end(
    tmp_path: Path, values: dict[str, object], end: str, code: int, answered: bool
) -> None:
    """`hermes -z` says 0 when it has printed an error as its answer; its report says that it failed."""
    returned, line, err = _run(tmp_path, f"{_report(tmp_path, **values)}\necho an answer\necho oops >&2\n{end}")
    expected = {"type": "turn_end", "session_id": "s1", "exit_code": code, "answered": answered}
    assert (returned, line) == (code, {**expected, "answer": "an answer\n"})
    assert err == "oops\n"


def test_a_resumed_turn_names_its_session_last_on_the_error_output(tmp_path: Path) -> None:
    """`hermes chat -Q` writes no report. What the answer says of sessions is not looked at."""
    _, line, _ = _run(tmp_path, "echo session_id: from-the-model\necho warning >&2\nprintf '\\nsession_id: s2\\n' >&2")
    assert line["session_id"] == "s2"


@pytest.mark.parametrize(
    "body", ["exit 0", "echo session_id: s1", "echo session_id: s1 >&2; echo later >&2", "echo '[1]' > report.json"]
)
def test_a_session_that_nobody_reports_is_null(tmp_path: Path, body: str) -> None:
    """Neither answer nor an earlier line of the error output counts."""
    assert _run(tmp_path, body)[1]["session_id"] is None


def test_an_old_report_is_not_taken_for_this_turns(tmp_path: Path) -> None:
    """A turn that writes none has none."""
    (tmp_path / "report.json").write_text('{"session_id": "old"}')
    assert _run(tmp_path, "exit 0")[1]["session_id"] is None


def test_a_harness_that_a_signal_ended_is_told_as_128_plus_n(tmp_path: Path) -> None:
    """As a shell would say it."""
    returned, line, _ = _run(tmp_path, "kill -TERM $$")
    assert (returned, line["exit_code"], line["answered"]) == (143, 143, False)


def test_it_ends_by_the_signal_that_it_gets(tmp_path: Path) -> None:
    """`collect` signals every process of the run itself, and must see this one as interrupted."""
    command = (sys.executable, "-I", str(SCRIPT), str(tmp_path / "report.json"), "/bin/sleep", "60")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGTERM
