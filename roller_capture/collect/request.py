"""What the user asked `collect` for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from roller_capture.vocabulary import DebugRetention, Protocol

DEFAULT_TIMEOUT = 3600.0
"""Seconds."""

DEFAULT_DRAIN_TIMEOUT = 600.0
"""Seconds."""


class KeyVia(StrEnum):
    """Who holds the real key: the proxy alone, or the harness itself."""

    PROXY = "proxy"
    HARNESS = "harness"


class Redo(StrEnum):
    """What Resume runs again beside what failed or was interrupted."""

    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class CollectRequest:
    """The options of the command, unchecked; None means "not given". Times are in seconds.

    `prompts` are the turns of one session; `samples` is a file with many sessions instead. `network` and `wire_trace`
    exist since the protocol names them: `host` and true are what this does, and nothing else is accepted.
    """

    harness: str
    run_dir: Path
    prompts: tuple[str, ...]
    api_base: str | None = None
    capture_calls: bool = False
    model: str | None = None
    protocol: Protocol | None = None
    profile: str | None = None
    harness_bin: Path | None = None
    workdir: Path | None = None
    api_key_env: str | None = None
    key_via: KeyVia = KeyVia.PROXY
    capture_debug: DebugRetention = DebugRetention.ON_ERROR
    compress: bool = False
    model_aliases: Mapping[str, str] = field(default_factory=dict)
    timeout: float = DEFAULT_TIMEOUT
    drain_timeout: float = DEFAULT_DRAIN_TIMEOUT
    network: str = "host"
    wire_trace: bool = True
    strict: bool = False
    harness_args: tuple[str, ...] = ()
    samples: Path | None = None
    jobs: int = 1
    resume: bool = False
    redo: Redo | None = None
