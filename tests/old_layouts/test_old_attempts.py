"""Attempts of earlier layouts are read, checked and shown as the protocol says."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.integrity import validate_attempt
from roller_capture.migrate import migrate_attempt
from roller_capture.view.attempt import load_attempt
from roller_capture.view.command import view
from roller_capture.vocabulary import DebugRetention
from tests.support.old_attempts import ALL, bare_by_participant, by_participant, manifest_of, rewrite
from tests.support.publish import lines, publish_family

Change = Callable[[Path], object]
each_layout = pytest.mark.parametrize("age", ALL)


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published family with raw/, of today's layout."""
    directory = tmp_path / "attempt-0001"
    publish_family(directory, monkeypatch, debug_retention=DebugRetention.FULL)
    return directory


def snapshot(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


@each_layout
@pytest.mark.parametrize("deep", [False, True])
def test_an_old_attempt_is_valid(attempt: Path, age: Change, deep: bool) -> None:
    """Also under the deep check."""
    age(attempt)
    assert validate_attempt(attempt, deep=deep) == []


@each_layout
def test_an_old_attempt_is_shown_with_its_owners(attempt: Path, age: Change) -> None:
    """Every call under the participant whose it was."""
    today = {call["call_id"]: call["participant_id"] for call in lines(attempt / "calls.jsonl")}
    age(attempt)
    loaded = load_attempt(attempt)
    assert loaded.findings == []
    assert {call.call_id: call.record["participant_id"] for call in loaded.calls} == today
    assert loaded.lifecycle is None
    assert len(loaded.relations) == 4


@each_layout
def test_an_old_attempt_can_be_viewed(attempt: Path, age: Change, capsys: pytest.CaptureFixture[str]) -> None:
    """As a tree, alone and in a folder."""
    age(attempt)
    assert view(attempt) == 0
    assert view(attempt.parent) == 0
    assert capsys.readouterr().err == ""


def append(name: str, data: bytes) -> Change:
    def change(attempt: Path) -> None:
        path = next(path for path in sorted(attempt.rglob(name)))
        path.write_bytes(path.read_bytes() + data)

    return change


def remove_a_line(attempt: Path) -> None:
    path = next(path for path in sorted(attempt.rglob("calls.jsonl")))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))


@each_layout
@pytest.mark.parametrize(
    "tamper",
    [
        append("calls.jsonl", b" "),
        append("calls.jsonl", b'{"call_id":"x","context":{}}\n'),
        append("relations.jsonl", b"{}\n"),
        remove_a_line,
        lambda attempt: (attempt / "more.txt").write_text("x"),
        lambda attempt: (attempt / "relations.jsonl").unlink(),
        lambda attempt: (attempt / "link").symlink_to("/etc/passwd"),
    ],
)
def test_what_was_changed_in_an_old_attempt_is_found(attempt: Path, age: Change, tamper: Change) -> None:
    """Bytes, lines, files added and removed, links."""
    age(attempt)
    tamper(attempt)
    assert validate_attempt(attempt) != []


def change_manifest(change: Callable[[dict[str, Any]], object]) -> Change:
    def tamper(attempt: Path) -> None:
        manifest = manifest_of(attempt)
        change(manifest)
        rewrite(attempt, manifest)

    return tamper


def steal_a_call(attempt: Path) -> None:
    """A line of the child moved into the root's folder."""
    first, second = sorted((attempt / "participants").iterdir())
    moved = (second / "calls.jsonl").read_bytes()
    (first / "calls.jsonl").write_bytes((first / "calls.jsonl").read_bytes() + moved)
    (second / "calls.jsonl").unlink()
    rewrite(attempt, manifest_of(attempt))


@pytest.mark.parametrize(
    "tamper",
    [
        steal_a_call,
        change_manifest(lambda manifest: manifest["participants"][0]["call_ids"].pop()),
        change_manifest(lambda manifest: manifest["participants"][0]["call_ids"].append("call_none")),
        change_manifest(
            lambda manifest: manifest.update(lifecycle={"status": "pending", "pending_participant_ids": []})
        ),
        change_manifest(lambda manifest: manifest.update(schema="roller.capture/v9")),
        change_manifest(lambda manifest: manifest.update(participants="x")),
        lambda attempt: (attempt / "relations.jsonl").write_text('{"type":"spawn"}\n'),
    ],
)
def test_an_old_attempt_that_contradicts_itself_is_found(attempt: Path, tamper: Change) -> None:
    """Owners, references and what the lifecycle says, with all hashes right."""
    by_participant(attempt)
    tamper(attempt)
    if manifest_of(attempt).get("files"):
        rewrite(attempt, manifest_of(attempt))
    assert validate_attempt(attempt) != []


def test_a_pipe_in_place_of_the_calls_does_not_hang(attempt: Path) -> None:
    """Named as what it is."""
    by_participant(attempt)
    path = next((attempt / "participants").rglob("calls.jsonl"))
    path.unlink()
    os.mkfifo(path)
    assert validate_attempt(attempt) != []


@each_layout
def test_a_migrated_copy_keeps_ids_and_texts(attempt: Path, tmp_path: Path, age: Change) -> None:
    """The copy is valid under today's schema, the original is untouched."""
    today = lines(attempt / "calls.jsonl")
    age(attempt)
    before = snapshot(attempt)
    target = tmp_path / "copies" / "attempt-0001"
    manifest = migrate_attempt(attempt, target)
    assert snapshot(attempt) == before
    assert validate_attempt(target, deep=True) == []
    assert manifest["storage_layout"] == "compact/v2"
    assert json.loads((target / "manifest.json").read_text()) == manifest
    copied = {call["call_id"]: call for call in lines(target / "calls.jsonl")}
    assert {name: (call["participant_id"], call["context"]) for name, call in copied.items()} == {
        call["call_id"]: (call["participant_id"], call["context"]) for call in today
    }
    assert len(lines(target / "relations.jsonl")) == 4


def test_evidence_in_the_file_of_a_participant_leads_to_the_one_file_of_calls(attempt: Path, tmp_path: Path) -> None:
    """The deep check resolves it there."""
    by_participant(attempt)
    relations = lines(attempt / "relations.jsonl")
    root = relations[-1]["parent_participant_id"]
    for evidence in relations[-1]["evidence"]:
        if evidence["source"] == "calls.jsonl":
            evidence["source"] = f"participants/{root}/calls.jsonl"
            evidence["locator"] = evidence["locator"].replace("line:3", "line:2")
    (attempt / "relations.jsonl").write_text("".join(json.dumps(one) + "\n" for one in relations))
    rewrite(attempt, manifest_of(attempt))
    migrate_attempt(attempt, tmp_path / "copy")
    assert validate_attempt(tmp_path / "copy", deep=True) == []
    sources = {one["source"] for one in lines(tmp_path / "copy" / "relations.jsonl")[-1]["evidence"]}
    assert not any(source.startswith("participants/") for source in sources)


def test_what_a_bare_old_attempt_does_not_say_makes_its_copy_partial(attempt: Path, tmp_path: Path) -> None:
    """Coverage was never compared: the copy cannot claim to be complete."""
    bare_by_participant(attempt)
    manifest = migrate_attempt(attempt, tmp_path / "copy")
    assert manifest["capture_status"] == "partial"
    assert [reason["code"] for reason in manifest["status_reasons"]] == ["coverage_unknown"]


@pytest.mark.parametrize(
    ("prepare", "problem", "exit_code"),
    [
        (lambda attempt: attempt, "already", 1),
        (lambda attempt: (attempt / "calls.jsonl").write_text("x"), "does not validate", 1),
        (lambda attempt: (attempt.parent / "copy").mkdir(), "is there already", 2),
    ],
)
def test_what_cannot_be_migrated_is_refused_in_one_line(
    attempt: Path, tmp_path: Path, prepare: Change, problem: str, exit_code: int
) -> None:
    """And leaves nothing behind."""
    prepare(attempt)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(RollerError, match=problem) as caught:
        migrate_attempt(attempt, tmp_path / "copy")
    assert caught.value.exit_code == exit_code
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_an_attempt_is_derived_anew_from_its_raw_files(attempt: Path, tmp_path: Path) -> None:
    """The same records, under a manifest that names the one it was made from."""
    manifest = migrate_attempt(attempt, tmp_path / "copy", from_raw=True)
    assert lines(tmp_path / "copy" / "calls.jsonl") == lines(attempt / "calls.jsonl")
    assert lines(tmp_path / "copy" / "relations.jsonl") == lines(attempt / "relations.jsonl")
    assert len(manifest["supersedes"]) == 64
    assert validate_attempt(tmp_path / "copy", deep=True) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["attempt-0001", "copy"]


def test_without_raw_files_nothing_is_derived_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says why."""
    publish_family(tmp_path / "attempt", monkeypatch, debug_retention=DebugRetention.OFF)
    with pytest.raises(RollerError, match="cannot be derived anew"):
        migrate_attempt(tmp_path / "attempt", tmp_path / "copy", from_raw=True)
