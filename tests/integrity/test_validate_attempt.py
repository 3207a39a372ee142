"""Whatever is changed after publication is found."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture import json_text
from roller_capture.integrity import validate_attempt
from roller_capture.published import split_line
from roller_capture.vocabulary import DebugRetention
from tests.support.publish import NATIVE_LOG, lines, publish_family

Tamper = Callable[[Path], None]


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published family with raw/."""
    publish_family(tmp_path, monkeypatch, debug_retention=DebugRetention.FULL)
    return tmp_path


def test_an_untouched_attempt_is_valid(attempt: Path) -> None:
    """Also under the deep check."""
    assert validate_attempt(attempt, deep=True) == []


def append(name: str, data: bytes) -> Tamper:
    def change(attempt: Path) -> None:
        with (attempt / name).open("ab") as stream:
            stream.write(data)

    return change


def flip_byte(name: str) -> Tamper:
    def change(attempt: Path) -> None:
        data = bytearray((attempt / name).read_bytes())
        data[len(data) // 2] ^= 1
        (attempt / name).write_bytes(data)

    return change


def swap_lines(attempt: Path) -> None:
    first, second, *rest = (attempt / "calls.jsonl").read_bytes().splitlines(keepends=True)
    (attempt / "calls.jsonl").write_bytes(b"".join([second, first, *rest]))


def replace_by_link(name: str) -> Tamper:
    def change(attempt: Path) -> None:
        copy = attempt.parent / "copy"
        (attempt / name).rename(copy)
        (attempt / name).symlink_to(copy)

    return change


def link_folder(attempt: Path) -> None:
    moved = attempt.parent / "moved"
    (attempt / "raw").rename(moved)
    (attempt / "raw").symlink_to(moved)


def replace_by_folder(name: str) -> Tamper:
    def change(attempt: Path) -> None:
        (attempt / name).unlink()
        (attempt / name).mkdir()

    return change


def pipe(attempt: Path) -> None:
    (attempt / "relations.jsonl").unlink()
    os.mkfifo(attempt / "relations.jsonl")


@pytest.mark.parametrize(
    ("tamper", "file"),
    [
        (append("calls.jsonl", b"\n"), "calls.jsonl"),
        (append("relations.jsonl", b"{}\n"), "relations.jsonl"),
        (append("raw/events.jsonl", b"{}\n"), "raw/events.jsonl"),
        (flip_byte("calls.jsonl"), "calls.jsonl"),
        (flip_byte(f"raw/native/{NATIVE_LOG}"), f"raw/native/{NATIVE_LOG}"),
        (swap_lines, "calls.jsonl"),
        (lambda attempt: (attempt / "relations.jsonl").unlink(), "relations.jsonl"),
        (lambda attempt: (attempt / "raw/sources.json").unlink(), "raw/sources.json"),
        (lambda attempt: (attempt / "raw/new.txt").write_text("x"), "raw/new.txt"),
        (lambda attempt: (attempt / "extra").mkdir(), "extra"),
        (lambda attempt: (attempt / "work").mkdir(), "work"),
        (lambda attempt: (attempt / ".hidden").write_text(""), ".hidden"),
        (replace_by_link("calls.jsonl"), "calls.jsonl"),
        (replace_by_link("manifest.json"), "manifest.json"),
        (link_folder, "raw"),
        (pipe, "relations.jsonl"),
        (replace_by_folder("calls.jsonl"), "calls.jsonl"),
        (replace_by_folder("manifest.json"), "manifest.json"),
        (replace_by_folder("raw/sources.json"), "raw/sources.json"),
        (lambda attempt: (attempt / "manifest.json").write_text("{"), "manifest.json"),
        (lambda attempt: (attempt / "manifest.json").write_text("[]"), "manifest.json"),
        (lambda attempt: (attempt / "manifest.json").write_bytes(b"\xff"), "manifest.json"),
        (lambda attempt: (attempt / "manifest.json").unlink(), "manifest.json"),
    ],
)
def test_a_changed_file_is_found_and_named(attempt: Path, tamper: Tamper, file: str) -> None:
    """Bytes, order, lines, links, pipes, files added and removed."""
    tamper(attempt)
    assert file in [finding.file for finding in validate_attempt(attempt)]


def rewrite_manifest(attempt: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Edits the manifest and makes its hashes match the files again, as a careful forger would: in the form that
    `finalize` gives it."""
    path = attempt / "manifest.json"
    manifest = json.loads(path.read_text())
    for name, info in manifest["files"].items():
        if (attempt / name).is_file():
            data = (attempt / name).read_bytes()
            info |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    change(manifest)
    path.write_bytes(json_text.dumps_indented(manifest) + b"\n")


def rewrite_call(number: int, **members: Any) -> Tamper:
    """Contexts keep their own text, unless `members` has another one."""

    def change(attempt: Path) -> None:
        path = attempt / "calls.jsonl"
        texts = path.read_bytes().splitlines(keepends=True)
        head, context = split_line(texts[number])
        head |= members
        text = json_text.dumps(head.pop("context")) if "context" in members else bytes(context)
        texts[number] = json_text.dumps(head)[:-1] + b',"context":' + text + b"}\n"
        path.write_bytes(b"".join(texts))

    return change


def rewrite_relation(number: int, **members: Any) -> Tamper:
    def change(attempt: Path) -> None:
        records = lines(attempt / "relations.jsonl")
        records[number] |= members
        (attempt / "relations.jsonl").write_bytes(b"".join(json_text.dumps(one) + b"\n" for one in records))

    return change


@pytest.mark.parametrize(
    "tamper",
    [
        rewrite_call(0, participant_id="p_nobody"),
        rewrite_call(0, participant_id=None, identity_status="unattributed"),
        rewrite_call(0, call_id="call_abcdefghij0123456789_000002"),
        rewrite_call(0, sequence=2),
        rewrite_call(0, execution_status="unknown"),
        rewrite_call(0, execution_status="failed"),
        rewrite_call(0, export_blockers=["model_mismatch"]),
        rewrite_call(0, export_blockers=["no_such_blocker"], export_status="blocked"),
        rewrite_call(0, response_path="raw/responses/none.body"),
        rewrite_call(0, response_path="../../etc/passwd"),
        rewrite_call(0, surprise=1),
        rewrite_call(0, schema="roller.call/v9"),
        rewrite_call(0, tool_refs=[]),
        rewrite_relation(0, child_participant_id="p_nobody"),
        rewrite_relation(0, parent_call_id="call_none"),
        rewrite_relation(0, context_call_id="call_none"),
        rewrite_relation(0, evidence=[]),
        rewrite_relation(0, relation_id="rel_abcdefghij0123456789_000002"),
        rewrite_relation(0, type="friendship"),
        rewrite_relation(0, tool_call_id=None),
        rewrite_relation(0, delivery={"kind": "tool_result", "bound_by": "tool_call_id", "bound_id": "x"}),
        rewrite_relation(0, parent_call_status="unknown", parent_call_id=None),
        rewrite_relation(0, model_tool_ref=None),
        rewrite_relation(0, context_pointer="/messages"),
        rewrite_relation(1, type="child_failed"),
        rewrite_relation(1, delivery={"kind": "tool_result", "bound_by": "tool_call_id", "bound_id": "x"}),
        rewrite_relation(2, delivery=None),
        rewrite_relation(2, parent_participant_id=None),
        rewrite_relation(2, context_call_id="call_abcdefghij0123456789_000003"),
        rewrite_relation(3, delivery=None),
        rewrite_relation(3, context_pointer=None),
        rewrite_relation(3, context_call_id=None),
        rewrite_relation(3, context_call_id="call_abcdefghij0123456789_000002"),
        rewrite_relation(3, receiver_participant_id="p_abcdefghij0123456789_002"),
        rewrite_relation(0, tool_call_id="toolu_9"),
        rewrite_relation(0, model_tool_ref={"call_id": "toolu_1", "item_id": "item_9"}),
        rewrite_relation(0, child_participant_id="p_abcdefghij0123456789_001"),
        rewrite_relation(0, parent_participant_id="p_abcdefghij0123456789_002"),
        rewrite_relation(0, receiver_participant_id="p_abcdefghij0123456789_001"),
        rewrite_relation(0, relation_id="rel_zzzzzzzzzz0123456789_000001"),
        rewrite_relation(0, relation_id=""),
    ],
)
def test_a_forged_record_is_found_although_every_hash_matches(attempt: Path, tamper: Tamper) -> None:
    """References to nowhere, statuses raised by hand, owners changed."""
    tamper(attempt)
    rewrite_manifest(attempt, lambda _manifest: None)
    assert validate_attempt(attempt) != []


def child_of(manifest: dict[str, Any]) -> str:
    return str(manifest["participants"][1]["participant_id"])


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.update(capture_status="partial"),
        lambda manifest: manifest["counts"].update(calls=4),
        lambda manifest: manifest["counts"].update(exportable_calls=2),
        lambda manifest: manifest["participants"][0]["call_ids"].pop(),
        lambda manifest: manifest["participants"][0]["call_ids"].append("call_none"),
        lambda manifest: manifest["participants"][1]["call_ids"].append(manifest["participants"][0]["call_ids"][0]),
        lambda manifest: manifest["files"].update({"../x": {"sha256": "0" * 64, "bytes": 0}}),
        lambda manifest: manifest["files"].update({"/etc/passwd": {"sha256": "0" * 64, "bytes": 0}}),
        lambda manifest: manifest["files"].pop("relations.jsonl"),
        lambda manifest: manifest["files"].pop("raw/sources.json"),
        lambda manifest: manifest.update(raw_retained=False),
        lambda manifest: manifest.update(schema="roller.capture/v2"),
        lambda manifest: manifest.update(storage_layout="compact/v9"),
        lambda manifest: manifest.update(extra=1),
        lambda manifest: manifest["lifecycle"].update(status="pending"),
        lambda manifest: manifest["lifecycle"].update(pending_participant_ids=["p_x"]),
        lambda manifest: manifest["capabilities"]["native_output_coverage"].update(missing=["x"]),
        lambda manifest: manifest["capabilities"]["native_output_coverage"].update(status="unknown"),
        lambda manifest: manifest["errors"].append(
            {"code": "hook_not_seen", "message": "x", "source": None, "locator": None, "count": 1}
        ),
        lambda manifest: manifest["participants"][1].update(parent_participant_id="p_nobody"),
        lambda manifest: manifest["participants"][1].update(parent_participant_id=child_of(manifest)),
        lambda manifest: manifest["participants"][0].update(parent_participant_id=child_of(manifest)),
        lambda manifest: manifest["participants"][0].update(role="child", parent_participant_id=child_of(manifest)),
        lambda manifest: manifest["participants"].append(manifest["participants"][1]),
        lambda manifest: manifest.update(capture_id="cap_zzzzzzzzzz0123456789"),
        lambda manifest: manifest.update(closed_at=None),
        lambda manifest: manifest.update(debug_retention="off"),
        lambda manifest: manifest["capabilities"]["native_output_coverage"].update(expected=99),
        lambda manifest: manifest.update(
            capture_status="partial", status_reasons=[{"code": "errors", "count": 1, "call_ids": []}]
        ),
        lambda manifest: manifest.update(
            capture_status="partial",
            status_reasons=[{"code": "recorder_not_closed", "count": 1, "call_ids": ["call_none"]}],
        ),
    ],
)
def test_a_forged_manifest_is_found_by_the_records(attempt: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """What the manifest claims must follow from the records."""
    rewrite_manifest(attempt, change)
    assert validate_attempt(attempt) != []


@pytest.mark.parametrize(
    "tamper",
    [
        rewrite_call(2, context={"messages": []}),
        rewrite_call(2, context={"messages": []}, context_exact=False),
        rewrite_relation(3, context_pointer="/messages/99"),
        rewrite_relation(
            0,
            evidence=[
                {"kind": "native_record", "source": NATIVE_LOG, "locator": "line:99", "retained": True},
            ],
        ),
        rewrite_relation(
            0,
            evidence=[
                {"kind": "native_record", "source": NATIVE_LOG, "locator": "line:1 tool:toolu_other", "retained": True}
            ],
        ),
        rewrite_relation(
            0, evidence=[{"kind": "native_record", "source": "../../x", "locator": "line:1", "retained": True}]
        ),
        rewrite_relation(
            0, evidence=[{"kind": "native_record", "source": NATIVE_LOG, "locator": "somewhere", "retained": True}]
        ),
        rewrite_relation(
            0, evidence=[{"kind": "tool_call_id", "source": "calls.jsonl", "locator": "line:77", "retained": True}]
        ),
    ],
)
def test_the_deep_check_resolves_every_locator_and_pointer(attempt: Path, tamper: Tamper) -> None:
    """Evidence that points outside, to nothing, or to a line that does not hold its id."""
    tamper(attempt)
    rewrite_manifest(attempt, lambda _manifest: None)
    assert validate_attempt(attempt, deep=True) != []


def test_a_source_map_that_leads_elsewhere_is_found(attempt: Path) -> None:
    """sources.json must name published files, with their hashes."""
    path = attempt / "raw/sources.json"
    sources = json.loads(path.read_text())
    sources[NATIVE_LOG]["path"] = "../../../etc/passwd"
    path.write_text(json.dumps(sources))
    rewrite_manifest(attempt, lambda _manifest: None)
    assert [finding.file for finding in validate_attempt(attempt, deep=True)] == ["raw/sources.json"]


def test_a_member_that_may_be_left_out_is_not_null(attempt: Path) -> None:
    """Left out, as by earlier versions, the fields must begin with what outputs are compared by."""
    rewrite_manifest(attempt, lambda manifest: manifest["capabilities"].pop("native_id_headers"))
    assert validate_attempt(attempt) == []
    rewrite_manifest(attempt, lambda manifest: manifest["capabilities"].update(native_id_headers=None))
    assert [finding.message for finding in validate_attempt(attempt)] == [
        "/capabilities/native_id_headers: None is not of type 'array'"
    ]
