"""The real Pi through `collect`, in every protocol, against a scripted provider whose record is the truth."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.scripted_provider.pi_scenarios import DELEGATION_TOOLS, SCENARIOS
from roller_capture.vocabulary import Protocol
from tests.support.capture import roller_capture
from tests.support.collecting import alive
from tests.support.harness_run import HarnessRun, check_attribution, read_json
from tests.support.truth_table import TruthTable as CommonTruthTable

pytestmark = pytest.mark.e2e

VERSION = "1.6.0"
CHAT, RESPONSES, MESSAGES = (
    Protocol.OPENAI_CHAT_COMPLETIONS,
    Protocol.OPENAI_RESPONSES,
    Protocol.ANTHROPIC_MESSAGES,
)
ALL = (CHAT, RESPONSES, MESSAGES)
_CUT = {"call_incomplete": 1}


class TruthTable(CommonTruthTable):
    """Tools by which a model could delegate, if Pi had them."""

    delegation_tools = DELEGATION_TOOLS


class Run(HarnessRun):
    """Pi overwrites its command line with its name, so that it is known by the process that started it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seen: set[int] = set()

    def processes(self) -> dict[int, str]:
        """The living processes of proxy and harness; the latter also when `collect` is gone, if asked once before."""
        known = {int(entry.name): _name_and_parent(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()}
        self._seen |= {pid for pid, (name, _) in known.items() if name == "pi" and self._is_ours(pid, known)}
        return super().processes() | {pid: "harness" for pid in self._seen if alive(pid)}

    def _is_ours(self, pid: int, known: Mapping[int, tuple[str, int]]) -> bool:
        while pid in known and pid != self.process.pid:
            pid = known[pid][1]
        return pid == self.process.pid


def _name_and_parent(process: Path) -> tuple[str, int]:
    try:
        name, _, rest = (process / "stat").read_text(errors="replace").partition("(")[2].rpartition(")")
        return name, int(rest.split()[1])
    except OSError:
        return "", 0


@dataclass(frozen=True)
class Expected:
    """What a scenario must give. `root` is the execution status of the session, `compactions` the number of calls that
    compact, `nameless` that of calls whose purpose nothing native tells."""

    calls: int
    root: str = "completed"
    reasons: Mapping[str, int] = field(default_factory=dict)
    compactions: int = 0
    nameless: int = 0
    protocols: tuple[Protocol, ...] = (CHAT,)
    prompts: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


EXPECTED: Mapping[str, Expected] = {
    "ordinary": Expected(2, protocols=ALL),
    "refused-delegation": Expected(4, protocols=ALL),
    "parallel-tools": Expected(2),
    "tool-error": Expected(2, protocols=ALL),
    "tool-configs": Expected(2, arguments=("--tools", "read,bash")),
    "compaction": Expected(4, compactions=1, protocols=ALL),
    "cross-process-resume": Expected(5, protocols=ALL, prompts=("-And once more.", "@@x and again.")),
    "cut-stream": Expected(3, reasons=_CUT, protocols=ALL),
    "cut-tool": Expected(3, reasons=_CUT, protocols=(RESPONSES, MESSAGES)),
    "cut-always": Expected(4, "failed", reasons={"call_incomplete": 4}),
    "error-event": Expected(3, protocols=(MESSAGES,)),
    "max-tokens": Expected(1, protocols=ALL),
    "thinking": Expected(2, protocols=(RESPONSES, MESSAGES)),
    "http-400": Expected(1, "failed", nameless=1),
    "http-500": Expected(2, nameless=1, protocols=(RESPONSES,)),
    "without-response-ids": Expected(2, nameless=2),
}
RUNS = [(protocol, name) for name, expected in EXPECTED.items() for protocol in expected.protocols]
Tables = Callable[[Protocol, str], TruthTable]
each_run = pytest.mark.parametrize(("protocol", "name"), RUNS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a scenario in a protocol the first time it is asked for."""
    known: dict[tuple[Protocol, str], TruthTable] = {}

    def table(protocol: Protocol, name: str) -> TruthTable:
        if (protocol, name) not in known:
            known[protocol, name] = _run(protocol, name, tmp_path_factory.mktemp(name))
            e2e_table.append(_line(protocol, name, known[protocol, name]))
        return known[protocol, name]

    return table


def _run(protocol: Protocol, name: str, directory: Path) -> TruthTable:
    expected = EXPECTED[name]
    options: dict[str, Any] = {"protocol": protocol, "harness_args": expected.arguments}
    with Run("pi", VERSION, SCENARIOS[name](), directory / "run", *expected.prompts, **options) as run:
        code, err = run.finish()
    assert code == 0, err
    return TruthTable(run.capture())


def _line(protocol: Protocol, name: str, table: TruthTable) -> str:
    return (
        f"pi {VERSION} {protocol:<23} {name:<20} calls {len(table.calls):>2}/{len(table.truth):<2} "
        f"wrong {len(table.wrong)} unattributed {len(table.unattributed)} relations {len(table.capture.relations)} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


@each_run
def test_every_call_is_the_roots(tables: Tables, protocol: Protocol, name: str) -> None:
    """One call per request, none wrong, none unattributed; one participant, no relation."""
    table, expected = tables(protocol, name), EXPECTED[name]
    check_attribution(table)
    assert len(table.calls) == expected.calls
    assert table.owned == table.true_owned == {"root": set(table.truth)}
    assert table.participants == {"root": ("root", None, expected.root)}
    assert table.capture.relations == ()


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
def test_the_capture_says_what_is_missing(tables: Tables, protocol: Protocol, name: str) -> None:
    """Subtasks are not available, coverage is complete, and nothing but cut calls makes it partial."""
    table, expected = tables(protocol, name), EXPECTED[name]
    manifest = table.capture.manifest
    capabilities = manifest["capabilities"]
    assert capabilities["subtasks"] == "not_available_in_bundled_profile"
    assert manifest["lifecycle"] == {"status": "unsupported", "pending_participant_ids": []}
    assert capabilities["native_output_coverage"]["status"] == "complete"
    assert {reason["code"]: reason["count"] for reason in manifest["status_reasons"]} == expected.reasons
    assert manifest["capture_status"] == ("partial" if expected.reasons else "complete")
    assert manifest["errors"] == []
    assert manifest["harness"] == {"name": "pi", "version": VERSION, "tested": True}


@each_run
def test_completed_answers_are_the_exportable_calls(tables: Tables, protocol: Protocol, name: str) -> None:
    """The protocol's own count: completed assistants, but for answers that were cut off at the limit."""
    table, expected = tables(protocol, name), EXPECTED[name]
    whole = {record.nonce for record in table.capture.truth if record.answered_whole}
    assert table.exportable == (set() if name == "max-tokens" else whole)
    completed = table.capture.manifest["capabilities"]["native_output_coverage"]["protocol_count"]["expected"]
    assert completed == len(whole) - expected.compactions
    purposes = Counter(call["purpose"] for call in table.calls.values())
    told = expected.calls - expected.compactions - expected.nameless
    assert purposes == Counter(agent=told, compaction=expected.compactions, unknown=expected.nameless)


@pytest.mark.parametrize("protocol", ALL)
def test_a_delegation_is_refused_by_pi_itself(tables: Tables, protocol: Protocol) -> None:
    """Three delegations were asked for, and each got an error of Pi's own as its result: no child was ever there."""
    table = tables(protocol, "refused-delegation")
    assert [record.owner for record, _ in table.delegations] == ["root"] * 3
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
    table = tables(CHAT, "tool-configs")
    for call in table.calls.values():
        assert [tool["function"]["name"] for tool in call["context"]["tools"]] == ["read", "bash"]


def _kill(role: str) -> Callable[[Run], None]:
    def kill(run: Run) -> None:
        pid = run.process.pid if role == "collect" else {name: pid for pid, name in run.processes().items()}[role]
        os.kill(pid, signal.SIGKILL)

    return kill


def _interrupt(run: Run) -> None:
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
    end: Callable[[Run], None], exit_code: int, ended: set[str], tmp_path: Path
) -> None:
    """While the second answer is held: whatever is killed, all calls are attributed, and only the open one is cut."""
    with Run("pi", VERSION, SCENARIOS["killed"](), tmp_path / "run") as run:
        run.until_held()
        assert sorted(run.processes().values()) == ["harness", "proxy"]
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
        Run("pi", VERSION, SCENARIOS["ordinary"](), tmp_path / "one") as one,
        Run("pi", VERSION, SCENARIOS["ordinary"](), tmp_path / "two", protocol=MESSAGES) as two,
    ):
        for run in (one, two):
            code, err = run.finish()
            assert code == 0, err
    for run in (one, two):
        assert check_attribution(TruthTable(run.capture())).capture.manifest["capture_status"] == "complete"
