"""`export atif`: one file or a folder, each there as a whole or not at all."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from roller_capture.export.atif import command
from roller_capture.export.atif import output as output_module
from roller_capture.export.atif.command import AtifExport, export_atif
from roller_capture.export.atif.output import FileNames
from tests.export.families import publish_generations, run_export


def publish_run(folder: Path, monkeypatch: pytest.MonkeyPatch, names: str = "ab") -> Path:
    """Attempts of these names, each a capture of its own."""
    for name in names:
        publish_generations(folder / name, monkeypatch, capture_id=f"cap_{name:x>20}")
    return folder


def test_a_folder_has_a_file_for_each_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named by the sample where there is one, else by the attempt."""
    publish_generations(tmp_path / "run" / "samples" / "s 1" / "capture" / "attempt-0001", monkeypatch)
    publish_run(tmp_path / "more", monkeypatch)
    code, out, err = run_export("atif", tmp_path / "run", tmp_path / "more", "--output", tmp_path / "out", "--json")
    assert code == 0, err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.json", "b.json", "s_1.attempt-0001.json"]
    document = json.loads(out)
    assert (document["trajectories"], document["subagents"], document["attempts"]) == (3, 6, 3)
    assert (tmp_path / "out" / "a.json").stat().st_mode & 0o077 == 0


def test_a_file_holds_one_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 2 before anything is read."""
    publish_run(tmp_path / "run", monkeypatch)
    code, _, err = run_export("atif", tmp_path / "run", "--output", tmp_path / "o.json")
    assert code == 2
    assert "there are 2 attempts" in err
    assert not (tmp_path / "o.json").exists()


def test_an_attempt_that_does_not_validate_is_never_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, the others go on, exit 1."""
    publish_run(tmp_path / "run", monkeypatch)
    calls = tmp_path / "run" / "a" / "calls.jsonl"
    calls.write_bytes(calls.read_bytes().replace(b"be brief", b"be loud!"))
    code, _, err = run_export("atif", tmp_path / "run", "--output", tmp_path / "out")
    assert code == 1
    assert "a: does not validate: calls.jsonl" in err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["b.json"]


def test_what_is_there_is_replaced_only_on_purpose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of the same name; others stay. An empty folder is as good as none."""
    run, out = publish_run(tmp_path / "run", monkeypatch), tmp_path / "out"
    out.mkdir()
    assert run_export("atif", run, "--output", out)[0] == 0
    (out / "mine.txt").write_text("mine")
    (out / "a.json").write_text("old")
    code, _, err = run_export("atif", run, "--output", out)
    assert (code, "is not empty" in err) == (2, True)
    assert (out / "a.json").read_text() == "old"
    assert run_export("atif", run, "--output", out, "--overwrite")[0] == 0
    assert json.loads((out / "a.json").read_text())["schema_version"] == "ATIF-v1.8"
    assert (out / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["out", "out.json"])
def test_an_interrupted_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Neither under the name nor beside it."""
    run = publish_run(tmp_path / "run", monkeypatch, "ab" if name == "out" else "a")
    (tmp_path / "place").mkdir()
    real = command._write

    def interrupt(document: Any, new_file: Any) -> None:
        real(document, new_file)
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_atif(AtifExport((run,), tmp_path / "place" / name))
    assert list((tmp_path / "place").iterdir()) == []


@pytest.mark.parametrize("name", ["out", "out.json"])
def test_nothing_is_written_into_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What lies there and is not in the manifest makes it invalid."""
    run = publish_run(tmp_path / "run", monkeypatch, "a")
    code, _, err = run_export("atif", run, "--output", run / "a" / name)
    assert (code, "files belong elsewhere" in err) == (2, True)


@pytest.mark.parametrize("there", ["file", "link"])
def test_a_folder_cannot_be_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str) -> None:
    """Also with --overwrite."""
    run, out = publish_run(tmp_path / "run", monkeypatch, "a"), tmp_path / "out"
    if there == "file":
        out.write_text("mine")
    else:
        (tmp_path / "other").mkdir()
        out.symlink_to(tmp_path / "other")
    code, _, err = run_export("atif", run, "--output", out, "--overwrite")
    assert (code, "is no folder" in err) == (2, True)


def test_file_names_are_harmless_and_given_once() -> None:
    """Whatever samples and attempts are called; also where file names have no case."""
    names = FileNames()
    assert names.stem("s/../..", "attempt-0001", "cap_1") == "s_.._...attempt-0001"
    assert names.stem(None, "a", "cap_1") == "a"
    assert names.stem(None, "A", "cap_2") == "A.cap_2"
    assert names.stem(None, "..", "cap_3") == "attempt"
    assert len(names.stem("x" * 300, "a", "cap_4")) <= 120
    assert names.stem("\n\x1b[31m", "é", "cap_5").isascii()


def test_files_are_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is the old one or the new one, at any moment, its rights are kept, what else lies there is in both."""
    run, out = publish_run(tmp_path / "run", monkeypatch), tmp_path / "out"
    out.mkdir(mode=0o750)
    (out / "a.json").write_text("old")
    (out / "b.json").write_text("old")
    (out / "mine.txt").write_text("mine")
    seen: list[set[str]] = []
    real = output_module.exchange

    def look(one: Path, other: Path) -> None:
        seen.append({(other / name).read_text()[:3] for name in ("a.json", "b.json", "mine.txt")})
        real(one, other)
        seen.append({(other / name).read_text()[:3] for name in ("a.json", "b.json", "mine.txt")})
        (one / "late.txt").write_text("by somebody who still had the old folder open")

    monkeypatch.setattr(output_module, "exchange", look)
    assert run_export("atif", run, "--output", out, "--overwrite")[0] == 0
    assert seen == [{"old", "min"}, {'{"s', "min"}]
    assert sorted(path.name for path in out.iterdir()) == ["a.json", "b.json", "late.txt", "mine.txt"]
    assert out.stat().st_mode & 0o777 == 0o750
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


@pytest.mark.parametrize("hindrance", ["a folder in it", "no exchange", "no links"])
def test_where_folders_cannot_be_exchanged_files_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hindrance: str
) -> None:
    """One by one; nothing else is touched, and nothing stays behind."""
    run, out = publish_run(tmp_path / "run", monkeypatch, "a"), tmp_path / "out"
    (out / "notes" if hindrance == "a folder in it" else out).mkdir(parents=True)
    (out / "a.json").write_text("old")
    (out / "mine.txt").write_text("mine")
    before = out.stat().st_ino

    def cannot(*_: object) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    if hindrance == "no exchange":
        monkeypatch.setattr(output_module, "exchange", cannot)
    if hindrance == "no links":
        monkeypatch.setattr(os, "link", cannot)
    assert run_export("atif", run, "--output", out, "--overwrite")[0] == 0
    assert out.stat().st_ino == before
    assert json.loads((out / "a.json").read_text())["schema_version"] == "ATIF-v1.8"
    assert (out / "mine.txt").read_text() == "mine"
    assert (out / "notes").is_dir() == (hindrance == "a folder in it")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


def test_a_folder_that_is_filled_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was empty when the export began."""
    run, out = publish_run(tmp_path / "run", monkeypatch, "a"), tmp_path / "out"
    out.mkdir()
    real = command._write

    def fill(document: Any, new_file: Any) -> None:
        real(document, new_file)
        (out / "a.json").write_text("theirs")

    monkeypatch.setattr(command, "_write", fill)
    code, _, err = run_export("atif", run, "--output", out)
    assert (code, "somebody else has just written there" in err) == (1, True)
    assert (out / "a.json").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]
