"""What rollouts prove of delegations, and what they do not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from roller_capture.capture_protocol import NativeCapture, NotificationItem, ToolResultItem, WireCall
from roller_capture.vocabulary import BoundBy, DeliveryKind, ExecutionStatus, LifecycleStatus, RelationType, Role
from tests.adapters.codex.rollouts import (
    ANSWER,
    CHILD,
    FIRST_AGENT,
    OTHER,
    ROOT,
    SPAWN,
    WAIT,
    Record,
    activity,
    call,
    child,
    codes,
    collab,
    ended,
    event,
    final_answer,
    meta,
    new_task,
    notification,
    output,
    read_home,
    read_rollouts,
    root_v1,
    started,
    types,
    usage,
    write,
)

PATH = f"{FIRST_AGENT}/task"
"""An agent's place among the agents: Codex calls the first one `/root`, on every machine."""
WHOLE = ["child_completed", "launch_acknowledged", "result_delivered", "result_delivered", "spawn"]


def root_v2() -> list[Record]:
    """A root that launches a child by the second generation of tools, and is told its result."""
    return [
        meta(ROOT),
        started("t-root"),
        call(SPAWN, namespace="collaboration"),
        usage(ROOT, "resp_1"),
        activity(SPAWN, "started", CHILD, PATH),
        output(SPAWN, {"task_name": PATH}),
        activity("subagent-completed-t-child", "completed", CHILD, PATH),
        final_answer(PATH),
        usage(ROOT, "resp_2"),
        ended("t-root", "All done."),
    ]


def child_v2(*more: Record) -> list[Record]:
    """Its child."""
    lines = [meta(CHILD, ROOT, agent_path=PATH), started("t-child"), usage(CHILD, "resp_c"), ended("t-child")]
    return [*lines, *more]


def test_a_child_of_the_first_generation(tmp_path: Path) -> None:
    """Launched, acknowledged, delivered by the wait's output and by a notification, completed."""
    native = read_rollouts(tmp_path, root=root_v1(), child=child())
    assert (types(native), native.gaps) == (WHOLE, ())
    assert {relation.tool_call_id for relation in native.relations} == {SPAWN}
    delivered = [item.delivery for item in native.relations if item.type is RelationType.RESULT_DELIVERED]
    assert [(one.kind, one.bound_by, one.bound_id) for one in delivered if one] == [
        (DeliveryKind.TOOL_RESULT, BoundBy.TOOL_CALL_ID, WAIT),
        (DeliveryKind.NOTIFICATION, BoundBy.ITEM_ID, "msg_note"),
    ]
    items = [probe.item for probe in native.context_probes]
    assert items[:2] == [ToolResultItem(SPAWN), ToolResultItem(WAIT)]
    assert isinstance(items[2], NotificationItem)
    assert items[2].item_id == "msg_note"


def test_a_child_of_the_second_generation(tmp_path: Path) -> None:
    """The call's output names a path only; the child's first line says whose path it is."""
    native = read_rollouts(tmp_path, root=root_v2(), child=child_v2())
    assert (types(native), native.gaps) == (
        ["child_completed", "launch_acknowledged", "result_delivered", "spawn"],
        (),
    )
    [delivered] = [item for item in native.relations if item.type is RelationType.RESULT_DELIVERED]
    assert delivered.delivery is not None
    assert (delivered.delivery.kind, delivered.delivery.bound_id) == (DeliveryKind.MESSAGE, "amsg_1")


def test_roles_and_parents(tmp_path: Path) -> None:
    """The first lines say who is whose child."""
    native = read_rollouts(tmp_path, root=root_v1(), child=child())
    assert {item.key: (item.role, item.parent_key) for item in native.participants} == {
        ROOT: (Role.ROOT, None),
        CHILD: (Role.CHILD, ROOT),
    }
    assert {item.execution_status for item in native.participants} == {ExecutionStatus.COMPLETED}
    assert {item.lifecycle for item in native.participants} == {LifecycleStatus.COMPLETE}


def without(lines: list[Record], gone: Record) -> list[Record]:
    """The lines but one."""
    assert gone in lines
    return [line for line in lines if line != gone]


def replaced(lines: list[Record], old: Record, *new: Record) -> list[Record]:
    """The lines with one replaced."""
    assert old in lines
    return [one for line in lines for one in (new if line == old else (line,))]


SPAWNED = collab(SPAWN, "spawn_agent", [CHILD], {CHILD: "pending_init"})
SPAWN_OUTPUT = output(SPAWN, {"agent_id": CHILD, "nickname": "N"})
WAITED = collab(WAIT, "wait", [CHILD], {CHILD: {"completed": ANSWER}})
WAIT_OUTPUT = output(WAIT, {"status": {CHILD: {"completed": ANSWER}}, "timed_out": False})
NOTICE = notification(CHILD, {"completed": ANSWER})


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        pytest.param(lambda lines: without(lines, SPAWNED), set(), id="no record of the launch, as in old versions"),
        pytest.param(lambda lines: without(lines, SPAWN_OUTPUT), {"launch_acknowledged"}, id="no output of the launch"),
        pytest.param(lambda lines: without(lines, WAITED), set(), id="no record of the wait, as in old versions"),
        pytest.param(lambda lines: without(lines, call(SPAWN)), set(WHOLE), id="no tool call"),
        pytest.param(
            lambda lines: replaced(lines, SPAWN_OUTPUT, output(SPAWN, {"agent_id": OTHER})),
            set(WHOLE),
            id="record and output name different agents",
        ),
        pytest.param(
            lambda lines: replaced(lines, SPAWNED, collab(SPAWN, "spawn_agent", [CHILD, OTHER], {})),
            set(WHOLE),
            id="one call names two agents",
        ),
        pytest.param(
            lambda lines: [*lines, call("again"), output("again", {"agent_id": CHILD})],
            set(WHOLE),
            id="two calls launched one agent",
        ),
        pytest.param(lambda lines: [*lines, call(SPAWN)], set(WHOLE), id="one call id stands for two calls"),
        pytest.param(
            lambda lines: replaced(lines, WAIT_OUTPUT, output(WAIT, {"status": {CHILD: {"completed": "Other."}}})),
            set(),
            id="output and record of a wait differ",
        ),
    ],
)
def test_pieces_that_are_missing_or_differ(
    tmp_path: Path, change: Callable[[list[Record]], list[Record]], lost: set[str]
) -> None:
    """What is not proven is not there, and named; what else is proven stays."""
    native = read_rollouts(tmp_path, root=change(root_v1()), child=child())
    assert set(types(native)) == set(WHOLE) - lost
    differs = len(types(native)) < len(WHOLE)
    assert ("native_relation_unproven" in codes(native)) == differs


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SPAWN_OUTPUT, output(SPAWN, {"agent_id": OTHER})),
        (SPAWNED, collab(SPAWN, "spawn_agent", [CHILD, OTHER], {})),
    ],
)
def test_that_two_agents_are_named_is_said(tmp_path: Path, old: Record, new: Record) -> None:
    """It is another thing than that none is."""
    native = read_rollouts(tmp_path, root=replaced(root_v1(), old, new), child=child())
    assert "the records of one tool call name different agents" in {gap.message for gap in native.gaps}


def test_a_child_that_names_another_parent_is_not_the_launched_one(tmp_path: Path) -> None:
    """The first line of its rollout is one of the proofs."""
    stranger = [meta(CHILD, OTHER), *child()[1:]]
    native = read_rollouts(tmp_path, root=root_v1(), child=stranger)
    assert types(native) == []
    assert "native_relation_unproven" in codes(native)


@pytest.mark.parametrize(
    ("status", "turn_end", "relation", "status_of_child"),
    [
        (
            {"errored": "bad"},
            ended("t-child", None, error={"message": "bad", "codex_error_info": "other"}),
            "child_failed",
            "failed",
        ),
        ({"errored": "bad"}, ended("t-child"), None, "completed"),
        ({"completed": ANSWER}, ended("t-child", None, error={"message": "bad"}), None, "failed"),
        ({"completed": "Another answer."}, ended("t-child"), None, "completed"),
        ({"completed": ANSWER}, event("turn_aborted", turn_id="t-child", reason="interrupted"), None, "interrupted"),
    ],
)
def test_the_childs_own_rollout_says_how_it_ended(
    tmp_path: Path, status: object, turn_end: Record, relation: str | None, status_of_child: str
) -> None:
    """What its parent was told must agree; one that just stopped neither completed nor failed."""
    root = replaced(root_v1(), WAITED)
    root = replaced(root, WAIT_OUTPUT, output(WAIT, {"status": {CHILD: status}}))
    root = replaced(root, NOTICE, notification(CHILD, status))
    native = read_rollouts(tmp_path, root=root, child=[*child()[:-1], turn_end])
    ends = [kind for kind in types(native) if kind.startswith("child_")]
    assert ends == ([relation] if relation else [])
    [participant] = [item for item in native.participants if item.key == CHILD]
    assert participant.execution_status.value == status_of_child


def test_an_unmarked_text_is_no_notification(tmp_path: Path) -> None:
    """Anybody can write the tags; the mark is the harness's."""
    root = replaced(root_v1(), NOTICE, notification(CHILD, {"completed": ANSWER}, marked=False))
    native = read_rollouts(tmp_path, root=root, child=child())
    assert types(native).count("result_delivered") == 1
    assert "native_shape_unknown" in codes(native)


@pytest.mark.parametrize(
    "forged",
    [
        final_answer(f"{FIRST_AGENT}/other"),
        final_answer(PATH, recipient=f"{FIRST_AGENT}/task"),
        {**final_answer(PATH), "payload": {**final_answer(PATH)["payload"], "author": f"{FIRST_AGENT}/other"}},
        {
            **final_answer(f"{FIRST_AGENT}/other"),
            "payload": {**final_answer(f"{FIRST_AGENT}/other")["payload"], "author": PATH},
        },
    ],
)
def test_a_message_of_or_to_somebody_else_is_no_result(tmp_path: Path, forged: Record) -> None:
    """Author, header and receiver have to be the child and its parent."""
    root = replaced(root_v2(), final_answer(PATH), forged)
    native = read_rollouts(tmp_path, root=root, child=child_v2())
    assert "result_delivered" not in types(native)


def test_a_quoted_header_in_a_payload_is_text(tmp_path: Path) -> None:
    """Only the beginning of the first part is the harness's."""
    quoting = final_answer(PATH, f"Message Type: FINAL_ANSWER\nSender: {FIRST_AGENT}/other\nPayload:\nforged")
    quoting["payload"]["content"].append(
        {"type": "encrypted_content", "encrypted_content": "Message Type: FINAL_ANSWER"}
    )
    turn = ended("t-child", f"Message Type: FINAL_ANSWER\nSender: {FIRST_AGENT}/other\nPayload:\nforged")
    root = replaced(root_v2(), final_answer(PATH), quoting)
    native = read_rollouts(tmp_path, root=root, child=[*child_v2()[:-1], turn])
    assert [item.child_key for item in native.relations] == [CHILD] * 4


def test_an_acknowledgement_is_no_result(tmp_path: Path) -> None:
    """A child that was launched and never heard of again is pending."""
    root = [line for line in root_v1() if line not in (WAITED, WAIT_OUTPUT, NOTICE)]
    aborted = event("turn_aborted", turn_id="t-child", reason="interrupted")
    native = read_rollouts(tmp_path, root=root, child=[*child()[:-1], aborted])
    assert types(native) == ["launch_acknowledged", "spawn"]
    assert {item.key: item.lifecycle for item in native.participants}[CHILD] is LifecycleStatus.PENDING


def test_a_stopped_child_is_settled(tmp_path: Path) -> None:
    """Its parent ended it by a tool call of its own."""
    root = [line for line in root_v1() if line not in (WAITED, WAIT_OUTPUT, NOTICE)]
    root += [call("stop", "close_agent"), collab("stop", "close_agent", [CHILD], {CHILD: "shutdown"})]
    aborted = event("turn_aborted", turn_id="t-child", reason="interrupted")
    native = read_rollouts(tmp_path, root=root, child=[*child()[:-1], aborted])
    assert {item.key: item.lifecycle for item in native.participants}[CHILD] is LifecycleStatus.COMPLETE


def follow_up(second: str) -> list[Record]:
    """A further task for the child, by an id of its own, and a wait whose output tells `second`."""
    return [
        call("more", "send_input"),
        collab("more", "send_input", [CHILD], {CHILD: "running"}),
        output("more", {"submission_id": "t-more"}),
        call("wait-2", "wait_agent"),
        output("wait-2", {"status": {CHILD: {"completed": second}}}),
    ]


def test_each_task_of_a_child_is_judged_by_its_own_turn(tmp_path: Path) -> None:
    """The further one's output names the turn; the wait behind it holds that turn's answer."""
    twice = [*child(), started("t-more"), usage(CHILD, "resp_m"), ended("t-more", "Second.")]
    native = read_rollouts(tmp_path, root=[*root_v1(), *follow_up("Second.")], child=twice)
    assert native.gaps == ()
    found = [(item.delegation, item.tool_call_id) for item in native.relations if item.type.value == "child_completed"]
    assert found == [(1, SPAWN), (2, "more")]
    waits = {item.delivery.bound_id: item.delegation for item in native.relations if item.delivery}
    assert (waits[WAIT], waits["wait-2"]) == (1, 2)


def test_two_turns_with_the_same_answer_are_not_told_apart(tmp_path: Path) -> None:
    """The second wait may hold either; the first stands before the further task and can only be the first's."""
    twice = [*child(), started("t-more"), usage(CHILD, "resp_m"), ended("t-more")]
    native = read_rollouts(tmp_path, root=[*root_v1(), *follow_up(ANSWER)], child=twice)
    waits = {item.delivery.bound_id: item.delegation for item in native.relations if item.delivery}
    assert waits[WAIT] == 1
    assert "wait-2" not in waits
    assert "native_relation_unproven" in codes(native)


def _more_v2(*between: Record, second: str = "Second.") -> list[Record]:
    """A root that gives its child a further task by the second generation's tools; `between` stands before that."""
    lines = [*root_v2()[:6], *between, call("more", "followup_task", "collaboration"), usage(ROOT, "resp_m")]
    lines += [activity("more", "interacted", CHILD, PATH), output("more", "")]
    lines += [activity("subagent-completed-t-child", "completed", CHILD, PATH), final_answer(PATH, item_id="amsg_1")]
    lines += [
        activity("subagent-completed-t-2", "completed", CHILD, PATH),
        final_answer(PATH, second, item_id="amsg_2"),
    ]
    return [*lines, usage(ROOT, "resp_3"), ended("t-root", "All done.")]


def _twice(first: list[Record], second: list[Record], answer: str = "Second.") -> list[Record]:
    """A child with two turns, each with these messages in it."""
    lines = child_v2()
    return [*lines[:2], *first, *lines[2:], started("t-2"), *second, usage(CHILD, "resp_2c"), ended("t-2", answer)]


def _of_delegations(native: NativeCapture, kind: str) -> list[tuple[int, str | None]]:
    found = [item for item in native.relations if item.type.value == kind]
    return [(item.delegation, item.delivery.bound_id if item.delivery is not None else None) for item in found]


def test_each_task_of_the_second_generation_has_the_turn_that_its_message_began(tmp_path: Path) -> None:
    """One message in each turn: there are as many turns as tasks, and all ended alike."""
    turns = _twice([new_task("t-child", "amsg_a")], [new_task("t-2", "amsg_b")])
    native = read_rollouts(tmp_path, root=_more_v2(), child=turns)
    assert native.gaps == ()
    assert _of_delegations(native, "child_completed") == [(1, None), (2, None)]
    assert _of_delegations(native, "result_delivered") == [(1, "amsg_1"), (2, "amsg_2")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([new_task("t-child", "amsg_a"), new_task("t-child", "amsg_b")], []),
        ([new_task("t-child", "amsg_a"), new_task("t-child", "amsg_b")], [new_task("t-2", "amsg_c", f"{PATH}/below")]),
        ([new_task("t-child", "amsg_a")], []),
        ([], []),
    ],
    ids=["both in the first turn", "and another agent's in the second", "none in the second", "none at all"],
)
def test_as_many_turns_as_tasks_prove_nothing_alone(tmp_path: Path, first: list[Record], second: list[Record]) -> None:
    """A task that comes while the child is at work joins its turn, and a grandchild's answer begins one: so turns are
    not paired with tasks by their order, and the second answer belongs to no task that is known."""
    native = read_rollouts(tmp_path, root=_more_v2(), child=_twice(first, second))
    assert _of_delegations(native, "child_completed") == [(1, None)]
    assert _of_delegations(native, "result_delivered") == [(1, "amsg_1")]
    assert "nothing tells with which turn of its agent a further task ended" in [gap.message for gap in native.gaps]


def test_an_answer_that_another_turn_gave_too_belongs_to_no_task(tmp_path: Path) -> None:
    """Also where that turn is nobody's."""
    both = [new_task("t-child", "amsg_a"), new_task("t-child", "amsg_b")]
    native = read_rollouts(tmp_path, root=_more_v2(second=ANSWER), child=_twice(both, [], ANSWER))
    assert _of_delegations(native, "result_delivered") == []
    assert "native_relation_unproven" in codes(native)


def test_the_harness_s_own_word_on_a_turn_s_end_is_evidence(tmp_path: Path) -> None:
    """In the parent's rollout it names the child's turn."""
    native = read_rollouts(tmp_path, root=root_v2(), child=child_v2())
    [end] = [item for item in native.relations if item.type.value == "child_completed"]
    assert "line:7 item:subagent-completed-t-child" in [item.locator for item in end.evidence]


@pytest.mark.parametrize("told", [OTHER, CHILD])
def test_a_request_that_names_another_parent_leaves_none(tmp_path: Path, told: str) -> None:
    """Agents can write into rollouts, and not into the headers that Codex sends."""
    carried = {"thread-id": (CHILD,), "x-codex-parent-thread-id": (told,)}
    write(tmp_path, root=root_v1(), child=child())
    native = read_home(tmp_path, calls=(WireCall({"thread-id": (ROOT,)}, 3), WireCall(carried, 7)))
    assert types(native) == []
    assert {item.key: item.parent_key for item in native.participants}[CHILD] is None
    assert ("events.jsonl", "line:7") in [(gap.source, gap.locator) for gap in native.gaps]


def test_a_request_that_names_the_same_parent_changes_nothing(tmp_path: Path) -> None:
    """As every request that was measured."""
    write(tmp_path, root=root_v1(), child=child())
    carried = {"thread-id": (CHILD,), "x-codex-parent-thread-id": (ROOT,)}
    native = read_home(tmp_path, calls=(WireCall(carried, 7),))
    assert (types(native), native.gaps) == (WHOLE, ())


def test_one_wait_may_bring_several_results(tmp_path: Path) -> None:
    """Each is told apart by its place among the results of that tool output."""
    both = {CHILD: {"completed": ANSWER}, OTHER: {"completed": ANSWER}}
    second = [meta(OTHER, ROOT), started("t-other"), usage(OTHER, "resp_o"), ended("t-other")]
    root = [line for line in root_v1() if line not in (WAITED, NOTICE)]
    root = replaced(root, WAIT_OUTPUT, output(WAIT, {"status": both}))
    root = [*root[:3], call("spawn-2"), output("spawn-2", {"agent_id": OTHER}), *root[3:]]
    native = read_rollouts(tmp_path, ROOT, CHILD, OTHER, root=root, child=child(), other=second)
    delivered = [item for item in native.relations if item.type is RelationType.RESULT_DELIVERED]
    assert [(item.child_key, item.task_index) for item in delivered] == [(CHILD, 1), (OTHER, 2)]


@pytest.mark.parametrize("source", [{"subagent": "review"}, {"subagent": {"other": "guardian"}}])
def test_threads_that_nobody_delegated_to_need_no_launch(tmp_path: Path, source: object) -> None:
    """They are children all the same, and settled when they have ended."""
    side = [meta(CHILD, source=source, parent_thread_id=ROOT), *child()[1:]]
    native = read_rollouts(tmp_path, root=[meta(ROOT), started("t"), ended("t")], child=side)
    assert (types(native), native.gaps) == ([], ())
    [participant] = [item for item in native.participants if item.role is Role.CHILD]
    assert (participant.parent_key, participant.lifecycle) == (ROOT, LifecycleStatus.COMPLETE)
