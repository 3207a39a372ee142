"""The demo: everything but the harness and the model is real.

A scripted provider, the recording proxy, a small client with one subagent, then the commands that a user would give:
`finalize` and `validate`. Progress goes to stderr, the result to stdout.
"""

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from roller_capture.demo_client import run_client
from roller_capture.errors import RollerError
from roller_capture.proxy_process import ProxyProcess
from roller_capture.scripted_provider import AgentScript, Reply, Script, ScriptedProvider, ToolUse
from roller_capture.terminal import say
from roller_capture.view.command import view

_PROMPT = "ROOT: have a subagent greet you, then report."
_CHILD_PROMPT = "CHILD: greet."


def run_demo(directory: Path, *, keep_raw: bool = True) -> int:
    """Records one attempt into `directory`/attempt-NNNN, publishes and validates it, and prints its calls.

    Returns the exit code: that of the first command that failed, else 0. Raises `RollerError` when the proxy does not
    start or `directory` cannot be used.
    """
    attempt = _next_attempt(directory)
    with tempfile.TemporaryDirectory(prefix="roller-demo-") as home:
        with ScriptedProvider(scripted_agents()) as provider:
            say(f"scripted provider on {provider.url}")
            _record(attempt, provider.url, Path(home))
        retention = "full" if keep_raw else "on-error"
        command = ["finalize", str(attempt), "--harness", "claude-code", "--native", home]
        command += ["--execution-status", "completed"]
        code = _roller_capture(*command, "--capture-debug", retention) or _roller_capture("validate", str(attempt))
    return code or view(attempt)


def _next_attempt(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        taken = {path.name for path in directory.iterdir()}
    except OSError as error:
        raise RollerError(
            f"{directory}: cannot be used ({error.strerror}): name another directory", exit_code=2
        ) from None
    number = next(number for number in range(1, len(taken) + 2) if f"attempt-{number:04}" not in taken)
    return directory / f"attempt-{number:04}"


def scripted_agents() -> Script:
    delegation = ToolUse("Agent", {"description": "greet", "prompt": _CHILD_PROMPT, "subagent_type": "general-purpose"})
    greeting = ToolUse("Bash", {"command": "echo hello", "description": "Say hello"})
    return Script(
        [
            AgentScript(
                ["root"], "ROOT", [Reply(text="I delegate.", tools=(delegation,)), Reply(text="It said hello.")]
            ),
            AgentScript(["child"], "CHILD", [Reply(text="I greet.", tools=(greeting,)), Reply(text="Hello!")]),
        ]
    )


def _record(attempt: Path, upstream: str, home: Path) -> None:
    proxy = ProxyProcess(attempt, "claude-code", upstream)
    say(f"$ {shlex.join(proxy.command)}")
    with proxy:
        say(f"recording proxy on {proxy.url}; running an agent with one subagent")
        run_client(proxy.url, home, _PROMPT)
    say("stopped the proxy")


def _roller_capture(*arguments: str) -> int:
    say(f"$ roller-capture {shlex.join(arguments)}")
    return subprocess.run(
        [sys.executable, "-m", "roller_capture", *arguments], stdout=sys.stderr, check=False
    ).returncode
