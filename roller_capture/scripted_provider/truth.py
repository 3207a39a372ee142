"""The provider's own record of what happened: the truth that a capture is checked against."""

import dataclasses
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from roller_capture.vocabulary import Protocol

_CREDENTIAL_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})


class Delivered(StrEnum):
    """How much of an answer was handed to the network. It does not say that the client read it."""

    PENDING = "pending"  # still being sent
    COMPLETE = "complete"  # all of it, with the end of the HTTP message
    CUT = "cut"  # broken off because the script said so
    CLIENT_GONE = "client_gone"  # broken off because the other side had left
    STOPPED = "stopped"  # broken off because the provider was stopped


@dataclass(slots=True)
class TruthRecord:
    """One model request and what became of its answer.

    `nonce` stands in the answer's text, response id, tool ids, `request-id` header and error message, and nowhere
    else. `tools` are the answer's tool calls as (name, id), `finish` the finish reason where the script chose one.
    `terminal_sent`: the protocol's terminal marker went out (of an answer that is no stream: its whole body).
    `nonces_seen` are the marks of earlier answers in what the request gave to the model; `results_seen` those within
    each of its tool results, by tool call id. `headers` are those of the request, names in lower case.
    """

    number: int
    protocol: Protocol
    path: str
    owner: str | None
    nonce: str
    response_id: str | None
    tools: tuple[tuple[str, str], ...]
    model: str
    finish: str | None
    status: int
    streamed: bool
    request_sha256: str
    request_bytes: int
    nonces_seen: frozenset[str]
    results_seen: Mapping[str, frozenset[str]]
    headers: Mapping[str, str]
    events_sent: int = 0
    terminal_sent: bool = False
    delivered: Delivered = Delivered.PENDING

    @property
    def tool_ids(self) -> tuple[str, ...]:
        """Ids of the answer's tool calls."""
        return tuple(tool_id for _, tool_id in self.tools)

    @property
    def answered_whole(self) -> bool:
        """A 200 answer that went out up to the protocol's terminal marker."""
        return self.status == 200 and self.terminal_sent

    def to_json(self) -> dict[str, object]:
        """The record as plain JSON, without the values of credential headers."""
        record = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        record["nonces_seen"] = sorted(self.nonces_seen)
        record["results_seen"] = {tool_id: sorted(nonces) for tool_id, nonces in self.results_seen.items()}
        record["headers"] = {k: "…" if k in _CREDENTIAL_HEADERS else v for k, v in self.headers.items()}
        return record


@dataclass(frozen=True, slots=True)
class OtherRequest:
    """A request that is no model call: a probe, a model list, a token count, an unknown path."""

    method: str
    path: str
    status: int
    headers: Mapping[str, str]


class TruthLog:
    """All records of one provider; safe to use from its threads. With a `path`, each record is also appended there, as
    one JSON line, when its answer has ended."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Condition()
        self._records: list[TruthRecord] = []
        self._others: list[OtherRequest] = []

    @property
    def records(self) -> tuple[TruthRecord, ...]:
        """Model requests, in the order in which they were numbered."""
        with self._lock:
            return tuple(sorted(self._records, key=lambda record: record.number))

    @property
    def others(self) -> tuple[OtherRequest, ...]:
        """Everything else, in order of arrival."""
        with self._lock:
            return tuple(self._others)

    def open(self, record: TruthRecord) -> None:
        """Adds a record whose answer is about to be sent."""
        with self._lock:
            self._records.append(record)

    def close(self, record: TruthRecord, delivered: Delivered) -> None:
        """Says how the answer ended."""
        with self._lock:
            record.delivered = delivered
            self._lock.notify_all()
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(record.to_json()) + "\n")

    def wait_settled(self, seconds: float) -> bool:
        """Waits until no answer is being sent any more; `False` when that takes longer than `seconds`."""
        with self._lock:
            return self._lock.wait_for(
                lambda: all(record.delivered is not Delivered.PENDING for record in self._records), seconds
            )

    def other(self, request: OtherRequest) -> None:
        """Adds a request that is no model call."""
        with self._lock:
            self._others.append(request)
