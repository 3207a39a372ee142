"""Starts Claude Code headless (`claude -p`), in a configuration of its own, and copies its session logs.

Measured with 2.1.332 and 2.1.197: the process waits for background subtasks by itself, up to a ceiling that an
environment variable sets; a second process with `--resume ID` goes on with the same session id and log; as root it
needs `IS_SANDBOX=1`; no configuration file and no login is needed.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from roller_capture.adapters.claude_code.adapter import TESTED_VERSIONS
from roller_capture.adapters.claude_code.identity import SESSION_HEADER
from roller_capture.adapters.claude_code.locate import find_sessions, is_file_name
from roller_capture.adapters.claude_code.record_shapes import SYNTHETIC_MODEL
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.capture_protocol import Gap
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.launchers.claude_code_arguments import check_arguments, chooses_permissions
from roller_capture.vocabulary import AttemptErrorCode, Protocol

_CONFIG_DIR: Final = ".claude"
_QUIET: Final = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
)
_VERSION: Final = re.compile(r"^(\d+\.\d+\.\d+\S*) \(Claude Code\)", re.MULTILINE)
_LONGEST_STDOUT_LINE: Final = 16 * 1024 * 1024


_BY_HAND: Final = ByHand(
    work=(
        "work as always, with the proxy as base URL (and ANTHROPIC_API_KEY, where you are not logged in); for example:",
        "  ANTHROPIC_BASE_URL=http://127.0.0.1:PORT claude -p 'PROMPT'",
    ),
    logs="~/.claude",
)


class ClaudeCodeLauncher:
    """See `roller_capture.launchers.Launcher`."""

    traits: Final = LauncherTraits(
        executable="claude",
        installed_as="node_modules/@anthropic-ai/claude-code-*/claude",
        install_hint=(
            "run make harness-claude-code in the checkout, or npm install -g @anthropic-ai/claude-code@2.1.332, "
            "or name it with --harness-bin"
        ),
        tested_versions=TESTED_VERSIONS,
        protocols=(Protocol.ANTHROPIC_MESSAGES,),
        profiles=(),
        key_variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        session_headers=(SESSION_HEADER,),
        by_hand=_BY_HAND,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        check_arguments(arguments)

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:
        return HarnessCommand((str(binary), "--version"), _common_environment(home, home))

    def version_in(self, output: str) -> str | None:
        match = _VERSION.search(output)
        return match[1] if match else None

    def prepare(self, settings: LaunchSettings) -> None:
        (settings.home / _CONFIG_DIR).mkdir(mode=0o700, exist_ok=True)

    def service(self, settings: LaunchSettings) -> HarnessService | None:  # noqa: ARG002
        return None

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        # The first value on the command line is the prompt, whatever follows it. One that begins with a dash comes on
        # stdin: 2.1.197 would take the prompt `--bg` for that option, also behind `--`.
        as_argument = not prompt.startswith("-")
        arguments = [str(settings.binary), "-p", *((prompt,) if as_argument else ())]
        arguments += ["--output-format", "stream-json", "--verbose"]
        if not chooses_permissions(settings.arguments):
            # Nobody is there to answer: what asks for permission would be denied.
            arguments.append("--dangerously-skip-permissions")
        if session_id is not None:
            arguments += ["--resume", session_id]
        arguments += settings.arguments
        return HarnessCommand(tuple(arguments), _turn_environment(settings), None if as_argument else prompt)

    def session_ids(self, stdout: Path) -> list[str]:
        found: dict[str, None] = {}
        for record in _records(stdout):
            session_id = record.get("session_id")
            if record.get("type") == "system" and record.get("subtype") == "init" and isinstance(session_id, str):
                found[session_id] = None
        return [session_id for session_id in found if is_file_name(session_id)]

    def has_answered(self, stdout: Path) -> bool:
        return any(_is_answer(record) for record in _records(stdout))

    def answered_itself(self, stdout: Path) -> bool:
        records = list(_records(stdout))
        return any(map(_is_own_words, records)) and any(map(_is_without_model, records))

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        # The `result` record comes only after the wait for background subtasks.
        return _root_has_answered(_records(stdout, start))

    def turn_failed(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return False  # its exit code is 1 then (measured)

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        gaps = GapLog()
        if not home.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness's home is gone")
            return list(gaps.gaps())
        tree = NativeTree(home, gaps)
        for session in find_sessions(tree, session_ids):
            agents = (path for agent in session.agents.values() for path in (*agent.logs, *agent.metas))
            for path in (*session.logs, *agents):
                _copy(tree, path, target, gaps)
        return list(gaps.gaps())


LAUNCHER: Final = ClaudeCodeLauncher()


def _common_environment(home: Path, temporary: Path) -> dict[str, str]:
    environment = {
        **dict.fromkeys(_QUIET, "1"),
        "CLAUDE_CONFIG_DIR": str(home / _CONFIG_DIR),
        "CLAUDE_CODE_TMPDIR": str(temporary),
        "TMPDIR": str(temporary),
    }
    if os.geteuid() == 0:
        environment["IS_SANDBOX"] = "1"
    return environment


def _turn_environment(settings: LaunchSettings) -> dict[str, str]:
    environment = _common_environment(settings.home, settings.temporary)
    # 0 would be no ceiling at all.
    environment["CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"] = str(max(1, round(settings.drain_timeout * 1000)))
    if settings.base_url is not None:
        environment["ANTHROPIC_BASE_URL"] = settings.base_url
    if settings.key is not None:
        environment[settings.key_variable] = settings.key
    if settings.model is not None:
        environment["ANTHROPIC_MODEL"] = settings.model
    return environment


def _records(stdout: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    """The objects on the output; anything else on it says nothing."""
    try:
        with stdout.open("rb") as stream:
            stream.seek(start)
            for line in read_lines(stream, _LONGEST_STDOUT_LINE):
                yield line.record
    except OSError:
        return


def _is_answer(record: Mapping[str, Any]) -> bool:
    """Whether a model must have said it. The harness writes its own error texts as answers of a synthetic model."""
    if record.get("type") == "result":
        return record.get("is_error") is False and not _is_without_model(record)
    message = record.get("message")
    return record.get("type") == "assistant" and isinstance(message, dict) and message.get("model") != SYNTHETIC_MODEL


def _is_own_words(record: Mapping[str, Any]) -> bool:
    message = record.get("message")
    return record.get("type") == "assistant" and isinstance(message, dict) and message.get("model") == SYNTHETIC_MODEL


def _is_without_model(record: Mapping[str, Any]) -> bool:
    """The end of a turn that the harness answered by itself: a prompt with a slash in front can be one of its commands
    (measured: `/help`)."""
    return record.get("type") == "result" and record.get("is_error") is False and record.get("num_turns") == 0


def _root_has_answered(records: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the root's last message holds no tool call, and no result of one has come after it.

    Each block of a message is a record of its own, with the message's id.
    """
    answered = False
    message_id: object = None
    for record in records:
        kind, message = record.get("type"), record.get("message")
        if kind == "result":
            answered, message_id = True, None
        if record.get("parent_tool_use_id") is not None or not isinstance(message, dict):
            continue
        if kind == "assistant" and _is_answer(record):
            same = message_id is not None and message.get("id") == message_id
            answered = (answered or not same) and not _has_block(message, "tool_use")
            message_id = message.get("id")
        elif kind == "user" and _has_block(message, "tool_result"):
            answered, message_id = False, None
    return answered


def _has_block(message: Mapping[str, Any], kind: str) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(isinstance(block, dict) and block.get("type") == kind for block in content)


def _copy(tree: NativeTree, path: PurePosixPath, target: Path, gaps: GapLog) -> None:
    inner = path.relative_to(_CONFIG_DIR) if path.parts[0] == _CONFIG_DIR else path
    with tree.open(path, as_evidence=False) as source:
        if source is None:
            return
        try:
            copy = target / inner
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                shutil.copyfileobj(source, stream, 1024 * 1024)
        except OSError as error:
            reason = f"cannot be copied: {error.strerror}"
            gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=str(inner))
