"""Gaps around mitmproxy that its hooks give no way to close, closed by replacing as little as can be.

- Interim answers: mitmproxy 11 and 12 take an HTTP/1 head of 100, 102 or 103 for the whole answer, and never send the
  one that follows. Here such heads are passed over, as a proxy may do (RFC 9110, section 15.2); the answer arrives.

- HTTP/1 trailers: mitmproxy 11 and 12 raise `NotImplementedError` when a chunked message has trailers, and an assertion
  fails when trailers of HTTP/2 are to go on over HTTP/1. The connection then hangs without an end of the message. Here
  trailers are read as mitmproxy reads those of HTTP/2, and sent on before the end of the message.
- Python 3.11 prints a traceback for every connection that is open when the event loop ends, since `asyncio.streams`
  asks a cancelled task for its exception (https://github.com/python/cpython/issues/110038, mended in 3.12).
"""

import asyncio
import functools
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from mitmproxy import http
from mitmproxy.proxy import commands
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    RequestEndOfMessage,
    RequestTrailers,
    ResponseEndOfMessage,
    ResponseTrailers,
)

_INSTALLED: Final = "roller_gaps_closed"
_LAST_CHUNK: Final = b"0\r\n"
_END: Final = (RequestEndOfMessage, ResponseEndOfMessage)
_TRAILERS: Final = (RequestTrailers, ResponseTrailers)
_INTERIM: Final = re.compile(rb"HTTP/1\.[01] 1(?!01)\d\d[ \r\n]")  # 101 is none: it ends HTTP
_LONGEST_STATUS: Final = 16
_CANCELLED_CONNECTION: Final = "Exception in callback StreamReaderProtocol.connection_made"

_Layer = Callable[[Any, Any], Iterator[Any]]


def close_gaps() -> None:
    """Closes them in this process; further calls do nothing."""
    logging.getLogger("asyncio").addFilter(_is_no_cancelled_connection)
    if getattr(_http1, _INSTALLED, False):
        return
    setattr(_http1, _INSTALLED, True)
    _replace(_http1.Http1Client, "read_headers", _passing_interim_heads(_http1.Http1Client.read_headers))
    _replace(_http1, "make_body_reader", _keeping_trailers(_http1.make_body_reader))
    _replace(_http1.Http1Connection, "read_body", _telling_trailers(_http1.Http1Connection.read_body))
    for layer in (_http1.Http1Server, _http1.Http1Client):
        _replace(layer, "send", _sending_trailers(layer.send))


def _replace(owner: object, name: str, function: Callable[..., Any]) -> None:
    setattr(owner, name, function)


def _is_no_cancelled_connection(record: logging.LogRecord) -> bool:
    """Whether a log record says anything: a connection that ends with its proxy is no error."""
    cancelled = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not (cancelled and str(record.msg).startswith(_CANCELLED_CONNECTION))


def _passing_interim_heads(read_headers: _Layer) -> _Layer:
    """`Http1Client.read_headers`, which sees only the final head."""

    @functools.wraps(read_headers)
    def reading(self: Any, event: Any) -> Iterator[Any]:
        # A layer waits for its first data here, and for the rest of a head that came in pieces.
        while self.request is not None and _INTERIM.match(bytes(self.buf)[:_LONGEST_STATUS]):
            if self.buf.maybe_extract_lines() is None:  # the rest of it is still to come
                break
        yield from read_headers(self, event)

    return reading


class _TrailerReader:
    """A reader of chunked bodies that puts the trailers aside, since mitmproxy's caller refuses them."""

    __slots__ = ("_reader", "may_end", "trailers")

    def __init__(self, reader: Any) -> None:
        self._reader: Final = reader
        self.trailers: http.Headers | None = None
        self.may_end = False

    def __call__(self, buffer: Any) -> Any:
        event = self._reader(buffer)
        # Of what a reader tells (in h11's words), only the end of the message has headers.
        headers = getattr(event, "headers", None)
        if not headers:
            return event
        # In lower case, as HTTP/2 has to have them.
        self.trailers = http.Headers([(bytes(name), bytes(value)) for name, value in headers])
        return type(event)()

    def read_eof(self) -> Any:
        """The connection has ended."""
        return self._reader.read_eof()


def _keeping_trailers(make_body_reader: Callable[[int | None], Any]) -> Callable[[int | None], Any]:
    @functools.wraps(make_body_reader)
    def make(expected_size: int | None) -> Any:
        reader = make_body_reader(expected_size)
        return _TrailerReader(reader) if expected_size is None else reader

    return make


def _telling_trailers(read_body: _Layer) -> _Layer:
    """`Http1Connection.read_body`, which tells trailers before the end of the message, as HTTP/2 connections do."""

    def ending(self: Any, event: Any, reader: _TrailerReader) -> Iterator[Any]:
        for command in read_body(self, event):
            received = command.event if isinstance(command, ReceiveHttp) else None
            if isinstance(received, _END) and reader.trailers is not None:
                trailers, reader.trailers = reader.trailers, None
                kind = RequestTrailers if isinstance(received, RequestEndOfMessage) else ResponseTrailers
                yield ReceiveHttp(kind(received.stream_id, trailers))
            yield command

    # No generator, so that the pieces of a body pass without a further step.
    @functools.wraps(read_body)
    def reading(self: Any, event: Any) -> Iterator[Any]:
        reader = self.body_reader
        if not isinstance(reader, _TrailerReader):
            return read_body(self, event)
        # The last chunk's head is a line that begins with 0. What follows it can come in pieces.
        reader.may_end = reader.may_end or _begins_with_zero(self.buf)
        return ending(self, event, reader) if reader.may_end else read_body(self, event)

    return reading


def _begins_with_zero(buffer: Any) -> bool:
    """Whether a line of what was received and not yet read begins with 0; the first may be one's rest."""
    data = bytes(buffer)
    return data.startswith(b"0") or b"\n0" in data


def _sending_trailers(send: _Layer) -> _Layer:
    """`send` of an HTTP/1 connection, with trailers in the last chunk; a message without chunks cannot have them."""

    def ending(self: Any, event: Any, trailers: bytes) -> Iterator[Any]:
        for command in send(self, event):
            if isinstance(command, commands.SendData) and command.data == _LAST_CHUNK + b"\r\n":
                command.data = _LAST_CHUNK + trailers + b"\r\n"
            yield command

    # No generator, so that the pieces of a body pass without a further step.
    @functools.wraps(send)
    def sending(self: Any, event: Any) -> Iterator[Any]:
        if isinstance(event, _TRAILERS):
            self.roller_trailers = event.trailers
            return iter(())
        if not isinstance(event, _END):
            return send(self, event)
        trailers = self.__dict__.pop("roller_trailers", None)
        return ending(self, event, bytes(trailers)) if trailers else send(self, event)

    return sending
