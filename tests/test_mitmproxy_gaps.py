"""What is kept out of the log, and what is not."""

import asyncio
import logging
import warnings

import h11
import pytest

with warnings.catch_warnings():
    # mitmproxy's own dependencies use deprecated names of each other.
    warnings.simplefilter("ignore", DeprecationWarning)
    from mitmproxy.proxy.layers.http import _http1

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
