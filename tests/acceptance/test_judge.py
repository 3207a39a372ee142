"""What the acceptance finds when a capture is not as the provider's record says."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from roller_capture.acceptance.expected import Delegation, Expected
from roller_capture.acceptance.judge import accounting_differences, differences
from roller_capture.acceptance.truth_table import ComparisonError, Relation, TruthTable
from roller_capture.vocabulary import CoverageStrength
from tests.support.one_delegation import TOOL_ID, captured, good, mark

ONE_CHILD = Expected((Delegation("child-a"),))


COVERAGE = ("manifest", "capabilities", "native_output_coverage")


def judged(published: Mapping[str, Any], expected: Expected = ONE_CHILD) -> list[str]:
    """What differs."""
    table = TruthTable(captured(published), ("Agent",))
    return [*differences(table, expected), *accounting_differences(table, expected, CoverageStrength.PER_ID)]


def test_a_capture_as_it_must_be_has_no_difference() -> None:
    """The starting point of all that follows."""
    assert judged(good()) == []


def _owner(number: int, owner: str | None) -> Callable[[dict[str, Any]], None]:
    def change(published: dict[str, Any]) -> None:
        published["calls"][number - 1]["participant_id"] = owner

    return change


def _drop(what: str, number: int) -> Callable[[dict[str, Any]], None]:
    def change(published: dict[str, Any]) -> None:
        del published[what][number]

    return change


def _set(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(published: dict[str, Any]) -> None:
        place = published
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (_owner(3, "p2"), "1 calls have a wrong owner"),
        (_owner(3, None), "1 calls have no owner, not 0"),
        (_drop("calls", 1), "1 requests are no call"),
        (_set("calls", 1, "response_id", value=f"msg_{mark(1)}"), "or one that another shows"),
        (_set("calls", 1, "response_id", value="msg_none"), "shows 0 answers"),
        (_drop("relations", 0), "1 relation spawn of child-a missing"),
        (_set("relations", 1, "type", value="child_failed"), "1 relation child_failed of child-a not true"),
        (_set("relations", 0, "parent_call_id", value="c3"), "1 relation spawn of child-a not true"),
        (_set("relations", 3, "context_call_id", value="c1"), "1 relation result_in_context of child-a not true"),
        (_set("relations", 0, "tool_call_id", value="toolu_b"), "1 relation spawn of child-a missing"),
        (_set("relations", 3, "context_pointer", value="/messages/7"), "a context pointer leads to nothing"),
        (_set("calls", 2, "context", "messages", 1, value=""), "leads to something empty"),
        (
            _set("manifest", "participants", 1, "execution_status", value="failed"),
            "child of root, failed, not",
        ),
        (_set("manifest", "participants", 1, "parent_participant_id", value=None), "child-a is child, completed, not"),
        (_set("manifest", "lifecycle", "status", value="unknown"), "lifecycle is 'unknown', not 'complete'"),
        (_set("manifest", "lifecycle", "pending_participant_ids", value=["p2"]), "pending is {'child-a'}"),
        (_set("manifest", "status_reasons", value=[{"code": "errors", "count": 1}]), "reasons is {'errors': 1}"),
        (_set("manifest", "errors", value=[{"code": "hook_not_seen"}]), "errors is ['hook_not_seen']"),
        (_set("manifest", "capture_status", value="partial"), "capture is 'partial'"),
        (_set("manifest", "execution_status", value="failed"), "execution is 'failed'"),
        (_set("calls", 0, "export_status", value="blocked"), "2 calls are exportable, not 3"),
        (_set("calls", 1, "purpose", value="compaction"), "are {'compaction': 1}, not {}"),
        (_set(*COVERAGE, "strength", value="count"), "coverage is complete by count, not complete by per_id"),
        (_set(*COVERAGE, "status", value="unknown"), "coverage is unknown by per_id, not complete by per_id"),
        (_set(*COVERAGE, "expected", value=2), "of 3 whole answers there are 2 native outputs and 0 calls without one"),
        (_set(*COVERAGE, "surplus_calls", value=1), "there are 3 native outputs and 1 calls without one, not 0"),
        (_set("code", value=1), "it does not validate: a finding"),
    ],
)
def test_every_fault_is_found(break_it: Callable[[dict[str, Any]], None], text: str) -> None:
    """And said in words."""
    published = copy.deepcopy(good())
    break_it(published)
    assert any(text in difference for difference in judged(published)), judged(published)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        (Expected(), "there were more delegations than the scenario has"),
        (Expected((Delegation("child-a"), Delegation("child-b"))), "was not asked to delegate to child-b"),
        (Expected((Delegation("child-a", parent="child-b"),)), "was not asked to delegate to child-a"),
        (Expected((Delegation("child-a", background=True),)), "launch_acknowledged of child-a missing"),
        (Expected((Delegation("", refused=True),)), "participant child-a is child of root, completed, not missing"),
        (Expected((Delegation("child-a"), Delegation("child-b", same_call=True))), "spawn of child-b missing"),
        (Expected((Delegation("child-a"),), unattributed=1), "0 calls have no owner, not 1"),
        (Expected((Delegation("child-a"),), purposes={"title": 1}), "are {}, not {'title': 1}"),
        (Expected((Delegation("child-a"),), surplus=1), "there are 3 native outputs and 0 calls without one, not 1"),
    ],
)
def test_another_story_than_the_scripts_is_found(expected: Expected, text: str) -> None:
    """A harness that did something else than it was told to do."""
    assert any(text in difference for difference in judged(good(), expected)), judged(good(), expected)


def test_a_tool_id_in_another_spelling_is_known_by_what_the_spellings_share() -> None:
    """Where the plan says what that is; elsewhere it is another id."""
    published = copy.deepcopy(good())
    for relation in published["relations"]:
        relation["tool_call_id"] += "|fc_1"
    assert any("spawn of child-a missing" in difference for difference in judged(published))
    table = TruthTable(captured(published), ("Agent",), lambda tool_id: tool_id.partition("|")[0])
    assert differences(table, ONE_CHILD) == []


def test_an_end_that_only_the_harness_tells_of_is_known_by_its_words() -> None:
    """In the receiver's requests, as the recorder has them."""
    table = TruthTable(captured(good()), ("Agent",))
    told = Delegation("child-a", background=True, told_as="words of the harness")
    assert table.relations_of([told])[_in_context(table, 3)] == 0
    published = copy.deepcopy(good())
    published["calls"][2]["context"]["messages"].append({"role": "user", "content": "words of the harness"})
    table = TruthTable(captured(published), ("Agent",))
    assert table.relations_of([told])[_in_context(table, 3)] == 1


def test_which_of_two_twins_a_tool_call_launched_is_told_by_its_result() -> None:
    """The provider named them as they asked."""
    assert judged(good(), Expected((Delegation("child-a", twin=True),))) == []
    table = TruthTable(captured(good()), ("Agent",))
    assert table.relations_of([Delegation("another", twin=True)]) == table.relations_of([Delegation("child-a")])


def test_which_of_two_twins_was_launched_in_the_background_is_told_by_the_id_that_both_messages_have() -> None:
    """The tool call's result names an agent, and a later message the same one, with its answer."""
    agents = [f"{digit * 8}-0000-4000-8000-000000000000" for digit in "ab"]
    told = Delegation("whoever asked first", background=True, twin=True)
    published = copy.deepcopy(good())
    published["calls"][2]["context"]["messages"] += [
        {"role": "tool", "tool_call_id": TOOL_ID, "content": f"started subagent {agents[0]}"},
        {"role": "user", "content": f"{agents[0]} finished: {mark(2)}"},
        {"role": "user", "content": f"{agents[1]} finished: {mark(1)}"},
    ]
    table = TruthTable(captured(published), ("Agent",))
    assert table.relations_of([told]) == table.relations_of([Delegation("child-a", background=True)])
    del published["calls"][2]["context"]["messages"][-2]
    with pytest.raises(ComparisonError, match="leads to the answers of 0 agents"):
        TruthTable(captured(published), ("Agent",)).relations_of([told])


def _in_context(table: TruthTable, number: int) -> Relation:
    [(record, tool_id)] = table.delegations
    return Relation("result_in_context", "root", "child-a", tool_id, record.nonce, mark(number))


@pytest.mark.parametrize(("execution", "told"), [("completed", True), ("interrupted", False)])
def test_how_much_a_killed_run_had_noted_is_not_judged(execution: str, *, told: bool) -> None:
    """It is chance what the harness had marked before it was killed."""
    published = good()
    _set("calls", 1, "purpose", value="unknown")(published)
    table = TruthTable(captured(published), ("Agent",))
    expected = Expected((Delegation("child-a"),), execution=execution)
    assert bool(accounting_differences(table, expected, CoverageStrength.PER_ID)) is told
