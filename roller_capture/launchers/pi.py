"""Starts Pi headless (`pi -p --mode json`), as the protocol bundles it: without extensions but our own hook.

Measured with 1.6.0: one process takes one prompt; `--session-id ID` in the same working directory goes on with the same
session and log; the first line of the output names the session; the exit code is 0 also after a turn that failed, so
how it ended is read from the output. Pi needs Node.js 22.19 or newer.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from roller_capture import json_text
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_mapping
from roller_capture.adapters.pi.adapter import TESTED_VERSIONS
from roller_capture.adapters.pi.identity import SESSION_HEADERS
from roller_capture.adapters.pi.locate import find_logs, is_file_name
from roller_capture.adapters.pi.session_log import COMPLETED_REASONS
from roller_capture.capture_protocol import Gap
from roller_capture.errors import RollerError
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.launchers.refusal import no_model, refusal
from roller_capture.shipped import shipped_path
from roller_capture.vocabulary import AttemptErrorCode, Protocol

_AGENT_DIR: Final = PurePosixPath(".pi/agent")
_PROVIDER: Final = "roller"
_APIS: Final = {
    Protocol.OPENAI_CHAT_COMPLETIONS: "openai-completions",
    Protocol.OPENAI_RESPONSES: "openai-responses",
    Protocol.ANTHROPIC_MESSAGES: "anthropic-messages",
}
"""Pi's own words for the protocols."""

_BUNDLED: Final = (
    "--no-extensions",
    "--no-mcp",
    "--no-skills",
    "--no-prompt-templates",
    "--no-themes",
    "--no-context-files",
    "--no-approve",
)
"""The profile that the protocol describes: no extensions, and nothing of a project's or a user's configuration."""

_SETTINGS: Final = {"enableInstallTelemetry": False}
_QUIET: Final = {"PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:-[A-Za-z0-9.]+)?")
_LONGEST_STDOUT_LINE: Final = 16 * 1024 * 1024
_HOOK: Final = ("hooks", "pi", "roller-capture.js")
_HOOK_EVENT: Final = "before_provider_headers"
_EVENT_TYPES: Final = PurePosixPath("dist/core/extensions/types.d.ts")
"""Where Pi's package declares the events that an extension can ask for."""

_OURS: Final = "collect gives it itself"
_SESSION: Final = "collect starts one new session, and goes on with it for the further turns"
_EXTENSION: Final = "the bundled profile has no extensions: what an extension's agents do could not be attributed"
_NOTHING: Final = "nothing would be run"
_REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-p", "--print", "--mode", "--offline", *_BUNDLED, "-ne", "-ns", "-np", "-nc", "-na"), _OURS),
    **dict.fromkeys(("-c", "--continue", "-r", "--resume", "--session", "--session-id", "--fork"), _SESSION),
    "--no-session": "it turns the session log off, and without it no call can be attributed",
    "--session-dir": "the session log would lie where collect does not look",
    **dict.fromkeys(("-e", "--extension"), _EXTENSION),
    **dict.fromkeys(("-a", "--approve"), "a project's own settings could lead around the proxy"),
    **dict.fromkeys(("--provider", "--models"), "it would lead around the proxy"),
    "--api-key": "name the key's variable with collect's own --api-key-env",
    "--model": "use collect's own --model, which stands in the run's configuration",
    **dict.fromkeys(("--export", "--list-models", "-h", "--help", "-v", "--version"), _NOTHING),
    "--": "what follows it would be a second prompt",
}
"""Arguments of the user that are refused, and why. Pi's short options are words of their own (`-nc`)."""


_BY_HAND: Final = ByHand(
    setup=(
        "put into ~/.pi/agent/models.json (with api: anthropic-messages, baseUrl has no /v1):",
        '  {{"providers": {{"recorded": {{"baseUrl": "http://127.0.0.1:PORT/v1", "api": "openai-completions",',
        '    "apiKey": "$OPENAI_API_KEY", "models": [{{"id": "MODEL"}}]}}}}}}',
    ),
    work=(
        "start each session with the hook, for example:",
        "  pi -e '{path}' --provider recorded --model MODEL -p 'PROMPT'",
    ),
    logs="~/.pi",
    hook=("pi", "roller-capture.js"),
)


class PiLauncher:
    """See `roller_capture.launchers.Launcher`."""

    traits: Final = LauncherTraits(
        executable="pi",
        installed_as="node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js",
        install_hint=(
            "run make harness-pi in the checkout, or npm install -g @earendil-works/pi-coding-agent@1.6.0 "
            "(Node.js 22.19 or newer), or name it with --harness-bin"
        ),
        tested_versions=TESTED_VERSIONS,
        protocols=tuple(_APIS),
        profiles=(),
        key_variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        session_headers=SESSION_HEADERS,
        by_hand=_BY_HAND,
        needs_model=True,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        for position, argument in enumerate(arguments):
            flag = argument.partition("=")[0]
            if argument.startswith("@") or (position == 0 and not argument.startswith("-")):
                raise _refusal(argument, "it would be a second prompt: give prompts with --prompt")
            if flag in _REFUSED:
                raise _refusal(flag, _REFUSED[flag])

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:
        return HarnessCommand((*_program(binary), "--version"), _environment(home, home))

    def version_in(self, output: str) -> str | None:
        match = _VERSION.fullmatch(output.strip())
        return match[0] if match else None

    def prepare(self, settings: LaunchSettings) -> None:
        if settings.model is None:
            raise no_model("pi")
        _check_hook_fits(settings.binary)
        folder = settings.home / _AGENT_DIR
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "settings.json").write_bytes(json_text.dumps_indented(dict(_SETTINGS)))
        (folder / "models.json").write_bytes(json_text.dumps_indented(_models(settings, settings.model)))

    def service(self, settings: LaunchSettings) -> HarnessService | None:  # noqa: ARG002
        return None

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        hook = shipped_path(*_HOOK)
        arguments = [*_program(settings.binary), "-p", "--mode", "json", *_BUNDLED, "-e", str(hook)]
        arguments += ["--provider", _PROVIDER, "--model", settings.model or ""]
        if session_id is not None:
            arguments += ["--session-id", session_id]
        environment = _environment(settings.home, settings.temporary)
        if settings.key is not None:
            environment[settings.key_variable] = settings.key
        # Pi takes an argument that begins with `@` for the name of a file, also behind `--`. What comes on its input it
        # puts before the prompt, without anything between them (measured).
        rest = prompt.lstrip("@")
        marks = prompt[: len(prompt) - len(rest)]
        arguments += [*settings.arguments, *(("--", rest) if rest else ())]
        return HarnessCommand(tuple(arguments), environment, marks or None)

    def session_ids(self, stdout: Path) -> list[str]:
        headers = (record.get("id") for record in _records(stdout) if record.get("type") == "session")
        return [
            value for value in dict.fromkeys(item for item in headers if isinstance(item, str)) if is_file_name(value)
        ]

    def has_answered(self, stdout: Path) -> bool:
        return any(_is_answer(record) for record in _records(stdout))

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        return any(record.get("type") == "agent_settled" for record in _records(stdout, start))

    def turn_failed(self, stdout: Path, start: int) -> bool:
        # The exit code is 0 then, too (measured). Failed answers that were asked for again stand before the last one.
        last = None
        for record in _records(stdout, start):
            if _is_assistants(record):
                last = as_mapping(record.get("message")).get("stopReason")
        return last in ("error", "aborted")

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        gaps = GapLog()
        if not home.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness's home is gone")
            return list(gaps.gaps())
        tree = NativeTree(home, gaps)
        for paths in find_logs(tree, filter(is_file_name, session_ids)).values():
            for path in paths:
                _copy(tree, path, target, gaps)
        return list(gaps.gaps())


LAUNCHER: Final = PiLauncher()


def _refusal(argument: str, reason: str) -> RollerError:
    return refusal("pi", argument, reason)


def _program(binary: Path) -> tuple[str, ...]:
    """How to start it: by the Node.js that is installed beside it, where there is one, since the system's is often too
    old."""
    for folder in binary.resolve().parents:
        node = folder / "node_modules" / ".bin" / "node"
        if folder.name != "node_modules" and node.is_file() and os.access(node, os.X_OK):
            return str(node), str(binary)
    return (str(binary),)


def _check_hook_fits(binary: Path) -> None:
    """Refuses a Pi whose package does not have the event that our hook needs (0.73.1 has not, and says nothing)."""
    for folder in binary.resolve().parents:
        if (folder / "package.json").is_file() and folder.name == "pi-coding-agent":
            try:
                fits = _HOOK_EVENT in (folder / _EVENT_TYPES).read_text(encoding="utf-8", errors="replace")
            except OSError:
                return  # another layout: calls without the hook's header are named
            if not fits:
                raise RollerError(
                    f"{binary}: this pi has no event {_HOOK_EVENT}, which the hook needs: install 1.6.0 or newer",
                    exit_code=2,
                )
            return


def _models(settings: LaunchSettings, model: str) -> dict[str, Any]:
    """One provider with one model. The key stands in the environment only."""
    thinks = any(argument.partition("=")[0] == "--thinking" for argument in settings.arguments)
    base = settings.base_url or ""
    provider: dict[str, Any] = {
        "baseUrl": base if settings.protocol is Protocol.ANTHROPIC_MESSAGES else f"{base}/v1",
        "api": _APIS[settings.protocol],
        "apiKey": f"${settings.key_variable}" if settings.key is not None else "none",
        # Without it Pi says only with openai-responses which session a request belongs to.
        "compat": {"sendSessionAffinityHeaders": True},
        "models": [{"id": model, "reasoning": thinks}],
    }
    return {"providers": {_PROVIDER: provider}}


def _environment(home: Path, temporary: Path) -> dict[str, str]:
    return {**_QUIET, "PI_CODING_AGENT_DIR": str(home / _AGENT_DIR), "TMPDIR": str(temporary)}


def _records(stdout: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    """The objects on the output; anything else on it says nothing."""
    try:
        with stdout.open("rb") as stream:
            stream.seek(start)
            for line in read_lines(stream, _LONGEST_STDOUT_LINE):
                yield line.record
    except OSError:
        return


def _is_assistants(record: Mapping[str, Any]) -> bool:
    """Whether an answer has ended here, well or not."""
    return record.get("type") == "message_end" and as_mapping(record.get("message")).get("role") == "assistant"


def _is_answer(record: Mapping[str, Any]) -> bool:
    reason = as_mapping(record.get("message")).get("stopReason")
    return _is_assistants(record) and reason in tuple(COMPLETED_REASONS)


def _copy(tree: NativeTree, path: PurePosixPath, target: Path, gaps: GapLog) -> None:
    inner = path.relative_to(_AGENT_DIR) if path.parts[: len(_AGENT_DIR.parts)] == _AGENT_DIR.parts else path
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
