"""The HTTP side: reads requests, asks the script, and sends answers that go well or wrong as the script wants."""

import contextlib
import hashlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from roller_capture.scripted_provider.answers import content_of
from roller_capture.scripted_provider.coding import decode_body
from roller_capture.scripted_provider.content import Content
from roller_capture.scripted_provider.delivery import Delivery, StoppedError, write_head
from roller_capture.scripted_provider.reply import Reply
from roller_capture.scripted_provider.request import ModelRequest, new_nonce, nonces_in, protocol_of
from roller_capture.scripted_provider.truth import Delivered, OtherRequest, TruthLog, TruthRecord

Decide = Callable[[ModelRequest], Reply]
"""A script: what to answer to a request. Called from several threads at once, so a script with state locks it."""

_SETTLE_SECONDS = 5.0
_POLL_SECONDS = 0.05  # how long `stop` may have to wait for the accepting thread


class ScriptedProvider:
    """A provider that listens on a free loopback port from `start` to `stop`; also a context manager.

    `truth` is its record. A script that raises is answered with status 500, and `script_errors` holds what it raised:
    a test looks there first.
    """

    def __init__(self, decide: Decide, truth_path: Path | None = None, port: int = 0) -> None:
        self.decide = decide
        self.truth = TruthLog(truth_path)
        self.script_errors: list[str] = []
        self.stopping = threading.Event()
        self._numbers = threading.Lock()
        self._last_number = 0
        self._server = _Server(("127.0.0.1", port), self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_SECONDS,), name="scripted-provider", daemon=True
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Its origin, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def next_number(self) -> int:
        """The number of the next model request, from 1."""
        with self._numbers:
            self._last_number += 1
            return self._last_number

    def start(self) -> Self:
        """Starts to serve in threads of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stops: answers that are held or slow are broken off, and their records closed."""
        self.stopping.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self.truth.wait_settled(_SETTLE_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], provider: ScriptedProvider) -> None:
        self.provider = provider
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's
        """A client that left is no news; anything else is a fault of ours or of the script, and kept."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.provider.script_errors.append(f"{client_address}: {type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Silence: what happened stands in the record of truth."""

    def do_GET(self) -> None:
        """Model lists; anything else is unknown."""
        self._read_body()
        if self.path.partition("?")[0].rstrip("/").endswith("/models"):
            self._other(200, {"object": "list", "data": [{"id": "scripted-model", "object": "model"}]})
        else:
            self._other(404, {"error": {"message": "not found"}})

    do_HEAD = do_GET  # noqa: N815 - the base class looks for these names
    do_OPTIONS = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """Model requests and token counts."""
        raw = self._read_body()
        protocol = protocol_of(self.path)
        if self.path.partition("?")[0].endswith("/count_tokens"):
            self._other(200, {"input_tokens": 100})
        elif protocol is None:
            self._other(404, {"error": {"message": "not found"}})
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                body = json.loads(decode_body(raw, headers.get("content-encoding", "")) or b"{}")
            except ValueError:
                body = None
            request = ModelRequest(
                number=self.server.provider.next_number(),
                nonce=new_nonce(),
                protocol=protocol,
                path=self.path,
                headers=headers,
                raw=raw,
                body=body if isinstance(body, dict) else {},
            )
            self._answer(request)

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self._read_exactly(int(self.headers.get("content-length") or 0))
        body = bytearray()
        while size := int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16):
            body += self._read_exactly(size)
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return bytes(body)

    def _read_exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise ConnectionAbortedError("the client left before it had sent its whole request")
        return data

    def _other(self, status: int, body: Mapping[str, Any]) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.provider.truth.other(OtherRequest(self.command, self.path, status, headers))
        data = json.dumps(body).encode()
        write_head(self, status, {"content-type": "application/json", "content-length": str(len(data))})
        if self.command != "HEAD":
            self.wfile.write(data)

    def _answer(self, request: ModelRequest) -> None:
        provider = self.server.provider
        try:
            reply = provider.decide(request)
        except Exception as error:  # noqa: BLE001 - a script is other people's code
            provider.script_errors.append(f"request {request.number}: {type(error).__name__}: {error}")
            reply = Reply(status=500)
        content = content_of(request, reply)
        record = _record(request, reply, content)
        provider.truth.open(record)
        try:
            delivered = Delivery(self, provider.stopping, reply, content, record).send()
        except ConnectionError:
            delivered = Delivered.CLIENT_GONE
        except StoppedError:
            delivered = Delivered.STOPPED
        if delivered is not Delivered.COMPLETE:
            self._break_connection()
        provider.truth.close(record, delivered)

    def _break_connection(self) -> None:
        """Ends the connection at once: in mid-message the other side sees that it was cut."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _record(request: ModelRequest, reply: Reply, content: Content) -> TruthRecord:
    answered = reply.status == 200 and not reply.drop
    return TruthRecord(
        number=request.number,
        protocol=request.protocol,
        path=request.path,
        owner=reply.owner,
        nonce=content.nonce,
        response_id=content.response_id if answered else None,
        tools=tuple((tool.name, tool.tool_id) for tool in content.tools) if answered else (),
        model=content.model,
        finish=content.finish if answered else None,
        status=reply.status,
        streamed=request.streamed,
        request_sha256=hashlib.sha256(request.raw).hexdigest(),
        request_bytes=len(request.raw),
        nonces_seen=request.nonces,
        results_seen={result.tool_id: nonces_in(result.text) for result in request.tool_results},
        headers=request.headers,
    )
