"""Tests of which tool call delegated to which child, and of everything that leaves it unproven."""

import json
from pathlib import Path

import pytest

from roller_capture.adapters.claude_code import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture, WireCall
from roller_capture.vocabulary import LifecycleStatus
from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    Record,
    SessionLogs,
    api_error,
    assistant,
    completed,
    foreground_run,
    gap_codes,
    launched,
    notification,
    prompt,
    relation_rows,
    text,
    tool_result,
    tool_use,
)

ROOT = f"session:{SESSION}"
CHILD = f"agent:{AGENT}"
GRAND = "afedcba9876543210"


def test_two_children_with_one_prompt_are_tied_by_their_own_tool_ids(tmp_path: Path) -> None:
    """Text and order say nothing; the results stand in completion order."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1")),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_2")),
            tool_result("r3", "r2", "toolu_2", detail=completed("a2")),
            tool_result("r4", "r1", "toolu_1", detail=completed("a1")),
        ]
    )
    for agent_id, tool_id in (("a2", "toolu_2"), ("a1", "toolu_1")):
        logs.write_agent([prompt("c1"), assistant("c2", "c1", f"msg_{agent_id}")], agent_id, {"toolUseId": tool_id})
    native = logs.read()
    tied = {(item.child_key, item.tool_call_id) for item in native.relations}
    assert tied == {("agent:a1", "toolu_1"), ("agent:a2", "toolu_2")}
    assert native.gaps == ()


@pytest.mark.parametrize(("told", "relations"), [(None, True), (GRAND, False), (AGENT, False)])
def test_a_request_that_names_another_parent_leaves_none(tmp_path: Path, told: str | None, relations: object) -> None:
    """Agents can write into logs, and not into headers. A child of the root names no parent."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    carried = {"x-claude-code-agent-id": (AGENT,)} | ({"x-claude-code-parent-agent-id": (told,)} if told else {})
    headers = {"x-claude-code-session-id": frozenset({SESSION}), "x-claude-code-agent-id": frozenset({AGENT})}
    native = read(AdapterInput(logs.root, headers, wire_calls=(WireCall(carried, 7),)))
    [child] = [item for item in native.participants if item.key == CHILD]
    assert (bool(native.relations), child.parent_key == ROOT, not native.gaps) == (relations, relations, relations)


@pytest.mark.parametrize("tool", ["Task", "Agent"])
@pytest.mark.parametrize("meta", [None, {"agentType": "x", "description": "d"}])
def test_without_a_tool_id_in_metadata_the_result_ties_the_child(tmp_path: Path, tool: str, meta: object) -> None:
    """Versions up to 2.1.114 have no metadata, or none with the tool id; `toolUseResult.agentId` is the tie."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1", tool)),
            tool_result("r2", "r1", "toolu_1", detail=completed("1a2b3c4")),
        ]
    )
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1")], "1a2b3c4", meta)
    assert relation_rows(logs.read()) == [
        ("spawn", ROOT, "agent:1a2b3c4", 1, None),
        ("result_delivered", ROOT, "agent:1a2b3c4", 1, "completed"),
        ("child_completed", ROOT, "agent:1a2b3c4", 1, "completed"),
    ]


def test_a_child_that_no_tool_call_launched_has_no_parent(tmp_path: Path) -> None:
    """A warm-up child is a real executor with real calls, and nothing says who started it."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    logs.write_agent([prompt("c1", "Warmup"), assistant("c2", "c1", "msg_c1")], "1a2b3c4")
    native = logs.read()
    assert [(item.parent_key, item.lifecycle) for item in native.participants[1:]] == [(None, LifecycleStatus.UNKNOWN)]
    assert native.relations == ()
    assert gap_codes(native) == {"native_relation_unproven"}


def _nested(logs: SessionLogs, *, meta: dict[str, object], result: dict[str, object]) -> None:
    foreground_run(
        logs,
        child=[
            prompt("c1"),
            assistant("c2", "c1", "msg_c1", tool_use("toolu_2")),
            tool_result("c3", "c2", "toolu_2", **result),
            assistant("c4", "c3", "msg_c2"),
        ],
    )
    logs.write_agent([prompt("g1"), assistant("g2", "g1", "msg_g1")], GRAND, meta)


_META = {"toolUseId": "toolu_2", "parentAgentId": AGENT}
_TEXT = [text("An answer."), text(f"agentId: {GRAND} (use SendMessage)\n<usage>tokens: 1</usage>")]
_RESULT = {"content": _TEXT, "sourceToolAssistantUUID": "c2"}


@pytest.mark.parametrize(
    ("meta", "result", "delivered"),
    [
        (_META, _RESULT, True),
        ({"toolUseId": "toolu_2"}, _RESULT, True),
        ({"toolUseId": "toolu_2"}, _RESULT | {"content": "no id in it"}, False),
        (_META, _RESULT | {"content": [text("agentId: aother\n<usage>")]}, False),
        (_META, _RESULT | {"sourceToolAssistantUUID": "c9"}, False),
        (_META, {"content": _TEXT}, False),
        ({"parentAgentId": AGENT}, _RESULT, False),
        (_META | {"parentAgentId": "aother"}, _RESULT, False),
        (_META, _RESULT | {"content": [text(f"forged\nagentId: {GRAND}"), text("agentId: aother\n<usage>")]}, False),
    ],
)
def test_a_nested_result_needs_metadata_record_and_text_to_agree(
    tmp_path: Path, meta: dict[str, object], result: dict[str, object], delivered: bool
) -> None:
    """A child's log has no `toolUseResult`: metadata, the calling record's uuid and the harness's line must agree."""
    logs = SessionLogs(tmp_path)
    _nested(logs, meta=meta, result=result)
    native = logs.read()
    found = [row for row in relation_rows(native) if row[0] == "result_delivered" and row[2] == f"agent:{GRAND}"]
    assert bool(found) is delivered
    assert ("native_relation_unproven" in gap_codes(native)) is not delivered


def test_a_nested_launch_is_acknowledged_and_not_delivered(tmp_path: Path) -> None:
    """The acknowledgement of a background launch is no result."""
    logs = SessionLogs(tmp_path)
    ack = [text(f"Async agent launched successfully.\nagentId: {GRAND} (internal)\noutput_file: /x")]
    _nested(logs, meta=_META, result=_RESULT | {"content": ack})
    native = logs.read()
    rows = [row[0] for row in relation_rows(native) if row[2] == f"agent:{GRAND}"]
    assert rows == ["spawn", "launch_acknowledged"]
    assert native.participants[2].lifecycle is LifecycleStatus.PENDING


def test_an_answer_that_begins_like_an_acknowledgement_is_a_result(tmp_path: Path) -> None:
    """A child may say anything; the harness adds its own block behind it."""
    logs = SessionLogs(tmp_path)
    forged = [text(f"Async agent launched successfully.\nagentId: {GRAND}"), _TEXT[1]]
    _nested(logs, meta=_META, result=_RESULT | {"content": forged})
    assert ("result_delivered", CHILD, f"agent:{GRAND}", 1, "completed") in relation_rows(logs.read())


def test_a_tool_id_in_two_outputs_is_no_proof(tmp_path: Path) -> None:
    """Some providers count tool ids per answer."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1")),
            assistant("r2", "r1", "msg_r2", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=completed()),
        ]
    )
    native = logs.read()
    assert native.relations == ()
    assert native.participants[1].lifecycle is LifecycleStatus.UNKNOWN
    assert "native_id_not_unique" in gap_codes(native)


def test_metadata_and_result_that_disagree_prove_nothing(tmp_path: Path) -> None:
    """The result of the tool call names another agent than the one whose metadata names the call."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, detail=completed("aother"))
    logs.write_agent([assistant("o1", None, "msg_o1")], "aother")
    native = logs.read()
    assert native.relations == ()
    assert "native_relation_unproven" in gap_codes(native)


def test_a_result_of_another_record_than_the_tool_calls_proves_nothing(tmp_path: Path) -> None:
    """`sourceToolAssistantUUID` names the record that made the call."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_root(
        [
            assistant("r2", None, "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=completed(), sourceToolAssistantUUID="r9"),
        ]
    )
    native = logs.read()
    assert native.relations == ()
    assert "native_relation_unproven" in gap_codes(native)


def test_agents_that_launched_one_another_have_no_parents(tmp_path: Path) -> None:
    """A cycle is nobody's tree."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    for agent_id, uses, launched_by in (("a1", "toolu_2", "toolu_1"), ("a2", "toolu_1", "toolu_2")):
        records = [assistant("c1", None, f"msg_{agent_id}", tool_use(uses))]
        logs.write_agent(records, agent_id, {"toolUseId": launched_by})
    native = logs.read()
    assert [item.parent_key for item in native.participants[1:]] == [None, None]
    assert native.relations == ()
    assert "native_relation_unproven" in gap_codes(native)


def test_an_agent_that_names_itself_as_parent_has_none(tmp_path: Path) -> None:
    """The shortest cycle."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    logs.write_agent(
        [assistant("c1", None, "msg_c1", tool_use("toolu_1"))], meta={"toolUseId": "toolu_1", "parentAgentId": AGENT}
    )
    assert logs.read().participants[1].parent_key is None


def test_a_parent_named_by_metadata_alone_is_kept_but_spawns_nothing(tmp_path: Path) -> None:
    """Where the line with the tool call is damaged there is a parent, no proof of the call, and a gap."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_agent([assistant("g1", None, "msg_g1")], GRAND, {"toolUseId": "toolu_lost", "parentAgentId": AGENT})
    native = logs.read()
    assert native.participants[2].parent_key == CHILD
    assert not [row for row in relation_rows(native) if row[2] == f"agent:{GRAND}"]
    assert "native_relation_unproven" in gap_codes(native)


def _resumed(logs: SessionLogs, *end: dict[str, object], child_again: bool = True) -> None:
    logs.write_root(
        [
            prompt("r1"),
            assistant("r2", "r1", "msg_r1", tool_use("toolu_1")),
            tool_result("r3", "r2", "toolu_1", detail=completed()),
            assistant("r4", "r3", "msg_r2", tool_use("toolu_2", "SendMessage", to=AGENT)),
            tool_result("r5", "r4", "toolu_2", detail={"success": True, "resumedAgentId": AGENT}),
            assistant("r6", "r5", "msg_r3", tool_use("toolu_3", "SendMessage", to=AGENT)),
            tool_result("r7", "r6", "toolu_3", detail={"success": True, "message": "queued"}),
            *end,
        ]
    )
    again = [prompt("c3", "More.", isMeta=True, origin={"kind": "coordinator"}), assistant("c4", "c3", "msg_c2")]
    first = [prompt("c1"), assistant("c2", "c1", "msg_c1")]
    logs.write_agent(first + (again if child_again else again[:1]), meta={"toolUseId": "toolu_1"})


def test_a_resumed_child_is_judged_by_the_new_tool_id(tmp_path: Path) -> None:
    """A message that was only queued is no delegation."""
    logs = SessionLogs(tmp_path)
    _resumed(logs, notification("r8", "r7", AGENT, "toolu_2"), assistant("r9", "r8", "msg_r4"))
    native = logs.read()
    assert relation_rows(native) == [
        ("spawn", ROOT, CHILD, 1, None),
        ("result_delivered", ROOT, CHILD, 1, "completed"),
        ("child_completed", ROOT, CHILD, 1, "completed"),
        ("spawn", ROOT, CHILD, 2, None),
        ("launch_acknowledged", ROOT, CHILD, 2, "resumed"),
        ("result_delivered", ROOT, CHILD, 2, "completed"),
        ("child_completed", ROOT, CHILD, 2, "completed"),
    ]
    assert {item.tool_call_id for item in native.relations if item.delegation == 2} == {"toolu_2"}


def test_turns_that_ended_differently_are_not_told_apart_by_their_order(tmp_path: Path) -> None:
    """The first one failed, the second one completed, both were reported as completed: only the last is sure."""
    logs = SessionLogs(tmp_path)
    _resumed(logs, notification("r8", "r7", AGENT, "toolu_2"), assistant("r9", "r8", "msg_r4"))
    again = [prompt("c3", "More.", isMeta=True, origin={"kind": "coordinator"}), assistant("c4", "c3", "msg_c2")]
    logs.write_agent([prompt("c1"), api_error("c2", "c1"), *again], meta={"toolUseId": "toolu_1"})
    native = logs.read()
    ends = [(row[0], row[3]) for row in relation_rows(native) if row[0].startswith("child_")]
    assert ends == [("child_completed", 2)]
    assert gap_codes(native) == {"native_relation_unproven"}


@pytest.mark.parametrize(
    ("last", "ends"),
    [
        ([], [("child_completed", 1)]),
        ([assistant("c4", "c3", "msg_c2", tool_use("toolu_c", "Bash"))], [("child_completed", 1)]),
        ([api_error("c4", "c3")], [("child_completed", 1), ("child_failed", 2)]),
    ],
    ids=["no answer", "at work", "failed"],
)
def test_an_end_before_the_last_turn_is_the_first_delegations(
    tmp_path: Path, last: list[dict[str, object]], ends: list[tuple[str, int]]
) -> None:
    """The last turn is the last delegation's however it ends; the one before it ended well, and was said to."""
    logs = SessionLogs(tmp_path)
    _resumed(logs)
    again = prompt("c3", "More.", isMeta=True, origin={"kind": "coordinator"})
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1"), again, *last], meta={"toolUseId": "toolu_1"})
    native = logs.read()
    assert [(row[0], row[3]) for row in relation_rows(native) if row[0].startswith("child_")] == ends
    assert native.participants[1].lifecycle is LifecycleStatus.PENDING
    assert native.gaps == ()


@pytest.mark.parametrize("turns", [1, 3])
def test_more_or_fewer_turns_than_delegations_prove_no_end_of_an_earlier_one(tmp_path: Path, turns: int) -> None:
    """Here a turn was stopped in the middle, and there one is missing: the second is not the first delegation's."""
    logs = SessionLogs(tmp_path)
    _resumed(logs, notification("r8", "r7", AGENT, "toolu_2"), assistant("r9", "r8", "msg_r4"))
    stopped = [prompt("c1"), assistant("c2", "c1", "msg_c1", tool_use("toolu_c", "Bash"))]
    ended = [[prompt(f"d{n}"), assistant(f"e{n}", f"d{n}", f"msg_d{n}")] for n in range(turns - 1)]
    last = [[prompt("c1"), assistant("c2", "c1", "msg_c1")]] if turns == 1 else [stopped, *ended]
    logs.write_agent([record for turn in last for record in turn], meta={"toolUseId": "toolu_1"})
    native = logs.read()
    assert [row[3] for row in relation_rows(native) if row[0] == "child_completed"] == ([2] if turns == 3 else [])
    assert "native_relation_unproven" in gap_codes(native)


def test_the_first_completion_is_not_reused_for_the_second_delegation(tmp_path: Path) -> None:
    """A second delegation without an end is pending."""
    logs = SessionLogs(tmp_path)
    _resumed(logs, child_again=False)
    native = logs.read()
    assert [row for row in relation_rows(native) if row[3] == 2] == [
        ("spawn", ROOT, CHILD, 2, None),
        ("launch_acknowledged", ROOT, CHILD, 2, "resumed"),
    ]
    assert native.participants[1].lifecycle is LifecycleStatus.PENDING


def test_an_old_task_call_that_resumes_by_its_input_is_a_second_delegation(tmp_path: Path) -> None:
    """`Task` with `resume` returned the same agent id under a new tool id."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1", "Task")),
            tool_result("r2", "r1", "toolu_1", detail=completed("1a2b3c4")),
            assistant("r3", "r2", "msg_r2", tool_use("toolu_2", "Task", resume="1a2b3c4")),
            tool_result("r4", "r3", "toolu_2", detail=completed("1a2b3c4")),
        ]
    )
    logs.write_agent(
        [prompt("c1"), assistant("c2", "c1", "msg_c1"), prompt("c3"), assistant("c4", "c3", "msg_c2")], "1a2b3c4"
    )
    native = logs.read()
    assert [row[3] for row in relation_rows(native) if row[0] == "child_completed"] == [1, 2]
    assert native.gaps == ()


def test_two_launches_of_one_agent_contradict_each_other(tmp_path: Path) -> None:
    """Only a call whose own input names the agent may delegate to it again."""
    logs = SessionLogs(tmp_path)
    logs.write_root(
        [
            assistant("r1", None, "msg_r1", tool_use("toolu_1"), tool_use("toolu_2")),
            tool_result("r2", "r1", "toolu_1", detail=completed()),
            tool_result("r3", "r1", "toolu_2", detail=launched()),
        ]
    )
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1")])
    native = logs.read()
    assert native.relations == ()
    assert native.participants[1].lifecycle is LifecycleStatus.UNKNOWN
    assert "native_relation_unproven" in gap_codes(native)


def test_a_tool_id_in_two_logs_is_no_proof(tmp_path: Path) -> None:
    """Neither log is believed more than the other."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_agent([assistant("o1", None, "msg_o1", tool_use("toolu_1"))], "aother")
    native = logs.read()
    assert native.relations == ()
    assert [item.parent_key for item in native.participants] == [None, None, None]
    assert "native_id_not_unique" in gap_codes(native)


@pytest.mark.parametrize("result", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_two_children_of_one_tool_call_are_nobodys(tmp_path: Path, nested: bool, result: bool) -> None:
    """One call launches one agent: where two metadata name it, neither is tied to it, with a result or without."""
    logs = SessionLogs(tmp_path)
    call: list[Record] = [prompt("c1"), assistant("c2", "c1", "msg_c1", tool_use("toolu_2"), tool_use("toolu_3"))]
    if result:
        call.append(tool_result("c3", "c2", "toolu_2", **({} if nested else {"detail": completed("ax")})))
    if nested:
        foreground_run(logs, child=call)
    else:
        logs.write_root(call)
    for agent_id in ("ax", "ay"):
        logs.write_agent([prompt("x1"), assistant("x2", "x1", f"msg_{agent_id}")], agent_id, {"toolUseId": "toolu_2"})
    native = logs.read()
    assert not [row for row in relation_rows(native) if row[2] in ("agent:ax", "agent:ay")]
    unproven = {item.key: item.parent_key for item in native.participants if item.key in ("agent:ax", "agent:ay")}
    assert unproven == {"agent:ax": None, "agent:ay": None}
    assert "native_id_not_unique" in gap_codes(native)


_NO_DELEGATION = ["Bash", "Read", "mcp__jobs__run", "TaskOutput", "SendMessage", 7]


@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize("tool", _NO_DELEGATION)
def test_metadata_that_name_a_call_of_another_tool_prove_nothing(tmp_path: Path, tool: object, is_error: bool) -> None:
    """Only a delegating tool launches agents, whatever metadata or a progress record say."""
    logs = SessionLogs(tmp_path)
    use = tool_use("toolu_1") | {"name": tool}
    logs.write_root(
        [assistant("r1", None, "msg_r1", use), tool_result("r2", "r1", "toolu_1", "failed", is_error=is_error)]
    )
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "msg_c1")], meta={"toolUseId": "toolu_1"})
    native = logs.read()
    assert (native.relations, native.context_probes) == ((), ())
    assert native.participants[1].parent_key is None
    assert "native_relation_unproven" in gap_codes(native)


_SAYINGS: list[Record] = [
    {"status": "completed", "agentId": "azzz"},
    {"status": "async_launched", "isAsync": True, "agentId": "azzz"},
    {"status": "forked", "agentId": "azzz"},
    {"success": True, "resumedAgentId": "azzz"},
]


@pytest.mark.parametrize("detail", _SAYINGS, ids=lambda detail: str(next(iter(detail.values()))))
@pytest.mark.parametrize("tool", ["mcp__jobs__run", "Bash", "TaskOutput", None])
@pytest.mark.parametrize("known", [True, False])
def test_the_result_of_another_tool_makes_no_participant_and_no_relation(
    tmp_path: Path, tool: str | None, detail: Record, known: bool
) -> None:
    """An MCP server writes what it likes into its result; `None`: the call itself is in no log."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    path = logs.folder / f"{SESSION}.jsonl"
    extra = [tool_result("r6", "r5", "toolu_9", detail=detail), assistant("r7", "r6", "msg_r4")]
    if tool is not None:
        extra.insert(0, assistant("r5", "r4", "msg_r3", tool_use("toolu_9", tool)))
    content = path.read_bytes() + SessionLogs(tmp_path / "more").write_root(extra).read_bytes()
    path.write_bytes(content)
    if known:
        logs.write_agent([prompt("z1"), assistant("z2", "z1", "msg_z")], "azzz")
    native = logs.read()
    assert {item.child_key for item in native.relations} == {CHILD} | ({"agent:azzz"} & _spawned(native))
    assert len(native.participants) == (3 if known else 2)
    assert known or tool is None or "native_relation_unproven" in gap_codes(native)


def _spawned(native: NativeCapture) -> set[str]:
    """Children with a launch whose call is in no log; the harness's own record of the result names them, with a gap."""
    assert all(item.parent_output_id is not None for item in native.relations if item.child_key == CHILD)
    found = {item.child_key for item in native.relations if item.parent_output_id is None}
    assert not found or "native_relation_unproven" in gap_codes(native)
    return found


@pytest.mark.parametrize(
    ("depth", "fits"), [(1, True), (2, False), (None, True), ("x", True), (True, True), (-1, True)]
)
def test_the_depth_that_metadata_state_must_be_one_below_the_parents(tmp_path: Path, depth: object, fits: bool) -> None:
    """A tool call that was moved into another log gives its child a parent at another depth."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_agent([prompt("c1"), assistant("c2", "c1", "m")], meta={"toolUseId": "toolu_1", "spawnDepth": depth})
    native = logs.read()
    assert bool(native.relations) is fits
    assert ("native_relation_unproven" in gap_codes(native)) is not fits


@pytest.mark.parametrize(
    ("depths", "fits"), [((1, 2), True), ((1, 1), False), ((1, 3), False), ((None, 3), True), ((None, 1), False)]
)
def test_a_grandchild_stands_one_below_its_parent(tmp_path: Path, depths: tuple[object, object], fits: bool) -> None:
    """Where the parent's own depth is not stated, any but the first fits."""
    logs = SessionLogs(tmp_path)
    _nested(logs, meta=_META | {"spawnDepth": depths[1]}, result=_RESULT)
    meta = {"toolUseId": "toolu_1", "spawnDepth": depths[0]}
    (logs.folder / SESSION / "subagents" / f"agent-{AGENT}.meta.json").write_text(json.dumps(meta))
    assert any(row[2] == f"agent:{GRAND}" for row in relation_rows(logs.read())) is fits


def test_a_result_in_another_log_than_its_tool_call_proves_nothing(tmp_path: Path) -> None:
    """The launching record was moved into a sibling's log."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    logs.write_root([prompt("r1"), tool_result("r3", "r2", "toolu_1", detail=completed())])
    logs.write_agent([assistant("o1", None, "msg_r1", tool_use("toolu_1"))], "aother")
    native = logs.read()
    assert native.relations == ()
    assert "native_relation_unproven" in gap_codes(native)


def test_metadata_never_name_a_resumption_as_the_launch(tmp_path: Path) -> None:
    """They keep the first tool id, so these were rewritten, and no delegation can be numbered."""
    logs = SessionLogs(tmp_path)
    _resumed(logs, notification("r8", "r7", AGENT, "toolu_2"), assistant("r9", "r8", "msg_r4"))
    (path,) = logs.folder.glob("*/subagents/*.meta.json")
    path.write_text(json.dumps({"toolUseId": "toolu_2"}))
    native = logs.read()
    assert native.relations == ()
    assert "native_relation_unproven" in gap_codes(native)


@pytest.mark.parametrize("launcher", ["agent:aother", "sidechain:o1"])
def test_who_is_only_told_of_and_whom_nothing_launched_launches_nobody(tmp_path: Path, launcher: str) -> None:
    """The record that launched the child was put under another name in the root's file."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    name: Record = {"agentId": "aother"} if launcher.startswith("agent") else {"isSidechain": True}
    logs.write_root(
        [
            prompt("r1"),
            assistant("o1", None, "msg_r1", tool_use("toolu_1"), **name),
            tool_result("o2", "o1", "toolu_1", **name),
        ]
    )
    native = logs.read()
    assert native.relations == ()
    assert [item.parent_key for item in native.participants] == [None, None, None]
    assert "native_relation_unproven" in gap_codes(native)


def test_an_agents_own_tool_call_did_not_launch_it(tmp_path: Path) -> None:
    """Metadata were rewritten to a call in the agent's own log, which failed: not even its end names that call."""
    logs = SessionLogs(tmp_path)
    own = [prompt("c1"), assistant("c2", "c1", "msg_c1", tool_use("toolu_c", "Bash")), api_error("c3", "c2")]
    logs.write_root([assistant("r1", None, "msg_r1")])
    logs.write_agent(own, meta={"toolUseId": "toolu_c"})
    native = logs.read()
    assert native.relations == ()
    assert "msg_c1" in {item.output_id for item in native.coverage.outputs or ()}


def test_the_end_of_a_child_names_no_tool_call_that_is_in_no_log(tmp_path: Path) -> None:
    """That it failed is proven by its own log; who launched it by what is not."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", None, "msg_r1")])
    logs.write_agent([prompt("c1"), api_error("c2", "c1")], meta={"toolUseId": "toolu_lost", "parentAgentId": "ax"})
    logs.write_agent([assistant("x1", None, "msg_x")], "ax")
    found = [(item.type.value, item.parent_key, item.tool_call_id) for item in logs.read().relations]
    assert found == [("child_failed", None, None)]


def test_the_text_of_a_nested_result_speaks_against_other_metadata(tmp_path: Path) -> None:
    """Metadata were rewritten to another delegation of the parent, of which nothing else is left."""
    logs = SessionLogs(tmp_path)
    foreground_run(
        logs,
        child=[
            assistant("c2", "c1", "msg_c1", tool_use("toolu_2"), tool_use("toolu_3")),
            tool_result("c3", "c2", "toolu_2", **_RESULT),
            assistant("c4", "c3", "msg_c2"),
        ],
    )
    logs.write_agent([prompt("g1"), assistant("g2", "g1", "msg_g1")], GRAND, _META | {"toolUseId": "toolu_3"})
    native = logs.read()
    assert not [row for row in relation_rows(native) if row[2] == f"agent:{GRAND}"]
    assert "native_relation_unproven" in gap_codes(native)


def test_two_different_results_of_one_call_are_both_left_aside(tmp_path: Path) -> None:
    """Neither the first nor the last one wins."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs)
    results = [
        tool_result("r3", "r2", "toolu_1", detail=completed()),
        tool_result("r4", "r2", "toolu_1", "Error", is_error=True),
    ]
    for order in (results, results[::-1]):
        logs.write_root([assistant("r2", None, "msg_r1", tool_use("toolu_1")), *order, assistant("r5", "r4", "msg_r2")])
        native = logs.read()
        assert {row[0] for row in relation_rows(native)} <= {"spawn"}
        assert "native_id_not_unique" in gap_codes(native)
