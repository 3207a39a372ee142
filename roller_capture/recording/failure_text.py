"""The proxy's own error texts, made fit to be stored."""

import re
from typing import Final

from roller_capture.recording.credentials import Credentials

_LONGEST: Final = 300
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_USERINFO: Final = re.compile(r"(?<=://)[^/\s@]*@")
_QUOTED: Final = re.compile(r"b(?:'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\")")
"""What the proxy quotes of a message that it refuses: header values, whole lines."""
_HARMLESS: Final = re.compile(r"b['\"][A-Za-z0-9 -]{0,16}['\"]")
_QUERY: Final = re.compile(r"(?<=\S)\?[^\s'\"]+")


def failure_text(message: str, credentials: Credentials) -> str:
    """One line of at most 300 characters, without credentials, quoted bytes, user information and queries of URLs."""
    text = credentials.masked_text(_CONTROL.sub(" ", message))
    text = _QUOTED.sub(lambda quoted: quoted[0] if _HARMLESS.fullmatch(quoted[0]) else "b'REDACTED'", text)
    text = _QUERY.sub("?REDACTED", _USERINFO.sub("REDACTED@", text))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
