"""Edits of several members and files at once, each with all hashes and totals made to fit, as by a careful forger."""

import copy
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture import json_text
from roller_capture.integrity import validate_attempt
from roller_capture.published import split_line
from roller_capture.replay import validate_published
from roller_capture.vocabulary import DebugRetention
from tests.support.publish import NATIVE_LOG, publish_family

Record = dict[str, Any]


class Forgery:
    """A published attempt as records and bytes. `write` publishes them again, with hashes and totals that fit."""

    def __init__(self, attempt: Path) -> None:
        self.attempt = attempt
        self.manifest: Record = json_text.parse((attempt / "manifest.json").read_bytes())
        parsed = [split_line(line) for line in (attempt / "calls.jsonl").read_bytes().splitlines(keepends=True)]
        self.calls = [(head, bytes(context)) for head, context in parsed]
        self.relations = [json_text.parse(line) for line in (attempt / "relations.jsonl").read_bytes().splitlines()]
        self.reword: Callable[[bytes], bytes] = lambda text: text
        """Of calls.jsonl as a whole."""

    @property
    def heads(self) -> list[Record]:
        """Of the calls."""
        return [head for head, _ in self.calls]

    def write(self) -> None:
        """In the form that `finalize` gives it."""
        lines = [json_text.dumps(head)[:-1] + b',"context":' + context + b"}\n" for head, context in self.calls]
        (self.attempt / "calls.jsonl").write_bytes(self.reword(b"".join(lines)))
        records = b"".join(json_text.dumps(relation) + b"\n" for relation in self.relations)
        (self.attempt / "relations.jsonl").write_bytes(records)
        self._fit_totals()
        self.manifest["files"] = {
            path.relative_to(self.attempt).as_posix(): _info(path)
            for path in self.attempt.rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }
        (self.attempt / "manifest.json").write_bytes(json_text.dumps_indented(self.manifest) + b"\n")

    def _fit_totals(self) -> None:
        counts = self.manifest["counts"]
        counts |= {"calls": len(self.calls), "relations": dict(Counter(one["type"] for one in self.relations))}
        counts["exportable_calls"] = sum(head["export_status"] == "exportable" for head in self.heads)
        for name in ("execution_status", "identity_status", "capture_status"):
            counts[name] = dict(Counter(head[name] for head in self.heads))
        counts["participants"] = len(self.manifest["participants"])
        for item in self.manifest["participants"]:
            owned = [head for head in self.heads if head["participant_id"] == item["participant_id"]]
            item["call_ids"] = [head["call_id"] for head in owned]

    def number_relations(self) -> None:
        """By their place."""
        for number, relation in enumerate(self.relations, 1):
            relation["relation_id"] = f"{relation['relation_id'][:-6]}{number:06d}"

    def sources(self, change: Callable[[Record], object]) -> None:
        """Changes raw/sources.json."""
        path = self.attempt / "raw" / "sources.json"
        document = json.loads(path.read_bytes())
        change(document)
        path.write_bytes(json_text.dumps_indented(document) + b"\n")


def _info(path: Path) -> Record:
    data = path.read_bytes()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


@pytest.fixture
def forgery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forgery:
    """Of a family with raw/, as it was published: nothing is wrong with it."""
    publish_family(tmp_path / "attempt", monkeypatch, debug_retention=DebugRetention.FULL)
    made = Forgery(tmp_path / "attempt")
    made.write()
    assert validate_attempt(made.attempt, deep=True) == []
    return made


def test_a_call_that_is_taken_out_leaves_a_gap(forgery: Forgery) -> None:
    """With its answer, its relations and its place in the coverage."""
    head, _ = forgery.calls.pop(1)
    (forgery.attempt / head["response_path"]).unlink()
    coverage = forgery.manifest["capabilities"]["native_output_coverage"]
    coverage |= {"expected": coverage["expected"] - 1, "observed": coverage["observed"] - 1}
    assert "calls.jsonl:2: sequence 3 where 2 follows: a call is missing" in findings(forgery)


def findings(forgery: Forgery) -> list[str]:
    forgery.write()
    return [f"{one.file}: {one.message}" for one in validate_attempt(forgery.attempt)]


@pytest.mark.parametrize(
    "name",
    ["raw/notes.txt", "raw/native/more.jsonl", "raw/responses/more.body", "raw/orphans/000009.request", "raw/x/y/z"],
)
def test_a_file_that_no_record_names(name: str, forgery: Forgery) -> None:
    """Though the manifest lists it."""
    path = forgery.attempt / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(b"{}\n")
    assert findings(forgery) == [f"{name}: is listed by the manifest, and no record names it"]


def test_an_answer_that_is_taken_out(forgery: Forgery) -> None:
    """With the path that leads to it."""
    head = forgery.heads[0]
    (forgery.attempt / head["response_path"]).unlink()
    head["response_path"] = None
    assert findings(forgery) == [f"manifest.json: raw/ is kept, and the response of {head['call_id']} is not in it"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda sources: sources[NATIVE_LOG].update(path="raw/events.jsonl"),
            "is not where a log of this name is kept",
        ),
        (lambda sources: sources[NATIVE_LOG].update(original="../x"), "is not where a log of this name is kept"),
        (lambda sources: sources[NATIVE_LOG].update(bytes=1), "is not the file that the manifest lists"),
        (lambda sources: sources.update({"../x": sources[NATIVE_LOG]}), "../x is not where a log of this name is kept"),
        (lambda sources: sources.update({"x": sources["events.jsonl"] | {"original": "x"}}), "x is not where"),
        (lambda sources: sources.pop("events.jsonl"), "events.jsonl is missing"),
    ],
)
def test_a_map_of_sources_that_leads_elsewhere(change: Callable[[Record], object], said: str, forgery: Forgery) -> None:
    """Also without `--deep`."""
    forgery.sources(change)
    assert any(line.startswith("raw/sources.json: ") and said in line for line in findings(forgery))


@pytest.mark.parametrize("name", ["sources.json", "events.jsonl", "native"])
def test_raw_without_one_of_its_parts(name: str, forgery: Forgery) -> None:
    """Taken out of the map, too."""
    path = forgery.attempt / "raw" / name
    if name != "sources.json":
        forgery.sources(lambda sources: sources.pop("events.jsonl" if name == "events.jsonl" else NATIVE_LOG))
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert findings(forgery) != []


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("source", ["../../../etc/passwd", "/etc/passwd", "a//b", "./a", "no/such.jsonl"])
def test_evidence_that_leads_elsewhere(source: str, kept: bool, forgery: Forgery) -> None:
    """Of relations and of calls. Without raw/, nobody can say whether there was such a log."""
    if not kept:
        shutil.rmtree(forgery.attempt / "raw")
        forgery.manifest |= {"raw_retained": False, "debug_retention": "off"}
        for head in forgery.heads:
            head["response_path"] = None
    for one in (one for relation in forgery.relations for one in relation["evidence"]):
        if one["source"] != "calls.jsonl":
            one |= {"source": source, "retained": kept}
    for one in (one for head in forgery.heads for one in head["native_identity"]["evidence"]):
        one["source"] = source
    found = findings(forgery)
    assert any(line.startswith("relations.jsonl:1: evidence source") for line in found) == (kept or "no" not in source)
    assert any(line.startswith("calls.jsonl:1: evidence source") for line in found) == (kept or "no" not in source)


def test_a_relation_that_says_what_another_says(forgery: Forgery) -> None:
    """With an id of its own."""
    forgery.relations.insert(1, copy.deepcopy(forgery.relations[0]))
    forgery.number_relations()
    assert "relations.jsonl:2: says the same as line 1" in findings(forgery)


def test_two_participants_with_the_same_ids(forgery: Forgery) -> None:
    """Nobody could tell them apart."""
    twin = copy.deepcopy(forgery.manifest["participants"][-1])
    twin |= {"participant_id": f"{twin['participant_id'][:-3]}003", "call_ids": []}
    forgery.manifest["participants"].append(twin)
    assert any("native_ids of" in line for line in findings(forgery))


def test_a_context_of_another_length_than_the_request_said(forgery: Forgery) -> None:
    """Both of its hashes fit."""
    head, context = forgery.calls[0]
    head["http"]["request_headers"]["content-length"] = [str(len(context))]
    assert findings(forgery) == []
    longer = context.replace(b'"ask"', b'"asks"')
    digest = hashlib.sha256(longer).hexdigest()
    head |= {"request_sha256": digest, "context_sha256": digest}
    forgery.calls[0] = (head, longer)
    told = f"context has {len(longer)} bytes, the request was said to have {len(context)}"
    assert findings(forgery) == [f"calls.jsonl:1: {told}"]


def _twice(text: bytes) -> bytes:
    return text.replace(b'"export_status":', b'"export_status":"blocked","export_status":', 1)


def _inner_twice(text: bytes) -> bytes:
    return text.replace(b'"first_byte_ms":', b'"first_byte_ms":7,"first_byte_ms":', 1)


@pytest.mark.parametrize(
    "reword",
    [
        _twice,
        _inner_twice,
        lambda text: text.replace(b'"output":', b'"output":{"id":"x"},"output":', 1),
        lambda text: text.replace(b'"sequence":1', b'"sequence": 1'),
        lambda text: text.replace(b'"output_warnings":', b'"output_warnings": ', 1),
        lambda text: text.replace(b'"export_status":"exportable"', b'"export_status":"\\u0065xportable"', 1),
        lambda text: text.replace(b"}\n", b"}\r\n"),
        lambda text: text[:-1],
        lambda text: b"\xef\xbb\xbf" + text,
        lambda text: text.replace(b'{"schema":"roller.call/v1",', b'{"schema":"roller.call/v1" ,', 1),
    ],
)
def test_a_line_that_somebody_else_has_written(reword: Callable[[bytes], bytes], forgery: Forgery) -> None:
    """What it means is the same to one reader, and may be another thing to the next."""
    forgery.reword = reword
    assert any("is not written as finalize writes it" in line for line in findings(forgery))


def test_the_order_of_members(forgery: Forgery) -> None:
    """`context` is the last one, so that heads can be read without it."""
    head, context = forgery.calls[0]
    forgery.calls[0] = ({"call_id": head["call_id"], **head}, context)
    assert findings(forgery) == ["calls.jsonl:1: is not written as finalize writes it: somebody else has"]


@pytest.mark.parametrize(
    "reword",
    [
        lambda text: text.replace(b'  "capture_status"', b'  "capture_status": "partial",\n  "capture_status"', 1),
        lambda text: json.dumps(json.loads(text), indent=4).encode(),
        lambda text: text.rstrip(),
    ],
)
def test_a_manifest_that_somebody_else_has_written(reword: Callable[[bytes], bytes], forgery: Forgery) -> None:
    """A member twice: some readers take the first one, and some the last."""
    path = forgery.attempt / "manifest.json"
    path.write_bytes(reword(path.read_bytes()))
    (found,) = validate_attempt(forgery.attempt)
    assert (found.file, "is not written as finalize" in found.message) == ("manifest.json", True)


@pytest.mark.parametrize(
    ("tool", "is_held"),
    [
        ({"version": "0.1.0", "derivation": None}, False),
        ({"version": "0.1.0"}, True),
        ({"derivation": None}, True),
    ],
)
def test_rules_of_our_own_hold_for_what_says_that_they_do(tool: Record, is_held: bool, forgery: Forgery) -> None:
    """Another program, or an earlier version of this one, may number and write records in another way."""
    told = {**forgery.manifest["tool"], **tool}
    forgery.manifest["tool"] = {name: value for name, value in told.items() if value is not None}
    forgery.reword = lambda text: text.replace(b'"sequence":1', b'"sequence": 1')
    assert any("is not written as finalize writes it" in line for line in findings(forgery)) is is_held
    assert is_held or findings(forgery) == []


@pytest.mark.parametrize(
    "members",
    [
        {"migrated_from": "compact/v1"},
        {"migrated_from": "compact/v9", "supersedes": "0" * 64},
    ],
)
def test_an_age_that_no_migration_gives(members: Record, forgery: Forgery) -> None:
    """An older attempt is held to fewer rules."""
    forgery.manifest |= members
    assert any("migrated_from" in line for line in findings(forgery))


def test_raw_that_was_taken_out_by_hand(forgery: Forgery) -> None:
    """`prune` says in the manifest that none is wanted."""
    shutil.rmtree(forgery.attempt / "raw")
    forgery.manifest |= {"raw_retained": False, "supersedes": "0" * 64}
    for head in forgery.heads:
        head["response_path"] = None
    for one in (one for relation in forgery.relations for one in relation["evidence"]):
        one["retained"] = one["source"] == "calls.jsonl"
    assert findings(forgery) == ["manifest.json: pruned, with debug_retention full"]


def test_a_manifest_without_the_optional_lifecycle_is_held_to_all_rules(forgery: Forgery) -> None:
    """It is read, as the protocol says, and gets no rest by it."""
    del forgery.manifest["lifecycle"]
    assert findings(forgery) == []
    forgery.heads[0]["sequence"] = 9
    assert findings(forgery) != []


def test_without_the_optional_lifecycle_raw_is_compared_all_the_same(forgery: Forgery) -> None:
    """Else whoever takes it out could say whatever he likes."""
    forgery.heads[0]["output"]["content"][0]["text"] = "another answer"
    del forgery.manifest["lifecycle"]
    assert findings(forgery) == []
    assert [one.message for one in validate_published(forgery.attempt, deep=True)] == ["output is not what raw/ gives"]
