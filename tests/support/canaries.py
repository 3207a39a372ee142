"""Secrets that are planted on purpose, and the search for them in everything that was left behind."""

import base64
import gzip
import html
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import brotli
import zstandard


def canary(number: int) -> str:
    """A secret with characters that JSON, URLs and base64 spell differently. The same number gives the same one."""
    return f'cAn9+Ry/{number:03d}"kEy=Zq7xW4'


def spellings(secret: str) -> dict[str, bytes]:
    """How a service can repeat a secret, by name."""
    raw = secret.encode()
    return {
        "plain": raw,
        "json": json.dumps(secret)[1:-1].encode(),
        "json with escaped slashes": json.dumps(secret)[1:-1].replace("/", "\\/").encode(),
        "html": html.escape(secret).encode(),
        "url": quote(secret, safe="").encode(),
        "url in lower case": re.sub("%..", lambda match: match.group().lower(), quote(secret, safe="")).encode(),
        "url, slashes kept": quote(secret).encode(),
        "form": quote_plus(secret).encode(),
        "base64": base64.b64encode(raw),
        "base64 within": base64.b64encode(b"x" + raw + b"yz"),
        "base64 for URLs": base64.urlsafe_b64encode(b"ab" + raw),
    }


def _marks(secret: str) -> set[bytes]:
    """What must be found nowhere: every spelling, but of base64 only what does not depend on its neighbours."""
    raw = secret.encode()
    found = {text.lower() for name, text in spellings(secret).items() if "base64" not in name}
    for shift in range(3):
        core = base64.b64encode(b"\0" * shift + raw)[4:-6]
        found |= {core.lower(), core.translate(bytes.maketrans(b"+/", b"-_")).lower()}
    return found


def leaks(place: Path, secrets: Iterable[str]) -> list[str]:
    """Each file, also by its name, and secret that is in it, whatever way it is spelled or compressed."""
    marks = {secret: _marks(secret) for secret in secrets}
    return [
        f"{path}: {secret}"
        for path in sorted(place.rglob("*"))
        for secret, spelled in marks.items()
        if any(mark in text for text in _texts(path) for mark in spelled)
    ]


def _texts(path: Path) -> Iterator[bytes]:
    yield path.name.encode().lower()
    if path.is_symlink() or not path.is_file():
        return
    data = path.read_bytes()
    yield data.lower()
    for undo in (gzip.decompress, zlib.decompress, brotli.decompress, _zstd):
        try:
            yield undo(data).lower()
        except Exception:  # noqa: BLE001 - most files are not coded at all
            continue


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)
