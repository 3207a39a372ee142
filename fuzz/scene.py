"""The small attempt that is damaged: five calls in three protocols, one of them cut, by an agent that keeps a log."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from fuzz.damage import read
from tests.model_protocols.transcripts import wire
from tests.support.attempts import AttemptBuilder

MARKS: Final = tuple(f"mark-{number}-of-five" for number in range(1, 6))
"""Each stands in the request of one call, and nowhere else."""

_SESSION: Final = "agent-1"
_CALLS: Final = (
    ("anthropic-messages", "/v1/messages", "text.sse"),
    ("openai-chat-completions", "/v1/chat/completions", "tools_parallel.sse"),
    ("openai-responses", "/v1/responses", "reasoning_tools.sse"),
    ("anthropic-messages", "/v1/messages", "message.json"),
    ("anthropic-messages", "/v1/messages", "cut.sse"),
)


@cache
def working_files() -> dict[str, bytes]:
    """The attempt as a recorder leaves it, by path below its folder."""
    with tempfile.TemporaryDirectory(prefix="roller-fuzz-") as folder:
        builder = AttemptBuilder(Path(folder) / "attempt", "generic")
        for mark, (protocol, path, name) in zip(MARKS, _CALLS, strict=True):
            _record(builder, mark, protocol, path, name)
        native = builder.work / "native"
        native.mkdir()
        (native / "roller-events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in _log()))
        return read(builder.build())


def _record(builder: AttemptBuilder, mark: str, protocol: str, path: str, name: str) -> None:
    member = "input" if protocol == "openai-responses" else "messages"
    request = json.dumps({"model": "m", member: [{"role": "user", "content": mark}]}).encode()
    kind = "application/json" if name.endswith(".json") else "text/event-stream"
    options: dict[str, Any] = {"end": "failure"} if name.startswith("cut") else {}
    builder.call(
        request,
        wire(protocol, name),  # type: ignore[arg-type]
        session=None,
        roller_headers=(("x-roller-session", _SESSION),),
        response_headers=(("content-type", kind),),
        path=path,
        protocol=protocol,
        **options,
    )


def _log() -> list[dict[str, Any]]:
    return [
        {"event": "session", "session": _SESSION},
        {"event": "output", "session": _SESSION, "response_id": "msg_01TEXT"},
        {"event": "ended", "session": _SESSION, "status": "completed"},
    ]
