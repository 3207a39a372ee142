"""JSON texts by number, each kept once; they are gathered into chunks, which are handed on as soon as they are full.

Requests of a session begin with what the previous one said, so nearly all of their parts come again. A page opens a
chunk when something in it is looked at.
"""

import hashlib
from collections.abc import Callable
from typing import Any, Final

from roller_capture import json_text

_CHUNK: Final = 192 * 1024
"""Bytes of text after which a chunk is closed: opening one takes a browser a few milliseconds."""

_DIGEST: Final = 16


def digest(text: bytes) -> bytes:
    """What stands for a text when texts are compared."""
    return hashlib.blake2b(text, digest_size=_DIGEST).digest()


class PieceBook:
    """Numbers texts 0, 1, … in the order in which they first come. `emit` takes each chunk, numbered the same way."""

    def __init__(self, emit: Callable[[int, bytes], None]) -> None:
        self._emit = emit
        self._numbers: dict[bytes, int] = {}
        self._texts: list[bytes] = []
        self._size = 0
        self.lengths: list[list[int]] = []
        """For each chunk the lengths of its texts in bytes: what finds a text in the page."""

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, value: Any) -> int:
        """The number of a JSON value."""
        return self.add_text(json_text.dumps(value))

    def add_text(self, text: bytes) -> int:
        """The number of a JSON text."""
        key = digest(text)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._texts.append(text)
            self._size += len(text)
            if self._size >= _CHUNK:
                self.flush()
        return number

    def flush(self) -> None:
        """Closes the chunk that is being filled."""
        if not self._texts:
            return
        self.lengths.append([len(text) for text in self._texts])
        self._emit(len(self.lengths) - 1, b"".join(self._texts))
        self._texts, self._size = [], 0
