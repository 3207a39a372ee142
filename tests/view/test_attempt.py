"""What an attempt says, and what is wrong with it: damage is told, the rest is kept."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.view.attempt import finding_lines, load_attempt
from tests.support.publish import publish_family
from tests.view.published import Record, forge


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root, child, three calls, four relations."""
    directory = tmp_path / "attempt"
    publish_family(directory, monkeypatch)
    return directory


def test_a_good_attempt_has_no_findings(attempt: Path) -> None:
    """All calls without output and context, all relations, wall time from the calls."""
    loaded = load_attempt(attempt)
    assert loaded.findings == []
    assert [call.number for call in loaded.calls] == [1, 2, 3]
    assert [call.finish for call in loaded.calls] == ["tool_use", "end_turn", "end_turn"]
    assert not {"output", "context"} & set(loaded.calls[0].record)
    assert len(loaded.relations) == 4
    assert loaded.wall_seconds() == 3.0


def _append(name: str, data: bytes) -> Callable[[Path], object]:
    def change(attempt: Path) -> None:
        with (attempt / name).open("ab") as stream:
            stream.write(data)

    return change


def _replace_by_pipe(attempt: Path) -> None:
    (attempt / "calls.jsonl").unlink()
    os.mkfifo(attempt / "calls.jsonl")


def _replace_by_link(attempt: Path) -> None:
    (attempt / "calls.jsonl").rename(attempt / "elsewhere")
    (attempt / "calls.jsonl").symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("damage", "found", "calls"),
    [
        (_append("calls.jsonl", b"garbage\n"), ["the manifest says", "calls.jsonl:4: no call record"], 3),
        (_append("calls.jsonl", b'{"call_id":"x"}\n'), ["the manifest says", "no valid call record"], 3),
        (_append("relations.jsonl", b"{\n"), ["the manifest says", "relations.jsonl: line 5"], 3),
        (_append("relations.jsonl", b"{}\n"), ["the manifest says", "relations.jsonl:5: no valid relation"], 3),
        (lambda path: (path / "calls.jsonl").unlink(), ["calls.jsonl: cannot be read", "names 3 calls"], 0),
        (lambda path: (path / "relations.jsonl").unlink(), ["relations.jsonl: is missing"], 3),
        (lambda path: os.truncate(path / "calls.jsonl", 1500), ["the manifest says", "calls.jsonl:1"], 0),
        (_replace_by_pipe, ["calls.jsonl: cannot be read (is no regular file)"], 0),
        (_replace_by_link, ["calls.jsonl: cannot be read"], 0),
    ],
)
def test_damage_is_told_and_the_rest_is_kept(
    attempt: Path, damage: Callable[[Path], object], found: list[str], calls: int
) -> None:
    """Each finding names the file and what to do."""
    damage(attempt)
    loaded = load_attempt(attempt)
    told = finding_lines(loaded)
    for text in found:
        assert any(text in line for line in told), told
    assert all(line.startswith(f"{attempt}/") and "run roller-capture validate" in line for line in told)
    assert len(loaded.calls) == calls


def _set(**members: Any) -> Callable[[Record], object]:
    return lambda record: record.update(members)


@pytest.mark.parametrize(
    "change",
    [
        _set(participants="x"),
        _set(participants=[1]),
        _set(counts=None),
        _set(status_reasons=[{}]),
        _set(lifecycle={"status": "so so", "pending_participant_ids": []}),
        _set(harness=[]),
        _set(capabilities={}),
        _set(storage_layout="compact/v9"),
        _set(schema={"a": 1}),
        _set(schema="roller.capture/v9"),
        lambda record: record.pop("files"),
        lambda record: record.clear(),
    ],
)
def test_a_manifest_that_is_none_is_one_clear_line(attempt: Path, change: Callable[[Record], object]) -> None:
    """Wrong types, missing members, newer formats."""
    forge(attempt, manifest=change)
    with pytest.raises(RollerError, match=r"manifest\.json: .*(run|use the) roller-capture") as caught:
        load_attempt(attempt)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"a":' * 2000, "\x00"])
def test_a_manifest_that_is_no_json_object_is_one_clear_line(attempt: Path, text: str) -> None:
    """With what to do."""
    (attempt / "manifest.json").write_text(text)
    with pytest.raises(RollerError, match="run roller-capture validate"):
        load_attempt(attempt)


def test_an_unpublished_attempt_says_what_to_run(tmp_path: Path) -> None:
    """The path is quoted for the shell."""
    (tmp_path / "my attempt" / "work").mkdir(parents=True)
    with pytest.raises(RollerError, match=r"is not published: run roller-capture finalize '.*my attempt'") as caught:
        load_attempt(tmp_path / "my attempt")
    assert caught.value.exit_code == 1


@pytest.mark.parametrize(
    "change",
    [
        _set(timing=None),
        _set(model="x"),
        _set(usage=[]),
        _set(sequence="1"),
        _set(tool_refs={}),
        _set(native_identity={}),
        _set(errors=[{"code": "http_error"}]),
        _set(participant_id=7),
        _set(purpose=["agent"]),
        lambda record: record.pop("http"),
    ],
)
def test_a_forged_call_is_a_finding_and_the_others_are_shown(attempt: Path, change: Callable[[Record], object]) -> None:
    """Wrong types and missing members."""
    loaded = load_attempt(forge(attempt, calls=lambda calls: change(calls[1])))
    assert [call.number for call in loaded.calls] == [1, 3]
    where, what = loaded.findings[0]
    assert where == "calls.jsonl:2"
    assert what.startswith("no valid call record")


def test_old_records_without_lifecycle_are_read(attempt: Path) -> None:
    """The member is optional in what others wrote."""
    loaded = load_attempt(forge(attempt, manifest=lambda record: record.pop("lifecycle")))
    assert loaded.findings == []
    assert loaded.lifecycle is None


def test_a_time_that_is_none_gives_no_wall_time(attempt: Path) -> None:
    """Month 13 has the form of a time."""
    change = _set(timing={**_timing(attempt), "request_start": "0000-13-99T99:99:99.000000Z"})
    assert load_attempt(forge(attempt, calls=lambda calls: change(calls[0]))).wall_seconds() is None


def _timing(attempt: Path) -> Record:
    first: Record = json.loads((attempt / "calls.jsonl").read_bytes().splitlines()[0])["timing"]
    return first


def test_no_line_is_lost_by_a_forged_length(attempt: Path) -> None:
    """The manifest's count shows that a line was passed over; then every line end is searched for."""

    def lie(calls: list[Record]) -> None:
        for call in calls:
            call["context"] = {"text": "x" * 50_000}
        own, second = (len(json.dumps(item, separators=(",", ":"))) for item in (calls[0]["context"], calls[1]))
        reach = own + len("}\n") + second - len("}")
        calls[0]["http"]["request_headers"]["content-length"] = [str(reach)]

    loaded = load_attempt(forge(attempt, calls=lie))
    assert [call.number for call in loaded.calls] == [1, 2, 3]
    assert loaded.findings == []


def test_relations_of_unknown_children_and_calls_that_are_not_there_are_told(attempt: Path) -> None:
    """References that lead nowhere are findings, never a crash."""
    forge(attempt, calls=lambda calls: calls.pop(), relations=lambda items: items[0].update(child_participant_id="p_x"))
    told = finding_lines(load_attempt(attempt))
    assert [line.partition(": ")[2].rpartition(": ")[0] for line in told] == [
        "its child is not in the manifest",
        "names 1 calls that calls.jsonl does not hold",
        "2 calls can be read, the manifest counts 3",
    ]


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_a_duration_that_no_float_can_hold_is_cut(attempt: Path, value: int) -> None:
    """Sums and words are made of it."""

    def change(calls: list[Record]) -> None:
        calls[0]["timing"]["duration_ms"] = value

    first, second, _ = load_attempt(forge(attempt, calls=change)).calls
    assert first.milliseconds == (1e15 if value > 0 else -1e15)
    assert second.milliseconds is not None
    assert first.milliseconds + second.milliseconds != 0
