"""Attempts are finalized by processes beside `collect`; the books come before the publication."""

import threading
from pathlib import Path

import pytest

from roller_capture.collect.finalizer_pool import FinalizerPool
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.integrity import validate_attempt
from roller_capture.runs.books import manifest_digest
from tests.support.publish import family_attempt


def recorded(directory: Path) -> Path:
    """An attempt that is not published yet."""
    family_attempt(directory).build()
    return directory


def test_the_intended_hash_is_told_before_anything_is_in_place(tmp_path: Path) -> None:
    """More attempts than processes: each is published, by turns."""
    attempts = [recorded(tmp_path / f"attempt-{number}") for number in range(3)]
    told: dict[Path, str] = {}

    def work(attempt: Path) -> None:
        def note(digest: str) -> None:
            assert not (attempt / "manifest.json").exists()
            told[attempt] = digest

        manifest = pool.finalize(attempt, FinalizeRequest(before_publish=note))
        assert manifest["counts"]["calls"] == 3

    with FinalizerPool(2) as pool:
        threads = [threading.Thread(target=work, args=(attempt,)) for attempt in attempts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert told == {attempt: manifest_digest(attempt) for attempt in attempts}
    assert [validate_attempt(attempt) for attempt in attempts] == [[], [], []]


def test_without_room_for_the_books_nothing_is_published(tmp_path: Path) -> None:
    """The next attempt is, by the same process; what is wrong with an attempt is told as ever."""

    def full(_digest: str) -> None:
        raise RollerError("sample.json: cannot be written")

    attempt = recorded(tmp_path / "attempt-1")
    with FinalizerPool(1) as pool:
        with pytest.raises(RollerError, match=r"sample\.json: cannot be written"):
            pool.finalize(attempt, FinalizeRequest(before_publish=full))
        assert {path.name for path in attempt.iterdir()} == {"work"}
        with pytest.raises(RollerError, match="does not exist") as caught:
            pool.finalize(tmp_path / "none", FinalizeRequest())
        assert caught.value.exit_code == 2
        pool.finalize(attempt, FinalizeRequest())
    assert validate_attempt(attempt) == []
