"""Rollouts of older versions and of other programs than `codex exec`: read as far as they tell, and guessed nowhere."""

from pathlib import Path

import pytest

from roller_capture.capture_protocol import NativeCapture, ToolResultItem
from roller_capture.vocabulary import CoverageStrength, ExecutionStatus, Role
from tests.adapters.codex.rollouts import (
    ANSWER,
    CHILD,
    ROOT,
    SPAWN,
    WAIT,
    Record,
    call,
    child,
    codes,
    count,
    ended,
    event,
    meta,
    notification,
    output,
    owners,
    read_home,
    read_rollouts,
    record,
    root_v1,
    started,
    types,
    write,
)

OLD = "0.98.0"
ALPHA = "0.142.0-alpha.6"
EVENTS = (
    "agent_message",
    "agent_reasoning",
    "user_message",
    "exec_command_end",
    "patch_apply_end",
    "mcp_tool_call_end",
    "web_search_end",
    "context_compacted",
    "entered_review_mode",
    "exited_review_mode",
    "guardian_assessment",
    "collab_agent_interaction_end",
    "thread_goal_updated",
    "image_generation_end",
)


def first_line(thread: str, parent: str | None = None, **more: object) -> Record:
    """As it was before 0.142.0: without the id of the session."""
    line = meta(thread, parent, cli_version=OLD, **more)
    del line["payload"]["session_id"]
    return line


def without_item_ids(lines: list[Record]) -> list[Record]:
    """Items of the conversation had no ids."""
    return [
        {**line, "payload": {key: value for key, value in line["payload"].items() if key != "id"}} for line in lines
    ]


def old_root() -> list[Record]:
    """A root that launched a child: no usage records, no records of the harness about its own tools, no item ids."""
    conversation = [
        call(SPAWN, namespace=None),
        output(SPAWN, {"agent_id": CHILD}),
        count(10),
        call(WAIT, "wait_agent", namespace=None),
        output(WAIT, {"status": {CHILD: {"completed": ANSWER}}, "timed_out": False}),
        count(20),
    ]
    events = [event(kind, message="x", call_id="y") for kind in EVENTS]
    compacted = record("compacted", message="x", replacement_history=[], window_id=1)
    turn = [started("t-root"), *without_item_ids(conversation), *events, compacted, ended("t-root")]
    return [first_line(ROOT), *turn]


def old_child(*more: Record) -> list[Record]:
    """Its child."""
    return [first_line(CHILD, ROOT), started("t-child"), *more, count(5), ended("t-child")]


def test_a_child_of_an_old_version(tmp_path: Path) -> None:
    """The output of the launch and the child's first line prove it; answers can only be counted."""
    native = read_rollouts(tmp_path, root=old_root(), child=old_child())
    assert types(native) == ["child_completed", "launch_acknowledged", "result_delivered", "spawn"]
    assert codes(native) == {"native_version_untested"}
    assert owners(native, "header:thread-id") == {ROOT: {ROOT}, CHILD: {CHILD}}
    assert native.coverage.strength is CoverageStrength.COUNT
    assert native.coverage.protocol_count == {ROOT: 2, CHILD: 1}


def model_made_ids(lines: list[Record]) -> list[Record]:
    """Only items that the model made have ids: outputs of tools and messages of the user's side have none."""
    own = ("function_call_output", "message")
    return [line for item in lines for line in (without_item_ids([item]) if item["payload"]["type"] in own else [item])]


def alpha_root(*told: Record) -> list[Record]:
    """A root that launched a child; `told` stands after the launch."""
    conversation = [call(SPAWN), output(SPAWN, {"agent_id": CHILD}), *told]
    turn = [started("t-root"), *model_made_ids(conversation), count(10), ended("t-root")]
    return [meta(ROOT, cli_version=ALPHA), *turn]


ALPHA_CHILD = [meta(CHILD, ROOT, cli_version=ALPHA), started("t-child"), count(5), ended("t-child")]
WAITED = (call(WAIT, "wait_agent"), output(WAIT, {"status": {CHILD: {"completed": ANSWER}}, "timed_out": False}))


def lifecycle_of_child(native: NativeCapture) -> str:
    [found] = [item.lifecycle.value for item in native.participants if item.key == CHILD]
    return found


def test_a_version_where_only_the_models_items_have_ids(tmp_path: Path) -> None:
    """What tools returned is found by the id of the call; answers can only be counted."""
    native = read_rollouts(tmp_path, root=alpha_root(*WAITED), child=ALPHA_CHILD)
    assert types(native) == ["child_completed", "launch_acknowledged", "result_delivered", "spawn"]
    assert [probe.item for probe in native.context_probes] == [ToolResultItem(SPAWN), ToolResultItem(WAIT)]
    assert codes(native) == {"native_version_untested"}
    assert (native.coverage.strength, lifecycle_of_child(native)) == (CoverageStrength.COUNT, "complete")


@pytest.mark.parametrize("marked", [True, False])
def test_a_notification_without_an_id_brings_nothing(tmp_path: Path, marked: bool) -> None:
    """No request can be shown to hold it, so it is named, and its child's result is not taken for delivered."""
    told = notification(CHILD, {"completed": ANSWER}, marked=marked)
    native = read_rollouts(tmp_path, root=alpha_root(told), child=ALPHA_CHILD)
    assert types(native) == ["child_completed", "launch_acknowledged", "spawn"]
    assert codes(native) == {"native_version_untested", "native_shape_unknown"}
    assert lifecycle_of_child(native) == "pending"


@pytest.mark.parametrize("lines", [[], [started("t")], [count(3)]], ids=["one-record", "two-records", "no-turns"])
def test_a_rollout_that_hardly_says_anything(tmp_path: Path, lines: list[Record]) -> None:
    """It is a participant whose end is unknown, or that just stopped."""
    native = read_rollouts(tmp_path, ROOT, root=[first_line(ROOT), *lines])
    [root] = native.participants
    assert (root.key, root.role) == (ROOT, Role.ROOT)
    assert root.execution_status in (ExecutionStatus.UNKNOWN, ExecutionStatus.INTERRUPTED)
    assert types(native) == []


def test_a_session_of_an_editor(tmp_path: Path) -> None:
    """Another source and originator: the root is the root all the same."""
    native = read_rollouts(
        tmp_path,
        root=[meta(ROOT, source="vscode", thread_source="user", originator="Codex Desktop"), *root_v1()[1:]],
        child=child(),
    )
    assert {item.key: item.role for item in native.participants} == {ROOT: Role.ROOT, CHILD: Role.CHILD}
    assert codes(native) == set()


def test_a_review_that_names_no_parent(tmp_path: Path) -> None:
    """Nothing says whose it is, and nobody is given it by order."""
    side = [meta(CHILD, source={"subagent": "review"}), *child()[1:]]
    native = read_home(write(tmp_path, root=root_v1()[:2], child=side))
    [review] = [item for item in native.participants if item.key == CHILD]
    assert (review.role, review.parent_key) == (Role.CHILD, None)
    assert types(native) == []


@pytest.mark.parametrize("version", ["1.17.7", "0.200.19"])
def test_a_fork_of_the_program(tmp_path: Path, version: str) -> None:
    """Its version is another one, and is named."""
    native = read_rollouts(tmp_path, ROOT, root=[meta(ROOT, cli_version=version), *root_v1()[1:2]])
    assert (native.harness_version, codes(native)) == (version, {"native_version_untested"})
