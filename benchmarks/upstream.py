"""A model service for timing: `python -m benchmarks.upstream` prints its port and serves until it is ended.

Every request is answered by a stream of Anthropic events of 200 bytes. `x-bench-events` says how many and
`x-bench-gap` how many seconds apart (0: as fast as they go). Each event holds the moment at which it was written, on
the machine's monotonic clock in nanoseconds, so a client on the same machine knows how long it was under way.
"""

import asyncio
import re
import sys
import time
from typing import Final

EVENT_BYTES: Final = 200
MOMENT: Final = re.compile(rb'"text":"([0-9]{19}) ')

_START: Final = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_bench","type":"message",'
    b'"role":"assistant","model":"bench","content":[],"stop_reason":null,"stop_sequence":null,'
    b'"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
)
_END: Final = (
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
    b'"usage":{"output_tokens":9}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)
_BEFORE: Final = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
)
_AFTER: Final = b'"}}\n\n'
_FILLING: Final = b" " + b"x" * (EVENT_BYTES - len(_BEFORE) - 19 - 1 - len(_AFTER)) + _AFTER
_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event() -> bytes:
    """One event that holds this moment."""
    return b"%b%019d%b" % (_BEFORE, time.monotonic_ns(), _FILLING)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            await _read_body(reader, fields)
            await _answer(writer, int(fields[b"x-bench-events"]), float(fields[b"x-bench-gap"]))
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # the client has left
    finally:
        writer.close()


async def _read_body(reader: asyncio.StreamReader, fields: dict[bytes, bytes]) -> None:
    """A proxy that streams requests may send them in chunks."""
    if b"content-length" in fields:
        await reader.readexactly(int(fields[b"content-length"]))
        return
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readline()


async def _answer(writer: asyncio.StreamWriter, events: int, gap: float) -> None:
    started = time.monotonic()
    writer.write(_HEAD + _chunk(_START + event()))
    for number in range(1, events):
        if gap:
            await asyncio.sleep(max(started + number * gap - time.monotonic(), 0))
        writer.write(_chunk(event()))
        await writer.drain()
    writer.write(_chunk(_END) + b"0\r\n\r\n")
    await writer.drain()


async def main() -> None:
    """Serves on a free port."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
