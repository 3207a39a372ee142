"""The proxy's error texts, made fit to be stored."""

import pytest

from roller_capture.recording.credentials import Credentials
from roller_capture.recording.failure_text import failure_text

CREDENTIALS = Credentials([(b"Authorization", b"Bearer sk-12345678")])


@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ("peer closed connection", "peer closed connection"),
        ("GET http://h/p?key=1&b=2 failed", "GET http://h/p?REDACTED failed"),
        ("upstream http://user:pass@h:1 refused", "upstream http://REDACTED@h:1 refused"),
        ("bad header 'Bearer sk-12345678'", "bad header 'Bearer ***********'"),
        ("line\r\n\x1b[31mred", "line [31mred"),
        ("why? because", "why? because"),
        ("", ""),
    ],
)
def test_texts(message: str, stored: str) -> None:
    """No credential, no query, no user information, no control character."""
    assert failure_text(message, CREDENTIALS) == stored


def test_length() -> None:
    """A message can quote a whole response."""
    assert len(failure_text("x" * 10_000, CREDENTIALS)) == 300
