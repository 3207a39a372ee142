"""The real Claude Code behind the proxy: every call with its owner, every relation with its proof.

Truth is the scripted provider's own record (tests/support/truth_table.py). One run per version and scenario serves all
tests of that pair.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.capture import Capture
from tests.support.claude_code_capture import capture_claude_code
from tests.support.claude_code_truth import ClaudeCodeTruth as TruthTable
from tests.support.harness_install import CLAUDE_CODE_VERSIONS, HarnessMissingError, claude_code_binary

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Expected:
    """What a scenario must give, beyond what the provider's record tells.

    `children` are owners and their parents; `failed` those that did not end well; `cut` tells that answers
    were broken off, each of which makes the capture partial, by `call_incomplete` and nothing else. `root` is how the
    root ended by its own log, which may claim success for an answer that was cut. `background` is the child that is not
    waited for.
    """

    children: Mapping[str, str] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()
    cut: bool = False
    harness_exit_code: int = 0
    root: str = "completed"
    background: str | None = None


def _of_root(*children: str) -> dict[str, str]:
    return dict.fromkeys(children, "root")


SCENARIOS: Mapping[str, Expected] = {
    "ordinary": Expected(),
    "thinking": Expected(),
    "single": Expected(_of_root("child-a")),
    "parallel": Expected(_of_root("child-a", "child-b")),
    "identical-prompts": Expected(_of_root("child-1", "child-2")),
    "file-sharing": Expected(_of_root("writer", "reader")),
    "tool-error": Expected(_of_root("child-e")),
    "tool-configs": Expected(_of_root("reader", "other-model")),
    "child-failure-400": Expected(_of_root("child-f"), failed=frozenset({"child-f"})),
    "child-failure-500": Expected(_of_root("child-f"), failed=frozenset({"child-f"})),
    "max-tokens": Expected(_of_root("child-t")),
    "nested": Expected({"child-n": "root", "grand-g": "child-n"}),
    "background": Expected(_of_root("child-bg"), background="child-bg"),
    "resumed-child": Expected(_of_root("child-re"), background="child-re"),
    "error-event": Expected(),
    "cut-root": Expected(cut=True),
    "cut-tool": Expected(cut=True),
    "cut-late": Expected(cut=True),
    "cut-child": Expected(_of_root("child-c"), cut=True),
    "slow-cut": Expected(cut=True),
}
PER_VERSION: Mapping[tuple[str, str], Expected] = {
    # Both take the text before the cut for the answer; only this version calls that an error.
    ("2.1.197", "cut-late"): Expected(cut=True, harness_exit_code=1, root="failed"),
}


@pytest.fixture(scope="module", params=CLAUDE_CODE_VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def expected(version: str, scenario: str) -> Expected:
    return PER_VERSION.get((version, scenario), SCENARIOS[scenario])


@pytest.fixture(scope="module")
def capture(version: str, scenario: str, tmp_path_factory: pytest.TempPathFactory, e2e_table: list[str]) -> Capture:
    try:
        binary = claude_code_binary(version)
    except HarnessMissingError as error:
        # A harness that could not be had is no fault of ours: the summary says so loudly, and nothing fails. One that
        # is installed wrongly fails earlier, in scripts/install_harness.sh.
        pytest.skip(f"NOT RUN: {error}")
    directory: Path = tmp_path_factory.mktemp(f"{scenario}-{version}")
    captured = capture_claude_code(binary, scenario, directory)
    table = TruthTable(captured)
    counts = captured.manifest["counts"]
    e2e_table.append(
        f"{version} {scenario:<18} calls {len(table.calls):>2}/{len(table.truth):<2} participants "
        f"{counts['participants']} wrong {len(table.wrong)} unattributed {len(table.unattributed)} exportable "
        f"{len(table.exportable):>2} relations {sum(counts['relations'].values()):>2} "
        f"capture {captured.manifest['capture_status']}"
    )
    return captured


@pytest.fixture(scope="module")
def table(capture: Capture) -> TruthTable:
    return TruthTable(capture)


def _cut(capture: Capture) -> int:
    """Answers that did not go out whole; on a busy machine the harness may give up a second attempt by itself."""
    return sum(record.delivered != "complete" for record in capture.truth)


def test_the_harness_ended_as_it_does(capture: Capture, expected: Expected) -> None:
    """The run itself went as the scenario wants; otherwise nothing below means anything."""
    assert capture.harness_exit_code == expected.harness_exit_code
    assert {str(record.owner) for record in capture.truth} == {"root", *expected.children}
    assert bool(_cut(capture)) == expected.cut


def test_every_request_is_a_call(table: TruthTable) -> None:
    """One call per request that reached the provider, with the request's own bytes."""
    assert table.calls.keys() == table.truth.keys()
    hashes = {nonce: call["request_sha256"] for nonce, call in table.calls.items()}
    assert hashes == {nonce: record.request_sha256 for nonce, record in table.truth.items()}
    assert sum(table.capture.manifest["other_requests"].values()) == table.capture.other_requests


def test_participants_have_their_role_and_parent(table: TruthTable, expected: Expected) -> None:
    """One root, each child below its parent, and how each of them ended."""
    children = {
        child: ("child", parent, "failed" if child in expected.failed else "completed")
        for child, parent in expected.children.items()
    }
    assert table.participants == {"root": ("root", None, expected.root), **children}


def test_every_call_has_its_owner(table: TruthTable) -> None:
    """Nothing wrong, nothing unattributed, and the manifest's lists agree with the calls."""
    assert table.wrong == []
    assert table.unattributed == []
    assert table.owned == table.true_owned
    listed = {
        table.owners[participant["participant_id"]]: set(participant["call_ids"])
        for participant in table.capture.manifest["participants"]
    }
    assert listed == {
        owner: {table.calls[nonce]["call_id"] for nonce in nonces} for owner, nonces in table.owned.items()
    }


def test_relations_are_the_true_ones(table: TruthTable, expected: Expected) -> None:
    """Launch, end, delivery, and one context relation per later request of the parent, each with its calls."""
    assert table.relations == table.true_relations(expected.failed, expected.background)


def test_context_pointers_name_the_result(table: TruthTable) -> None:
    """The pointer leads to the tool result, or the notification, of that delegation in that call's request."""
    for relation, item in table.context_items:
        if relation["delivery"]["kind"] == "tool_result":
            assert (item["type"], item["tool_use_id"]) == ("tool_result", relation["tool_call_id"])
        else:
            assert f"<tool-use-id>{relation['tool_call_id']}</tool-use-id>" in json.dumps(item)


def test_exportable_are_the_answers_that_ended_well(table: TruthTable) -> None:
    """Completed agent calls and no others."""
    assert table.exportable == table.truly_exportable
    assert {table.calls[nonce]["purpose"] for nonce in table.exportable} <= {"agent"}


def test_failed_and_cut_calls_are_told_apart(table: TruthTable) -> None:
    """Execution and capture status of each call follow from what the provider sent."""
    statuses = {nonce: (call["execution_status"], call["capture_status"]) for nonce, call in table.calls.items()}
    assert statuses == {
        nonce: ("completed", "complete")
        if record.answered_whole
        else ("failed", "complete")
        if record.delivered == "complete"
        else ("interrupted", "partial")
        for nonce, record in table.truth.items()
    }


def test_the_capture_is_complete_unless_an_answer_was_cut(capture: Capture, expected: Expected) -> None:
    """A fully recorded failure lowers nothing; a cut answer is the only reason there is."""
    reasons = {reason["code"]: reason["count"] for reason in capture.manifest["status_reasons"]}
    assert reasons == ({"call_incomplete": _cut(capture)} if expected.cut else {})
    assert capture.manifest["capture_status"] == ("partial" if expected.cut else "complete")
    assert capture.manifest["errors"] == []
    assert capture.manifest["execution_status"] == ("failed" if expected.harness_exit_code else "completed")
    assert capture.manifest["lifecycle"] == {"status": "complete", "pending_participant_ids": []}


def test_the_published_attempt_validates(capture: Capture, version: str) -> None:
    """Schema, hashes, references, and every locator of the evidence."""
    assert capture.validation.returncode == 0, capture.validation.stdout + capture.validation.stderr
    assert capture.manifest["harness"] == {"name": "claude-code", "version": version, "tested": True}
    assert not (capture.attempt / "work").exists()
