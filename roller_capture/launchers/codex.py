"""Starts Codex headless (`codex exec`), in a configuration of its own, and copies its rollouts.

Measured with 0.171.0: a model provider of one's own is spoken to over plain HTTP (the built-in one tries a websocket
first); `codex exec resume ID` goes on with the same thread and rollout, and `--last` may pick a child's; a child that
still runs when the root has answered is ended with it, so there is nothing to wait for; rollouts are written while the
run goes on. Beside them in the same home lie databases and `auth.json`: only rollouts are ever copied.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from roller_capture.adapters.codex.adapter import TESTED_VERSIONS
from roller_capture.adapters.codex.identity import RELATIVE_HEADERS, THREAD_HEADER
from roller_capture.adapters.codex.locate import CODEX_HOME, find_rollouts, is_thread_id
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.capture_protocol import Gap
from roller_capture.errors import RollerError
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.launchers.refusal import refusal
from roller_capture.vocabulary import AttemptErrorCode, Protocol

PROVIDER: Final = "roller"
"""Our model provider in the private configuration."""
REVIEW: Final = "review"
"""The profile that runs `codex exec review` instead of `codex exec`."""

_VERSION: Final = re.compile(r"^codex-cli (\d+\.\d+\.\d+\S*)", re.MULTILINE)
_LONGEST_STDOUT_LINE: Final = 16 * 1024 * 1024

_OURS: Final = "collect gives it itself"
_PROVIDER: Final = "the requests would not go through the proxy"
_REFUSED: Final[Mapping[str, str]] = {
    "--ephemeral": "it turns the rollouts off, and without them no call can be attributed",
    "--ignore-user-config": "the configuration that leads to the proxy would not be read",
    **dict.fromkeys(("--json", "--skip-git-repo-check"), _OURS),
    **dict.fromkeys(("-C", "--cd"), "use collect's --workdir"),
    **dict.fromkeys(("-m", "--model"), "use collect's own --model, which stands in the run's configuration"),
    **dict.fromkeys(("--last", "--all"), "collect starts one new thread, and resumes it for the further turns"),
    **dict.fromkeys(("--oss", "--local-provider", "--remote", "--remote-auth-token-env"), _PROVIDER),
    **dict.fromkeys(("-p", "--profile"), "the private home of a run has no profiles: give settings with -c"),
    **dict.fromkeys(("-V", "--version", "-h", "--help"), "nothing would be run"),
    "--": "what follows it would be a second prompt",
}
"""Arguments of the user that are refused, and why."""

_REFUSED_SETTINGS: Final[Mapping[str, str]] = {
    "model": "use collect's own --model, which stands in the run's configuration",
    **dict.fromkeys(("model_provider", "model_providers", "openai_base_url", "chatgpt_base_url", "profile"), _PROVIDER),
}
_OWN_RETRIES: Final = re.compile(
    rf"model_providers\.{PROVIDER}\.(?:request_max_retries|stream_max_retries|stream_idle_timeout_ms)"
)
_THE_INPUT: Final = "-"
_SANDBOX_FLAGS: Final = ("-s", "--sandbox", "--approve-for-me", "--dangerously-bypass-approvals-and-sandbox")


_BY_HAND: Final = ByHand(
    setup=(
        "put into ~/.codex/config.toml:",
        '  model = "MODEL"',
        '  model_provider = "recorded"',
        "  [model_providers.recorded]",
        '  name = "recorded"',
        '  base_url = "http://127.0.0.1:PORT/v1"',
        '  wire_api = "responses"',
        '  env_key = "OPENAI_API_KEY"',
    ),
    work=(
        "work as always, for example:",
        "  codex exec --skip-git-repo-check 'PROMPT'",
    ),
    logs="~/.codex",
)


class CodexLauncher:
    """See `roller_capture.launchers.Launcher`."""

    traits: Final = LauncherTraits(
        executable="codex",
        installed_as="node_modules/@openai/codex-*/vendor/*/bin/codex",
        install_hint=(
            "run make harness-codex in the checkout, or npm install -g @openai/codex@0.171.0, "
            "or name it with --harness-bin"
        ),
        tested_versions=TESTED_VERSIONS,
        protocols=(Protocol.OPENAI_RESPONSES,),
        profiles=(REVIEW,),
        key_variables=("OPENAI_API_KEY", "CODEX_API_KEY"),
        session_headers=(THREAD_HEADER, *RELATIVE_HEADERS),
        by_hand=_BY_HAND,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        if arguments and not arguments[0].startswith("-"):
            raise _refusal(arguments[0], "it would be a second prompt or another command: give prompts with --prompt")
        for argument in arguments:
            # A short option can have its value right behind it (`-mNAME`).
            flag = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
            if flag in _REFUSED:
                raise _refusal(flag, _REFUSED[flag])
        for setting in _settings_in(arguments):
            key = setting.partition("=")[0].strip()
            name = key.partition(".")[0].strip("\"' ")
            if name in _REFUSED_SETTINGS and not _OWN_RETRIES.fullmatch(key):
                raise _refusal(f"-c {key}", _REFUSED_SETTINGS[name])

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:
        return HarnessCommand((str(binary), "--version"), {"CODEX_HOME": str(home)})

    def version_in(self, output: str) -> str | None:
        match = _VERSION.search(output)
        return match[1] if match else None

    def prepare(self, settings: LaunchSettings) -> None:
        folder = settings.home / CODEX_HOME
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "config.toml").write_text(_configuration(settings), encoding="utf-8")

    def service(self, settings: LaunchSettings) -> HarnessService | None:  # noqa: ARG002
        return None

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        # Options stand before the subcommand, which knows fewer of them.
        arguments = [str(settings.binary), "exec", "--json", "--skip-git-repo-check"]
        if not any(argument.partition("=")[0] in _SANDBOX_FLAGS for argument in settings.arguments):
            # Nobody is there to answer: what asks for approval would be denied.
            arguments.append("--dangerously-bypass-approvals-and-sandbox")
        arguments += settings.arguments
        if session_id is not None:
            arguments += ["resume", session_id]
        elif settings.profile == REVIEW:
            arguments.append("review")
        # The prompt stands behind `--`, since it may begin with a dash. One that is a dash alone means the input to
        # Codex, also there; so it is on the input, too.
        typed = prompt if prompt == _THE_INPUT else None
        return HarnessCommand((*arguments, "--", prompt), _turn_environment(settings), typed)

    def session_ids(self, stdout: Path) -> list[str]:
        found: dict[str, None] = {}
        for record in _records(stdout):
            thread_id = record.get("thread_id")
            if record.get("type") == "thread.started" and isinstance(thread_id, str):
                found[thread_id] = None
        return [thread_id for thread_id in found if is_thread_id(thread_id)]

    def has_answered(self, stdout: Path) -> bool:
        return any(_is_answer(record) for record in _records(stdout))

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        return any(record.get("type") in ("turn.completed", "turn.failed") for record in _records(stdout, start))

    def turn_failed(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return False  # its exit code is 1 then (measured)

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        gaps = GapLog()
        if not home.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness's home is gone")
            return list(gaps.gaps())
        tree = NativeTree(home, gaps)
        for path in find_rollouts(tree, session_ids):
            _copy(tree, path, target, gaps)
        return list(gaps.gaps())


LAUNCHER: Final = CodexLauncher()


def _refusal(argument: str, reason: str) -> RollerError:
    return refusal("codex", argument, reason)


def _settings_in(arguments: Sequence[str]) -> Iterator[str]:
    """The `key=value` texts that `-c` and `--config` bring."""
    for index, argument in enumerate(arguments):
        if argument in ("-c", "--config"):
            yield "".join(arguments[index + 1 : index + 2])
        elif argument.startswith("--config="):
            yield argument.removeprefix("--config=")
        elif argument.startswith("-c"):
            yield argument[2:].removeprefix("=")


def _configuration(settings: LaunchSettings) -> str:
    lines = ["check_for_update_on_startup = false"]
    if settings.model is not None:
        lines.append(f"model = {_toml(settings.model)}")
    if settings.base_url is not None:
        lines.append(f"model_provider = {_toml(PROVIDER)}")
    lines += ["[analytics]", "enabled = false"]
    if settings.base_url is not None:
        lines += [
            f"[model_providers.{PROVIDER}]",
            f"name = {_toml(PROVIDER)}",
            f"base_url = {_toml(settings.base_url + '/v1')}",
            'wire_api = "responses"',
            f"env_key = {_toml(settings.key_variable)}",
        ]
    return "\n".join([*lines, ""])


def _toml(text: str) -> str:
    """A basic string: JSON writes the same escapes, and leaves what is printable as it is."""
    return json.dumps(text, ensure_ascii=False)


def _turn_environment(settings: LaunchSettings) -> dict[str, str]:
    environment = {"CODEX_HOME": str(settings.home / CODEX_HOME), "TMPDIR": str(settings.temporary)}
    if settings.key is not None:
        environment[settings.key_variable] = settings.key
        if settings.base_url is None:
            environment["CODEX_API_KEY"] = settings.key  # where the built-in provider looks
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
    """Whether a model must have said it. Errors and warnings are items too."""
    item = record.get("item")
    kind = item.get("type") if isinstance(item, dict) else None
    return record.get("type") == "turn.completed" or kind in ("agent_message", "reasoning", "command_execution")


def _copy(tree: NativeTree, path: PurePosixPath, target: Path, gaps: GapLog) -> None:
    inner = path.relative_to(CODEX_HOME) if path.parts[0] == CODEX_HOME else path
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
