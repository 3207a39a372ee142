"""Starts a program of the user's own as the harness: any script or loop that calls a model (docs/harnesses/generic.md).

It finds the proxy and a key in the environment variables that the official SDKs read, gets the prompt as its last
argument (profile `argument`) or on its input (profile `stdin`), and says who is calling in `x-roller-*` headers.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.generic import LOG_NAME, SESSION
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id
from roller_capture.capture_protocol import Gap
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.vocabulary import AttemptErrorCode, Protocol

_STDIN: Final = "stdin"
_LONGEST_STDOUT_LINE: Final = 16 * 1024 * 1024
_FINGERPRINT: Final = (
    "import hashlib,sys; print('program', hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest()[:16])"
)
"""A program of one's own has no version to ask for, and must not be run without a prompt: its content stands for it."""
_VERSION: Final = re.compile(r"program ([0-9a-f]{16})")


_BY_HAND: Final = ByHand(
    work=(
        "let the agent send x-roller-session with every call, and call the proxy (ANTHROPIC_BASE_URL has no /v1):",
        "  mkdir -p agent-log",
        "  export OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 ANTHROPIC_BASE_URL=http://127.0.0.1:PORT",
        "  ROLLER_MODEL=MODEL ROLLER_EVENTS=\"$PWD/agent-log/roller-events.jsonl\" ./my_agent.py 'PROMPT'",
        "without such a log, leave --native out in what follows",
    ),
    logs="agent-log",
)


class GenericLauncher:
    """See `roller_capture.launchers.Launcher`."""

    traits: Final = LauncherTraits(
        executable="",
        installed_as="agent",
        install_hint="name your own program with --harness-bin PROGRAM",
        tested_versions=frozenset(),
        protocols=tuple(Protocol),
        profiles=("argument", _STDIN),
        key_variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        session_headers=(SESSION,),
        by_hand=_BY_HAND,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        """All arguments are the program's own business."""

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:  # noqa: ARG002
        return HarnessCommand((sys.executable, "-I", "-c", _FINGERPRINT, str(binary)), {})

    def version_in(self, output: str) -> str | None:
        match = _VERSION.fullmatch(output.strip())
        return f"sha256-{match[1]}" if match else None

    def prepare(self, settings: LaunchSettings) -> None:
        """There is nothing to lay down."""

    def service(self, settings: LaunchSettings) -> HarnessService | None:  # noqa: ARG002
        return None

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        environment = _environment(settings)
        if session_id is not None:
            environment["ROLLER_SESSION"] = session_id
        command = (str(settings.binary), *settings.arguments)
        if settings.profile == _STDIN:
            return HarnessCommand(command, environment, prompt)
        return HarnessCommand((*command, prompt), environment)

    def session_ids(self, stdout: Path) -> list[str]:
        found: dict[str, None] = {}
        for record in _records(stdout, "session"):
            session = as_id(record.get("session"))
            if session is not None and record.get("parent") is None:
                found[session] = None
        return list(found)

    def has_answered(self, stdout: Path) -> bool:
        return any(_records(stdout, "output"))

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        return any(_records(stdout, "ended", start))

    def turn_failed(self, stdout: Path, start: int) -> bool:
        roots = self.session_ids(stdout)
        ends = [end for end in _records(stdout, "ended", start) if as_id(end.get("session")) in roots]
        return any(end.get("status") == "failed" for end in ends[-1:])

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:  # noqa: ARG002
        gaps = GapLog()
        if not home.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness's home is gone")
            return list(gaps.gaps())
        with NativeTree(home, gaps).open(PurePosixPath(LOG_NAME), as_evidence=False) as source:
            if source is not None:
                try:
                    copy = target / LOG_NAME
                    copy.unlink(missing_ok=True)
                    with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                        shutil.copyfileobj(source, stream, 1024 * 1024)
                except OSError as error:
                    reason = f"cannot be copied: {error.strerror}"
                    gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=LOG_NAME)
        return list(gaps.gaps())


LAUNCHER: Final = GenericLauncher()


def _environment(settings: LaunchSettings) -> dict[str, str]:
    """What the official SDKs read, for both providers, and where the log belongs."""
    environment = {"TMPDIR": str(settings.temporary), "ROLLER_EVENTS": str(settings.home / LOG_NAME)}
    if settings.base_url is not None:
        environment["OPENAI_BASE_URL"] = f"{settings.base_url}/v1"
        environment["ANTHROPIC_BASE_URL"] = settings.base_url
    if settings.key is not None:
        environment |= {"OPENAI_API_KEY": settings.key, "ANTHROPIC_API_KEY": settings.key}
    if settings.model is not None:
        environment["ROLLER_MODEL"] = settings.model
    return environment


def _records(stdout: Path, event: str, start: int = 0) -> Iterator[Mapping[str, Any]]:
    """The events of one kind on the output, in the form that they have in the log; anything else on it says nothing."""
    try:
        with stdout.open("rb") as stream:
            stream.seek(start)
            for line in read_lines(stream, _LONGEST_STDOUT_LINE):
                if line.record.get("event") == event:
                    yield line.record
    except OSError:
        return
