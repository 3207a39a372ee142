"""The model service as the user names it."""

import ipaddress
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from roller_capture.errors import RollerError

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})")
_ENDPOINT: Final = re.compile(
    r"(?:/v1)?/(?:messages(?:/count_tokens)?|chat/completions|responses(?:/compact)?)$|/v1/(?:models|complete|completions)$"
)
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*")


@dataclass(frozen=True, slots=True)
class ApiBase:
    """Scheme, host (an IPv6 address in brackets), port, and the path before `/v1`, empty or with a leading slash."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        """What the proxy forwards to."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The base in its one spelling, without a trailing `/v1`."""
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.path}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return self.host == "localhost" or self.host.endswith(".localhost")

    def behind(self, proxy_url: str) -> str:
        """What the harness is given in its place: the same path at the proxy."""
        return f"{proxy_url}{self.path}"


def parse_api_base(text: str) -> ApiBase:
    """Reads `--api-base`, with or without a trailing slash or `/v1`. Raises `RollerError` (exit 2).

    An endpoint is refused, since the harness appends it; user information and queries are, since the base is written
    into the run's configuration.
    """
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        # A key with a slash in it ends where a host would; the error quotes what stands before.
        raise (_holds_a_key() if "@" in text else _refused(text, str(error))) from None
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        raise _refused(text, "it must begin with http:// or https://")
    if "@" in parts.netloc:
        raise _holds_a_key()
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise _refused(f"{scheme}://{parts.netloc}{parts.path}", "it must not have a query or a fragment")
    whole_path = re.sub("/{2,}", "/", parts.path).rstrip("/")
    endpoint = _ENDPOINT.search(whole_path)
    if endpoint is not None:
        base = f"{scheme}://{parts.netloc}{whole_path[: endpoint.start()]}"
        raise _refused(text, f"{endpoint[0]} is one of the service's endpoints, not its base: give {base}")
    path = whole_path.removesuffix("/v1")
    if _PATH.fullmatch(path) is None:
        raise _refused(text, "its path has characters that no URL path has")
    return ApiBase(scheme, _host(text, parts.hostname), _port(text, port, scheme), path)


def _host(text: str, hostname: str | None) -> str:
    host = hostname or ""
    if ":" in host:
        try:
            return f"[{ipaddress.IPv6Address(host)}]"
        except ValueError:
            raise _refused(text, "its host is no IPv6 address") from None
    if _HOST.fullmatch(host) is None:
        raise _refused(text, "it names no host")
    return host.lower()


def _port(text: str, port: int | None, scheme: str) -> int:
    if port == 0:
        raise _refused(text, "port 0 cannot be connected to")
    return port or _DEFAULT_PORTS[scheme]


def _holds_a_key() -> RollerError:
    return _refused("", "it holds a user name or a key: give the key with --api-key-env", shown="")


def _refused(text: str, reason: str, *, shown: str | None = None) -> RollerError:
    name = f"--api-base {text}" if shown is None else "--api-base"
    example = "write it like https://api.example.com or http://127.0.0.1:8000/v1"
    return RollerError(f"{name}: {reason}: {example}", exit_code=2)
