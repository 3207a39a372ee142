"""One run of the real Claude Code through `collect`, against a scripted provider, and what it left behind."""

import hashlib
import json
import os
import secrets
import subprocess
from pathlib import Path
from typing import Any, Self

import pytest

from roller_capture.collect.request import DEFAULT_DRAIN_TIMEOUT, CollectRequest
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.claude_code_scenarios import Scenario
from roller_capture.vocabulary import DebugRetention
from tests.support.claude_code_capture import Capture, read_lines, roller_capture
from tests.support.collecting import REAL_KEY, alive, collecting, until
from tests.support.harness_install import HarnessMissingError, claude_code_binary
from tests.support.truth_table import TruthTable


def binary(version: str) -> Path:
    """The installed program, or a skip that says what was not run."""
    try:
        return claude_code_binary(version)
    except HarnessMissingError as error:
        # A harness that could not be had is no fault of ours: the summary says so loudly, and nothing fails. One that
        # is installed wrongly fails earlier, in scripts/install_harness.sh.
        pytest.skip(f"NOT RUN: {error}")


class Run:
    """One `collect` with the real harness against a scripted provider.

    What the scenario adds to the harness's environment is given as a setting, since `collect` passes no variables on.
    """

    def __init__(
        self,
        scenario: Scenario,
        version: str,
        directory: Path,
        *more_prompts: str,
        drain_timeout: float = DEFAULT_DRAIN_TIMEOUT,
    ) -> None:
        harness = binary(version)
        self.directory = directory
        self.home = directory / "user-home"
        (self.home / ".claude").mkdir(parents=True)
        (self.home / ".claude" / "settings.json").write_text(
            '{"env": {"ANTHROPIC_BASE_URL": "http://nowhere.invalid"}}'
        )
        self.before = digest(self.home)
        self.scenario = scenario
        self.prompt = f"{scenario.prompt} This is run {secrets.token_hex(8)}."  # tells its processes from another run's
        self.provider = ScriptedProvider(scenario.decide)
        self.request = CollectRequest(
            harness="claude-code",
            run_dir=directory / "run",
            prompts=(self.prompt, *more_prompts),
            api_base=self.provider.url,
            capture_calls=True,
            model="scripted-model",
            harness_bin=harness,
            capture_debug=DebugRetention.FULL,
            drain_timeout=drain_timeout,
            workdir=self._lay_down(scenario) if scenario.files else None,
            harness_args=_settings(scenario) if scenario.environment else (),
        )
        self.attempt = directory / "run" / "samples" / "sample-0001" / "capture" / "attempt-0001"

    def _lay_down(self, scenario: Scenario) -> Path:
        workdir = self.directory / "work"
        for name, text in scenario.files.items():
            (workdir / name).parent.mkdir(parents=True, exist_ok=True)
            (workdir / name).write_text(text, encoding="utf-8")
        return workdir

    def __enter__(self) -> Self:
        self.provider.start()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "ANTHROPIC_API_KEY": REAL_KEY}
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
        """Exit code and stderr; nothing that was started is alive, and no key is anywhere."""
        _, err = self.process.communicate()
        self.provider.stop()
        assert "Traceback" not in err
        assert self.provider.script_errors == []
        assert self.processes() == {}
        assert digest(self.home) == self.before
        keys = {record.headers["x-api-key"] for record in self.provider.truth.records}
        assert keys == {REAL_KEY}
        needle = REAL_KEY.encode()
        assert [path for path in self.directory.rglob("*") if path.is_file() and needle in path.read_bytes()] == []
        return self.process.returncode, err

    def processes(self) -> dict[int, str]:
        """The living processes of harness and proxy, by what their command lines hold."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
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


def _settings(scenario: Scenario) -> tuple[str, ...]:
    return ("--settings", json.dumps({"env": dict(scenario.environment)}))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def digest(folder: Path) -> str:
    """Names and contents of all files in a folder."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(str(path.relative_to(folder)).encode() + b"\0")
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


def check_attribution(capture: Capture) -> TruthTable:
    """Every request a call, every call with its owner, and a valid attempt."""
    table = TruthTable(capture)
    assert table.calls.keys() == table.truth.keys()
    assert table.wrong == []
    assert table.unattributed == []
    assert capture.validation.returncode == 0, capture.validation.stderr
    return table
