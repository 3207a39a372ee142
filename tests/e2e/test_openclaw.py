"""The real OpenClaw through `collect`, beyond the shared acceptance: other protocols, and what is its own.

The scenarios are turns of one session, three sessions in all, since to start a gateway costs more than most of them.
Truth is the scripted provider's own record, held against the capture by the judge of the acceptance.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import differences
from roller_capture.acceptance.plans.openclaw import PLAN
from roller_capture.scripted_provider.openclaw_scenarios import SCENARIOS, in_one_session
from roller_capture.vocabulary import Protocol
from tests.support.harness_run import HarnessRun
from tests.support.truth_table import TruthTable

pytestmark = pytest.mark.e2e

VERSION = "2026.9.6"
_LONGEST_WAIT = 300.0


def _one(child: str, end: str | None = "child_completed") -> Delegation:
    return Delegation(child, background=True, end=end)


@dataclass(frozen=True)
class Session:
    """Scenarios that are turns of one session. `besides` is what differs from one delivery for each delegation;
    `stopped`: `collect` gets SIGTERM when the script holds its answers."""

    parts: tuple[str, ...]
    expected: Expected
    besides: tuple[str, ...] = ()
    drain_timeout: float = 120.0
    stopped: bool = False


_FIRST = ("ordinary", "single", "parallel")
_CHILDREN = (_one("child-a"), _one("child-p"), _one("child-r"))
_SENT = ("sent-without-waiting", "sent-and-failed")
_ADDRESSED = (
    # Each spawned, then sent two messages: of all, only the last one is waited for.
    _one("child-re"),
    _one("child-re"),
    _one("child-re"),
    _one("child-sf"),
    replace(_one("child-sf", "child_failed"), told_as="sessions_send delivery to "),
    Delegation("child-sf", end="child_failed"),
)
SESSIONS: Mapping[Protocol, Session] = {
    Protocol.OPENAI_CHAT_COMPLETIONS: Session(
        ("odd-answers", "compaction-again", "stopped-child", "background-pair", "mid-turn", "never-ends"),
        Expected(
            (
                Delegation("", refused=True),
                _one("child-s", None),
                _one("child-b1"),
                _one("child-b2"),
                _one("child-q"),
                _one("child-w", None),
            ),
            ended={"child-s": "interrupted", "child-w": "interrupted"},
            pending=frozenset({"child-w"}),
            # The stopped child's answer, one that the service cut, and the one that never ends.
            reasons={"call_incomplete": 3, "lifecycle_pending": 1, "errors": 1},
            errors=("drain_failed",),
        ),
        besides=(
            # The run that tells of the second child also has a note on the first, which was told before.
            "1 relation result_in_context of child-b1 missing",
            # Each is announced by itself, and both once more when all have settled.
            "1 relation result_delivered of child-b1 not true",
            "1 relation result_delivered of child-b2 not true",
        ),
        drain_timeout=30.0,
    ),
    Protocol.OPENAI_RESPONSES: Session(
        (*_FIRST, "killed"),
        Expected(
            (*_CHILDREN, _one("child-k", None)),
            ended={"root": "interrupted", "child-k": "interrupted"},
            pending=frozenset({"child-k"}),
            reasons={"call_incomplete": 2, "lifecycle_pending": 1},
            execution="interrupted",
        ),
        stopped=True,
    ),
    Protocol.ANTHROPIC_MESSAGES: Session(
        # In this order, since one's mark of a child is the beginning of another's.
        (*_SENT, *_FIRST),
        Expected((*_ADDRESSED, *_CHILDREN), ended={"child-sf": "failed"}),
    ),
}
Tables = Callable[[Protocol], TruthTable]
each_session = pytest.mark.parametrize("protocol", SESSIONS)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Tables:
    """Runs a protocol's session the first time it is asked for."""
    known: dict[Protocol, TruthTable] = {}

    def table(protocol: Protocol) -> TruthTable:
        if protocol not in known:
            known[protocol] = _run(protocol, tmp_path_factory.mktemp("openclaw"))
            e2e_table.append(_line(protocol, known[protocol]))
        return known[protocol]

    return table


def _run(protocol: Protocol, directory: Path) -> TruthTable:
    session = SESSIONS[protocol]
    first, *others = (SCENARIOS[name]() for name in session.parts)
    script = in_one_session("several", first, *others)
    prompts = [part.prompt for part in others]
    with HarnessRun(
        "openclaw", VERSION, script, directory, *prompts, protocol=protocol, drain_timeout=session.drain_timeout
    ) as run:
        if session.stopped:
            assert script.kill_when is not None
            assert script.kill_when.wait(_LONGEST_WAIT)
            run.process.terminate()
        code, err = run.finish()
    assert code == (143 if session.stopped else 0), err
    return TruthTable(run.capture(), PLAN.delegation_tools, PLAN.plain_tool_id)


def _line(protocol: Protocol, table: TruthTable) -> str:
    return (
        f"openclaw {protocol:<23} calls {len(table.calls):>2}/{len(table.truth):<2} wrong {len(table.wrong)} "
        f"unattributed {len(table.unattributed)} relations {len(table.capture.relations):>2} "
        f"lifecycle {table.capture.manifest['lifecycle']['status']} capture {table.capture.manifest['capture_status']}"
    )


@each_session
def test_the_capture_is_as_the_providers_record_says(tables: Tables, protocol: Protocol) -> None:
    """Owners, relations with the calls that hold each result, pointers, lifecycle, exportable calls, validation."""
    session = SESSIONS[protocol]
    assert differences(tables(protocol), session.expected) == list(session.besides)


@each_session
def test_each_call_has_its_protocol_and_its_run(tables: Tables, protocol: Protocol) -> None:
    """Under the tested version; each answer that stands in a transcript has its call, and each stream context."""
    table = tables(protocol)
    assert {call["protocol"] for call in table.calls.values()} == {protocol.value}
    assert all(call["native_identity"]["run_id"] for call in table.calls.values())
    manifest = table.capture.manifest
    assert manifest["harness"] == {"name": "openclaw", "version": VERSION, "tested": True}
    coverage = manifest["capabilities"]["native_output_coverage"]
    assert (coverage["key"], coverage["strength"], coverage["status"]) == ("response_id", "per_id", "complete")
    of_sessions = [call for call in table.calls.values() if call["purpose"] != "compaction"]
    assert coverage["protocol_count"]["expected"] == len(of_sessions)


@each_session
def test_native_tool_ids_are_those_of_the_output(tables: Tables, protocol: Protocol) -> None:
    """In the Responses protocol call id and item id, of which both must be the output's."""
    for relation in tables(protocol).capture.relations:
        reference = relation["model_tool_ref"]
        assert (reference["item_id"] is not None) == (protocol is Protocol.OPENAI_RESPONSES)
        parts = [reference["call_id"], reference["item_id"]] if reference["item_id"] else [reference["call_id"]]
        assert relation["tool_call_id"] == "|".join(parts)


def test_a_call_that_sums_up_is_no_turn(tables: Tables) -> None:
    """By the harness's own mark; every other answer that ended well is an agent's."""
    table = tables(Protocol.OPENAI_CHAT_COMPLETIONS)
    purposes = Counter(table.calls[nonce]["purpose"] for nonce in table.exportable)
    assert purposes.keys() == {"agent", "compaction"}
    assert purposes["compaction"] >= 1


def test_an_announcement_has_three_forms(tables: Tables) -> None:
    """A run for one child, a run for all that have settled, and a message that is put into the running turn."""
    table = tables(Protocol.OPENAI_CHAT_COMPLETIONS)
    delivered = [relation for relation in table.capture.relations if relation["type"] == "result_delivered"]
    bound = {(table.owners[one["child_participant_id"]], one["delivery"]["bound_id"]) for one in delivered}
    forms = {(child, _form(bound_id)) for child, bound_id in bound}
    settled = {("child-b1", "requester-settle"), ("child-b2", "requester-settle")}
    assert forms == {("child-b1", "v1"), ("child-b2", "v1"), ("child-q", "active-wake")} | settled
    assert {one["delivery"]["bound_by"] for one in delivered} == {"announcement_run_id"}


def _form(bound_id: str) -> str:
    head, form, *_, last = bound_id.split(":")
    assert head == "announce"
    return last if last == "active-wake" else form
