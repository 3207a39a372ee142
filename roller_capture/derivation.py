"""Which state of the code derives records from working files: a fingerprint of the modules that do.

Records are held to what `raw/` gives only where the same code makes both. The number of a release does not tell that,
since adapters and decoders change between two releases, too (docs/security.md).
"""

import functools
import hashlib
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("adapters", "finalizer", "model_protocols", "working")
_MODULES: Final = (
    "adapter_registry.py",
    "capture_protocol.py",
    "finalize_attempt.py",
    "harnesses.py",
    "json_text.py",
    "records.py",
    "token_usage.py",
    "vocabulary.py",
    "working_files.py",
)
_LENGTH: Final = 16
"""Hexadecimal digits."""


@functools.cache
def derivation() -> str | None:
    """The fingerprint; `None` where the package is installed without its sources."""
    root = Path(__file__).parent
    paths = [path for package in _PACKAGES for path in (root / package).rglob("*.py")]
    digest = hashlib.sha256()
    try:
        for path in sorted((*paths, *(root / name for name in _MODULES))):
            text = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(text)}\n".encode() + text)
    except OSError:
        return None
    return digest.hexdigest()[:_LENGTH]
