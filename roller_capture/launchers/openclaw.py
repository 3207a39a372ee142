"""Starts OpenClaw's gateway in a home of its own, sends it turns, and takes its session records out of its databases.

Measured with 2026.9.6: only a gateway can run subagents (`agent --local` refuses every spawn); `openclaw agent` finds
it through the configuration file in HOME; the client returns when the root's turn ends, before any announcement.
"""

import os
import re
import secrets
import socket
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.adapters.openclaw import TESTED_VERSIONS
from roller_capture.adapters.openclaw.home import HOOK_LOG, STATE_DIR, copy_records
from roller_capture.adapters.openclaw.identity import SESSION_HEADER
from roller_capture.capture_protocol import Gap
from roller_capture.errors import RollerError
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.launchers.environment import harness_environment
from roller_capture.launchers.openclaw_gateway import Gateway
from roller_capture.launchers.openclaw_output import documents, documents_in
from roller_capture.launchers.refusal import no_model, refusal
from roller_capture.shipped import shipped_path
from roller_capture.vocabulary import Protocol

PROVIDER: Final = "roller"
"""The provider id that our plugin claims; it has to be the one of the configuration."""

PLUGIN: Final = "roller-headers"

_APIS: Final[Mapping[Protocol, str]] = {
    Protocol.OPENAI_CHAT_COMPLETIONS: "openai-completions",
    Protocol.OPENAI_RESPONSES: "openai-responses",
    Protocol.ANTHROPIC_MESSAGES: "anthropic-messages",
}
_PROFILES: Final = ("coding", "full")
_VERSION: Final = re.compile(r"^OpenClaw (\d+\.\d+\.\d+\S*)", re.MULTILINE)
_ALLOWED_ARGUMENTS: Final = ("--thinking", "--verbose")
_NO_OVERALL_LIMIT: Final = "0"  # the command would give up after 600 seconds; the time limit is collect's
_HOOK_SECONDS: Final = 120
_CONTEXT_WINDOW: Final = 200_000
_MOST_OUTPUT_TOKENS: Final = 32_000
_QUIET: Final[Mapping[str, str]] = {
    "DO_NOT_TRACK": "1",
    "OPENCLAW_NO_AUTO_UPDATE": "1",
    "OPENCLAW_SKIP_CHANNELS": "1",
    "OPENCLAW_SKIP_CRON": "1",
    "OPENCLAW_SKIP_GMAIL_WATCHER": "1",
    "OPENCLAW_SKIP_CANVAS_HOST": "1",
    "OPENCLAW_SKIP_BROWSER_CONTROL_SERVER": "1",
}


_BY_HAND: Final = ByHand(
    setup=(
        "put into ~/.openclaw/openclaw.json (with api: anthropic-messages, baseUrl has no /v1):",
        '  {{"models": {{"providers": {{"roller": {{"api": "openai-completions",',
        '      "baseUrl": "http://127.0.0.1:PORT/v1", "apiKey": "${{OPENAI_API_KEY}}",',
        '      "models": [{{"id": "MODEL", "name": "MODEL"}}] }} }} }},',
        '    "agents": {{"defaults": {{"model": {{"primary": "roller/MODEL"}} }} }},',
        '    "tools": {{"profile": "coding", "toolSearch": false}},',
        '    "gateway": {{"mode": "local"}},',
        '    "plugins": {{"load": {{"paths": ["{path}"]}},',
        '      "entries": {{"roller-headers": {{"enabled": true}} }} }} }}',
        "add roller-headers to the list plugins.allow where there is one; this must say that it is loaded:",
        "  openclaw plugins inspect roller-headers --runtime",
    ),
    work=(
        "stop a gateway that is running; then work as always, but without --local and --model; for example:",
        '  export OPENCLAW_GATEWAY_TOKEN="$(openssl rand -hex 16)"',
        "  ROLLER_HOOK_LOG=~/.openclaw/roller-hook.jsonl openclaw gateway run > gateway.log 2>&1 &",
        "  until grep -q 'gateway.*ready.\\{{0,5\\}}$' gateway.log || ! kill -0 $!; do sleep 1; done",
        "  openclaw agent --session-id \"recorded-$(date +%s)\" --message 'PROMPT'",
        "  # until every subtask has ended, and its result was delivered; only then stop the gateway",
        "  while openclaw tasks --json | grep -qE '\"(queued|running|pending|session_queued)\"'; do sleep 2; done",
        "  kill $!; wait",
    ),
    logs="~/.openclaw",
    hook=("openclaw",),
)


class OpenClawLauncher:
    """See `roller_capture.launchers.Launcher`."""

    traits: Final = LauncherTraits(
        executable="openclaw",
        installed_as="node_modules/.bin/openclaw",
        install_hint=(
            "run make harness-openclaw in the checkout, or npm install -g openclaw@2026.9.6 (Node 24.16 or newer), "
            "or name it with --harness-bin"
        ),
        tested_versions=TESTED_VERSIONS,
        protocols=tuple(_APIS),
        profiles=_PROFILES,
        key_variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        session_headers=(SESSION_HEADER,),
        by_hand=_BY_HAND,
        needs_model=True,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        expected_value = False
        for argument in arguments:
            name, _, value = argument.partition("=")
            if not expected_value and name not in _ALLOWED_ARGUMENTS:
                raise refusal("openclaw", name, f"only {' and '.join(_ALLOWED_ARGUMENTS)} can")
            expected_value = not expected_value and not value
        if expected_value:
            raise RollerError(f"{arguments[-1]}: has no value", exit_code=2)

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:
        return HarnessCommand((*_program(binary), "--version"), {"OPENCLAW_STATE_DIR": str(home / STATE_DIR)})

    def version_in(self, output: str) -> str | None:
        match = _VERSION.search(output)
        return match[1] if match else None

    def prepare(self, settings: LaunchSettings) -> None:
        if settings.model is None:
            raise no_model("openclaw")
        state = settings.home / STATE_DIR
        state.mkdir(mode=0o700, exist_ok=True)
        configuration = _configuration(settings, settings.model)
        path = state / "openclaw.json"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
            stream.write(json_text.dumps_indented(configuration) + b"\n")
        self._check_hook(settings)

    def _check_hook(self, settings: LaunchSettings) -> None:
        """Has the harness itself load our plugin. Raises `RollerError` where it does not fit this version: no call of
        the run could be attributed."""
        arguments = (*_program(settings.binary), "plugins", "inspect", PLUGIN, "--runtime", "--json")
        command = HarnessCommand(arguments, _environment(settings))
        try:
            process = subprocess.run(
                command.arguments,
                cwd=settings.workdir,
                env=harness_environment(command, settings.home),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_HOOK_SECONDS,
                check=False,
            )
        except OSError as error:
            raise RollerError(f"{settings.binary}: cannot be run ({error.strerror})", exit_code=2) from None
        except subprocess.TimeoutExpired:
            raise RollerError(f"{settings.binary}: did not load our plugin within {_HOOK_SECONDS} s") from None
        plugins = [_inner(document, "plugin") for document in documents_in(process.stdout)]
        if not any(item.get("status") == "loaded" and PROVIDER in _list(item.get("providerIds")) for item in plugins):
            said = next((str(item.get("error") or item.get("status"))[:200] for item in plugins), "nothing of it")
            raise RollerError(f"{settings.binary}: our plugin {PLUGIN} does not fit this version (it says: {said})")

    def service(self, settings: LaunchSettings) -> HarnessService | None:
        command = HarnessCommand((*_program(settings.binary), "gateway", "run"), _environment(settings))
        return Gateway(command, settings.home)

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        # The id is chosen here, since without one the turn would go to the agent's everlasting main session.
        session = session_id or str(uuid.uuid4())
        arguments = [*_program(settings.binary), "agent", "--json", "--session-id", session]
        arguments += ["--timeout", _NO_OVERALL_LIMIT, *settings.arguments, f"--message={prompt}"]
        return HarnessCommand(tuple(arguments), _environment(settings))

    def session_ids(self, stdout: Path) -> list[str]:
        found: dict[str, None] = {}
        for document in documents(stdout):
            session = _inner(document, "result", "meta", "agentMeta").get("sessionId")
            if isinstance(session, str) and session:
                found.setdefault(session)
        return list(found)

    def has_answered(self, stdout: Path) -> bool:
        return any(_inner(document, "result", "meta", "agentMeta").get("usage") for document in documents(stdout))

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        return any(True for _ in documents(stdout, start))

    def turn_failed(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return False  # its exit code is 1 then (measured)

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        return copy_records(home, target, session_ids)


LAUNCHER: Final = OpenClawLauncher()


def _program(binary: Path) -> tuple[str, ...]:
    """The program behind the Node that was installed beside it, since the system's may be too old for it."""
    node = binary.parent / "node"
    return (str(node), str(binary)) if node.is_file() and os.access(node, os.X_OK) else (str(binary),)


def _environment(settings: LaunchSettings) -> dict[str, str]:
    environment = {
        **_QUIET,
        "OPENCLAW_STATE_DIR": str(settings.home / STATE_DIR),
        "TMPDIR": str(settings.temporary),
        "ROLLER_HOOK_LOG": str(settings.home / STATE_DIR / HOOK_LOG),
    }
    if settings.key is not None:
        environment[settings.key_variable] = settings.key
    return environment


def _configuration(settings: LaunchSettings, model: str) -> dict[str, Any]:
    """Nothing but the given model service is talked to, and nothing is written outside of the home."""
    return {
        "models": {
            "mode": "replace",
            "catalogRefresh": {"enabled": False},
            "providers": {PROVIDER: _provider(settings, model)},
        },
        "agents": {
            "defaults": {
                # Not `--model` of the command: announcement runs would not take it over (measured).
                "model": {"primary": f"{PROVIDER}/{model}"},
                "workspace": str(settings.workdir),
                "skipBootstrap": True,
                "heartbeat": {"every": "0m"},
                "subagents": {"archiveAfterMinutes": 0},
            }
        },
        "memory": {"search": {"enabled": False}},
        # The compact tool surface would hide `sessions_spawn` behind another tool's name (measured).
        "tools": {"profile": settings.profile or _PROFILES[0], "toolSearch": False},
        "gateway": {
            "mode": "local",
            "port": _free_port(),
            "bind": "loopback",
            "auth": {"mode": "token", "token": secrets.token_hex(16)},
        },
        "logging": {"file": str(settings.home / STATE_DIR / "openclaw.log")},  # default: outside of the home
        "update": {"checkOnStart": False},
        "telemetry": {"enabled": False},
        "plugins": {
            "allow": [PLUGIN],
            "load": {"paths": [str(shipped_path("hooks", "openclaw"))]},
            "entries": {PLUGIN: {"enabled": True}},
        },
    }


def _provider(settings: LaunchSettings, model: str) -> dict[str, Any]:
    version = "" if settings.protocol is Protocol.ANTHROPIC_MESSAGES else "/v1"
    base = settings.base_url or "http://127.0.0.1:9"
    return {
        "baseUrl": f"{base}{version}",
        "apiKey": f"${{{settings.key_variable}}}" if settings.key is not None else "none",  # never the key itself
        "api": _APIS[settings.protocol],
        "models": [
            {
                "id": model,
                "name": model,
                "reasoning": False,
                "input": ["text"],
                "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0),
                "contextWindow": _CONTEXT_WINDOW,
                "maxTokens": _MOST_OUTPUT_TOKENS,
            }
        ],
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _inner(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        value = document.get(name)
        document = value if isinstance(value, dict) else {}
    return document
