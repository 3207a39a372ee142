"""Tests of notifications that the harness queued: which still wait, which were given out, and to whom."""

from pathlib import Path

import pytest

from tests.adapters.claude_code.session_logs import (
    AGENT,
    Record,
    SessionLogs,
    assistant,
    gap_codes,
    launched,
    notification,
    notification_text,
    prompt,
    relation_rows,
    tool_result,
    tool_use,
)

_GRAND = "afedcba9876543210"
_TOOL = "toolu_g"


def _queue(operation: str, content: str | None = None) -> Record:
    return {"type": "queue-operation", "operation": operation} | ({"content": content} if content else {})


def _put(agent_id: str = _GRAND, tool_id: str = _TOOL, answer: str = "An answer.", status: str = "completed") -> Record:
    return _queue("enqueue", _text(agent_id, tool_id, answer, status))


def _text(agent_id: str, tool_id: str, answer: str = "An answer.", status: str = "completed") -> str:
    return notification_text(agent_id, tool_id, status).replace("An answer.", answer)


_TAKEN = _queue("remove")


def _nested(logs: SessionLogs, *queue: Record, heard: bool = False) -> None:
    """A child that goes on while its own background child ends; the queue stands in the root's log."""
    logs.write_root(
        [
            _queue("enqueue", "Do it."),
            _queue("dequeue"),
            prompt("r1"),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_1")),
            *queue,
        ]
    )
    told = [notification("c5", "c4", _GRAND, _TOOL)] if heard else []
    logs.write_agent(
        [
            prompt("c1"),
            assistant("c2", "c1", "msg_c1", tool_use(_TOOL)),
            tool_result(
                "c3",
                "c2",
                _TOOL,
                [{"type": "text", "text": f"Async agent launched successfully.\nagentId: {_GRAND} (internal)"}],
                sourceToolAssistantUUID="c2",
            ),
            assistant("c4", "c3", "msg_c2", tool_use("toolu_b", "Bash")),
            *told,
            assistant("c6", "c5" if heard else "c4", "msg_c3"),
        ],
        meta={"toolUseId": "toolu_1"},
    )
    logs.write_agent([prompt("g1"), assistant("g2", "g1", "msg_g1")], _GRAND, {"toolUseId": _TOOL})


def _grandchild(logs: SessionLogs) -> tuple[str, set[str]]:
    native = logs.read()
    found = next(item for item in native.participants if item.key == f"agent:{_GRAND}")
    assert ("child_completed", f"agent:{AGENT}", f"agent:{_GRAND}", 1, "completed") in relation_rows(native)
    return found.lifecycle.value, gap_codes(native)


@pytest.mark.parametrize(
    ("queue", "found"),
    [
        ([_put()], ("pending", set())),
        ([_put(), _TAKEN], ("unknown", {"native_relation_unproven"})),
        ([_put(), _put("b1", "toolu_b"), _TAKEN], ("unknown", {"native_relation_unproven"})),
        ([_put(), _queue("enqueue", "A message."), _TAKEN], ("pending", set())),
        ([_put(), _queue("popped"), _queue("enqueue", "A message.")], ("pending", set())),
    ],
    ids=["waits", "was taken", "one of two was taken", "a message may have been taken", "unknown operations"],
)
def test_a_notification_that_was_taken_and_logged_nowhere_is_a_named_gap(
    tmp_path: Path, queue: list[Record], found: tuple[str, set[str]]
) -> None:
    """2.1.197 logs nothing of what a child at work is given, and the queue does not tell what was taken."""
    logs = SessionLogs(tmp_path)
    _nested(logs, *queue)
    assert _grandchild(logs) == found


def test_a_notification_that_the_childs_log_holds_is_not_lost(tmp_path: Path) -> None:
    """2.1.332 writes it into the log of the child that was given it."""
    logs = SessionLogs(tmp_path)
    _nested(logs, _put(), _queue("remove", _text(_GRAND, _TOOL)), heard=True)
    assert _grandchild(logs) == ("complete", set())


def test_the_loss_of_what_is_no_agents_end_is_no_gap(tmp_path: Path) -> None:
    """Background commands and stopped agents are announced too."""
    logs = SessionLogs(tmp_path)
    _nested(logs, _put("b1", "toolu_b"), _TAKEN, _put(status="killed"), _TAKEN, _put(), _TAKEN, heard=True)
    assert _grandchild(logs) == ("complete", set())


def _twice(logs: SessionLogs, *end: Record) -> None:
    """A background child that ended, was reached by a message that waited for it, and went on."""
    logs.write_root(
        [
            prompt("r1"),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=launched()),
            assistant("r4", "r3", "msg_r2"),
            *end,
        ]
    )
    message = prompt("c3", parentUuid="c2", isMeta=True, origin={"kind": "coordinator"})
    child = [prompt("c1"), assistant("c2", "c1", "msg_c1"), message, assistant("c4", "c3", "msg_c2")]
    logs.write_agent(child, meta={"toolUseId": "toolu_1"})


_NAMELESS = _text(AGENT, "toolu_1").replace("<tool-use-id>toolu_1</tool-use-id>", "")
_FIRST, _SECOND = (_text(AGENT, "toolu_1", answer) for answer in ("One.", "Two."))


def _told(uuid: str, parent: str, content: str) -> Record:
    return prompt(uuid, content, parentUuid=parent, origin={"kind": "task-notification"})


@pytest.mark.parametrize(
    ("end", "delivered", "lifecycle"),
    [
        ([_queue("enqueue", _SECOND)], 1, "pending"),
        ([_told("r7", "r6", _SECOND)], 1, "pending"),
        ([], 1, "unknown"),
        ([_queue("enqueue", _NAMELESS)], 1, "pending"),
        ([_queue("enqueue", _SECOND), _TAKEN, _told("r7", "r6", _SECOND), assistant("r8", "r7", "m")], 2, "complete"),
    ],
    ids=["waits", "not answered", "never queued", "waits, without a tool call", "answered"],
)
def test_a_child_that_went_on_is_settled_by_its_last_notification(
    tmp_path: Path, end: list[Record], delivered: int, lifecycle: str
) -> None:
    """2.1.332: "If it finishes first, it is resumed with the message and notifies again", under the same ids."""
    logs = SessionLogs(tmp_path)
    first = [_queue("enqueue", _FIRST), _TAKEN, _told("r5", "r4", _FIRST), assistant("r6", "r5", "msg_r3")]
    _twice(logs, *first, *end)
    native = logs.read()
    assert [row[0] for row in relation_rows(native)].count("result_delivered") == delivered
    assert (native.participants[1].lifecycle.value, native.gaps) == (lifecycle, ())


def test_two_notifications_that_one_response_answers_are_both_delivered(tmp_path: Path) -> None:
    """Each is looked for in the request by its own text."""
    logs = SessionLogs(tmp_path)
    _twice(logs, _told("r5", "r4", _FIRST), _told("r6", "r5", _SECOND), assistant("r7", "r6", "msg_r3"))
    native = logs.read()
    assert [row[0] for row in relation_rows(native)].count("result_delivered") == 2
    assert native.participants[1].lifecycle.value == "complete"


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_notification_that_names_none_of_several_delegations_leaves_its_end_open(
    tmp_path: Path, is_answered: bool
) -> None:
    """So 2.1.332 writes the second one of a child that went on. Nobody knows whom the end of that turn was told."""
    logs = SessionLogs(tmp_path)
    resumed = {"success": True, "resumedAgentId": AGENT}
    third = [_told("n3", "a3", _NAMELESS), assistant("a4", "n3", "msg_r5")]
    logs.write_root(
        [
            prompt("r1"),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=launched()),
            _told("n1", "r3", _FIRST),
            assistant("a1", "n1", "msg_r2", tool_use("toolu_m", "SendMessage", to=AGENT)),
            tool_result("a2", "a1", "toolu_m", detail=resumed),
            _told("n2", "a2", _text(AGENT, "toolu_m", "Two.")),
            assistant("a3", "n2", "msg_r3"),
            *(third if is_answered else [_queue("enqueue", _NAMELESS)]),
        ]
    )
    turns = [prompt("c1"), assistant("c2", "c1", "msg_c1")]
    for number in (2, 3):
        mark = {"isMeta": True, "origin": {"kind": "coordinator"}, "parentUuid": f"c{2 * number - 2}"}
        turns += [prompt(f"c{2 * number - 1}", **mark), assistant(f"c{2 * number}", f"c{2 * number - 1}", f"m{number}")]
    logs.write_agent(turns, meta={"toolUseId": "toolu_1"})
    native = logs.read()
    assert native.participants[1].lifecycle.value == "unknown"
    assert [row[0] for row in relation_rows(native)].count("result_delivered") == 2
