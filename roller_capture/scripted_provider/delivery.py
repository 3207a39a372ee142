"""Sends one answer, whole or broken off as its `Reply` says, and notes in the record of truth how far it got."""

import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler

from roller_capture.scripted_provider.answers import DIALECTS, Dialect
from roller_capture.scripted_provider.coding import Coder
from roller_capture.scripted_provider.content import Content, Event
from roller_capture.scripted_provider.reply import Reply
from roller_capture.scripted_provider.truth import Delivered, TruthRecord

_LOOK_EVERY = 0.1  # seconds between two looks at a connection on which an answer waits


class StoppedError(Exception):
    """The provider was stopped while an answer waited."""


def write_head(handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str]) -> None:
    """Sends status line and headers."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()


class Delivery:
    """One answer on its way. `send` raises `StoppedError`, or `ConnectionError` when the client has left."""

    def __init__(
        self,
        handler: BaseHTTPRequestHandler,
        stopping: threading.Event,
        reply: Reply,
        content: Content,
        record: TruthRecord,
    ) -> None:
        self._handler = handler
        self._stopping = stopping
        self._reply = reply
        self._content = content
        self._record = record
        self._dialect = DIALECTS[record.protocol]

    def send(self) -> Delivered:
        """Sends it; `CUT` asks the caller to break the connection."""
        self._pause(self._reply.delay)
        if self._reply.drop:
            return Delivered.CUT
        if self._reply.status == 200 and self._record.streamed:
            return self._send_stream()
        return self._send_body()

    def _send_body(self) -> Delivered:
        reply = self._reply
        if reply.status == 200:
            data, content_type = json.dumps(self._dialect.body(self._content)).encode(), "application/json"
        else:
            data, content_type = _error_body(reply, self._dialect, self._content), reply.error_content_type
        coder = Coder(reply.content_encoding)
        data = coder.feed(data) + coder.finish()
        promised = len(data) + reply.close_early
        write_head(self._handler, reply.status, self._headers(coder, content_type, {"content-length": str(promised)}))
        self._handler.wfile.write(data)
        self._record.terminal_sent = True
        return Delivered.CUT if reply.close_early else Delivered.COMPLETE

    def _send_stream(self) -> Delivered:
        reply, record = self._reply, self._record
        coder = Coder(reply.content_encoding)
        framing = {"transfer-encoding": "chunked"}
        write_head(self._handler, 200, self._headers(coder, "text/event-stream; charset=utf-8", framing))
        for event in _planned_events(reply, self._dialect, self._content):
            self._hold()
            if record.events_sent == reply.cut_after:
                return Delivered.CUT
            if record.events_sent:
                self._pause(reply.gap)
            self._write_chunk(coder.feed(event.text.encode()))
            record.events_sent += 1
            record.terminal_sent |= event.terminal
        self._hold()
        if record.events_sent == reply.cut_after or reply.close_early:
            return Delivered.CUT
        self._write_chunk(coder.finish())
        self._handler.wfile.write(b"0\r\n\r\n")
        return Delivered.COMPLETE

    def _headers(self, coder: Coder, content_type: str, framing: Mapping[str, str]) -> dict[str, str]:
        identity = {"request-id": f"req_{self._content.nonce}"} if self._reply.send_request_id else {}
        return {"content-type": content_type, **framing, **coder.headers, **identity, **self._reply.headers}

    def _write_chunk(self, data: bytes) -> None:
        if data:
            self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _hold(self) -> None:
        reply = self._reply
        if reply.hold is not None and self._record.events_sent == reply.hold_after:
            while not reply.hold.is_set():
                self._pause(_LOOK_EVERY)

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._stopping.wait(min(left, _LOOK_EVERY)):
                raise StoppedError
            if _has_left(self._handler.connection):
                raise ConnectionResetError


def _has_left(connection: socket.socket) -> bool:
    readable, _, _ = select.select([connection], [], [], 0)
    return bool(readable) and connection.recv(1, socket.MSG_PEEK) == b""


def _error_body(reply: Reply, dialect: Dialect, content: Content) -> bytes:
    if reply.error_body is not None:
        return reply.error_body.replace("{nonce}", content.nonce).encode()
    return json.dumps(dialect.error("api_error", f"scripted failure {content.nonce}")).encode()


def _planned_events(reply: Reply, dialect: Dialect, content: Content) -> Iterator[Event]:
    wrong = reply.error_event
    for sent, event in enumerate(dialect.events(content)):
        if wrong is not None and sent == wrong.after:
            yield dialect.error_event(wrong.kind, f"{wrong.message} {content.nonce}")
            return
        yield event
