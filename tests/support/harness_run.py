"""One run of a real harness through `collect`, against a scripted provider, and what it left behind."""

import hashlib
import json
import os
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

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

    `user_files` stand in the user's own home and must not be touched; `options` are further members of
    `CollectRequest`. Use it as a context manager, then call `finish` and `capture`.
    """

    def __init__(
        self,
        harness: str,
        version: str,
        scenario: Scenario,
        directory: Path,
        *more_prompts: str,
        user_files: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        program = binary(harness, version)
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
        variable = find_launcher(self.request.harness).traits.key_variables[0]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), variable: REAL_KEY}
        self.process: subprocess.Popen[str] = collecting(self.request, environment=environment)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.provider.stop()

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
        """The living processes of harness and proxy, by what their command lines hold."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, UnicodeDecodeError):
                continue
            if entry.name.isdigit() and alive(int(entry.name)):
                if str(self.attempt) in text and "mitmdump" in text:
                    found[int(entry.name)] = "proxy"
                elif self.prompt in text and str(self.request.harness_bin) in text.partition(" ")[0]:
                    found[int(entry.name)] = "harness"
        return found

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
