"""What is published of damaged working files says less, and never something that validation calls a contradiction."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from tests.support.attempts import AttemptBuilder, gzipped, message_body, request_body
from tests.support.publish import family_attempt, family_capture, use_capture

Events = list[dict[str, Any]]


def recorded(directory: Path) -> AttemptBuilder:
    """A family, and calls that ended in other ways."""
    builder = family_attempt(directory)
    builder.call(request_body(), b'{"type":"error","error":{"type":"x","message":"no"}}', status=400)
    builder.call(request_body(), message_body("msg_5")[:40], end="failure", cut_by="upstream")
    builder.call(request_body(), None, status=None, end="failure", unreachable=True)
    builder.call(gzipped(request_body()), message_body("msg_6"), content_encoding="gzip")
    return builder


def damaged(events: Events) -> Iterator[tuple[str, Events]]:
    """Each event taken out; of the last call, also each member and header of each event."""
    for number, event in enumerate(events):
        before, after = events[:number], events[number + 1 :]
        yield f"{number} {event['type']}", [*before, *after]
        if event.get("flow") != events[-1]["flow"]:
            continue
        for name in event:
            yield f"{number} {name}", [*before, {key: value for key, value in event.items() if key != name}, *after]
        for place in range(len(event.get("headers", ()))):
            edited = copy.deepcopy(event)
            del edited["headers"][place]
            yield f"{number} header {place}", [*before, edited, *after]


def test_whatever_events_lack_the_attempt_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also an end without its head, and a coded body without the header that says so."""
    use_capture(monkeypatch, family_capture())
    cases = list(damaged(recorded(tmp_path / "first").events))
    wrong: dict[str, Any] = {}
    for number, (name, events) in enumerate(cases):
        builder = recorded(tmp_path / str(number))
        builder.build()
        text = "".join(json.dumps(event) + "\n" for event in events)
        (builder.work / "events.jsonl").write_text(text)
        finalize_attempt(builder.directory, FinalizeRequest())
        findings = validate_attempt(builder.directory, deep=True)
        if findings:
            wrong[name] = findings[0]
    assert len(cases) > 50
    assert wrong == {}
