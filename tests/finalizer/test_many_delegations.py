"""Very many delegations in one answer: each child has its own calls, and each result is found where it stands."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from roller_capture.integrity import validate_attempt
from roller_capture.json_text import parse
from tests.export.families import GO, Message, answer, asked, launch, publish, result, said, text, use
from tests.support.publish import lines


@pytest.mark.parametrize("count", [50, 200])
def test_parallel_tool_ids_of_one_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Results come in another order than the calls, and every later request holds them all."""
    children = [f"a{number:016x}" for number in range(count)]
    ids = [f"toolu_{number}" for number in range(count)]
    delegates = answer("r1", *(use(tool, prompt=child) for tool, child in zip(ids, children, strict=True)))
    answers = [answer(f"c{number}", text(f"part {number}")) for number in range(count)]
    blocks = [result(tool, f"part {number}")["content"][0] for number, tool in enumerate(ids)]
    results = {"role": "user", "content": blocks[::-1]}
    last, more = answer("r2", text("half")), answer("r3", text("done"))
    calls: list[tuple[str, bytes, Message | bytes | None, dict[str, Any]]] = [("root", asked(GO), delegates, {})]
    for child, its_answer in zip(children, answers, strict=True):
        calls.append((child, asked({"role": "user", "content": child}), its_answer, {}))
    calls += [("root", asked(GO, said(delegates), results), last, {})]
    calls += [("root", asked(GO, said(delegates), results, said(last), GO), more, {})]
    relations = [
        one for child, tool in zip(children, ids, strict=True) for one in launch("root", child, tool, "msg_r1")
    ]
    attempt = publish(
        tmp_path / "attempt", monkeypatch, calls, parents=dict.fromkeys(children, "root"), relations=relations
    )
    manifest = parse((attempt / "manifest.json").read_bytes())
    published = lines(attempt / "relations.jsonl")
    assert (manifest["capture_status"], len(manifest["participants"])) == ("complete", count + 1)
    assert Counter(one["type"] for one in published) == {
        "spawn": count,
        "result_delivered": count,
        "result_in_context": 2 * count,
    }
    first = lines(attempt / "calls.jsonl")[0]["call_id"]
    assert {one["parent_call_id"] for one in published} == {first}
    held = [one for one in published if one["type"] == "result_in_context"]
    for one in held:
        number = ids.index(one["tool_call_id"])
        assert one["context_pointer"] == f"/messages/2/content/{count - 1 - number}"
    assert validate_attempt(attempt, deep=True) == []
