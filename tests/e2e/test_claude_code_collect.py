"""The real Claude Code through `collect`: published, attributed, and ended in every way, without a key on disk."""

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from roller_capture.collect.request import CollectRequest
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.claude_code_scenarios import SCENARIOS, Scenario
from roller_capture.vocabulary import DebugRetention
from tests.support.claude_code_capture import Capture, read_lines, roller_capture
from tests.support.collecting import REAL_KEY, alive, collecting, until
from tests.support.harness_install import CLAUDE_CODE_VERSIONS, HarnessMissingError, claude_code_binary
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

NEWEST = "2.1.332"


def binary(version: str) -> Path:
    """The installed program, or a skip that says what was not run."""
    try:
        return claude_code_binary(version)
    except HarnessMissingError as error:
        pytest.skip(f"NOT RUN: {error}")


class Run:
    """One `collect` with the real harness against a scripted provider."""

    def __init__(self, scenario: Scenario, version: str, directory: Path, *more_prompts: str) -> None:
        self.directory = directory
        self.home = directory / "user-home"
        (self.home / ".claude").mkdir(parents=True)
        (self.home / ".claude" / "settings.json").write_text(
            '{"env": {"ANTHROPIC_BASE_URL": "http://nowhere.invalid"}}'
        )
        self.before = digest(self.home)
        self.scenario = scenario
        self.provider = ScriptedProvider(scenario.decide)
        self.request = CollectRequest(
            harness="claude-code",
            run_dir=directory / "run",
            prompts=(scenario.prompt, *more_prompts),
            api_base=self.provider.url,
            capture_calls=True,
            model="scripted-model",
            harness_bin=binary(version),
            capture_debug=DebugRetention.FULL,
        )
        self.attempt = directory / "run" / "samples" / "sample-0001" / "capture" / "attempt-0001"

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
                elif self.scenario.prompt in text and str(self.request.harness_bin) in text.partition(" ")[0]:
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


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
@pytest.mark.parametrize(("name", "background"), [("single", None), ("background", "child-bg")])
def test_a_whole_run(version: str, name: str, background: str | None, tmp_path: Path, e2e_table: list[str]) -> None:
    """In one command: everything attributed, every relation, complete."""
    with Run(SCENARIOS[name](), version, tmp_path) as run:
        code, err = run.finish()
    assert code == 0, err
    capture = run.capture()
    table = check_attribution(capture)
    assert table.relations == table.true_relations(frozenset(), background)
    assert capture.manifest["capture_status"] == "complete"
    assert capture.manifest["execution_status"] == "completed"
    assert capture.manifest["harness"] == {"name": "claude-code", "version": version, "tested": True}
    assert "participants: 1 root, 1 child\n" in err
    e2e_table.append(f"{version} collect {name:<18} calls {len(table.calls)}/{len(table.truth)} wrong 0 unattributed 0")


@pytest.mark.parametrize("version", CLAUDE_CODE_VERSIONS)
def test_two_turns_are_one_session(version: str, tmp_path: Path) -> None:
    """A second process resumes the session of the first: one root, one log, all calls its own."""
    with Run(SCENARIOS["ordinary"](), version, tmp_path, "-And once more.") as run:
        code, err = run.finish()
    assert code == 0, err
    capture = run.capture()
    table = check_attribution(capture)
    assert table.owned == {"root": set(table.truth)}
    assert capture.manifest["capture_status"] == "complete"
    launcher = read_json(run.attempt / "raw" / "native" / "launcher.json")
    assert launcher["exit_codes"] == [0, 0]
    (root,) = capture.manifest["participants"]
    assert root["native_ids"]["session_id"] == [launcher["root_native_id"]]
    assert "And once more." in str(capture.calls[-1]["context"]["messages"])


def _kill(role: str) -> Callable[[Run], None]:
    def kill(run: Run) -> None:
        pid = run.process.pid if role == "collect" else {name: pid for pid, name in run.processes().items()}[role]
        os.kill(pid, signal.SIGKILL)

    return kill


def _interrupt(run: Run) -> None:
    run.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("version", "end", "exit_code"),
    [
        (NEWEST, _kill("harness"), 0),
        (NEWEST, _kill("proxy"), 0),
        (NEWEST, _kill("collect"), -signal.SIGKILL),
        (NEWEST, _interrupt, 128 + signal.SIGINT),
        ("2.1.197", _interrupt, 128 + signal.SIGINT),
    ],
    ids=["kill-harness", "kill-proxy", "kill-collect", "interrupt", "interrupt-2.1.197"],
)
def test_a_run_that_was_ended_in_the_middle(
    version: str, end: Callable[[Run], None], exit_code: int, tmp_path: Path
) -> None:
    """While a child's answer is held: whatever is killed, all calls are attributed, and only the open one is cut."""
    with Run(SCENARIOS["killed"](), version, tmp_path) as run:
        run.until_held()
        end(run)
        code, err = run.finish()
    assert code == exit_code, err
    if code < 0:
        finalized = roller_capture("finalize", str(run.attempt), "--capture-debug", "full")
        assert finalized.returncode == 0, finalized.stderr
    capture = run.capture()
    assert capture.validation.returncode == 0, capture.validation.stderr
    assert capture.manifest["execution_status"] == "interrupted"
    assert capture.manifest["capture_status"] == "partial"
    statuses = [call["execution_status"] for call in capture.calls]
    assert statuses == ["completed"] * (len(statuses) - 1) + ["interrupted"]
    assert {call["identity_status"] for call in capture.calls} == {"resolved"}
    assert [participant["role"] for participant in capture.manifest["participants"]] == ["root", "child"]
    if version == NEWEST:  # 2.1.197, told to stop, writes "interrupted" into its log as the child's result
        assert capture.manifest["lifecycle"]["status"] == "pending"


def test_two_side_by_side_do_not_meet(tmp_path: Path) -> None:
    """Each captures its own calls and nothing of the other."""
    with (
        Run(SCENARIOS["single"](), NEWEST, tmp_path / "one") as one,
        Run(SCENARIOS["single"](), NEWEST, tmp_path / "two") as two,
    ):
        for run in (one, two):
            code, err = run.finish()
            assert code == 0, err
    for run in (one, two):
        assert run.capture().manifest["capture_status"] == "complete"
        check_attribution(run.capture())
