"""Which version of the harness ran. Its logs do not hold that: the launcher knows it, else the requests say it."""

import re
from collections.abc import Mapping
from typing import Final

from roller_capture.adapters.native_values import as_word

SENDER_HEADER: Final = "user-agent"
_SENDER: Final = re.compile(r"deepseek-harness/(\S{1,80})(?: .*)?", re.DOTALL)
_VERSION: Final = re.compile(r"(\d+\.\d+\.\d+)(?:-(rc|alpha|beta)\.(\d+))?")
_STAGES: Final = {"alpha": "a", "beta": "b"}


def package_version(text: str) -> str | None:
    """A version as the package has it (`0.2.1rc2`), where the program says `0.2.1-rc.2`; `None` where it is none."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    number, stage, serial = match.groups()
    return number if stage is None else f"{number}{_STAGES.get(stage, stage)}{serial}"


def versions_of(launcher: Mapping[str, object], wire_headers: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The launcher's version, else those that the requests name; more than one where several versions made them."""
    launched = as_word(launcher.get("harness_version"))
    if launched is not None:
        return frozenset({launched})
    senders = map(_SENDER.fullmatch, wire_headers.get(SENDER_HEADER, frozenset()))
    named = (sender[1] for sender in senders if sender is not None)
    return frozenset(version for text in named if (version := package_version(text) or as_word(text)) is not None)
