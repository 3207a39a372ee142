"""run.json: the configuration of a run, and whether another call of `collect` goes with it.

The protocol: "The capture mode is written to the run configuration, and Resume cannot mix samples collected before and
after it was enabled"; design section 9: harness, version, protocol, model, API base, mode and profile never change.
"""

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field

from roller_capture import __version__, json_text
from roller_capture.runs.stored import SHA256, Stored, read_stored
from roller_capture.vocabulary import DebugRetention, Protocol

RUN_FORMAT: Final = "roller.run/v1"
RUN_FILE: Final = "run.json"
HOST_NETWORK: Final = "host"


class RunMode(StrEnum):
    """Whether model calls are captured; a run has one mode from its beginning to its end."""

    CAPTURED = "captured"
    UNCAPTURED = "uncaptured"


class Arguments(Stored):
    """Extra arguments of the harness. They can hold secrets, so only their number and hash are kept."""

    count: int = Field(ge=0)
    sha256: str = Field(pattern=SHA256)

    @classmethod
    def of(cls, arguments: Sequence[str]) -> "Arguments":
        """What is kept of them."""
        return cls(count=len(arguments), sha256=hashlib.sha256(json_text.dumps(list(arguments))).hexdigest())


class NamedVersion(Stored):
    """A program."""

    name: str
    version: str


class RunDocument(Stored):
    """run.json."""

    format: Literal["roller.run/v1"]
    created_at: float
    tool: NamedVersion
    harness: NamedVersion
    protocol: Protocol | None
    """`None`: nobody has said what the user's own program speaks."""
    model: str | None
    api_base: str | None
    mode: RunMode
    profile: str | None
    network: str
    wire_trace: bool
    capture_debug: DebugRetention
    key_via: str
    timeout: float = Field(gt=0)
    drain_timeout: float = Field(gt=0)
    harness_args: Arguments


@dataclass(frozen=True, slots=True)
class RunConfiguration:
    """What a call of `collect` says about its run."""

    harness: str
    harness_version: str
    protocol: str | None
    model: str | None
    api_base: str | None
    mode: RunMode
    profile: str | None
    network: str
    wire_trace: bool
    capture_debug: str
    key_via: str
    timeout: float
    drain_timeout: float
    harness_args: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """run.json of a run that begins now."""
        return {
            "format": RUN_FORMAT,
            "created_at": time.time(),
            "tool": {"name": "roller-capture", "version": __version__},
            "harness": {"name": self.harness, "version": self.harness_version},
            "protocol": self.protocol,
            "model": self.model,
            "api_base": self.api_base,
            "mode": self.mode,
            "profile": self.profile,
            "network": self.network,
            "wire_trace": self.wire_trace,
            "harness_args": Arguments.of(self.harness_args).model_dump(),
            **self.settings,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """What may be another one for each attempt: limits, retention, and who holds the key."""
        return {
            "capture_debug": str(self.capture_debug),
            "key_via": str(self.key_via),
            "timeout": float(self.timeout),
            "drain_timeout": float(self.drain_timeout),
        }

    def changed_settings(self, run: RunDocument) -> dict[str, Any]:
        """Those of `settings` that differ from the run's; the attempt's entry in sample.json keeps them."""
        return {name: value for name, value in self.settings.items() if getattr(run, name) != value}


def read_run(run_dir: Path) -> RunDocument:
    """run.json. Raises `RollerError` when it is missing, damaged, or edited into something else."""
    return read_stored(run_dir / RUN_FILE, RunDocument)


def impossible(run: RunDocument) -> Iterator[str]:
    """What no captured run says of itself: capturing needs each of these (protocol, "Enabling")."""
    if run.mode is RunMode.CAPTURED:
        if run.api_base is None:
            yield "mode is captured, without an api_base"
        if run.network != HOST_NETWORK:
            yield f"mode is captured, with network {run.network}"
        if not run.wire_trace:
            yield "mode is captured, without wire_trace"


def differences(run: RunDocument, now: RunConfiguration) -> Iterator[str]:
    """In what another call does not go with the run, one sentence each."""
    pairs: dict[str, tuple[object, object]] = {
        "harness": (run.harness.name, now.harness),
        "harness version": (run.harness.version, now.harness_version),
        "protocol": (run.protocol, now.protocol),
        "model": (run.model, now.model),
        "api_base": (run.api_base, now.api_base),
        "profile": (run.profile, now.profile),
    }
    if run.mode is not now.mode:
        yield f"mode is {run.mode}, this call is {now.mode}: captured and uncaptured samples cannot be mixed in one run"
    for name, (before, after) in pairs.items():
        if before != after:
            yield f"{name} is {_told(before)}, this call has {_told(after)}: it never changes within a run"
    if run.harness_args != Arguments.of(now.harness_args):
        yield "the harness arguments after -- are others: they never change within a run"


def _told(value: object) -> str:
    return "none" if value is None else str(value)
