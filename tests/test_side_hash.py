"""A digest taken on another thread is the digest."""

import hashlib
import threading

import pytest

from roller_capture.side_hash import updated_meanwhile

LARGE = bytes(range(256)) * 2048


@pytest.mark.parametrize("data", [b"", b"small", LARGE], ids=["empty", "small", "large"])
def test_the_digest_has_all_of_the_data_when_the_block_ends(data: bytes) -> None:
    digest = hashlib.sha256(b"before")
    with updated_meanwhile(digest, data):
        pass
    assert digest.hexdigest() == hashlib.sha256(b"before" + data).hexdigest()


@pytest.mark.parametrize("data", [b"small", LARGE], ids=["small", "large"])
def test_the_digest_has_all_of_the_data_when_the_block_fails(data: bytes) -> None:
    digest = hashlib.sha256()
    with pytest.raises(ValueError, match="no JSON"), updated_meanwhile(digest, data):
        raise ValueError("no JSON")
    assert digest.hexdigest() == hashlib.sha256(data).hexdigest()


def test_where_no_thread_can_be_started_the_digest_is_taken_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    digest = hashlib.sha256()
    with updated_meanwhile(digest, LARGE):
        pass
    assert digest.hexdigest() == hashlib.sha256(LARGE).hexdigest()


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()
    with updated_meanwhile(hashlib.sha256(), LARGE):
        assert threading.active_count() >= before
    assert threading.active_count() == before
