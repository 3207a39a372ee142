"""What lies elsewhere is hostile: no name leads out of the copy's folder, and no size fills the disk."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from fsspec.registry import _registry, known_implementations

from roller_capture.errors import RollerError
from roller_capture.paths import named
from roller_capture.remote import Location
from roller_capture.remote.attempts import attempt_folders, attempts_among
from roller_capture.remote.staging import fetch_files, private_folder, staged_attempt, stand_in
from roller_capture.remote.store import Entry, Store
from tests.remote.s3_server import BUCKET, S3Server


def store(folder: Path) -> Store:
    return Store(Location(f"file://{folder}"))


@pytest.mark.parametrize(
    "name", ["../out", "work/../../out", "/out", "work//out", "work/.", "", "a\0b", "work/" + "x" * 256, "\ud800"]
)
def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_fetched(name: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a").write_text("a")
    with pytest.raises(RollerError, match="cannot be used: it"):
        fetch_files(store(tmp_path / "there"), {"a": Entry(1), name: Entry(1)}, tmp_path / "here" / "copy")
    assert not (tmp_path / "here").exists()


def test_more_than_the_disk_holds_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    size = shutil.disk_usage(tmp_path).free
    with pytest.raises(RollerError, match="set TMPDIR"):
        fetch_files(store(tmp_path), {"a": Entry(size)}, tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


def test_more_files_than_an_attempt_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RollerError, match="holds 200,001 files"):
        fetch_files(store(tmp_path), {str(number): Entry(0) for number in range(200_001)}, tmp_path / "copy")


def test_a_file_that_grew_since_it_was_listed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("longer")
    with pytest.raises(RollerError, match="was changed while it was read"):
        fetch_files(store(tmp_path), {"a": Entry(3)}, tmp_path / "copy")


def test_no_more_is_read_of_an_object_that_grew(server: S3Server, tmp_path: Path) -> None:
    server.put({"a": b"x" * 1_000_000})
    with pytest.raises(RollerError, match=f"s3://{BUCKET}/a: was changed while it was read"):
        fetch_files(Store(Location(f"s3://{BUCKET}")), {"a": Entry(3)}, tmp_path / "copy")
    assert not (tmp_path / "copy" / "a").exists()


@pytest.mark.parametrize("name", ["a b", "a#b", "a?b=1", "a%20b", "a+b", "[x]*", "ü", "a::b", "a\\b", "~", "s3:"])
def test_every_name_of_a_file_is_a_name_of_an_object(name: str, server: S3Server, tmp_path: Path) -> None:
    """Native logs are called as their harness likes."""
    store = Store(Location(f"s3://{BUCKET}/run"))
    (tmp_path / "file").write_text(name)
    store.put(tmp_path / "file", name)
    assert store.listing() == {name: Entry(len(name.encode()), store.listing()[name].version)}
    assert store.holds(tmp_path / "file", name)
    fetch_files(store, store.listing(), tmp_path / "copy")
    assert (tmp_path / "copy" / name).read_text() == name
    store.remove(name)
    assert server.objects() == {}


def test_a_name_that_would_reach_another_object_is_refused(server: S3Server, tmp_path: Path) -> None:
    server.put({"run/a": b"another", "run/a?versionId=null": b"this"})
    store = Store(Location(f"s3://{BUCKET}/run"))
    (tmp_path / "file").touch()
    for use in (
        lambda name: store.put(tmp_path / "file", name),
        lambda name: store.fetch(name, tmp_path / "copy", 7),
        store.remove,
        store.entry,
    ):
        with pytest.raises(RollerError, match=r"run/a\?versionId=null: cannot be used"):
            use("a?versionId=null")
    assert server.changes == []


def test_a_name_that_is_both_file_and_folder_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    with pytest.raises(RollerError, match=r"a/b: cannot be fetched \(File exists\)"):
        fetch_files(store(tmp_path), {"a": Entry(1), "a/b": Entry(1)}, tmp_path / "copy")


@pytest.mark.parametrize("target", ["events.jsonl", "native"])
def test_a_link_is_not_followed(target: str, tmp_path: Path) -> None:
    (tmp_path / "attempt" / "work").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "attempt" / "work" / target).symlink_to(tmp_path / "secret" if target == "events.jsonl" else tmp_path)
    with (
        pytest.raises(RollerError, match="links are not followed"),
        staged_attempt(Location(f"file://{tmp_path}/attempt")),
    ):
        pytest.fail("it was fetched")


def test_the_root_of_this_machine_is_no_other_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec takes `file://` for the current one; a run may lie in the root."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_text("{}")
    run = Location("file:///samples/a").parent.parent
    assert Store(run).entry(f"{tmp_path}/run.json".removeprefix("/")) is not None


def test_a_folder_goes_only_when_it_is_empty(tmp_path: Path) -> None:
    """Somebody may have put a file there that nobody has looked at."""
    (tmp_path / "work" / "bodies").mkdir(parents=True)
    (tmp_path / "work" / "native").mkdir()
    (tmp_path / "work" / "native" / "new").touch()
    with pytest.raises(RollerError, match="work: cannot be removed"):
        store(tmp_path).remove_empty_folder("work")
    assert (tmp_path / "work" / "native" / "new").exists()
    (tmp_path / "work" / "native" / "new").unlink()
    store(tmp_path).remove_empty_folder("work")
    store(tmp_path).remove_empty_folder("work")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("hidden", "url", "words"),
    [
        ("fsspec", "s3://a", "s3://a: fsspec is not installed: pip install 'roller-capture[remote]'"),
        ("fsspec", "gs://a", "gs://a: fsspec is not installed: pip install 'roller-capture[remote]'"),
        ("s3fs", "s3://a", "s3://a: Install s3fs to access S3: pip install 'roller-capture[remote]'"),
        ("no_such_module", "elsewhere://a", "elsewhere://a: Install no_such: it comes with its own package"),
    ],
)
def test_what_is_not_installed_is_named(hidden: str, url: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsspec itself, and the package of a store that it knows by name."""
    monkeypatch.setitem(known_implementations, "elsewhere", {"class": "no_such_module.Files", "err": "Install no_such"})
    monkeypatch.setitem(sys.modules, hidden, None)
    monkeypatch.delitem(_registry, "s3", raising=False)  # which file systems were made before
    with pytest.raises(RollerError) as no:
        Store(Location(url))
    assert (str(no.value), no.value.exit_code) == (words, 2)


def test_a_copy_is_private_called_by_its_url_and_removed(tmp_path: Path) -> None:
    place = Location("s3://bucket/runs/samples/one/capture/attempt-0001")
    with stand_in(place) as path:
        assert path.parts[-4:] == ("samples", "one", "capture", "attempt-0001")
        assert named(f"{path}/work") == f"{place}/work"
        assert named(path, in_json=True) == str(place)
        [private] = [folder for folder in path.parents if folder.name.startswith("roller-remote-")]
        assert private.stat().st_mode & 0o777 == 0o700
    assert not private.exists()
    assert named(path) == str(path)
    with private_folder(tmp_path / "on another machine") as folder:
        assert folder.is_dir()


def test_a_letter_outside_of_ascii_keeps_a_document_ascii() -> None:
    url = "s3://bucket/实验/runs/实验/capture/attempt-0001"
    with stand_in(Location(url)) as path:
        assert named(path) == url
        document = named(json.dumps(str(path)), in_json=True)
    assert document.isascii()
    assert json.loads(document) == url


@pytest.mark.parametrize("file", ["../manifest.json", "samples/../capture/attempt-0001/work/x", "./work/x", "/work/x"])
def test_no_attempt_has_a_name_that_leads_elsewhere(file: str) -> None:
    with pytest.raises(RollerError, match=r"cannot be used: it (leads elsewhere|is empty)"):
        attempts_among(Location("s3://bucket/run"), [file])


@pytest.mark.parametrize(
    ("files", "folders"),
    [
        (["work/events.jsonl", "samples/a/capture/attempt-0001/work/x"], [()]),
        (["manifest.json", "raw/native/work/x"], [()]),
        (["calls.jsonl.zst"], [()]),
        (
            ["run.json", "samples/b/capture/attempt-0002/work/x", "samples/b/capture/attempt-0001/manifest.json"],
            [("samples", "b", "capture", "attempt-0001"), ("samples", "b", "capture", "attempt-0002")],
        ),
        (["sample.json", "capture/attempt-0001/work/x"], [("capture", "attempt-0001")]),
        (["one/manifest.json", "two/work/x", "three/other"], [("one",), ("two",)]),
        (["runs/one/samples/a/capture/attempt-0001/manifest.json"], []),
        (["work"], []),
        (
            ["run.json", "samples/work/sample.json", "samples/work/capture/attempt-0001/work/native/work/x"],
            [("samples", "work", "capture", "attempt-0001")],
        ),
        (["one/work/native/manifest.json"], [("one",)]),
        (["run.json", "samples/work/sample.json", "samples/work/lock"], []),
        (["work/sample.json", "work/capture/attempt-0001/work/x"], []),
    ],
)
def test_attempts_are_found_by_the_names_of_their_files(files: list[str], folders: list[tuple[str, ...]]) -> None:
    assert attempt_folders(files) == folders
