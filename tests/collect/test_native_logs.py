"""Files of a launcher: whole or not there, and a copy that fails is told."""

import json
import threading
from pathlib import Path

import pytest

from roller_capture.capture_protocol import Gap
from roller_capture.collect import native_logs
from roller_capture.launchers.claude_code import ClaudeCodeLauncher
from roller_capture.vocabulary import AttemptErrorCode, HttpEnd


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """Private, and with nothing left beside it; a link in its place is replaced and not followed."""
    target = tmp_path / "elsewhere"
    (tmp_path / "a.json").symlink_to(target)
    native_logs.write_json(tmp_path / "a.json", {"a": 1})
    native_logs.write_json(tmp_path / "a.json", {"a": 2})
    assert json.loads((tmp_path / "a.json").read_bytes()) == {"a": 2}
    assert (tmp_path / "a.json").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "a.json").is_symlink()
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_new_file_must_be_new(tmp_path: Path) -> None:
    """The old one stays."""
    native_logs.write_json(tmp_path / "a.json", {"a": 1}, new=True)
    with pytest.raises(FileExistsError):
        native_logs.write_json(tmp_path / "a.json", {"a": 2}, new=True)
    assert json.loads((tmp_path / "a.json").read_bytes()) == {"a": 1}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_copy_that_fails_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By type only: the text could quote what must not be stored."""

    def fail(*_arguments: object) -> list[Gap]:
        raise ValueError("a secret")

    monkeypatch.setattr(ClaudeCodeLauncher, "copy_native", fail)
    (gap,) = native_logs.copy_native_logs(ClaudeCodeLauncher(), tmp_path, tmp_path, (), [])
    assert gap.code is AttemptErrorCode.NATIVE_LOGS_MISSING
    assert "ValueError" in gap.message
    assert "secret" not in gap.message


def test_an_attempt_without_working_files_has_no_calls(tmp_path: Path) -> None:
    """The recorder never began."""
    assert native_logs.settled_calls(tmp_path) == ()


def test_calls_that_the_harness_left_open_are_waited_for(tmp_path: Path) -> None:
    """Until the proxy has seen that its client is gone."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "attempt.json").write_text('{"format": "roller.work/v1"}')
    start = {"type": "request_headers", "flow": "f", "sequence": 1, "protocol": "anthropic-messages"}
    end = {"type": "failure", "flow": "f", "cut_by": "client"}
    (work / "events.jsonl").write_text(json.dumps(start) + "\n")

    def end_it() -> None:
        with (work / "events.jsonl").open("a") as stream:
            stream.write(json.dumps(end) + "\n")

    later = threading.Timer(0.3, end_it)
    later.start()
    (call,) = native_logs.settled_calls(tmp_path)
    later.join()
    assert call.end is HttpEnd.CUT_BY_CLIENT


def test_an_error_as_it_stands_in_launcher_json() -> None:
    """With its source where there is one."""
    code = AttemptErrorCode.NO_REQUEST_SEEN
    assert native_logs.launcher_error(Gap(code, "m")) == {"code": "no_request_seen", "message": "m"}
    assert native_logs.launcher_error(Gap(code, "m", "s"))["source"] == "s"
