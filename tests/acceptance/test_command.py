"""The command around the runs: wrong calls, rows, exit codes."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roller_capture import terminal
from roller_capture.acceptance import command
from roller_capture.acceptance.captured_run import Capture
from roller_capture.acceptance.expected import SCENARIO_NAMES, Expected, NotApplicable, NotApplicableReason
from roller_capture.acceptance.real_service import real_differences
from roller_capture.acceptance.run import RunFailedError, Setting, run_real
from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import find_launcher
from roller_capture.launchers.binaries import Binary
from roller_capture.vocabulary import Protocol
from tests.support.one_delegation import captured, good

PLANNED = [
    name for name in HARNESSES if (Path(command.__file__).parent / "plans" / f"{name.replace('-', '_')}.py").is_file()
]


@pytest.mark.parametrize("harness", PLANNED)
def test_every_plan_has_all_scenarios_and_scripts_for_them(harness: str) -> None:
    """Each of the fifteen is either run or said not to apply, for a reason from the closed list."""
    plan = command.find_plan(harness)
    assert list(plan.cells) == [name for name in SCENARIO_NAMES if name in plan.cells]
    assert set(plan.cells) == set(SCENARIO_NAMES)
    for entry in plan.cells.values():
        refused = isinstance(entry, NotApplicable)
        script = command.find_script(plan, entry.proof if isinstance(entry, NotApplicable) else entry.scenario)
        assert script.prompt
        assert not refused or isinstance(entry.reason, NotApplicableReason)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--harness", "emacs"], "'emacs' is no known harness"),
        (
            ["--harness", "generic"],
            "there is no acceptance for generic: no script knows how it delegates",
        ),
        (["--harness", "claude-code", "--scenario", "dance"], "'dance' is no scenario: use one of ordinary"),
        (["--harness", "claude-code", "--api-base", "http://x"], "--api-base and --api-key-env go together"),
        (["--harness", "claude-code", "--api-key-env", "NONE"], "--api-base and --api-key-env go together"),
        (["--harness", "claude-code", "--api-base", "http://x", "--api-key-env", "UNSET_KEY"], "UNSET_KEY is not set"),
        (
            ["--harness", "pi", "--api-base", "http://x", "--api-key-env", "PATH"],
            "--model NAME is missing: pi has no model of its own",
        ),
        (["--harness", "claude-code", "--model", "m"], "--model is for a real service"),
        (["--harness", "claude-code", "--harness-bin", "/no/such"], "--harness-bin /no/such: is no file"),
        (
            ["--harness", "codex", "--protocol", "anthropic-messages"],
            "--protocol anthropic-messages: codex speaks openai-responses",
        ),
    ],
)
def test_wrong_calls_are_said_in_one_line(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is run."""
    result = CliRunner().invoke(app, ["acceptance", *arguments])
    code = result.exception.exit_code if isinstance(result.exception, RollerError) else result.exit_code
    said = f"{result.exception}{result.stderr}{capsys.readouterr().err}"
    assert (code, text in said) == (2, True), said


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """No harness: each run gives what stands here."""
    published = good()
    outcome: dict[str, Any] = {"published": published, "error": None}

    def run(*_: object) -> Capture:
        if outcome["error"]:
            raise RunFailedError(outcome["error"])
        return captured(outcome["published"])

    monkeypatch.setattr(command, "run_cell", run)
    monkeypatch.setattr(command, "find_binary", lambda *_: Binary(Path("/bin/true"), "9.9"))
    return outcome


def test_a_row_for_each_run(played: dict[str, Any]) -> None:
    """Passed; then failed, with what differs, and exit code 1."""
    arguments = ["acceptance", "--harness", "claude-code", "--scenario", "single", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    [row] = json.loads(result.stdout)
    assert row == {
        "harness": "claude-code",
        "version": "9.9",
        "scenario": "single",
        "protocol": "anthropic-messages",
        "model": "scripted-model",
        "result": "passed",
        "reason": None,
        "calls": 3,
        "relations": 4,
        "wrong": 0,
        "unattributed": 0,
        "differences": [],
    }
    del played["published"]["relations"][0]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    [row] = json.loads(result.stdout)
    assert (row["result"], row["differences"]) == ("failed", ["1 relation spawn of child-a missing"])


@pytest.mark.usefixtures("played")
def test_it_says_how_to_look_at_runs_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first by its path, as a command; without `--keep` there is nothing to look at."""
    inner = command.run_cell

    def run(setting: Setting, *others: Any) -> Capture:
        (setting.directory / f"{others[0].scenario}-0" / "run").mkdir(parents=True)
        return inner(setting, *others)

    monkeypatch.setattr(command, "run_cell", run)
    arguments = ["acceptance", "--harness", "claude-code", "--scenario", "single", "--scenario", "parallel"]
    kept = CliRunner().invoke(app, [*arguments, "--keep", str(tmp_path)])
    assert f"roller-capture view {tmp_path}/parallel-0/run (and 1 more beside it)" in kept.stderr
    assert "roller-capture view" not in CliRunner().invoke(app, arguments).stderr


def test_the_answer_in_json_is_ascii(played: dict[str, Any]) -> None:
    """Whatever stands in it."""
    played["error"] = "its last words: na\u00efve \u2014 \ud800"
    arguments = ["acceptance", "--harness", "claude-code", "--scenario", "single", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.stdout.isascii()
    assert json.loads(result.stdout)[0]["differences"] == [played["error"]]


def _published(folder: Path, kinds: list[str]) -> Path:
    (folder / "manifest.json").write_text('{"execution_status": "completed", "capture_status": "complete"}')
    (folder / "calls.jsonl").write_text('{"participant_id": "p1"}\n')
    (folder / "relations.jsonl").write_text("".join(f'{{"type": "{kind}"}}\n' for kind in kinds))
    return folder


@pytest.mark.parametrize(
    ("harness", "kinds", "found"),
    [
        ("claude-code", ["spawn", "result_in_context"], []),
        ("claude-code", [], ["the model did not delegate"]),
        ("claude-code", ["spawn"], ["the child's result is in no context of its parent"]),
        ("pi", [], []),
        ("pi", ["spawn", "result_in_context"], ["a harness that cannot delegate has relations"]),
    ],
)
def test_a_real_service_is_judged_by_what_the_harness_can_do(
    tmp_path: Path, harness: str, kinds: list[str], found: list[str]
) -> None:
    """Of Pi, which has no delegation tool, none is asked."""
    good_validation = subprocess.CompletedProcess([], 0, "", "")
    delegates = command.find_plan(harness).delegates
    answer = real_differences(_published(tmp_path, kinds), good_validation, delegates=delegates)
    assert answer == (found, 1, len(kinds), 0)


def _documented() -> set[tuple[str, str, str]]:
    """Reason, harness and scenario of each entry of the page's table."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "acceptance.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `([\w-]+)` \| ([\w, -]+) \| [^|]+ \|$", page, re.MULTILINE)
    return {(reason, harness, name.strip()) for reason, harness, names in rows for name in names.split(",")}


def test_the_closed_list_of_reasons_is_what_the_plans_have() -> None:
    """Each entry of the documentation's table stands in a plan, which proves it by a run, and the other way round; a
    reason that no harness has would be one without a proof."""
    planned = {
        (entry.reason.value, harness, name)
        for harness in PLANNED
        for cells in (command.find_plan(harness).cells, *command.find_plan(harness).in_protocol.values())
        for name, entry in cells.items()
        if isinstance(entry, NotApplicable)
    }
    assert planned == _documented()
    assert {reason for reason, _, _ in planned} == {reason.value for reason in NotApplicableReason}


@pytest.mark.parametrize("harness", PLANNED)
def test_what_a_plan_says_of_another_protocol_can_be_run(harness: str) -> None:
    """It is one that the harness speaks beside its first, and the scenario has a script."""
    plan, spoken = command.find_plan(harness), find_launcher(harness).traits.protocols
    assert set(plan.in_protocol) <= set(spoken[1:])
    for protocol, cells in plan.in_protocol.items():
        assert set(cells) <= set(SCENARIO_NAMES)
        for name, entry in cells.items():
            assert plan.cell(name, protocol) is entry
            assert plan.cell(name, spoken[0]) is plan.cells[name]
            assert command.find_script(plan, entry.proof if isinstance(entry, NotApplicable) else entry.scenario).prompt


@pytest.mark.usefixtures("played")
def test_another_protocol_is_judged_by_what_the_plan_says_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the first one as before."""
    plan = command.find_plan("hermes")
    other = {Protocol.OPENAI_RESPONSES: {"single": replace(plan.cells["single"], expected=Expected())}}
    monkeypatch.setattr(command, "find_plan", lambda _: replace(plan, delegation_tools=("Agent",), in_protocol=other))
    results = {}
    for protocol in (Protocol.OPENAI_CHAT_COMPLETIONS, Protocol.OPENAI_RESPONSES):
        arguments = ["acceptance", "--harness", "hermes", "--scenario", "single", "--protocol", protocol, "--json"]
        [row] = json.loads(CliRunner().invoke(app, arguments).stdout)
        results[row["protocol"]] = row["differences"]
    more = "there were more delegations than the scenario has"
    assert any(more in found for found in results[Protocol.OPENAI_RESPONSES])
    assert not any(more in found for found in results[Protocol.OPENAI_CHAT_COMPLETIONS])


def test_the_table_is_plain_in_a_pipe(played: dict[str, Any]) -> None:
    """One line a row, however long what differs is; what `collect` said last is there when nothing was published."""
    played["error"] = "collect published nothing; its last words: " + "x" * 250
    result = CliRunner().invoke(app, ["acceptance", "--harness", "claude-code", "--scenario", "single"])
    assert result.exit_code == 1
    title, heading, row = result.stdout.splitlines()
    assert title == "claude-code"
    assert heading.split()[:5] == ["scenario", "result", "version", "protocol", "model"]
    assert row.split()[:5] == ["single", "failed", "9.9", "Messages", "scripted-model"]
    assert row.endswith("x" * 250)


def test_on_a_terminal_each_row_says_what_was_run_in_120_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version, protocol and model stand in it, and the longest names are whole."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    head = ("hermes", "0.19.0-beta")
    rows = [
        command.Row(*head, "cross-process-resume", "openai-responses", "scripted-model", command.Result.PASSED),
        command.Row(
            *head, "resumed-child", "anthropic-messages", "m", command.Result.NOT_APPLICABLE, "no_resumed_child"
        ),
    ]
    said: list[str] = []
    monkeypatch.setattr(terminal, "answer", said.append)
    terminal.print_table(command._table(rows), compact=True)
    lines = [line.split() for line in said[0].splitlines() if line.lstrip().startswith(("cross", "resumed"))]
    assert [line[:5] for line in lines] == [
        ["cross-process-resume", "passed", "0.19.0-beta", "Responses", "scripted-model"],
        ["resumed-child", "not_applicable", "0.19.0-beta", "Messages", "m"],
    ]
    assert max(map(len, said[0].splitlines())) <= 120


def test_a_real_service_is_asked_with_the_plans_own_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSeek Harness delegates with another profile than the one that `collect` takes by default."""
    commands: list[list[str]] = []

    def note(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 2, b"", b"error: not today")

    monkeypatch.setattr(subprocess, "run", note)
    setting = Setting("deepseek", Binary(Path("/bin/true"), "9.9"), tmp_path, timeout=1.0)
    with pytest.raises(RunFailedError, match="not today"):
        run_real(setting, command.find_plan("deepseek"), "http://x", None, "a-real-key")
    assert commands[0][-2:] == ["--profile", "sdk"]
