"""Publishes a small hand-built attempt through the common finalizer, with a native capture given as a value."""

from pathlib import Path
from typing import Any

import pytest

from roller_capture import adapter_registry, finalize_attempt, json_text
from roller_capture.capture_protocol import (
    ContextProbe,
    NativeCapture,
    NativeRelation,
    NativeSource,
    ToolResultItem,
)
from roller_capture.finalize_attempt import FinalizeOutcome, FinalizeRequest
from roller_capture.vocabulary import RelationType
from tests.support.attempts import (
    CHILD_AGENT,
    AttemptBuilder,
    delivered,
    evidence,
    message_body,
    native_capture,
    participant,
    request_body,
    tool_result,
)

NATIVE_LOG = "projects/p/root.jsonl"


def family_attempt(directory: Path) -> AttemptBuilder:
    """Root delegates, the child answers, the root holds the answer: three calls, nothing wrong. Not yet built."""
    builder = AttemptBuilder(directory)
    ask = {"role": "user", "content": "ask"}
    builder.call(request_body(ask), message_body("msg_1", tools=(("toolu_1", "Agent"),)))
    builder.call(request_body(ask), message_body("msg_2", "answer"), agent=CHILD_AGENT)
    builder.call(request_body(ask, tool_result("toolu_1")), message_body("msg_3"))
    return builder


def family_capture(log: Path | None = None) -> NativeCapture:
    """What an adapter would return for `family_attempt`."""
    result = delivered(CHILD_AGENT, "toolu_1", parent_output_id="msg_1")
    spawn = NativeRelation(RelationType.SPAWN, "root", CHILD_AGENT, "toolu_1", (evidence(mark="tool:toolu_1"),))
    done = NativeRelation(RelationType.CHILD_COMPLETED, "root", CHILD_AGENT, "toolu_1", (evidence(),))
    return native_capture(
        participant("root"),
        participant(CHILD_AGENT, parent="root"),
        response_ids={"msg_1": "root", "msg_2": CHILD_AGENT, "msg_3": "root"},
        relations=(spawn, done, result),
        context_probes=(ContextProbe(result, ToolResultItem("toolu_1")),),
        sources=(NativeSource(NATIVE_LOG, log),) if log else (),
    )


def use_capture(monkeypatch: pytest.MonkeyPatch, native: NativeCapture) -> None:
    """Makes `native` the answer of every adapter."""
    monkeypatch.setattr(finalize_attempt, "find_adapter", lambda _name: lambda _source: native)
    assert adapter_registry.find_adapter is not None


def publish_family(directory: Path, monkeypatch: pytest.MonkeyPatch, **request: Any) -> FinalizeOutcome:
    """Builds and publishes `family_attempt` in `directory`, with a native log that its evidence points into."""
    builder = family_attempt(directory)
    log = builder.work / "native" / NATIVE_LOG
    log.parent.mkdir(parents=True)
    log.write_text('{"line":1,"tool":"toolu_1"}\n')
    builder.build()
    # Found below the native root, as a real adapter does it, so that it can be found in a copy too.
    monkeypatch.setattr(
        finalize_attempt, "find_adapter", lambda _name: lambda source: family_capture(source.native_root / NATIVE_LOG)
    )
    return finalize_attempt.finalize_attempt(directory, FinalizeRequest(**request))


def lines(path: Path) -> list[dict[str, Any]]:
    """The records of a JSONL file."""
    return [json_text.parse(line) for line in path.read_bytes().splitlines()]
