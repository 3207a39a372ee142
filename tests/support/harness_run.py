"""One run of a real harness through `collect`, against a scripted provider, and what it left behind."""

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from roller_capture.collect.request import CollectRequest
from roller_capture.launchers import find_launcher
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.scenario import Scenario
from roller_capture.vocabulary import DebugRetention
from tests.support.capture import Capture, read_lines, roller_capture
from tests.support.collecting import REAL_KEY, REPOSITORY, alive, collecting, until
from tests.support.harness_install import HarnessMissingError, harness_binary
from tests.support.truth_table import TruthTable


def binary(harness: str, version: str) -> Path:
    """The installed program, or a skip that says what was not run."""
    try:
        return harness_binary(harness, version)
    except HarnessMissingError as error:
        # A harness that could not be had is no fault of ours: the summary says so loudly, and nothing fails. One that
        # is installed wrongly fails earlier, in scripts/install_harness.sh.
        pytest.skip(f"NOT RUN: {error}")


def pinned_binary(harness: str) -> Path:
    """The newest pinned version's program, or a skip."""
    versions = sorted(folder.name for folder in (REPOSITORY / "harnesses" / harness).iterdir() if folder.is_dir())
    return binary(harness, versions[-1])


class HarnessRun:
    """One `collect` with the real harness against a scripted provider.

    `user_files` stand in the user's own home and must not be touched; `program` is run in place of the installed one;
    `options` are further members of `CollectRequest`. Use it as a context manager, then call `finish` and `capture`.
    """

    def __init__(
        self,
        harness: str,
        version: str,
        scenario: Scenario,
        directory: Path,
        *more_prompts: str,
        user_files: Mapping[str, str] | None = None,
        program: Path | None = None,
        **options: Any,
    ) -> None:
        program = program or binary(harness, version)
        self.directory = directory
        self.home = directory / "user-home"
        self.home.mkdir(parents=True)
        _lay_down(self.home, user_files or {})
        self.before = digest(self.home)
        self.scenario = scenario
        self.prompt = f"{scenario.prompt} This is run {secrets.token_hex(8)}."  # tells its processes from another run's
        self.provider = ScriptedProvider(scenario.decide)
        self.request = CollectRequest(
            harness=harness,
            run_dir=directory / "run",
            prompts=(self.prompt, *more_prompts),
            api_base=self.provider.url,
            capture_calls=True,
            model="scripted-model",
            harness_bin=program,
            capture_debug=DebugRetention.FULL,
            workdir=_lay_down(directory / "work", scenario.files) if scenario.files else None,
            **options,
        )
        self.attempt = directory / "run" / "samples" / "sample-0001" / "capture" / "attempt-0001"

    def __enter__(self) -> Self:
        self.provider.start()
        # Of its own, so that homes in it tell this run's processes; short, since programs make sockets in it.
        self._temporary = Path(tempfile.mkdtemp(prefix="rc-")).resolve()
        variables = find_launcher(self.request.harness).traits.key_variables
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), **dict.fromkeys(variables, REAL_KEY)}
        environment["TMPDIR"] = str(self._temporary)
        self.process: subprocess.Popen[str] = collecting(self.request, environment=environment)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.provider.stop()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def until_held(self) -> None:
        """Waits until the scenario has come to the answer that it holds."""
        assert self.scenario.kill_when is not None
        until(self.scenario.kill_when.is_set, self.process)

    def finish(self) -> tuple[int, str]:
        """Exit code and stderr; nothing that was started is alive, no key is anywhere, the user's home is untouched."""
        _, err = self.process.communicate()
        self.provider.stop()
        assert "Traceback" not in err
        assert self.provider.script_errors == []
        assert self.processes() == {}
        assert digest(self.home) == self.before
        keys = {_credential(record.headers) for record in self.provider.truth.records}
        assert keys <= {REAL_KEY}
        needle = REAL_KEY.encode()
        assert [path for path in self.directory.rglob("*") if path.is_file() and needle in path.read_bytes()] == []
        return self.process.returncode, err

    def processes(self) -> dict[int, str]:
        """The living processes of this run, by what each is: `proxy`, `keeper`, `harness`, or `other` for what those
        have started."""
        return processes_of(self._temporary, self.attempt, Path(str(self.request.harness_bin)), self.request.harness)

    def capture(self) -> Capture:
        """The published attempt beside the provider's own record."""
        return Capture(
            self.provider.truth.records,
            len(self.provider.truth.others),
            0,
            self.attempt,
            read_json(self.attempt / "manifest.json"),
            read_lines(self.attempt / "calls.jsonl"),
            read_lines(self.attempt / "relations.jsonl"),
            roller_capture("validate", "--deep", str(self.attempt)),
        )


class _Process(NamedTuple):
    """A living process: what it was started with, and by whom."""

    pid: int
    parent: int
    name: str
    words: list[str]
    home: str

    def runs(self, program: Path, executable: str) -> bool:
        """Whether it is that program, also in an interpreter. Pi overwrites its command line with its name."""
        return str(program) in self.words[:2] or self.name == executable


def processes_of(temporary: Path, attempt: Path, program: Path, harness: str) -> dict[int, str]:
    """The living processes that record `attempt`, or whose home is below `temporary`, whatever they run in: the process
    of a harness that is a script is its interpreter's."""
    executable = find_launcher(harness).traits.executable
    everyone = {process.pid: process for process in _living()}
    programs = {pid for pid, process in everyone.items() if process.runs(program, executable)}
    found = {}
    for pid, process in everyone.items():
        if "mitmdump" in " ".join(process.words) and str(attempt) in " ".join(process.words):
            found[pid] = "proxy"
        elif process.home.startswith(f"{temporary}/"):
            is_keeper = any(Path(word).name == "keeper.py" for word in process.words[:5])
            is_harness = pid in programs and process.parent not in programs
            found[pid] = "keeper" if is_keeper else "harness" if is_harness else "other"
    return found


def _living() -> Iterator[_Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or not alive(int(entry.name)):
            continue
        try:
            line, name, environment = (
                os.fsdecode((entry / file).read_bytes()) for file in ("cmdline", "comm", "environ")
            )
            parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):  # it has just ended
            continue
        home = next((word[5:] for word in environment.split("\0") if word.startswith("HOME=")), "")
        yield _Process(int(entry.name), parent, name.strip(), line.split("\0"), home)


def check_attribution(table: TruthTable, *, unattributed: int = 0) -> TruthTable:
    """Every request a call, every call with its owner but those that nothing can attribute, and a valid attempt."""
    assert table.calls.keys() == table.truth.keys()
    assert table.wrong == []
    assert len(table.unattributed) == unattributed
    assert table.capture.validation.returncode == 0, table.capture.validation.stderr
    return table


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def digest(folder: Path) -> str:
    """Names and contents of all files in a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode() + b"\0")
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()


def _credential(headers: Mapping[str, str]) -> str:
    return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")


def _lay_down(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder
