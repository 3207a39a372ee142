"""Reads a page back without a browser: its blocks, its pieces, its markup."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

_BLOCK = re.compile(rb'<script type="text/plain" id="([a-z0-9]+)">([A-Za-z0-9+/=]*)</script>\n')


class PageData:
    """What is in a page."""

    def __init__(self, path: Path) -> None:
        found = _BLOCK.findall(path.read_bytes())
        self.blocks = {name.decode(): zlib.decompress(base64.b64decode(data)) for name, data in found}
        assert len(self.blocks) == len(found)
        self.about: dict[str, Any] = json.loads(self.blocks["page"])
        self.pieces: list[Any] = []
        for number, lengths in enumerate(self.about["pieces"]):
            text, start = self.blocks[f"c{number}"], 0
            for length in lengths:
                self.pieces.append(json.loads(text[start : start + length]))
                start += length
            assert start == len(text)

    def attempt(self, number: int = 0) -> dict[str, Any]:
        """An attempt's index."""
        index: dict[str, Any] = json.loads(self.blocks[f"a{number}"])
        return index

    def messages(self, index: dict[str, Any], place: int) -> list[Any]:
        """The messages of a call, as the page puts them together."""
        return [self.pieces[number] for number in self._list(index, place)]

    def _list(self, index: dict[str, Any], place: int) -> list[int]:
        described = index["calls"][place]["content"]["list"]
        before = [] if described["base"] is None else self._list(index, described["base"])
        tail = before[len(before) - described["tail"] :]
        return [*before[: described["head"]], *described["mid"], *tail]


class Markup(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(path.read_text(encoding="ascii", errors="backslashreplace"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes it."""
        self.elements.append((tag, dict(attrs)))
