"""What a recorder left on disk, and plain values to record."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roller_capture.recording.credentials import HeaderField
from roller_capture.recording.exchange import RequestHead, ResponseHead

VERSIONS: Final = {"roller_capture": "0", "mitmproxy": "0", "python": "0"}


@dataclass(slots=True)
class Recording:
    """The working files of one attempt."""

    attempt: Path

    @property
    def work(self) -> Path:
        """The working folder."""
        return self.attempt / "work"

    def info(self) -> dict[str, Any]:
        """attempt.json."""
        value: dict[str, Any] = json.loads((self.work / "attempt.json").read_bytes())
        return value

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these types, or all; every line must be one JSON object."""
        path = self.work / "events.jsonl"
        lines = path.read_bytes().split(b"\n") if path.exists() else [b""]
        assert lines.pop() == b"", "the log must end with a line break"
        events = [json.loads(line) for line in lines if line]
        return [event for event in events if not kinds or event["type"] in kinds]

    def one(self, kind: str) -> dict[str, Any]:
        """The only event of a type."""
        (event,) = self.events(kind)
        return event

    def body(self, described: dict[str, Any]) -> bytes:
        """A body file, which must be as long as its event says."""
        data = (self.work / described["path"]).read_bytes()
        assert len(data) == described["bytes"]
        return data


def request_head(path: str = "/v1/responses", *fields: HeaderField, method: str = "POST") -> RequestHead:
    """A request to model.test."""
    return RequestHead(method, "https", "model.test", 443, path, "HTTP/1.1", fields, (("x-roller-run", "r"),))


def response_head(status: int = 200, *fields: HeaderField) -> ResponseHead:
    """A response."""
    return ResponseHead(status, "HTTP/1.1", fields, 1000.5)
