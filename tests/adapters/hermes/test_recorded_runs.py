"""Tests over the logs that real runs of Hermes left: owners, ends, relations, coverage by the provider's record."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.hermes import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from roller_capture.vocabulary import LifecycleStatus, Role

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "harness" / "hermes" / "0.19.0"


@dataclass(frozen=True)
class Expected:
    """What a recorded run must give: children by owner with parent and end, and what the requests were for."""

    children: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    ends: Mapping[str, str | None] = field(default_factory=dict)
    """The outcome of the relation that says how a child ended, where it is not `completed`; `None`: there is none."""
    delivered: bool = True
    acknowledged: bool = False
    root: str = "completed"
    root_ids: int = 1
    tasks: frozenset[str] = frozenset({"turn"})


_CHILD = {"child-a": ("root", "completed")}
EXPECTED: Mapping[str, Expected] = {
    "child-failure": Expected({"child-f": ("root", "failed")}, {"child-f": "format_error"}),
    "compaction": Expected(_CHILD, tasks=frozenset({"turn", "compression"})),
    "cross-process-resume": Expected({**_CHILD, "child-b": ("root", "completed")}),
    "cut-stream": Expected({"child-c": ("root", "completed")}),
    "identical-prompts": Expected({"child-1": ("root", "completed"), "child-2": ("root", "completed")}),
    "interactive-background": Expected(
        {"child-bg": ("root", "completed")}, acknowledged=True, tasks=frozenset({"turn", "title_generation"})
    ),
    "interactive-stopped": Expected({"child-s": ("root", "interrupted")}, {"child-s": None}, acknowledged=True),
    "iteration-limit": Expected(
        {"child-l": ("root", "completed")},
        {"child-l": "max_iterations"},
        tasks=frozenset({"turn", "iteration_limit_summary"}),
    ),
    "killed": Expected({"child-k": ("root", "interrupted")}, {"child-k": None}, delivered=False, root="interrupted"),
    "nested": Expected({"child-n": ("root", "completed"), "grand-g": ("child-n", "completed")}),
    "nested-refused": Expected({"child-n": ("root", "completed")}),
    "ordinary": Expected(),
    "retries": Expected(),
    "review": Expected({"child-v": ("root", "completed")}, tasks=frozenset({"turn", "background_review"})),
    "rotation": Expected(_CHILD, root_ids=2, tasks=frozenset({"turn", "compression"})),
    "single": Expected(_CHILD),
    "too-many": Expected(),
}


@dataclass(frozen=True)
class Run:
    """A recorded run, what the adapter makes of it, and whose each session is by the provider's record."""

    native: NativeCapture
    calls: list[dict[str, Any]]
    owner_of: Mapping[str, str]

    def owner(self, key: str | None) -> str | None:
        """The owner of a participant key."""
        return self.owner_of.get(key or "")


@pytest.fixture(params=sorted(EXPECTED))
def scenario(request: pytest.FixtureRequest) -> str:
    """Each recorded scenario."""
    return str(request.param)


@pytest.fixture
def run(scenario: str, tmp_path: Path) -> Run:
    """The adapter's answer on a copy of the recorded logs."""
    folder = shutil.copytree(FIXTURES / scenario, tmp_path / scenario)
    calls = json.loads((folder / "calls.json").read_bytes())
    headers = {
        name: frozenset(call["headers"][name] for call in calls if name in call["headers"])
        for name in ("x-roller-session", "x-roller-request", "x-roller-task")
    }
    noted = folder / "native" / "launcher.json"
    launcher = json.loads(noted.read_bytes()) if noted.exists() else {}
    owners = {call["headers"]["x-roller-session"]: call["owner"] for call in calls}
    return Run(read(AdapterInput(folder / "native", headers, launcher)), calls, owners)


def test_every_call_has_one_owner(run: Run) -> None:
    """By session and, where the plugin could read it, by response id: the provider's own, and the same."""
    claims = {(claim.field, claim.value): claim.participant_key for claim in run.native.identity_claims}
    for call in run.calls:
        by_session = claims["header:x-roller-session", call["headers"]["x-roller-session"]]
        by_answer = claims.get(("response_id", call["response_id"] or ""), by_session)
        assert run.owner(by_session) == run.owner(by_answer) == call["owner"]
    assert run.native.gaps == ()


def test_participants_are_the_true_ones(run: Run, scenario: str) -> None:
    """Role, parent, end; a rotated session is one participant with all its ids."""
    expected = EXPECTED[scenario]
    found = {
        run.owner(item.key): (item.role, run.owner(item.parent_key), item.execution_status.value)
        for item in run.native.participants
    }
    children = {owner: (Role.CHILD, parent, end) for owner, (parent, end) in expected.children.items()}
    assert found == {"root": (Role.ROOT, None, expected.root), **children}
    [ids] = [item.native_ids["session_id"] for item in run.native.participants if item.role is Role.ROOT]
    assert len(ids) == expected.root_ids
    pending = {item.key for item in run.native.participants if item.lifecycle is LifecycleStatus.PENDING}
    assert bool(pending) is not (expected.delivered or not expected.children)


def test_relations_are_the_true_ones(run: Run, scenario: str) -> None:
    """One spawn, one delivery and one end for each child, each with parent, tool call and index; no other but the
    acknowledgement of one in the background."""
    expected = EXPECTED[scenario]
    wanted: Counter[tuple[str, str | None, str, str | None]] = Counter()
    for child, (parent, _) in expected.children.items():
        wanted["spawn", parent, child, None] += 1
        if expected.acknowledged:
            wanted["launch_acknowledged", parent, child, None] += 1
        if expected.delivered:
            wanted["result_delivered", parent, child, None] += 1
        outcome = expected.ends.get(child, "completed")
        if outcome is not None:
            failed = expected.children[child][1] == "failed"
            wanted["child_failed" if failed else "child_completed", parent, child, outcome] += 1
    found = Counter(
        (item.type.value, run.owner(item.parent_key), str(run.owner(item.child_key)), item.outcome)
        for item in run.native.relations
    )
    assert found == wanted
    assert all(item.tool_call_id and item.task_index is not None for item in run.native.relations)


def test_coverage_expects_the_answered_requests(run: Run) -> None:
    """Each has its call; those beside the turns and those that were cut leave no id."""
    assert run.native.coverage.outputs is not None
    expected = {item.output_id for item in run.native.coverage.outputs}
    assert expected <= {call["headers"]["x-roller-request"] for call in run.calls}
    assert sum(run.native.coverage.protocol_count.values()) == len(expected)


def test_purposes_are_told_by_the_requests_marks(run: Run, scenario: str) -> None:
    """Those that the scenario brings about, and no other."""
    assert {claim.value for claim in run.native.purpose_claims} == EXPECTED[scenario].tasks


def test_evidence_stands_where_it_is_said_to_stand(run: Run) -> None:
    """Each locator names a line that holds the id."""
    lines = {source.source: source.path.read_text(encoding="utf-8").splitlines() for source in run.native.sources}
    evidence = [item for relation in run.native.relations for item in relation.evidence]
    evidence += [claim.evidence for claim in run.native.identity_claims]
    for item in evidence:
        place, _, identifier = item.locator.partition(" ")
        assert identifier.partition(":")[2] in lines[item.source][int(place.removeprefix("line:")) - 1]
