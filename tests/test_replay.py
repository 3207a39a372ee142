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
from tests.support.attempts import AttemptBuilder, message_body, native_capture, participant, request_body
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
        in_manifest(lambda manifest: manifest["capabilities"]["native_output_coverage"].update(expected=2, observed=2)),
        in_manifest(lambda manifest: manifest["participants"][1].update(native_ids={"agent_id": ["another"]})),
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
