"""What is read, who is who, what is expected, and what hostile rollouts may not do."""

import json
from pathlib import Path

import pytest

from roller_capture.adapters.codex import read
from roller_capture.capture_protocol import AdapterInput
from roller_capture.vocabulary import CoverageStrength, Purpose, Role
from tests.adapters.codex.rollouts import (
    CHILD,
    OTHER,
    ROOT,
    SPAWN,
    Record,
    call,
    child,
    codes,
    count,
    ended,
    event,
    meta,
    owners,
    read_home,
    read_rollouts,
    record,
    root_v1,
    started,
    types,
    usage,
    write,
)

HEADER = "header:thread-id"


def test_identity_is_the_thread_id_and_the_response_ids(tmp_path: Path) -> None:
    """Each thread by its first line, each response by its usage record."""
    native = read_rollouts(tmp_path, root=root_v1(), child=child())
    assert owners(native, HEADER) == {ROOT: {ROOT}, CHILD: {CHILD}}
    assert owners(native) == {"resp_1": {ROOT}, "resp_2": {ROOT}, "resp_3": {ROOT}, "resp_c": {CHILD}}
    assert {field.header: field.exclusive for field in native.identity_fields} == {
        "thread-id": True,
        "x-codex-parent-thread-id": False,
    }
    assert native.coverage.strength is CoverageStrength.PER_ID
    assert [output.output_id for output in native.coverage.outputs or ()] == ["resp_1", "resp_2", "resp_3", "resp_c"]


def forked(*own: Record, mark: bool, settings: bool, turns: bool = True) -> list[Record]:
    """A child whose file begins with a copy of the root's."""
    copied = [meta(ROOT), started("t-root"), *([count(100), call(SPAWN)] if turns else [])]
    copied.append(event("turn_aborted", turn_id="t-root", reason="interrupted"))
    first = meta(
        CHILD, ROOT, forked_from_id=ROOT, **({"subagent_history_start_ordinal": len(copied) + 1} if mark else {})
    )
    lines = [first, *copied, *([event("thread_settings_applied", thread_id=CHILD)] if settings else []), *own]
    return [{**line, "ordinal": number} for number, line in enumerate(lines)]


@pytest.mark.parametrize(("mark", "settings"), [(True, True), (True, False), (False, True), (False, False)])
def test_what_a_fork_copied_is_never_its_own(tmp_path: Path, mark: bool, settings: bool) -> None:
    """The end of the copy is told by an ordinal, by the fork's own settings, or by the turns that the parent knows."""
    lines = forked(*child()[1:], mark=mark, settings=settings)
    native = read_rollouts(tmp_path, root=root_v1(), child=lines)
    [participant] = [item for item in native.participants if item.key == CHILD]
    assert participant.execution_status.value == "completed"
    assert owners(native)["resp_c"] == {CHILD}
    assert (native.gaps, native.coverage.protocol_count[CHILD]) == ((), 0)
    assert [item.parent_key for item in native.relations] == [ROOT] * 5


def test_a_fork_that_does_not_tell_where_its_copy_ends_has_nothing_of_its_own(tmp_path: Path) -> None:
    """Its calls are still told by their header; whether all are there is unknown."""
    lines = forked(*child()[1:], mark=False, settings=False)
    native = read_rollouts(tmp_path, CHILD, child=lines)
    assert owners(native, HEADER) == {CHILD: {CHILD}}
    assert owners(native) == {}
    assert [output.output_id for output in native.coverage.outputs or ()] == [None]
    assert "native_shape_unknown" in codes(native)


def test_a_first_line_that_is_repeated_is_no_fork(tmp_path: Path) -> None:
    """Sessions of editors repeat it many times."""
    native = read_rollouts(tmp_path, ROOT, root=[meta(ROOT), meta(ROOT), *root_v1()[1:4], meta(ROOT)])
    assert set(owners(native)) == {"resp_1"}
    assert "native_shape_unknown" not in codes(native)


def test_versions_without_usage_records_are_counted(tmp_path: Path) -> None:
    """Each change of the token count is one response; repeated and empty updates are none."""
    lines = [meta(ROOT), started("t"), count(10), count(10), count(None), count(25), ended("t")]
    native = read_rollouts(tmp_path, ROOT, root=lines)
    assert native.coverage.strength is CoverageStrength.COUNT
    assert len(native.coverage.outputs or ()) == 2
    assert native.coverage.protocol_count == {ROOT: 2}


def test_a_response_id_in_two_rollouts_has_two_claims(tmp_path: Path) -> None:
    """Which of them is right only the header of the call tells."""
    native = read_rollouts(tmp_path, root=root_v1(), child=[*child(), usage(CHILD, "resp_1")])
    assert owners(native)["resp_1"] == {ROOT, CHILD}


def test_purposes_are_the_harnesss_own_marks(tmp_path: Path) -> None:
    """By the native record of a response; for calls that got none, by the mark in the request itself."""
    turn = json.dumps({"thread_id": CHILD, "request_kind": "turn"})
    compacting = json.dumps({"thread_id": ROOT, "request_kind": "compaction"})
    marks = frozenset({turn, compacting, "no json", json.dumps({"thread_id": OTHER, "request_kind": "turn"})})
    root = [*root_v1(), record("compacted", compaction_response_id="resp_3")]
    native = read_home(write(tmp_path, root=root, child=child()), x_codex_turn_metadata=marks)
    found = {claim.value: (claim.purpose, claim.side_call) for claim in native.purpose_claims}
    assert found["resp_1"] == (Purpose.AGENT, False)
    assert found["resp_3"] == (Purpose.COMPACTION, True)
    assert found[turn] == (Purpose.AGENT, False)
    assert found[compacting] == (Purpose.COMPACTION, True)
    assert len(found) == 6


@pytest.mark.parametrize(
    ("source", "purpose", "side_call"),
    [
        ({"subagent": "review"}, Purpose.REVIEW, False),
        ({"subagent": {"other": "guardian"}}, Purpose.REVIEW, True),
        ({"subagent": {"other": "something"}}, Purpose.UNKNOWN, False),
        ({"subagent": 7}, Purpose.UNKNOWN, False),
    ],
)
def test_threads_of_the_harnesss_own_have_its_purpose(
    tmp_path: Path, source: object, purpose: Purpose, side_call: bool
) -> None:
    """A review reviews; of what is not known nothing is said."""
    side = [meta(CHILD, source=source, parent_thread_id=ROOT), *child()[1:]]
    mark = json.dumps({"thread_id": CHILD, "request_kind": "turn"})
    native = read_home(write(tmp_path, root=[meta(ROOT)], child=side), x_codex_turn_metadata=frozenset({mark}))
    found = {claim.value: (claim.purpose, claim.side_call) for claim in native.purpose_claims}
    assert found["resp_c"] == found[mark] == (purpose, side_call)


def test_only_sessions_of_the_attempt_are_read(tmp_path: Path) -> None:
    """Of others nothing is kept, but descendants without a request of their own count."""
    stranger = [meta(OTHER, session_id=OTHER), started("t"), ended("t")]
    native = read_home(write(tmp_path, root=root_v1(), child=child(), other=stranger), ROOT)
    assert {item.key for item in native.participants} == {ROOT, CHILD}
    assert len(native.sources) == 2


def test_a_review_whose_root_makes_no_request_has_its_parent(tmp_path: Path) -> None:
    """The request names it."""
    side = [meta(CHILD, source={"subagent": "review"}, parent_thread_id=ROOT), *child()[1:]]
    home = write(tmp_path, root=[meta(ROOT), started("t"), ended("t")], child=side)
    native = read_home(home, CHILD, launcher={}, x_codex_parent_thread_id=frozenset({ROOT}))
    assert {item.key: item.role for item in native.participants} == {ROOT: Role.ROOT, CHILD: Role.CHILD}


@pytest.mark.parametrize("folder", ["sessions/2026/01/01", ".codex/sessions/2026/01/01", "archived_sessions", "."])
def test_homes_and_parts_of_them(tmp_path: Path, folder: str) -> None:
    """The user's home, Codex's own folder in it, its archive, or a folder of rollouts."""
    [source] = list(write(tmp_path / "made", root=root_v1()).rglob("*.jsonl"))
    target = tmp_path / "home" / folder / source.name
    target.parent.mkdir(parents=True, exist_ok=True)
    source.rename(target)
    native = read_home(tmp_path / "home", ROOT)
    assert [item.key for item in native.participants] == [ROOT]


def test_two_rollouts_of_one_thread_are_nobodys(tmp_path: Path) -> None:
    """Neither is believed."""
    home = write(tmp_path, root=root_v1(), child=child())
    [source] = home.rglob(f"*{CHILD}.jsonl")
    (home / "archived_sessions").mkdir()
    (home / "archived_sessions" / source.name).write_bytes(source.read_bytes())
    native = read_home(home)
    assert owners(native, HEADER) == {ROOT: {ROOT}}
    assert {"native_id_not_unique", "participant_log_missing"} <= codes(native)


def test_several_roots_without_a_launcher_are_told(tmp_path: Path) -> None:
    """Nothing says which of them is the attempt's."""
    home = write(tmp_path, root=root_v1(), child=child(), other=[meta(OTHER, session_id=OTHER)])
    assert "root_ambiguous" in codes(read_home(home, ROOT, CHILD, OTHER, launcher={}))
    named = read_home(home, ROOT, CHILD, OTHER)
    assert [item.key for item in named.participants if item.role is Role.ROOT] == [ROOT]
    assert "native_relation_unproven" in codes(named)


def test_another_version_is_read_and_named(tmp_path: Path) -> None:
    """All else is as usual."""
    other = [meta(ROOT, cli_version="0.999.0"), *root_v1()[1:]]
    native = read_rollouts(tmp_path, root=other, child=[meta(CHILD, ROOT, cli_version="0.999.0"), *child()[1:]])
    assert (native.harness_version, native.version_tested) == ("0.999.0", False)
    assert codes(native) == {"native_version_untested"}
    assert len(types(native)) == 5


def test_no_logs_at_all(tmp_path: Path) -> None:
    """Coverage is unknown, and the gap has a name."""
    for root in (None, tmp_path / "missing"):
        native = read(AdapterInput(root, {"thread-id": frozenset({ROOT})}))
        assert native.coverage.outputs is None
        assert "native_logs_missing" in codes(native)
    empty = read(AdapterInput(tmp_path, {"thread-id": frozenset({ROOT, "../x"})}))
    assert {"participant_log_missing", "native_shape_unknown"} == codes(empty)


DEEP = b'{"a":' * 2000 + b"1" + b"}" * 2000 + b"\n"
TORN = json.dumps(usage(ROOT, "resp_torn")).encode()[:-5]


@pytest.mark.parametrize(
    ("spoilt", "code"),
    [
        (b"no json\n", "native_line_unreadable"),
        (b"[1]\n", "native_line_unreadable"),
        (b"\0\0\0\n", "native_line_unreadable"),
        (DEEP, "native_line_unreadable"),
        (TORN, "native_line_unreadable"),
        (b'{"type":"something_new","payload":{}}\n', "native_shape_unknown"),
        (json.dumps(usage(CHILD, "resp_x")).encode() + b"\n", "native_shape_unknown"),
        (json.dumps(record("token_usage_record", thread_id=ROOT)).encode() + b"\n", "native_shape_unknown"),
        (json.dumps(meta(OTHER)).encode() + b"\n", "native_shape_unknown"),
    ],
)
def test_damaged_and_strange_lines_are_named(tmp_path: Path, spoilt: bytes, code: str) -> None:
    """What stands around them is read."""
    good = b"".join(json.dumps(line).encode() + b"\n" for line in root_v1())
    native = read_rollouts(tmp_path, root=good + spoilt, child=child())
    assert codes(native) == {code}
    assert {"resp_1", "resp_2", "resp_3", "resp_c"} <= owners(native).keys()
    assert len(types(native)) == 5


@pytest.mark.parametrize("first", [b"", b"{}\n", b"no json\n", b'{"type":"session_meta","payload":{"id":7}}\n'])
def test_a_file_whose_first_line_names_no_thread_is_nobodys(tmp_path: Path, first: bytes) -> None:
    """The name alone proves nothing."""
    native = read_rollouts(tmp_path, root=root_v1(), child=first)
    assert {item.key for item in native.participants} == {ROOT}
    assert {"native_shape_unknown", "participant_log_missing"} <= codes(native)


def test_a_file_under_a_strange_name_is_nobodys(tmp_path: Path) -> None:
    """The first line and the name have to agree."""
    native = read_rollouts(tmp_path, root=root_v1(), child=[meta(OTHER, ROOT), *child()[1:]])
    assert owners(native, HEADER) == {ROOT: {ROOT}}


def test_links_are_refused(tmp_path: Path) -> None:
    """Nothing outside of the folder is read."""
    home = write(tmp_path / "home", root=root_v1())
    outside = write(tmp_path / "outside", child=child())
    [target] = outside.rglob("*.jsonl")
    (home / "sessions" / "2026" / "01" / "01" / target.name).symlink_to(target)
    native = read_home(home)
    assert {item.key for item in native.participants} == {ROOT}
    assert "file_refused" in codes(native)


def test_parents_in_a_circle(tmp_path: Path) -> None:
    """Nobody is anybody's child then."""
    native = read_rollouts(tmp_path, CHILD, OTHER, child=[meta(CHILD, OTHER)], other=[meta(OTHER, CHILD)])
    assert {item.parent_key for item in native.participants} == {None}
    assert types(native) == []


@pytest.mark.parametrize("strange", [None, True, 7, 1.5, "", "text", [], [None], {}, {"a": {}}, "\ud800"])
def test_any_member_may_hold_anything(tmp_path: Path, strange: object) -> None:
    """Never a traceback, and never a relation that is not proven."""
    for lines in (root_v1(), child()):
        for index, line in enumerate(lines):
            for key in line["payload"]:
                spoilt = [*lines[:index], {**line, "payload": {**line["payload"], key: strange}}, *lines[index + 1 :]]
                threads = (
                    {"root": spoilt, "child": child()}
                    if lines[0] == root_v1()[0]
                    else {"root": root_v1(), "child": spoilt}
                )
                native = read_rollouts(tmp_path, **threads)
                assert {item.child_key for item in native.relations} <= {CHILD}
                assert len(native.relations) <= 5
