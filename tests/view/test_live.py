"""`view --live` beside a real recorder: what it says of each step, when it ends, and that it touches nothing."""

import fcntl
import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.exchange import BodyTimes
from roller_capture.view.live.command import follow
from roller_capture.view.live.events import EventTail
from roller_capture.view.live.followed import followed, is_held
from roller_capture.view.live.screen import LiveScreen
from roller_capture.vocabulary import Protocol
from tests.support.forbidden import forbid
from tests.support.publish import publish_family
from tests.support.recording import VERSIONS, request_head, response_head

AGENT = (b"x-claude-code-agent-id", b"a0123456789abcdef")


class Recorder:
    """A recorder of the real kind that makes calls one after the other."""

    def __init__(self, attempt: Path) -> None:
        self.recorder = AttemptRecorder(attempt, HARNESSES["claude-code"], {}, VERSIONS)

    def begin(self, flow: str, path: str = "/v1/messages") -> Any:
        call = self.recorder.begin_call(flow, request_head(path, AGENT), Protocol.ANTHROPIC_MESSAGES)
        call.request_chunk(b"x" * 1500)
        call.end_request(BodyTimes(1.0, 2.0), complete=True)
        return call

    def answer(self, call: Any, status: int = 200) -> None:
        call.begin_response(response_head(status))
        call.response_chunk(b"y" * 70)
        call.end_response(None)

    def stop(self) -> None:
        self.recorder.stop()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """As a terminal does."""
        return True


class Following:
    """`follow` in a thread, with what it has said so far."""

    def __init__(self, path: Path) -> None:
        self.stream = io.StringIO()
        self.code: int | None = None
        self._thread = threading.Thread(target=self._run, args=(path,))
        self._thread.start()

    def _run(self, path: Path) -> None:
        self.code = follow(path, stream=self.stream, every=0.01)

    def until(self, text: str) -> None:
        deadline = time.monotonic() + 20
        while text not in self.stream.getvalue():
            assert time.monotonic() < deadline, self.stream.getvalue()
            time.sleep(0.01)

    def end(self) -> list[str]:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.stream.getvalue().splitlines()


def test_each_step_is_a_line_and_the_recorders_end_is_the_end(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a")
    following = Following(tmp_path / "a")
    first = recorder.begin("f1")
    following.until("#1 begins")
    second = recorder.begin("f2", "/v1/messages?beta=true")
    recorder.answer(second, 529)
    following.until("#2 answered 529")
    recorder.answer(first)
    recorder.stop()
    said = following.end()
    assert following.code == 0
    assert said[0] == "#1 begins [claude-code-agent-id a0123456789abcdef, run r] /v1/messages"
    assert [line.split(" after")[0] for line in said[2:4]] == ["#2 answered 529", "#1 answered 200"]
    assert said[3].endswith("1.5 kB sent, 70 B received")
    assert said[4] == "closed, 2 calls, 1 failed, 3.0 kB sent, 140 B received"


def test_the_work_folder_itself_can_be_named(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a")
    recorder.stop()
    assert followed(tmp_path / "a" / "work").path == tmp_path / "a"


def test_a_recorder_that_was_killed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody holds the lock, and nothing was closed: exit code 1."""
    monkeypatch.setattr("roller_capture.view.live.followed._QUIET_SECONDS", 0.05)
    recorder = Recorder(tmp_path / "a")
    recorder.begin("f1")
    info = (tmp_path / "a/work/attempt.json").read_bytes()
    recorder.stop()
    (tmp_path / "a/work/attempt.json").write_bytes(info)
    following = Following(tmp_path / "a")
    assert following.end()[-1].startswith("killed, 1 call")
    assert following.code == 1
    assert "was killed before it could close: run roller-capture finalize" in capsys.readouterr().err


def test_a_published_attempt_is_said_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_family(tmp_path / "a", monkeypatch)
    following = Following(tmp_path / "a")
    assert following.end() == [
        "published, 3 calls",
        f"nothing is being recorded: roller-capture view {tmp_path / 'a'} shows it",
    ]
    assert following.code == 0


def test_one_that_was_recorded_and_not_published_goes_to_finalize(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a")
    recorder.answer(recorder.begin("f1"))
    recorder.stop()
    said = Following(tmp_path / "a").end()
    assert said[-2].startswith("closed, 1 call, ")
    assert said[-1] == f"nothing is being recorded: roller-capture finalize {tmp_path / 'a'} publishes it"


@pytest.mark.parametrize("open_too", [False, True])
def test_what_a_run_had_before_is_counted_and_not_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_too: bool
) -> None:
    """On a terminal too; an attempt that somebody records in a run without `collect` is no finished one."""
    run = tmp_path / "run"
    publish_family(run / "samples/old/capture/attempt-0001", monkeypatch)
    (run / "run.json").write_text("{}")
    recorder = Recorder(run / "samples/new/capture/attempt-0001") if open_too else None
    state = (
        "1 attempt still recorded, by no collect: 1 of 2 attempts"
        if open_too
        else "nothing is being recorded: 1 of 1 attempt"
    )
    words = f"{state} published, 3 calls: roller-capture view {run} shows them"
    following = Following(run)
    assert following.end() == [words]
    assert following.code == 0
    stream = Terminal()
    assert follow(run, stream=stream, width=200) == 0
    assert words in stream.getvalue()
    if recorder is not None:
        recorder.stop()


@pytest.mark.parametrize("closed", ["samples/shut", "samples/shut/capture/attempt-0001"])
def test_a_folder_that_cannot_be_looked_into_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], closed: str
) -> None:
    """What goes on there is not seen: exit code 1."""
    (tmp_path / "run.json").write_text("{}")
    for name in ("old", "shut"):
        publish_family(tmp_path / "samples" / name / "capture" / "attempt-0001", monkeypatch)
    forbid(tmp_path / closed, monkeypatch)
    following = Following(tmp_path)
    assert following.end()[-1].startswith("nothing is being recorded: 1 of ")
    assert following.code == 1
    assert f"error: {tmp_path / closed}: cannot be looked into (Permission denied)" in capsys.readouterr().err
    with pytest.raises(RollerError, match="cannot be opened") as refused:
        follow(tmp_path / "samples/shut/capture/attempt-0001")
    assert refused.value.exit_code == 2


def test_an_empty_run_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert Following(tmp_path).end() == [f"{tmp_path}: is a run that holds no attempt, and no collect works in it"]


def test_a_run_ends_when_no_collect_holds_it(tmp_path: Path) -> None:
    """Attempts that begin later are found; each line names its attempt."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    descriptor = os.open(run, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        following = Following(run)
        for sample in ("one", "two"):
            recorder = Recorder(run / "samples" / sample / "capture" / "attempt-0001")
            recorder.answer(recorder.begin("f1"))
            following.until(f"{sample}/attempt-0001: #1 answered 200")
            recorder.stop()
            following.until(f"{sample}/attempt-0001: closed, 1 call")
        assert following.code is None
    finally:
        os.close(descriptor)
    following.end()
    assert following.code == 0


def test_looking_holds_no_lock(tmp_path: Path) -> None:
    """Or a recorder that starts in that moment would find its folder in use."""
    recorder = Recorder(tmp_path / "a")
    lock = tmp_path / "a/work/lock"
    assert is_held(lock) is True
    recorder.stop()
    assert is_held(lock) is False
    assert is_held(tmp_path / "missing") is None
    source = Path(sys.modules["roller_capture.view.live.followed"].__file__ or "").read_text()
    assert "fcntl" not in source


@pytest.mark.parametrize(("name", "code"), [("missing", 2), ("file", 2), ("empty", 1)])
def test_where_nothing_is_recorded(tmp_path: Path, name: str, code: int) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RollerError) as refused:
        follow(tmp_path / name)
    assert refused.value.exit_code == code


def test_hostile_events_are_passed_over_and_counted(tmp_path: Path) -> None:
    """Torn lines, wrong types, control characters: nothing reaches the terminal raw, and no line is more than one."""
    work = tmp_path / "a" / "work"
    work.mkdir(parents=True)
    evil = "\x1b[2J\u202e\nnew line"
    events: list[Any] = [
        {
            "type": "request_headers",
            "flow": "f",
            "sequence": 10**30,
            "path": evil,
            "headers": [["agent-id", evil], 3, "x"],
        },
        {"type": "request_headers", "flow": ["f"], "sequence": "x", "path": 5, "headers": {}, "at": "soon"},
        {"type": "request", "flow": "f", "body": {"bytes": -(10**40)}},
        {"type": "response_headers", "flow": "f", "status": evil},
        {"type": "failure", "flow": "f", "message": evil, "ended_at": 1e300},
        {"type": "response", "flow": "unknown"},
        [],
    ]
    text = b"".join(json.dumps(event).encode() + b"\n" for event in events) + b"\xff\xfe\n{}\n" + b'{"type":"torn'
    (work / "events.jsonl").write_bytes(text)
    (work / "attempt.json").write_text(json.dumps({"closed": True, "harness": evil, "started_at": "x"}))
    following = Following(tmp_path / "a")
    said = following.end()
    assert "2 unreadable lines in events.jsonl" in said[-2]
    assert len(said) == 5
    assert not set("".join(said)) & set("\x1b\u202e")


def test_a_line_that_is_written_in_two_goes_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventTail(path)
    assert list(tail.read()) == []
    path.write_bytes(b'{"a":1}\n{"b"')
    assert list(tail.read()) == [{"a": 1}]
    path.write_bytes(b'{"a":1}\n{"b":2}\n')
    assert list(tail.read()) == [{"b": 2}]
    assert (list(tail.read()), tail.unreadable) == ([], 0)


def test_an_endless_line_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roller_capture.view.live.events.LONGEST_EVENT", 100)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"x" * 1000)
    tail = EventTail(path)
    assert list(tail.read()) == []
    assert len(tail._rest) == 0
    path.write_bytes(b"x" * 2000 + b'\n{"a":1}\n')
    assert list(tail.read()) == [{"a": 1}]


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_text('{"a":1}\n')
    (tmp_path / "events.jsonl").symlink_to(tmp_path / "real")
    assert list(EventTail(tmp_path / "events.jsonl").read()) == []


def picture(run: Path, height: int, change: Callable[[], object] = lambda: None) -> list[str]:
    what = followed(run)
    console = Console(file=io.StringIO(), width=110, height=height, force_terminal=True, color_system=None)
    change()
    list(what.look())
    screen = LiveScreen(console, what)
    with console.capture() as captured:
        console.print(screen.picture(time.time()))
    screen.close()
    return captured.get().splitlines()


def test_the_picture_has_the_open_calls_and_the_last_ones(tmp_path: Path) -> None:
    """As many as fit; the open one stays, however many came after it."""
    recorder = Recorder(tmp_path / "a")
    recorder.begin("open")
    for number in range(30):
        recorder.answer(recorder.begin(f"f{number}"), 200 if number % 2 else 500)
    said = picture(tmp_path / "a", 12)
    recorder.stop()
    assert said[0].startswith("a  claude-code  recording")
    assert "31 calls, 1 open, 15 failed" in said[0]
    assert len(said) <= 12
    assert said[1].split()[:2] == ["#1", "waiting"]
    assert said[-1].split()[:2] == ["#31", "200"]
    assert said[-2].split()[:2] == ["#30", "500"]


def test_on_a_terminal_it_moves_and_ctrl_c_leaves(tmp_path: Path) -> None:
    """A pty: what is drawn, and exit code 0 when the user leaves while the recorder goes on."""
    recorder = Recorder(tmp_path / "a")
    recorder.begin("f1")
    master, slave = pty.openpty()
    line = [sys.executable, "-m", "roller_capture", "view", str(tmp_path / "a"), "--live", "--width", "100"]
    process = subprocess.Popen(line, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    seen = b""
    deadline = time.monotonic() + 30
    while b"waiting" not in seen and time.monotonic() < deadline:
        seen += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    os.close(master)
    recorder.stop()
    assert b"#1" in seen
    assert (process.returncode, errors) == (0, b"")
