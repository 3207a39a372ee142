"""`prune` publishes an attempt again without its raw files, in one step, and touches nothing else."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture import prune, publication
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.prune import prune_attempt
from roller_capture.vocabulary import DebugRetention
from tests.support.attempts import AttemptBuilder, message_body, native_capture, participant, request_body
from tests.support.publish import lines, publish_family, use_capture


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published family with raw/."""
    directory = tmp_path / "attempt-0001"
    directory.mkdir()
    publish_family(directory, monkeypatch, debug_retention=DebugRetention.FULL)
    return directory


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def snapshot(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_raw_files_go_and_the_records_say_so(attempt: Path) -> None:
    """Everything else is the same, and the new manifest names the one that it supersedes."""
    before, calls = digest(attempt / "manifest.json"), lines(attempt / "calls.jsonl")
    relations, manifest = lines(attempt / "relations.jsonl"), json.loads((attempt / "manifest.json").read_text())
    size = sum(path.stat().st_size for path in (attempt / "raw").rglob("*") if path.is_file())

    pruned = prune_attempt(attempt)

    assert pruned.freed == size > 0
    assert pruned.manifest_sha256 == digest(attempt / "manifest.json") != before
    assert names(attempt) == ["calls.jsonl", "manifest.json", "relations.jsonl"]
    assert names(attempt.parent) == ["attempt-0001"]
    assert validate_attempt(attempt, deep=True) == []
    assert lines(attempt / "calls.jsonl") == [{**call, "response_path": None} for call in calls]
    for relation in relations:
        for evidence in relation["evidence"]:
            evidence["retained"] = evidence["source"] == "calls.jsonl"
    assert lines(attempt / "relations.jsonl") == relations
    after = json.loads((attempt / "manifest.json").read_text())
    assert after.pop("supersedes") == before
    changed = {"debug_retention", "raw_retained", "files"}
    assert {name for name in after if after[name] != manifest[name]} == changed
    assert (after["debug_retention"], after["raw_retained"]) == ("off", False)


def test_modes_stay_private(attempt: Path) -> None:
    """0700 for the folder, 0600 for the files."""
    prune_attempt(attempt)
    assert attempt.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in attempt.iterdir()} == {0o600}


def test_what_has_no_raw_files_stays_as_it_is(attempt: Path) -> None:
    """A second time changes nothing."""
    prune_attempt(attempt)
    before = snapshot(attempt)
    assert prune_attempt(attempt).freed == 0
    assert snapshot(attempt) == before


def test_a_provider_that_sends_a_member_of_that_name_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only our own member is set to null, wherever the name stands else."""
    builder = AttemptBuilder(tmp_path / "attempt")
    answer = json.loads(message_body("msg_1", "done"))
    mark = {"response_path": "raw/responses/x.body"}
    body = json.dumps({**mark, **answer, "later": mark}, separators=(",", ":")).encode()
    builder.call(request_body(mark, {"role": "user", "content": json.dumps(mark, separators=(",", ":"))}), body)
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    builder.build()
    finalize_attempt(builder.directory, FinalizeRequest(debug_retention=DebugRetention.FULL))
    (before,) = (builder.directory / "calls.jsonl").read_bytes().splitlines()
    prune_attempt(builder.directory)
    (after,) = (builder.directory / "calls.jsonl").read_bytes().splitlines()
    path = json.loads(before)["response_path"]
    assert after == before.replace(f'"response_path":"{path}"'.encode(), b'"response_path":null')
    assert json.loads(after)["response_path"] is None
    prune_attempt(builder.directory)
    assert (builder.directory / "calls.jsonl").read_bytes() == after + b"\n"


def test_an_attempt_that_does_not_validate_is_left_alone(attempt: Path) -> None:
    """A forged file must not get new hashes."""
    (attempt / "calls.jsonl").write_bytes((attempt / "calls.jsonl").read_bytes().replace(b"msg_1", b"msg_9"))
    before = snapshot(attempt)
    with pytest.raises(RollerError, match="does not validate, so nothing is pruned"):
        prune_attempt(attempt)
    assert snapshot(attempt) == before


def fail(*_: Any) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "break_it",
    [
        lambda patch: patch.setattr(prune, "_without_response", fail),
        lambda patch: patch.setattr(publication, "exchange", fail),
        lambda patch: patch.setattr(publication, "_sync_folders", fail),
        lambda patch: patch.setattr(publication.Staging, "write_manifest", fail),
    ],
)
def test_a_failure_leaves_the_attempt_as_it_was(
    attempt: Path, monkeypatch: pytest.MonkeyPatch, break_it: Callable[[pytest.MonkeyPatch], None]
) -> None:
    """A full disk is one clear line, and nothing is left beside the attempt."""
    before = snapshot(attempt)
    break_it(monkeypatch)
    with pytest.raises(RollerError, match="no space left"):
        prune_attempt(attempt)
    assert snapshot(attempt) == before
    assert names(attempt.parent) == ["attempt-0001"]


class Killed(BaseException):
    """A kill leaves everything as it is at that moment."""


@pytest.mark.parametrize("step", ["exchange", "remove_folder"])
def test_after_a_kill_the_old_or_the_new_attempt_is_there_whole(
    attempt: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """And what was left beside it goes when it is run again."""

    def killed(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(publication, step, killed)
        patch.setattr(publication.Staging, "discard", lambda _self: None)
        with pytest.raises(Killed):
            prune_attempt(attempt)
    assert validate_attempt(attempt) == []
    assert (attempt / "raw").exists() == (step == "exchange")
    assert len(names(attempt.parent)) == 2
    prune_attempt(attempt)
    assert validate_attempt(attempt) == []
    assert names(attempt.parent) == ["attempt-0001"]


def test_the_books_hear_of_the_new_manifest_before_it_is_there(attempt: Path) -> None:
    """So that a crash in between can be told from a forgery."""
    seen: list[tuple[str, bool]] = []
    pruned = prune_attempt(attempt, lambda sha256: seen.append((sha256, (attempt / "raw").exists())))
    assert seen == [(pruned.manifest_sha256, True)]


def test_two_at_once_do_not_meet(attempt: Path) -> None:
    """The second says so."""
    descriptor = os.open(attempt, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(RollerError, match="another process"):
            prune_attempt(attempt)
    finally:
        os.close(descriptor)
    assert (attempt / "raw").exists()


def test_an_attempt_that_was_never_published_is_refused(tmp_path: Path) -> None:
    """It has nothing but raw files."""
    AttemptBuilder(tmp_path / "attempt").build()
    with pytest.raises(RollerError, match="is not published: run roller-capture finalize"):
        prune_attempt(tmp_path / "attempt")
    shutil.rmtree(tmp_path / "attempt")
    with pytest.raises(RollerError, match="cannot be opened"):
        prune_attempt(tmp_path / "attempt")
