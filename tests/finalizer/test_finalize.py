"""`finalize_capture` as a whole: what a published attempt holds."""

import base64
import dataclasses
import hashlib
import json
import stat
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import zstandard

from roller_capture import finalize_attempt as finalize_attempt_module
from roller_capture.calls_file import line_texts
from roller_capture.capture_protocol import (
    AdapterInput,
    ContextProbe,
    Delivery,
    IdentityClaim,
    NativeCapture,
    NativeCoverage,
    NativeOutput,
    NativeSource,
    NotificationItem,
    PurposeClaim,
)
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import Finding, validate_attempt
from roller_capture.vocabulary import (
    BoundBy,
    CoverageStrength,
    DebugRetention,
    DeliveryKind,
    EvidenceKind,
    ExecutionStatus,
    Purpose,
)
from tests.support.attempts import (
    CHILD_AGENT,
    AttemptBuilder,
    delivered,
    evidence,
    gzipped,
    message_body,
    native_capture,
    participant,
    request_body,
    tool_result,
)
from tests.support.publish import NATIVE_LOG, family_attempt, family_capture, lines, publish_family, use_capture

COMPLETED = {"execution_status": ExecutionStatus.COMPLETED}


def test_a_family_is_published_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call with its owner, every relation with its calls, and nothing but the three formal files."""
    manifest = publish_family(tmp_path, monkeypatch, **COMPLETED).manifest
    assert (manifest["capture_status"], manifest["status_reasons"], manifest["errors"]) == ("complete", [], [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calls.jsonl", "manifest.json", "relations.jsonl"]
    calls = lines(tmp_path / "calls.jsonl")
    root, child = (item["participant_id"] for item in manifest["participants"])
    assert [call["participant_id"] for call in calls] == [root, child, root]
    assert [call["export_status"] for call in calls] == ["exportable"] * 3
    assert all(call["call_id"].split("_")[1] == "abcdefghij0123456789" for call in calls)
    relations = lines(tmp_path / "relations.jsonl")
    assert [item["type"] for item in relations] == ["spawn", "child_completed", "result_delivered", "result_in_context"]
    assert {item["parent_call_id"] for item in relations} == {calls[0]["call_id"]}
    assert relations[3]["context_call_id"] == calls[2]["call_id"]
    assert relations[3]["context_pointer"] == "/messages/1/content/0"
    assert all(not item["retained"] for item in relations[0]["evidence"] if item["source"] == NATIVE_LOG)
    assert manifest["raw_retained"] is False
    assert validate_attempt(tmp_path, deep=True) == []


def test_the_manifest_says_by_which_fields_owners_were_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the adapter's claims; headers that only carry a native id stand apart."""
    claims = (*family_capture().identity_claims, IdentityClaim("context:/user", "u", "root", evidence()))
    capture = dataclasses.replace(family_capture(), identity_claims=claims, absent_header_claims=())
    use_capture(monkeypatch, capture)
    manifest = finalize_attempt(family_attempt(tmp_path).build(), FinalizeRequest()).manifest
    told = {claim.field for claim in claims}
    assert manifest["capabilities"]["identity"] == ["response_id", *sorted(told - {"response_id"})]
    assert manifest["capabilities"]["native_id_headers"] == [item.header for item in capture.identity_fields]


@pytest.mark.parametrize("compress", [False, True], ids=["plain", "compressed"])
def test_the_check_before_publication_knows_where_each_line_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: bool
) -> None:
    """In the expansion, so that it need not look for line breaks through every context again."""
    told: list[list[int]] = []

    def noted(attempt: Path, *, written: Sequence[int]) -> list[Finding]:
        told.append(list(written))
        return validate_attempt(attempt, written=written)

    monkeypatch.setattr(finalize_attempt_module, "validate_attempt", noted)
    publish_family(tmp_path, monkeypatch, compress=compress, **COMPLETED)
    (file,) = tmp_path.glob("calls.jsonl*")
    assert told == [list(accumulate(map(len, line_texts(file))))]
    assert len(told[0]) == 3


def test_all_files_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures hold whole conversations: 0600 and 0700 whatever the umask."""
    publish_family(tmp_path, monkeypatch, debug_retention=DebugRetention.FULL)
    for path in tmp_path.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_field_order_on_disk_is_the_contract_with_context_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads can be read without contexts."""
    publish_family(tmp_path, monkeypatch)
    assert list(lines(tmp_path / "calls.jsonl")[0]) == [
        "schema", "call_id", "participant_id", "identity_candidates", "sequence", "protocol", "endpoint", "model",
        "purpose", "execution_status", "response_capture_status", "identity_status", "capture_status",
        "export_status", "export_blockers", "output", "output_warnings", "response_id", "tool_refs", "usage", "http",
        "timing", "errors", "native_identity", "response_path", "request_sha256", "context_sha256", "context_exact",
        "context",
    ]  # fmt: skip


def test_raw_holds_what_the_evidence_points_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Native logs, raw responses, events with references into calls.jsonl, and the map of sources; no request body."""
    manifest = publish_family(tmp_path, monkeypatch, debug_retention=DebugRetention.FULL).manifest
    calls = lines(tmp_path / "calls.jsonl")
    assert sorted(manifest["files"]) == sorted(
        ["calls.jsonl", "relations.jsonl", "raw/events.jsonl", "raw/sources.json", f"raw/native/{NATIVE_LOG}"]
        + [f"raw/responses/{call['call_id']}.body" for call in calls]
    )
    sources = json.loads((tmp_path / "raw/sources.json").read_text())
    log = (tmp_path / "raw/native" / NATIVE_LOG).read_bytes()
    assert sources[NATIVE_LOG] == {
        "path": f"raw/native/{NATIVE_LOG}",
        "sha256": hashlib.sha256(log).hexdigest(),
        "bytes": len(log),
        "original": NATIVE_LOG,
    }
    events = lines(tmp_path / "raw/events.jsonl")
    references = [event["body_ref"] for event in events if event["type"] == "request"]
    assert references == [
        {"file": "calls.jsonl", "line": index + 1, "call_id": call["call_id"], "pointer": "/context"}
        for index, call in enumerate(calls)
    ]
    bodies = [event["body"]["path"] for event in events if event["type"] == "response"]
    assert bodies == [call["response_path"] for call in calls]
    assert all((tmp_path / path).is_file() for path in bodies)
    assert validate_attempt(tmp_path, deep=True) == []


@pytest.mark.parametrize(
    ("body", "text", "exact"),
    [
        (b'{"model":"fake-model","a":"\\ud800"}',) * 2 + (True,),
        (b'{"model":"fake-model","a":1234567890123456789012345678901234567890123456789012345678901234567890}',) * 2
        + (True,),
        (b'{"model":"fake-model","a":1.50, "b":1e400}',) * 2 + (True,),
        (b'{"model":"x","model":"fake-model","a":1,"a":2}',) * 2 + (True,),
        (b'{\n "model": "fake-model",\r\n "a": "\\n"\n}', b'{  "model": "fake-model",   "a": "\\n" }', False),
        ('{"model":"fake-model","a":"\u2028\x85é"}'.encode(),) * 2 + (True,),
        (b'\xef\xbb\xbf{"model":"fake-model"}', b'{"model":"fake-model"}', False),
    ],
)
def test_context_is_the_requests_own_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes, text: bytes, exact: bool
) -> None:
    """Key order, repeated keys, number spelling and escapes stay; a line break between tokens becomes a space."""
    builder = AttemptBuilder(tmp_path)
    builder.call(body, message_body("msg_1"))
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    finalize_attempt(builder.build(), FinalizeRequest())
    line = (tmp_path / "calls.jsonl").read_bytes()
    assert line.count(b"\n") == 1
    assert line.endswith(b',"context":' + text + b"}\n")
    call = lines(tmp_path / "calls.jsonl")[0]
    assert call["context_exact"] is exact
    assert call["context_sha256"] == call["request_sha256"] == hashlib.sha256(body).hexdigest()
    assert call["export_status"] == "exportable"
    assert validate_attempt(tmp_path, deep=True) == []


@pytest.mark.parametrize(
    ("body", "raw"),
    [
        (b"model=x", {"encoding": "utf-8", "data": "model=x"}),
        (b"", {"encoding": "utf-8", "data": ""}),
        (b"\xff\x00", {"encoding": "base64", "data": base64.b64encode(b"\xff\x00").decode()}),
        (b"[NaN]", {"encoding": "utf-8", "data": "[NaN]"}),
        (b"[" * 2000 + b"]" * 2000, {"encoding": "utf-8", "data": "[" * 2000 + "]" * 2000}),
    ],
)
def test_a_body_that_no_reader_could_parse_is_kept_raw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes, raw: dict[str, str]
) -> None:
    """`context` is null then, the bytes are all there, and the call is not exportable."""
    builder = AttemptBuilder(tmp_path)
    builder.call(body, message_body("msg_1"))
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    finalize_attempt(builder.build(), FinalizeRequest())
    call = lines(tmp_path / "calls.jsonl")[0]
    assert (call["context"], call["context_raw"]) == (None, raw)
    assert "context_not_json" in call["export_blockers"]
    assert validate_attempt(tmp_path, deep=True) == []


@pytest.mark.parametrize(("coding", "encode"), [("gzip", gzipped), ("zstd", zstandard.ZstdCompressor().compress)])
def test_a_content_encoded_request_is_decoded_and_hashed_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coding: str, encode: Any
) -> None:
    """`request_sha256` is of the wire bytes, `context_sha256` of the decoded body."""
    plain = request_body({"role": "user", "content": "hi"})
    wire = encode(plain)
    builder = AttemptBuilder(tmp_path)
    builder.call(wire, message_body("msg_1"), content_encoding=coding)
    builder.call(wire[:-4], message_body("msg_2"), content_encoding=coding)
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root", "msg_2": "root"}))
    finalize_attempt(builder.build(), FinalizeRequest())
    whole, broken = lines(tmp_path / "calls.jsonl")
    assert whole["context"] == json.loads(plain)
    assert whole["request_sha256"] == hashlib.sha256(wire).hexdigest()
    assert whole["context_sha256"] == hashlib.sha256(plain).hexdigest()
    assert base64.b64decode(broken["context_raw"]["data"]) == wire[:-4]
    assert {"context_not_json", "request_incomplete"} <= set(broken["export_blockers"])
    assert validate_attempt(tmp_path, deep=True) == []


def test_one_bad_call_never_spoils_the_calls_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing and damaged body files are named on their own call; the others stay exportable."""
    builder = family_attempt(tmp_path)
    ask = request_body({"role": "user", "content": "x"})
    builder.call(ask, message_body("msg_4"))
    builder.call(ask, message_body("msg_5"))
    builder.call(ask, None, status=None, end="failure", unreachable=True, cut_by=None, body=None)
    (builder.work / "bodies" / "000004.request").unlink()
    with (builder.work / "bodies" / "000005.response").open("ab") as stream:
        stream.write(b" ")
    use_capture(monkeypatch, family_capture())
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    calls = lines(tmp_path / "calls.jsonl")
    assert [call["export_status"] for call in calls[:3]] == ["exportable"] * 3
    assert [[error["code"] for error in call["errors"]] for call in calls[3:]] == [
        ["body_file_missing"],
        ["body_file_damaged"],
        ["upstream_unreachable"],
    ]
    assert [call["execution_status"] for call in calls[3:]] == ["completed", "completed", "failed"]
    assert "capture_error" in calls[4]["export_blockers"]
    assert manifest["status_reasons"][0] == {
        "code": "call_incomplete",
        "count": 3,
        "call_ids": [call["call_id"] for call in calls[3:]],
    }
    assert validate_attempt(tmp_path, deep=True) == []


def test_a_failed_call_whose_recorded_answer_is_gone_is_not_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fully recorded 500 is complete; this one is not on disk."""
    builder = AttemptBuilder(tmp_path)
    builder.call(request_body(), b'{"type": "error", "error": {"type": "x", "message": "y"}}', status=500)
    (builder.work / "bodies" / "000001.response").unlink()
    use_capture(monkeypatch, native_capture(participant("root")))
    finalize_attempt(builder.build(), FinalizeRequest())
    (call,) = lines(tmp_path / "calls.jsonl")
    assert (call["response_capture_status"], call["capture_status"]) == ("partial", "partial")
    assert {"execution_not_completed", "capture_error"} <= set(call["export_blockers"])
    assert validate_attempt(tmp_path, deep=True) == []


def test_a_body_without_a_recorded_head_is_kept_as_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event of the head was torn; what is on disk is decoded, and can never be called whole."""
    builder = AttemptBuilder(tmp_path)
    builder.call(request_body(), message_body("msg_1", "kept"), status=None)
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    finalize_attempt(builder.build(), FinalizeRequest())
    (call,) = lines(tmp_path / "calls.jsonl")
    assert (call["execution_status"], call["response_capture_status"]) == ("interrupted", "partial")
    assert call["output"]["content"][0]["text"] == "kept"
    assert "response_incomplete" in call["export_blockers"]
    assert validate_attempt(tmp_path, deep=True) == []


def test_a_call_that_the_proxy_cut_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every call that the proxy cuts was cut because the proxy was stopped."""
    builder = AttemptBuilder(tmp_path)
    why = "the proxy forwards no answer that comes after an interim one (103)"
    builder.call(request_body(), None, status=None, end="failure", cut_by="proxy", message=why)
    use_capture(monkeypatch, native_capture(participant("root")))
    finalize_attempt(builder.build(), FinalizeRequest())
    (call,) = lines(tmp_path / "calls.jsonl")
    assert call["errors"] == [{"code": "response_cut", "message": why, "cut_by": "proxy"}]


@pytest.mark.parametrize("coding", ["snappy", "gzip"])
def test_a_request_whose_coding_cannot_be_undone_is_whole_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coding: str
) -> None:
    """All its bytes are on disk; that nobody can read them is another blocker."""
    builder = AttemptBuilder(tmp_path)
    builder.call(b"\xff no such coding", message_body("msg_1"), content_encoding=coding)
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    finalize_attempt(builder.build(), FinalizeRequest())
    (call,) = lines(tmp_path / "calls.jsonl")
    assert call["capture_status"] == "complete"
    assert call["export_blockers"] == ["context_not_json"]
    assert validate_attempt(tmp_path, deep=True) == []


@pytest.mark.parametrize("kind", ["twice", "deep"])
def test_a_result_that_cannot_be_tied_to_its_request_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It stands there twice, or the request nests too deep to be searched: a gap, not silence."""
    builder = family_attempt(tmp_path)
    result = tool_result("toolu_1")
    deep = {"role": "user", "content": json.loads("[" * 400 + "]" * 400)}
    body = request_body({"role": "user", "content": "ask"}, result, *([result] if kind == "twice" else [deep]))
    if kind == "deep":
        body = body.replace(b"[[[[", b"[" * 900).replace(b"]]]]", b"]" * 900)
    builder.call(body, message_body("msg_4"))
    use_capture(monkeypatch, family_capture())
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    (error,) = manifest["errors"]
    assert error["code"] == "native_relation_unproven"
    assert ("stands 2 times" in error["message"]) == (kind == "twice")
    assert [one["type"] for one in lines(tmp_path / "relations.jsonl")].count("result_in_context") == 1


def test_the_session_of_a_foreign_request_is_not_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else made it: its ids lead to no log of this run."""
    seen: list[frozenset[str]] = []

    def adapter(source: Any) -> Any:
        seen.append(source.wire_headers["x-claude-code-session-id"])
        return native_capture(participant("root"))

    builder = AttemptBuilder(tmp_path)
    builder.call(request_body(), message_body("msg_1"), session="ours")
    builder.call(request_body(), message_body("msg_2"), session="theirs")
    next(event for event in builder.events if event.get("sequence") == 2)["credential"] = "foreign"
    monkeypatch.setattr(finalize_attempt_module, "find_adapter", lambda _name: adapter)
    finalize_attempt(builder.build(), FinalizeRequest())
    assert seen == [frozenset({"ours"})]


def test_without_native_logs_calls_are_published_and_attributed_to_nobody(tmp_path: Path) -> None:
    """Native logs missing is a named gap, and coverage is unknown, never complete."""
    builder = AttemptBuilder(tmp_path)
    builder.call(request_body({"role": "user", "content": "x"}), message_body("msg_1"))
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    call = lines(tmp_path / "calls.jsonl")[0]
    assert (call["participant_id"], call["identity_status"]) == (None, "unattributed")
    assert manifest["capabilities"]["native_output_coverage"]["status"] == "unknown"
    assert manifest["capture_status"] == "partial"
    assert "native_logs_missing" in [error["code"] for error in manifest["errors"]]
    assert validate_attempt(tmp_path, deep=True) == []


def test_an_adapter_that_breaks_costs_only_what_it_would_have_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug or a bomb in an adapter is a named gap."""

    def explode(_source: object) -> None:
        raise RecursionError("deep")

    builder = AttemptBuilder(tmp_path)
    builder.call(request_body({"role": "user", "content": "x"}), message_body("msg_1"))
    monkeypatch.setattr("roller_capture.finalize_attempt.find_adapter", lambda _name: explode)
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    assert [error["code"] for error in manifest["errors"]] == ["adapter_failed"]
    assert manifest["counts"]["calls"] == 1


def test_rows_of_an_adapter_that_break_its_contract_are_dropped_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relation to a participant that does not exist never reaches the published file."""
    builder = family_attempt(tmp_path)
    good = family_capture()
    stranger = family_capture().relations[0]
    object.__setattr__(stranger, "child_key", "nobody")
    object.__setattr__(good, "relations", (*good.relations, stranger))
    use_capture(monkeypatch, good)
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    assert [error["code"] for error in manifest["errors"]] == ["adapter_failed"]
    assert manifest["counts"]["relations"]["spawn"] == 1
    assert validate_attempt(tmp_path) == []


def test_equal_faults_become_one_error_with_a_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand torn lines do not make a manifest of a thousand errors."""
    builder = family_attempt(tmp_path)
    builder.build()
    with (builder.work / "events.jsonl").open("ab") as stream:
        stream.write(b"{torn\n" * 1000)
    use_capture(monkeypatch, family_capture())
    errors = finalize_attempt(tmp_path, FinalizeRequest()).manifest["errors"]
    assert [(error["code"], error["count"], error["locator"]) for error in errors] == [
        ("event_unreadable", 1000, f"line:{len(builder.events) + 1}")
    ]


def test_a_masked_body_is_decoded_as_stored_and_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A masked copy of a content-encoded error body is stored decoded."""
    builder = AttemptBuilder(tmp_path)
    builder.call(
        request_body(),
        b'{"type":"error","error":{"type":"authentication_error","message":"bad key ****"}}',
        status=401,
        response_headers=(("content-type", "application/json"), ("content-encoding", "gzip")),
        masked="decoded",
    )
    use_capture(monkeypatch, native_capture(participant("root")))
    finalize_attempt(builder.build(), FinalizeRequest())
    call = lines(tmp_path / "calls.jsonl")[0]
    assert (call["execution_status"], call["response_capture_status"]) == ("failed", "complete")
    assert "credential_masked" in [error["code"] for error in call["errors"]]
    assert call["output"]["error"]["message"] == "bad key ****"


def test_native_ids_and_their_proof_stand_in_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Session, agent and message id, each piece of evidence with its source."""
    publish_family(tmp_path, monkeypatch)
    child = lines(tmp_path / "calls.jsonl")[1]["native_identity"]
    assert child["agent_id"] == CHILD_AGENT
    assert child["message_id"] == "msg_2"
    assert [item["kind"] for item in child["evidence"]] == ["response_id", "native_header"]
    assert all(item["source"] == NATIVE_LOG for item in child["evidence"])


NOTIFICATION = "<task-notification>\n<task-id>c</task-id>\n<tool-use-id>toolu_1</tool-use-id>\n</task-notification>"


def test_a_notification_that_a_tool_or_a_user_quotes_is_not_the_notification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Bash result that shows the log, and a prompt that pastes it, hold the same words in other places."""
    wrapped = {"role": "user", "content": [{"type": "text", "text": f"<system-reminder>\n{NOTIFICATION}"}]}
    quoted = {"role": "user", "content": f"what does this mean?\n{NOTIFICATION}"}
    builder = AttemptBuilder(tmp_path)
    builder.call(request_body(tool_result("toolu_9", NOTIFICATION), quoted), message_body("msg_1"))
    builder.call(request_body(tool_result("toolu_9", NOTIFICATION), quoted, wrapped), message_body("msg_2"))
    flat = {"role": "user", "content": f"<system-reminder>\n{NOTIFICATION}"}
    builder.call(request_body(tool_result("toolu_9", NOTIFICATION), flat), message_body("msg_3"))
    relation = dataclasses.replace(
        delivered(CHILD_AGENT, "toolu_1"),
        delivery=Delivery(DeliveryKind.NOTIFICATION, BoundBy.RESPONSE_ID, "msg_3"),
    )
    native = native_capture(
        participant("root"),
        participant(CHILD_AGENT, parent="root"),
        response_ids={"msg_1": "root", "msg_2": "root", "msg_3": "root"},
        relations=(relation,),
        context_probes=(ContextProbe(relation, NotificationItem((NOTIFICATION,), "msg_3")),),
    )
    use_capture(monkeypatch, native)
    finalize_attempt(builder.build(), FinalizeRequest())
    found = [item for item in lines(tmp_path / "relations.jsonl") if item["type"] == "result_in_context"]
    assert [(item["context_call_id"][-6:], item["context_pointer"]) for item in found] == [
        ("000002", "/messages/2/content/0"),
        ("000003", "/messages/1"),
    ]
    assert validate_attempt(tmp_path, deep=True) == []


@pytest.mark.parametrize("broken", [False, True])
def test_what_was_copied_after_the_run_is_kept_whatever_the_adapter_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """`work/native/` may be the only copy; what may hold credentials is named and not kept, no link is followed."""

    def explode(_source: object) -> None:
        raise ValueError

    builder = family_attempt(tmp_path)
    native = builder.work / "native"
    (native / "projects").mkdir(parents=True)
    (native / "stdout.jsonl").write_text("{}\n")
    (native / "launcher.json").write_text("{}")
    (native / "projects" / "other.jsonl").write_text("{}\n")
    (native / ".credentials.json").write_text("{}")
    (native / "link.jsonl").symlink_to("/etc/passwd")
    (native / "folder").symlink_to("/etc")
    builder.build()
    if broken:
        monkeypatch.setattr("roller_capture.finalize_attempt.find_adapter", lambda _name: explode)
    else:
        use_capture(monkeypatch, family_capture())
    manifest = finalize_attempt(tmp_path, FinalizeRequest(debug_retention=DebugRetention.FULL)).manifest
    kept = {name for name in manifest["files"] if name.startswith("raw/native/")}
    assert kept == {f"raw/native/{name}" for name in ("stdout.jsonl", "launcher.json", "projects/other.jsonl")}
    refused = [error["source"] for error in manifest["errors"] if error["code"] == "file_refused"]
    assert refused == [".credentials.json", "link.jsonl"]
    assert validate_attempt(tmp_path, deep=True) == []


def test_what_the_launcher_saw_go_wrong_is_an_error_of_the_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known codes of launcher.json, whatever else stands there."""
    builder = family_attempt(tmp_path)
    (builder.work / "native").mkdir()
    errors = [{"code": "drain_failed", "message": "late"}, {"code": "x"}, {"code": ["drain_failed"]}, 5, None]
    (builder.work / "native" / "launcher.json").write_text(
        json.dumps({"errors": errors, "execution_status": "completed"})
    )
    use_capture(monkeypatch, family_capture())
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    assert [(error["code"], error["message"], error["source"]) for error in manifest["errors"]] == [
        ("drain_failed", "late", "launcher.json")
    ]
    assert manifest["execution_status"] == "completed"


def test_bodies_without_events_end_up_in_raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """finalize removes `work/`, so what it cannot place is published beside the calls."""
    builder = family_attempt(tmp_path)
    builder.build()
    (builder.work / "events.jsonl").write_bytes(b"")
    use_capture(monkeypatch, family_capture())
    manifest = finalize_attempt(tmp_path, FinalizeRequest()).manifest
    assert manifest["counts"]["calls"] == 0
    assert len([name for name in manifest["files"] if name.startswith("raw/orphans/")]) == 6
    assert validate_attempt(tmp_path, deep=True) == []


@pytest.mark.parametrize("text", ["{", "[]", "\x00"])
def test_a_damaged_launcher_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Its absence is normal, its damage is not."""
    builder = family_attempt(tmp_path)
    (builder.work / "native").mkdir()
    (builder.work / "native" / "launcher.json").write_text(text)
    use_capture(monkeypatch, family_capture())
    errors = finalize_attempt(builder.build(), FinalizeRequest()).manifest["errors"]
    assert [(error["code"], error["source"]) for error in errors] == [("native_log_unreadable", "launcher.json")]


def test_calls_without_the_hooks_header_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook was not asked for them; what the harness itself marks as a side call need not have it."""
    builder = AttemptBuilder(tmp_path)
    ask = {"role": "user", "content": "ask"}
    for number, sent in enumerate((True, False, False, False), 1):
        headers = (("x-roller-session", "s1"),) if sent else ()
        builder.call(request_body(ask), message_body(f"msg_{number}"), roller_headers=headers)
    title = PurposeClaim("response_id", "msg_4", Purpose.TITLE, evidence(), side_call=True)
    native = dataclasses.replace(
        native_capture(participant("root"), response_ids={f"msg_{number}": "root" for number in (1, 2, 3, 4)}),
        purpose_claims=(title,),
        hook_header="x-roller-session",
    )
    use_capture(monkeypatch, native)
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    [error] = [item for item in manifest["errors"] if item["code"] == "hook_not_seen"]
    assert error["count"] == 2
    assert manifest["capture_status"] == "partial"


def test_a_number_in_a_request_is_the_key_of_coverage_and_no_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id is a text in every protocol: a number that looks like one names nobody."""
    builder = AttemptBuilder(tmp_path)
    body = {"model": "m", "max_tokens": 9, "messages": [], "metadata": {"number": 7, "session": 7}}
    builder.call(json.dumps(body).encode(), message_body("msg_1"), session=None)
    builder.call(request_body(), message_body("msg_2"), session=None)
    session = IdentityClaim("context:/metadata/session", "7", "root", evidence(EvidenceKind.REQUEST_CONTEXT))
    outputs = (NativeOutput("root", "7", evidence()),)
    native = dataclasses.replace(
        native_capture(participant("root")),
        identity_claims=(session,),
        absent_header_claims=(),
        coverage=NativeCoverage("context:/metadata/number", CoverageStrength.PER_ID, outputs, "outputs"),
    )
    use_capture(monkeypatch, native)
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    assert manifest["counts"]["identity_status"] == {"unattributed": 2}
    coverage = manifest["capabilities"]["native_output_coverage"]
    assert (coverage["observed"], coverage["missing"], coverage["surplus_calls"]) == (1, [], 1)


def test_an_adapter_sees_our_headers_and_has_a_scratch_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it writes there can be evidence, and is gone from the attempt afterwards."""
    builder = AttemptBuilder(tmp_path)
    ask = request_body({"role": "user", "content": "ask"})
    builder.call(ask, message_body("msg_1"), roller_headers=(("x-roller-session", "s1"),))

    def adapter(source: AdapterInput) -> NativeCapture:
        assert source.wire_headers["x-roller-session"] == {"s1"}
        assert source.scratch is not None
        assert list(source.scratch.iterdir()) == []
        extract = source.scratch / "rows"
        extract.write_text('{"table": "session", "id": "s1"}\n')
        return native_capture(
            participant("root"), response_ids={"msg_1": "root"}, sources=(NativeSource("state.db.jsonl", extract),)
        )

    monkeypatch.setattr(finalize_attempt_module, "find_adapter", lambda _name: adapter)
    request = FinalizeRequest(debug_retention=DebugRetention.FULL)
    manifest = finalize_attempt(builder.build(), request).manifest
    assert (tmp_path / "raw/native/state.db.jsonl").read_text() == '{"table": "session", "id": "s1"}\n'
    assert sorted({name.partition("/")[0] for name in manifest["files"]}) == ["calls.jsonl", "raw", "relations.jsonl"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "calls.jsonl",
        "manifest.json",
        "raw",
        "relations.jsonl",
    ]
