"""Small things that would become large: each costs bounded time and memory, and spoils nothing beside it."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
import zstandard

from roller_capture import json_text
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.model_protocols.content_coding import decode_body
from roller_capture.vocabulary import DebugRetention
from tests.support.attempts import AttemptBuilder, message_body, native_capture, participant, request_body
from tests.support.proxy import reverse, running_proxy
from tests.support.publish import lines, use_capture
from tests.support.upstream import Client, Exchange, call, upstream

MILLION = 1_000_000
SECONDS = 40.0
"""Far above what any of it takes, even on a busy machine, and far below what square time would take."""


def _zeros(size: int) -> bytes:
    return b"\0" * size


def _nested(depth: int) -> bytes:
    data = _zeros(50 * MILLION)
    for _ in range(depth):
        data = gzip.compress(data)
    return data


COMPRESSED: dict[str, tuple[str, Callable[[], bytes]]] = {
    "gzip": ("gzip", lambda: gzip.compress(_zeros(300 * MILLION), 1)),
    "br": ("br", lambda: brotli.compress(_zeros(300 * MILLION), quality=1)),
    "zstd": ("zstd", lambda: zstandard.compress(_zeros(300 * MILLION))),
    "gzip in gzip in gzip": ("gzip, gzip, gzip", lambda: _nested(3)),
    "a list of codings without end": (", ".join(["gzip"] * 1000), lambda: _nested(1)),
    "many empty members": ("gzip", lambda: gzip.compress(b"") * 100_000),
}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_body_that_expands(kind: str) -> None:
    """Decoding stops at the limit, whatever the coding is and however often it was applied."""
    coding, make = COMPRESSED[kind]
    body, limit = make(), 8 * MILLION
    before = time.monotonic()
    decoded = decode_body(body, coding, limit=limit)
    assert len(decoded.data) <= max(limit, len(body))
    assert time.monotonic() - before < SECONDS


DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "deep": lambda: b"[" * MILLION,
    "deep and closed": lambda: b"[" * MILLION + b"]" * MILLION,
    "deep objects": lambda: b'{"a":' * MILLION,
    "as deep as allowed, and slow": lambda: b"[" * 890 + b'"\\ud800"' + b"]" * 890,
    "wide object": lambda: b"{" + b",".join(b'"k%d":1' % number for number in range(MILLION)) + b"}",
    "wide array, slow": lambda: b"[" + b"1e400," * MILLION + b"1]",
    "the same key": lambda: b"{" + b'"a":1,' * MILLION + b'"a":1}',
    "a number of many digits": lambda: b"[" + b"9" * MILLION + b"]",
    "a fraction of many digits": lambda: b"[0." + b"3" * MILLION + b"]",
    "an exponent of many digits": lambda: b"[1e" + b"9" * MILLION + b"]",
    "a long string": lambda: b'["' + b"a\\u0041" * MILLION + b'",1e400]',
    "a string that never ends": lambda: b'"\\' * MILLION,
    "quotes": lambda: b'"' * MILLION,
    "blanks": lambda: b" " * MILLION + b"1e400",
    "commas": lambda: b"[" + b"," * MILLION,
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_that_is_hard_to_read(kind: str) -> None:
    """Depth, width, numbers and strings: parsed and written back, or refused; in linear time, also deep in a stack."""
    document = DOCUMENTS[kind]()

    def within(frames: int) -> None:
        if frames:
            within(frames - 1)
            return
        try:
            value = json_text.parse(document)
        except json_text.JsonError:
            return
        json_text.dumps(value)

    before = time.monotonic()
    within(60)
    assert time.monotonic() - before < SECONDS


def test_what_could_be_read_can_be_written_at_any_depth_of_the_stack() -> None:
    """The slow writer needs no frame for each level."""
    value = json_text.parse(b"[" * 890 + b'"\\ud800"' + b"]" * 890)

    def within(frames: int) -> bytes:
        return within(frames - 1) if frames else json_text.dumps(value)

    assert within(800) == b"[" * 890 + b'"\\ud800"' + b"]" * 890


def _answers() -> dict[str, bytes]:
    text = message_body("msg_2").decode()
    return {
        "deep": text.replace('"content": [', '"content": [' + "[" * 5000 + "]" * 5000 + ",").encode(),
        "a string that never ends": text.encode()[:-1] + b',"x":' + b'"\\' * MILLION,
        "wide": text.replace(
            '"usage"', '"x":{' + ",".join(f'"{n}":1e400' for n in range(100_000)) + '},"usage"'
        ).encode(),
        "zeros": _zeros(5 * MILLION),
        "lines": b"data: {}\n\n" * 200_000,
        "one line": b"data: " + b"x" * (5 * MILLION),
        "tool calls": message_body("msg_2", tools=tuple((f"toolu_{n}", "Bash") for n in range(20_000))),
    }


@pytest.mark.parametrize("kind", _answers())
def test_an_answer_that_is_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """It is published as what it is, and so are its neighbours."""
    builder = AttemptBuilder(tmp_path / "a")
    ask = request_body({"role": "user", "content": "ask"})
    builder.call(ask, message_body("msg_1"))
    builder.call(ask, _answers()[kind])
    builder.call(ask, message_body("msg_3"))
    ids = dict.fromkeys(("msg_1", "msg_2", "msg_3"), "root")
    use_capture(monkeypatch, native_capture(participant("root"), response_ids=ids))
    before = time.monotonic()
    finalize_attempt(builder.build(), FinalizeRequest(debug_retention=DebugRetention.FULL))
    assert time.monotonic() - before < SECONDS
    first, _, third = lines(tmp_path / "a" / "calls.jsonl")
    assert [(call["export_status"], call["response_id"]) for call in (first, third)] == [
        ("exportable", "msg_1"),
        ("exportable", "msg_3"),
    ]


_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
from pathlib import Path
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
manifest = finalize_attempt(Path(sys.argv[1]), FinalizeRequest()).manifest
print(manifest["counts"]["calls"])
"""


def test_a_compressed_answer_does_not_take_the_memory(tmp_path: Path) -> None:
    """Four gigabytes of zeros in some megabytes, and 2.5 GB of address space for all of it."""
    compressor = zstandard.ZstdCompressor().compressobj()
    bomb = b"".join(compressor.compress(_zeros(100 * MILLION)) for _ in range(40)) + compressor.flush()
    builder = AttemptBuilder(tmp_path / "a", harness="generic")
    ask = request_body({"role": "user", "content": "ask"})
    builder.call(ask, bomb, response_headers=(("content-type", "application/json"), ("content-encoding", "zstd")))
    builder.build()
    command = [sys.executable, "-c", _LIMITED, str(tmp_path / "a"), str(2500 * MILLION)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (process.stdout, process.stderr) == ("1\n", "")


HEADERS: dict[str, bytes] = {
    "many": b"".join(b"x-h%d: v\r\n" % number for number in range(20_000)),
    "long": b"x-long: " + b"v" * (2 * MILLION) + b"\r\n",
    "long and stored": b"x-stainless-long: " + b"v" * (2 * MILLION) + b"\r\n",
    "many secrets": b"cookie: " + b";".join(b"k%d=value-%07d" % (n, n) for n in range(50_000)) + b"\r\n",
    "many codings": b"content-encoding: " + b", ".join([b"gzip"] * 10_000) + b"\r\n",
    "one name": b"x-same: v\r\n" * 20_000,
}


@pytest.mark.parametrize("kind", [*HEADERS, "many query fields", "a long path"])
async def test_a_request_with_a_bomb_in_its_head(tmp_path: Path, kind: str) -> None:
    """It ends soon, one way or the other; the next request is recorded as ever."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(message_body("msg_1"))

    target = "/v1/messages"
    if kind == "many query fields":
        target += "?" + "&".join(f"token{number}=value-{number:07d}" for number in range(50_000))
    elif kind == "a long path":
        target = "/x" * MILLION + target
    body = request_body({"role": "user", "content": "ask"})
    async with upstream(answer) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        before = time.monotonic()
        client = await Client.connect(proxy.port)
        head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n".encode()
        await client.send_raw(head + HEADERS.get(kind, b"") + b"\r\n" + body)
        assert await client.reader.read(1)
        client.close()
        assert (await call(proxy.port, body)).status == 200
        assert time.monotonic() - before < SECONDS
    last = proxy.events("response")[-1]
    assert proxy.body(last["body"]) == message_body("msg_1")


def test_an_event_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is too long is a damaged one; what follows it is read."""
    builder = AttemptBuilder(tmp_path / "a")
    builder.event("other_request", flow="f", kind="x" * (20 * MILLION))
    builder.call(request_body({"role": "user", "content": "ask"}), message_body("msg_1"))
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    manifest = finalize_attempt(builder.build(), FinalizeRequest()).manifest
    assert manifest["counts"]["calls"] == 1
    assert "event_unreadable" in json.dumps(manifest["errors"])
