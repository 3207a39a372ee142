"""The real Pi through `collect`, against a scripted provider whose record is the truth.

Here is what the shared acceptance does not hold: other protocols, further scenarios, and what is Pi's own. One run per
scenario and protocol serves all tests of that pair.
"""

import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.scripted_provider.pi_scenarios import ARGUMENTS, DELEGATION_TOOLS, SCENARIOS
from roller_capture.vocabulary import Protocol
from tests.support.capture import roller_capture
from tests.support.harness_run import HarnessRun, check_attribution, pinned_binary, read_json
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

VERSION = "1.6.0"
CHAT, RESPONSES, MESSAGES = (
    Protocol.OPENAI_CHAT_COMPLETIONS,
    Protocol.OPENAI_RESPONSES,
    Protocol.ANTHROPIC_MESSAGES,
)
ALL = (CHAT, RESPONSES, MESSAGES)
OTHERS = (RESPONSES, MESSAGES)


@dataclass(frozen=True)
class Run:
    """What a scenario must give: a number of calls, of which `compactions` compact, and `nameless` have a purpose that
    nothing native tells; `cut` calls and no others are incomplete."""

    calls: int
    protocols: tuple[Protocol, ...] = (CHAT,)
    cut: int = 0
    failed: bool = False
    compactions: int = 0
    nameless: int = 0
    refused: int = 0
    prompts: tuple[str, ...] = ()

    @property
    def expected(self) -> Expected:
        """The same in the words of the shared acceptance."""
        return Expected(
            tuple(Delegation(f"none-{number}", refused=True) for number in range(self.refused)),
            ended={"root": "failed"} if self.failed else {},
            lifecycle="unsupported",
            reasons={"call_incomplete": self.cut} if self.cut else {},
            execution="failed" if self.failed else "completed",
        )


RUNS: Mapping[str, Run] = {
    "ordinary": Run(2, OTHERS),
    "refused-delegation": Run(4, OTHERS, refused=3),
    "parallel-tools": Run(2),
    "tool-error": Run(2, OTHERS),
    "tool-configs": Run(2),
    "compaction": Run(4, ALL, compactions=1),
    "cross-process-resume": Run(5, ALL, prompts=("-And once more.", "@@x and again.")),
    "cut-stream": Run(3, OTHERS, cut=1),
    "cut-tool": Run(3, OTHERS, cut=1),
    "cut-always": Run(4, cut=4, failed=True),
    "error-event": Run(3, (MESSAGES,)),
    "max-tokens": Run(1, ALL),
    "thinking": Run(2, OTHERS),
    "http-400": Run(1, nameless=1, failed=True),
    "http-400-late": Run(2, nameless=1, failed=True, prompts=("Never said.",)),
    "http-500": Run(2, (RESPONSES,), nameless=1),
    "without-response-ids": Run(2, nameless=2),
}
PAIRS = [(protocol, name) for name, run in RUNS.items() for protocol in run.protocols]
Tables = Callable[[Protocol, str], TruthTable]
each_run = pytest.mark.parametrize(("protocol", "name"), PAIRS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario in a protocol the first time it is asked for."""
    known: dict[tuple[Protocol, str], TruthTable] = {}

    def table(protocol: Protocol, name: str) -> TruthTable:
        if (protocol, name) not in known:
            known[protocol, name] = _run(protocol, name, tmp_path_factory.mktemp("pi"))
            e2e_table.append(_line(protocol, name, known[protocol, name]))
        return known[protocol, name]

    return table


def _run(protocol: Protocol, name: str, directory: Path) -> TruthTable:
    options: dict[str, Any] = {"protocol": protocol, "harness_args": ARGUMENTS.get(name, ())}
    with HarnessRun("pi", VERSION, SCENARIOS[name](), directory / "run", *RUNS[name].prompts, **options) as run:
        code, err = run.finish()
    assert code == 0, err
    return TruthTable(run.capture(), DELEGATION_TOOLS)


def _line(protocol: Protocol, name: str, table: TruthTable) -> str:
    return (
        f"pi {VERSION} {protocol:<23} {name:<20} calls {len(table.calls):>2}/{len(table.truth):<2} "
        f"wrong {len(table.wrong)} unattributed {len(table.unattributed)} relations {len(table.capture.relations)} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


@each_run
def test_nothing_differs_from_the_truth(tables: Tables, protocol: Protocol, name: str) -> None:
    """One call per request, all of them the root's; no child, no relation; how it ended, and why it is partial."""
    table, run = tables(protocol, name), RUNS[name]
    assert differences(table, run.expected) == []
    assert len(table.calls) == run.calls
    capabilities = table.capture.manifest["capabilities"]
    assert capabilities["subtasks"] == "not_available_in_bundled_profile"
    assert capabilities["native_output_coverage"]["status"] == "complete"
    assert table.capture.manifest["harness"] == {"name": "pi", "version": VERSION, "tested": True}


@each_run
def test_session_ids_agree_with_the_one_that_pi_announced(tables: Tables, protocol: Protocol, name: str) -> None:
    """In every call the hook's header names it, and a native header too unless the call compacts."""
    table = tables(protocol, name)
    announced = read_json(table.capture.attempt / "raw" / "native" / "launcher.json")["root_native_id"]
    assert table.capture.manifest["participants"][0]["native_ids"] == {"session_id": [announced]}
    for call in table.calls.values():
        assert call["native_identity"]["session_id"] == announced
        kinds = {item["kind"] for item in call["native_identity"]["evidence"]}
        assert "roller_header" in kinds
        assert ("native_header" in kinds) == (call["purpose"] != "compaction")


@each_run
def test_completed_answers_are_counted_and_have_their_purpose(tables: Tables, protocol: Protocol, name: str) -> None:
    """The protocol's own count is that of the answers that went out whole."""
    table, run = tables(protocol, name), RUNS[name]
    whole = {record.nonce for record in table.capture.truth if record.answered_whole}
    completed = table.capture.manifest["capabilities"]["native_output_coverage"]["protocol_count"]["expected"]
    assert completed == len(whole) - run.compactions
    purposes = Counter(call["purpose"] for call in table.calls.values())
    told = run.calls - run.compactions - run.nameless
    assert purposes == Counter(agent=told, compaction=run.compactions, unknown=run.nameless)


@pytest.mark.parametrize("protocol", OTHERS)
def test_a_delegation_is_refused_by_pi_itself(tables: Tables, protocol: Protocol) -> None:
    """Each of three got an error of Pi's own as its result."""
    table = tables(protocol, "refused-delegation")
    for _, tool_id in table.delegations:
        assert any(tool_id in record.results_seen for record in table.capture.truth)
    assert str(table.capture.calls[-1]["context"]).count("not found") == 3


@pytest.mark.parametrize("protocol", ALL)
def test_further_turns_say_what_was_given(tables: Tables, protocol: Protocol) -> None:
    """To the letter, also what looks like an option or a file."""
    contexts = [str(call["context"]) for call in tables(protocol, "cross-process-resume").capture.calls]
    assert "'-And once more.'" in contexts[2]
    assert "'@@x and again.'" in contexts[4]


def test_a_tool_that_is_turned_off_is_in_no_call(tables: Tables) -> None:
    """The calls hold the configuration that was in effect."""
    for call in tables(CHAT, "tool-configs").calls.values():
        assert [tool["function"]["name"] for tool in call["context"]["tools"]] == ["read", "bash"]


def test_a_last_answer_that_failed_is_a_failed_run(tables: Tables) -> None:
    """Although Pi ends with exit code 0; the next turn is not run."""
    launcher = read_json(tables(CHAT, "http-400-late").capture.attempt / "raw" / "native" / "launcher.json")
    assert (launcher["exit_codes"], launcher["turn_failed"], launcher["turns_not_run"]) == ([0], True, 1)


def _kill(role: str) -> Callable[[HarnessRun], None]:
    def kill(run: HarnessRun) -> None:
        pid = run.process.pid if role == "collect" else {name: pid for pid, name in run.processes().items()}[role]
        os.kill(pid, signal.SIGKILL)

    return kill


def _interrupt(run: HarnessRun) -> None:
    run.process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("end", "exit_code", "ended"),
    [
        (_kill("harness"), 0, {"interrupted"}),
        # Pi sees a broken connection, and may note an error before it is stopped.
        (_kill("proxy"), 0, {"failed", "interrupted"}),
        (_kill("collect"), -signal.SIGKILL, {"interrupted"}),
        (_interrupt, 128 + signal.SIGINT, {"interrupted"}),
    ],
    ids=["kill-harness", "kill-proxy", "kill-collect", "interrupt"],
)
def test_a_run_that_was_ended_in_the_middle(
    end: Callable[[HarnessRun], None], exit_code: int, ended: set[str], tmp_path: Path
) -> None:
    """While the second answer is held: whatever is killed, all calls are attributed, and only the open one is cut."""
    with HarnessRun("pi", VERSION, SCENARIOS["killed"](), tmp_path / "run") as run:
        run.until_held()
        assert sorted(run.processes().values()) == ["harness", "keeper", "proxy"]
        end(run)
        code, err = run.finish()
    assert code == exit_code, err
    if code < 0:
        finalized = roller_capture("finalize", str(run.attempt), "--capture-debug", "full")
        assert finalized.returncode == 0, finalized.stderr
    table = check_attribution(TruthTable(run.capture()))
    assert table.capture.manifest["execution_status"] == "interrupted"
    assert table.capture.manifest["capture_status"] == "partial"
    [(role, parent, status)] = table.participants.values()
    assert (role, parent) == ("root", None)
    assert status in ended
    assert [call["execution_status"] for call in table.capture.calls] == ["completed", "interrupted"]


def test_two_side_by_side_do_not_meet(tmp_path: Path) -> None:
    """Each captures its own calls and nothing of the other."""
    with (
        HarnessRun("pi", VERSION, SCENARIOS["ordinary"](), tmp_path / "one") as one,
        HarnessRun("pi", VERSION, SCENARIOS["ordinary"](), tmp_path / "two", protocol=MESSAGES) as two,
    ):
        for run in (one, two):
            code, err = run.finish()
            assert code == 0, err
    for run in (one, two):
        assert check_attribution(TruthTable(run.capture())).capture.manifest["capture_status"] == "complete"


def _of_another_version(folder: Path, version: str) -> Path:
    """The installed Pi, but for the version that it says it is."""
    real = pinned_binary("pi")
    modules = next(parent for parent in real.parents if parent.name == "node_modules")
    package = real.relative_to(modules).parts[:2]
    scope = folder / "node_modules" / package[0]
    scope.mkdir(parents=True)
    for place, taken in ((modules, package[0]), (modules / package[0], package[1])):
        for entry in place.iterdir():
            if entry.name != taken:
                (folder / "node_modules" / entry.relative_to(modules)).symlink_to(entry)
    shutil.copytree(modules.joinpath(*package), scope / package[1], ignore=shutil.ignore_patterns("docs", "examples"))
    about = scope / package[1] / "package.json"
    about.write_text(json.dumps({**read_json(about), "version": version}))
    return folder / "node_modules" / real.relative_to(modules)


def test_a_version_that_was_never_tested(tmp_path: Path) -> None:
    """It is captured, with a named warning, and all else is as usual."""
    program = _of_another_version(tmp_path / "pi", "1.999.0")
    with HarnessRun("pi", VERSION, SCENARIOS["ordinary"](), tmp_path / "run", program=program) as run:
        code, err = run.finish()
    assert code == 0, err
    assert "warning: pi 1.999.0 was never tested" in err
    table = TruthTable(run.capture())
    errors = ("native_version_untested",)
    expected = Expected(lifecycle="unsupported", reasons={"errors": 1}, errors=errors)
    assert differences(table, expected) == []
    assert table.capture.manifest["harness"] == {"name": "pi", "version": "1.999.0", "tested": False}


def test_a_version_that_the_hook_does_not_fit_is_not_run(tmp_path: Path) -> None:
    """One line says so, before anything is asked of the model service."""
    program = _of_another_version(tmp_path / "pi", "1.999.0")
    package = next(parent for parent in program.parents if (parent / "package.json").is_file())
    types = package / "dist" / "core" / "extensions" / "types.d.ts"
    types.write_text(types.read_text().replace("before_provider_headers", "no_such_event"))
    with HarnessRun("pi", VERSION, SCENARIOS["ordinary"](), tmp_path / "run", program=program) as run:
        code, err = run.finish()
    assert (code, run.provider.truth.records) == (2, ())
    assert "this pi has no event before_provider_headers" in err
