"""Damaged and hostile logs: nothing raises, the rest is attributed, and every oddity is a named gap."""

import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters import native_jsonl
from tests.adapters.deepseek.session_logs import (
    CHILD,
    LOG,
    OTHER,
    ROOT,
    Record,
    SessionLogs,
    answer,
    arrived,
    call,
    catalog,
    child_log,
    event,
    gap_codes,
    header,
    launch,
    result,
    settled,
    turn,
)

_ODD_VALUES: list[Any] = [None, True, -1, 10**30, "x", "../../x", "\ud800", [], [{}], {}]
_RICH: list[Record] = [
    header(),
    event("system/message", message={"role": "system", "content": [{"type": "text", "text": "Agent."}]}),
    event("request/header", header={"tools": [{"name": "subagent"}]}),
    event("session/title-llm-request", system="Title."),
    event("session/title", title="T", source={"kind": "provider"}),
    *turn(*launch(), answer("m-x", response_id="r-1")),
    event("session-log-deepseek/delivery-accepted", sessionId=ROOT, throughSeq=3),
    arrived(settled()),
    *turn(
        settled(),
        call("tool-3", "send_message", agent_id=CHILD),
        result("tool-3", f"message delivered to agent {CHILD}"),
    ),
    *turn(
        call("tool-4", "workflow"),
        event("tool-workflow/run-start", runId="run-1"),
        catalog(OTHER),
        event("tool-workflow/agent-start", runId="run-1", seq=1, childId=OTHER),
        event("tool-workflow/agent-end", runId="run-1", seq=1, outcome="completed"),
        result("tool-4", "Done."),
        reason="error",
        code="SERVER",
    ),
    event("compaction/start", turn=1),
    event("compaction/summary", turn=1),
    event("session/end-seed"),
]


@pytest.fixture
def logs(tmp_path: Path) -> SessionLogs:
    return SessionLogs(tmp_path)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, item in items:
        found += _paths(item, (*path, key))
    return found


def _with(records: list[Record], number: int, path: tuple[Any, ...], new: Any) -> list[Record]:
    changed = copy.deepcopy(records)
    holder: Any = changed[number]
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = new
    return changed


@pytest.mark.parametrize("odd", _ODD_VALUES, ids=repr)
def test_every_key_of_every_record_may_hold_any_value(logs: SessionLogs, odd: Any) -> None:
    """One at a time: nothing raises, and all that is claimed is sound. The children stay what they are."""
    logs.write(child_log())
    logs.write(child_log(child=OTHER))
    for number, record in enumerate(_RICH):
        for path in _paths(record):
            logs.write(_with(_RICH, number, path, odd), ROOT)
            native = logs.read(ROOT, CHILD)
            assert CHILD in {item.key for item in native.participants}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"type":"turn/end","seq":99,"da', "native_line_unreadable"),
        (b"\0\0\0\0\n", "native_line_unreadable"),
        (b"\xff\xfe\n", "native_line_unreadable"),
        (b"[1]\n", "native_line_unreadable"),
        (b"[" * 100_000 + b"\n", "native_line_unreadable"),
        (b'{"type":"turn/start","data":{}}\n', "native_shape_unknown"),
        (b'{"type":"turn/end","seq":99,"data":{"reason":{"kind":"completed"}}}\n', "native_shape_unknown"),
    ],
    ids=["torn", "nul", "no-text", "array", "deep", "no-number", "end-without-start"],
)
def test_a_line_that_cannot_be_read_is_a_gap_and_the_rest_is_read(logs: SessionLogs, line: bytes, code: str) -> None:
    """What stands before it counts."""
    path = logs.write([header(), *turn(answer("m-1"))])
    with path.open("ab") as stream:
        stream.write(line)
    native = logs.read()
    assert native.coverage.protocol_count == {ROOT: 1}
    assert gap_codes(native) == {code}


def test_a_huge_line_is_passed_over(logs: SessionLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by the longest line that is read."""
    monkeypatch.setattr(native_jsonl.read_lines, "__defaults__", (2000,))
    logs.write([header(), *turn(event("x", text="y" * 10_000), answer("m-1"))])
    native = logs.read()
    assert native.coverage.protocol_count == {ROOT: 1}
    assert gap_codes(native) == {"native_line_unreadable"}


def test_links_are_refused(logs: SessionLogs, tmp_path: Path) -> None:
    """A session's folder or log that leads elsewhere is not read."""
    elsewhere = SessionLogs(tmp_path / "elsewhere")
    real = elsewhere.write([header(), *turn(answer("m-1"))])
    folder = logs.root / "sessions" / "--w--"
    folder.mkdir(parents=True)
    (folder / ROOT).symlink_to(real.parent)
    assert gap_codes(logs.read()) == {"file_refused", "participant_log_missing"}
    (folder / ROOT).unlink()
    (folder / ROOT).mkdir()
    (folder / ROOT / LOG).symlink_to(real)
    native = logs.read()
    assert native.participants == ()
    assert "file_refused" in gap_codes(native)


def test_a_pipe_is_refused(logs: SessionLogs) -> None:
    """Opening one would wait for ever."""
    path = logs.path(ROOT)
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert "file_refused" in gap_codes(logs.read())


@pytest.mark.parametrize("identifier", ["../../x", "a/b", ".", "x\0y", "x" * 300, ""])
def test_an_id_that_is_no_name_is_not_looked_up(logs: SessionLogs, identifier: str) -> None:
    """Ids come from requests and from logs, and must not lead out of the folder."""
    logs.write([header(), *turn(*launch(child=identifier or "y" * 300))])
    native = logs.read(ROOT, identifier)
    assert ROOT in {item.key for item in native.participants}
    assert "native_shape_unknown" in gap_codes(native)


def test_a_log_of_another_session_than_its_folder_is_no_log(logs: SessionLogs) -> None:
    """A copied or renamed folder names nobody."""
    logs.write([header(OTHER), *turn(answer("m-1"))], ROOT)
    native = logs.read()
    assert native.participants == ()
    assert "native_log_unreadable" in gap_codes(native)


def test_a_thousand_equal_oddities_are_one_gap(logs: SessionLogs) -> None:
    """With their number."""
    logs.write([header(), *(event("tool/call") for _ in range(1000)), *turn(answer("m-1"))])
    [gap] = logs.read().gaps
    assert "(1000 times)" in gap.message


def test_a_compressed_log_that_is_none_is_unreadable(logs: SessionLogs) -> None:
    """Whatever its bytes are."""
    for data in (b"", b"plain text\n", b"\x28\xb5\x2f\xfd", os.urandom(5000)):
        path = logs.path(ROOT).with_name(f"{LOG}.zstd")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        native = logs.read()
        assert native.participants == ()
        assert "native_log_unreadable" in gap_codes(native)


def test_no_folder_at_all(tmp_path: Path) -> None:
    """Nothing is known, and said."""
    logs = SessionLogs(tmp_path)
    native = logs.read()
    assert (native.participants, native.coverage.outputs, native.lifecycle) == ((), None, "unknown")
    assert gap_codes(native) == {"native_logs_missing"}


def test_texts_of_the_conversation_are_in_no_gap(logs: SessionLogs) -> None:
    """Gaps are published; they tell places and never what was said."""
    secret = "a very private text"
    odd = [{"type": kind, "data": {"text": secret, "callId": [secret], "message": secret}} for kind in
           ("tool/call", "tool/result", "subagent/catalog", "turn/end", "tool-workflow/agent-start")]  # fmt: skip
    logs.write([header(), *odd, *turn(answer("m-1"))])
    assert secret not in json.dumps([gap.message for gap in logs.read().gaps])
