"""A crash at any moment leaves either the working files whole or the attempt published; finalize finishes the job."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roller_capture import finalize_attempt as command
from roller_capture import publication
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.recording import lock
from roller_capture.vocabulary import DebugRetention
from tests.support.publish import family_attempt, family_capture, publish_family, use_capture

FULL = FinalizeRequest(debug_retention=DebugRetention.FULL)


class Crash(BaseException):
    """Stands for the process being killed: nothing catches it and nothing runs behind it."""


def tree(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def no_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process does not tidy up."""
    monkeypatch.setattr(publication.Staging, "discard", lambda _self: None)


def count_steps(monkeypatch: pytest.MonkeyPatch, crash_at: int | None) -> Iterator[int]:
    """Every rename, sync and removal of the publication is a step; the chosen one crashes before it happens."""
    done = [0]

    def step(original: object) -> object:
        def run(*args: object, **kwargs: object) -> object:
            done[0] += 1
            if done[0] == crash_at:
                raise Crash
            return original(*args, **kwargs)  # type: ignore[operator]

        return run

    monkeypatch.setattr(Path, "rename", step(Path.rename))
    monkeypatch.setattr(os, "fsync", step(os.fsync))
    monkeypatch.setattr(command, "remove_working_files", step(command.remove_working_files))
    while True:
        yield done[0]


def test_a_crash_at_every_step_is_finished_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_cleanup: None
) -> None:
    """At each step: either `work/` is as it was and there is no manifest, or the published attempt validates."""
    del no_cleanup
    probe = tmp_path / "probe"
    with monkeypatch.context() as patch:
        steps = count_steps(patch, None)
        next(steps)
        publish_family(probe, patch, debug_retention=DebugRetention.FULL)
        total = next(steps)
    assert total > 10
    for crash_at in range(1, total + 1):
        directory = tmp_path / f"crash-{crash_at}"
        builder = family_attempt(directory)
        builder.build()
        before = tree(directory / "work")
        use_capture(monkeypatch, family_capture())
        with monkeypatch.context() as patch:
            next(count_steps(patch, crash_at))
            with contextlib.suppress(Crash):
                finalize_attempt(directory, FULL)
        published = (directory / "manifest.json").exists()
        if not published:
            assert {k: v for k, v in tree(directory / "work").items() if k != "lock"} == before
        finalize_attempt(directory, FULL)
        assert validate_attempt(directory, deep=True) == [], crash_at
        assert not (directory / "work").exists()
        assert not list(directory.glob(".publishing-*"))


def test_finalizing_again_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Already published: said so, no byte changed."""
    publish_family(tmp_path, monkeypatch)
    before = tree(tmp_path)
    outcome = finalize_attempt(tmp_path, FULL)
    assert outcome.already_published
    assert tree(tmp_path) == before


def test_an_already_published_attempt_that_was_changed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line that names the file."""
    publish_family(tmp_path, monkeypatch)
    with (tmp_path / "calls.jsonl").open("ab") as stream:
        stream.write(b"\n")
    with pytest.raises(RollerError, match=r"does not validate: calls\.jsonl") as caught:
        finalize_attempt(tmp_path, FULL)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("role", ["recorder", "finalizer"])
def test_an_attempt_in_use_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    """Still being recorded, or being finalized by another: one line, nothing touched."""
    builder = family_attempt(tmp_path)
    builder.build()
    use_capture(monkeypatch, family_capture())
    held = lock.acquire(builder.work, role)
    before = tree(tmp_path)
    with pytest.raises(RollerError, match=role) as caught:
        finalize_attempt(tmp_path, FULL)
    assert caught.value.exit_code == 1
    assert tree(tmp_path) == before
    held.release()
    finalize_attempt(tmp_path, FULL)


@pytest.mark.parametrize(
    ("code", "message"), [(errno.ENOSPC, "no space left"), (errno.EROFS, "writable"), (errno.EDQUOT, "no space left")]
)
def test_a_full_or_read_only_disk_publishes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    """One clear line; the working files stay and the half-written staging folder goes."""
    builder = family_attempt(tmp_path)
    builder.build()
    use_capture(monkeypatch, family_capture())
    before = tree(builder.work)

    def full(_self: object, _data: bytes) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(publication.HashingWriter, "write", full)
        with pytest.raises(RollerError, match=message) as caught:
            finalize_attempt(tmp_path, FULL)
    assert caught.value.exit_code == 1
    assert {k: v for k, v in tree(builder.work).items() if k != "lock"} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]
    assert not finalize_attempt(tmp_path, FULL).already_published


def test_a_link_in_place_of_the_working_folder_is_refused(tmp_path: Path) -> None:
    """Nothing is followed out of the attempt."""
    elsewhere = tmp_path / "elsewhere"
    family_attempt(elsewhere).build()
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    (attempt / "work").symlink_to(elsewhere / "work")
    with pytest.raises(RollerError, match="nothing was recorded here"):
        finalize_attempt(attempt, FULL)
    assert (elsewhere / "work" / "events.jsonl").exists()


def test_the_manifests_hash_is_told_before_anything_is_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a run can note what it is about to publish, and a crash between the two is told apart."""
    told: list[tuple[str, bool]] = []

    def note(digest: str) -> None:
        told.append((digest, (tmp_path / "manifest.json").exists()))

    publish_family(tmp_path, monkeypatch, before_publish=note)
    assert told == [(hashlib.sha256((tmp_path / "manifest.json").read_bytes()).hexdigest(), False)]


@pytest.mark.parametrize("name", ["agent-home", "notes.txt", ".hidden"])
def test_foreign_files_in_the_attempt_are_refused_before_anything_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """They would be unlisted, so the published attempt would not validate."""
    builder = family_attempt(tmp_path)
    builder.build()
    (tmp_path / name).mkdir()
    use_capture(monkeypatch, family_capture())
    with pytest.raises(RollerError, match="move it away") as caught:
        finalize_attempt(tmp_path, FULL)
    assert caught.value.exit_code == 1
    assert builder.work.is_dir()
    (tmp_path / name).rmdir()
    finalize_attempt(tmp_path, FULL)


@pytest.mark.parametrize("crash_at", range(1, 9))
def test_a_crash_while_tidying_up_is_finished_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: int
) -> None:
    """What is left of `work/` is known for a leftover, however little it is."""
    builder = family_attempt(tmp_path)
    builder.build()
    use_capture(monkeypatch, family_capture())
    removals = [0]

    def step(original: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any, **kwargs: Any) -> None:
            removals[0] += (tmp_path / "manifest.json").exists()
            if removals[0] == crash_at:
                raise Crash
            original(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", step(os.unlink))
        patch.setattr(os, "rmdir", step(os.rmdir))
        with pytest.raises(Crash):
            finalize_attempt(tmp_path, FULL)
    assert finalize_attempt(tmp_path, FULL).already_published
    assert validate_attempt(tmp_path, deep=True) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "calls.jsonl",
        "manifest.json",
        "raw",
        "relations.jsonl",
    ]


@pytest.mark.parametrize(("code", "message"), [(errno.EIO, r"Input/output error"), (errno.EMFILE, "raise the limit")])
def test_whatever_the_disk_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    """No traceback; nothing is published, and everything is there for the next run."""
    family_attempt(tmp_path).build()
    use_capture(monkeypatch, family_capture())

    def fails(_descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        refusal = f"nothing was published, .*{message}.* run roller-capture finalize .* again"
        with pytest.raises(RollerError, match=refusal):
            finalize_attempt(tmp_path, FULL)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["work"]
    assert not finalize_attempt(tmp_path, FULL).already_published


def test_a_disk_that_fails_after_publication_is_not_said_to_have_published_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt is there; only the working files could not be removed."""
    family_attempt(tmp_path).build()
    use_capture(monkeypatch, family_capture())

    def fails(_attempt_dir: Path, _name: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(command, "remove_working_files", fails)
        with pytest.raises(RollerError, match="it is published, but not tidied up, Read-only file system"):
            finalize_attempt(tmp_path, FULL)
    assert finalize_attempt(tmp_path, FULL).already_published
    assert not (tmp_path / "work").exists()
