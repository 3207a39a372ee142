"""What `--api-base` may look like, and what becomes of it."""

import pytest

from roller_capture.collect.api_base import parse_api_base
from roller_capture.errors import RollerError


@pytest.mark.parametrize(
    ("text", "origin", "url", "behind"),
    [
        ("https://api.example.com", "https://api.example.com:443", "https://api.example.com", ""),
        ("https://api.example.com/", "https://api.example.com:443", "https://api.example.com", ""),
        ("https://api.example.com/v1", "https://api.example.com:443", "https://api.example.com", ""),
        ("https://api.example.com/v1/", "https://api.example.com:443", "https://api.example.com", ""),
        (" HTTPS://API.Example.COM:443/v1 ", "https://api.example.com:443", "https://api.example.com", ""),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000", "http://127.0.0.1:8000", ""),
        ("http://localhost", "http://localhost:80", "http://localhost", ""),
        ("http://[::1]:8000/v1", "http://[::1]:8000", "http://[::1]:8000", ""),
        ("https://gate.test/api/v1", "https://gate.test:443", "https://gate.test/api", "/api"),
        ("https://gate.test//a//b/", "https://gate.test:443", "https://gate.test/a/b", "/a/b"),
        ("https://gate.test/v1beta", "https://gate.test:443", "https://gate.test/v1beta", "/v1beta"),
        ("https://gate.test:8443/xv1", "https://gate.test:8443", "https://gate.test:8443/xv1", "/xv1"),
    ],
)
def test_every_spelling_gives_one_base(text: str, origin: str, url: str, behind: str) -> None:
    """Trailing slashes and `/v1` make no difference; a path goes on through the proxy."""
    base = parse_api_base(text)
    assert (base.origin, base.url, base.behind("http://127.0.0.1:9")) == (origin, url, f"http://127.0.0.1:9{behind}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must begin with"),
        ("api.example.com", "must begin with"),
        ("ftp://api.example.com", "must begin with"),
        ("https://", "names no host"),
        ("https:///v1", "names no host"),
        ("https://exa mple.com", "names no host"),
        ("https://-x.test", "names no host"),
        ("https://example.com:99999", "out of range"),
        ("https://example.com:port", "port"),
        ("https://example.com:0", "port 0"),
        ("http://[::zz]", "IPv"),
        ("https://example.com/v1?key=1", "query"),
        ("https://example.com/v1#f", "fragment"),
        ("https://example.com/a b", "path"),
        ("https://example.com/\x1b[31m", "path"),
        ("https://user:pass@example.com", "user name or a key"),
        ("https://example.com/v1/messages", "give https://example.com:"),
        ("https://example.com/gate/v1/messages/", "give https://example.com/gate:"),
        ("http://127.0.0.1:8000/v1/chat/completions", "give http://127.0.0.1:8000:"),
        ("https://example.com/v1/responses", "/v1/responses is one of the service's endpoints"),
        ("https://example.com/chat/completions", "give https://example.com:"),
        ("https://example.com/v1/messages/count_tokens", "give https://example.com:"),
        ("https://example.com/v1/models", "give https://example.com:"),
    ],
)
def test_what_is_no_base_is_refused(text: str, said: str) -> None:
    """One line, exit code 2."""
    with pytest.raises(RollerError, match="--api-base") as caught:
        parse_api_base(text)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_credential_in_the_base_is_not_repeated() -> None:
    """The message goes to terminals and logs."""
    with pytest.raises(RollerError) as caught:
        parse_api_base("https://sk-secret:x@example.com")
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("a.test", False),
    ],
)
def test_loopback_is_told(host: str, expected: bool) -> None:
    """A service on this machine may need no key."""
    assert parse_api_base(f"http://{host}:1").is_loopback is expected
