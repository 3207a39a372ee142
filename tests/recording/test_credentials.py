"""What is a secret, and that no spelling of it gets through the masker, however a stream is cut."""

import base64
import html
import itertools
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roller_capture.recording.credentials import Credentials, Masker, StreamMasker


@pytest.mark.parametrize(
    ("fields", "path", "values"),
    [
        ([(b"Authorization", b"Bearer sk-abcdef")], "", {b"sk-abcdef"}),
        ([(b"authorization", b"sk-abcdef")], "", {b"sk-abcdef"}),
        ([(b"authorization", b"Bearer")], "", set()),
        ([(b"authorization", b"Bearer   sk-abcdef  ")], "", {b"sk-abcdef"}),
        (
            [(b"Proxy-Authorization", b"Basic " + base64.b64encode(b"someone:pass-word"))],
            "",
            {base64.b64encode(b"someone:pass-word"), b"someone:pass-word", b"someone", b"pass-word"},
        ),
        ([(b"x-api-key", b"key-123")], "", {b"key-123"}),
        ([(b"X-Goog-Api-Key", b"key-123"), (b"api-key", b"key-456")], "", {b"key-123", b"key-456"}),
        ([(b"Cookie", b'a=1; sid="cookie-1"; t=cookie-2')], "", {b"cookie-1", b"cookie-2"}),
        ([(b"x-my-token", b"tok-123"), (b"ocp-apim-subscription-key", b"sub-123")], "", {b"tok-123", b"sub-123"}),
        ([(b"authorization", b"AWS4-HMAC-SHA256 Credential=x, Signature=0123456789abcdef0")], "", None),
        ([(b"user-agent", b"agent-123"), (b"x-session-id", b"session-1")], "", set()),
        ([], "/v1/messages?key=query-1&access_token=query%2D2&beta=true1234", {b"query-1", b"query%2D2", b"query-2"}),
        ([], "/go/https://user12:secret1@host/", {b"user12:secret1", b"secret1"}),
        ([(b"x-api-key", b"short")], "", set()),
        ([(b"x-api-key", b"\xff\xfe\xfd\xfc\xfb\xfa")], "", {b"\xff\xfe\xfd\xfc\xfb\xfa"}),
    ],
)
def test_what_is_secret(fields: list[tuple[bytes, bytes]], path: str, values: set[bytes] | None) -> None:
    """Credential headers, cookies, suspicious names, query keys and user information; nothing below six bytes."""
    found = set(Credentials(fields, path).values)
    if values is None:
        assert b"0123456789abcdef0" in found
    else:
        assert found == values


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ([(b"x-session-token", b"sess-1234")], ""),
        ([(b"idempotency-key", b"sess-1234")], ""),
        ([(b"cookie", b"sid=sess-1234")], ""),
        ([], "/v1/messages?session_key=sess-1234"),
    ],
)
@pytest.mark.parametrize("ours", [False, True])
def test_a_native_id_is_no_secret(fields: list[tuple[bytes, bytes]], path: str, ours: bool) -> None:
    """What an identity header, or one of ours, holds is an id, wherever else it stands; but a real key stays one."""
    identity = [] if ours else [(b"session-id", b"sess-1234")]
    ids = ["sess-1234"] if ours else []
    assert not Credentials([*identity, *fields], path, ["session-id"], ids=ids)
    key = (b"x-api-key", b"sess-1234")
    assert Credentials([*identity, *fields, key], path, ["session-id"], ids=ids)
    assert Credentials([*identity, *fields], path, ["session-id"], [b"sess-1234"], ids)


SECRET = 'sk-"a/b+c=<é>\\x9'


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(SECRET).replace("/", "\\/")[1:-1],
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        quote(SECRET),
        quote_plus(SECRET),
        html.escape(SECRET),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_every_spelling_is_masked(spelled: str) -> None:
    """Each form is replaced by as many asterisks."""
    masker = Credentials([(b"x-api-key", SECRET.encode())]).masker
    text = f"invalid key: {spelled}!".encode()
    masked = masker.mask(text)
    assert len(masked) == len(text)
    assert masked.startswith(b"invalid key: *")
    # Only what also depends on neighbouring bytes may be left of a base64 form.
    assert masked.count(b"*") >= len(spelled.encode()) - 2
    assert masked.endswith(b"!")


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_base64_of_a_longer_text_is_masked(before: str) -> None:
    """A key inside an encoded header, at each of the three alignments: no encoded character of its own is left."""
    masker = Masker([b"sk-0123456789"])
    encoded = base64.b64encode(f"{before}sk-0123456789 and more".encode())
    masked = masker.mask(encoded)
    assert b"sk-0123456789" not in base64.b64decode(masked.replace(b"*", b"A"))
    assert masked.count(b"*") >= 16


def test_overlapping_secrets_are_masked_together() -> None:
    """No rest of one is left because another was found first."""
    assert Masker([b"abcdef", b"defghi"]).mask(b"-abcdefghi-") == b"-*********-"


@given(
    pieces=st.lists(
        st.one_of(st.sampled_from([b"secret-one", b"one-two", b"secret", b"sec", b"one"]), st.binary(max_size=6)),
        max_size=12,
    ),
    cuts=st.lists(st.integers(0, 80), max_size=12),
)
def test_a_stream_is_masked_like_the_whole(pieces: list[bytes], cuts: list[int]) -> None:
    """However a body is cut, what is stored is the mask of the whole, and only a beginning of a secret is held back."""
    masker = Masker([b"secret-one", b"one-two"])
    text = b"".join(pieces)
    stream = StreamMasker(masker)
    borders = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    out = b""
    for start, stop in itertools.pairwise(borders):
        out += stream.feed(text[start:stop])
        assert stop - len(out) <= masker.open_end(text[:stop])
    out += stream.finish()
    assert out == masker.mask(text)
    assert stream.masked == (masker.mask(text) != text)


def test_ordinary_bytes_are_not_held_back() -> None:
    """The disk is not behind the client unless a secret may have begun."""
    stream = StreamMasker(Masker([b"sk-0123456789"]))
    assert stream.feed(b"a plain error") == b"a plain error"
    assert stream.feed(b" about sk-01") == b" about "
    assert stream.feed(b"x") == b"sk-01x"
    assert stream.finish() == b""
    assert not stream.masked


def test_texts_are_masked() -> None:
    """Header values and messages too."""
    credentials = Credentials([(b"x-api-key", b"key-123")])
    assert credentials.masked_text("agent (key-123)") == "agent (*******)"
    assert credentials.found_in("/a/key%2D123")
    assert not Credentials().found_in("/a/key-123")
    assert Credentials().masked_text("x") == "x"
