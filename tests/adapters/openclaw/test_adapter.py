"""Tests of the whole answer: identity, roots, coverage, versions, and what hostile records do to it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.openclaw import read
from roller_capture.capture_protocol import AdapterInput
from roller_capture.vocabulary import CoverageStrength, ExecutionStatus, LifecycleStatus, Purpose, RelationType, Role
from tests.adapters.openclaw.home_rows import (
    CHILD,
    CHILD_ID,
    CHILD_RUN,
    ROOT,
    ROOT_ID,
    ROOT_RUN,
    HomeRows,
    accepted,
    gap_codes,
    lifecycle_of,
    one_child,
    read_native,
    relation_types,
)

OTHER = "agent:main:explicit:other"
OTHER_ID = "a1111111-0000-4000-8000-000000000001"


def test_a_call_is_owned_by_its_session_and_by_its_response_id(tmp_path: Path) -> None:
    """Two independent proofs: the hook's header against the sessions' rows, response ids against the transcripts."""
    native = one_child().read(tmp_path)
    claims = {(claim.field, claim.value): claim.participant_key for claim in native.identity_claims}
    assert claims == {
        ("header:x-roller-session-id", ROOT_ID): ROOT,
        ("header:x-roller-session-id", CHILD_ID): CHILD,
        ("response_id", "resp_1"): ROOT,
        ("response_id", "resp_2"): ROOT,
        ("response_id", "resp_3"): CHILD,
        ("response_id", "resp_4"): ROOT,
    }
    assert native.hook_header == "x-roller-stream-id"
    assert {claim.purpose for claim in native.purpose_claims} == {Purpose.AGENT}
    assert {field.header: field.exclusive for field in native.identity_fields} == {
        "x-roller-session-id": False,
        "x-roller-run-id": False,
        "x-roller-request-id": False,
    }


@pytest.mark.parametrize(
    ("wire_run_id", "event", "owner"),
    [
        (f"{ROOT_RUN}:compaction:ovf-1", "compaction", ROOT),
        (f"{ROOT_RUN}:compaction:ovf-1", "custom", ROOT),
        (f"{CHILD_RUN}:compaction:x:y", "custom", CHILD),
        ("another:compaction:ovf-1", "another", None),
        (f"{ROOT_RUN}:summary:ovf-1", "compaction", None),
        (":compaction:", "compaction", None),
    ],
)
def test_a_compaction_call_is_owned_by_its_run(tmp_path: Path, wire_run_id: str, event: str, owner: str | None) -> None:
    """It carries no session id; the harness's own mark in its run id tells its purpose, and the run its session."""
    rows = one_child().event(ROOT_ID, {"type": event, "__openclaw": {"runId": ROOT_RUN}})
    native = rows.read(tmp_path, run_ids=frozenset({wire_run_id}))
    field = "header:x-roller-run-id"
    assert [item.participant_key for item in native.identity_claims if item.field == field] == (
        [owner] if owner else []
    )
    marks = [(item.value, item.purpose, item.side_call) for item in native.purpose_claims if item.field == field]
    assert marks == ([(wire_run_id, Purpose.COMPACTION, True)] if owner else [])


def test_a_run_in_two_sessions_owns_no_compaction(tmp_path: Path) -> None:
    """Not unique, so unknown."""
    rows = one_child().answer(CHILD_ID, None, ROOT_RUN)
    native = rows.read(tmp_path, run_ids=frozenset({f"{ROOT_RUN}:compaction:1"}))
    assert not any(item.field == "header:x-roller-run-id" for item in native.identity_claims)


def test_participants_are_sessions_by_key(tmp_path: Path) -> None:
    """With all their session ids, one after the other, and the one that spawned them."""
    rows = one_child()
    rows.agent.append({"table": "session_windows", "session_id": OTHER_ID, "session_key": ROOT, "reason": "rollover"})
    native = rows.answer(OTHER_ID, "resp_8").read(tmp_path)
    found = {item.key: (item.role, item.parent_key, item.execution_status) for item in native.participants}
    assert found == {
        ROOT: (Role.ROOT, None, ExecutionStatus.COMPLETED),
        CHILD: (Role.CHILD, ROOT, ExecutionStatus.COMPLETED),
    }
    ids = {item.key: dict(item.native_ids) for item in native.participants}
    assert set(ids[ROOT]["session_id"]) == {ROOT_ID, OTHER_ID}
    assert ids[CHILD] == {"session_id": (CHILD_ID,), "session_key": (CHILD,)}


def test_each_answer_needs_its_call_and_stream_contexts_are_counted(tmp_path: Path) -> None:
    """Failed answers and the gateway's own messages are no outputs; one without an id can be compared with nothing."""
    rows = one_child()
    rows.answer(ROOT_ID, None, stopReason="error").answer(ROOT_ID, None, stopReason="aborted")
    rows.answer(ROOT_ID, "x", model="gateway-injected").answer(ROOT_ID, "y", model="delivery-mirror")
    native = rows.answer(ROOT_ID, None).read(tmp_path)
    assert (native.coverage.field, native.coverage.strength) == ("response_id", CoverageStrength.PER_ID)
    assert native.coverage.outputs is not None
    assert [item.output_id for item in native.coverage.outputs] == ["resp_1", "resp_2", "resp_4", None, "resp_3"]
    assert native.coverage.protocol_count == {ROOT: 3, CHILD: 1}


@pytest.mark.parametrize(
    "event",
    [
        {"type": "custom", "customType": "openclaw:prompt-error", "data": {"error": "x", "runId": CHILD_RUN}},
        {"type": "custom", "customType": "openclaw:bootstrap-context:full", "data": {"timestamp": 1}},
        {"type": "custom_message", "customType": "openclaw.sessions_yield_interrupt", "content": "x", "display": False},
    ],
    ids=lambda event: str(event["customType"]),
)
def test_the_harnesss_own_notes_say_nothing(tmp_path: Path, event: dict[str, Any]) -> None:
    """Not of identity, nor of ends, nor of what was answered; the chain of entries goes through them."""
    plain = one_child().read(tmp_path)
    (tmp_path / "noted").mkdir()
    rows = HomeRows().event(ROOT_ID, event).event(CHILD_ID, event)
    rows.agent += one_child().event(ROOT_ID, event).event(CHILD_ID, event).agent[1:]
    rows.registry, rows.hook = one_child().registry, one_child().hook
    noted = rows.read(tmp_path / "noted")
    assert relation_types(noted) == relation_types(plain)
    assert (noted.gaps, noted.lifecycle) == ((), None)
    assert {item.key: (item.execution_status, item.lifecycle) for item in noted.participants} == {
        item.key: (item.execution_status, item.lifecycle) for item in plain.participants
    }


def test_an_answer_that_ended_for_its_length_is_an_output(tmp_path: Path) -> None:
    """A model said it, and it has an id; a child that ends with it has ended as the registry says."""
    rows = one_child().answer(CHILD_ID, "resp_5", CHILD_RUN, stopReason="length")
    native = rows.read(tmp_path)
    assert native.coverage.outputs is not None
    assert "resp_5" in {item.output_id for item in native.coverage.outputs}
    [end] = [item for item in native.relations if item.type is RelationType.CHILD_COMPLETED]
    assert end.evidence[-1].locator.endswith("response:resp_5")


@pytest.mark.parametrize("root", [None, "missing", "file"])
def test_without_a_folder_nothing_is_known(tmp_path: Path, root: str | None) -> None:
    """No record read is `unknown`, never `complete`."""
    (tmp_path / "file").write_text("x")
    native = read_native(tmp_path / root if root else None, tmp_path)
    assert native.coverage.outputs is None
    assert native.lifecycle is LifecycleStatus.UNKNOWN
    assert (native.participants, native.identity_claims, native.harness_version) == ((), (), None)
    assert "native_logs_missing" in gap_codes(native)


def test_without_scratch_nothing_is_read(tmp_path: Path) -> None:
    """Databases are never opened where they lie."""
    native = read(AdapterInput(one_child().write(tmp_path), {}))
    assert gap_codes(native) == {"native_logs_missing"}


@pytest.mark.parametrize(
    ("versions", "tested", "gaps"),
    [
        (["2026.9.6"], True, set()),
        (["2026.9.6", "2026.10.1"], False, {"native_version_untested"}),
        (["2027.1.1"], False, {"native_version_untested"}),
        ([], False, set()),
        ([None, 7, "", "x" * 99], False, set()),
    ],
)
def test_another_version_is_a_gap_and_read_all_the_same(
    tmp_path: Path, versions: list[object], tested: bool, gaps: set[str]
) -> None:
    """Every relation is there as usual."""
    rows = one_child()
    meta = [{"table": "schema_meta", "meta_key": "primary", "app_version": version} for version in versions]
    rows.agent = [*meta, *rows.agent[1:]]
    rows.registry = rows.registry[1:]
    native = rows.read(tmp_path)
    assert (native.version_tested, gap_codes(native)) == (tested, gaps)
    assert len(relation_types(native)) == 4


@pytest.mark.parametrize(
    ("launcher", "roots", "gaps"),
    [
        ({"root_native_id": ROOT_ID}, {ROOT}, {"native_relation_unproven"}),
        ({"root_native_id": OTHER_ID}, {OTHER}, {"native_relation_unproven"}),
        ({}, {ROOT, OTHER}, {"root_ambiguous"}),
        ({"root_native_id": "nobody"}, {ROOT, OTHER}, {"root_ambiguous"}),
    ],
)
def test_of_two_roots_the_launchers_is_the_root(
    tmp_path: Path, launcher: dict[str, Any], roots: set[str], gaps: set[str]
) -> None:
    """One gateway can serve strangers; whose calls they are is told all the same."""
    rows = one_child().session(OTHER, OTHER_ID).answer(OTHER_ID, "resp_8")
    native = rows.read(tmp_path, sessions=frozenset({ROOT_ID, CHILD_ID, OTHER_ID}), launcher=launcher)
    assert {item.key for item in native.participants if item.role is Role.ROOT} == roots
    assert gap_codes(native) == gaps


def test_a_session_that_no_row_names_is_missing(tmp_path: Path) -> None:
    """Its calls get no owner, and the lifecycle is unknown."""
    native = one_child().read(tmp_path, sessions=frozenset({ROOT_ID, CHILD_ID, OTHER_ID}))
    assert gap_codes(native) == {"participant_log_missing"}
    assert native.lifecycle is LifecycleStatus.UNKNOWN


def test_a_fork_leaves_what_it_copied_to_its_source(tmp_path: Path) -> None:
    """`context: fork` begins the child's transcript with its parent's."""
    rows = one_child()
    for row in rows.agent:
        if row.get("session_key") == CHILD:
            row["fork_source_session_key"] = ROOT
    rows.answer(CHILD_ID, "resp_1", ROOT_RUN, ("call_spawn", "sessions_spawn"))
    native = rows.read(tmp_path)
    owners = {claim.value: claim.participant_key for claim in native.identity_claims if claim.field == "response_id"}
    assert owners["resp_1"] == ROOT
    assert native.gaps == ()
    assert len(relation_types(native)) == 4


def test_a_response_id_in_two_sessions_without_a_fork_is_not_unique(tmp_path: Path) -> None:
    """Both are claimed, so that the call is theirs only by other evidence."""
    native = one_child().answer(CHILD_ID, "resp_1", CHILD_RUN).read(tmp_path)
    claims = [claim.participant_key for claim in native.identity_claims if claim.value == "resp_1"]
    assert sorted(claims) == sorted([ROOT, CHILD])
    assert "native_id_not_unique" in gap_codes(native)


def test_a_child_without_its_own_log_is_a_participant_and_a_gap(tmp_path: Path) -> None:
    """Its rows are there, its transcript is not."""
    rows = one_child()
    rows.agent = [row for row in rows.agent if row.get("session_id") != CHILD_ID or row["table"] != "transcript_events"]
    native = rows.read(tmp_path)
    assert {item.key for item in native.participants} == {ROOT, CHILD}
    assert gap_codes(native) == {"participant_log_missing", "native_relation_unproven"}
    assert (native.lifecycle, lifecycle_of(native)) == (LifecycleStatus.UNKNOWN, LifecycleStatus.UNKNOWN)


def test_a_child_of_which_only_a_tool_result_knows_is_missing(tmp_path: Path) -> None:
    """It was started, and neither a row nor the registry has it."""
    rows = HomeRows().session(ROOT, ROOT_ID).answer(ROOT_ID, "resp_1", ROOT_RUN, ("call_1", "sessions_spawn"))
    rows.result(ROOT_ID, "call_1", "sessions_spawn", accepted())
    native = rows.read(tmp_path, sessions=frozenset({ROOT_ID}))
    assert gap_codes(native) == {"participant_log_missing"}
    assert native.lifecycle is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize("key", [ROOT, CHILD])
def test_a_child_of_which_only_the_registry_knows_is_missing(tmp_path: Path, key: str) -> None:
    """Whoever the rest of the records speaks of."""
    rows = one_child()
    other = {"childSessionKey": "agent:main:subagent:lost", "requesterSessionKey": key, "runId": "r", "taskRunId": "r"}
    rows.run(other, child_session_key=other["childSessionKey"], requester_session_key=key)
    native = rows.read(tmp_path)
    assert gap_codes(native) == {"participant_log_missing"}
    assert native.lifecycle is LifecycleStatus.UNKNOWN


_WRONG: tuple[object, ...] = (None, 7, True, [], {}, "", "x" * 100_000, "\u0000", "\ud800", [[]], {"a": {"b": []}})


def _everywhere(rows: HomeRows, change: Callable[[dict[str, Any]], None]) -> None:
    for row in [*rows.agent, *rows.registry, *rows.hook]:
        change(row)


@pytest.mark.parametrize("wrong", _WRONG, ids=range(len(_WRONG)))
def test_any_type_in_any_column_is_survived(tmp_path: Path, wrong: object) -> None:
    """One column of all rows at a time; what is left is still read."""
    names = {name for row in [*one_child().agent, *one_child().registry, *one_child().hook] for name in row}
    for number, name in enumerate(sorted(names - {"table", "event"})):
        rows = one_child()
        _everywhere(rows, lambda row, name=name: row.update({name: wrong}) if name in row else None)  # type: ignore[misc]
        folder = tmp_path / str(number)
        folder.mkdir()
        rows.read(folder)


def _members(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_members, value.values()))
    return set().union(*map(_members, value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("wrong", _WRONG, ids=range(len(_WRONG)))
def test_any_type_in_any_member_of_an_event_is_survived(tmp_path: Path, wrong: object) -> None:
    """Members of events, messages, details and payloads."""

    def replaced(value: Any, name: str) -> Any:
        if isinstance(value, dict):
            return {key: wrong if key == name else replaced(item, name) for key, item in value.items()}
        return [replaced(item, name) for item in value] if isinstance(value, list) else value

    events = [json.loads(row["event_json"]) for row in one_child().agent if "event_json" in row]
    payload = json.loads(one_child().registry[-1]["payload_json"])
    for name in sorted(_members([events, payload])):
        rows = one_child()
        for row in [*rows.agent, *rows.registry]:
            for column in ("event_json", "payload_json"):
                if isinstance(row.get(column), str):
                    row[column] = json.dumps(replaced(json.loads(row[column]), name))
        folder = tmp_path / name
        folder.mkdir()
        rows.read(folder)


def _row(table: str, **columns: object) -> str:
    return json.dumps({"table": table, **columns}) + "\n"


_LINE, _STRAY = "native_line_unreadable", "native_relation_unproven"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"table": "transcript_events", "session_id": "x", "event_js', _LINE),
        ("\u0000\u0000\u0000\n", _LINE),
        ("[1, 2]\n", _LINE),
        (_row("transcript_events", session_id=ROOT_ID, event_json="{"), _LINE),
        (_row("transcript_events", session_id=ROOT_ID, event_json="[]"), _LINE),
        ('{"table": ' + "[" * 5000 + "]" * 5000 + "}\n", _LINE),
        (_row("transcript_events", session_id="nobody", event_json="{}"), _STRAY),
        (_row("never heard of", session_id=1), None),
        ("\n \n", None),
    ],
    ids=["torn", "zeros", "array", "no event", "event array", "deep", "stray", "other table", "blank"],
)
def test_a_damaged_line_is_a_gap_and_the_rest_is_read(tmp_path: Path, line: str, code: str | None) -> None:
    """The child, and all its relations, are still there."""
    native_folder = one_child().write(tmp_path / "native")
    with (native_folder / "agents/main/openclaw-agent.jsonl").open("a") as stream:
        stream.write(line)
    native = read_native(native_folder, tmp_path)
    assert len(relation_types(native)) == 4
    assert ({code} if code else set()) <= gap_codes(native)


def test_a_session_id_of_two_keys_is_neithers(tmp_path: Path) -> None:
    """Of two rows that disagree none wins: its calls have no owner by it, and its transcript belongs to nobody."""
    native_folder = one_child().write(tmp_path / "native")
    with (native_folder / "agents/main/openclaw-agent.jsonl").open("a") as stream:
        stream.write(_row("session_nodes", session_key=OTHER, current_session_id=ROOT_ID))
    native = read_native(native_folder, tmp_path)
    assert relation_types(native) == []
    assert "native_id_not_unique" in gap_codes(native)
    assert ROOT_ID not in {claim.value for claim in native.identity_claims}
