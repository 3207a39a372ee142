"""Reading call lines: the head without its context, whatever the provider's output holds."""

import json
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.published import find_attempts, split_line


@pytest.mark.parametrize(
    "output",
    [
        None,
        {"a": 1, "context": {"b": 2}},
        {"a": [{"x": 1, "context": 1}], "y": {"z": 0, "context": {}}},
        {"text": ',"context":'},
        [{"x": {"y": 1, "context": {}}} for _ in range(50)],
    ],
)
def test_the_head_ends_at_the_records_own_context(output: object) -> None:
    """A nested member of the same name, or the mark inside a text, is not taken for it."""
    context = {"messages": [{"context": 1, "a": 2, "b": {"c": 1, "context": 3}}]}
    line = json.dumps({"call_id": "c", "output": output, "context": context}, separators=(",", ":")).encode() + b"\n"
    head, text = split_line(line)
    assert head == {"call_id": "c", "output": output}
    assert json.loads(bytes(text)) == context


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b'{"call_id":1}', b'{"a":1,"context":', b"\xff"])
def test_a_damaged_line_is_no_record(line: bytes) -> None:
    """It raises one error kind that every reader handles."""
    with pytest.raises(ValueError, match=r".+"):
        split_line(line)


def test_attempts_are_found_in_a_run_directory(tmp_path: Path) -> None:
    """An attempt itself, those of a run's samples, or those directly below."""
    for name in ("run/samples/b/capture/attempt-0001", "run/samples/a/capture/attempt-0002", "flat/x", "flat/y"):
        (tmp_path / name / "work").mkdir(parents=True)
    assert find_attempts(tmp_path / "flat/x") == [tmp_path / "flat/x"]
    assert find_attempts(tmp_path / "flat") == [tmp_path / "flat/x", tmp_path / "flat/y"]
    assert [path.parent.parent.name for path in find_attempts(tmp_path / "run")] == ["a", "b"]


@pytest.mark.parametrize(("name", "exit_code"), [("none", 2), ("file", 2), ("empty", 1)])
def test_a_path_without_an_attempt_is_refused(tmp_path: Path, name: str, exit_code: int) -> None:
    """A missing path or a file is a wrong call; an empty folder is bad data."""
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RollerError) as caught:
        find_attempts(tmp_path / name)
    assert caught.value.exit_code == exit_code
