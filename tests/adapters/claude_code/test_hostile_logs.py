"""Damaged and hostile logs: nothing raises, nothing is claimed for a participant that is none."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roller_capture.adapters.claude_code import read
from tests.adapters.claude_code.native_checks import assert_sound, recorded_run
from tests.adapters.claude_code.session_logs import (
    AGENT,
    SESSION,
    SessionLogs,
    assistant,
    completed,
    foreground_run,
    gap_codes,
    owners,
    prompt,
    tool_result,
    tool_use,
)

_RECORDED = Path(__file__).parent / "recorded" / "2.1.332"
_ODD_VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 10**30, "", "x", "../../etc/passwd", "a b", "\ud800", "nul\0", "x" * 2000,
    [], [None], [[]], ["x"], {}, {"id": {}}, {"type": "tool_use"}, {"x": [1]},
]  # fmt: skip


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, item in items:
        found += _paths(item, (*path, key))
    return found


def _replace(value: Any, path: tuple[Any, ...], new: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


_EACH_KIND: list[Any] = [None, True, 7, "x", [], ["x"], [{}], {}, {"x": []}]


@pytest.mark.parametrize("odd", _EACH_KIND, ids=repr)
@pytest.mark.parametrize(
    "scenario", ["2.1.332/nested-background", "2.1.332/mid-turn-notification", "2.1.197/fetched-result"]
)
def test_every_key_of_every_record_type_may_hold_any_kind_of_value(tmp_path: Path, scenario: str, odd: Any) -> None:
    """One value at a time, one place for each record type and key."""
    folder = tmp_path / "run"
    shutil.copytree(_RECORDED.parent / scenario, folder)
    seen: set[tuple[Any, ...]] = set()
    for path in sorted(folder.glob("native/**/*.json*")):
        original = path.read_bytes()
        lines = original.splitlines(keepends=True)
        for number, line in enumerate(lines):
            record = json.loads(line)
            kind = (path.suffixes[0], record.get("type"), (record.get("attachment") or {}).get("type"))
            for place in _paths(record):
                shape = (*kind, *(key for key in place if isinstance(key, str)))
                if shape in seen:
                    continue
                seen.add(shape)
                changed = json.loads(line)
                _replace(changed, place, odd)
                path.write_bytes(
                    b"".join([*lines[:number], json.dumps(changed).encode() + b"\n", *lines[number + 1 :]])
                )
                assert_sound(read(recorded_run(folder)[0]))
        path.write_bytes(original)
    assert len(seen) > 100


@pytest.mark.parametrize("scenario", ["nested-background", "mid-turn-notification", "stopped-child", "forked-agent"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_may_have_any_type(tmp_path: Path, scenario: str, data: st.DataObject) -> None:
    """Values of recorded lines are replaced by others; the answer stays sound."""
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(_RECORDED / scenario, folder)
    files = sorted(folder.glob("native/**/*.json*"))
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(files))
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        record = data.draw(st.sampled_from(lines))
        place = data.draw(st.sampled_from(_paths(record)))
        _replace(record, place, data.draw(st.sampled_from(_ODD_VALUES)))
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert_sound(read(recorded_run(folder)[0]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_lines_may_be_torn_doubled_swapped_or_lost(tmp_path: Path, data: st.DataObject) -> None:
    """Whole lines and bytes are damaged; the answer stays sound, and ids never change hands."""
    folder = tmp_path / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(_RECORDED / "nested-background", folder)
    before = owners(read(recorded_run(folder)[0]))
    path = data.draw(st.sampled_from(sorted(folder.glob("native/**/*.json*"))))
    content = path.read_bytes()
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 3000)))
    filler = data.draw(st.sampled_from([b"", b"\n", b"\0\0\0", b"{", b"\xff", content[start:end] * 2]))
    path.write_bytes(content[:start] + filler + content[end:])
    native = read(recorded_run(folder)[0])
    assert_sound(native)
    known = {identifier: keys for identifier, keys in owners(native).items() if identifier in before}
    assert all(keys == before[identifier] for identifier, keys in known.items())


@pytest.mark.parametrize("agent_id", ["../x", "a/b", "session:" + SESSION, "\ud800", "a b", "x" * 600])
def test_an_agent_id_of_any_form_makes_no_path_and_no_confusion(tmp_path: Path, agent_id: str) -> None:
    """It names a participant at most."""
    logs = SessionLogs(tmp_path)
    foreground_run(logs, detail=completed(agent_id))
    native = logs.read()
    assert all(source.path.is_relative_to(tmp_path) for source in native.sources)
    assert owners(native)["msg_c1"] == {f"agent:{AGENT}"}


def test_a_cycle_of_parents_and_a_record_that_is_its_own_parent_end(tmp_path: Path) -> None:
    """Chains are followed in file order only."""
    logs = SessionLogs(tmp_path)
    logs.write_root([assistant("r1", "r2", "msg_1"), assistant("r2", "r1", "msg_2"), assistant("r3", "r3", "msg_3")])
    assert set(owners(logs.read())) == {"msg_1", "msg_2", "msg_3"}


def test_a_huge_line_is_passed_over_and_what_follows_is_read(tmp_path: Path) -> None:
    """Memory stays bounded by the line limit."""
    logs = SessionLogs(tmp_path)
    path = logs.write_root([assistant("r1", None, "msg_1")])
    with path.open("ab") as stream:
        stream.write(b'{"type":"user","x":"')
        for _ in range(65):
            stream.write(b"x" * (1 << 20))
        stream.write(b'"}\n' + json.dumps(assistant("r2", "r1", "msg_2")).encode() + b"\n")
    native = logs.read()
    assert set(owners(native)) == {"msg_1", "msg_2"}
    assert [gap.message for gap in native.gaps] == ["a line is longer than 64 MiB"]


def test_many_children_and_delegations_are_read(tmp_path: Path) -> None:
    """Two hundred children of one root, each resumed many times by the same tool."""
    logs = SessionLogs(tmp_path)
    root = [prompt("r0")]
    for number in range(200):
        agent_id = f"a{number}"
        root += [
            assistant(f"u{number}", None, f"msg_{number}", tool_use(f"toolu_{number}")),
            tool_result(f"t{number}", f"u{number}", f"toolu_{number}", detail=completed(agent_id)),
        ]
        logs.write_agent([assistant("c1", None, f"msg_c{number}")], agent_id, {"toolUseId": f"toolu_{number}"})
    logs.write_root(root)
    native = logs.read()
    assert (len(native.participants), len(native.relations)) == (201, 600)
    assert gap_codes(native) == set()
