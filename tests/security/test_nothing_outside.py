"""Nothing outside of an attempt is read, written or waited for, whatever stands in its files' places."""

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roller_capture import finalize_attempt as finalize_attempt_module
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.migrate import migrate_attempt
from roller_capture.prune import prune_attempt
from roller_capture.vocabulary import DebugRetention
from tests.support.publish import NATIVE_LOG, family_attempt, family_capture, publish_family, use_capture

SECRET = "the-content-of-a-file-outside"
SECONDS = 30

Intruder = Callable[[Path, Path], None]


@pytest.fixture(autouse=True)
def _never_for_ever() -> Iterator[None]:
    """What waits for a pipe would wait for ever."""

    def end(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder with a secret in a file of every name that an attempt has."""
    folder = tmp_path / "outside"
    for name in ("secret", "events.jsonl", "sources.json", "000001.request", "launcher.json", NATIVE_LOG):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps({"type": SECRET, "secret": SECRET}) + "\n")
        (folder / name).chmod(0o644)
    return folder


def link_to_a_file(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "secret")


def link_to_a_folder(place: Path, outside: Path) -> None:
    place.symlink_to(outside)


def link_to_a_device(place: Path, outside: Path) -> None:  # noqa: ARG001
    place.symlink_to("/dev/zero")


def link_to_nothing(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "new")


def pipe(place: Path, outside: Path) -> None:  # noqa: ARG001
    os.mkfifo(place)


INTRUDERS = (link_to_a_file, link_to_a_folder, link_to_a_device, link_to_nothing, pipe)
PUBLISHED = ("manifest.json", "calls.jsonl", "relations.jsonl", "raw", "raw/events.jsonl", "raw/sources.json")


def command(*words: str) -> Callable[[Path, Path], tuple[int, str]]:
    """What the command line does with an attempt."""

    def act(attempt: Path, target: Path) -> tuple[int, str]:  # noqa: ARG001
        result = CliRunner().invoke(app, [*words, str(attempt)])
        assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
        return result.exit_code, result.output

    return act


def prune(attempt: Path, target: Path) -> tuple[int, str]:  # noqa: ARG001
    """Takes raw/ away."""
    return _told(lambda: prune_attempt(attempt))


def migrate(attempt: Path, target: Path) -> tuple[int, str]:
    """Derives the attempt anew, from raw/."""
    return _told(lambda: migrate_attempt(attempt, target, from_raw=True))


def _told(act: Callable[[], object]) -> tuple[int, str]:
    try:
        act()
    except RollerError as error:
        return error.exit_code, str(error)
    return 0, ""


CHECKS = (command("validate"), command("validate", "--deep", "--json"), command("validate", "--github"))
CHANGES = (prune, migrate, command("finalize"))
VIEWS = (command("view"), command("view", "--json"))


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that could be changed in a folder."""
    return {
        str(path): (path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }


def put(intruder: Intruder, place: Path, outside: Path) -> None:
    """Puts it in the place of what stands there."""
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    intruder(place, outside)


@pytest.mark.parametrize("intruder", INTRUDERS)
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: Path, name: str, intruder: Intruder
) -> None:
    """No command follows what stands in the place of a file or folder; each says that something is wrong."""
    attempt = tmp_path / "run" / "attempt"
    publish_family(attempt, monkeypatch, debug_retention=DebugRetention.FULL)
    put(intruder, attempt / name, outside)
    before = state(outside)
    for act in (*CHECKS, *CHANGES, *VIEWS):
        code, said = act(attempt, tmp_path / "target")
        assert code != 0 or (act in VIEWS and name.startswith("raw")), said  # which it does not look at
        assert SECRET not in said
        assert state(outside) == before
        assert not (tmp_path / "target").exists()
    assert os.path.lexists(attempt / name)


WORKING = (
    "work",
    "work/attempt.json",
    "work/events.jsonl",
    "work/lock",
    "work/reserve",
    "work/bodies",
    "work/bodies/000001.request",
    "work/bodies/000001.response",
    "work/bodies/stranger",
    "work/native",
    "work/native/launcher.json",
    f"work/native/{NATIVE_LOG}",
    "work/native/stranger.jsonl",
    "raw",
    "calls.jsonl",
    ".publishing-0123456789ab",
)


def _adapter(source: AdapterInput) -> NativeCapture:
    return family_capture(None if source.native_root is None else source.native_root / NATIVE_LOG)


@pytest.mark.parametrize("intruder", INTRUDERS)
@pytest.mark.parametrize("name", WORKING)
def test_the_working_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: Path, name: str, intruder: Intruder
) -> None:
    """Published with a gap, or refused in one line; in neither case with anything of what is outside."""
    attempt = tmp_path / "attempt"
    builder = family_attempt(attempt)
    log = builder.work / "native" / NATIVE_LOG
    log.parent.mkdir(parents=True)
    log.write_text('{"line":1}\n')
    builder.build()
    monkeypatch.setattr(finalize_attempt_module, "find_adapter", lambda _name: _adapter)
    put(intruder, attempt / name, outside)
    before = state(outside)
    command("finalize", "--capture-debug", "full", "--harness", "claude-code")(attempt, attempt)
    assert state(outside) == before
    inside = b"".join(path.read_bytes() for path in attempt.rglob("*") if path.is_file() and not path.is_symlink())
    assert SECRET.encode() not in inside


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    "path", ["../../outside/secret", "bodies/../../../outside/secret", "/etc/hostname", "bodies/.."]
)
def test_a_body_that_an_event_places_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """The event is damaged; the file that it names is not looked at."""
    builder = family_attempt(tmp_path / "attempt")
    for event in builder.events:
        if event.get("body"):
            event["body"] = {"path": path, "bytes": 5}
    use_capture(monkeypatch, family_capture())
    published = finalize_attempt(builder.build(), FinalizeRequest(debug_retention=DebugRetention.FULL))
    assert "event_unreadable" in {error["code"] for error in published.manifest["errors"]}
    for file in (path for path in (tmp_path / "attempt").rglob("*") if path.is_file()):
        assert SECRET.encode() not in file.read_bytes()


def _in_manifest(name: str) -> Callable[[Path], None]:
    def change(attempt: Path) -> None:
        manifest = json.loads((attempt / "manifest.json").read_bytes())
        manifest["files"][name] = {"sha256": "0" * 64, "bytes": 1}
        (attempt / "manifest.json").write_text(json.dumps(manifest))

    return change


def _in_sources(name: str) -> Callable[[Path], None]:
    def change(attempt: Path) -> None:
        sources: dict[str, Any] = json.loads((attempt / "raw" / "sources.json").read_bytes())
        for entry in sources.values():
            entry["path"] = name
        (attempt / "raw" / "sources.json").write_text(json.dumps(sources))

    return change


NAMES = (
    "../outside/secret",
    "raw/../../outside/secret",
    "/etc/hostname",
    "raw//x",
    "raw/./x",
    "raw/\0",
    "raw/a\nb:7",
    "raw/\ud800",
)


@pytest.mark.parametrize("change", [_in_manifest, _in_sources])
@pytest.mark.parametrize("name", [*NAMES, "raw/x:" + "9" * 5000])
def test_a_name_that_leads_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    outside: Path,
    name: str,
    change: Callable[[str], Callable[[Path], None]],
) -> None:
    """In the list of files, and in the map of evidence: refused by every command, in every form of report."""
    attempt = tmp_path / "attempt"
    publish_family(attempt, monkeypatch, debug_retention=DebugRetention.FULL)
    change(name)(attempt)
    for act in (*CHECKS, *CHANGES):
        code, said = act(attempt, tmp_path / "target")
        assert code == 1, said
        assert SECRET not in said
    assert (outside / "secret").exists()


SOURCES: dict[str, Any] = {
    "a path that is a list": {"path": [], "sha256": "0", "bytes": 1},
    "a path that is an object": {"path": {}, "sha256": "0", "bytes": 1},
    "a path that is a number": {"path": 1e400, "sha256": "0", "bytes": 1},
    "no path": {},
    "no object": [[]],
    "outside": {"path": "../outside/secret", "sha256": "0", "bytes": 1},
}


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("kind", [*SOURCES, "a locator that no encoding has"])
def test_somebody_who_changes_the_manifest_to_match(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The deep check tells what is wrong, and follows none of it."""
    attempt = tmp_path / "attempt"
    publish_family(attempt, monkeypatch, debug_retention=DebugRetention.FULL)
    manifest = json.loads((attempt / "manifest.json").read_bytes())
    if kind in SOURCES:
        changed = "raw/sources.json"
        text = json.dumps(dict.fromkeys(json.loads((attempt / changed).read_bytes()), SOURCES[kind]))
    else:
        changed = "relations.jsonl"
        text = (attempt / changed).read_text().replace('"locator":"line:1', '"locator":"line:1 id:\\ud800')
    (attempt / changed).write_text(text)
    manifest["files"][changed] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text)}
    (attempt / "manifest.json").write_text(json.dumps(manifest))
    for act in (*CHECKS[1:2], migrate):
        code, said = act(attempt, tmp_path / "target")
        assert code == 1 or act is migrate
        assert SECRET not in said


def test_what_an_interrupted_prune_left_is_never_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outside: Path
) -> None:
    """A link, a pipe or a file under such a name is taken away, and what it leads to stays."""
    attempt = tmp_path / "attempt"
    publish_family(attempt, monkeypatch, debug_retention=DebugRetention.FULL)
    for number, intruder in enumerate(INTRUDERS):
        intruder(tmp_path / f".attempt.pruning-{number}", outside)
    before = state(outside)
    assert prune(attempt, attempt) == (0, "")
    assert state(outside) == before
    assert not list(tmp_path.glob(".attempt*"))


def test_an_attempt_behind_a_link_is_pruned_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of attempts, a link to another one is replaced by a copy; the other one stays as it is."""
    other = tmp_path / "other"
    publish_family(other, monkeypatch, debug_retention=DebugRetention.FULL)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "attempt").symlink_to(other)
    before = state(other)
    assert prune(tmp_path / "folder" / "attempt", tmp_path) == (0, "")
    assert state(other) == before
