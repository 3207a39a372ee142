"""Tests of delegations, their contradictions, background delegations and how children end."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from roller_capture.capture_protocol import NativeCapture, NotificationItem
from roller_capture.vocabulary import BoundBy, DeliveryKind, ExecutionStatus, LifecycleStatus
from tests.adapters.hermes.extracts import (
    CHILD,
    OTHER,
    ROOT,
    TOOL,
    Extracts,
    delegating,
    event,
    gap_codes,
    message,
    part,
    relation_types,
    result,
    session,
    started,
    turn,
)

Change = Callable[[Extracts], None]


def _set(row: int, **values: object) -> Change:
    return lambda extracts: extracts.state[row].update(values)


def _event(kind: str, **values: object) -> Change:
    def change(extracts: Extracts) -> None:
        for line in extracts.plugin:
            if line["event"] == kind:
                line.update(values)

    return change


def _add(*rows: dict[str, object]) -> Change:
    return lambda extracts: extracts.state.extend(rows)


def _tell(*lines: dict[str, object]) -> Change:
    return lambda extracts: extracts.plugin.extend(lines)


def _other_parent(extracts: Extracts) -> None:
    extracts.state.append(session(OTHER))
    _event("child", parent_session_id=OTHER)(extracts)


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        pytest.param(_event("child", tool_call_id="call_9"), {"native_relation_unproven"}, id="call-not-in-rows"),
        pytest.param(_event("child", tool_call_id=""), {"native_relation_unproven"}, id="no-tool-call"),
        pytest.param(_event("child", subagent_id="x"), {"native_relation_unproven"}, id="no-task-index"),
        pytest.param(_event("child", parent_session_id=OTHER), {"native_relation_unproven"}, id="plugin-disagrees"),
        pytest.param(_other_parent, {"native_relation_unproven"}, id="plugin-names-another-session"),
        pytest.param(
            _set(1, model_config=json.dumps({"_delegate_from": OTHER})),
            {"native_relation_unproven"},
            id="mark-disagrees",
        ),
        pytest.param(_set(3, **delegating(ROOT, name="terminal")), {"native_relation_unproven"}, id="another-tool"),
        pytest.param(_add(delegating(ROOT)), {"native_id_not_unique"}, id="id-used-twice"),
        pytest.param(_tell(started(tool_id="call_2")), {"native_id_not_unique"}, id="child-started-twice"),
    ],
)
def test_evidence_that_is_missing_or_disagrees_makes_no_relation(
    tmp_path: Path, change: Change, codes: set[str]
) -> None:
    """A gap says why; the child and its claims stay."""
    extracts = Extracts()
    change(extracts)
    native = extracts.read(tmp_path)
    assert native.relations == ()
    assert gap_codes(native) >= codes
    assert {item.key: item.lifecycle for item in native.participants}[CHILD] is LifecycleStatus.UNKNOWN
    assert ("header:x-roller-session", CHILD) in {(item.field, item.value) for item in native.identity_claims}


def test_two_children_of_one_task_are_both_unproven(tmp_path: Path) -> None:
    """One task of one tool call has one child."""
    extracts = Extracts()
    extracts.state.append(session(OTHER, ROOT))
    extracts.plugin += [started(OTHER), *turn(OTHER)]
    native = extracts.read(tmp_path, ROOT, CHILD, OTHER)
    assert native.relations == ()
    assert gap_codes(native) == {"native_id_not_unique"}


def test_children_of_one_batched_call_are_told_apart_by_their_index(tmp_path: Path) -> None:
    """Two children, one tool call id; each has its own part of the result."""
    extracts = Extracts()
    extracts.state[5] = result(ROOT, part(1), part(0))
    extracts.state.append(session(OTHER, ROOT))
    extracts.plugin += [started(OTHER, index=1), *turn(OTHER)]
    native = extracts.read(tmp_path, ROOT, CHILD, OTHER)
    assert {(item.child_key, item.task_index) for item in native.relations} == {(CHILD, 0), (OTHER, 1)}
    assert len(native.relations) == 6
    assert native.gaps == ()


@pytest.mark.parametrize(
    "parts", [[], [part(1)], [part(0), part(0)], [{"task_index": True}], [{"task_index": "0"}], ["x", None]]
)
def test_a_result_that_does_not_tell_of_the_child_once_delivers_nothing(tmp_path: Path, parts: list[object]) -> None:
    """The spawn stays proven."""
    extracts = Extracts()
    extracts.state[5] = result(ROOT, *parts)  # type: ignore[arg-type]
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["spawn"]
    assert gap_codes(native) == {"native_relation_unproven"}


def test_rows_that_compaction_wrote_again_are_one_call(tmp_path: Path) -> None:
    """The first tool row counts: the copy may be shortened."""
    extracts = Extracts()
    copies = [dict(extracts.state[3]), message(ROOT, "tool", "(cut)", tool_call_id=TOOL, tool_name="delegate_task")]
    for row in extracts.state[2:]:
        row["compacted"] = 1
    extracts.state += copies
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["child_completed", "result_delivered", "spawn"]
    assert native.gaps == ()


_OPEN = turn(CHILD, ended=False)
_AT_LIMIT = turn(CHILD, completed=False)
_GIVEN_UP = turn(CHILD, answered=False, ended=False)
_STOPPED = [
    *_OPEN,
    event("turn_end", CHILD, turn_id=f"{CHILD}:t1", origin="turn", completed=False, interrupted=True),
]
_COMPLETED, _INTERRUPTED = ExecutionStatus.COMPLETED, ExecutionStatus.INTERRUPTED

Ended = tuple[list[dict[str, object]], dict[str, object], str | None, str | None, ExecutionStatus]


@pytest.mark.parametrize(
    ("events", "told", "end", "outcome", "status"),
    [
        pytest.param(turn(CHILD), part(), "child_completed", "completed", ExecutionStatus.COMPLETED, id="ended-well"),
        pytest.param(
            turn(CHILD, completed=False),
            part(exit_reason="max_iterations"),
            "child_completed",
            "max_iterations",
            ExecutionStatus.COMPLETED,
            id="at-its-limit",
        ),
        pytest.param(
            turn(CHILD, answered=False, ended=False),
            part(exit_reason="max_iterations"),
            "child_failed",
            "server_error",
            ExecutionStatus.FAILED,
            id="said-completed-but-its-calls-failed",
        ),
        pytest.param(
            turn(CHILD, ended=False),
            part(status="timeout", exit_reason="timeout"),
            "child_failed",
            "timeout",
            ExecutionStatus.INTERRUPTED,
            id="timed-out",
        ),
        pytest.param(
            _STOPPED,
            part(status="interrupted", exit_reason="interrupted"),
            None,
            None,
            ExecutionStatus.INTERRUPTED,
            id="interrupted",
        ),
    ],
)
def test_a_childs_end_needs_its_own_log_and_the_result(
    tmp_path: Path,
    events: list[dict[str, object]],
    told: dict[str, object],
    end: str | None,
    outcome: str | None,
    status: ExecutionStatus,
) -> None:
    """Hermes says `completed` of children whose calls failed too."""
    extracts = Extracts()
    extracts.state[5] = result(ROOT, told)
    extracts.plugin = [*extracts.plugin[:1], *turn(ROOT), started(), *events]
    native = extracts.read(tmp_path)
    ends = [(item.type.value, item.outcome) for item in native.relations if item.type.value.startswith("child_")]
    assert ends == ([(end, outcome)] if end else [])
    assert _child(native) == (status, LifecycleStatus.COMPLETE)
    assert native.gaps == ()


def _child(native: NativeCapture) -> tuple[ExecutionStatus, LifecycleStatus]:
    [child] = [item for item in native.participants if item.key == CHILD]
    return child.execution_status, child.lifecycle


@pytest.mark.parametrize(
    ("events", "word", "status", "told"),
    [
        (turn(CHILD), "failed", _COMPLETED, "do not agree"),
        (_AT_LIMIT, "timeout", _COMPLETED, "do not agree"),
        (turn(CHILD), "interrupted", _COMPLETED, "do not agree"),
        (_OPEN, "completed", ExecutionStatus.UNKNOWN, "do not agree"),
        (_OPEN, "interrupted", _INTERRUPTED, "tells of no end"),
        (_OPEN, "cancelled", ExecutionStatus.UNKNOWN, "told with cancelled"),
        (_OPEN, {}, ExecutionStatus.UNKNOWN, "told with no word"),
        (turn(CHILD), "paused", _COMPLETED, "told with paused"),
        (_GIVEN_UP, "stopped", ExecutionStatus.FAILED, "told with stopped"),
    ],
)
def test_an_end_that_is_not_proven_leaves_the_lifecycle_unknown(
    tmp_path: Path, events: list[dict[str, object]], word: object, status: ExecutionStatus, told: str
) -> None:
    """The result says one thing and the child's own log another, or it uses a word that Hermes is not known to use."""
    extracts = Extracts()
    extracts.state[5] = result(ROOT, {**part(), "status": word})
    extracts.plugin = [*extracts.plugin[:1], *turn(ROOT), started(), *events]
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["result_delivered", "spawn"]
    assert _child(native) == (status, LifecycleStatus.UNKNOWN)
    [gap] = native.gaps
    assert (gap.code.value, told in gap.message) == ("native_relation_unproven", True)


@pytest.mark.parametrize("values", [{"completed": "yes"}, {"completed": None}, {"completed": False, "interrupted": 0}])
def test_an_end_in_another_form_is_none(tmp_path: Path, values: dict[str, object]) -> None:
    """It is not taken for that of a child which was stopped at its limit of turns."""
    extracts = Extracts()
    extracts.plugin[-1].update(values)
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["result_delivered", "spawn"]
    assert _child(native) == (ExecutionStatus.UNKNOWN, LifecycleStatus.UNKNOWN)
    assert gap_codes(native) == {"native_shape_unknown", "native_relation_unproven"}


def test_a_killed_child_is_pending(tmp_path: Path) -> None:
    """No tool row, no end: nothing was delivered."""
    extracts = Extracts()
    del extracts.state[4:]
    extracts.state[1]["end_reason"] = None
    extracts.plugin = [*extracts.plugin[:1], *turn(ROOT), started(), *turn(CHILD, answered=False, ended=False)]
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["spawn"]
    [child] = [item for item in native.participants if item.key == CHILD]
    assert (child.lifecycle, child.execution_status) == (LifecycleStatus.PENDING, ExecutionStatus.INTERRUPTED)


DELEGATION = "deleg_0123abcd"


def _in_background(*, notified: bool, turn_known: bool = True) -> Extracts:
    extracts = Extracts()
    dispatched = json.dumps({"status": "dispatched", "mode": "background", "delegation_id": DELEGATION})
    extracts.state[5] = message(ROOT, "tool", dispatched, tool_call_id=TOOL, tool_name="delegate_task")
    row = {"table": "async_delegations", "delegation_id": DELEGATION, "parent_session_id": ROOT}
    said = ("completed", "delivered") if notified else ("running", "pending")
    extracts.state.append({**row, "state": said[0], "delivery_state": said[1]})
    if notified:
        extracts.state.append(message(ROOT, "user", f"[ASYNC DELEGATION BATCH COMPLETE — {DELEGATION}]\nDone."))
        if turn_known:
            own = {"turn_id": "t2", "origin": "turn"}
            extracts.plugin += [
                event("turn", ROOT, delegation_id=DELEGATION, **own),
                event("request", ROOT, request_id="t2:api:1", **own),
                event("turn_end", ROOT, completed=True, interrupted=False, **own),
            ]
    return extracts


def test_a_background_child_is_acknowledged_and_then_delivered(tmp_path: Path) -> None:
    """The acknowledgement is never taken for the result; the message is bound by the delegation's id and looked for in
    the first request of the turn that it began."""
    native = _in_background(notified=True).read(tmp_path)
    assert relation_types(native) == ["child_completed", "launch_acknowledged", "result_delivered", "spawn"]
    [delivered] = [item for item in native.relations if item.type.value == "result_delivered"]
    assert delivered.delivery is not None
    assert (delivered.delivery.kind, delivered.delivery.bound_by) == (DeliveryKind.NOTIFICATION, BoundBy.DELEGATION_ID)
    [item] = [probe.item for probe in native.context_probes if isinstance(probe.item, NotificationItem)]
    assert (item.field, item.value) == ("header:x-roller-request", "t2:api:1")
    assert item.texts == (f"COMPLETE — {DELEGATION}]",)
    assert native.gaps == ()


def test_a_background_child_without_notification_is_pending(tmp_path: Path) -> None:
    """Its launch is known, its result is not."""
    native = _in_background(notified=False).read(tmp_path)
    assert relation_types(native) == ["launch_acknowledged", "spawn"]
    assert {item.key: item.lifecycle for item in native.participants}[CHILD] is LifecycleStatus.PENDING


@pytest.mark.parametrize(
    ("events", "state", "end", "lifecycle"),
    [
        (turn(CHILD), "completed", "child_completed", LifecycleStatus.COMPLETE),
        (_STOPPED, "error", None, LifecycleStatus.COMPLETE),
        (_GIVEN_UP, "error", "child_failed", LifecycleStatus.COMPLETE),
        (_OPEN, "error", None, LifecycleStatus.UNKNOWN),
        (turn(CHILD), "error", None, LifecycleStatus.UNKNOWN),
        (turn(CHILD), "unknown", None, LifecycleStatus.UNKNOWN),
        (_STOPPED, "interrupted", None, LifecycleStatus.UNKNOWN),
    ],
)
def test_a_word_of_a_whole_batch_needs_the_childs_own_log(
    tmp_path: Path, events: list[dict[str, object]], state: str, end: str | None, lifecycle: LifecycleStatus
) -> None:
    """`error` is said of a batch whose children failed, or were stopped; `unknown` of one whose process went away."""
    extracts = _in_background(notified=True)
    extracts.plugin = [line for line in extracts.plugin if line.get("session_id") != CHILD or line["event"] == "child"]
    extracts.plugin += events
    next(row for row in extracts.state if row["table"] == "async_delegations")["state"] = state
    native = extracts.read(tmp_path)
    assert relation_types(native)[:-3] == ([end] if end else [])
    assert _child(native)[1] is lifecycle
    assert gap_codes(native) == ({"native_relation_unproven"} if lifecycle is LifecycleStatus.UNKNOWN else set())


def test_a_background_child_of_which_no_row_tells_is_unknown(tmp_path: Path) -> None:
    """Hermes writes the row before it acknowledges the launch."""
    extracts = _in_background(notified=False)
    extracts.state.pop()
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["launch_acknowledged", "spawn"]
    assert _child(native)[1] is LifecycleStatus.UNKNOWN
    assert gap_codes(native) == {"native_relation_unproven"}


@pytest.mark.parametrize("row", [None, {}, {"state": "running", "delivery_state": "pending"}, {"state": "completed"}])
def test_a_message_that_no_row_confirms_delivers_nothing(tmp_path: Path, row: dict[str, str] | None) -> None:
    """Anybody can write a message of that form; the harness's own row has to say that it was delivered."""
    extracts = _in_background(notified=True)
    known = next(one for one in extracts.state if one["table"] == "async_delegations")
    extracts.state.remove(known)
    if row is not None:
        extracts.state.append({**known, "state": None, "delivery_state": None, **row})
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["launch_acknowledged", "spawn"]
    assert gap_codes(native) == {"native_relation_unproven"}
    assert {item.key: item.lifecycle for item in native.participants}[CHILD] is LifecycleStatus.UNKNOWN


def test_a_delivery_of_which_no_message_tells_is_named(tmp_path: Path) -> None:
    """The row alone does not say what reached whom."""
    extracts = _in_background(notified=True)
    extracts.state.pop()
    native = extracts.read(tmp_path)
    assert relation_types(native) == ["launch_acknowledged", "spawn"]
    assert gap_codes(native) == {"native_relation_unproven"}
    assert {item.key: item.lifecycle for item in native.participants}[CHILD] is LifecycleStatus.PENDING


def test_a_notification_whose_turn_is_not_known_is_in_no_context(tmp_path: Path) -> None:
    """Text alone proves no receipt."""
    native = _in_background(notified=True, turn_known=False).read(tmp_path)
    assert [probe.relation.type.value for probe in native.context_probes] == ["launch_acknowledged"]
    assert gap_codes(native) == {"native_relation_unproven"}
    assert _child(native)[1] is LifecycleStatus.UNKNOWN


def test_parents_that_disagree_leave_a_child_without_one(tmp_path: Path) -> None:
    """Two known sessions are named: neither wins, also where the tool call stands in one of them."""
    extracts = Extracts()
    _other_parent(extracts)
    extracts.state.append(delegating(OTHER))
    native = extracts.read(tmp_path)
    assert {item.key: item.parent_key for item in native.participants}[CHILD] is None
    assert native.relations == ()
