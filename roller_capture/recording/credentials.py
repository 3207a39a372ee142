"""The credentials that one request carries, and how their echoes are kept off the disk (design section 4).

A provider's error message can repeat the key it refused, plainly or inside JSON, a URL or base64. `Masker` finds these
forms in a byte string, `StreamMasker` in a stream whose chunk borders mean nothing.
"""

import base64
import binascii
import functools
import html
import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final
from urllib.parse import quote, quote_plus, unquote_to_bytes

HeaderField = tuple[bytes, bytes]
"""A header as it stood on the wire."""

SHORTEST_SECRET: Final = 6
"""Bytes. Masking shorter values would blot out ordinary words, and no credential is that short."""

MOST_SECRETS: Final = 256
"""No client sends more. To look for so many in everything would hold up the traffic, so then nothing is told apart."""

MADE_UP_PREFIX: Final = "roller-dummy-"
"""How the keys begin that `collect` makes up: they open nothing."""

_ALWAYS_SECRET: Final = frozenset(("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key"))
_SECRET_WORDS: Final = re.compile(r"token|secret|key|auth|passw|passphrase|cookie|credential|jwt|signature|sig$|^code$")
_SCHEMES: Final = frozenset((b"basic", b"bearer", b"digest", b"negotiate", b"token"))
_PARAMETER: Final = re.compile(rb"=\s*\"?([^\s\",]{16,})")
_UNMISTAKABLE: Final = re.compile(rb"(?=.*[0-9])(?=.*[A-Za-z])\S{20,}")
"""What is no word that a model could mean: placeholders for keys (`ollama`, `sk-no-key-required`) are words."""


class Credentials:
    """The secrets of one request.

    `fields` are its headers, without `x-roller-*`; `path` is the request target; `known` are keys that are secret in
    any case; `ids` are the values of our own headers. What the harness also sends in one of its `identity` headers, or
    in ours, is a native id, and no secret only because it stands somewhere suspicious too: in a cookie, a query, a
    header with `key` in its name. In an authorization or key header it stays one.
    """

    def __init__(
        self,
        fields: Sequence[HeaderField] = (),
        path: str = "",
        identity: Iterable[str] = (),
        known: Iterable[bytes] = (),
        ids: Iterable[str] = (),
    ) -> None:
        identity_names = frozenset(identity)
        native_ids = {value for name, value in fields if _lower(name) in identity_names}
        native_ids.update(value.encode("utf-8", "surrogateescape") for value in ids)
        certain: set[bytes] = set(known)
        suspected: set[bytes] = set(_path_secrets(path))
        for raw_name, value in fields:
            name = _lower(raw_name)
            if name in _ALWAYS_SECRET:
                certain.update(_header_secrets(name, value))
            elif name not in identity_names and _sounds_secret(name):
                suspected.update(_header_secrets(name, value))
        found = {secret for secret in certain | (suspected - native_ids) if len(secret) >= SHORTEST_SECRET}
        self._too_many: Final = len(found) > MOST_SECRETS
        self.values: Final = () if self._too_many else tuple(sorted(found, key=len, reverse=True))
        self._certain: Final = certain

    def __bool__(self) -> bool:
        return self._too_many or bool(self.values)

    def found_in(self, text: str) -> bool:
        """Whether `text`, as it stands or percent-decoded, holds one of the secrets."""
        if not self:
            return False
        data = text.encode("utf-8", "surrogateescape")
        plain = unquote_to_bytes(data)
        return self._too_many or any(secret in data or secret in plain for secret in self.values)

    def masked_text(self, text: str) -> str:
        """`text` with every secret in it replaced by `*`."""
        if not self:
            return text
        return self.masker.mask(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    @cached_property
    def masker(self) -> "Masker":
        """Finds the secrets in any of their forms."""
        return _BlindMasker() if self._too_many else Masker(self.values)

    @cached_property
    def real_keys(self) -> tuple[bytes, ...]:
        """What is a key beyond doubt, by header and look, and opens something."""
        made_up = MADE_UP_PREFIX.encode()
        return tuple(
            secret for secret in self._certain if _UNMISTAKABLE.fullmatch(secret) and not secret.startswith(made_up)
        )

    @cached_property
    def masker_of_answers(self) -> "Masker":
        """Finds what no answer of a model holds unless somebody echoes it: real keys, by header and look."""
        return Masker(self.real_keys)


class Masker:
    """Replaces secrets by as many `*`, so that every length stays true."""

    def __init__(self, secrets: Iterable[bytes]) -> None:
        self.patterns: Final = tuple(sorted({form for secret in secrets for form in _forms(secret)}))
        self._on_one_line: Final = not any(b"\n" in pattern for pattern in self.patterns)

    def mask(self, data: bytes) -> bytes:
        """`data` without secrets, of the same length."""
        return _blot(data, self.intervals(data))

    @property
    def longest(self) -> int:
        """Bytes of the longest form of a secret."""
        return max(map(len, self.patterns), default=1)

    def intervals(self, data: bytes) -> list[tuple[int, int]]:
        """Where secrets stand, overlapping ones included."""
        found = []
        for pattern in self.patterns:
            start = data.find(pattern)
            while start >= 0:
                found.append((start, start + len(pattern)))
                start = data.find(pattern, start + 1)
        return found

    def open_end(self, data: bytes) -> int:
        """How many bytes at the end of `data` could be the beginning of a secret."""
        longest = 0
        # Events end with a line break, and hardly any secret holds one: then there is nothing to look at.
        line = data.rfind(b"\n") + 1 if self._on_one_line else 0
        for pattern in self.patterns:
            place = data.find(pattern[:1], max(line, len(data) - len(pattern) + 1))
            while 0 <= place < len(data) - longest:
                if pattern.startswith(data[place:]):
                    longest = len(data) - place
                place = data.find(pattern[:1], place + 1)
        return longest


class _BlindMasker(Masker):
    """Masks everything: for a request with more secrets than can be looked for."""

    def __init__(self) -> None:
        super().__init__(())

    def intervals(self, data: bytes) -> list[tuple[int, int]]:
        """All of it."""
        return [(0, len(data))] if data else []


class StreamMasker:
    """Masks a stream chunk by chunk. Only bytes that may begin a secret are held back, until the next chunk decides."""

    def __init__(self, masker: Masker) -> None:
        self._masker: Final = masker
        self._held = b""
        self._held_masked = 0
        self.masked = False

    def feed(self, data: bytes) -> bytes:
        """The bytes that can be stored now."""
        data = self._held + data
        return self._release(data, len(data) - self._masker.open_end(data))

    def finish(self) -> bytes:
        """The bytes that were still held back."""
        return self._release(self._held, len(self._held))

    def _release(self, data: bytes, end: int) -> bytes:
        intervals = self._masker.intervals(data)
        if self._held_masked:
            intervals.append((0, self._held_masked))
        self.masked = self.masked or bool(intervals)
        # A secret that ends within the held bytes may begin another one, so they are kept as they came.
        self._held = data[end:]
        self._held_masked = max(0, max((stop for _, stop in intervals), default=0) - end)
        return _blot(data, intervals)[:end]


def _blot(data: bytes, intervals: Iterable[tuple[int, int]]) -> bytes:
    blotted: bytearray | None = None
    for start, stop in intervals:
        blotted = bytearray(data) if blotted is None else blotted
        blotted[start:stop] = b"*" * (stop - start)
    return data if blotted is None else bytes(blotted)


@functools.lru_cache(maxsize=1024)
def _lower(name: bytes) -> str:
    return name.decode("latin-1").lower()


@functools.lru_cache(maxsize=1024)
def _sounds_secret(name: str) -> bool:
    return _SECRET_WORDS.search(name) is not None


def _header_secrets(name: str, value: bytes) -> Iterable[bytes]:
    """What is secret in a header value: not the scheme (`Bearer`), not a cookie's name."""
    value = value.strip()
    if "cookie" in name:
        yield from (_unquoted(part.partition(b"=")[2] or part) for part in value.split(b";"))
        return
    scheme, _, rest = value.partition(b" ")
    if rest or scheme.lower() not in _SCHEMES:
        yield _unquoted(rest or scheme)
    if rest and scheme.lower() == b"basic":
        yield from _basic_secrets(rest)
    elif rest:
        yield from _PARAMETER.findall(rest)


def _basic_secrets(encoded: bytes) -> Iterable[bytes]:
    try:
        pair = base64.b64decode(encoded.strip())
    except (binascii.Error, ValueError):
        return
    yield pair
    yield from pair.split(b":", 1)


def _path_secrets(path: str) -> Iterable[bytes]:
    """Values of secret-looking query fields, and the user information of any URL in the path."""
    plain, _, query = path.partition("?")
    for field in re.split("[&;]", query):
        name, _, value = field.partition("=")
        if value and _SECRET_WORDS.search(name.lower()):
            yield value.encode("utf-8", "surrogateescape")
            yield unquote_to_bytes(value.encode("utf-8", "surrogateescape"))
    for userinfo in re.findall(r"//([^/@?#]+)@", plain):
        for secret in (userinfo, userinfo.rpartition(":")[2]):
            yield secret.encode("utf-8", "surrogateescape")
            yield unquote_to_bytes(secret.encode("utf-8", "surrogateescape"))


def _unquoted(value: bytes) -> bytes:
    return value.strip().strip(b'"')


def _forms(secret: bytes) -> Iterable[bytes]:
    """The spellings in which an error body can echo a secret: plain, JSON, HTML, percent-encoded, base64."""
    yield secret
    text = secret.decode("utf-8", "surrogateescape")
    yield html.escape(text).encode("utf-8", "surrogateescape")
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        yield escaped.encode("utf-8", "surrogateescape")
        yield escaped.replace("/", "\\/").encode("utf-8", "surrogateescape")
    for encoded in (quote(secret, safe=""), quote(secret, safe="/"), quote(secret, safe="/:=+,@"), quote_plus(secret)):
        yield encoded.encode()
        yield re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), encoded).encode()
    yield from _base64_forms(secret)


def _base64_forms(secret: bytes) -> Iterable[bytes]:
    """Base64 of the secret standing at each of the three places it can have within a group of three bytes.

    Characters that also depend on neighbouring bytes are left out.
    """
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + secret)
        first = (0, 2, 3)[shift]
        last = (len(secret) + shift) * 8 // 6
        core = encoded[first:last]
        if len(core) >= SHORTEST_SECRET:
            yield core
            yield core.translate(bytes.maketrans(b"+/", b"-_"))
