"""`finalize --native DIR`: what is published is final, so a folder without the run's logs is refused."""

import dataclasses
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.harnesses import HARNESSES
from tests.adapters.homes import DATABASE_HOMES, build_home
from tests.adapters.recordings import LAUNCHER, RecordedCall, Recording, typical
from tests.support.attempts import AttemptBuilder

each_harness = pytest.mark.parametrize("harness", HARNESSES)


def _finalize(attempt: Path, *arguments: str | Path) -> tuple[int, str]:
    """Exit code and message of the command."""
    result = CliRunner().invoke(app, ["finalize", str(attempt), *map(str, arguments)])
    return result.exit_code, result.stderr


def _home(harness: str, root: Path) -> None:
    """The home of the typical run, without what a launcher would have noted."""
    if harness in DATABASE_HOMES:
        build_home(harness, root)
    else:
        typical(harness).write(root)
    (root / LAUNCHER).unlink(missing_ok=True)


def _of_other_sessions(recording: Recording) -> Recording:
    """The same calls, but of sessions that the home does not have."""

    def other(call: RecordedCall) -> RecordedCall:
        return dataclasses.replace(call, headers={name: _other(value) for name, value in call.headers.items()})

    return dataclasses.replace(recording, calls=tuple(map(other, recording.calls)))


def _other(value: str) -> str:
    return value.translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))


def _tree(folder: Path) -> dict[str, bytes]:
    """Every file but the lock, which a finalizer makes where there is none."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


@each_harness
def test_a_folder_without_its_logs_is_refused(harness: str, tmp_path: Path) -> None:
    """Exit 2, one line that says what was looked for and where; nothing is published, and nothing lost."""
    attempt, wrong = typical(harness).attempt(tmp_path / "attempt"), tmp_path / "wrong"
    wrong.mkdir()
    before = _tree(attempt)
    code, message = _finalize(attempt, "--native", wrong)
    assert code == 2
    assert message == (
        f"error: {attempt}: not published: no log of the recorded sessions ({HARNESSES[harness].logs}) was found below "
        f"{wrong}: name the HOME of that run, or leave --native out to publish without native logs\n"
    )
    assert _tree(attempt) == before
    _home(harness, tmp_path / "home")
    code, message = _finalize(attempt, "--native", tmp_path / "home")
    assert (code, "native_logs_missing" in message) == (0, False), message
    assert (attempt / "manifest.json").exists()


@pytest.mark.parametrize("harness", sorted(HARNESSES.keys() - {"generic"}))
def test_the_home_of_another_run_is_refused(harness: str, tmp_path: Path) -> None:
    """Also where its sessions lie in a database that is there, and can be read."""
    attempt = _of_other_sessions(typical(harness)).attempt(tmp_path / "attempt")
    _home(harness, tmp_path / "home")
    code, message = _finalize(attempt, "--native", tmp_path / "home")
    assert (code, "no log of the recorded sessions" in message) == (2, True), message
    assert not (attempt / "manifest.json").exists()


@each_harness
def test_without_the_option_it_is_published_with_a_named_gap(harness: str, tmp_path: Path) -> None:
    """As before: the calls are worth more than nothing."""
    attempt = typical(harness).attempt(tmp_path / "attempt")
    code, message = _finalize(attempt)
    assert code == 0
    assert "partial" in message
    manifest = json.loads((attempt / "manifest.json").read_bytes())
    assert manifest["counts"]["calls"] == len(typical(harness).calls)


def test_damaged_logs_are_found_logs(tmp_path: Path) -> None:
    """They are kept as evidence, and what is wrong with them is named."""
    recording = typical("claude-code")
    attempt = recording.attempt(tmp_path / "attempt")
    damaged = dataclasses.replace(recording, files=dict.fromkeys(recording.files, b"no record\n"))
    damaged.write(tmp_path / "home")
    code, message = _finalize(attempt, "--native", tmp_path / "home")
    assert (code, "native_line_unreadable" in message) == (0, True), message


def test_an_attempt_without_calls_has_no_logs_to_miss(tmp_path: Path) -> None:
    """No request names a session, so there is nothing to look for."""
    attempt = AttemptBuilder(tmp_path / "attempt").build()
    (tmp_path / "home").mkdir()
    assert _finalize(attempt, "--native", tmp_path / "home")[0] == 0
