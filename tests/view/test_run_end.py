"""Why a run did not end well, in every view."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.view.attempt import load_attempt
from roller_capture.view.command import view
from roller_capture.view.html.command import PageRequest, write_html
from roller_capture.view.run_end import run_end
from tests.support.publish import publish_family
from tests.view.html.page_data import PageData
from tests.view.published import LAUNCHER, forge, note_run, without_calls

BOOM = {"exit_codes": [3], "ended_by": "harness", "stderr_tail": "Traceback\n\n  at line 1\nboom: no way\n"}


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that failed."""
    publish_family(tmp_path / "run" / "a", monkeypatch)
    return forge(tmp_path / "run" / "a", manifest=lambda whole: whole.update(execution_status="failed"))


def shown(path: Path, **options: Any) -> str:
    """What `view` prints."""
    stream = io.StringIO()
    assert view(path, stream=stream, **options) == 0
    return stream.getvalue()


def test_every_view_says_why(attempt: Path, tmp_path: Path) -> None:
    """The tree, the table, both documents, the page and its list."""
    note_run(attempt, **BOOM)
    assert (
        "; execution failed\n"
        "  the run failed: exit code 3\n"
        "    its error output: Traceback\n"
        "    its error output: at line 1\n"
        "    its error output: boom: no way\n"
    ) in shown(attempt)
    assert json.loads(shown(attempt, json_output=True))["run_end"] == {
        "sentence": "the run failed: exit code 3",
        "reason": "exit code 3",
        "last_words": ["Traceback", "at line 1", "boom: no way"],
    }
    assert shown(attempt.parent).splitlines()[1].endswith("  exit code 3: boom: no way")
    (row,) = json.loads(shown(attempt.parent, json_output=True))["attempts"]
    assert row["why_not_completed"] == "exit code 3: boom: no way"
    assert write_html(PageRequest(attempt.parent, tmp_path / "page.html")) == 0
    page = PageData(tmp_path / "page.html")
    assert page.attempt()["end"]["sentence"] == "the run failed: exit code 3"
    assert page.about["attempts"][0]["why_not_completed"] == "exit code 3: boom: no way"


@pytest.mark.parametrize(
    ("status", "note", "reason"),
    [
        ("failed", {"exit_codes": [0, 3]}, "exit code 0, exit code 3"),
        ("failed", {"exit_codes": []}, "not started"),
        ("failed", {"exit_codes": [0], "turn_failed": True}, "exit code 0; by its own output the last turn failed"),
        (
            "interrupted",
            {"exit_codes": [-9], "ended_by": "timeout", "turns_not_run": 2},
            "killed by SIGKILL; stopped at its time limit (--timeout); 2 turns not run",
        ),
        (
            "interrupted",
            {"exit_codes": [-999], "ended_by": "signal"},
            "exit code -999; stopped, since collect was told to stop",
        ),
        ("interrupted", {"ended_by": "collect"}, "stopped, since collect was killed or failed itself"),
        ("failed", {}, "nothing here says why"),
        (
            "failed",
            {
                "exit_codes": [True, "3", None, 10**30],
                "ended_by": ["signal"],
                "turn_failed": 1,
                "turns_not_run": -1,
                "stderr_tail": {},
            },
            "nothing here says why",
        ),
        ("failed", {"exit_codes": 3, "ended_by": "nonsense", "turns_not_run": True}, "nothing here says why"),
    ],
)
def test_reasons_in_words(attempt: Path, status: str, note: dict[str, Any], reason: str) -> None:
    """Those that collect has noted; what has another type is as good as absent."""
    forge(note_run(attempt, **note), manifest=lambda whole: whole.update(execution_status=status, raw_retained=True))
    end = load_attempt(attempt).end
    assert end is not None
    assert (end.reason, end.last_words) == (reason, ())


def test_where_raw_was_not_kept_that_is_said(attempt: Path) -> None:
    forge(attempt, manifest=lambda whole: whole.update(raw_retained=False))
    assert "the run failed: nothing here says why: raw/, which would say it, was not kept\n" in shown(attempt)


@pytest.mark.parametrize("status", ["completed", "unknown"])
def test_a_run_that_is_not_known_to_have_failed_has_no_such_line(attempt: Path, status: str) -> None:
    note_run(attempt, **BOOM)
    assert run_end(attempt, {"execution_status": status, "files": {LAUNCHER: {}}}) is None


def test_the_error_output_is_cut_and_drives_nothing(attempt: Path) -> None:
    """Its last five lines, none endless, no control character."""
    note_run(attempt, **BOOM | {"stderr_tail": "\n".join([*map(str, range(20)), "\x1b[2J\u202e" + "x" * 5000])})
    lines = [line.strip() for line in shown(attempt).splitlines() if "its error output" in line]
    assert [line.rpartition(" ")[2] for line in lines[:4]] == ["16", "17", "18", "19"]
    assert lines[4].startswith("its error output: \\x1b[2J\\u202exxx")
    assert len(lines[4]) < 400


@pytest.mark.parametrize(
    ("status", "step"),
    [("failed", "    Find out first why the run failed before it made a call.\n"), ("interrupted", "")],
)
def test_advice_about_calls_is_idle_where_a_run_ended_before_the_first(attempt: Path, status: str, step: str) -> None:
    """How to get native logs helps nobody then."""
    forge(without_calls(attempt), manifest=lambda whole: whole.update(execution_status=status))
    gap = "  No native log was read, so it is not known whether every model call was recorded.\n"
    assert shown(attempt).endswith(f"what is missing\n{gap}{step}")
