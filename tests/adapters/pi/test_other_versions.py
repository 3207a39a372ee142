"""Logs of Pi versions, and of its descendants, that were never tested: read as far as they go, and never guessed at."""

from pathlib import Path
from typing import Any

import pytest

from roller_capture.vocabulary import Purpose, SubtaskSupport
from tests.adapters.pi.session_logs import (
    BUNDLED,
    GOOD,
    SESSION,
    answer,
    capture,
    compaction,
    gap_codes,
    header,
    message,
    offered,
    write_log,
)


def _without_ids(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in ("id", "parentId")}


def test_a_log_of_the_first_format(tmp_path: Path) -> None:
    """Its header has no version, its entries no ids, its answers no response id: the session is known, and no more."""
    first = header(provider="p", modelId="m", thinkingLevel="off", branchedFrom="/elsewhere.jsonl")
    del first["version"]
    entries = [
        message("u", None, "user", content="x"),
        answer(1, responseId=None),
        message("b", "a", "bashExecution", command="ls", output="x"),
        {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1},
        answer(2, responseId=None),
    ]
    write_log(tmp_path, first, *map(_without_ids, entries))
    native = capture(tmp_path, SESSION)
    assert gap_codes(native) == ["native_shape_unknown"]
    [root] = native.participants
    assert (root.key, root.execution_status) == (SESSION, "completed")
    assert [item for item in native.identity_claims if item.field == "response_id"] == []
    assert native.purpose_claims == ()
    assert native.coverage.outputs is None or all(one.output_id is None for one in native.coverage.outputs)
    assert native.subtasks is SubtaskSupport.UNKNOWN


OH_MY_PI = (
    header("20261130-abc"),
    {"type": "model_change", "id": "m-1", "parentId": None, "model": "p/m", "role": "default"},
    offered(*BUNDLED, "task", "subagent"),
    {"type": "custom", "id": "k-1", "parentId": "e0", "customType": "turn", "data": {}},
    message("u-1", "k-1", "user", content=[], evictedContent=True),
    answer(1),
    compaction("c-1", "a-1", shortSummary="s", preserveData={"x": 1}, fromExtension=True),
    answer(2, "c-1"),
)


def test_a_fork_of_pi_with_the_same_format(tmp_path: Path) -> None:
    """It delegates with tools of its own, to children that are in no log; what an extension summed up was no call."""
    write_log(tmp_path, *OH_MY_PI, session_id="20261130-abc")
    native = capture(tmp_path, "20261130-abc")
    assert gap_codes(native) == []
    assert native.subtasks is SubtaskSupport.UNKNOWN
    assert native.relations == ()
    assert Purpose.COMPACTION not in {item.purpose for item in native.purpose_claims}


def test_children_inside_a_tool_result_are_not_claimed(tmp_path: Path) -> None:
    """Of a delegating tool that a server of MCP brings: whole transcripts stand in its details, and no session id."""
    transcript = {"messages": [{"role": "assistant", "responseId": "resp-child"}], "exitCode": 0}
    entries = (
        header(),
        offered(*BUNDLED, "mcp__agents__run"),
        answer(1, stopReason="toolUse"),
        message("t-1", "a-1", "toolResult", toolName="mcp__agents__run", details={"results": [transcript]}),
        answer(2, "t-1"),
    )
    write_log(tmp_path, *entries)
    native = capture(tmp_path, SESSION)
    assert gap_codes(native) == []
    assert native.subtasks is SubtaskSupport.UNKNOWN
    assert {item.value for item in native.identity_claims if item.field == "response_id"} == {"resp-1", "resp-2"}


@pytest.mark.parametrize("first", [answer(9), compaction("c", "x"), message("u", None, "user")])
def test_a_log_without_a_header_is_nobodys(tmp_path: Path, first: dict[str, Any]) -> None:
    """The file's name is a hint, and no proof."""
    write_log(tmp_path, first, *GOOD[1:])
    native = capture(tmp_path, SESSION)
    assert (native.participants, gap_codes(native)) == ((), ["participant_log_missing"])
