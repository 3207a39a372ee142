"""What is kept out of the log, and what is not."""

import asyncio
import logging
import warnings

import h11
import pytest

with warnings.catch_warnings():
    # mitmproxy's own dependencies use deprecated names of each other.
    warnings.simplefilter("ignore", DeprecationWarning)
    from mitmproxy import http, options
    from mitmproxy.proxy import context, events
    from mitmproxy.proxy.layers.http import _events as http_events
    from mitmproxy.proxy.layers.http import _http1
    from mitmproxy.test import tflow

from roller_capture.mitmproxy_gaps import close_gaps

CANCELLED = asyncio.CancelledError()
CONNECTION = "Exception in callback StreamReaderProtocol.connection_made.<locals>.callback(<Task cancelled>)"


@pytest.mark.parametrize(
    ("text", "error", "kept"),
    [
        (CONNECTION, CANCELLED, False),
        (CONNECTION, ValueError("a real fault"), True),
        (CONNECTION, None, True),
        ("Exception in callback other()", CANCELLED, True),
    ],
)
def test_only_a_cancelled_connection_is_kept_out(
    caplog: pytest.LogCaptureFixture, text: str, error: BaseException | None, *, kept: bool
) -> None:
    """Python 3.11 tells it with a traceback; every other fault is still told."""
    close_gaps()
    logging.getLogger("asyncio").error(text, exc_info=error)
    assert bool(caplog.records) is kept


def test_closing_twice_changes_nothing_more() -> None:
    """A script that is reloaded calls it again."""
    close_gaps()
    before = (_http1.make_body_reader, _http1.Http1Server.send, _http1.Http1Connection.read_body)
    close_gaps()
    assert (_http1.make_body_reader, _http1.Http1Server.send, _http1.Http1Connection.read_body) == before


def test_bodies_without_chunks_are_read_by_mitmproxys_own_reader() -> None:
    """Only chunked messages can have trailers."""
    close_gaps()
    assert type(_http1.make_body_reader(5)).__module__ == h11._readers.__name__


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def _received(pieces: list[bytes]) -> tuple[bytes, dict[str, str], bool]:
    """Body, trailers and end that mitmproxy's HTTP/1 client tells of an answer that comes in these pieces."""
    close_gaps()
    place = context.Context(tflow.tclient_conn(), options.Options())
    place.server = tflow.tserver_conn()
    client = _http1.Http1Client(place)
    list(client.handle_event(events.Start()))
    request = http.Request.make("POST", "http://service/")
    for sent in (http_events.RequestHeaders(1, request, end_stream=True), http_events.RequestEndOfMessage(1)):
        list(client.handle_event(sent))
    body, trailers, ended = b"", {}, False
    for piece in (CHUNKED, *pieces):
        for command in client.handle_event(events.DataReceived(place.server, piece)):
            told = getattr(command, "event", None)
            if isinstance(told, http_events.ResponseData):
                body += told.data
            elif isinstance(told, http_events.ResponseTrailers):
                trailers = dict(told.trailers.items())
            ended = ended or isinstance(told, http_events.ResponseEndOfMessage)
    return body, trailers, ended


@pytest.mark.parametrize(
    ("wire", "body", "trailers"),
    [
        (b"3\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n", b"abc", {"x-sum": "1"}),
        (b"3\r\nabc\r\n000\r\nX-Sum: 1\r\nx-b: 2\r\n\r\n", b"abc", {"x-sum": "1", "x-b": "2"}),
        (b"3\r\nabc\r\n0;last\r\nx-sum: 1\r\n\r\n", b"abc", {"x-sum": "1"}),
        (b"03\r\n\n0\n\r\n0\r\nx-sum: 1\r\n\r\n", b"\n0\n", {"x-sum": "1"}),
        (b"0\r\nx-sum: 1\r\n\r\n", b"", {"x-sum": "1"}),
        (b"3\r\nabc\r\n0\r\n\r\n", b"abc", {}),
    ],
)
def test_trailers_are_told_wherever_the_message_is_torn(wire: bytes, body: bytes, trailers: dict[str, str]) -> None:
    """The end is looked for only where it can be, which must not depend on how the bytes come."""
    tearings = [[wire[:place], wire[place:]] for place in range(len(wire))]
    tearings.append([wire[place : place + 1] for place in range(len(wire))])
    for pieces in tearings:
        assert _received([piece for piece in pieces if piece]) == (body, trailers, True), pieces
