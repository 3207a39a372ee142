"""Starts Hermes Agent for one finite query after the other, with our plugin in a home of its own.

Measured with 0.19.0: `hermes -z` waits for its children, since it tells Hermes that no later turn could receive a
result; it cannot resume. `hermes chat -Q --resume ID -q` resumes and does not wait, so our plugin says the same there.
The protocol that is spoken is a matter of the configured provider. Hermes takes settings from `config.yaml` alone.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.hermes.adapter import TESTED_VERSIONS
from roller_capture.adapters.hermes.identity import SESSION_HEADER
from roller_capture.adapters.hermes.store import HOME, extract_home
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id
from roller_capture.capture_protocol import Gap
from roller_capture.errors import RollerError
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.launchers.hermes_configuration import API_MODES, PLUGIN, configuration_of, split_arguments
from roller_capture.launchers.refusal import no_model
from roller_capture.shipped import shipped_path
from roller_capture.vocabulary import AttemptErrorCode

_TURN: Final = Path(__file__).with_name("hermes_turn.py")
_REPORT: Final = "usage.json"
_NOWHERE: Final = "http://127.0.0.1:9"
"""Where nothing answers: asking for the version also looks for updates."""

_UPDATE_CHECK: Final = ".update_check"
"""Where Hermes keeps for six hours what it has found: with it there, further turns look for no update."""

_VERSION: Final = re.compile(r"^Hermes Agent v(\S+)", re.MULTILINE)
_SHEBANG: Final = re.compile(rb"#!\s*(/\S+)")
_CHECK_SECONDS: Final = 60
_LONGEST_STDOUT_LINE: Final = 64 * 1024 * 1024


_BY_HAND: Final = ByHand(
    setup=(
        "install it:",
        "  mkdir -p ~/.hermes/plugins && roller-capture hooks hermes --install ~/.hermes/plugins",
        "put into ~/.hermes/config.yaml (with api_mode: anthropic_messages, base_url has no /v1):",
        "  plugins: {{enabled: [roller_capture]}}",
        "  model: {{provider: recorded, default: MODEL}}",
        "  providers:",
        "    recorded:",
        "      {{base_url: 'http://127.0.0.1:PORT/v1', key_env: OPENAI_API_KEY, api_mode: chat_completions}}",
        "set no other provider there (fallback_providers, delegation.base_url): its calls would not be recorded",
    ),
    work=(
        "work as always, for example:",
        "  hermes -z 'PROMPT'",
    ),
    logs="~/.hermes",
    hook=("hermes", "roller_capture"),
)


class HermesLauncher:
    """See `roller_capture.launchers.Launcher`."""

    traits: Final = LauncherTraits(
        executable="hermes",
        installed_as="venv/bin/hermes",
        install_hint=(
            "run make harness-hermes in the checkout, or pip install 'hermes-agent[anthropic]==0.19.0' (Python 3.11 to "
            "3.13), or name it with --harness-bin"
        ),
        tested_versions=TESTED_VERSIONS,
        protocols=tuple(API_MODES),
        profiles=(),
        key_variables=("OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        session_headers=(SESSION_HEADER,),
        by_hand=_BY_HAND,
        needs_model=True,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        split_arguments(arguments)

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:
        quiet = {"HERMES_HOME": str(home / HOME), "HTTPS_PROXY": _NOWHERE}
        return HarnessCommand((str(binary), "--version"), quiet)

    def version_in(self, output: str) -> str | None:
        match = _VERSION.search(output)
        return match[1] if match else None

    def prepare(self, settings: LaunchSettings) -> None:
        if settings.model is None:
            raise no_model("hermes")
        if settings.base_url is None:
            raise RollerError("hermes has no model service of its own here: name one with --api-base", exit_code=2)
        hooks = shipped_path("hooks", "hermes")
        version = _check_plugin(settings, hooks / "fits.py")
        home = settings.home / HOME
        home.mkdir(mode=0o700, exist_ok=True)
        if version is not None:
            _write(home / _UPDATE_CHECK, {"ts": time.time(), "behind": 0, "rev": None, "ver": version})
        shutil.copytree(hooks / PLUGIN, home / "plugins" / PLUGIN, ignore=shutil.ignore_patterns("__pycache__"))
        _write(home / "config.yaml", configuration_of(settings))

    def service(self, settings: LaunchSettings) -> HarnessService | None:  # noqa: ARG002
        return None

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        given, _ = split_arguments(settings.arguments)
        report = settings.home / _REPORT
        # Both options hold their value behind `=`, since a prompt may begin with a dash.
        if session_id is None:
            command = [str(settings.binary), *given, "--usage-file", str(report), f"--oneshot={prompt}"]
        else:
            quiet = ["chat", "-Q", "--yolo", "--accept-hooks", "--resume", session_id, "--no-restore-cwd"]
            command = [str(settings.binary), *quiet, *given, f"--query={prompt}"]
        return HarnessCommand((sys.executable, "-I", str(_TURN), str(report), *command), _environment(settings))

    def session_ids(self, stdout: Path) -> list[str]:
        found = (as_id(record.get("session_id")) for record in _turn_ends(stdout))
        return list(dict.fromkeys(session_id for session_id in found if session_id is not None))

    def has_answered(self, stdout: Path) -> bool:
        return any(record.get("answered") is True for record in _turn_ends(stdout))

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        return any(True for _ in _turn_ends(stdout, start))

    def turn_failed(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return False  # the script around a turn makes an exit code of it

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        gaps = GapLog()
        if not home.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness's home is gone")
            return list(gaps.gaps())
        with tempfile.TemporaryDirectory(prefix="roller-hermes-") as scratch:
            extract_home(NativeTree(home, gaps), session_ids, Path(scratch), target, gaps)
        return list(gaps.gaps())


LAUNCHER: Final = HermesLauncher()


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """JSON is YAML too."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        json.dump(document, stream, indent=1)


def _environment(settings: LaunchSettings) -> dict[str, str]:
    environment = {
        "HERMES_HOME": str(settings.home / HOME),
        "TMPDIR": str(settings.temporary),
        "HERMES_DISABLE_LAZY_INSTALLS": "1",
        "ROLLER_HERMES_FINITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if settings.key is not None:
        environment[settings.key_variable] = settings.key
    return environment


def _check_plugin(settings: LaunchSettings, script: Path) -> str | None:
    """Has Hermes's own Python look whether the plugin fits; returns the version that it has. Where that Python cannot
    be found or run, nothing is known before the run, and a plugin that does nothing is named afterwards
    (`hook_not_seen`)."""
    python = _interpreter(settings.binary)
    if python is None:
        return None
    environment = {"PATH": os.defpath, "HOME": str(settings.home), "HERMES_HOME": str(settings.home / HOME)}
    try:
        process = subprocess.run(
            (str(python), "-B", str(script)),
            env=environment,
            cwd=settings.temporary,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
        said = json.loads(process.stdout)
        problems, version = said["problems"], said.get("version")
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return None
    if problems:
        raise RollerError(
            f"{settings.binary}: our plugin does not fit this Hermes ({'; '.join(map(str, problems))}): "
            f"use {', '.join(sorted(TESTED_VERSIONS))}",
            exit_code=2,
        )
    return version if isinstance(version, str) else None


def _interpreter(binary: Path) -> Path | None:
    """The Python that a console script names in its first line."""
    try:
        with binary.open("rb") as stream:
            match = _SHEBANG.match(stream.readline(4096))
    except OSError:
        return None
    path = Path(os.fsdecode(match[1])) if match else None
    return path if path is not None and path.name.startswith("python") else None


def _turn_ends(stdout: Path, start: int = 0) -> Iterator[dict[str, Any]]:
    try:
        with stdout.open("rb") as stream:
            stream.seek(start)
            for line in read_lines(stream, _LONGEST_STDOUT_LINE):
                if line.record.get("type") == "turn_end":
                    yield line.record
    except OSError:
        return
