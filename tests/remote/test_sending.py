"""Files that are sent to a bucket: all of them, or none that was not there before."""

import signal
import threading
import time
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from roller_capture.errors import RollerError
from roller_capture.remote import Location
from roller_capture.remote.sending import Destination
from tests.remote.s3_server import BUCKET, S3Server

OUT = Location(f"s3://{BUCKET}/out")
NAMES = ("card.md", "rows.jsonl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).write_text(f"new {name}")
    return tmp_path


def refuse(server: S3Server, last: str) -> None:
    server.refuses = lambda method, key: (method, key) == ("PUT", f"out/{last}")


def test_what_was_sent_before_a_failure_is_taken_back(folder: Path, server: S3Server) -> None:
    refuse(server, NAMES[-1])
    with pytest.raises(RollerError, match=r"rows\.jsonl: cannot be written .*: nothing was exported$"):
        Destination(OUT).send(folder, NAMES, overwrite=False)
    assert server.objects() == {}
    assert server.changes[-1] == ("DELETE", "out/card.md")


def test_what_was_replaced_before_a_failure_is_told(folder: Path, server: S3Server) -> None:
    """It cannot be brought back; what was not there before is taken back all the same."""
    server.put({"out/card.md": b"old"})
    refuse(server, NAMES[-1])
    with pytest.raises(RollerError, match=r"of the files there only card\.md was replaced$"):
        Destination(OUT).send(folder, NAMES, overwrite=True)
    assert server.objects("out/") == {"card.md": b"new card.md"}


def test_what_arrived_although_the_answer_says_otherwise_is_taken_back(folder: Path, server: S3Server) -> None:
    """By its bytes: what somebody else has put there in the same moment stays."""
    for body, left in ((b"new rows.jsonl", {}), (b"another's", {"rows.jsonl": b"another's"})):
        server.empty()

        def fail(method: str, key: str, body: bytes = body) -> bool:
            if (method, key) != ("PUT", "out/rows.jsonl"):
                return False
            server.refuses = lambda _method, _key: False
            server.client.put_object(Bucket=BUCKET, Key=key, Body=body)
            return True

        server.refuses = fail
        with pytest.raises(RollerError, match="nothing was exported"):
            Destination(OUT).send(folder, NAMES, overwrite=False)
        assert server.objects("out/") == left


def test_an_interrupt_leaves_nothing_behind_that_arrives_later(folder: Path, server: S3Server) -> None:
    """The request is under way, and the service carries it out."""
    main = threading.main_thread().ident
    assert main is not None

    def interrupt(method: str, key: str) -> bool:
        if (method, key) == ("PUT", "out/rows.jsonl"):
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(1)
        return False

    server.refuses = interrupt
    with pytest.raises(KeyboardInterrupt):
        Destination(OUT).send(folder, NAMES, overwrite=False)
    while ("PUT", "out/rows.jsonl") not in server.done:
        time.sleep(0.01)
    assert server.objects() == {}


def test_a_file_that_cannot_be_looked_for_is_not_taken_for_none(folder: Path, server: S3Server) -> None:
    """It would be replaced without being asked for."""
    server.put({"out/rows.jsonl": b"old"})
    server.hides = lambda key: key == "out/rows.jsonl"
    with pytest.raises(RollerError, match=r"out/rows\.jsonl: cannot be looked for \(PermissionError"):
        Destination(OUT).check(NAMES, overwrite=False)
    with pytest.raises(RollerError, match="cannot be looked for"):
        Destination(OUT).send(folder, NAMES, overwrite=False)
    assert server.changes == []
    Destination(OUT).send(folder, NAMES, overwrite=True)
    assert server.changes == [("PUT", "out/card.md"), ("PUT", "out/rows.jsonl")]


@pytest.mark.parametrize(
    "words",
    [
        "Cannot connect to 'http://user:of-the-test@127.0.0.1:1/bucket'",
        "GET https://account.example/bucket/name?sv=1&sig=of-the-test: 403",
        "header b'AWS4-HMAC-SHA256 Credential=key-of-the-test/20260101', token b'token-of-the-test\\n'",
    ],
)
def test_no_credential_is_repeated(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries say in their errors what they could not send, and where to."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError(words)

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-test")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-the-test\n")
    monkeypatch.setattr(LocalFileSystem, "info", fail)
    with pytest.raises(RollerError, match=r"card\.md: cannot be looked for \(ValueError: ") as caught:
        Destination(Location(f"file://{tmp_path}")).check(NAMES, overwrite=False)
    assert "of-the-test" not in str(caught.value)
