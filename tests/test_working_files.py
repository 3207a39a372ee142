"""Reading working files back, whatever happened to them."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.vocabulary import HttpEnd
from roller_capture.working_files import body_bytes, body_pieces, read_regular_file, read_working_files
from tests.support.attempts import AttemptBuilder, message_body, request_body

BODY = request_body({"role": "user", "content": "hi"})


def test_a_closed_attempt_comes_back_whole(tmp_path: Path) -> None:
    """Calls in order of arrival, with bodies, headers, times; no fault."""
    builder = AttemptBuilder(tmp_path)
    builder.call(BODY, message_body("msg_1"), agent="a1")
    builder.call(BODY, None, status=None, end="failure", unreachable=True, phase="connect", cut_by=None)
    builder.event("other_request", kind="count_tokens", method="POST", path="/v1/messages/count_tokens")
    attempt = read_working_files(builder.build())
    assert [call.sequence for call in attempt.calls] == [1, 2]
    first, second = attempt.calls
    assert first.end is HttpEnd.COMPLETE
    assert first.header_values("x-claude-code-agent-id") == ["a1"]
    assert first.response_header("content-type") == "application/json"
    assert first.request_body is not None
    assert first.request_body.path is not None
    assert first.request_body.path.read_bytes() == BODY
    assert second.end is HttpEnd.UNREACHABLE
    assert attempt.other_requests == {"count_tokens": 1}
    assert attempt.faults == ()


@pytest.mark.parametrize(
    ("cut_by", "end"),
    [("client", HttpEnd.CUT_BY_CLIENT), ("upstream", HttpEnd.CUT_BY_UPSTREAM), ("proxy", HttpEnd.PROXY_STOPPED)],
)
def test_a_failure_says_which_side_broke_the_call(tmp_path: Path, cut_by: str, end: HttpEnd) -> None:
    """The three sides are told apart."""
    builder = AttemptBuilder(tmp_path)
    builder.call(BODY, b"data: {", end="failure", cut_by=cut_by)
    assert read_working_files(builder.build()).calls[0].end is end


def test_a_killed_recorder_leaves_open_calls_with_the_bytes_so_far(tmp_path: Path) -> None:
    """No end event: the response file is found by its name, and the attempt says that it was not closed."""
    builder = AttemptBuilder(tmp_path, closed=False)
    builder.call(BODY, b"data: {", end="none")
    attempt = read_working_files(builder.build())
    assert attempt.calls[0].end is HttpEnd.PROXY_KILLED
    assert attempt.calls[0].response_body is not None
    assert attempt.calls[0].response_body.actual == 7
    assert [fault.code for fault in attempt.faults] == ["recorder_not_closed"]


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"request","flow":"flow-',
        b"\x00\x00\x00",
        b"[]",
        b"null",
        b'{"type":"response"}',
        b'{"type":"response","flow":"never-seen"}',
        b'{"type":"response","flow":["flow-1"]}',
        b'{"type":"no such type"}',
        b'{"type":{"a":1}}',
        b'{"type":"request_headers","flow":"flow-1","sequence":9,"protocol":"anthropic-messages"}',
        b'{"type":"request_headers","flow":"x","sequence":1,"protocol":"anthropic-messages"}',
        b'{"type":"request_headers","flow":"x","sequence":true,"protocol":"anthropic-messages"}',
        b'{"type":"request_headers","flow":"x","sequence":7,"protocol":["anthropic-messages"]}',
        b'{"type":"request_headers","flow":"x","sequence":7,"protocol":"gopher"}',
        b'{"type":"response","flow":"flow-1","body":{"path":"bodies/../../attempt.json","bytes":1}}',
        b'{"type":"response","flow":"flow-1","body":{"path":"/etc/passwd","bytes":1}}',
        b'{"type":"response","flow":"flow-1","body":{"path":"bodies/..","bytes":1}}',
        b"[" * 5000,
        b"\xff\xfe",
    ],
)
def test_a_damaged_event_is_one_named_fault_and_spoils_nothing_beside_it(tmp_path: Path, line: bytes) -> None:
    """The fault names the line; the calls before and behind it are whole."""
    builder = AttemptBuilder(tmp_path)
    builder.call(BODY, message_body("msg_1"))
    builder.call(BODY, message_body("msg_2"))
    builder.build()
    path = builder.work / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], line + b"\n", *lines[5:]]))
    attempt = read_working_files(tmp_path)
    assert [(fault.code, fault.locator) for fault in attempt.faults] == [("event_unreadable", "line:6")]
    assert [call.end for call in attempt.calls] == [HttpEnd.COMPLETE, HttpEnd.COMPLETE]


@pytest.mark.parametrize(
    "damage",
    [
        {"headers": "x", "other_headers": 5, "roller_headers": [["a"], [1, 2], "b"], "path": 7, "port": "x"},
        {"headers": {"a": "b"}, "method": None, "host": [], "http_version": 2, "content_encoding": {}},
    ],
)
def test_members_of_wrong_types_are_named_and_passed_over(tmp_path: Path, damage: dict[str, Any]) -> None:
    """The call is kept with what can be read of it."""
    builder = AttemptBuilder(tmp_path)
    builder.call(BODY, message_body("msg_1"))
    builder.events[1] |= damage
    attempt = read_working_files(builder.build())
    assert len(attempt.calls) == 1
    assert [(fault.code, fault.locator) for fault in attempt.faults] == [("event_unreadable", "line:2")]


def test_bodies_that_no_readable_event_names_are_kept(tmp_path: Path) -> None:
    """A torn request_headers line, and lost events, cost the calls but never the bytes."""
    builder = AttemptBuilder(tmp_path)
    builder.call(BODY, message_body("msg_1"))
    builder.call(BODY, message_body("msg_2"))
    builder.build()
    path = builder.work / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1][:30] + b"\n", *lines[2:]]))
    (builder.work / "bodies" / "000003.request").symlink_to("/etc/passwd")
    attempt = read_working_files(tmp_path)
    assert [call.sequence for call in attempt.calls] == [2]
    assert [(body.folder, body.name) for body in attempt.kept_bodies] == [
        ("orphans", "000001.request"),
        ("orphans", "000001.response"),
    ]
    codes = {fault.code.value for fault in attempt.faults}
    assert codes == {"event_unreadable", "body_without_event", "file_refused"}
    path.write_bytes(b"")
    attempt = read_working_files(tmp_path)
    assert len(attempt.kept_bodies) == 4
    assert "events_missing" in [fault.code for fault in attempt.faults]


@pytest.mark.parametrize(
    "damage", [{"capture_id": "../../x"}, {"capture_id": None}, {"started_at": []}, {"closed_at": "x"}, {"harness": 5}]
)
def test_damaged_members_of_the_attempt_file_are_named(tmp_path: Path, damage: dict[str, Any]) -> None:
    """Nothing is repaired silently."""
    builder = AttemptBuilder(tmp_path)
    builder.build()
    path = builder.work / "attempt.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    assert [fault.code for fault in read_working_files(tmp_path).faults] == ["attempt_file_unreadable"]


def test_events_that_a_full_disk_took_are_told_from_a_kill(tmp_path: Path) -> None:
    """The recorder counts what it could not write."""
    builder = AttemptBuilder(tmp_path, closed=False)
    builder.build()
    path = builder.work / "attempt.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"unrecorded_events": 7}))
    (fault,) = read_working_files(tmp_path).faults
    assert (fault.code, "7 events" in fault.message) == ("recorder_not_closed", True)


def test_body_files_that_are_links_or_gone_are_not_read(tmp_path: Path) -> None:
    """A link in place of a body could lead anywhere."""
    builder = AttemptBuilder(tmp_path)
    builder.call(BODY, message_body("msg_1"))
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * len(BODY))
    (builder.work / "bodies" / "000001.request").unlink()
    (builder.work / "bodies" / "000001.request").symlink_to(secret)
    (builder.work / "bodies" / "000001.response").unlink()
    call = read_working_files(builder.build()).calls[0]
    assert call.request_body is not None
    assert call.request_body.path is None
    assert call.response_body is not None
    assert call.response_body.path is None


@pytest.mark.parametrize("size", [0, 1, 9_999, 10_000, 2 * 1024 * 1024], ids=str)
def test_a_body_is_read_whole_whatever_size_it_was_seen_to_have(tmp_path: Path, size: int) -> None:
    """It may have grown, or been cut, since the folder was listed."""
    body = tmp_path / "000001.request"
    body.write_bytes(bytes(range(250)) * 40)
    assert body_bytes(body, size) == body.read_bytes()
    assert b"".join(body_pieces(body, size)) == body.read_bytes()


def test_headers_that_calls_have_in_common_are_kept_once(tmp_path: Path) -> None:
    """The memory of an attempt grows with its calls by what is each one's own."""
    builder = AttemptBuilder(tmp_path)
    for number in range(3):
        builder.call(BODY, message_body(f"msg_{number}"), agent="a1" if number != 1 else "a2")
    first, second, third = read_working_files(builder.build()).calls
    same = [one is other for one, other in zip(first.headers, second.headers, strict=True)]
    assert same == [name != "x-claude-code-agent-id" for name, _ in first.headers]
    assert second.header_values("x-claude-code-agent-id") == ["a2"]
    assert third.headers == first.headers
    assert all(one is other for one, other in zip(first.response_headers, third.response_headers, strict=True))


@pytest.mark.parametrize(
    ("size", "limit", "fits"), [(0, 0, True), (5, 5, True), (6, 5, False), (3_000_000, 2**40, True)]
)
def test_a_file_is_read_up_to_its_limit_and_makes_room_for_no_more(
    tmp_path: Path, size: int, limit: int, fits: bool
) -> None:
    """A limit far above the machine's memory costs nothing."""
    path = tmp_path / "f"
    path.write_bytes(b"x" * size)
    if fits:
        assert read_regular_file(path, limit=limit) == b"x" * size
    else:
        with pytest.raises(OSError, match="larger than 5 bytes"):
            read_regular_file(path, limit=limit)


def test_a_body_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    """Between the listing and the reading."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"x")
    (tmp_path / "000001.request").symlink_to(secret)
    for read in (body_bytes, lambda path, size: list(body_pieces(path, size))):
        with pytest.raises(OSError, match="symbolic links"):
            read(tmp_path / "000001.request", 1)


def test_named_errors_of_the_recorder_become_faults_of_the_attempt(tmp_path: Path) -> None:
    """A passed websocket, an unknown model endpoint and a disk error are each named; the call knows its disk error."""
    builder = AttemptBuilder(tmp_path)
    flow = builder.call(BODY, message_body("msg_1"))
    (builder.work / "bodies" / "u1.request").write_bytes(b"{}")
    builder.event("websocket_passed", flow="w", host="h", path="/v1/responses")
    builder.event("recorder_error", flow=flow, code="disk_error", where="response body", message="disk full")
    builder.event(
        "unrecognised_model_request",
        flow="u",
        method="POST",
        host="h",
        path="/x",
        body={"path": "bodies/u1.request", "bytes": 2},
        response_body=None,
    )
    attempt = read_working_files(builder.build())
    assert [fault.code for fault in attempt.faults] == [
        "websocket_passed",
        "recorder_error",
        "unrecognised_model_request",
    ]
    assert attempt.calls[0].recorder_errors == [("disk_error", "response body: disk full")]
    assert [body.name for body in attempt.kept_bodies] == ["u1.request"]


@pytest.mark.parametrize(
    ("text", "code"),
    [("{", "attempt_file_unreadable"), ("[]", "attempt_file_unreadable"), (None, "attempt_file_unreadable")],
)
def test_a_damaged_attempt_file_is_a_named_fault(tmp_path: Path, text: str | None, code: str) -> None:
    """The calls are in the events, so nothing is lost with it."""
    builder = AttemptBuilder(tmp_path)
    builder.call(BODY, message_body("msg_1"))
    builder.build()
    path = builder.work / "attempt.json"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    attempt = read_working_files(tmp_path)
    assert code in [fault.code for fault in attempt.faults]
    assert len(attempt.calls) == 1


def test_a_newer_format_is_refused_with_one_line(tmp_path: Path) -> None:
    """What a later version wrote is not guessed at."""
    builder = AttemptBuilder(tmp_path)
    builder.build()
    path = builder.work / "attempt.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": "roller.work/v2"}))
    with pytest.raises(RollerError, match=r"roller\.work/v2"):
        read_working_files(tmp_path)


def test_missing_events_are_a_named_fault(tmp_path: Path) -> None:
    """An attempt without events has no call, and says why."""
    builder = AttemptBuilder(tmp_path)
    builder.build()
    (builder.work / "events.jsonl").unlink()
    assert "events_missing" in [fault.code for fault in read_working_files(tmp_path).faults]
