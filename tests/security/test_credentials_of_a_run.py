"""Canaries in the environment of `collect`: where they may be seen, while it runs and afterwards."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers import HARNESSES, LaunchSettings, find_launcher
from roller_capture.launchers.environment import harness_environment
from roller_capture.scripted_provider import Reply
from tests.collect.rig import Rig
from tests.support.canaries import canary, leaks
from tests.support.collecting import alive, until

REAL = canary(0)
NAMES = [
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "GEMINI_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENROUTER_API_KEY",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "NPM_TOKEN",
    "HF_TOKEN",
    "SSH_AUTH_SOCK",
    "DATABASE_URL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "NODE_OPTIONS",
    "NODE_EXTRA_CA_CERTS",
    "LD_PRELOAD_NOTE",
    "PYTHONPATH_NOTE",
    "GIT_ASKPASS",
    "KUBECONFIG",
    "XDG_CONFIG_HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "HERMES_HOME",
    "OPENCODE_CONFIG",
    "PI_HOME",
    "OPENCLAW_STATE_DIR",
    "BASH_ENV",
    "ENV",
    "SECRET",
]
USER = {name: canary(number) for number, name in enumerate(NAMES, 1)}
SECRETS = [REAL, *USER.values()]


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    """An environment full of secrets, and a temporary folder that can be searched."""
    (tmp_path / "tmp").mkdir()
    return {**USER, "ANTHROPIC_API_KEY": REAL, "TMPDIR": str(tmp_path / "tmp")}


def processes() -> Iterator[Path]:
    """The /proc folders of all processes but this one."""
    yield from (entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and entry.name != str(os.getpid()))


def shown(name: str, places: Iterator[Path]) -> bytes:
    """What `/proc/*/NAME` of these processes says; those that have ended say nothing."""
    texts = []
    for place in places:
        try:
            texts.append((place / name).read_bytes())
        except OSError:
            continue
    return b"\0".join(texts)


def found(text: bytes) -> list[str]:
    """The secrets in a text."""
    return [secret for secret in SECRETS if secret.encode() in text]


def hang(rig: Rig, user: dict[str, str], prompt: str = "ECHO-KEY HANG hello") -> tuple[int, int]:
    """A run whose service repeats the key and whose harness writes that down: ids of `collect` and of the harness."""
    rig.replies["REFUSE-ME"] = Reply(status=401, error_body=f"bad key {REAL}", error_content_type="text/plain")
    process = rig.start(rig.request(prompt), user)
    until((rig.workdir / "hanging").exists, process)
    return process.pid, rig.harness_pid()


def test_nothing_shows_a_key_while_it_runs(rig: Rig, user: dict[str, str]) -> None:
    """No command line of any process, nothing in the harness's own environment, and afterwards no file."""
    collect, harness = hang(rig, user, "HANG hello")
    assert found(shown("cmdline", processes())) == []
    assert found(shown("environ", iter([Path(f"/proc/{harness}")]))) == []
    assert leaks(rig.directory, SECRETS) == []
    os.kill(collect, signal.SIGTERM)
    out, err = rig.processes[0].communicate()
    assert found((out + err).encode()) == []
    assert leaks(rig.directory, SECRETS) == []
    assert list((rig.directory / "tmp").iterdir()) == []


@pytest.mark.parametrize("victim", ["collect", "harness", "proxy"])
def test_no_key_is_left_when_something_is_killed(rig: Rig, user: dict[str, str], victim: str) -> None:
    """Although the harness has written the echo of one into its log and output."""
    collect, harness = hang(rig, user)
    mark = f"roller_attempt={rig.directory}".encode()
    (proxy,) = (int(place.name) for place in processes() if mark in shown("cmdline", iter([place])))
    os.kill({"collect": collect, "harness": harness, "proxy": proxy}[victim], signal.SIGKILL)
    out, err = rig.processes[0].communicate()
    until(lambda: not alive(harness) and not alive(proxy) and not list((rig.directory / "tmp").iterdir()))
    assert found((out + err).encode()) == []
    assert leaks(rig.directory, SECRETS) == []


@pytest.mark.parametrize("status", [200, 401, 500])
def test_an_echo_of_the_key_is_nowhere(rig: Rig, user: dict[str, str], status: int) -> None:
    """A harness that fails with it on its error output: in no copy, in no summary, in no book."""
    rig.replies["REFUSE-ME"] = Reply(status=status, error_body=f'{{"error": "bad key {REAL}"}}')
    result = rig.collect("ECHO-KEY FAIL hello", environment=user)
    assert result.exit_code == 0
    assert result.manifest["counts"]["calls"] == 2
    assert found((result.out + result.err).encode()) == []
    assert leaks(rig.directory, SECRETS) == []


@pytest.mark.parametrize(
    ("key", "changes"),
    [
        (f"two words {REAL}", {}),
        ("", {}),
        (REAL, {"api_key_env": "NO_SUCH"}),
        (REAL, {"api_base": f"https://someone:{REAL}@service.test/v1"}),
        (REAL, {"api_base": f"https://service.test/v1?key={REAL}"}),
    ],
)
def test_a_wrong_call_repeats_no_secret(rig: Rig, user: dict[str, str], key: str, changes: dict[str, str]) -> None:
    """Errors name the variable or the option, not what it holds."""
    changes = {"api_key_env": "ANTHROPIC_API_KEY", **changes}
    result = rig.collect("hello", environment={**user, "ANTHROPIC_API_KEY": key}, **changes)
    assert result.exit_code == 2
    assert found((result.out + result.err).encode()) == []
    assert leaks(rig.directory, SECRETS) == []


@pytest.mark.parametrize("harness", [name for name, row in HARNESSES.items() if row.launcher is not None])
def test_no_launcher_hands_on_a_secret_of_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harness: str
) -> None:
    """Neither in the environment nor in an argument of any harness, and nothing of it in what it lays down."""
    for name, value in USER.items():
        monkeypatch.setenv(name, value)
    folders = {name: tmp_path / name for name in ("home", "temporary", "workdir")}
    for folder in folders.values():
        folder.mkdir()
    binary = tmp_path / "program"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o700)
    launcher = find_launcher(harness)
    settings = LaunchSettings(
        binary=binary,
        **folders,
        base_url="http://127.0.0.1:9",
        key_variable=launcher.traits.key_variables[0],
        key="roller-dummy-0123456789",
        model="m",
        protocol=launcher.traits.protocols[0],
        profile=launcher.traits.profiles[0] if launcher.traits.profiles else None,
        drain_timeout=1.0,
        arguments=(),
    )
    with contextlib.suppress(RollerError):  # the program is none, which OpenClaw's launcher finds out at the end of it
        launcher.prepare(settings)
    commands = [launcher.turn(settings, "hello", None), launcher.version_command(binary, settings.home)]
    service = launcher.service(settings)
    for command in [*commands, *([] if service is None else [service.command])]:
        environment = harness_environment(command, settings.home)
        assert found(repr((environment, command.arguments, command.standard_input)).encode()) == []
        assert not any("roller-dummy" in word for word in command.arguments)
    assert leaks(tmp_path, SECRETS) == []
