"""Starts OpenCode headless (`opencode run`), in a configuration of its own, and takes its sessions out.

Measured with 1.18.33. The configuration stands in `OPENCODE_CONFIG_CONTENT`, which comes after a project's own, so that
no project leads around the proxy. A stub in the configuration folder keeps OpenCode from installing its plugin package
from the network at every start. `run` puts arguments with a blank into quotes, and fails on one that is a number; so a
prompt comes on its input, which it takes as it is. It ends when the root is idle, and with it every child in the
background: so the profile `background`, which switches such children on, keeps them in a server (`opencode serve`) to
which the turns are attached.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id, as_mapping
from roller_capture.adapters.opencode.adapter import TESTED_VERSIONS
from roller_capture.adapters.opencode.identity import SESSION_HEADERS
from roller_capture.adapters.opencode.store import extract_to
from roller_capture.capture_protocol import Gap
from roller_capture.errors import RollerError
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.launchers.binaries import find_binary
from roller_capture.launchers.opencode_hook import check_hook
from roller_capture.launchers.opencode_project import PLUGIN_PACKAGE, folders_to_install_in
from roller_capture.launchers.opencode_service import OpenCodeService, attached_url, server_environment
from roller_capture.launchers.refusal import no_model, refusal
from roller_capture.shipped import shipped_path
from roller_capture.terminal import say
from roller_capture.vocabulary import AttemptErrorCode, Protocol

BACKGROUND: Final = "background"
NESTED: Final = "nested"

_PROVIDER: Final = "roller"
_HOOK: Final = "roller-headers.js"
_HOOK_MAJOR: Final = "1"
"""The plugin interface that the hook is written for. 2.x has another one."""

_PACKAGES: Final[Mapping[Protocol, str]] = {
    Protocol.OPENAI_CHAT_COMPLETIONS: "@ai-sdk/openai-compatible",
    Protocol.ANTHROPIC_MESSAGES: "@ai-sdk/anthropic",
    Protocol.OPENAI_RESPONSES: "@ai-sdk/openai",
}
"""The client of each protocol; all three are part of the program."""

_CONTEXT_TOKENS: Final = 200_000
_OUTPUT_TOKENS: Final = 32_000
_NPM_SETTINGS: Final = "fetch-retry-mintimeout=500\nfetch-retry-maxtimeout=2000\n"
"""Milliseconds between attempts at the registry. Without a network the start would wait for 70 seconds, npm's own."""

_TASK_PATTERN: Final = "tas?"
_OWN_AGENTS: Final = ("build", "plan", "general", "explore")
"""The program's own agents that have tools."""

_VERSION: Final = re.compile(r"v?(\d+\.\d+\.\d+\S*)\s*")
_LONGEST_STDOUT_LINE: Final = 16 * 1024 * 1024

_QUIET: Final = (
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_SHARE",
    "OPENCODE_DISABLE_CLAUDE_CODE",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS",
)
_BACKGROUND_SWITCH: Final = "OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS"

_OURS: Final = "collect gives it itself"
_SESSION: Final = "collect starts one new session, and resumes it for the further turns"
_SERVER: Final = "collect starts the server itself, with --profile background"
_REFUSED: Final[Mapping[str, str]] = {
    "--pure": "it turns plugins off, and with them the hook that names each call's session",
    **dict.fromkeys(("--format", "--dir"), _OURS),
    **dict.fromkeys(("-c", "--continue", "-s", "--session", "--fork"), _SESSION),
    **dict.fromkeys(("--attach", "--port", "-p", "--password", "-u", "--username"), _SERVER),
    **dict.fromkeys(("-m", "--model"), "use collect's own --model, which stands in the run's configuration"),
    **dict.fromkeys(("-i", "--interactive"), "nobody is there to answer"),
    "--share": "the session would be put on the network",
    **dict.fromkeys(("-v", "--version", "-h", "--help"), "nothing would be run"),
    "--": "what follows it would be a second prompt",
}
"""Arguments of the user that are refused, and why."""


_BY_HAND: Final = ByHand(
    setup=(
        "put into ~/.config/opencode/opencode.json (@ai-sdk/anthropic for Messages, @ai-sdk/openai for Responses):",
        '  {{"plugin": ["file://{path}"], "model": "recorded/MODEL", "small_model": "recorded/MODEL",',
        '    "provider": {{"recorded": {{"npm": "@ai-sdk/openai-compatible", "models": {{"MODEL": {{}}}},',
        '      "options": {{"baseURL": "http://127.0.0.1:PORT/v1", "apiKey": "{{env:OPENAI_API_KEY}}"}}}}}}}}',
    ),
    work=(
        "work as always, but never with --pure, which turns the hook off; for example:",
        "  opencode run 'PROMPT'",
    ),
    logs="~/.local/share/opencode",
    hook=("opencode", _HOOK),
)


class OpenCodeLauncher:
    """See `roller_capture.launchers.Launcher`.

    Profiles: `nested` lets a child delegate once more, as a user's own configuration would; `background` switches the
    harness's experimental children in the background on, and waits for them.
    """

    traits: Final = LauncherTraits(
        executable="opencode",
        installed_as="node_modules/opencode-*/bin/opencode",
        install_hint=(
            "run make harness-opencode in the checkout, or npm install -g opencode-ai@1.18.33, "
            "or name it with --harness-bin"
        ),
        tested_versions=TESTED_VERSIONS,
        protocols=(Protocol.OPENAI_CHAT_COMPLETIONS, Protocol.ANTHROPIC_MESSAGES, Protocol.OPENAI_RESPONSES),
        profiles=(NESTED, BACKGROUND),
        key_variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        session_headers=SESSION_HEADERS,
        by_hand=_BY_HAND,
        needs_model=True,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        if arguments and not arguments[0].startswith("-"):
            raise _refusal(arguments[0], "it would be part of the prompt: give prompts with --prompt")
        for argument in arguments:
            flag = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
            if flag.removeprefix("--no-") in ("pure", "share", "format"):
                flag = f"--{flag.removeprefix('--no-')}"
            if flag in _REFUSED:
                raise _refusal(flag, _REFUSED[flag])

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:
        return HarnessCommand((str(binary), "--version"), _common_environment(home, home))

    def version_in(self, output: str) -> str | None:
        match = _VERSION.fullmatch(output)
        return match[1] if match else None

    def prepare(self, settings: LaunchSettings) -> None:
        version = find_binary("opencode", self, settings.binary).version
        if version.partition(".")[0] != _HOOK_MAJOR:
            raise RollerError(
                f"{settings.binary}: OpenCode {version} does not load the hook, which is for {_HOOK_MAJOR}.x: "
                "run it yourself behind mitmdump -s addons/capture.py, then roller-capture finalize",
                exit_code=2,
            )
        if settings.model is None:
            raise no_model("opencode")
        if settings.base_url is None:
            raise RollerError("opencode has no model service of its own here: name one with --api-base", exit_code=2)
        if settings.captured:
            check_hook(settings.binary, settings.home, _common_environment(settings.home, settings.home))
        config = settings.home / ".config" / "opencode"
        (config / "node_modules").mkdir(mode=0o700, parents=True, exist_ok=True)
        package = {"dependencies": {PLUGIN_PACKAGE: "*"}}
        _write_json(config / "package.json", package)
        _write_json(config / "package-lock.json", {"lockfileVersion": 3, "packages": {"": package}})
        shutil.copyfile(shipped_path("hooks", "opencode", _HOOK), settings.home / _HOOK)
        (settings.home / ".npmrc").write_text(_NPM_SETTINGS, encoding="ascii")
        for folder in folders_to_install_in(settings.workdir):
            say(f"OpenCode first installs its plugin package into {folder}, from the network, as it always does there")

    def service(self, settings: LaunchSettings) -> HarnessService | None:
        if settings.profile != BACKGROUND:
            return None
        return OpenCodeService(settings.binary, settings.home, _turn_environment(settings))

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        arguments = [str(settings.binary), "run", "--format", "json", "--model", f"{_PROVIDER}/{settings.model}"]
        if settings.profile == BACKGROUND:
            arguments += ["--attach", attached_url(settings.home), "--dir", str(settings.workdir)]
        if session_id is not None:
            arguments += ["--session", session_id]
        return HarnessCommand((*arguments, *settings.arguments), _turn_environment(settings), prompt)

    def session_ids(self, stdout: Path) -> list[str]:
        found = {as_id(record.get("sessionID")): None for record in _records(stdout)}
        return [session_id for session_id in found if session_id is not None]

    def has_answered(self, stdout: Path) -> bool:
        return any(record.get("type") in ("text", "tool_use", "step_finish") for record in _records(stdout))

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        return any(
            record.get("type") == "step_finish" and as_mapping(record.get("part")).get("reason") != "tool-calls"
            for record in _records(stdout, start)
        )

    def turn_failed(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return False  # its exit code is 1 then (measured)

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        gaps = GapLog()
        if not home.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness's home is gone")
            return list(gaps.gaps())
        with tempfile.TemporaryDirectory(prefix="roller-opencode-") as scratch:
            try:
                read = extract_to(NativeTree(home, gaps), session_ids, target, Path(scratch), gaps)
            except OSError as error:
                gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"the sessions cannot be taken out: {error.strerror}")
                return list(gaps.gaps())
        if not read:
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness left no database that can be read")
        return list(gaps.gaps())


LAUNCHER: Final = OpenCodeLauncher()


def _refusal(argument: str, reason: str) -> RollerError:
    return refusal("opencode", argument, reason)


def _common_environment(home: Path, temporary: Path) -> dict[str, str]:
    return {
        **dict.fromkeys(_QUIET, "1"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "TMPDIR": str(temporary),
    }


def _turn_environment(settings: LaunchSettings) -> dict[str, str]:
    environment = _common_environment(settings.home, settings.temporary)
    environment["OPENCODE_CONFIG_CONTENT"] = json.dumps(_configuration(settings))
    if settings.key is not None:
        environment[settings.key_variable] = settings.key
    if settings.profile == BACKGROUND:
        environment |= {_BACKGROUND_SWITCH: "true", **server_environment(settings.home)}
    return environment


def _configuration(settings: LaunchSettings) -> dict[str, Any]:
    """The harness's configuration. Delegation is permitted only where the calls are captured (protocol, "Enabling")."""
    key = "unused" if settings.key is None else f"{{env:{settings.key_variable}}}"
    model = f"{_PROVIDER}/{settings.model}"
    limits = {"context": _CONTEXT_TOKENS, "output": _OUTPUT_TOKENS}
    configuration: dict[str, Any] = {
        "provider": {
            _PROVIDER: {
                "npm": _PACKAGES[settings.protocol],
                "name": "roller-capture",
                "options": {"baseURL": f"{settings.base_url}/v1", "apiKey": key},
                "models": {str(settings.model): {"name": str(settings.model), "tool_call": True, "limit": limits}},
            }
        },
        "model": model,
        "small_model": model,
        "enabled_providers": [_PROVIDER],
        "autoupdate": False,
        "share": "disabled",
    }
    if not settings.captured:
        return configuration | _without_delegation()
    # A rule that names `task` would also offer it to children, which have none of their own.
    configuration["permission"] = {"*": "allow"}
    configuration["plugin"] = [(settings.home / _HOOK).as_uri()]
    if settings.profile == NESTED:
        configuration["subagent_depth"] = 2
        configuration["agent"] = {"general": {"permission": {"task": "allow"}}}
    return configuration


def _without_delegation() -> dict[str, Any]:
    """The tool is neither offered nor does it launch anything, whatever a project's configuration permits.

    Measured with 1.18.33: of the rules that fit, the last one wins, and one that a project has too keeps the project's
    place: so the last is a pattern that no project has. An agent's own rules come after all of these; those of an agent
    that only the project knows cannot be named here, and may offer the tool. A depth of 0 refuses its calls, and a
    subtask command, which asks for no permission; it is one number, and the last configuration has it.
    """
    refused = {"task": "deny", _TASK_PATTERN: "deny"}
    return {
        "permission": {"*": "allow", **refused},
        "agent": {name: {"permission": refused} for name in _OWN_AGENTS},
        "subagent_depth": 0,
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def _records(stdout: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    """The objects on the output; anything else on it says nothing."""
    try:
        with stdout.open("rb") as stream:
            stream.seek(start)
            for line in read_lines(stream, _LONGEST_STDOUT_LINE):
                yield line.record
    except OSError:
        return
