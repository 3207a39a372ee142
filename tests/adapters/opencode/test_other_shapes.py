"""Sessions of other versions, setups and products than those that were recorded."""

import json
from pathlib import Path

import pytest

from roller_capture.adapters.opencode import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from tests.adapters.opencode.session_rows import CHILD, ROOT, Rows, codes, kinds, one_child, task


def exported(rows: Rows, folder: Path, *, names: dict[str, str]) -> NativeCapture:
    """The same sessions as `opencode export` writes them, each as a pretty-printed document of the given name."""
    folder.mkdir()
    sessions = {row["id"]: {"info": _respelt(row), "messages": []} for row in rows.rows if row["table"] == "session"}
    messages = {}
    for row in rows.rows:
        if row["table"] == "message":
            info = {"id": row["id"], "sessionID": row["session_id"], **json.loads(row["data"])}
            messages[row["id"]] = {"info": info, "parts": []}
            sessions[row["session_id"]]["messages"].append(messages[row["id"]])
        elif row["table"] == "part":
            messages[row["message_id"]]["parts"].append({"id": row["id"], **json.loads(row["data"])})
    for session, document in sessions.items():
        (folder / names[session]).write_text(json.dumps(document, indent=2))
    return read(AdapterInput(folder, {"x-session-id": frozenset({ROOT, CHILD})}))


def _respelt(row: dict[str, object]) -> dict[str, object]:
    return {"parentID" if name == "parent_id" else name: value for name, value in row.items() if value is not None}


@pytest.mark.parametrize("names", [{ROOT: "full.jsonl", CHILD: "child.json"}, {ROOT: "a.json", CHILD: "full.jsonl"}])
def test_exports_say_the_same_as_the_database(tmp_path: Path, names: dict[str, str]) -> None:
    """`parentID` in camel case, one document per session, under any name."""
    rows = one_child(task())
    rows.answer()
    [extract] = [rows.read(tmp_path)]
    export = exported(rows, tmp_path / "exports", names=names)
    assert kinds(export) == kinds(extract) == ["spawn", "result_delivered", "child_completed"]
    assert codes(export) == codes(extract) == []
    assert {item.key: item.parent_key for item in export.participants} == {ROOT: None, CHILD: ROOT}


@pytest.mark.parametrize(
    "part",
    [
        {"type": "patch", "hash": "x", "files": ["/a"]},
        {"type": "subtask", "prompt": "x", "agent": "general"},
        {"type": "reasoning", "text": "x", "time": {}},
        {"type": "retry", "attempt": 1},
        {"type": "snapshot", "snapshot": "x"},
    ],
    ids=lambda part: str(part["type"]),
)
def test_further_kinds_of_parts_say_nothing_of_us(tmp_path: Path, part: dict[str, object]) -> None:
    """They are known, and no gap."""
    rows = Rows().session()
    rows.answer(ROOT, part)
    assert codes(rows.read(tmp_path)) == []


def test_a_kind_of_part_that_nobody_knows_is_named(tmp_path: Path) -> None:
    """What stands around it is read."""
    rows = one_child(task(), {"type": "novel"})
    rows.answer()
    capture = rows.read(tmp_path)
    assert codes(capture) == ["native_shape_unknown"]
    assert kinds(capture) == ["spawn", "result_delivered", "child_completed"]


def test_an_answer_without_any_end_in_a_session_that_went_on(tmp_path: Path) -> None:
    """Neither finish nor error nor completion: no output is expected of it, and the later ones are."""
    rows = Rows().session()
    rows.prompt()
    rows.message(ROOT, {"role": "assistant", "mode": "build", "time": {"created": 1}})
    rows.prompt()
    whole = rows.answer()
    capture = rows.read(tmp_path, x_roller_message_id=whole)
    assert [output.output_id for output in capture.coverage.outputs or ()] == [whole]
    assert [item.execution_status.value for item in capture.participants] == ["completed"]
    assert codes(capture) == []


def test_many_children_of_one_parent(tmp_path: Path) -> None:
    """Fifty-five, each with its own tool call."""
    rows = Rows().session()
    for number in range(55):
        rows.session(f"ses_child{number}", ROOT)
    rows.answer(ROOT, *(task(f"ses_child{number}", f"call_{number}") for number in range(55)), finish="tool-calls")
    for number in range(55):
        rows.answer(f"ses_child{number}")
    rows.answer()
    capture = rows.read(tmp_path)
    launched = {item.child_key: item.tool_call_id for item in capture.relations if item.type == "spawn"}
    assert launched == {f"ses_child{number}": f"call_{number}" for number in range(55)}
    assert codes(capture) == []
