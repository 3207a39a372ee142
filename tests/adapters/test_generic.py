"""What the headers and the log of people's own agents prove, and what they leave unknown."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.generic import LOG_NAME, read
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NotificationItem, ToolResultItem, WireCall
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.finalizer.adapter_check import checked
from roller_capture.vocabulary import (
    AttemptErrorCode,
    BoundBy,
    ExecutionStatus,
    LifecycleStatus,
    Purpose,
    RelationType,
    SubtaskSupport,
)
from tests.support.attempts import AttemptBuilder, message_body, request_body

ROOT: dict[str, Any] = {"session": "root"}
CHILD: dict[str, Any] = {"session": "child", "parent-session": "root", "delegation-tool-id": "call_1"}
BEGUN = {"event": "session", "session": "child", "parent": "root", "delegation_tool_id": "call_1"}
ENDED = {"event": "ended", "session": "child", "status": "completed"}
DELIVERED = {"event": "delivered", "session": "child"}


def capture(tmp_path: Path, *calls: dict[str, Any], log: list[Any] | None = None, **more: Any) -> NativeCapture:
    """What the adapter makes of calls (headers without `x-roller-`) and a log. It must keep its contract."""
    if log is not None:
        lines = [line if isinstance(line, str) else json.dumps(line) + "\n" for line in log]
        (tmp_path / LOG_NAME).write_text("".join(lines), encoding="utf-8", errors="surrogatepass")
    wire = tuple(
        WireCall({f"x-roller-{name}": _values(value) for name, value in call.items()}, line)
        for line, call in enumerate(calls, 1)
    )
    native = read(AdapterInput(tmp_path, {}, more.get("launcher", {}), None, wire))
    assert AttemptErrorCode.ADAPTER_FAILED not in {gap.code for gap in checked(native).gaps}
    return native


def _values(value: Any) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)


def gap_codes(native: NativeCapture) -> list[str]:
    """The codes of all gaps."""
    return [gap.code.value for gap in native.gaps]


def family(native: NativeCapture) -> dict[str, tuple[str, str | None]]:
    """Role and parent of each agent."""
    return {item.key: (item.role.value, item.parent_key) for item in native.participants}


def relation_types(native: NativeCapture) -> list[str]:
    """The types of all relations."""
    return [item.type.value for item in native.relations]


def end_of(native: NativeCapture, session: str = "child") -> tuple[ExecutionStatus, LifecycleStatus]:
    """How an agent ended, and whether all that it was given to do is settled."""
    [agent] = [item for item in native.participants if item.key == session]
    return agent.execution_status, agent.lifecycle


TWO = {"root": ("root", None), "child": ("child", "root")}
ORPHAN = {"root": ("root", None), "child": ("child", None)}
UNPROVEN = ["native_relation_unproven"]


@pytest.mark.parametrize(
    ("calls", "log", "expected", "relations", "codes"),
    [
        ([ROOT, CHILD], None, TWO, ["spawn"], []),
        ([ROOT, CHILD, {"session": "child"}], None, TWO, ["spawn"], []),
        ([ROOT, {"session": "child"}], [BEGUN], TWO, ["spawn"], []),
        ([], [{"event": "session", "session": "root"}, BEGUN], TWO, ["spawn"], []),
        ([ROOT, CHILD], [BEGUN], TWO, ["spawn"], []),
        ([ROOT, CHILD, CHILD | {"delegation-tool-id": "call_2"}], None, TWO, ["spawn", "spawn"], []),
        ([ROOT, {"session": "child", "parent-session": "root"}], None, TWO, [], []),
        ([ROOT, CHILD], [BEGUN | {"parent": "child"}], ORPHAN, [], UNPROVEN),
        ([ROOT, CHILD, CHILD | {"parent-session": "other"}], None, ORPHAN, [], UNPROVEN),
        ([ROOT, CHILD | {"parent-session": "nobody"}], None, ORPHAN, [], UNPROVEN),
        ([ROOT, CHILD | {"parent-session": "child"}], None, ORPHAN, [], UNPROVEN),
        ([ROOT, {"session": "root", "delegation-tool-id": "call_1"}], None, {"root": ("root", None)}, [], UNPROVEN),
    ],
    ids=[
        "headers",
        "on one call of several",
        "log, and the name in headers",
        "log alone",
        "both",
        "two delegations of one child",
        "no tool call",
        "log and headers disagree",
        "two parents",
        "a parent that is nobody",
        "its own parent",
        "a tool call without a parent",
    ],
)
def test_who_is_whose_child(
    tmp_path: Path, calls: list[Any], log: list[Any] | None, expected: object, relations: list[str], codes: list[str]
) -> None:
    """One parent, named by all, that is an agent of the run; a spawn where the tool call stands beside it."""
    native = capture(tmp_path, *calls, log=log)
    assert family(native) == expected
    assert relation_types(native) == relations
    assert gap_codes(native) == codes


@pytest.mark.parametrize("other", [{"status": "failed"}, {"status": "interrupted"}, {"outcome": "in_another_way"}])
def test_a_delegation_that_ended_in_two_ways_ended_in_none(tmp_path: Path, other: dict[str, str]) -> None:
    """Neither line wins, and nothing is known of the child's end."""
    native = capture(tmp_path, ROOT, CHILD, log=[ENDED, ENDED | other, DELIVERED])
    assert relation_types(native) == ["spawn", "result_delivered"]
    assert gap_codes(native) == UNPROVEN
    assert end_of(native) == (ExecutionStatus.UNKNOWN, LifecycleStatus.UNKNOWN)


@pytest.mark.parametrize("other", [{"event": "acknowledged"}, {"to": "child"}])
def test_one_tool_result_is_not_two_things(tmp_path: Path, other: dict[str, str]) -> None:
    """An acknowledgement is never a result, and what one agent received no other did."""
    native = capture(tmp_path, ROOT, CHILD, log=[ENDED, DELIVERED, DELIVERED | other])
    assert (relation_types(native), gap_codes(native)) == (["spawn", "child_completed"], UNPROVEN)
    assert end_of(native) == (ExecutionStatus.COMPLETED, LifecycleStatus.UNKNOWN)


def test_what_is_said_twice_is_told_once(tmp_path: Path) -> None:
    """Of a delivery and of an end."""
    native = capture(tmp_path, ROOT, CHILD, log=[DELIVERED, DELIVERED, ENDED, ENDED])
    assert relation_types(native) == ["spawn", "result_delivered", "child_completed"]
    assert native.gaps == ()


def test_an_answer_that_is_logged_twice_is_named(tmp_path: Path) -> None:
    """One call could stand for both."""
    output = {"event": "output", "session": "root", "response_id": "resp_1"}
    assert gap_codes(capture(tmp_path, ROOT, log=[output, output])) == ["native_id_not_unique"]


def test_parent_and_tool_call_must_stand_in_one_call(tmp_path: Path) -> None:
    """The same values in two calls prove no delegation."""
    apart = [{"session": "child", "parent-session": "root"}, {"session": "child", "delegation-tool-id": "call_1"}]
    native = capture(tmp_path, ROOT, *apart)
    assert (relation_types(native), gap_codes(native)) == ([], UNPROVEN)


def test_a_circle_has_no_parents(tmp_path: Path) -> None:
    """Each is a child of somebody unknown; one who is a child of the circle keeps its parent."""
    ring = [{"session": one, "parent-session": two} for one, two in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"))]
    native = capture(tmp_path, ROOT, *ring)
    child = ("child", None)
    assert family(native) == {"root": ("root", None), "a": child, "b": child, "c": child, "d": ("child", "a")}
    assert gap_codes(native) == UNPROVEN * 3


@pytest.mark.parametrize(
    ("call", "owners"),
    [({"session": ("a", "b")}, []), ({"session": ("a", "a")}, ["a"]), ({"session": "x" * 600}, []), ({}, [])],
)
def test_a_header_that_is_no_name_makes_no_agent(tmp_path: Path, call: dict[str, Any], owners: list[str]) -> None:
    """Two values, or one that is no id; a call without the header is the common finalizer's business."""
    native = capture(tmp_path, call)
    assert [item.key for item in native.participants] == owners
    assert gap_codes(native) == (["native_shape_unknown"] if call and not owners else [])
    assert native.hook_header == "x-roller-session"


def test_without_a_log_coverage_and_lifecycle_are_unknown(tmp_path: Path) -> None:
    """Headers say who asked, and nothing of what came back."""
    native = capture(tmp_path, ROOT, CHILD)
    assert native.coverage.outputs is None
    assert {item.execution_status.value for item in native.participants} == {"unknown"}
    assert [item.lifecycle for item in native.participants] == [LifecycleStatus.COMPLETE, LifecycleStatus.UNKNOWN]
    assert native.subtasks is SubtaskSupport.SUPPORTED
    assert capture(tmp_path, ROOT).subtasks is SubtaskSupport.UNKNOWN


def test_outputs_of_the_log_are_claimed_and_expected(tmp_path: Path) -> None:
    """By response id, with the purpose that the agent gives them."""
    outputs = [
        {"event": "output", "session": "root", "response_id": "r1"},
        {"event": "output", "session": "root", "response_id": "r2", "purpose": "compaction"},
        {"event": "output", "session": "child"},
    ]
    native = capture(tmp_path, ROOT, CHILD, log=[{"event": "log", "agent_version": "7"}, *outputs])
    claimed = {(item.field, item.value): item.participant_key for item in native.identity_claims}
    assert claimed[("response_id", "r1")] == claimed[("header:x-roller-session", "root")] == "root"
    assert claimed[("header:x-roller-session", "child")] == "child"
    assert [item.output_id for item in native.coverage.outputs or ()] == ["r1", "r2", None]
    assert {item.value: item.purpose for item in native.purpose_claims} == {"r1": Purpose.AGENT, "r2": "compaction"}
    assert native.harness_version == "7"
    assert not native.version_tested


def test_a_log_without_outputs_leaves_coverage_unknown(tmp_path: Path) -> None:
    """Nothing expected is not the same as nothing missing."""
    assert capture(tmp_path, ROOT, log=[{"event": "session", "session": "root"}]).coverage.outputs is None


def test_owners_may_be_told_by_the_log_alone(tmp_path: Path) -> None:
    """Then no call is asked for a header."""
    native = capture(tmp_path, log=[{"event": "output", "session": "root", "response_id": "r1"}])
    assert native.hook_header is None
    assert [item.field for item in native.identity_claims] == ["response_id"]


def test_purposes_come_from_a_header_too(tmp_path: Path) -> None:
    """Words of the closed list; others say nothing."""
    native = capture(tmp_path, ROOT | {"purpose": "title"}, ROOT | {"purpose": "poetry"})
    assert [(item.field, item.value) for item in native.purpose_claims] == [("header:x-roller-purpose", "title")]


@pytest.mark.parametrize(
    ("log", "relations", "status", "lifecycle"),
    [
        ([ENDED, DELIVERED], ["result_delivered", "child_completed"], "completed", "complete"),
        ([ENDED | {"status": "failed"}, DELIVERED], ["result_delivered", "child_failed"], "failed", "complete"),
        ([ENDED | {"status": "interrupted"}], [], "interrupted", "pending"),
        ([ENDED], ["child_completed"], "completed", "pending"),
        ([DELIVERED], ["result_delivered"], "unknown", "pending"),
        ([DELIVERED | {"event": "acknowledged"}], ["launch_acknowledged"], "unknown", "pending"),
        ([], [], "unknown", "pending"),
    ],
)
def test_how_a_child_ended(tmp_path: Path, log: list[Any], relations: list[str], status: str, lifecycle: str) -> None:
    """Ended and delivered is complete; what the log does not say has not happened."""
    native = capture(tmp_path, ROOT, CHILD, log=[BEGUN, *log])
    child = native.participants[1]
    assert relation_types(native) == ["spawn", *relations]
    assert (child.execution_status, child.lifecycle) == (status, lifecycle)
    assert native.gaps == ()


def test_events_of_a_child_with_two_delegations_must_name_one(tmp_path: Path) -> None:
    """A resumed child is judged by its new tool call."""
    again = CHILD | {"delegation-tool-id": "call_2"}
    unnamed = capture(tmp_path, ROOT, CHILD, again, log=[ENDED, DELIVERED])
    assert (relation_types(unnamed), gap_codes(unnamed)) == (["spawn", "spawn"], UNPROVEN)
    second = {"delegation_tool_id": "call_2"}
    named = capture(tmp_path, ROOT, CHILD, again, log=[ENDED | second, DELIVERED | second])
    about = {(item.type.value, item.tool_call_id, item.delegation) for item in named.relations}
    assert about == {
        ("spawn", "call_1", 1),
        ("spawn", "call_2", 2),
        ("result_delivered", "call_2", 2),
        ("child_completed", "call_2", 2),
    }
    assert end_of(named) == (ExecutionStatus.UNKNOWN, LifecycleStatus.PENDING)  # of the first one nothing is told


def test_a_child_ended_as_what_it_was_given_last(tmp_path: Path) -> None:
    """In whatever order the log tells the ends."""
    again = CHILD | {"delegation-tool-id": "call_2"}
    ends = [ENDED | {"status": "failed"} | SECOND, ENDED | FIRST]
    native = capture(tmp_path, ROOT, CHILD, again, log=[*ends, DELIVERED | FIRST, DELIVERED | SECOND])
    assert end_of(native) == (ExecutionStatus.FAILED, LifecycleStatus.COMPLETE)


FIRST, SECOND = {"delegation_tool_id": "call_1"}, {"delegation_tool_id": "call_2"}


@pytest.mark.parametrize(
    ("log", "status", "lifecycle"),
    [
        ([ENDED | FIRST, ENDED | SECOND], ExecutionStatus.COMPLETED, LifecycleStatus.COMPLETE),
        ([ENDED | FIRST, ENDED | SECOND | {"status": "failed"}], ExecutionStatus.FAILED, LifecycleStatus.COMPLETE),
        ([ENDED | FIRST], ExecutionStatus.UNKNOWN, LifecycleStatus.PENDING),
        ([ENDED | SECOND], ExecutionStatus.UNKNOWN, LifecycleStatus.PENDING),
    ],
)
def test_each_delegation_of_a_child_needs_its_own_end(
    tmp_path: Path, log: list[Any], status: ExecutionStatus, lifecycle: LifecycleStatus
) -> None:
    """The end of an earlier one says nothing of what the child was given to do later."""
    again = CHILD | {"delegation-tool-id": "call_2"}
    native = capture(tmp_path, ROOT, CHILD, again, log=[*log, DELIVERED | FIRST, DELIVERED | SECOND])
    assert end_of(native) == (status, lifecycle)
    assert native.gaps == ()


@pytest.mark.parametrize(
    ("calls", "log", "status"),
    [
        ([CHILD], [ENDED | {"delegation_tool_id": "call_9"}, DELIVERED], ExecutionStatus.UNKNOWN),
        ([CHILD], [ENDED, DELIVERED, DELIVERED | {"delegation_tool_id": "call_9"}], ExecutionStatus.COMPLETED),
        (
            [CHILD],
            [ENDED, DELIVERED, DELIVERED | {"to": "nobody", "run_id": "r", "text": "x"}],
            ExecutionStatus.COMPLETED,
        ),
        ([CHILD, {"session": "child", "delegation-tool-id": "call_9"}], [ENDED, DELIVERED], ExecutionStatus.COMPLETED),
        ([CHILD, CHILD | {"parent-session": "other"}], [ENDED, DELIVERED], ExecutionStatus.COMPLETED),
        ([CHILD | {"parent-session": "nobody"}], [ENDED, DELIVERED], ExecutionStatus.COMPLETED),
    ],
    ids=["an end", "a result", "a receiver", "a tool call", "a parent", "a stranger"],
)
def test_what_does_not_fit_leaves_the_lifecycle_unknown(
    tmp_path: Path, calls: list[Any], log: list[Any], status: ExecutionStatus
) -> None:
    """An id that is nobody's is a child's that is not known as well as it may be a slip."""
    native = capture(tmp_path, ROOT, *calls, log=log)
    assert gap_codes(native) == UNPROVEN
    assert end_of(native) == (status, LifecycleStatus.UNKNOWN)


def test_one_tool_call_starts_one_agent(tmp_path: Path) -> None:
    """Where two claim it, nothing tells which of them its result is of. The same id of another parent is another."""
    twin = CHILD | {"session": "twin"}
    nephew = CHILD | {"session": "nephew", "parent-session": "child"}
    again = CHILD | {"delegation-tool-id": "call_2"}
    told = [line | {"session": one} for one in ("twin", "nephew") for line in (ENDED, DELIVERED)]
    log = [line | which for which in (FIRST, SECOND) for line in (ENDED, DELIVERED)]
    native = capture(tmp_path, ROOT, CHILD, again, twin, nephew, log=[*log, *told])
    assert {(item.child_key, item.tool_call_id) for item in native.relations} == {
        ("child", "call_2"),
        ("nephew", "call_1"),
    }
    assert gap_codes(native) == ["native_id_not_unique"]
    assert [end_of(native, one)[1].value for one in ("child", "twin", "nephew")] == ["unknown", "unknown", "complete"]


def test_a_result_in_a_message_is_bound_by_the_run_that_it_began(tmp_path: Path) -> None:
    """Text alone is no proof; the run id is that of the call which carries it first."""
    native = capture(tmp_path, ROOT, CHILD, log=[DELIVERED | {"run_id": "run-7", "text": "child says: done"}])
    [probe] = native.context_probes
    assert probe.item == NotificationItem(("child says: done",), "run-7", "header:x-roller-run-id")
    assert probe.relation.delivery is not None
    assert (probe.relation.delivery.bound_by, probe.relation.delivery.bound_id) == (
        BoundBy.ANNOUNCEMENT_RUN_ID,
        "run-7",
    )


@pytest.mark.parametrize(
    ("to", "receiver", "codes"), [("root", None, []), ("other", "other", []), ("nobody", "-", UNPROVEN)]
)
def test_somebody_else_may_receive_a_result(tmp_path: Path, to: str, receiver: str | None, codes: list[str]) -> None:
    """Another agent of the run, and no stranger."""
    other = {"session": "other", "parent-session": "root"}
    native = capture(tmp_path, ROOT, CHILD, other, log=[DELIVERED | {"to": to}])
    receivers = [item.receiver_key for item in native.relations if item.type is RelationType.RESULT_DELIVERED]
    assert receivers == ([] if receiver == "-" else [receiver])
    assert [probe.item for probe in native.context_probes] == [ToolResultItem("call_1")] * len(receivers)
    assert gap_codes(native) == codes


@pytest.mark.parametrize(("named", "codes"), [(None, ["root_ambiguous"]), ("two", []), ("three", ["root_ambiguous"])])
def test_of_several_roots_the_launcher_may_name_one(tmp_path: Path, named: str | None, codes: list[str]) -> None:
    """Else it is not known whose run this is."""
    launcher = {"root_native_id": named} if named else {}
    native = capture(tmp_path, {"session": "one"}, {"session": "two"}, launcher=launcher)
    assert gap_codes(native) == codes
    assert native.lifecycle is (LifecycleStatus.UNKNOWN if codes else None)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("no json\n", "native_line_unreadable"),
        ("[1]\n", "native_line_unreadable"),
        ('{"event": "ended", "sess', "native_line_unreadable"),
        ({"event": "ended", "session": "child", "status": "fine"}, "native_shape_unknown"),
        ({"event": "ended", "session": "child", "status": ["completed"]}, "native_shape_unknown"),
        ({"event": "output", "session": "root", "purpose": {}}, "native_shape_unknown"),
        ({"event": "output", "session": ["root"]}, "native_shape_unknown"),
        ({"event": "output"}, "native_shape_unknown"),
        ({"event": "dance", "session": "root"}, "native_shape_unknown"),
        ({"event": ["ended"], "session": "root"}, "native_shape_unknown"),
        (BEGUN | {"parent": ["root"]}, "native_shape_unknown"),
        (ENDED | {"delegation_tool_id": 7}, "native_shape_unknown"),
        (DELIVERED | {"to": False}, "native_shape_unknown"),
        (DELIVERED | {"run_id": "", "text": "done"}, "native_shape_unknown"),
        (DELIVERED | {"run_id": "run-7"}, "native_shape_unknown"),
        (DELIVERED | {"text": "done"}, "native_shape_unknown"),
        ({"session": "root"}, "native_shape_unknown"),
    ],
    ids=repr,
)
def test_one_bad_line_is_one_gap(tmp_path: Path, line: Any, code: str) -> None:
    """The rest of the log counts, and of the line nothing that it may have meant."""
    output = {"event": "output", "session": "root", "response_id": "r1"}
    native = capture(tmp_path, ROOT, CHILD, log=[output, line])
    assert gap_codes(native) == [code]
    assert relation_types(native) == ["spawn"]
    assert (native.coverage.outputs or ())[0].output_id == "r1"


@pytest.mark.parametrize("odd", [None, True, 7, "", "x", "\ud800", "nul\0", "x" * 2000, [], ["x"], {}], ids=ascii)
def test_every_member_of_every_event_may_hold_any_kind_of_value(tmp_path: Path, odd: Any) -> None:
    """Nothing raises, and the adapter keeps its contract."""
    event = {
        "event": "delivered",
        "session": "child",
        "parent": "root",
        "delegation_tool_id": "call_1",
        "to": "root",
        "run_id": "run-7",
        "text": "done",
        "status": "failed",
        "outcome": "tired",
        "response_id": "r1",
        "purpose": "agent",
        "agent_version": "1",
    }
    for kind in ("log", "session", "output", "ended", "acknowledged", "delivered"):
        for name in event:
            capture(tmp_path, ROOT, CHILD, log=[{**event, "event": kind, name: odd}])


def test_a_log_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Nothing outside of the run's folder is read."""
    (tmp_path / LOG_NAME).symlink_to("/etc/hostname")
    assert gap_codes(capture(tmp_path, ROOT)) == ["file_refused"]


def test_evidence_leads_to_the_event_and_the_line(tmp_path: Path) -> None:
    """The call whose headers said so, or the log's line; an id that JSON could escape is left out of the locator."""
    native = capture(tmp_path, ROOT, CHILD, {"session": "a b"}, log=[BEGUN, ENDED])
    places = {item.key: item.evidence[0] for item in native.participants}
    assert (places["child"].source, places["child"].locator) == ("events.jsonl", "line:2 id:child")
    assert places["a b"].locator == "line:3"
    spawn, completed = native.relations
    assert (spawn.evidence[0].source, spawn.evidence[0].locator) == ("events.jsonl", "line:2 id:call_1")
    assert (completed.evidence[0].source, completed.evidence[0].locator) == (LOG_NAME, "line:2 id:child")


def test_a_call_of_somebody_else_makes_no_agent(tmp_path: Path) -> None:
    """Without this attempt's own credential its headers say nothing, whatever they say."""
    builder = AttemptBuilder(tmp_path / "attempt", harness="generic")
    body = request_body({"role": "user", "content": "x"})
    for session, credential in (("root", "own"), ("stranger", "foreign")):
        builder.call(
            body,
            message_body(f"msg_{session}"),
            session=None,
            roller_headers=(("x-roller-session", session),),
        )
        [begun] = [event for event in builder.events if event.get("sequence") == builder.sequence]
        begun["credential"] = credential
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    assert [item["native_ids"] for item in manifest["participants"]] == [{"session_id": ["root"]}]
    assert manifest["counts"]["identity_status"] == {"resolved": 1, "unattributed": 1}
