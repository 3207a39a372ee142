"""HAR files: texts are bodies whose bytes nobody proves; what is missing or wrong is named."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.importing import har
from roller_capture.vocabulary import AttemptErrorCode, CallErrorCode, HttpEnd
from tests.importing.conftest import Import
from tests.importing.recorded import ANSWER, QUESTION, data_of, har_entry, write_har

ALWAYS = ["import_cut_side_unknown", "import_bytes_unproven"]
UMLAUT = 'data: {"text": "grün €"}\n\n'


def test_an_entry_is_a_call_of_texts(imported: Import, tmp_path: Path) -> None:
    """Its coding is off, and how it ended is not known; HTTP/2's own fields are no headers."""
    (call,) = imported(write_har(tmp_path / "h", har_entry())).calls
    assert (call.path, call.host, call.port) == ("/v1/messages?beta=true", "model.test", 443)
    assert (call.request_decoded, call.response_decoded, call.content_encoding) == (True, True, None)
    assert (data_of(call.request_body), data_of(call.response_body)) == (QUESTION, ANSWER)
    assert (call.end, call.cut_by, call.status, call.chunks) == (HttpEnd.CUT, None, 200, None)
    assert (call.request_start, call.ended_at) == (1_789_992_000.5, 1_789_992_002.0)
    assert [code for code, _ in call.recorder_errors] == [CallErrorCode(name) for name in ALWAYS]
    assert call.other_headers == ["x-api-key"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"text": UMLAUT}, UMLAUT.encode()),
        ({"text": base64.b64encode(b"\xff\x00").decode(), "encoding": "base64"}, b"\xff\x00"),
        ({"text": "a\udcffb"}, b"a\xffb"),
        ({"text": "a\ud800b"}, b"a\xed\xa0\x80b"),
    ],
    ids=["text", "base64", "byte", "lone"],
)
def test_texts_become_bytes(imported: Import, tmp_path: Path, content: dict[str, Any], expected: bytes) -> None:
    """UTF-8, unless the program says otherwise."""
    (call,) = imported(write_har(tmp_path / "h", har_entry(response={"content": content}))).calls
    assert data_of(call.response_body) == expected


def test_mitmproxys_texts_of_event_streams_are_put_back(imported: Import, tmp_path: Path) -> None:
    """It takes each byte for a character where no charset is named; other programs do not."""
    headers = [{"name": "content-type", "value": "text/event-stream"}]
    content = {"text": UMLAUT.encode().decode("latin-1")}
    entry = har_entry(response={"headers": headers, "content": content})
    (call,) = imported(write_har(tmp_path / "h", entry, creator="mitmproxy")).calls
    assert data_of(call.response_body) == UMLAUT.encode()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"request": {"postData": None}}, ["import_body_missing"]),
        ({"response": {"content": {"size": 500, "text": ""}}}, ["import_body_missing"]),
        ({"response": {"content": {}}}, ["import_body_missing"]),
        ({"request": {"headers": []}}, ["import_credentials_unknown"]),
        ({"request": {"headers": [{"name": "x-api-key", "value": "REDACTED"}]}}, ["import_credentials_unknown"]),
    ],
)
def test_what_an_entry_does_not_prove_is_named(
    imported: Import, tmp_path: Path, changes: dict[str, Any], named: list[str]
) -> None:
    """Bodies that are not there, and keys that cannot be looked for."""
    (call,) = imported(write_har(tmp_path / "h", har_entry(**changes))).calls
    assert [code for code, _ in call.recorder_errors] == [CallErrorCode(name) for name in (*ALWAYS, *named)]


def test_an_entry_without_an_answer_is_a_call(imported: Import, tmp_path: Path) -> None:
    """Browsers and mitmproxy give the status 0, and their own words."""
    (call,) = imported(
        write_har(tmp_path / "h", har_entry(response={"status": 0, "_error": "net::ERR_FAILED", "content": {}}))
    ).calls
    assert (call.status, call.end, call.failure_message) == (None, HttpEnd.CUT, "no response: net::ERR_FAILED")


@pytest.mark.parametrize(
    "entry",
    [
        7,
        None,
        {},
        har_entry(request={"url": "https://[bad"}),
        har_entry(request={"url": "https://a:99999999/v1/messages"}),
        har_entry(request={"method": None}),
        har_entry(response={"content": {"text": "%%%", "encoding": "base64"}}),
        har_entry(request={"headers": [{"name": "a", "value": "x" * (1 << 21)}]}),
    ],
)
def test_a_damaged_entry_costs_only_itself(imported: Import, tmp_path: Path, entry: Any) -> None:
    """The calls beside it are there."""
    attempt = imported(write_har(tmp_path / "h", entry, har_entry()))
    assert len(attempt.calls) == 1
    assert AttemptErrorCode.IMPORT_SOURCE_DAMAGED in {fault.code for fault in attempt.faults}


@pytest.mark.parametrize(
    "changes",
    [
        {"startedDateTime": 7, "time": "long"},
        {"startedDateTime": "yesterday", "time": float("inf")},
        {"startedDateTime": "9999-12-31T23:59:59+00:00", "time": -1},
    ],
)
def test_times_that_are_none_are_unknown(imported: Import, tmp_path: Path, changes: dict[str, Any]) -> None:
    """The call is there all the same."""
    text = json.dumps({"log": {"entries": [har_entry(**changes)]}}).replace("Infinity", "1e999")
    (tmp_path / "h").write_text(text)
    (call,) = imported(tmp_path / "h").calls
    assert call.ended_at is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"log": {"entries": [', "no whole HAR"),
        ('{"log": {"entries": 7}}', "no log.entries"),
        ('{"log": []}', "no log.entries"),
        ('{"a":' * 5000, "no whole HAR"),
        ("", "empty"),
        ("<html>", "neither"),
    ],
)
def test_what_is_no_har_is_refused(imported: Import, tmp_path: Path, text: str, words: str) -> None:
    """In one line, and nothing is left."""
    (tmp_path / "h").write_text(text)
    with pytest.raises(RollerError, match=words) as caught:
        imported(tmp_path / "h")
    assert caught.value.exit_code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h"]


def test_a_har_that_is_too_large_is_refused(imported: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have to be in memory."""
    monkeypatch.setattr(har, "LARGEST_HAR", 100)
    with pytest.raises(RollerError, match="larger than"):
        imported(write_har(tmp_path / "h", har_entry()))
