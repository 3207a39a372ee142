"""Damaged and hostile sessions: nothing raises, what is odd is named, and the rest is attributed all the same."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.opencode import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from roller_capture.finalizer.adapter_check import checked
from tests.adapters.opencode.session_rows import CHILD, ROOT, Rows, codes, kinds, one_child, task

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "harness" / "opencode" / "1.18.33"
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    "",
    "x",
    "\ud800",
    "nul\0",
    "x" * 2000,
    [],
    ["x"],
    [{}],
    {},
    {"x": [1]},
]
Lines = list[dict[str, Any]]


def recorded_lines(name: str) -> Lines:
    """The rows of a recorded run, `data` parsed."""
    rows = [json.loads(line) for line in (RECORDED / name / "native" / "opencode.jsonl").read_text().splitlines()]
    return [{**row, "data": json.loads(row["data"])} if "data" in row else row for row in rows]


def read_lines(folder: Path, lines: Lines) -> NativeCapture:
    """What the adapter makes of rows."""
    rows = [_row(row) for row in lines]
    (folder / "opencode.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read(AdapterInput(folder, {}))


def _row(row: Any) -> Any:
    return {**row, "data": json.dumps(row["data"])} if isinstance(row, dict) and "data" in row else row


def one_place_of_each_kind(lines: Lines) -> list[tuple[Any, ...]]:
    """The first place of each key in each kind of row: kinds are told by table, role, type and tool."""
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for place in places(lines):
        row = lines[place[0]]
        data = row.get("data", {})
        kind = (row["table"], data.get("role"), data.get("type"), data.get("tool"))
        found.setdefault((kind, *place[1:]), place)
    return list(found.values())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON value."""
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, key))


def assert_sound(capture: NativeCapture) -> None:
    """Nothing in it breaks the adapter's contract, and nobody is his own ancestor."""
    assert checked(capture).gaps == capture.gaps
    parents = {item.key: item.parent_key for item in capture.participants}
    for key in parents:
        line: list[str | None] = []
        place: str | None = key
        while place is not None:
            assert place not in line
            line.append(place)
            place = parents[place]


@pytest.mark.parametrize("odd", ODD, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize("name", ["background", "single"])
def test_every_value_may_be_of_any_kind(tmp_path: Path, name: str, odd: Any) -> None:
    """One value at a time, one place for each kind of row and key."""
    lines = recorded_lines(name)
    for place in one_place_of_each_kind(lines):
        changed = copy.deepcopy(lines)
        value: Any = changed
        for key in place[:-1]:
            value = value[key]
        value[place[-1]] = odd
        assert_sound(read_lines(tmp_path, changed))


@pytest.mark.parametrize("seed", range(40))
def test_lines_may_be_lost_doubled_and_mixed(tmp_path: Path, seed: int) -> None:
    """Whatever is left is read."""
    chance = random.Random(seed)
    lines = [
        copy.deepcopy(line)
        for line in recorded_lines("two-notifications")
        for _ in range(chance.choice((0, 1, 1, 1, 2)))
    ]
    if seed % 2:
        chance.shuffle(lines)
    assert_sound(read_lines(tmp_path, lines))


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        pytest.param(lambda data: data[:-40], "native_line_unreadable", id="torn-end"),
        pytest.param(lambda data: data + b"\0" * 500 + b"\n", "native_line_unreadable", id="zeros"),
        pytest.param(lambda data: b"[1]\n" + data, "native_line_unreadable", id="no-object"),
        pytest.param(lambda data: data + b"[" * 5000 + b"\n", "native_line_unreadable", id="deep"),
        pytest.param(lambda data: data + b'{"table":"account","key":"x"}\n', "native_shape_unknown", id="other-table"),
        pytest.param(lambda data: data + b'{"table":"part","data":"{"}\n', "native_shape_unknown", id="broken-data"),
    ],
)
def test_a_damaged_line_costs_only_itself(tmp_path: Path, damage: Callable[[bytes], bytes], code: str) -> None:
    """It is named; everything else is claimed as before."""
    native = one_child(task()).write(tmp_path)
    path = native / "opencode.jsonl"
    path.write_bytes(damage(path.read_bytes()))
    capture = read(AdapterInput(native, {}))
    assert codes(capture) == [code]
    assert {claim.participant_key for claim in capture.identity_claims} == {ROOT, CHILD}


@pytest.mark.parametrize("line", [[(ROOT, ROOT)], [(ROOT, CHILD), (CHILD, ROOT)]], ids=["itself", "two"])
def test_sessions_in_a_circle_have_no_parents(tmp_path: Path, line: list[tuple[str, str]]) -> None:
    """Nothing says who launched whom, and none of them is a root."""
    rows = Rows()
    for session, parent in line:
        rows.session(session, parent)
        rows.answer(session, task(session, parent=parent), finish="tool-calls")
    capture = rows.read(tmp_path)
    assert_sound(capture)
    assert kinds(capture) == []
    assert {"native_shape_unknown", "root_ambiguous"} <= set(codes(capture))


def test_two_sessions_without_a_parent_are_told(tmp_path: Path) -> None:
    """Without a launcher's word both are roots, which is said."""
    rows = Rows().session().session("ses_second")
    rows.answer(ROOT)
    rows.answer("ses_second")
    capture = rows.read(tmp_path)
    assert [item.role.value for item in capture.participants] == ["root", "root"]
    assert codes(capture) == ["root_ambiguous"]


def test_the_launcher_names_the_root(tmp_path: Path) -> None:
    """Another session without a parent made requests: it is a participant, but not the root."""
    rows = Rows().session().session("ses_second")
    rows.answer(ROOT)
    native = rows.write(tmp_path)
    capture = read(AdapterInput(native, {}, {"root_native_id": ROOT}))
    assert [item.role.value for item in capture.participants] == ["root", "child"]
    assert codes(capture) == ["native_relation_unproven"]


def test_a_child_without_its_parent_is_named(tmp_path: Path) -> None:
    """It keeps its calls; its parent and its launch are unknown."""
    rows = Rows().session(CHILD, "ses_gone")
    rows.answer(CHILD)
    capture = rows.read(tmp_path)
    assert (capture.participants[0].role.value, capture.participants[0].parent_key) == ("child", None)
    assert {"root_ambiguous", "native_relation_unproven"} <= set(codes(capture))


@pytest.mark.parametrize("what", ["session", "message"])
def test_an_id_that_stands_twice_claims_nothing(tmp_path: Path, what: str) -> None:
    """Two sessions, or two messages, under one id: neither is believed, and the other ids are."""
    rows = Rows().session().session(CHILD, ROOT)
    rows.answer(ROOT)
    message = rows.answer(CHILD)
    if what == "session":
        rows.session(CHILD, None)
    else:
        rows.message(ROOT, {"role": "assistant"}, message)
    capture = rows.read(tmp_path)
    claimed = {claim.value for claim in capture.identity_claims}
    assert (CHILD if what == "session" else message) not in claimed
    assert ROOT in claimed
    assert "native_id_not_unique" in codes(capture)


def test_a_session_on_the_wire_without_a_log_is_named(tmp_path: Path) -> None:
    """Whether all subtasks have ended is then unknown."""
    rows = Rows().session()
    rows.answer()
    capture = rows.read(tmp_path, x_roller_session_id="ses_unseen")
    assert codes(capture) == ["participant_log_missing"]
    assert capture.lifecycle == "unknown"


def test_nothing_there_is_unknown(tmp_path: Path) -> None:
    """No folder, or an empty one: the calls stay without owners, and coverage is not called complete."""
    for root in (None, tmp_path, tmp_path / "missing"):
        capture = read(AdapterInput(root, {}))
        assert codes(capture) == ["native_logs_missing"]
        assert (capture.coverage.outputs, capture.lifecycle) == (None, "unknown")


def test_another_version_is_named_and_read(tmp_path: Path) -> None:
    """All else as usual."""
    rows = one_child(task())
    rows.rows[1]["version"] = "1.19.0"
    capture = rows.read(tmp_path)
    assert codes(capture) == ["native_version_untested"]
    assert (kinds(capture), capture.version_tested) == (["spawn", "result_delivered", "child_completed"], False)


def test_without_the_hook_answers_are_counted(tmp_path: Path) -> None:
    """No call carried a message id: the weaker count by session, and the finalizer is told which header was missed."""
    capture = one_child(task()).read(tmp_path)
    assert (capture.coverage.strength, capture.hook_header) == ("count", "x-roller-session-id")
    hooked = one_child(task()).read(tmp_path, x_roller_message_id="msg_002")
    assert hooked.coverage.strength == "per_id"
