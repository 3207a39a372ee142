"""What is published can be derived again from the raw files beside it, and must be the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.replay import replay_findings
from roller_capture.vocabulary import DebugRetention
from tests.integrity.test_validate_attempt import Tamper, rewrite_call, rewrite_manifest, rewrite_relation
from tests.support.attempts import AttemptBuilder, gzipped, message_body, native_capture, participant, request_body
from tests.support.publish import publish_family, use_capture


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published family with raw/."""
    publish_family(tmp_path, monkeypatch, debug_retention=DebugRetention.FULL)
    return tmp_path


def files(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def test_an_untouched_attempt_is_derived_again_as_it_is(family: Path) -> None:
    """And nothing in it is written to."""
    before = files(family)
    assert replay_findings(family) == []
    assert files(family) == before


def test_every_kind_of_ending_is_derived_again_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut, refused, killed, no JSON, with line breaks, with bytes that are no text, with an unclosed recorder."""
    builder = AttemptBuilder(tmp_path / "attempt", closed=False)
    good = message_body("msg_1", "done", tools=(("toolu_1", "Bash"),))
    builder.call(request_body(), good)
    builder.call(request_body(), b'{"type":"error","error":{"type":"x","message":"no"}}', status=400)
    builder.call(request_body(), good[:40], end="failure", cut_by="client")
    builder.call(request_body(), None, status=None, end="failure", unreachable=True)
    builder.call(request_body().replace(b",", b",\r\n"), message_body("msg_2"))
    builder.call(b"no json", message_body("msg_3"))
    builder.call(b"\xff\x00", message_body("msg_4"))
    builder.call(request_body()[:30], message_body("msg_5"), request_complete=False)
    builder.call(request_body(), good[:90], end="none")
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    builder.build()
    finalize_attempt(builder.directory, FinalizeRequest(debug_retention=DebugRetention.FULL))
    assert validate_attempt(builder.directory, deep=True) == []
    assert replay_findings(builder.directory) == []


def test_damaged_and_undecodable_requests_are_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their records say what is wrong with them; what the recorder had meant cannot be had from `raw/` again."""
    builder = AttemptBuilder(tmp_path / "attempt")
    builder.call(request_body(), message_body("msg_1"))
    builder.call(request_body(), message_body("msg_2"), content_encoding="x-unknown")
    builder.call(request_body(), message_body("msg_3"), content_encoding="gzip")
    builder.call(gzipped(request_body()), message_body("msg_4"), content_encoding="gzip")
    builder.call(gzipped(request_body())[:-9], message_body("msg_5"), content_encoding="gzip")
    (builder.work / "bodies" / "000001.request").write_bytes(b"")
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    builder.build()
    manifest = finalize_attempt(builder.directory, FinalizeRequest(debug_retention=DebugRetention.FULL)).manifest
    assert manifest["counts"]["capture_status"] == {"partial": 2, "complete": 3}
    assert validate_attempt(builder.directory, deep=True) == []
    assert replay_findings(builder.directory) == []


@pytest.mark.parametrize("kind", ["request", "response"])
def test_an_event_that_was_refused_is_refused_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Its body's path led out of `bodies/`: the published event leads nowhere either."""
    builder = AttemptBuilder(tmp_path / "attempt")
    builder.call(request_body(), message_body("msg_1"))
    event = next(event for event in builder.events if event["type"] == kind)
    event["body"] = {"path": "raw/../../../../etc/hostname", "bytes": 9}
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    builder.build()
    manifest = finalize_attempt(builder.directory, FinalizeRequest(debug_retention=DebugRetention.FULL)).manifest
    assert "event_unreadable" in {error["code"] for error in manifest["errors"]}
    published = [json.loads(line) for line in (builder.directory / "raw" / "events.jsonl").read_text().splitlines()]
    assert {event["body"]["path"] for event in published if event["type"] == kind} == {"refused"}
    assert validate_attempt(builder.directory, deep=True) == []
    assert replay_findings(builder.directory) == []


@pytest.mark.parametrize("closed_at", [-1_000_000_000.0, None, "today"])
def test_a_closing_time_that_is_none_is_a_named_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_at: object
) -> None:
    """A recorder that closed at a time that no calendar holds, or at none: partial, and valid."""
    builder = AttemptBuilder(tmp_path / "attempt")
    builder.call(request_body(), message_body("msg_1"))
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    builder.build()
    path = builder.work / "attempt.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "closed_at": closed_at}))
    manifest = finalize_attempt(builder.directory, FinalizeRequest(debug_retention=DebugRetention.FULL)).manifest
    assert [error["code"] for error in manifest["errors"]] == ["attempt_file_unreadable"]
    assert (manifest["closed_at"], manifest["capture_status"]) == (None, "partial")
    assert validate_attempt(builder.directory, deep=True) == []


def lowered(attempt: Path) -> None:
    """The output of a call, exchanged with everything that is taken from it."""
    record = json.loads((attempt / "calls.jsonl").read_text().splitlines()[1])
    record["output"]["content"][0]["text"] = "another answer"
    rewrite_call(1, output=record["output"])(attempt)


def in_manifest(change: Callable[[dict[str, Any]], Any]) -> Tamper:
    return lambda attempt: rewrite_manifest(attempt, change)


@pytest.mark.parametrize(
    "tamper",
    [
        lowered,
        rewrite_call(0, purpose="title"),
        rewrite_call(
            1,
            timing={
                **dict.fromkeys(("request_start", "request_end", "first_byte", "end")),
                "first_byte_ms": None,
                "duration_ms": None,
                "chunks": 7,
            },
        ),
        rewrite_relation(1, outcome="something else"),
        rewrite_relation(1, task_index=3),
        in_manifest(lambda manifest: manifest["participants"][0]["native_ids"].update(more=["another"])),
        in_manifest(lambda manifest: manifest["harness"].update(version="9.9.9")),
        in_manifest(lambda manifest: manifest["other_requests"].update(probe=3)),
    ],
)
def test_a_forgery_that_contradicts_nothing_is_found_by_the_raw_files(family: Path, tamper: Tamper) -> None:
    """Outputs, purposes, times, relations and counts, changed so that everything else still agrees."""
    tamper(family)
    rewrite_manifest(family, lambda _manifest: None)
    assert validate_attempt(family) == []
    assert replay_findings(family) != []


def test_raw_files_that_cannot_be_read_again_are_a_finding(family: Path) -> None:
    """One line, no traceback."""
    (family / "raw" / "events.jsonl").write_bytes(b'{"type": "request", "body_ref": 7}\n')
    assert [finding.file for finding in replay_findings(family)] == ["raw"]


def test_without_raw_files_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to derive it from."""
    publish_family(tmp_path, monkeypatch, debug_retention=DebugRetention.OFF)
    assert replay_findings(tmp_path) == []
