"""When a child's work is settled: what a stop settles, and what is unknown since records disagree.

The stops have the shapes of the recorded runs `stopped-again-v2` and `reopened-child`.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from roller_capture.capture_protocol import NativeCapture
from roller_capture.vocabulary import LifecycleStatus
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
    read_rollouts,
    root_v1,
    started,
    types,
    usage,
)

PATH = f"{FIRST_AGENT}/task"
COMPLETE, PENDING, UNKNOWN = LifecycleStatus.COMPLETE, LifecycleStatus.PENDING, LifecycleStatus.UNKNOWN


def _of_child(native: NativeCapture) -> LifecycleStatus:
    [found] = [item.lifecycle for item in native.participants if item.key == CHILD]
    return found


def aborted(turn: str) -> Record:
    """A turn is cut: by a stop, or with the run."""
    return event("turn_aborted", turn_id=turn, reason="interrupted")


def stop(call_id: str, found: object = "running") -> list[Record]:
    """The root stops the child (v2); `found` is the state that it found it in."""
    return [
        call(call_id, "interrupt_agent", "collaboration"),
        activity(call_id, "interrupted", CHILD, PATH),
        output(call_id, {"previous_status": found}),
    ]


def task(call_id: str) -> list[Record]:
    """The root gives the child a further task (v2)."""
    return [
        call(call_id, "followup_task", "collaboration"),
        activity(call_id, "interacted", CHILD, PATH),
        output(call_id, ""),
    ]


def told(turn: str, answer: str) -> list[Record]:
    """The root is told a result (v2)."""
    return [
        activity(f"subagent-completed-{turn}", "completed", CHILD, PATH),
        final_answer(PATH, answer, item_id=f"amsg_{turn}"),
    ]


def root_v2(*more: Record) -> list[Record]:
    """A root that launches a child (v2)."""
    launch = [
        call(SPAWN, namespace="collaboration"),
        activity(SPAWN, "started", CHILD, PATH),
        output(SPAWN, {"task_name": PATH}),
    ]
    return [meta(ROOT), started("t-root"), *launch, *more, usage(ROOT, "resp_1"), ended("t-root", "All done.")]


def child_v2(*turns: Record) -> list[Record]:
    """Its child, with one task in each turn."""
    lines = [meta(CHILD, ROOT, agent_path=PATH)]
    for line in turns:
        turn = line["payload"]["turn_id"]
        lines += [started(turn), new_task(turn, f"amsg_task_{turn}"), usage(CHILD, f"resp_{turn}"), line]
    return lines


@pytest.mark.parametrize(
    ("in_root", "turns", "lifecycle"),
    [
        pytest.param(stop("s"), [aborted("a")], COMPLETE, id="stopped"),
        pytest.param([*stop("s"), *task("m")], [aborted("a"), aborted("b")], PENDING, id="given more, and cut"),
        pytest.param([*stop("s"), *task("m")], [aborted("a")], PENDING, id="given more, and not begun"),
        pytest.param(
            [*stop("s"), *task("m")], [aborted("a"), ended("b", "B.")], PENDING, id="given more, and nobody told"
        ),
        pytest.param(
            [*stop("s"), *task("m"), *told("b", "B.")],
            [aborted("a"), ended("b", "B.")],
            COMPLETE,
            id="given more, and its result told",
        ),
        pytest.param(
            [*stop("s"), *task("m"), *stop("s2")], [aborted("a"), aborted("b")], COMPLETE, id="stopped each time"
        ),
        pytest.param(
            [*stop("s"), *task("m"), *stop("s2", "interrupted")],
            [aborted("a"), aborted("b")],
            PENDING,
            id="the second stop found nothing to cut",
        ),
        pytest.param(
            [*task("m"), *stop("s")], [aborted("a"), aborted("b")], PENDING, id="one stop, and two turns were cut"
        ),
        pytest.param(
            [*stop("s")[:1], *task("m"), *stop("s")[1:]], [aborted("a")], PENDING, id="stopped and given at once"
        ),
        pytest.param(
            [*task("m")[:1], *stop("s"), *task("m")[1:]], [aborted("a")], PENDING, id="given and stopped at once"
        ),
        pytest.param(
            [*told("a", "A."), *task("m"), *stop("s")], [ended("a", "A."), aborted("b")], COMPLETE, id="the second only"
        ),
        pytest.param(stop("s", {"completed": "A."}), [ended("a", "A.")], COMPLETE, id="it had ended when it came"),
        pytest.param(stop("s", {"completed": "A."}), [ended("a", "A."), ended("b", "B.")], PENDING, id="it went on"),
        pytest.param(stop("s"), [ended("a", "A.")], PENDING, id="it ended by itself all the same"),
        pytest.param([*stop("s"), *told("a", "A.")], [ended("a", "A.")], COMPLETE, id="it ended, and that was told"),
        pytest.param(stop("s")[:1], [aborted("a")], PENDING, id="nothing confirms the stop"),
    ],
)
def test_a_stop_settles_what_was_given_before_it(
    tmp_path: Path, in_root: list[Record], turns: list[Record], lifecycle: LifecycleStatus
) -> None:
    """And only that: what is given later is owed again, and the last turn must be one that a stop cut."""
    native = read_rollouts(tmp_path, root=root_v2(*in_root), child=child_v2(*turns))
    assert _of_child(native) is lifecycle


@pytest.mark.parametrize("confirmed", [True, False])
def test_a_closed_child_that_was_opened_again_is_owed_its_further_task(tmp_path: Path, confirmed: bool) -> None:
    """In v1 a closed child takes no task before `resume_agent`, which alone gives it none."""
    root = root_v1()[:6]
    root += [call("stop", "close_agent"), collab("stop", "close_agent", [CHILD], {CHILD: "running"})]
    root += [output("stop", {"previous_status": "running"}), notification(CHILD, "shutdown")]
    root += [call("open", "resume_agent"), collab("open", "resume_agent", [CHILD], {CHILD: "interrupted"})]
    root += [output("open", {"status": "interrupted"})]
    more = [call("more", "send_input"), collab("more", "send_input", [CHILD], {CHILD: "running"})]
    more += [output("more", {"submission_id": "t-more"})]
    again = [started("t-more"), usage(CHILD, "resp_m"), aborted("t-more")]
    own = [*child()[:-1], aborted("t-child"), *(again if confirmed else [])]
    native = read_rollouts(tmp_path, root=[*root, *(more if confirmed else [])], child=own)
    assert native.gaps == ()
    assert _of_child(native) is (PENDING if confirmed else COMPLETE)


def test_a_stop_by_another_than_the_giver_settles_nothing(tmp_path: Path) -> None:
    """A sibling's."""
    work = [usage(OTHER, f"resp_o{number}") for number in range(5)]
    sibling = [meta(OTHER, ROOT), started("t-other"), *work, *_stop_by(OTHER), ended("t-other")]
    native = read_rollouts(tmp_path, ROOT, CHILD, OTHER, root=root_v2(), child=child_v2(aborted("a")), other=sibling)
    assert _of_child(native) is PENDING


def _stop_by(thread: str) -> list[Record]:
    first, confirmed, last = stop("s")
    confirmed["payload"]["thread_id"] = thread
    return [first, confirmed, last]


def _v1(*changes: tuple[Record, Record]) -> list[Record]:
    found = root_v1()
    for old, new in changes:
        assert old in found
        found = [new if line == old else line for line in found]
    return found


_NOTICE = notification(CHILD, {"completed": ANSWER})
_WAIT_OUTPUT = output(WAIT, {"status": {CHILD: {"completed": ANSWER}}, "timed_out": False})
_TWO_TURNS = [*child(), started("t-2"), usage(CHILD, "resp_2"), ended("t-2", "Second.")]
_MORE = [
    call("more", "send_input"),
    collab("more", "send_input", [CHILD], {}),
    output("more", {"submission_id": "t-2"}),
]
_TOLD = notification(CHILD, {"completed": "Second."}, "msg_note_2")


@pytest.mark.parametrize(
    ("root", "own", "gap"),
    [
        pytest.param(
            _v1((_NOTICE, notification(CHILD, {"completed": "Other."}))),
            child(),
            "native_relation_unproven",
            id="told another answer",
        ),
        pytest.param(
            _v1((_WAIT_OUTPUT, output(WAIT, {"status": {CHILD: {"completed": "Other."}}}))),
            child(),
            "native_relation_unproven",
            id="wait and its record differ",
        ),
        pytest.param(
            root_v1(),
            [meta(CHILD, ROOT), started("t-other"), *child()[2:]],
            "native_shape_unknown",
            id="another turn ended than began",
        ),
        pytest.param(
            root_v1(), [*child(), ended("t-other")], "native_shape_unknown", id="a turn ended that never began"
        ),
        pytest.param([*root_v1(), _NOTICE], child(), "native_id_not_unique", id="two results with one id"),
        pytest.param(
            [*root_v1(), *_MORE, _TOLD],
            [line for line in _TWO_TURNS if line != ended("t-child")],
            None,
            id="a turn without an end before another",
        ),
        pytest.param(
            [*root_v1(), *_MORE[:2], output("more", {"submission_id": "t-joined"})],
            child(),
            "native_relation_unproven",
            id="a task without a turn",
        ),
        pytest.param(
            [*root_v1(), *_MORE, *_MORE],
            _TWO_TURNS,
            "native_id_not_unique",
            id="a task's call id stands for two",
        ),
        pytest.param(
            [*root_v1(), *_MORE[1:]], _TWO_TURNS, "native_relation_unproven", id="a task's tool call is not there"
        ),
        pytest.param(
            [*root_v1(), _MORE[0], collab("more", "send_input", [CHILD, OTHER], {}), _MORE[2]],
            child(),
            "native_relation_unproven",
            id="a task's record names two agents",
        ),
    ],
)
def test_records_that_disagree_leave_the_lifecycle_unknown(
    tmp_path: Path, root: list[Record], own: list[Record], gap: str | None
) -> None:
    """Also where another record still brings the result: which of them is right nothing tells."""
    native = read_rollouts(tmp_path, root=root, child=own)
    assert _of_child(native) is UNKNOWN
    assert gap in (codes(native) or {None})


def test_an_agent_without_a_rollout_leaves_the_lifecycle_of_all_unknown(tmp_path: Path) -> None:
    """It was launched, made no request that is known, and nothing tells what became of it."""
    lost = [call("lost"), collab("lost", "spawn_agent", [OTHER], {}), output("lost", {"agent_id": OTHER})]
    native = read_rollouts(tmp_path, root=[*root_v1(), *lost], child=child())
    assert (native.lifecycle, _of_child(native)) == (UNKNOWN, COMPLETE)
    assert codes(native) == {"participant_log_missing"}


@pytest.mark.parametrize(
    ("own", "lifecycle"),
    [
        pytest.param([], PENDING, id="it never began"),
        pytest.param([event("token_count", info={"total_token_usage": {"total_tokens": 1}})], UNKNOWN, id="it worked"),
    ],
)
def test_a_child_whose_version_writes_no_turns(tmp_path: Path, own: list[Record], lifecycle: LifecycleStatus) -> None:
    """Before there were records of turns nothing tells whether it has ended."""
    native = read_rollouts(tmp_path, root=root_v1()[:6], child=[meta(CHILD, ROOT), *own])
    assert _of_child(native) is lifecycle


Change = Callable[[list[Record]], list[Record]]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda lines: [*lines[:10], *lines[11:]], id="no notification"),
        pytest.param(lambda lines: [*lines[:6], *lines[10:]], id="no wait"),
    ],
)
def test_one_way_of_delivery_is_enough(tmp_path: Path, change: Change) -> None:
    """A result that came by one of the two ways is delivered."""
    native = read_rollouts(tmp_path, root=change(root_v1()), child=child())
    assert types(native).count("result_delivered") == 1
    assert (_of_child(native), native.gaps) == (COMPLETE, ())
