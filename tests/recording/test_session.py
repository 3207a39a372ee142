"""Stream taps and the end of a session."""

from pathlib import Path

import pytest

from roller_capture.harnesses import HARNESSES
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.session import Session
from tests.support.recording import VERSIONS, Recording


class Flow:
    """A flow that can be cut."""

    def __init__(self, *, killable: bool) -> None:
        self.id = "f1"
        self.killable = killable
        self.killed = False

    def kill(self) -> None:
        self.killed = True


@pytest.fixture
def session(tmp_path: Path) -> Session[Flow]:
    """A running session."""
    recorder = AttemptRecorder(tmp_path / "a", HARNESSES["pi"], {}, VERSIONS)
    return Session(recorder, ("a", "pi"))


def test_a_tap_shows_every_chunk_and_changes_none(session: Session[Flow]) -> None:
    """The end marker is passed on, not shown."""
    seen: list[bytes] = []
    tap = session.tap("f1", seen.append)
    assert [tap(data) for data in (b"a", b"b", b"")] == [b"a", b"b", b""]
    assert seen == [b"a", b"b"]
    session.stop()


def test_a_tap_never_raises(session: Session[Flow], tmp_path: Path) -> None:
    """The fault is recorded once, and what is stored gets no hole (fact 1)."""
    seen: list[bytes] = []

    def take(data: bytes) -> None:
        seen.append(data)
        if data == b"b":
            raise MemoryError

    tap = session.tap("f1", take)
    assert [tap(data) for data in (b"a", b"b", b"c", b"")] == [b"a", b"b", b"c", b""]
    assert seen == [b"a", b"b"]
    session.stop()
    error = Recording(tmp_path / "a").one("recorder_error")
    assert (error["flow"], error["code"], error["message"]) == ("f1", "internal_error", "MemoryError")


def test_after_the_stop_nothing_passes(session: Session[Flow]) -> None:
    """Not an empty chunk either, which would end a chunked message as if it were whole."""
    tap = session.tap("f1", lambda _: None)
    flow, ended = Flow(killable=True), Flow(killable=False)
    session.flows.update(one=flow, two=ended)
    session.stop()
    session.stop()
    assert tap(b"late") == []
    assert tap(b"") == b""
    assert (flow.killed, ended.killed) == (True, False)
    assert not session.flows


async def test_off_loop_runs_in_a_thread(session: Session[Flow]) -> None:
    """Arguments and results pass, and errors come back."""
    import threading

    name = await session.off_loop(lambda: threading.current_thread().name)
    assert name.startswith("roller-disk")
    assert await session.off_loop(int, "12", base=3) == 5
    with pytest.raises(ValueError, match="invalid literal"):
        await session.off_loop(int, "x")
    session.stop()


async def test_errors_reach_the_disk_once_noted(session: Session[Flow], tmp_path: Path) -> None:
    """`error_count` is brought up to date when there are new errors, and only then."""
    written = (tmp_path / "a/work/attempt.json").stat().st_ino
    await session.note_errors()
    assert (tmp_path / "a/work/attempt.json").stat().st_ino == written
    session.recorder.journal.disk_error("f1", "response body", OSError(28, "full"))
    await session.note_errors()
    assert Recording(tmp_path / "a").info()["error_count"] == 1
    session.stop()
