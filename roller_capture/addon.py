"""The mitmproxy addon: options and hooks, nothing else. But for it, only `mitmproxy_gaps` and the import of flow files
know mitmproxy.

What mitmproxy promises, and what this module relies on:

- The `request` hook of a buffered request is awaited before the first byte goes upstream, and the `response` hook
  before the end of the message goes to the client.
- Hooks of one flow are never run at the same time. Every flow ends in exactly one of `response` and `error`, except
  those that are open when the proxy stops (their `error` may come after `done`) and streamed requests (their `request`
  may come after `response`, or never).
- A stream callable must not raise and cannot be async. Hooks that wait must be async, and wait in another thread.
"""

import asyncio
import atexit
import contextlib
import difflib
import functools
import gc
import ipaddress
import logging
import os
import platform
import resource
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

from mitmproxy import connection, ctx, exceptions, http, tls, version
from mitmproxy.addonmanager import Loader
from mitmproxy.flow import Error, Flow
from mitmproxy.proxy import mode_specs, server_hooks

import roller_capture
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES, Harness
from roller_capture.recording import headers
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.call_recorder import CallRecorder
from roller_capture.recording.endpoints import classify, model_endpoint
from roller_capture.recording.exchange import BodyTimes, Failure, RequestHead, ResponseHead
from roller_capture.recording.session import Session
from roller_capture.recording.upstream_key import CredentialMark, UpstreamKey, read_upstream_key
from roller_capture.vocabulary import CutBy, OtherRequestKind, Protocol

if TYPE_CHECKING:
    from mitmproxy.master import Master

logger: Final = logging.getLogger(__name__)

LARGEST_BUFFERED_REQUEST: Final = 32 * 1024 * 1024
"""Bytes. Requests are buffered, since a provider that answers early and closes would otherwise look like a failure."""

SLOW_WRITE: Final = 256 * 1024
"""Bytes. A body above this is written in a thread: it would hold up every other flow."""

FORCED_OPTIONS: Final[dict[str, Any]] = {
    # Eager connections hide calls: with the upstream down, no flow hook is ever run.
    "connection_strategy": "lazy",
    # These stream or keep bodies behind the recorder's back.
    "stream_large_bodies": None,
    "store_streamed_bodies": False,
}

_OPTIONS: Final[tuple[tuple[str, type, Any, str], ...]] = (
    ("roller_attempt", str, "", "Directory of the attempt to record (or ROLLER_ATTEMPT)."),
    ("roller_harness", str, "", f"Harness that is recorded: {', '.join(HARNESSES)} (or ROLLER_HARNESS)."),
    ("roller_allow_remote", bool, False, "Listen on other addresses than loopback too."),
    ("roller_dummy_key_env", str, "", "Environment variable with the made-up key that the harness was given."),
    ("roller_upstream_key_env", str, "", "Environment variable with the key that takes its place upstream."),
)

_MODES_WITHOUT_LISTENER: Final = ("local", "tun")
_STREAM_RESET: Final = "stream reset by client"
_PROTOCOL_ERROR: Final = ("HTTP/1 protocol error: ", "HTTP/2 protocol error: ", "Invalid HTTP/2 request headers: ")
_PEER_LEFT: Final = ("peer closed connection", "client disconnected", "connection closed", "closed by client")

_REFUSAL: Final = (
    b"Websockets on model endpoints are refused, since their messages cannot be recorded: use HTTP requests.\n"
)

_P = ParamSpec("_P")


def _guarded(
    hook: Callable[Concatenate["CaptureAddon", _P], Awaitable[None]],
) -> Callable[Concatenate["CaptureAddon", _P], Coroutine[Any, Any, None]]:
    """A hook whose own faults are recorded and never disturb the traffic."""

    async def guarded(self: "CaptureAddon", /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            await hook(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the traffic goes on whatever happens here
            if self._session is not None:
                flow_id = next((value.id for value in args if isinstance(value, Flow)), None)
                self._session.note_fault(flow_id, hook.__name__, error)

    functools.update_wrapper(guarded, hook)
    return guarded


# By proxy, so that a reloaded script finds the session that is running.
_sessions: Final["weakref.WeakKeyDictionary[Master, Session[http.HTTPFlow]]"] = weakref.WeakKeyDictionary()


class CaptureAddon:
    """Records the model calls that pass through the proxy into `roller_attempt`/work."""

    def __init__(self) -> None:
        self._session: Session[http.HTTPFlow] | None = None
        self._ready: Final = asyncio.Event()
        self._malformed: Final[list[str]] = []

    def _live(self) -> Session[http.HTTPFlow]:
        # No property: mitmproxy reads every attribute of an addon before anything runs.
        if self._session is None:
            raise RuntimeError("the recorder has not been started")
        return self._session

    # --- life of the proxy ---

    def load(self, loader: Loader) -> None:
        """Declares the options. A value that does not parse is kept for `running`, which can refuse it."""
        for name, kind, default, text in _OPTIONS:
            loader.add_option(name, kind, default, text)
            try:
                ctx.options.process_deferred()
            except exceptions.OptionsError as error:
                # mitmproxy 11 would otherwise go on without this addon, and so record nothing.
                ctx.options.deferred.pop(name, None)
                self._malformed.append(f"{name}: {error}")

    def configure(self, updated: set[str]) -> None:
        """Keeps the options that recording needs, and refuses changes while it runs."""
        _force_options()
        if self._session is None or self._session.stopped:
            return
        if any(name.startswith("roller_") for name in updated) and _settings() != self._session.settings:
            raise exceptions.OptionsError(
                "roller_attempt, roller_harness and the keys cannot be changed while recording"
            )
        try:
            _refuse_remote_listeners()
        except RollerError as error:
            raise exceptions.OptionsError(str(error)) from None

    def running(self) -> None:
        """Starts the recorder, or ends the proxy with one line on stderr and exit code 1.

        Only here are all options final, and only `SystemExit` ends mitmproxy without a traceback. Requests that come
        earlier wait in `requestheaders`.
        """
        session = _sessions.get(ctx.master)
        _close_gaps()
        if session is None:
            try:
                session = self._start()
            except RollerError as error:
                raise SystemExit(f"roller-capture: {error}") from None
            _sessions[ctx.master] = session
            # For ends that come without `done` being told that the proxy stops.
            atexit.register(session.stop)
        session.owner = self
        self._session = session
        # All that was loaded stays: the collector need not walk through it again for every few calls.
        gc.freeze()
        self._ready.set()

    def _start(self) -> Session[http.HTTPFlow]:
        attempt, harness, upstream_key = self._checked_settings()
        _refuse_remote_listeners()
        _force_options()
        _raise_handle_limit()
        versions = {
            "roller_capture": roller_capture.__version__,
            "mitmproxy": version.VERSION,
            "python": platform.python_version(),
        }
        recorder = AttemptRecorder(_attempt_dir(attempt), harness, _described_options(), versions)
        return Session(recorder, _settings(), upstream_key)

    def _checked_settings(self) -> tuple[str, Harness, UpstreamKey | None]:
        unknown = sorted(filter(_meant_for_us, ctx.options.deferred))
        if self._malformed:
            raise RollerError(f"option {self._malformed[0]}")
        if unknown:
            known = ", ".join(name for name, *_ in _OPTIONS)
            raise RollerError(f"there is no option {unknown[0]!r}: the options are {known}")
        attempt, harness, *key_variables = _settings()
        if not attempt.strip():
            raise RollerError("roller_attempt is not set: add --set roller_attempt=DIRECTORY or set ROLLER_ATTEMPT")
        if harness not in HARNESSES:
            problem = f"{harness!r} is no known harness" if harness.strip() else "roller_harness is not set"
            raise RollerError(f"{problem}: add --set roller_harness=NAME, one of {', '.join(HARNESSES)}")
        upstream_key = read_upstream_key(*key_variables)
        if upstream_key is not None and not all(map(_reverse_mode, ctx.options.mode)):
            raise RollerError(
                "roller_dummy_key_env needs --mode reverse:ORIGIN, so that the key has one place to go to"
            )
        return attempt, HARNESSES[harness], upstream_key

    def done(self) -> None:
        """Ends the recording when the proxy stops; when the script is only reloaded, its successor goes on with it."""
        if self._session is None:
            return
        if ctx.master.should_exit.is_set():
            self._session.stop()
            atexit.unregister(self._session.stop)
            _sessions.pop(ctx.master, None)
        else:
            asyncio.get_running_loop().call_soon(self._stop_unless_succeeded, ctx.master)

    def _stop_unless_succeeded(self, proxy: "Master") -> None:
        """A reload brings the successor at once. Without one, traffic would go on unrecorded."""
        if self._session is not None and self._session.owner is self and not proxy.should_exit.is_set():
            logger.error("roller-capture was removed while recording: the proxy stops")
            proxy.shutdown()
            self._session.stop()

    # --- life of a flow ---

    @_guarded
    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A request has begun: takes our headers off, and opens its record before anything goes upstream."""
        if not flow.live:
            return  # Read from a file by another addon: nothing of it goes over the wire.
        await self._ready.wait()
        session = self._live()
        head = _rewritten_request_head(flow, session.upstream_key)
        if session.stopped:
            flow.kill()
            return
        session.flows[flow.id] = flow
        if headers.asks_for_websocket(head.fields) and model_endpoint(head.path) is not None:
            session.recorder.begin_other(flow.id, head, OtherRequestKind.WEBSOCKET_REFUSED)
            flow.response = http.Response.make(426, _REFUSAL, {"content-type": "text/plain"})
            return
        kind = classify(head.method, head.path)
        if isinstance(kind, Protocol):
            self._begin_call(flow, head, kind)
        else:
            session.recorder.begin_other(flow.id, head, kind)

    def _begin_call(self, flow: http.HTTPFlow, head: RequestHead, protocol: Protocol) -> None:
        call = self._live().recorder.begin_call(flow.id, head, protocol)
        large = (headers.content_length(head.fields) or 0) > LARGEST_BUFFERED_REQUEST
        # Another addon's `True` would stream the body past the recorder.
        if large or flow.request.stream is True:
            flow.request.stream = self._live().tap(flow.id, call.request_chunk)

    @_guarded
    async def request(self, flow: http.HTTPFlow) -> None:
        """The whole request is there; a buffered one goes upstream when this returns."""
        if flow.request.trailers:
            flow.request.trailers.fields = tuple(headers.split_roller(flow.request.trailers.fields)[0])
        exchange = self._live().exchange(flow)
        if isinstance(exchange, CallRecorder):
            await self._end_request(flow, exchange)
        elif exchange is not None and exchange.undecided and flow.request.raw_content:
            await self._live().off_loop(exchange.judge, flow.request.raw_content)

    async def _end_request(self, flow: http.HTTPFlow, call: CallRecorder) -> None:
        session = self._live()
        body = b"" if flow.request.stream else flow.request.raw_content or b""
        if len(body) > SLOW_WRITE:
            await session.off_loop(call.request_chunk, body)
        else:
            call.request_chunk(body)
        if call.response_ended:
            session.forget(flow)
        call.end_request(BodyTimes(flow.request.timestamp_start, flow.request.timestamp_end), complete=True)
        if call.response_ended:
            await session.note_errors()

    @_guarded
    async def responseheaders(self, flow: http.HTTPFlow) -> None:
        """A response has begun: nothing is held back from here on."""
        if flow.response is None:
            return
        flow.response.stream = True
        exchange = self._live().exchange(flow)
        if exchange is not None:
            exchange.begin_response(_response_head(flow.response))
            if isinstance(exchange, CallRecorder) or exchange.keeps_response:
                flow.response.stream = self._live().tap(flow.id, exchange.response_chunk)

    @_guarded
    async def response(self, flow: http.HTTPFlow) -> None:
        """The response has ended; the client sees its end when this returns. Also after a kill in mid-stream."""
        await self._end(flow)

    @_guarded
    async def error(self, flow: http.HTTPFlow) -> None:
        """The exchange broke."""
        await self._end(flow)

    async def _end(self, flow: http.HTTPFlow) -> None:
        session = self._live()
        exchange = session.exchange(flow)
        if exchange is None:
            return
        if flow.response is not None and flow.response.status_code == 101:
            exchange.websocket_passed()
        end = self._end_of_call(flow, exchange) if isinstance(exchange, CallRecorder) else exchange.end
        # A streamed request can outlast its response; then its record stays open.
        if not isinstance(exchange, CallRecorder) or exchange.request_ended or flow.error is not None:
            session.forget(flow)
        if exchange.ends_slowly:
            await session.off_loop(end)
        else:
            end()
        await session.note_errors()

    def _end_of_call(self, flow: http.HTTPFlow, call: CallRecorder) -> Callable[[], None]:
        """What ends the record of a call."""
        if flow.error is not None or flow.response is None:
            return functools.partial(call.fail, self._failure(flow, call))
        if flow.response.raw_content and not call.chunks:
            # Another addon answered in place of the upstream.
            call.response_chunk(flow.response.raw_content)
        if _is_interim(flow.response):
            # mitmproxy takes it for the whole answer, and drops the one that follows.
            text = f"the proxy forwards no answer that comes after an interim one ({flow.response.status_code})"
            return functools.partial(call.fail, Failure(CutBy.PROXY, text, request_complete=call.request_ended))
        trailers = () if flow.response.trailers is None else flow.response.trailers.fields
        return functools.partial(call.end_response, flow.response.timestamp_end, trailers)

    def _failure(self, flow: http.HTTPFlow, call: CallRecorder) -> Failure:
        message = flow.error.msg if flow.error else ""
        unreachable = flow.response is None and message in self._live().connect_errors.get(flow.client_conn.id, ())
        refused = not call.request_ended and _refused(flow, message)
        if refused:
            cut_by = CutBy.PROXY
            message = f"the proxy refused the request: {message}"
        elif self._live().stopped:
            cut_by = CutBy.PROXY
        else:
            cut_by = _cut_by(flow, message)
        return Failure(
            cut_by=cut_by,
            message=message,
            unreachable=unreachable and cut_by is CutBy.UPSTREAM,
            request_complete=call.request_ended,
        )

    def websocket_message(self, flow: http.HTTPFlow) -> None:
        """Websockets that are no model traffic pass; mitmproxy would keep every message in memory."""
        if flow.websocket is not None:
            del flow.websocket.messages[:-1]

    # --- connections ---

    def server_connect_error(self, data: server_hooks.ServerConnectionHookData) -> None:
        """An upstream could not be reached: refused, no such name, no route."""
        if self._session is not None and data.server.error:
            errors = self._session.connect_errors.setdefault(data.client.id, set())
            errors.update((data.server.error, f"Connection killed: {data.server.error}"))

    def tls_failed_server(self, data: tls.TlsData) -> None:
        """An upstream was reached, but not trusted or not understood."""
        if self._session is not None and data.conn.error:
            self._session.connect_errors.setdefault(data.context.client.id, set()).add(data.conn.error)

    @_guarded
    async def client_disconnected(self, client: connection.Client) -> None:
        """A client has gone: requests that were still being sent after their response are cut here, without a hook."""
        session = self._live()
        session.connect_errors.pop(client.id, None)
        for flow in list(session.flows.values()):
            call = session.exchange(flow)
            if flow.client_conn.id == client.id and isinstance(call, CallRecorder) and call.response_ended:
                session.forget(flow)
                call.end_request(BodyTimes(), complete=False)
        await session.note_errors()


def _close_gaps() -> None:
    """Recording does not depend on it, so a mitmproxy with other insides only keeps its gaps."""
    try:
        from roller_capture.mitmproxy_gaps import close_gaps  # noqa: PLC0415 - it imports mitmproxy's private modules

        close_gaps()
    except (ImportError, AttributeError) as error:
        logger.warning("roller-capture: HTTP/1 trailers will not be forwarded by this mitmproxy (%s)", error)


def _settings() -> tuple[str, str, str, str]:
    options = ctx.options
    return (
        options.roller_attempt or os.environ.get("ROLLER_ATTEMPT", ""),
        options.roller_harness or os.environ.get("ROLLER_HARNESS", ""),
        options.roller_dummy_key_env,
        options.roller_upstream_key_env,
    )


def _attempt_dir(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        # No such user's home, or a working directory that is gone.
        raise RollerError(f"roller_attempt {text!r}: {error}: write the whole path") from None


def _force_options() -> None:
    """Sets what recording depends on, also against the user's word, and says so."""
    wanted = {
        name: value
        for name, value in FORCED_OPTIONS.items()
        if name in ctx.options and getattr(ctx.options, name) != value
    }
    if wanted:
        logger.info("roller-capture sets %s", ", ".join(f"{name}={value}" for name, value in wanted.items()))
        ctx.options.update(**wanted)


def _meant_for_us(name: str) -> bool:
    """An option of nobody, whose name is nearly one of ours: those of other addons may still be waiting for them."""
    stem = name.lower().replace("-", "_").partition("_")[0]
    return "roller" in name.lower() or bool(difflib.get_close_matches(stem, ["roller"], cutoff=0.8))


def _refuse_remote_listeners() -> None:
    """Raises `RollerError` when a listener can be reached from elsewhere and that was not allowed."""
    if ctx.options.roller_allow_remote:
        return
    for spec in ctx.options.mode:
        mode = mode_specs.ProxyMode.parse(spec)
        host = mode.listen_host(ctx.options.listen_host)
        if mode.type_name not in _MODES_WITHOUT_LISTENER and not _is_loopback(host):
            raise RollerError(
                f"mode {spec!r} listens on {host or 'all addresses'}, not only on this machine: add @127.0.0.1:PORT to "
                "the mode or --listen-host 127.0.0.1, or allow it with --set roller_allow_remote=true"
            )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _described_options() -> dict[str, Any]:
    """`options` of attempt.json: modes, upstreams, and the addresses that are really listened on."""
    server = ctx.master.addons.get("proxyserver")
    addresses = server.listen_addrs() if server is not None else []
    modes = [mode_specs.ProxyMode.parse(spec) for spec in ctx.options.mode]
    return {
        "mode": [mode.full_spec for mode in modes],
        "upstream": [mode.data for mode in modes if mode.type_name in ("reverse", "upstream")],
        "listeners": [f"{host}:{port}" for host, port, *_ in addresses],
        "roller_allow_remote": ctx.options.roller_allow_remote,
    }


def _raise_handle_limit() -> None:
    """Every open call needs four handles; the usual soft limit of 1024 is soon reached, the hard one is not."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _reverse_mode(spec: str) -> mode_specs.ReverseMode | None:
    mode = mode_specs.ProxyMode.parse(spec)
    return mode if isinstance(mode, mode_specs.ReverseMode) else None


def _goes_to_the_upstream(flow: http.HTTPFlow) -> bool:
    """Whether a request goes where the user has sent it: the real key is for that place alone."""
    mode = flow.client_conn.proxy_mode
    request = flow.request
    return isinstance(mode, mode_specs.ReverseMode) and (request.scheme, (request.host, request.port)) == (
        mode.scheme,
        mode.address,
    )


def _rewritten_request_head(flow: http.HTTPFlow, key: UpstreamKey | None) -> RequestHead:
    """Takes our headers off a request, puts the upstream's key in, and describes it. Nothing else changes a request."""
    request = flow.request
    forwarded, roller = headers.split_roller(request.headers.fields)
    if roller:
        request.headers.fields = tuple(forwarded)
    mark = None
    if key is not None:
        mark = key.mark(request.headers.fields)
        if mark is CredentialMark.OWN and _goes_to_the_upstream(flow):
            request.headers.fields = key.put_into(request.headers.fields)
    return RequestHead(
        method=request.method,
        scheme=request.scheme,
        host=request.host.rpartition("@")[2],
        port=request.port,
        path=request.path,
        http_version=request.http_version,
        fields=request.headers.fields,
        roller=tuple(roller),
        credential=mark,
        keys=() if key is None else key.secrets,
    )


def _response_head(response: http.Response) -> ResponseHead:
    return ResponseHead(
        status=response.status_code,
        http_version=response.http_version,
        fields=response.headers.fields,
        started_at=response.timestamp_start,
    )


def _is_interim(response: http.Response) -> bool:
    """Whether a final answer is still to come (RFC 9110, section 15.2); 101 changes the protocol instead."""
    return 100 <= response.status_code < 200 and response.status_code != 101


def _refused(flow: http.HTTPFlow, message: str) -> bool:
    """Whether mitmproxy itself refused a request that had not ended: malformed, or not allowed.

    It closes the client's connection before it tells of a malformed request, so that the state of the connection shows
    a client that has left.
    """
    if message == Error.KILLED_MESSAGE or "body_size_limit" in message:
        return False
    text = message.lower()
    if any(left in text for left in _PEER_LEFT) or message.startswith(_STREAM_RESET):
        return False
    if flow.request.stream:
        # The upstream is being asked already, and may have broken the exchange just as well.
        client_open = flow.client_conn.state & connection.ConnectionState.CAN_READ
        return not client_open and message.startswith(_PROTOCOL_ERROR)
    return True


def _cut_by(flow: http.HTTPFlow, message: str) -> CutBy:
    """Which side broke a flow. mitmproxy's message does not tell, the state of the client's connection does."""
    if message == Error.KILLED_MESSAGE or "body_size_limit" in message:
        return CutBy.PROXY
    if not flow.client_conn.state & connection.ConnectionState.CAN_READ:
        return CutBy.CLIENT
    if message.startswith(_STREAM_RESET) and flow.client_conn.alpn == b"h2":
        # One stream of a living HTTP/2 connection; mitmproxy has this one text for resets from either side. Where both
        # speak HTTP/2, CANCEL is what clients send (RFC 9113, section 7), and servers other codes.
        client_reset = flow.server_conn.alpn != b"h2" or "(CANCEL)" in message
        return CutBy.CLIENT if client_reset else CutBy.UPSTREAM
    return CutBy.UPSTREAM
