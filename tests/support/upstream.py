"""Fake model services and bare HTTP clients on real sockets, for tests of the proxy."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import h11

HANG_GUARD = 60.0
"""Seconds after which a test that waits for something that never comes fails instead of hanging."""

Fields = list[tuple[bytes, bytes]]


@dataclass(slots=True)
class SeenRequest:
    """A request as the service got it."""

    method: str
    target: str
    headers: Fields
    body: bytes

    def values(self, name: str) -> list[str]:
        """All values of one header."""
        return [value.decode("latin-1") for key, value in self.headers if key.decode("latin-1").lower() == name.lower()]


@dataclass(slots=True)
class Exchange:
    """One request that waits for its answer."""

    request: SeenRequest
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Raw bytes to the proxy."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """A whole answer with a content length."""
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        await self.send(head(status, fields) + body)

    async def start_stream(self, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """The head of a chunked event stream."""
        fields = {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked", **(headers or {})}
        await self.send(head(status, fields))

    async def chunk(self, data: bytes) -> None:
        """One chunk."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """The proper end of a chunked message."""
        await self.send(b"0\r\n\r\n")

    def cut(self) -> None:
        """FIN in the middle of the message."""
        self.writer.close()

    def reset(self) -> None:
        """RST in the middle of the message."""
        reset(self.writer)


Handler = Callable[[Exchange], Awaitable[None]]


def head(status: int, fields: dict[str, str]) -> bytes:
    """The head of an HTTP/1.1 response."""
    lines = [f"HTTP/1.1 {status} Reason", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def reset(writer: asyncio.StreamWriter) -> None:
    """Closes a connection with RST instead of FIN."""
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@dataclass(slots=True)
class Upstream:
    """A running service."""

    port: int
    seen: list[SeenRequest] = field(default_factory=list)


@contextlib.asynccontextmanager
async def upstream(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    """A service that answers every request with `handler`."""
    service = Upstream(0)
    writers: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError, ssl.SSLError, h11.RemoteProtocolError):
                while (request := await read_request(reader)) is not None:
                    service.seen.append(request)
                    await handler(Exchange(request, writer))
        finally:
            writer.close()
            writers.discard(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await eventually(lambda: not writers)


async def read_request(reader: asyncio.StreamReader) -> SeenRequest | None:
    """The next request of a connection, or `None` at its end."""
    connection = h11.Connection(h11.SERVER)
    request: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            # One byte at a time would be pure, but slow; requests of one connection come one after the other.
            connection.receive_data(await reader.read(1 << 16))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            fields = [(bytes(name), bytes(value)) for name, value in request.headers.raw_items()]
            return SeenRequest(request.method.decode(), request.target.decode("latin-1"), fields, body)
        else:
            return None


@dataclass(slots=True)
class Reply:
    """What a client got. `whole` is false when the message broke off."""

    status: int = 0
    headers: Fields = field(default_factory=list)
    body: bytes = b""
    whole: bool = False


class Client:
    """One connection of a client, for tests that look at every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._parser = h11.Connection(h11.CLIENT)
        self.reply = Reply()

    @classmethod
    async def connect(cls, port: int, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> "Client":
        """Connects to a proxy."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname=host if tls else None
        )
        return cls(reader, writer)

    async def send(self, method: str, target: str, headers: dict[str, str] | Fields, body: bytes = b"") -> None:
        """Sends a whole request."""
        await self.send_head(method, target, headers, len(body) if method not in ("GET", "HEAD") else None)
        await self.send_raw(body)

    async def send_head(self, method: str, target: str, headers: dict[str, str] | Fields, length: int | None) -> None:
        """Sends the head of a request that declares `length` bytes of body."""
        pairs = (
            [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
            if isinstance(headers, dict)
            else headers
        )
        fields = [(b"Host", b"model.test"), *pairs]
        if length is not None:
            fields.append((b"Content-Length", str(length).encode()))
        lines = [f"{method} {target} HTTP/1.1".encode("latin-1"), *(b"%s: %s" % pair for pair in fields)]
        self._parser = h11.Connection(h11.CLIENT)
        self._parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        self.reply = Reply()
        await self.send_raw(b"\r\n".join(lines) + b"\r\n\r\n")

    async def send_raw(self, data: bytes) -> None:
        """Sends bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def read_until(self, found: Callable[[Reply], bool]) -> Reply:
        """Reads until `found` holds for what came so far, or until the message ends or breaks."""
        while not found(self.reply):
            try:
                event = self._parser.next_event()
                if event is h11.NEED_DATA:
                    self._parser.receive_data(await asyncio.wait_for(self.reader.read(1 << 16), HANG_GUARD))
                    continue
            except (h11.RemoteProtocolError, ConnectionError, ssl.SSLError):
                break
            if isinstance(event, h11.InformationalResponse | h11.Response):
                self.reply.status = event.status_code
                self.reply.headers = [(bytes(name), bytes(value)) for name, value in event.headers]
            elif isinstance(event, h11.Data):
                self.reply.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self.reply.whole = True
                break
            else:
                break
        return self.reply

    async def read(self) -> Reply:
        """The whole reply."""
        return await self.read_until(lambda _: False)

    def close(self) -> None:
        """Leaves."""
        self.writer.close()

    def reset(self) -> None:
        """Leaves with RST."""
        reset(self.writer)


async def call(
    port: int,
    body: bytes,
    *,
    method: str = "POST",
    target: str = "/v1/messages",
    headers: dict[str, str] | Fields | None = None,
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """One request on its own connection, and its reply."""
    client = await Client.connect(port, tls=tls)
    try:
        await client.send(method, target, headers or {}, body)
        return await client.read()
    finally:
        client.close()


async def eventually(condition: Callable[[], bool]) -> None:
    """Waits until something holds that another task or process brings about."""
    async with asyncio.timeout(HANG_GUARD):
        while not condition():  # noqa: ASYNC110 - what is waited for is a file, which has no event
            await asyncio.sleep(0.01)
