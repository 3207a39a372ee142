"""Where our hooks are, and how a harness that is started by hand is recorded (`roller-capture hooks NAME`).

`collect` does all of it itself. Whoever has a runner of their own, and a hand-started `mitmdump`, needs the path of the
hook, the environment and the commands.
"""

import shutil
from pathlib import Path
from typing import Final

from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.shipped import shipped_path

HOOKS: Final[dict[str, tuple[str, ...]]] = {
    "opencode": ("opencode", "roller-headers.js"),
    "hermes": ("hermes", "roller_capture"),
    "openclaw": ("openclaw",),
    "pi": ("pi", "roller-capture.js"),
}
"""The file or folder of each hook below `hooks/`. The other harnesses need none: their own headers and logs prove who
made a call."""


def _recorder(harness: str) -> tuple[str, ...]:
    """How calls are recorded. mitmproxy's certificates, which this mode has no use for, stay out of the user's home."""
    return (
        "record into a new folder ATTEMPT, as long as you like (ORIGIN: the model service, such as https://HOST):",
        f'  mitmdump -q -s "$(roller-capture addon-path)" --set roller_harness={harness} \\',
        '    --set roller_attempt=ATTEMPT --set confdir="$(mktemp -d)" --mode reverse:ORIGIN@127.0.0.1:PORT',
    )


def _publisher(home: str) -> tuple[str, ...]:
    """What comes after the work."""
    return (
        "then stop mitmdump (Ctrl-C), and publish what was recorded:",
        f"  roller-capture finalize ATTEMPT --native {home}",
    )


_STEPS: Final[dict[str, tuple[str, ...]]] = {
    "opencode": (
        "put into ~/.config/opencode/opencode.json (@ai-sdk/anthropic for Messages, @ai-sdk/openai for Responses):",
        '  {{"plugin": ["file://{path}"], "model": "recorded/MODEL", "small_model": "recorded/MODEL",',
        '    "provider": {{"recorded": {{"npm": "@ai-sdk/openai-compatible", "models": {{"MODEL": {{}}}},',
        '      "options": {{"baseURL": "http://127.0.0.1:PORT/v1", "apiKey": "{{env:OPENAI_API_KEY}}"}}}}}}}}',
        *_recorder("opencode"),
        "work as always, but never with --pure, which turns the hook off; for example:",
        "  opencode run 'PROMPT'",
        *_publisher("~/.local/share/opencode"),
    ),
    "hermes": (
        "install it:",
        "  mkdir -p ~/.hermes/plugins && roller-capture hooks hermes --install ~/.hermes/plugins",
        "put into ~/.hermes/config.yaml (with api_mode: anthropic_messages, base_url has no /v1):",
        "  plugins: {{enabled: [roller_capture]}}",
        "  model: {{provider: recorded, default: MODEL}}",
        "  providers:",
        "    recorded:",
        "      {{base_url: 'http://127.0.0.1:PORT/v1', key_env: OPENAI_API_KEY, api_mode: chat_completions}}",
        "set no other provider there (fallback_providers, delegation.base_url): its calls would not be recorded",
        *_recorder("hermes"),
        "work as always, for example:",
        "  hermes -z 'PROMPT'",
        *_publisher("~/.hermes"),
    ),
    "openclaw": (
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
        *_recorder("openclaw"),
        "stop a gateway that is running; then work as always, but without --local and --model; for example:",
        '  export OPENCLAW_GATEWAY_TOKEN="$(openssl rand -hex 16)"',
        "  ROLLER_HOOK_LOG=~/.openclaw/roller-hook.jsonl openclaw gateway run > gateway.log 2>&1 &",
        "  until grep -q 'gateway.*ready.\\{{0,5\\}}$' gateway.log || ! kill -0 $!; do sleep 1; done",
        "  openclaw agent --session-id \"recorded-$(date +%s)\" --message 'PROMPT'",
        "  # until every subtask has ended, and its result was delivered; only then stop the gateway",
        "  while openclaw tasks --json | grep -qE '\"(queued|running|pending|session_queued)\"'; do sleep 2; done",
        "  kill $!; wait",
        *_publisher("~/.openclaw"),
    ),
    "pi": (
        "put into ~/.pi/agent/models.json (with api: anthropic-messages, baseUrl has no /v1):",
        '  {{"providers": {{"recorded": {{"baseUrl": "http://127.0.0.1:PORT/v1", "api": "openai-completions",',
        '    "apiKey": "$OPENAI_API_KEY", "models": [{{"id": "MODEL"}}]}}}}}}',
        *_recorder("pi"),
        "start each session with the hook, for example:",
        "  pi -e '{path}' --provider recorded --model MODEL -p 'PROMPT'",
        *_publisher("~/.pi"),
    ),
    "claude-code": (
        *_recorder("claude-code"),
        "work as always, with the proxy as base URL (and ANTHROPIC_API_KEY, where you are not logged in); for example:",
        "  ANTHROPIC_BASE_URL=http://127.0.0.1:PORT claude -p 'PROMPT'",
        *_publisher("~/.claude"),
    ),
    "codex": (
        "put into ~/.codex/config.toml:",
        '  model = "MODEL"',
        '  model_provider = "recorded"',
        "  [model_providers.recorded]",
        '  name = "recorded"',
        '  base_url = "http://127.0.0.1:PORT/v1"',
        '  wire_api = "responses"',
        '  env_key = "OPENAI_API_KEY"',
        *_recorder("codex"),
        "work as always, for example:",
        "  codex exec --skip-git-repo-check 'PROMPT'",
        *_publisher("~/.codex"),
    ),
    "deepseek": (
        *_recorder("deepseek"),
        "work as always, with a home that dsh wants to be told, and the proxy as base URL (without /v1); for example:",
        "  DSH_HOME=~/.dsh DEEPSEEK_BASE_URL=http://127.0.0.1:PORT dsh --profile headless -- 'PROMPT'",
        "add DSH_PERMISSION_MODE=danger-full-access where nobody is there to approve what it runs",
        *_publisher("~/.dsh"),
    ),
    "generic": (
        *_recorder("generic"),
        "let the agent send x-roller-session with every call, and call the proxy (ANTHROPIC_BASE_URL has no /v1):",
        "  mkdir -p agent-log",
        "  export OPENAI_BASE_URL=http://127.0.0.1:PORT/v1 ANTHROPIC_BASE_URL=http://127.0.0.1:PORT",
        "  ROLLER_MODEL=MODEL ROLLER_EVENTS=\"$PWD/agent-log/roller-events.jsonl\" ./my_agent.py 'PROMPT'",
        "without such a log, leave --native out in what follows",
        *_publisher("agent-log"),
    ),
}
"""By harness, a line each. `{path}` stands for where the hook is, words in capitals for what only the user knows; what
is to be typed is indented."""


def hook_path(harness: str) -> Path | None:
    """The shipped file or folder; `None` where the harness needs no hook. Raises `RollerError` for an unknown name."""
    if harness not in HARNESSES:
        raise RollerError(f"{harness!r} is no known harness: use one of {', '.join(HARNESSES)}", exit_code=2)
    return shipped_path("hooks", *HOOKS[harness]) if harness in HOOKS else None


def install_hook(harness: str, folder: Path) -> Path:
    """Copies the hook into a folder that is there, over an older copy; its new path.

    Raises `RollerError` (exit 2) when the harness needs none, or the folder cannot be written to.
    """
    source = hook_path(harness)
    if source is None:
        raise RollerError(f"{harness} needs no hook: there is nothing to install", exit_code=2)
    if not folder.is_dir():
        raise RollerError(f"{folder}: is no folder: make it, or name another one", exit_code=2)
    target = folder.absolute() / source.name
    try:
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
        else:
            shutil.copyfile(source, target)
    except OSError as error:
        raise RollerError(f"{target}: cannot be written ({error.strerror}): name another folder", exit_code=2) from None
    return target


def steps(harness: str, path: Path | None) -> list[str]:
    """What to type, and the words between; `path` is the hook's, where the harness has one."""
    return [step.format(path=path) for step in _STEPS[harness]]
