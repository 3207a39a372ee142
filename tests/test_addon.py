"""The addon's options and single hooks, without a proxy."""

import asyncio
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

with warnings.catch_warnings():
    # mitmproxy's own dependencies use deprecated names of each other.
    warnings.simplefilter("ignore", DeprecationWarning)
    from mitmproxy import exceptions, http
    from mitmproxy.addons.proxyserver import Proxyserver
    from mitmproxy.connection import ConnectionState
    from mitmproxy.flow import Error
    from mitmproxy.test import taddons, tflow, tutils

from roller_capture.addon import CaptureAddon, _close_gaps, _cut_by, _refused
from roller_capture.vocabulary import CutBy
from tests.support.recording import Recording


class Started:
    """An addon that records into a temporary attempt."""

    def __init__(self, context: Any, addon: CaptureAddon, attempt: Path) -> None:
        self.context = context
        self.addon = addon
        self.recording = Recording(attempt)


@pytest.fixture
def context() -> Iterator[Any]:
    """mitmproxy's own test context, with the options of the proxy server."""
    with taddons.context(Proxyserver()) as made:
        yield made


def added(context: Any) -> CaptureAddon:
    """The addon as one of the running addons, so that it hears of every change of options."""
    addon = CaptureAddon()
    context.master.addons.add(addon)
    return addon


@pytest.fixture
def started(context: Any, tmp_path: Path) -> Iterator[Started]:
    """A running recorder."""
    addon = added(context)
    context.configure(
        addon, roller_attempt=str(tmp_path / "a"), roller_harness="codex", mode=["reverse:http://h:1@127.0.0.1:0"]
    )
    addon.running()
    yield Started(context, addon, tmp_path / "a")
    context.master.should_exit.set()
    addon.done()


def request_flow(path: bytes = b"/v1/responses", **response: Any) -> http.HTTPFlow:
    """A flow of a POST with a body."""
    request = tutils.treq(method=b"POST", path=path, content=b'{"model": "m", "input": "x"}')
    return tflow.tflow(req=request, resp=tutils.tresp(**response) if response else False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "roller_attempt is not set"),
        ({"roller_attempt": "a"}, "roller_harness is not set"),
        ({"roller_attempt": " ", "roller_harness": "pi"}, "roller_attempt is not set"),
        ({"roller_attempt": "a", "roller_harness": "PI"}, "'PI' is no known harness"),
        ({"roller_attempt": "a", "roller_harness": "pi", "mode": ["regular"]}, "all addresses"),
        (
            {"roller_attempt": "~no-such-user/a", "roller_harness": "pi", "mode": ["regular@127.0.0.1:0"]},
            "write the whole path",
        ),
        ({"roller_attempt": "a", "roller_harness": "pi", "mode": ["regular"], "listen_host": "::"}, "listens on ::"),
        ({"roller_attempt": "a", "roller_harness": "pi", "mode": ["regular@example.test:1"]}, "example.test"),
        (
            {"roller_attempt": "a", "roller_harness": "pi", "mode": ["regular@127.0.0.1:1", "regular@0.0.0.0:2"]},
            "0.0.0.0",
        ),
    ],
)
def test_start_is_refused(
    context: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    """`running` ends the process with one line; nothing is written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROLLER_ATTEMPT", raising=False)
    monkeypatch.delenv("ROLLER_HARNESS", raising=False)
    addon = added(context)
    context.configure(addon, **options)
    with pytest.raises(SystemExit) as stopped:
        addon.running()
    message = str(stopped.value.code)
    assert message.startswith("roller-capture: ")
    assert said in message
    assert "\n" not in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options",
    [
        {"mode": ["reverse:http://h:1@127.0.0.1:0"]},
        {"mode": ["regular@[::1]:0", "regular@localhost:0"]},
        {"mode": ["regular"], "listen_host": "127.0.0.1"},
        {"mode": ["regular@0.0.0.0:0"], "roller_allow_remote": True},
    ],
)
def test_start_with_options_from_the_environment(
    context: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: dict[str, Any]
) -> None:
    """`ROLLER_ATTEMPT` and `ROLLER_HARNESS` stand in for the options; loopback in any form is fine."""
    monkeypatch.setenv("ROLLER_ATTEMPT", str(tmp_path / "a"))
    monkeypatch.setenv("ROLLER_HARNESS", "pi")
    addon = added(context)
    context.configure(addon, **options)
    addon.running()
    assert Recording(tmp_path / "a").info()["harness"] == "pi"
    context.master.should_exit.set()
    addon.done()
    assert Recording(tmp_path / "a").info()["closed"] is True


def test_changes_while_recording_are_refused(started: Started) -> None:
    """And rolled back by mitmproxy; other options can change, and a second `configure` starts nothing."""
    for change in (
        {"roller_attempt": "elsewhere"},
        {"roller_harness": "pi"},
        {"mode": ["regular"]},
        {"mode": ["reverse:http://h:1@0.0.0.0:0"]},
    ):
        with pytest.raises(exceptions.OptionsError):
            started.context.configure(started.addon, **change)
    assert started.context.options.roller_harness == "codex"
    started.context.configure(started.addon, listen_port=1234)
    started.addon.running()
    assert len(started.recording.events("recorder_started")) == 1


async def test_every_flow_hook_survives_its_own_faults(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault is recorded by the name of the hook, with the flow's id and nothing of its text."""
    flow = request_flow(status_code=200)
    await started.addon.requestheaders(flow)

    def broken(*_: object) -> None:
        raise ValueError("text with a secret")

    monkeypatch.setattr("roller_capture.recording.session.Session.exchange", broken)
    hooks = ("request", "responseheaders", "response", "error")
    for hook in hooks:
        await getattr(started.addon, hook)(flow)
    errors = started.recording.events("recorder_error")
    assert [(error["where"], error["flow"]) for error in errors] == [(hook, flow.id) for hook in hooks]
    assert {error["message"] for error in errors} == {"ValueError"}
    # Streaming was switched on before anything could fail.
    assert flow.response is not None
    assert flow.response.stream is True


async def test_requests_wait_for_the_recorder(context: Any, tmp_path: Path) -> None:
    """The port is open a moment before the recorder is; what comes then is recorded all the same."""
    addon = added(context)
    context.configure(
        addon, roller_attempt=str(tmp_path / "a"), roller_harness="pi", mode=["reverse:http://h:1@127.0.0.1:0"]
    )
    waiting = asyncio.create_task(addon.requestheaders(request_flow()))
    await asyncio.sleep(0)
    assert not waiting.done()
    addon.running()
    await waiting
    assert len(Recording(tmp_path / "a").events("request_headers")) == 1
    context.master.should_exit.set()
    addon.done()


async def test_flows_from_a_file_are_no_traffic(started: Started) -> None:
    """`mitmdump -r FILE` runs the same hooks; nothing may be invented."""
    flow = request_flow(status_code=200)
    flow.live = False
    await started.context.cycle(started.addon, flow)
    assert [event["type"] for event in started.recording.events()] == ["recorder_started"]


async def test_a_flow_without_sockets_is_recorded_by_its_hooks(started: Started) -> None:
    """The order of hooks alone makes a whole record."""
    flow = request_flow(status_code=200, content=b"answer")
    await started.context.cycle(started.addon, flow)
    assert [event["type"] for event in started.recording.events()[1:]] == [
        "request_headers",
        "request",
        "response_headers",
        "response",
    ]
    assert started.recording.body(started.recording.one("response")["body"]) == b"answer"


async def test_another_addons_streaming_does_not_hide_a_request(started: Started) -> None:
    """`stream = True` is replaced by a tap, for else the body would pass unseen."""
    flow = request_flow()
    flow.request.stream = True
    await started.addon.requestheaders(flow)
    assert callable(flow.request.stream)
    assert flow.request.stream(b"piece") == b"piece"
    await started.addon.request(flow)
    request = started.recording.one("request")
    assert started.recording.body(request["body"]) == b"piece"


async def test_trailers_of_ours_are_taken_off(started: Started) -> None:
    """`x-roller-*` never goes upstream, wherever it stands."""
    flow = request_flow()
    flow.request.trailers = http.Headers([(b"X-Roller-Late", b"1"), (b"x-checksum", b"2")])
    await started.addon.requestheaders(flow)
    await started.addon.request(flow)
    assert flow.request.trailers.fields == ((b"x-checksum", b"2"),)


async def test_a_request_that_the_proxy_itself_refuses(started: Started) -> None:
    """The hooks come with an error set, before any upstream was asked."""
    flow = request_flow()
    flow.error = Error("Received both a Transfer-Encoding and a Content-Length header")
    await started.addon.requestheaders(flow)
    await started.addon.error(flow)
    failure = started.recording.one("failure")
    assert (failure["cut_by"], failure["phase"]) == ("proxy", "request")
    assert failure["message"].startswith("the proxy refused the request: Received both")


async def test_websocket_messages_are_not_hoarded(started: Started) -> None:
    """mitmproxy keeps them all; only the one that is being passed on is needed."""
    flow = tflow.twebsocketflow()
    assert flow.websocket is not None
    started.addon.websocket_message(flow)
    assert len(flow.websocket.messages) == 1
    started.addon.websocket_message(tflow.tflow())


@pytest.mark.parametrize(
    ("message", "client", "client_alpn", "server_alpn", "side"),
    [
        ("peer closed connection", ConnectionState.OPEN, None, None, CutBy.UPSTREAM),
        ("peer closed connection", ConnectionState.CLOSED, None, None, CutBy.CLIENT),
        # The client's end was read, but another hook is still being awaited.
        ("Client disconnected.", ConnectionState.CAN_WRITE, None, None, CutBy.CLIENT),
        (Error.KILLED_MESSAGE, ConnectionState.OPEN, None, None, CutBy.PROXY),
        ("Request body exceeds mitmproxy's body_size_limit.", ConnectionState.OPEN, None, None, CutBy.PROXY),
        ("stream reset by client (CANCEL)", ConnectionState.OPEN, b"h2", b"h2", CutBy.CLIENT),
        ("stream reset by client (CANCEL)", ConnectionState.OPEN, b"http/1.1", b"h2", CutBy.UPSTREAM),
        ("stream reset by client (INTERNAL_ERROR)", ConnectionState.OPEN, b"h2", b"h2", CutBy.UPSTREAM),
        ("stream reset by client (INTERNAL_ERROR)", ConnectionState.OPEN, b"h2", b"http/1.1", CutBy.CLIENT),
    ],
)
def test_cut_by(
    message: str, client: ConnectionState, client_alpn: bytes | None, server_alpn: bytes | None, side: CutBy
) -> None:
    """By the state of the connection, not by the text (fact 9)."""
    flow = tflow.tflow(err=True)
    flow.client_conn.state = client
    flow.client_conn.alpn, flow.server_conn.alpn = client_alpn, server_alpn
    assert _cut_by(flow, message) is side


@pytest.mark.parametrize(
    ("message", "client", "stream", "refused"),
    [
        ("Invalid Content-Length header: -5", ConnectionState.CLOSED, False, True),
        ("HTTP/1 protocol error: bad chunk", ConnectionState.CLOSED, False, True),
        ("HTTP/2 protocol error: no pseudo header", ConnectionState.CLOSED, False, True),
        ("Received an invalid header from client", ConnectionState.OPEN, False, True),
        ("HTTP/1 protocol error: peer closed connection (incomplete)", ConnectionState.CLOSED, False, False),
        ("HTTP/2 connection closed: ...", ConnectionState.CLOSED, False, False),
        ("stream reset by client (CANCEL)", ConnectionState.OPEN, False, False),
        ("Client disconnected.", ConnectionState.CLOSED, False, False),
        (Error.KILLED_MESSAGE, ConnectionState.OPEN, False, False),
        ("Request body exceeds mitmproxy's body_size_limit.", ConnectionState.OPEN, False, False),
        # A streamed request is with the upstream already, which can break the exchange too.
        ("HTTP/1 protocol error: bad chunk", ConnectionState.CLOSED, True, True),
        ("HTTP/1 protocol error: bad chunk", ConnectionState.OPEN, True, False),
        ("server closed connection", ConnectionState.OPEN, True, False),
    ],
)
def test_refused_by_the_proxy(message: str, client: ConnectionState, *, stream: bool, refused: bool) -> None:
    """A client that left is told from a request that mitmproxy would not take, whose connection it closes first."""
    flow = tflow.tflow(err=True)
    flow.client_conn.state = client
    flow.request.stream = stream
    assert _refused(flow, message) is refused


def test_a_mitmproxy_with_other_insides_is_recorded_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be closed is said in one line; nothing else depends on it."""
    monkeypatch.setitem(sys.modules, "roller_capture.mitmproxy_gaps", None)
    _close_gaps()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "trailers" in caplog.text
