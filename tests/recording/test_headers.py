"""Which header values are stored, which names, and which headers are taken off."""

import pytest

from roller_capture.recording import headers
from roller_capture.recording.credentials import Credentials


def test_values_are_stored_by_allow_list_only() -> None:
    """Known harmless ones and identity headers keep their values and order; of all others only the name is kept."""
    fields = [
        (b"Content-Type", b"application/json"),
        (b"Authorization", b"Bearer sk-12345678"),
        (b"X-Stainless-Retry-Count", b"0"),
        (b"anthropic-ratelimit-tokens-remaining", b"10"),
        (b"x-ratelimit-limit-tokens", b"20"),
        (b"OpenAI-Organization", b"org-1"),
        (b"Set-Cookie", b"sid=1"),
        (b"Set-Cookie", b"sid=2"),
        (b"Thread-Id", b"t1"),
        (b"thread-id", b"t2"),
        (b"X-Unheard-Of", b"value"),
    ]
    stored = headers.select(fields, frozenset(["thread-id"]), Credentials(fields))
    assert stored.headers == [
        ("content-type", "application/json"),
        ("x-stainless-retry-count", "0"),
        ("anthropic-ratelimit-tokens-remaining", "10"),
        ("x-ratelimit-limit-tokens", "20"),
        ("thread-id", "t1"),
        ("thread-id", "t2"),
    ]
    assert stored.other == ["authorization", "openai-organization", "set-cookie", "x-unheard-of"]


def test_a_credential_in_an_allowed_value_is_masked() -> None:
    """No place is too unlikely."""
    fields = [(b"x-api-key", b"key-12345"), (b"user-agent", b"a key-12345 b")]
    assert headers.select(fields, frozenset(), Credentials(fields)).headers == [("user-agent", "a ********* b")]


def test_our_headers_are_split_off() -> None:
    """In any case and repeated; the others stay byte for byte."""
    fields = [(b"X-ROLLER-Run", b"1"), (b"Host", b"h"), (b"x-roller-run", b"\xff"), (b"X-Rolle", b"r")]
    forwarded, roller = headers.split_roller(fields)
    assert forwarded == [(b"Host", b"h"), (b"X-Rolle", b"r")]
    assert roller == [("x-roller-run", "1"), ("x-roller-run", "\xff")]


@pytest.mark.parametrize(("data", "text"), [(b"caf\xc3\xa9", "café"), (b"caf\xe9", "café"), (b"\xff", "ÿ")])
def test_bytes_that_are_no_utf8_are_kept_by_number(data: bytes, text: str) -> None:
    """Nothing is replaced by a question mark."""
    assert headers.text(data) == text


@pytest.mark.parametrize(
    ("fields", "encoding"),
    [
        ([], None),
        ([(b"content-encoding", b"")], None),
        ([(b"Content-Encoding", b"GZIP")], "gzip"),
        ([(b"content-encoding", b"gzip"), (b"content-encoding", b"br")], "gzip, br"),
    ],
)
def test_content_encoding(fields: list[tuple[bytes, bytes]], encoding: str | None) -> None:
    """All codings, in their order."""
    assert headers.content_encoding(fields) == encoding


@pytest.mark.parametrize(
    ("value", "length"), [(b"12", 12), (b" 12 ", 12), (b"-1", None), (b"1e3", None), (b"9" * 40, None), (b"", None)]
)
def test_content_length(value: bytes, length: int | None) -> None:
    """A number, or nothing."""
    assert headers.content_length([(b"Content-Length", value)]) == length
    assert headers.content_length([]) is None


@pytest.mark.parametrize(
    ("value", "asks"), [(b"websocket", True), (b"h2c, WebSocket", True), (b"h2c", False), (b"websockets", False)]
)
def test_websocket_upgrade(value: bytes, *, asks: bool) -> None:
    """Any case, also as one of several protocols."""
    assert headers.asks_for_websocket([(b"Upgrade", value)]) is asks


def test_header_names_once_each() -> None:
    """Lower case, in order, and even a name cannot carry a credential."""
    fields = [(b"A", b"1"), (b"a", b"2"), (b"key-12345", b"3")]
    credentials = Credentials([(b"x-api-key", b"key-12345")])
    assert headers.header_names(fields, credentials) == ["a", "*********"]


def test_an_id_that_holds_a_credential_is_withheld_and_not_masked() -> None:
    """Two masked ids would be one: their calls would go to one agent."""
    fields = [(b"x-api-key", b"key-1234"), (b"thread-id", b"a key-1234"), (b"thread-id", b"thread-1")]
    stored = headers.select(fields, frozenset(["thread-id"]), Credentials(fields))
    assert stored.headers == [("thread-id", "thread-1")]
    assert set(stored.other) == {"x-api-key", "thread-id"}
    pairs = [("x-roller-session", "key-1234"), ("x-roller-run", "run-1")]
    assert headers.select_ids(pairs, Credentials(fields)) == ([("x-roller-run", "run-1")], ["x-roller-session"])
