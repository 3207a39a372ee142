"""A minimal HTTP/2 service and client over TLS, for tests of the proxy."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.errors
import h2.events

from tests.support.upstream import HANG_GUARD, SeenRequest, Upstream


@dataclass(slots=True)
class Stream:
    """One request of an HTTP/2 connection, and the way to answer it."""

    connection: "_Served"
    stream_id: int
    request: SeenRequest

    async def start(self, status: int = 200) -> None:
        """The head of the answer."""
        fields = [(":status", str(status)), ("content-type", "text/event-stream")]
        self.connection.h2.send_headers(self.stream_id, fields)
        await self.connection.flush()

    async def data(self, data: bytes, *, end: bool = False) -> None:
        """A piece of the answer."""
        self.connection.h2.send_data(self.stream_id, data, end_stream=end)
        await self.connection.flush()

    async def reset(self, code: h2.errors.ErrorCodes = h2.errors.ErrorCodes.INTERNAL_ERROR) -> None:
        """Breaks this stream; the connection lives on."""
        self.connection.h2.reset_stream(self.stream_id, code)
        await self.connection.flush()


Handler = Callable[[Stream], Awaitable[None]]


class _Served:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self.h2 = h2.connection.H2Connection(config)
        self.writer = writer

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()


@contextlib.asynccontextmanager
async def upstream(handler: Handler, tls: ssl.SSLContext) -> AsyncIterator[Upstream]:
    """A service that speaks HTTP/2 and answers every stream in a task of its own."""
    service = Upstream(0)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = _Served(writer)
        served.h2.initiate_connection()
        requests: dict[int, SeenRequest] = {}
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await served.flush()
            while data := await reader.read(1 << 16):
                for event in served.h2.receive_data(data):
                    if isinstance(event, h2.events.RequestReceived):
                        requests[event.stream_id] = _request(event.headers)
                    elif isinstance(event, h2.events.DataReceived):
                        requests[event.stream_id].body += event.data
                        served.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                    elif isinstance(event, h2.events.StreamEnded):
                        service.seen.append(requests[event.stream_id])
                        stream = Stream(served, event.stream_id, requests[event.stream_id])
                        tasks.add(asyncio.ensure_future(handler(stream)))
                await served.flush()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        for task in tasks:
            task.cancel()


def _request(fields: list[tuple[bytes, bytes]]) -> SeenRequest:
    pseudo = {bytes(name): bytes(value) for name, value in fields if name.startswith(b":")}
    plain = [(bytes(name), bytes(value)) for name, value in fields if not name.startswith(b":")]
    return SeenRequest(pseudo[b":method"].decode(), pseudo[b":path"].decode(), plain, b"")


@dataclass(slots=True)
class StreamReply:
    """What came on one stream."""

    status: int = 0
    body: bytes = b""
    whole: bool = False
    broken: bool = False


@dataclass(slots=True)
class Http2Client:
    """One HTTP/2 connection of a client."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    h2: h2.connection.H2Connection
    replies: dict[int, StreamReply] = field(default_factory=dict)

    @classmethod
    async def over(cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> "Http2Client":
        """Speaks HTTP/2 on a TLS connection on which it was agreed."""
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        client = cls(reader, writer, h2.connection.H2Connection(config))
        client.h2.initiate_connection()
        await client.flush()
        return client

    async def flush(self) -> None:
        """Sends what is to be sent."""
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def send(self, path: str, body: bytes, fields: list[tuple[str, str]]) -> int:
        """Sends a POST; its stream id."""
        stream_id = self.h2.get_next_available_stream_id()
        head = [(":method", "POST"), (":scheme", "https"), (":authority", "model.test"), (":path", path), *fields]
        self.h2.send_headers(stream_id, head)
        self.h2.send_data(stream_id, body, end_stream=True)
        self.replies[stream_id] = StreamReply()
        await self.flush()
        return stream_id

    async def cancel(self, stream_id: int) -> None:
        """Gives one stream up; the connection lives on."""
        self.h2.reset_stream(stream_id, h2.errors.ErrorCodes.CANCEL)
        await self.flush()

    async def read_until(self, found: Callable[[], bool]) -> None:
        """Reads until `found` holds or the connection ends."""
        while not found():
            data = await asyncio.wait_for(self.reader.read(1 << 16), HANG_GUARD)
            if not data:
                return
            for event in self.h2.receive_data(data):
                self._take(event)
            await self.flush()

    def _take(self, event: h2.events.Event) -> None:
        reply = self.replies.get(getattr(event, "stream_id", 0) or 0, StreamReply())
        if isinstance(event, h2.events.ResponseReceived):
            reply.status = int(dict(event.headers)[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            reply.body += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            reply.whole = True
        elif isinstance(event, h2.events.StreamReset):
            reply.broken = True
