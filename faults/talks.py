"""One model call as it should go: what is asked, what is answered, and what each side really got."""

import asyncio
import itertools
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from roller_capture.model_protocols import decode_body
from roller_capture.scripted_provider.answers import DIALECTS
from roller_capture.scripted_provider.coding import CODINGS, Coder
from roller_capture.scripted_provider.content import Content, ToolCall
from roller_capture.vocabulary import Protocol
from tests.support.upstream import Client, Exchange

TARGETS: Final = {
    Protocol.ANTHROPIC_MESSAGES: "/v1/messages",
    Protocol.OPENAI_CHAT_COMPLETIONS: "/v1/chat/completions",
    Protocol.OPENAI_RESPONSES: "/v1/responses",
}
_TERMINAL: Final = {
    Protocol.ANTHROPIC_MESSAGES: b'"type": "message_stop"',
    Protocol.OPENAI_CHAT_COMPLETIONS: b'"finish_reason": "tool_calls"',
    Protocol.OPENAI_RESPONSES: b'"type": "response.completed"',
}
_MEMBER: Final = {Protocol.OPENAI_RESPONSES: "input"}
_numbers: Final = itertools.count(1)


Play = Callable[[Exchange, "Talk"], Awaitable[None]]


@dataclass(slots=True)
class Talk:
    """A call and its truth. `mark` stands in its request, and nowhere else.

    The service sends `pieces` (the body as it is on the wire) and waits before number `hold_at` until `go_on` is set.
    """

    mark: str
    protocol: Protocol
    request: bytes
    pieces: list[bytes]
    texts: tuple[str, ...]
    """What the answer says: text and arguments, as they have to be in the output."""
    coding: str | None
    stream: bool
    hold_at: int | None = None
    play_instead: "Play | None" = None
    """What the service does in place of answering as it should."""
    odd: bool = False
    """The service breaks HTTP or its own word: what reached the client is all that can be asked for."""
    held: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    asked: bool = False
    """Whether the service has got the whole request."""
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """The first bytes of the answer have reached the client."""
    got: bytes = b""
    whole: bool = False
    """Whether the client saw the proper end of the answer."""
    status: int = 0

    @property
    def answer(self) -> bytes:
        """The whole body on the wire."""
        return b"".join(self.pieces)

    def says_its_end(self, stored: bytes) -> bool:
        """Whether the protocol's own end mark is in these bytes of the answer."""
        said = decode_body(stored, self.coding).data
        if not self.stream:
            return said == decode_body(self.answer, self.coding).data  # a JSON value is over where it is over
        return _TERMINAL[self.protocol] in said

    async def play(self, exchange: Exchange) -> None:
        """What the service does."""
        self.asked = True
        if self.play_instead is not None:
            await self.play_instead(exchange, self)
            return
        await self._pause(-1)
        await exchange.start_stream(headers=self.answer_headers)
        for number, piece in enumerate(self.pieces):
            await self._pause(number)
            await exchange.chunk(piece)
        await self._pause(len(self.pieces))
        await exchange.end_stream()

    @property
    def answer_headers(self) -> dict[str, str]:
        """Of the answer."""
        coding = {} if self.coding is None else {"content-encoding": self.coding}
        return {"Content-Type": "text/event-stream" if self.stream else "application/json", **coding}

    async def _pause(self, number: int) -> None:
        if number == self.hold_at:
            self.held.set()
            await self.go_on.wait()

    async def ask(self, port: int) -> None:
        """What the client does, to the end of the answer or of the connection."""
        try:
            client = await Client.connect(port)
        except OSError:
            return
        try:
            await client.send("POST", TARGETS[self.protocol], self.headers, self.request)
            await client.read_until(lambda reply: bool(reply.body))
            self.begun.set()
            if not client.reply.whole:
                await client.read()
        except OSError:
            pass
        finally:
            self.note(client)
            client.close()

    @property
    def headers(self) -> dict[str, str]:
        """Of the request."""
        return {"content-type": "application/json", "x-roller-session": "agent-1"}

    def note(self, client: Client) -> None:
        """Takes what a client has got."""
        self.status, self.got, self.whole = client.reply.status, client.reply.body, client.reply.whole


def new_talk(
    chance: random.Random, *, protocol: Protocol | None = None, words: int = 40, stream: bool | None = None
) -> Talk:
    """A call in any protocol and coding; its answer has about `words` words of text and one tool call."""
    protocol = protocol or chance.choice(list(Protocol))
    mark = f"talk-{next(_numbers):06d}-{chance.randrange(1 << 32):08x}"
    coding = chance.choice((None, None, *CODINGS))
    stream = chance.random() < 0.85 if stream is None else stream
    text = " ".join(f"{mark[5:11]}.{number}" for number in range(words))
    arguments = json.dumps({"command": f"echo {mark}"})
    tool = ToolCall("Bash", arguments, f"call_{mark}")
    content = Content(mark, f"resp_{mark}", "fault-model", text, None, (tool,), None, {}, stream_usage=True)
    body = {"model": "fault-model", "stream": stream, _MEMBER.get(protocol, "messages"): [_message(mark)]}
    pieces = list(_pieces(protocol, content, coding, stream=stream))
    return Talk(mark, protocol, json.dumps(body).encode(), pieces, (text, arguments), coding, stream)


def _message(mark: str) -> dict[str, str]:
    return {"role": "user", "content": f"{mark}: say \u00e9 and \U0001f600"}


def _pieces(protocol: Protocol, content: Content, coding: str | None, *, stream: bool) -> Iterator[bytes]:
    dialect = DIALECTS[protocol]
    coder = Coder(coding)
    if stream:
        parts = [event.text.encode() for event in dialect.events(content)]
    else:
        whole = json.dumps(dialect.body(content)).encode()
        parts = [whole[start : start + 200] for start in range(0, len(whole), 200)]
    for part in parts:
        if piece := coder.feed(part):
            yield piece
    if piece := coder.finish():
        yield piece


class Service:
    """The model service: knows each call by its mark. What it is asked otherwise it answers with 404."""

    def __init__(self) -> None:
        self.talks: dict[str, Talk] = {}
        self.port = 0

    def expect(self, *talks: Talk) -> None:
        """These will come."""
        self.talks |= {talk.mark: talk for talk in talks}

    async def __call__(self, exchange: Exchange) -> None:
        """Plays the call that it is asked for."""
        place = exchange.request.body.find(b"talk-")
        mark = exchange.request.body[place : place + len("talk-000001-00000000")].decode("ascii", "replace")
        talk = self.talks.get(mark)
        if talk is None:
            await exchange.answer(b"{}", status=404)
        else:
            talk.request = talk.request or exchange.request.body
            await talk.play(exchange)
