"""Server-sent events: bytes to events, by the rules of the WHATWG ("9.2.6 Interpreting an event stream").

Lines are split as bytes, so a character cut in two by the network is whole again before anyone decodes it. Work is
linear in the bytes, however they are cut.
"""

from typing import NamedTuple

_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(NamedTuple):
    """One event.

    `name` is the `event:` field, `data` the `data:` lines joined by LF (`id:` and `retry:` are for clients that
    reconnect). `terminated` is false for an event at the very end that lacks its blank line: a browser would drop it,
    while real servers end that way, so the reader has to judge whether its data is whole.
    """

    name: str | None
    data: bytes
    terminated: bool


class SseParser:
    """Feed it the pieces of one stream, then call `finish`."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._skip_line_feed = False
        self._at_start = True
        self._name: str | None = None
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[ServerSentEvent]:
        """The events that `piece` completes."""
        if self._skip_line_feed and piece:
            # The CR that ended the last piece has ended the line; this LF belongs to it.
            self._skip_line_feed = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if end == 0:
            if piece:
                self._tail.append(piece)
            return []
        self._tail.append(piece[:end])
        text = b"".join(self._tail)
        self._tail = [piece[end:]] if end < len(piece) else []
        if b"\r" in text:
            self._skip_line_feed = text.endswith(b"\r")
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = text.split(b"\n")
        lines.pop()
        return self._lines(lines)

    def finish(self) -> list[ServerSentEvent]:
        """The event at the end of the stream that has no blank line behind it, if there is one."""
        tail = b"".join(self._tail)
        self._tail = []
        events = self._lines([tail]) if tail else []
        torn_field = tail and not tail.startswith(b":")
        if self._data or self._name is not None or torn_field:
            # Also without data: the reader must learn that the stream did not end between two events.
            events.append(self._event(terminated=False))
        return events

    def _lines(self, lines: list[bytes]) -> list[ServerSentEvent]:
        if self._at_start and lines:
            self._at_start = False
            lines[0] = lines[0].removeprefix(_BOM)
        events = []
        for line in lines:
            if line.startswith(b"data: "):
                self._data.append(line[6:])
            elif line:
                self._field(line)
            else:
                if self._data:
                    events.append(self._event(terminated=True))
                self._name = None
        return events

    def _event(self, *, terminated: bool) -> ServerSentEvent:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data = []
        return ServerSentEvent(self._name, data, terminated)

    def _field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value.decode("utf-8", "replace") or None
        elif field == b"data":
            self._data.append(value)
