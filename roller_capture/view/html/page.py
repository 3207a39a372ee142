"""Writes one page: the shell with its style and script, and between them blocks of data in base64.

Base64 has no `<`, no quote and no character beyond ASCII: whatever was recorded, it cannot end the element that it
stands in. The policy in the page's head allows its own script and style by their hashes, nothing else, and no network.
"""

import base64
import hashlib
import zlib
from importlib.resources import files
from typing import IO, Any, Final

from roller_capture import json_text
from roller_capture.view.html.pieces import PieceBook

_ASSETS: Final = files("roller_capture.view.html") / "assets"
_STYLE: Final = "page.css"
_SHELL: Final = "page.html"
_SCRIPTS: Final = (
    "dom.js",
    "words.js",
    "store.js",
    "json.js",
    "attempt.js",
    "timeline.js",
    "messages.js",
    "outline.js",
    "proof.js",
    "detail.js",
    "search.js",
    "runs.js",
    "main.js",
)
_DATA_MARK: Final = b"<!--DATA-->"
_LEVEL: Final = 6


class PageWriter:
    """Writes blocks of data as they come. `pieces` belong to the page as a whole: attempts of a run share them."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        before, self._after = _shell().split(_DATA_MARK)
        stream.write(before)
        self.pieces = PieceBook(lambda number, text: self._block(f"c{number}", text))

    def attempt(self, number: int, index: dict[str, Any]) -> None:
        """The index of the attempt with this number."""
        self._block(f"a{number}", json_text.dumps(index))

    def finish(self, about: dict[str, Any]) -> None:
        """The last block, which says what is in the page, and the end of the page."""
        self.pieces.flush()
        self._block("page", json_text.dumps({**about, "pieces": self.pieces.lengths}))
        self._stream.write(self._after)

    def _block(self, name: str, text: bytes) -> None:
        data = base64.b64encode(zlib.compress(text, _LEVEL))
        self._stream.write(b'<script type="text/plain" id="%b">%b</script>\n' % (name.encode(), data))


def _shell() -> bytes:
    """The page without data."""
    style = _asset(_STYLE)
    body = "".join(f"// {name}\n{_asset(name)}\n" for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{body}}})();\n'
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    shell = _asset(_SHELL)
    for mark, text in (("POLICY", policy), ("STYLE", style), ("SCRIPT", script)):
        shell = shell.replace(f"<!--{mark}-->", text)
    return shell.encode()


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
