"""Logs in shapes that other versions and other front ends of the harness write: read, or a named gap; never guessed."""

from pathlib import Path

import pytest

from roller_capture.vocabulary import Role
from tests.adapters.deepseek.session_logs import (
    CHILD,
    ROOT,
    Record,
    SessionLogs,
    answer,
    call,
    child_log,
    ended,
    event,
    gap_codes,
    header,
    launch,
    relation_types,
    settled,
    turn,
)

_FULL = {"spawn": 1, "launch_acknowledged": 1, "child_completed": 1, "result_delivered": 1}


@pytest.fixture
def logs(tmp_path: Path) -> SessionLogs:
    return SessionLogs(tmp_path)


def _old(session_id: str = ROOT, parent: str | None = None, **extra: object) -> Record:
    """A header of the first format, which has no `isSeeded`."""
    record = header(session_id, parent, version=0, **extra)
    del record["isSeeded"]
    return record


def _old_result(tool_id: str, text: str) -> Record:
    """A tool result of the first formats: a user's message with a block of its own."""
    block = {
        "type": "tool-result",
        "toolCallId": tool_id,
        "content": [{"type": "text", "text": text}],
        "isError": False,
    }
    return event("tool/result", message={"role": "user", "content": [block]})


@pytest.mark.parametrize("name", ["session.jsonl", "session.v3.jsonl", "session.v4.jsonl"])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_log_is_found_under_every_name_that_it_had(logs: SessionLogs, name: str, compressed: bool) -> None:
    """The first format has no number in its name."""
    logs.write([header(), *turn(answer("m-1"))])
    path = logs.compress(ROOT) if compressed else logs.path(ROOT)
    path.rename(path.with_name(f"{name}.zstd" if compressed else name))
    assert logs.read().coverage.protocol_count == {ROOT: 1}


@pytest.mark.parametrize("version", [0, 1, 3])
def test_an_older_format_is_read_as_far_as_it_is_the_same(logs: SessionLogs, version: int) -> None:
    """With the version named as not tested."""
    logs.write([header(version=version), *turn(*launch()), *turn(settled(), answer("m-2"))])
    logs.write([header(CHILD, ROOT, version=version), *turn(answer("m-child"))])
    native = logs.read()
    assert gap_codes(native) == {"native_version_untested"}
    assert relation_types(native) == _FULL


def test_chunks_that_are_records_of_their_own_are_no_outputs(logs: SessionLogs) -> None:
    """One completed message is one output, however its stream was kept."""
    kinds = ("assistant/chunk", "assistant/reasoning-chunks", "assistant/text-chunks", "assistant/tool-call-chunks")
    logs.write([_old(), *turn(*(event(kind, chunk={"type": "text"}) for kind in kinds), answer("m-1"))])
    native = logs.read()
    assert native.coverage.protocol_count == {ROOT: 1}
    assert gap_codes(native) == {"native_version_untested"}


def test_of_an_old_fork_nothing_is_claimed_but_who_it_is(logs: SessionLogs) -> None:
    """Its header gives the length of the copy, and no record ends it: which answers are its own is not known."""
    logs.write([_old(), *turn(answer("m-1"))])
    logs.write([_old(CHILD, ROOT, seedLength=2), *turn(answer("m-1")), *turn(answer("m-fork"))])
    native = logs.read(ROOT, CHILD)
    assert native.coverage.protocol_count == {ROOT: 1, CHILD: 0}
    assert {item.key: item.parent_key for item in native.participants} == {ROOT: None, CHILD: ROOT}
    assert gap_codes(native) == {"native_version_untested", "native_shape_unknown", "native_relation_unproven"}


def test_an_old_session_that_is_no_fork_owns_all_of_its_log(logs: SessionLogs) -> None:
    """Its copy has the length 0."""
    logs.write([_old(seedLength=0), *turn(answer("m-1"))])
    assert logs.read().coverage.protocol_count == {ROOT: 1}


def test_a_child_that_its_parent_does_not_list_is_a_participant(logs: SessionLogs) -> None:
    """Its requests name it and its header names its parent; which tool call launched it is not proven."""
    logs.write([_old(), *turn(*launch()[:2], launch()[3])])
    logs.write([_old(CHILD, ROOT), *turn(answer("m-child"))])
    native = logs.read(ROOT, CHILD)
    assert {item.key: (item.role, item.parent_key) for item in native.participants}[CHILD] == (Role.CHILD, ROOT)
    assert native.relations == ()
    assert gap_codes(native) == {"native_version_untested", "native_relation_unproven"}
    assert ended(native)[CHILD] == ("completed", "unknown")


@pytest.mark.parametrize("text", [f"started subagent {CHILD}", "The child's answer, given at once."])
def test_an_old_tool_result_proves_nothing(logs: SessionLogs, text: str) -> None:
    """It stands inside a user's message, and is passed over by name; a child that was waited for answers there."""
    logs.write([_old(), *turn(answer("m-1", "tool-1"), call("tool-1"), _old_result("tool-1", text))])
    logs.write([_old(CHILD, ROOT), *turn(answer("m-child"))])
    native = logs.read(ROOT, CHILD)
    assert native.relations == ()
    assert {"native_shape_unknown", "native_relation_unproven"} <= gap_codes(native)


def test_records_without_numbers_prove_nothing(logs: SessionLogs) -> None:
    """What came before what is told by them; the sessions are known all the same."""
    records: list[Record] = [{"seq": None, **record} for record in turn(*launch(), settled())]
    logs.write([header(), *records])
    logs.write(child_log())
    native = logs.read(ROOT, CHILD)
    assert native.relations == ()
    assert {item.key for item in native.participants} == {ROOT, CHILD}
    assert gap_codes(native) == {"native_shape_unknown", "native_relation_unproven"}
    assert native.coverage.protocol_count[ROOT] == 0


def test_records_of_other_front_ends_are_passed_over(logs: SessionLogs) -> None:
    """Settings, approvals, commands, plugins: no gap, and nothing changes."""
    kinds = (
        *("permission/preset", "sandbox/mode", "approval/policy", "agent-preset/selected", "model/selection"),
        *("command/run", "command/done", "subagent/model-selection-policy", "workspace/changes", "plugin/anything"),
    )
    others = [event(kind, anything={"id": "x"}) for kind in kinds]
    spliced = event("agent/inbox/spliced", inserted=[{"id": "typed", "source": {"kind": "user"}, "content": []}])
    logs.write([header(cwd="C:\\Users\\me\\w"), *others, *turn(spliced, *launch(), *others), *turn(settled(), *others)])
    logs.write(child_log(*others, *turn(answer("m-child"))))
    native = logs.read()
    assert native.gaps == ()
    assert relation_types(native) == _FULL


def test_a_working_folder_of_another_system_is_a_folder_like_any(logs: SessionLogs) -> None:
    """The name of the sessions' folder is not taken apart."""
    logs.write([header(cwd="C:\\w"), *turn(answer("m-1"))], folder="--C:->Users->me->w--")
    assert logs.read().coverage.protocol_count == {ROOT: 1}


def test_an_acceptance_that_is_told_twice_is_one(logs: SessionLogs) -> None:
    """The place of a notice in the uploaded log follows from the last one before it."""

    def places(*accepted: int) -> list[object]:
        told = [event("session-log-deepseek/delivery-accepted", sessionId=ROOT, throughSeq=seq) for seq in accepted]
        records = [{"seq": number, **record} for number, record in enumerate(turn(*launch()))]
        notice = [{"seq": 50 + number, **record} for number, record in enumerate(turn(settled(), answer("m-2")))]
        marks = [{"seq": 40 + number, **record} for number, record in enumerate(told)]
        logs.write([header(), *records, *marks, *notice])
        return [probe.item for probe in logs.read().context_probes]

    logs.write(child_log())
    assert places(5, 5) == places(5) != []
