"""Which tool call delegated to which session, and how each delegation ended: ids that agree, or a gap."""

from pathlib import Path

import pytest

from roller_capture.capture_protocol import NotificationItem, ToolResultItem
from roller_capture.vocabulary import LifecycleStatus, RelationType
from tests.adapters.deepseek.session_logs import (
    CHILD,
    OTHER,
    ROOT,
    Record,
    SessionLogs,
    answer,
    arrived,
    call,
    catalog,
    child_log,
    ended,
    event,
    gap_codes,
    header,
    launch,
    relation_types,
    result,
    sent,
    settled,
    turn,
)

_LAUNCHED = {"spawn": 1, "launch_acknowledged": 1}
_WHOLE = {**_LAUNCHED, "child_completed": 1, "result_delivered": 1}


@pytest.fixture
def logs(tmp_path: Path) -> SessionLogs:
    return SessionLogs(tmp_path)


def accepted(through: int, session_id: str = ROOT) -> Record:
    return event("session-log-deepseek/delivery-accepted", sessionId=session_id, throughSeq=through)


def test_a_background_child_gives_all_relations(logs: SessionLogs) -> None:
    """Launch, acknowledgement, end and delivery, each with the lines that prove it."""
    logs.write([header(), *turn(*launch()), *turn(settled(), answer("m-2"))])
    logs.write(child_log())
    native = logs.read()
    assert relation_types(native) == _WHOLE
    assert native.gaps == ()
    assert ended(native) == {ROOT: ("completed", "complete"), CHILD: ("completed", "complete")}
    assert {(relation.parent_key, relation.child_key, relation.tool_call_id) for relation in native.relations} == {
        (ROOT, CHILD, "tool-1")
    }


@pytest.mark.parametrize(
    ("reason", "word", "relations", "outcome"),
    [
        ("completed", "finished", _WHOLE, ("completed", "complete")),
        ("max-tokens", "finished", _WHOLE, ("completed", "complete")),
        ("error", "failed", {**_LAUNCHED, "child_failed": 1, "result_delivered": 1}, ("failed", "complete")),
        ("aborted", "stopped", _LAUNCHED, ("interrupted", "complete")),
    ],
)
def test_ways_to_end(
    logs: SessionLogs, reason: str, word: str, relations: dict[str, int], outcome: tuple[str, str]
) -> None:
    """The child's own log and the notice agree; what was stopped delivered nothing."""
    logs.write([header(), *turn(*launch()), *turn(settled(word=word))])
    logs.write(child_log(*turn(answer("m-c"), reason=reason, code="SERVER")))
    native = logs.read()
    assert relation_types(native) == relations
    assert ended(native)[CHILD] == outcome
    failed = [relation.outcome for relation in native.relations if relation.type is RelationType.CHILD_FAILED]
    assert failed == ["SERVER"] * len(failed)


@pytest.mark.parametrize(("reason", "word"), [("error", "finished"), ("completed", "failed"), (None, "finished")])
def test_a_notice_that_the_childs_own_log_does_not_confirm_proves_no_end(
    logs: SessionLogs, reason: str | None, word: str
) -> None:
    """Neither completed nor failed nor delivered, and a gap; what became of it is unknown."""
    logs.write([header(), *turn(*launch()), *turn(settled(word=word))])
    logs.write(child_log(*turn(answer("m-c"), reason=reason)))
    native = logs.read()
    assert relation_types(native) == _LAUNCHED
    assert ended(native)[CHILD][1] == "unknown"
    assert gap_codes(native) == {"native_relation_unproven"}


def test_a_child_that_nobody_heard_of_again_is_pending(logs: SessionLogs) -> None:
    """Also where its own log says that its turn was over."""
    logs.write([header(), *turn(*launch())])
    logs.write(child_log())
    native = logs.read()
    assert relation_types(native) == _LAUNCHED
    assert ended(native)[CHILD] == ("completed", "pending")


def test_a_notice_that_came_in_and_was_not_read_is_pending(logs: SessionLogs) -> None:
    """The result was not delivered."""
    logs.write([header(), *turn(*launch()), arrived(settled())])
    logs.write(child_log())
    native = logs.read()
    assert relation_types(native) == {**_LAUNCHED, "child_completed": 1}
    assert ended(native)[CHILD] == ("completed", "pending")


def test_a_stopped_child_needs_no_delivery(logs: SessionLogs) -> None:
    """Its notice may never be read, where an agent had it stopped; cut by the end of the run, it is pending."""
    stop = [
        call("tool-2", "interrupt_agent", agent_id=CHILD),
        result("tool-2", f"interrupt requested for agent {CHILD}"),
    ]
    logs.write(child_log(*turn(reason="aborted")))
    for told, lifecycle in ((stop, "complete"), ([], "pending")):
        logs.write([header(), *turn(*launch(), *told), arrived(settled(word="stopped"))])
        assert ended(logs.read())[CHILD] == ("interrupted", lifecycle)


def _stop(tool_id: str) -> list[Record]:
    return [
        call(tool_id, "interrupt_agent", agent_id=CHILD),
        result(tool_id, f"interrupt requested for agent {CHILD}"),
    ]


@pytest.mark.parametrize(
    ("stopped_again", "lifecycle"), [(False, "pending"), (True, "complete")], ids=["cut", "stopped again"]
)
def test_a_stop_settles_only_what_was_given_before(logs: SessionLogs, *, stopped_again: bool, lifecycle: str) -> None:
    """A stopped child is sent more, and that is cut by the end of the run: of its notice nobody has read."""
    more = [
        call("tool-3", "send_message", agent_id=CHILD),
        result("tool-3", f"message delivered to agent {CHILD}"),
    ]
    stopped = settled(word="stopped", message_id="n-1", said="One.")
    again = _stop("tool-4") if stopped_again else []
    cut = arrived(settled(word="stopped", message_id="n-2", said="Two."))
    logs.write([header(), *turn(*launch(), *_stop("tool-2"), stopped, *more, *again), cut])
    logs.write(child_log(*turn(reason="aborted"), sent(), *turn(reason="aborted")))
    native = logs.read()
    assert ended(native)[CHILD] == ("interrupted", lifecycle)
    assert relation_types(native) == dict.fromkeys(_LAUNCHED, 2)
    assert native.gaps == ()


def test_a_stop_does_not_settle_what_is_sent_before_its_notice(logs: SessionLogs) -> None:
    """The message came when the child was still at work: it is no delegation of its own, and the stop was before it."""
    more = [
        call("tool-3", "send_message", agent_id=CHILD),
        result("tool-3", f"message delivered to agent {CHILD}"),
    ]
    logs.write(child_log(*turn(reason="aborted")))
    for told, lifecycle in (
        ([*_stop("tool-2"), *more], "pending"),
        ([*more, *_stop("tool-2")], "complete"),
        ([*_stop("tool-2"), *more, *_stop("tool-4")], "complete"),
    ):
        logs.write([header(), *turn(*launch(), *told), arrived(settled(word="stopped"))])
        assert ended(logs.read())[CHILD] == ("interrupted", lifecycle)


@pytest.mark.parametrize(("tasks", "lifecycle"), [(1, "complete"), (2, "pending")])
def test_a_stop_by_another_agent_settles_an_only_delegation(logs: SessionLogs, tasks: int, lifecycle: str) -> None:
    """In the log of another agent than the parent nothing says what was given before it."""
    more = [
        settled(word="stopped", message_id="n-1", said="One."),
        call("tool-3", "send_message", agent_id=CHILD),
        result("tool-3", f"message delivered to agent {CHILD}"),
    ]
    cut = arrived(settled(word="stopped", message_id="n-2", said="Two."))
    others = launch("tool-9", OTHER)
    logs.write(
        [header(), *turn(*launch(), *others, settled(OTHER, message_id="n-9"), *(more if tasks > 1 else [])), cut]
    )
    logs.write(child_log(*turn(*_stop("tool-5")), child=OTHER))
    again = [sent(), *turn(reason="aborted")] if tasks > 1 else []
    logs.write(child_log(*turn(reason="aborted"), *again))
    assert ended(logs.read())[CHILD] == ("interrupted", lifecycle)


_RESUMED = (
    *turn(*launch()),
    *turn(
        settled(message_id="n-1", said="One."),
        answer("m-2", "tool-2"),
        call("tool-2", "send_message", agent_id=CHILD),
        result("tool-2", f"message delivered to agent {CHILD}"),
    ),
    *turn(settled(message_id="n-2", said="Two.")),
)


def test_a_message_to_a_settled_child_is_a_delegation_of_its_own(logs: SessionLogs) -> None:
    """With its own tool id, acknowledgement, end and delivery; each turn of the child ends its own delegation."""
    logs.write([header(), *_RESUMED])
    logs.write(child_log(*turn(answer("m-c1")), sent(), *turn(answer("m-c2"))))
    native = logs.read()
    assert relation_types(native) == {name: 2 * count for name, count in _WHOLE.items()}
    assert {(item.delegation, item.tool_call_id) for item in native.relations} == {(1, "tool-1"), (2, "tool-2")}
    ends = [item.evidence[0].locator for item in native.relations if item.type is RelationType.CHILD_COMPLETED]
    assert ends == ["line:4", "line:8"]
    assert native.gaps == ()


def test_a_message_to_a_child_at_work_is_none(logs: SessionLogs) -> None:
    """It steers the delegation that is under way."""
    message = [
        call("tool-2", "send_message", agent_id=CHILD),
        result("tool-2", f"message delivered to agent {CHILD}"),
    ]
    logs.write([header(), *turn(*launch(), *message), *turn(settled())])
    logs.write(child_log())
    assert relation_types(logs.read()) == _WHOLE


def test_an_earlier_end_is_unproven_where_the_logs_tell_different_numbers_of_delegations(logs: SessionLogs) -> None:
    """The last turn ends the last delegation; which one ended the first nothing tells."""
    logs.write([header(), *_RESUMED])
    logs.write(child_log(*turn(answer("m-c1")), *turn(answer("m-c2"))))
    native = logs.read()
    completed = [item.delegation for item in native.relations if item.type is RelationType.CHILD_COMPLETED]
    assert completed == [2]
    assert ended(native)[CHILD][1] == "unknown"
    assert gap_codes(native) == {"native_relation_unproven"}


def test_two_notices_for_one_delegation_prove_no_end(logs: SessionLogs) -> None:
    """They do not take turns with delegations, so that nothing is said of either."""
    logs.write([header(), *turn(*launch()), *turn(settled(message_id="n-1")), *turn(settled(message_id="n-2"))])
    logs.write(child_log())
    native = logs.read()
    assert relation_types(native) == _LAUNCHED
    assert ended(native)[CHILD][1] == "unknown"
    assert gap_codes(native) == {"native_relation_unproven"}


def _workflow(run_id: str, *children: str, first: int = 1) -> list[Record]:
    records = [event("tool-workflow/run-start", runId=run_id, name="w")]
    for number, child in enumerate(children, first):
        records += [catalog(child), event("tool-workflow/agent-start", runId=run_id, seq=number, childId=child)]
    records += [
        event("tool-workflow/agent-end", runId=run_id, seq=number, outcome="completed")
        for number, _ in enumerate(children, first)
    ]
    return [*records, event("tool-workflow/run-end", runId=run_id, stopReason="completed")]


def test_a_workflow_delivers_by_its_tool_result(logs: SessionLogs) -> None:
    """Its agents have places in it, and no acknowledgement."""
    flow = [
        answer("m-1", "tool-1"),
        call("tool-1", "workflow"),
        *_workflow("run-1", CHILD, OTHER),
        result("tool-1", "Done."),
    ]
    logs.write([header(), *turn(*flow)])
    logs.write(child_log())
    logs.write(child_log(child=OTHER))
    native = logs.read()
    assert relation_types(native) == {"spawn": 2, "child_completed": 2, "result_delivered": 2}
    assert {(item.child_key, item.task_index) for item in native.relations} == {(CHILD, 0), (OTHER, 1)}
    assert [probe.item for probe in native.context_probes] == [ToolResultItem("tool-1")] * 2
    assert native.gaps == ()


@pytest.mark.parametrize(
    ("outcome", "is_error", "lifecycle"),
    [("completed", False, "complete"), ("completed", True, "pending"), ("paused", False, "unknown")],
)
def test_what_a_workflow_does_not_deliver_or_tell_is_not_complete(
    logs: SessionLogs, *, outcome: str, is_error: bool, lifecycle: str
) -> None:
    """A run that ends in an error brings its parent no result; a word that is not known says nothing."""
    flow = _workflow("run-1", CHILD)
    flow[-2]["data"]["outcome"] = outcome
    told = [answer("m-1", "tool-1"), call("tool-1", "workflow"), *flow, result("tool-1", "So.", is_error=is_error)]
    logs.write([header(), *turn(*told)])
    logs.write(child_log())
    assert ended(logs.read())[CHILD] == ("completed", lifecycle)


@pytest.mark.parametrize(
    "records",
    [
        [answer("m-1", "tool-1"), call("tool-1"), result("tool-1", f"started subagent {CHILD}")],
        [result("tool-1", f"started subagent {CHILD}")],
        [answer("m-1", "tool-1"), call("tool-1"), result("tool-1", "Done.")],
        [
            event("tool-workflow/run-start", runId="r"),
            event("tool-workflow/agent-start", runId="r", seq=1, childId=CHILD),
        ],
    ],
    ids=["unlisted", "without its call", "unnamed", "in a workflow"],
)
def test_an_agent_that_was_started_and_is_nowhere_makes_the_end_unknown(
    logs: SessionLogs, records: list[Record]
) -> None:
    """Whether it has ended nobody can say."""
    logs.write([header(), *turn(*records)])
    native = logs.read()
    assert [item.key for item in native.participants] == [ROOT]
    assert native.lifecycle is LifecycleStatus.UNKNOWN


def test_what_another_tool_says_starts_no_agent(logs: SessionLogs) -> None:
    """The harness's own sentence counts of its own tools only."""
    logs.write([header(), *turn(call("tool-1", "bash"), result("tool-1", f"started subagent {CHILD}"))])
    assert logs.read().lifecycle is None


def test_a_workflow_run_between_two_open_calls_belongs_to_neither(logs: SessionLogs) -> None:
    """No id ties a run to a tool call, so that it must be the only one that was open."""
    calls = [call("tool-1", "workflow"), call("tool-2", "workflow")]
    logs.write([header(), *turn(*calls, *_workflow("run-1", CHILD), result("tool-1", "x"), result("tool-2", "x"))])
    logs.write(child_log())
    native = logs.read()
    assert native.relations == ()
    assert gap_codes(native) == {"native_relation_unproven"}
    assert {item.key: item.parent_key for item in native.participants} == {ROOT: None, CHILD: None}


def test_two_runs_in_one_workflow_call_belong_to_none(logs: SessionLogs) -> None:
    """A call makes one run: of two, one is another call's, that had returned before its run began."""
    before = [call("tool-1", "workflow"), result("tool-1", "It runs in the background.")]
    late = [call("tool-2", "workflow"), *_workflow("run-1", CHILD), *_workflow("run-2", OTHER)]
    logs.write([header(), *turn(*before, *late, result("tool-2", "Done."))])
    logs.write(child_log())
    logs.write(child_log(child=OTHER))
    native = logs.read()
    assert native.relations == ()
    assert gap_codes(native) == {"native_relation_unproven"}


@pytest.mark.parametrize(
    "records",
    [
        [call("tool-1"), catalog(), result("tool-1", f"started subagent {CHILD}", is_error=True)],
        [call("tool-1"), catalog(), result("tool-1", "started subagent")],
        [call("tool-1"), catalog(), result("tool-1", f"I have started subagent {CHILD}")],
        [call("tool-1"), catalog()],
        [call("tool-1", "bash"), catalog(), result("tool-1", f"started subagent {CHILD}")],
        [call("tool-1"), result("tool-1", f"started subagent {CHILD}"), catalog()],
    ],
    ids=["error", "no-id", "other-words", "no-result", "other-tool", "listed-afterwards"],
)
def test_a_child_whose_launch_is_not_proven_has_no_relations(logs: SessionLogs, records: list[Record]) -> None:
    """It is a participant, and its own header still names its parent unless something contradicts."""
    logs.write([header(), *turn(*records)])
    logs.write(child_log())
    native = logs.read()
    assert native.relations == ()
    assert [item.key for item in native.participants] == [ROOT, CHILD]
    assert "native_relation_unproven" in gap_codes(native)
    assert ended(native)[CHILD] == ("completed", "unknown")


def test_a_header_that_names_another_parent_contradicts_the_launch(logs: SessionLogs) -> None:
    """Neither of the two wins."""
    logs.write([header(), *turn(*launch())])
    logs.write(child_log(parent=OTHER))
    native = logs.read()
    assert native.relations == ()
    assert {item.key: item.parent_key for item in native.participants}[CHILD] is None


def test_two_launches_of_one_child_prove_none(logs: SessionLogs) -> None:
    """An agent is launched once."""
    again = [call("tool-2"), result("tool-2", f"started subagent {CHILD}")]
    logs.write([header(), *turn(call("tool-1"), call("tool-2"), *launch()[2:], again[1])])
    logs.write(child_log())
    native = logs.read()
    assert native.relations == ()
    assert gap_codes(native) == {"native_relation_unproven"}


def test_a_tool_id_that_a_session_uses_twice_delegates_nothing(logs: SessionLogs) -> None:
    """Some models count their tool calls anew, and then an id names two of them."""
    logs.write([header(), *turn(*launch(), call("tool-1", "bash"), result("tool-1", "x"))])
    logs.write(child_log())
    native = logs.read()
    assert native.relations == ()
    assert "native_id_not_unique" in gap_codes(native)


def test_agents_that_launched_one_another_have_no_parents(logs: SessionLogs) -> None:
    """And none is a root."""
    logs.write([header(CHILD, OTHER), *turn(*launch("tool-1", OTHER))])
    logs.write([header(OTHER, CHILD), *turn(*launch("tool-2", CHILD))])
    native = logs.read(CHILD, OTHER)
    assert {item.parent_key for item in native.participants} == {None}
    assert {"root_ambiguous", "native_relation_unproven"} <= gap_codes(native)


def test_a_notice_is_found_in_the_request_that_uploads_its_record(logs: SessionLogs) -> None:
    """At the place that follows from the last event that the provider had accepted."""
    records = [*turn(*launch()), accepted(3), event("turn/start", turn=2), event("x"), settled()]
    logs.write([header(), *records])
    logs.write(child_log())
    items = [probe.item for probe in logs.read().context_probes if isinstance(probe.item, NotificationItem)]
    seq = len(records) - 1
    place = f"context:/dsh_session_log/events/{seq - 3 - 1}/data/id"
    text = f"Background subagent {CHILD} finished and will do no further work unless you send it more."
    assert items == [NotificationItem((text,), "notice-1", place)]


def test_a_notice_is_found_in_the_request_of_the_answer_where_the_log_has_its_id(logs: SessionLogs) -> None:
    """Through the other providers, the log keeps the provider's response ids."""
    logs.write([header(), *turn(*launch()), *turn(settled(), answer("m-2", response_id="resp-2"))])
    logs.write(child_log())
    items = [probe.item for probe in logs.read().context_probes if isinstance(probe.item, NotificationItem)]
    assert [(item.value, item.field) for item in items] == [("resp-2", "response_id")]


def test_notices_of_one_child_are_told_apart_by_what_it_said(logs: SessionLogs) -> None:
    """The harness's sentence is the same in both; where the child said the same too, nothing tells them apart."""
    logs.write([header(), *_RESUMED])
    logs.write(child_log(*turn(answer("m-c1")), sent(), *turn(answer("m-c2"))))
    texts = [probe.item.texts for probe in logs.read().context_probes if isinstance(probe.item, NotificationItem)]
    assert texts == [("One.",), ("Two.",)]
    same = [{**record, "data": {**record["data"]}} for record in _RESUMED]
    for record in same:
        if record["type"] == "user/message":
            record["data"]["content"] = [*record["data"]["content"][:2], {"type": "text", "text": "Same."}]
    logs.write([header(), *same])
    native = logs.read()
    assert [probe for probe in native.context_probes if isinstance(probe.item, NotificationItem)] == []
    assert gap_codes(native) == {"native_relation_unproven"}


def test_the_result_of_a_responses_tool_call_is_looked_for_by_its_call_id(logs: SessionLogs) -> None:
    """The native id has two parts, and a request's result only the first."""
    logs.write([header(), *turn(*launch("call_1|fc_1"))])
    logs.write(child_log())
    native = logs.read()
    assert [probe.item for probe in native.context_probes] == [ToolResultItem("call_1")]
    assert {relation.tool_call_id for relation in native.relations} == {"call_1|fc_1"}
