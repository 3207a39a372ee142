"""`export har`: readers of HAR open it, bodies are what was sent and what came, and what is not known is said."""

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import haralyzer
import pytest
from mitmproxy.io import har

from roller_capture.export.har.entries import WITHHELD
from roller_capture.vocabulary import DebugRetention, Purpose
from tests.export.families import GO, answer, asked, publish, publish_generations, run_export, text
from tests.export.published import publish_calls, three_protocols
from tests.support.old_attempts import bare_by_participant, by_participant
from tests.support.publish import lines

Entry = dict[str, Any]


def exported(*attempts: Path) -> tuple[list[Entry], dict[str, Any]]:
    """The entries and the log. haralyzer and mitmproxy, which has a reader of HAR, take it."""
    output = attempts[0].parent / "o.har"
    code, _, err = run_export("har", *attempts, "--output", output, "--overwrite")
    assert code == 0, err
    document = json.loads(output.read_text())
    pages = haralyzer.HarParser(document).pages
    assert sum(len(page.entries) for page in pages) == len(document["log"]["entries"])
    for entry in document["log"]["entries"]:
        flow = har.request_to_flow(entry)
        assert flow.request.url == entry["request"]["url"]
        assert flow.request.get_text() == entry["request"].get("postData", {}).get("text", "")
    return document["log"]["entries"], document["log"]


def test_every_call_is_an_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a failed one; with the bodies as they were on the wire."""
    attempt = publish_generations(tmp_path / "a", monkeypatch)
    entries, log = exported(attempt)
    assert (log["version"], log["creator"]["name"]) == ("1.2", "roller-capture")
    for entry, call in zip(entries, lines(attempt / "calls.jsonl"), strict=True):
        assert entry["_roller"]["call_id"] == call["call_id"]
        assert entry["request"]["url"] == "https://model.example/v1/messages"
        body = entry["request"]["postData"]["text"].encode()
        assert hashlib.sha256(body).hexdigest() == call["context_sha256"]
        raw = (attempt / call["response_path"]).read_bytes()
        assert entry["response"]["content"]["text"].encode() == raw
        assert entry["response"]["bodySize"] == entry["response"]["content"]["size"] == len(raw)
        assert entry["response"]["status"] == call["http"]["status"]
        assert entry["startedDateTime"] == call["timing"]["request_start"]
        assert "comment" not in entry["request"]
    assert [entry["response"]["status"] for entry in entries] == [503, 200, 200, 200, 200, 200]
    (page,) = log["pages"]
    assert {entry["pageref"] for entry in entries} == {page["id"]}
    assert page["title"] == "a/manifest.json"


def test_names_of_withheld_headers_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a mark in the place of the value, and why."""
    publish_generations(tmp_path / "a", monkeypatch)
    request, response = (exported(tmp_path / "a")[0][0][name]["headers"] for name in ("request", "response"))
    told = {item["name"]: item for item in request}
    assert told["x-claude-code-session-id"]["value"] == "11111111-2222-4333-8444-555555555555"
    assert told["x-api-key"]["value"] == WITHHELD
    assert "no values of this header" in told["x-api-key"]["comment"]
    assert {item["name"]: item["value"] for item in response} == {
        "content-type": "application/json",
        "set-cookie": WITHHELD,
    }


def test_times_are_those_of_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Milliseconds, of which HAR wants three; what was not measured is 0 and told."""
    attempt = publish_generations(tmp_path / "a", monkeypatch)
    entry = exported(attempt)[0][0]
    assert entry["timings"] == {
        "blocked": -1,
        "dns": -1,
        "connect": -1,
        "ssl": -1,
        "send": 1000.0,
        "wait": 2.0,
        "receive": 0.0,
    }
    assert entry["time"] == 1002.0


def test_an_encoded_body_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size on the wire stays; what is no text is base64; a coding that was cut is told."""
    body = json.dumps(answer("1", text("a" * 500))).encode()
    coded = (("content-type", "application/json"), ("content-encoding", "gzip"))
    calls = [
        ("root", asked(GO), gzip.compress(body), {"response_headers": coded}),
        ("root", asked(GO), gzip.compress(body)[:40], {"response_headers": coded, "end": "failure"}),
        ("root", asked(GO), b"\xff\x00", {"status": 500}),
    ]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    whole, cut, binary = (entry["response"] for entry in exported(tmp_path / "a")[0])
    assert whole["content"]["text"].encode() == body
    assert (whole["content"]["size"], whole["bodySize"]) == (len(body), len(gzip.compress(body)))
    assert whole["content"]["compression"] == len(body) - len(gzip.compress(body))
    assert cut["content"]["comment"] == "only its beginning: its coding did not end"
    assert body.startswith(cut["content"]["text"].encode())
    assert (binary["content"]["encoding"], binary["content"]["text"]) == ("base64", "/wA=")


def test_without_raw_the_body_is_said_to_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's words are there as one object; the scheme is an assumption that is told."""
    publish_generations(tmp_path / "a", monkeypatch, debug=DebugRetention.OFF)
    entries, _ = exported(tmp_path / "a")
    response, request = entries[1]["response"], entries[1]["request"]
    assert (response["bodySize"], response["content"]["size"]) == (-1, -1)
    assert "text" not in response["content"]
    assert response["content"]["_output"]["id"] == "msg_r1"
    assert "was not kept" in response["content"]["comment"]
    assert request["comment"] == "the scheme was not recorded: https is assumed"


def test_a_call_without_an_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 0, as browsers write it."""
    failed = {"status": None, "end": "failure", "unreachable": True, "phase": "connect"}
    calls = [("root", asked(GO), None, failed), ("root", asked(GO), answer("1", text("a")), {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    response = exported(tmp_path / "a")[0][0]["response"]
    assert response["status"] == 0
    assert response["content"] == {"size": 0, "mimeType": "", "comment": "no response body came"}


def test_a_request_that_is_no_json_is_there_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was; bytes that are no text as base64, which HAR has no member for in requests."""
    calls = [("root", b"{not json", answer("1", text("a")), {}), ("root", b"\xff\xfe", answer("2", text("b")), {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    first, second = (entry["request"]["postData"] for entry in exported(tmp_path / "a")[0])
    assert first["text"] == "{not json"
    assert (second["text"], second["_encoding"]) == ("//4=", "base64")


def test_all_purposes_protocols_and_layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HAR is about HTTP: nothing is chosen. An earlier layout has no raw bodies, and its calls are there."""
    publish_calls(tmp_path / "a", monkeypatch, three_protocols(), purposes={"msg_1": Purpose.TITLE})
    entries, _ = exported(tmp_path / "a")
    assert [entry["_roller"]["purpose"] for entry in entries] == ["title", "agent", "agent"]
    by_participant(tmp_path / "a")
    assert len(exported(tmp_path / "a")[0]) == 3


def test_several_attempts_are_several_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that do not validate are named and not there, exit 1."""
    for name in "abc":
        publish_generations(tmp_path / "run" / name, monkeypatch, capture_id=f"cap_{name:x>20}")
    (tmp_path / "run" / "b" / "relations.jsonl").write_text("")
    code, out, err = run_export("har", tmp_path / "run", "--output", tmp_path / "o.har", "--json")
    assert (code, "b: does not validate" in err) == (1, True)
    log = json.loads((tmp_path / "o.har").read_text())["log"]
    assert [page["title"] for page in log["pages"]] == ["run/a/manifest.json", "run/c/manifest.json"]
    assert json.loads(out)["calls"] == len(log["entries"]) == 12


def test_a_body_that_changes_while_it_is_read_ends_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries come from what was validated; nothing is written."""
    attempt = publish_generations(tmp_path / "a", monkeypatch)
    from roller_capture.export.har import command

    def change(found: Any) -> dict[int, str]:
        next((found.path / "raw" / "responses").iterdir()).write_bytes(b"other")
        return {}

    monkeypatch.setattr(command, "schemes", change)
    code, _, err = run_export("har", attempt, "--output", tmp_path / "o.har")
    assert (code, "has changed" in err or "is larger than" in err) == (1, True)
    assert not (tmp_path / "o.har").exists()


def test_existing_files_stay_and_half_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of every export."""
    attempt = publish_generations(tmp_path / "a", monkeypatch)
    (tmp_path / "o").mkdir()
    output = tmp_path / "o" / "x.har"
    output.write_text("mine")
    assert run_export("har", attempt, "--output", output)[0] == 2

    def interrupt(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("roller_capture.export.har.command._page", interrupt)
    assert run_export("har", attempt, "--output", output, "--overwrite")[0] != 0
    assert [path.read_text() for path in (tmp_path / "o").iterdir()] == ["mine"]


def test_a_call_without_a_start_has_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HAR demands one: it is counted and named, and of nothing no file is written."""
    publish_generations(tmp_path / "a", monkeypatch)
    bare_by_participant(tmp_path / "a")
    code, out, err = run_export("har", tmp_path / "a", "--output", tmp_path / "o.har", "--json")
    assert code == 1
    assert "left out 6 calls: its start is not known" in err
    assert json.loads(out)["left_out"] == {"its start is not known": 6}
    assert not (tmp_path / "o.har").exists()
