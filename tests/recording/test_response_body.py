"""How response bodies are stored: untouched inside 2xx, without echoed credentials outside."""

import gzip
from pathlib import Path

import pytest
import zstandard

from roller_capture.recording import response_body as response_bodies
from roller_capture.recording.body_file import BodyFile
from roller_capture.recording.credentials import Credentials
from roller_capture.recording.response_body import ResponseBody, response_body
from roller_capture.recording.work_folder import WorkFolder

CREDENTIALS = Credentials([(b"Authorization", b"Bearer sk-0123456789")])
ECHO = b'{"error": "invalid key sk-0123456789"}'
MASKED = b'{"error": "invalid key *************"}'
PLAIN = b'{"error": "overloaded"}'


def stored(tmp_path: Path, status: int, encoding: str | None, data: bytes, size: int = 5) -> tuple[bytes, ResponseBody]:
    """What is on disk after a body came in pieces of `size` bytes."""
    folder = WorkFolder(tmp_path / "work")
    body = response_body(BodyFile(folder, "000001.response", _never), status, encoding, CREDENTIALS)
    for start in range(0, len(data), size):
        body.write(data[start : start + size])
    body.finish()
    return (tmp_path / "work/bodies/000001.response").read_bytes(), body


@pytest.mark.parametrize("status", [200, 201, 299])
def test_a_good_body_is_never_touched(tmp_path: Path, status: int) -> None:
    """Not even when it repeats the key: bytes are truth."""
    data, body = stored(tmp_path, status, None, ECHO)
    assert (data, body.masked) == (ECHO, False)


@pytest.mark.parametrize("status", [101, 302, 400, 401, 500, 529])
@pytest.mark.parametrize("encoding", [None, "identity"])
def test_an_echo_is_masked(tmp_path: Path, status: int, encoding: str | None) -> None:
    """Over any border of chunks, with the same length."""
    data, body = stored(tmp_path, status, encoding, ECHO)
    assert (data, body.masked) == (MASKED, True)
    assert body.describe() == {"path": "bodies/000001.response", "bytes": len(ECHO)}


@pytest.mark.parametrize("size", [1, 2, 7, 29, 1000])
def test_an_answer_is_on_disk_to_the_last_byte_and_a_key_in_it_is_masked(tmp_path: Path, size: int) -> None:
    """Nothing is held back that the client sees, however the chunks cut the key; the lengths stay true."""
    key = b"sk-aaAA00112233445566778899"
    answer = b"data: sk-aaAA" + key + b" and " + key + b"\n\ns"
    folder = WorkFolder(tmp_path / "work")
    credentials = Credentials([(b"Authorization", b"Bearer " + key)])
    body = response_body(BodyFile(folder, "000001.response", _never), 200, None, credentials)
    path = tmp_path / "work/bodies/000001.response"
    for start in range(0, len(answer), size):
        body.write(answer[start : start + size])
        assert path.stat().st_size == min(start + size, len(answer))
    assert path.read_bytes() == answer.replace(key, b"*" * len(key))
    body.finish()
    assert body.masked is True
    assert body.describe() == {"path": "bodies/000001.response", "bytes": len(answer)}


def test_an_error_without_echo_stays_as_it_is(tmp_path: Path) -> None:
    """And is not said to be masked."""
    data, body = stored(tmp_path, 529, None, PLAIN)
    assert (data, body.masked) == (PLAIN, False)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_coded_echo_is_stored_decoded(tmp_path: Path, encoding: str) -> None:
    """A mask cannot be put into compressed bytes."""
    data, body = stored(tmp_path, 401, encoding, {"gzip": gzip, "zstd": zstandard}[encoding].compress(ECHO))
    assert (data, body.masked) == (MASKED, "decoded")


def test_a_coded_error_without_echo_stays_coded(tmp_path: Path) -> None:
    """The wire bytes are the record."""
    coded = gzip.compress(PLAIN)
    data, body = stored(tmp_path, 500, "gzip", coded)
    assert (data, body.masked) == (coded, False)


def test_a_body_that_is_not_what_it_says(tmp_path: Path) -> None:
    """Plain text labelled gzip still echoes."""
    data, body = stored(tmp_path, 401, "gzip", ECHO)
    assert (data, body.masked) == (MASKED, "decoded")


def test_a_cut_coded_body_is_checked_as_far_as_it_goes(tmp_path: Path) -> None:
    """An echo in the decodable part is found."""
    text = ECHO + bytes(range(256)) * 40
    data, body = stored(tmp_path, 401, "gzip", gzip.compress(text)[:-40])
    assert b"sk-0123456789" not in data
    assert body.masked == "decoded"


def test_an_unknown_coding_is_not_stored(tmp_path: Path) -> None:
    """What cannot be checked is not kept."""
    data, body = stored(tmp_path, 401, "rot13", ECHO)
    assert (data, body.masked, body.describe()) == (b"", "decoded", None)


@pytest.mark.parametrize("limit", ["LARGEST_CHECKED_BODY", "LARGEST_DECODED_BODY"])
def test_a_body_too_large_to_check_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    """Coded or decoded: beyond the limit nothing is kept, in memory either."""
    monkeypatch.setattr(response_bodies, limit, 40)
    data, body = stored(tmp_path, 401, "gzip", gzip.compress(ECHO * 100))
    assert (data, body.masked, body.describe()) == (b"", "decoded", None)


def test_without_credentials_nothing_is_masked(tmp_path: Path) -> None:
    """Then a coded body is stored as it comes, and not kept in memory."""
    folder = WorkFolder(tmp_path / "work")
    body = response_body(BodyFile(folder, "000001.response", _never), 500, "gzip", Credentials())
    body.write(b"coded")
    assert (tmp_path / "work/bodies/000001.response").read_bytes() == b"coded"


def _never(error: OSError) -> None:
    raise AssertionError(error)
