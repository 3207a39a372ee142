"""Files of a launcher: whole or not there, and a copy that fails is told."""

import errno
import json
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from roller_capture.capture_protocol import Gap
from roller_capture.collect import native_logs
from roller_capture.launchers.claude_code import ClaudeCodeLauncher
from roller_capture.vocabulary import AttemptErrorCode, HttpEnd


class OneLog:
    """Copies one log with a key in it, or says why it could not."""

    traits = ClaudeCodeLauncher.traits

    def __init__(self, trouble: str | None = None, error: Exception | None = None) -> None:
        self._trouble = trouble
        self._error = error

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        del session_ids
        if self._error is not None:
            raise self._error
        if self._trouble is not None:
            return [Gap(AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"cannot be copied: {self._trouble}", "log.jsonl")]
        (target / "log.jsonl").write_bytes((home / "log.jsonl").read_bytes())
        return []


def store(tmp_path: Path, launcher: OneLog) -> native_logs.NativeStore:
    """A home with one log."""
    for name in ("home", "native"):
        (tmp_path / name).mkdir()
    (tmp_path / "home" / "log.jsonl").write_text('{"error": "sk-real-0123456789"}')
    return native_logs.NativeStore(launcher, tmp_path / "home", tmp_path / "native", ("sk-real-0123456789",))  # type: ignore[arg-type]


def test_what_was_saved_holds_no_key_and_says_so(tmp_path: Path) -> None:
    """launcher.json comes last."""
    gap = Gap(AttemptErrorCode.FILE_REFUSED, "a link")
    assert store(tmp_path, OneLog()).save((), [], {"turns": 1}, [gap]) == [gap]
    assert (tmp_path / "native" / "log.jsonl").read_text() == f'{{"error": "{"*" * 18}"}}'
    noted = json.loads((tmp_path / "native" / "launcher.json").read_bytes())
    assert (noted["turns"], noted["masked"]) == (1, ["log.jsonl"])
    assert [error["code"] for error in noted["errors"]] == ["file_refused"]


@pytest.mark.parametrize(
    "launcher",
    [
        OneLog(trouble=os.strerror(errno.ENOSPC)),
        OneLog(trouble=os.strerror(errno.EIO)),
        OneLog(error=OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))),
        OneLog(error=sqlite3.OperationalError("database or disk is full")),
    ],
)
def test_what_the_disk_did_not_take_is_not_saved(tmp_path: Path, launcher: OneLog) -> None:
    """The home has the only good copy then; no launcher.json says that all is well, and no key stays anywhere."""
    with pytest.raises(native_logs.NotSavedError) as caught:
        store(tmp_path, launcher).save((), [], {}, [])
    assert not caught.value.is_gone
    assert not (tmp_path / "native" / "launcher.json").exists()
    assert "sk-real" not in (tmp_path / "home" / "log.jsonl").read_text()
    told = caught.value.told(Path("/run/a b"), tmp_path, tmp_path / "home", "completed")
    assert f"--native {tmp_path / 'home'} --execution-status completed" in told
    assert "finalize '/run/a b'" in told
    assert "finalize" not in caught.value.told(Path("/run/a"), tmp_path, tmp_path / "home", "failed", captured=False)


def test_a_log_that_cannot_be_read_is_a_gap_and_no_reason_to_publish_nothing(tmp_path: Path) -> None:
    """An agent can have taken the permissions of its own log away: another try would find the same."""
    (gap,) = store(tmp_path, OneLog(trouble=os.strerror(errno.EACCES))).save((), [], {}, [])
    assert gap.code is AttemptErrorCode.NATIVE_LOG_UNREADABLE


def test_an_attempt_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """Whoever took it away has his reasons."""
    saving = store(tmp_path, OneLog())
    (tmp_path / "native").rmdir()
    with pytest.raises(native_logs.NotSavedError) as caught:
        saving.save((), [], {}, [])
    assert caught.value.is_gone
    assert not (tmp_path / "native").exists()
    with pytest.raises(FileNotFoundError):
        native_logs.native_folder(tmp_path / "attempt")


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
