"""sha256 of a large text on another thread, while this one writes or parses it.

Every context is hashed twice: on its own for `context_sha256`, and as part of calls.jsonl (design sections 5 and 8).
Both take as long as a third of parsing it, and hashlib lets other threads run meanwhile.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Final, Protocol

_WORTH_A_THREAD: Final = 128 * 1024
"""Bytes. Hashing so many takes about twice as long as starting a thread and waiting for its end."""


class Digest(Protocol):
    """What hashlib makes."""

    def update(self, data: bytes, /) -> None:
        """Takes the next bytes."""


@contextlib.contextmanager
def updated_meanwhile(digest: Digest, data: bytes) -> Iterator[None]:
    """Has `digest` take `data`, which nobody may change, while the block runs; it has all of it when the block ends."""
    helper = _started(digest, data) if len(data) >= _WORTH_A_THREAD else None
    try:
        yield
    finally:
        if helper is None:
            digest.update(data)
        else:
            helper.join()


def _started(digest: Digest, data: bytes) -> threading.Thread | None:
    helper = threading.Thread(target=digest.update, args=(data,), name="sha256", daemon=True)
    try:
        helper.start()
    except RuntimeError:  # no more threads are allowed here
        return None
    return helper
