"""Damaged and hostile logs: nothing raises, a gap is named, and the rest is read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.pi import read
from tests.adapters.claude_code.native_checks import assert_sound, recorded_run
from tests.adapters.pi.session_logs import (
    GOOD,
    OTHER,
    SESSION,
    answer,
    capture,
    claims,
    compaction,
    gap_codes,
    header,
    message,
    write_log,
)

_RECORDED = Path(__file__).parents[2] / "fixtures" / "harness" / "pi" / "1.6.0"
_DEEP = "[" * 2000 + "]" * 2000


@pytest.mark.parametrize("odd", [None, True, 7, 1.5, "x", "\ud800", "nul\0", [], ["x"], [{}], {}, {"x": []}], ids=repr)
@pytest.mark.parametrize("scenario", ["compaction", "cut-stream", "killed"])
def test_every_key_of_every_entry_may_hold_any_kind_of_value(tmp_path: Path, scenario: str, odd: Any) -> None:
    """One value at a time."""
    folder = tmp_path / "run"
    shutil.copytree(_RECORDED / scenario, folder)
    [log] = folder.glob("native/sessions/*/*.jsonl")
    lines = log.read_text().splitlines()
    for number, line in enumerate(lines):
        for place in _paths(json.loads(line)):
            changed = json.loads(line)
            _replace(changed, place, odd)
            log.write_text("\n".join([*lines[:number], json.dumps(changed), *lines[number + 1 :]]) + "\n")
            assert_sound(read(recorded_run(folder)[0]))


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


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("no json\n", "native_line_unreadable"),
        ("[1]\n", "native_line_unreadable"),
        (b"\xff\xfe\n", "native_line_unreadable"),
        (f'{{"x": {_DEEP}}}\n', "native_line_unreadable"),
        ({"type": "telepathy", "id": "x"}, "native_shape_unknown"),
        ({"type": ["message"]}, "native_shape_unknown"),
        ({"id": "x"}, "native_shape_unknown"),
        (message("x", "y", "oracle"), "native_shape_unknown"),
        (answer(7, stopReason="new"), "native_shape_unknown"),
        (header(version=1), "native_shape_unknown"),
        (header(version="3"), "native_shape_unknown"),
    ],
    ids=repr,
)
def test_one_bad_line_is_one_gap(tmp_path: Path, line: Any, code: str) -> None:
    """What stands before and behind it is read."""
    write_log(tmp_path, *GOOD, line, answer(2))
    native = capture(tmp_path, SESSION)
    assert_sound(native)
    assert gap_codes(native) == [code]
    assert {"resp-1", "resp-2"} <= claims(native).keys()


@pytest.mark.parametrize("kind", ["model_change", "context_edit", "usage", "custom", "label", "session_info"])
def test_entries_that_prove_nothing_are_no_gaps(tmp_path: Path, kind: str) -> None:
    """Pi's own document lists them."""
    write_log(tmp_path, *GOOD, {"type": kind, "id": "x", "parentId": "a-1"})
    assert capture(tmp_path, SESSION).gaps == ()


def test_a_torn_end_is_named(tmp_path: Path) -> None:
    """The run was killed while it wrote."""
    write_log(tmp_path, *GOOD, json.dumps(answer(2))[:-20])
    native = capture(tmp_path, SESSION)
    assert (gap_codes(native), claims(native)) == (["native_line_unreadable"], {"resp-1": SESSION})


def test_what_stands_behind_another_sessions_header_is_not_read(tmp_path: Path) -> None:
    """Two sessions in one file: the second one's answers are not the first one's."""
    write_log(tmp_path, *GOOD, header(OTHER), answer(2))
    native = capture(tmp_path, SESSION)
    assert claims(native) == {"resp-1": SESSION}
    assert gap_codes(native) == ["native_shape_unknown"]


@pytest.mark.parametrize(
    "entries",
    [(), GOOD[1:], (header(OTHER), *GOOD[1:]), ("\n", *GOOD), ("no json\n", *GOOD), (header([SESSION]), *GOOD[1:])],
    ids=["empty", "no header", "another header", "blank first line", "damaged header", "header of another kind"],
)
def test_a_file_whose_first_line_does_not_name_the_session_is_none_of_its_logs(
    tmp_path: Path, entries: tuple[Any, ...]
) -> None:
    """The file's name alone proves nothing."""
    write_log(tmp_path, *entries)
    native = capture(tmp_path, SESSION)
    assert (native.participants, gap_codes(native)) == ((), ["participant_log_missing"])


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A link under a log's name is named, and what it leads to is not read."""
    elsewhere = write_log(tmp_path / "elsewhere", *GOOD)
    log = write_log(tmp_path / "home", *GOOD)
    log.unlink()
    log.symlink_to(elsewhere)
    native = capture(tmp_path / "home", SESSION)
    assert native.participants == ()
    assert gap_codes(native) == ["file_refused"]


@pytest.mark.parametrize("value", ["../../etc/passwd", "", "a/b", "nul\0", "x" * 300, "\ud800"], ids=ascii)
def test_a_session_id_that_is_no_file_name_is_a_gap(tmp_path: Path, value: str) -> None:
    """Ids come from request headers."""
    write_log(tmp_path, *GOOD)
    native = capture(tmp_path, SESSION, value)
    assert "native_shape_unknown" in gap_codes(native)
    assert claims(native) == {"resp-1": SESSION}


def test_entries_in_a_circle_do_no_harm(tmp_path: Path) -> None:
    """Entry ids are compared and never followed."""
    circle = (answer(2, "c-1"), compaction("c-1", "a-2"), compaction("c-1", "c-1"))
    write_log(tmp_path, *GOOD, *circle)
    assert_sound(capture(tmp_path, SESSION))


def test_no_home_at_all(tmp_path: Path) -> None:
    """Neither given nor there: coverage is unknown."""
    for root in (None, tmp_path / "none"):
        native = capture(root, SESSION)
        assert gap_codes(native) == ["native_logs_missing"]
        assert (native.coverage.outputs, native.lifecycle) == (None, "unknown")
