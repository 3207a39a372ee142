"""Starts DeepSeek Harness in a home of its own, and copies its session logs.

Measured with 0.2.1rc2: `dsh` refuses to run without `DSH_HOME`; profile `sdk-minimal` has no delegation tool, `sdk` and
`headless` have; the first two speak JSON-RPC and need the driver beside this module, the last one is a command that
waits for its subagents by itself. A session is resumed by its id, in the same log. Sessions of the full profiles are
compressed logs. The configuration file that we lay down names the model (of `headless`) and, for another protocol than
the harness's own, a provider that speaks it.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from roller_capture.adapters.deepseek.adapter import TESTED_VERSIONS
from roller_capture.adapters.deepseek.frames import Budget, expand
from roller_capture.adapters.deepseek.identity import RESPONSES_SESSION_HEADER, SESSION_HEADER
from roller_capture.adapters.deepseek.locate import COMPRESSED, find_session_logs
from roller_capture.adapters.deepseek.version import package_version
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.capture_protocol import Gap
from roller_capture.errors import RollerError
from roller_capture.launchers import ByHand, HarnessCommand, HarnessService, LauncherTraits, LaunchSettings
from roller_capture.launchers.refusal import refusal
from roller_capture.vocabulary import AttemptErrorCode, Protocol

DEFAULT_PROFILE: Final = "sdk-minimal"
_HEADLESS: Final = "headless"
_OWN_PROVIDER: Final = "deepseek-official"
_OTHER_PROVIDER: Final = "roller"
_APIS: Final[Mapping[Protocol, str]] = {
    Protocol.OPENAI_CHAT_COMPLETIONS: "openai-completions",
    Protocol.OPENAI_RESPONSES: "openai-responses",
}
"""The harness's names of the protocols that are not its own."""

_DEFAULT_MODEL: Final = "deepseek-v4-flash"
_DSH_HOME: Final = ".dsh"
_PATCH: Final = "roller.patch.yml"
_DRIVER: Final = Path(__file__).resolve().with_name("deepseek_driver.py")
_LONGEST_STDOUT_LINE: Final = 16 * 1024 * 1024

_OURS: Final = "collect gives it itself"
_NOTHING: Final = "nothing would be run"
_REFUSED: Final[Mapping[str, str]] = {
    "--profile": "use collect's own --profile, which stands in the run's configuration",
    "--session-id": "collect starts one new session, and resumes it for the further turns",
    "--json": _OURS,
    "--from-default-profile": "it would replace the profile",
    **dict.fromkeys(("--dump-config", "--dump-config-schema", "--dump-default-config"), _NOTHING),
    **dict.fromkeys(("-V", "--version", "-h", "--help"), _NOTHING),
    "--": "what follows it would be a second prompt",
}
_TAKEN: Final = ("--patch", "--max-tokens")
"""Options that may be given, each with a value: a file of changes to the configuration, and a limit for answers."""


_BY_HAND: Final = ByHand(
    work=(
        "work as always, with a home that dsh wants to be told, and the proxy as base URL (without /v1); for example:",
        "  DSH_HOME=~/.dsh DEEPSEEK_BASE_URL=http://127.0.0.1:PORT dsh --profile headless -- 'PROMPT'",
        "add DSH_PERMISSION_MODE=danger-full-access where nobody is there to approve what it runs",
    ),
    logs="~/.dsh",
)


class DeepSeekLauncher:
    """See `roller_capture.launchers.Launcher`."""

    traits: Final = LauncherTraits(
        executable="dsh",
        installed_as="venv/bin/dsh",
        install_hint=(
            "run make harness-deepseek in the checkout, or pip install deepseek-harness-sdk==0.2.1rc2 into an "
            "environment of its own, or name it with --harness-bin"
        ),
        tested_versions=TESTED_VERSIONS,
        protocols=(Protocol.ANTHROPIC_MESSAGES, Protocol.OPENAI_RESPONSES, Protocol.OPENAI_CHAT_COMPLETIONS),
        profiles=(DEFAULT_PROFILE, "sdk", _HEADLESS),
        key_variables=("DEEPSEEK_API_KEY",),
        session_headers=(SESSION_HEADER, RESPONSES_SESSION_HEADER),
        by_hand=_BY_HAND,
    )

    def check_arguments(self, arguments: Sequence[str]) -> None:
        options = iter(arguments)
        for argument in options:
            flag, given, value = argument.partition("=")
            if flag in _REFUSED:
                raise _refusal(flag, _REFUSED[flag])
            if flag not in _TAKEN:
                raise _refusal(argument, f"only {' FILE and '.join(_TAKEN)} N are known to keep the capture whole")
            if not given:
                value = next(options, "")
            if not value or (flag == "--max-tokens" and not value.isdecimal()):
                raise _refusal(flag, "its value is missing" if not value else "its value is no number")

    def version_command(self, binary: Path, home: Path) -> HarnessCommand:
        return HarnessCommand((str(binary), "--version"), _common_environment(home, home))

    def version_in(self, output: str) -> str | None:
        """The version as the package has it (`0.2.1rc2`), where the program says `0.2.1-rc.2`."""
        found = (package_version(line.rstrip()) for line in output.splitlines())
        return next((version for version in found if version is not None), None)

    def prepare(self, settings: LaunchSettings) -> None:
        profile = settings.profile or DEFAULT_PROFILE
        if settings.protocol in _APIS and profile == DEFAULT_PROFILE:
            raise RollerError(
                f"--protocol {settings.protocol}: profile {profile} only speaks {Protocol.ANTHROPIC_MESSAGES}: "
                "add --profile sdk",
                exit_code=2,
            )
        if profile == _HEADLESS and any(item.partition("=")[0] == "--max-tokens" for item in settings.arguments):
            raise _refusal("--max-tokens", f"profile {profile} has no such option")
        (settings.home / _DSH_HOME).mkdir(mode=0o700, exist_ok=True)
        # JSON is YAML, so that no value has to be quoted by hand.
        rows = "".join(f"- {row}\n" for row in _patch_rows(settings))
        (settings.home / _PATCH).write_text(rows or "[]\n", encoding="utf-8")

    def service(self, settings: LaunchSettings) -> HarnessService | None:  # noqa: ARG002
        return None

    def turn(self, settings: LaunchSettings, prompt: str, session_id: str | None) -> HarnessCommand:
        patch = str(settings.home / _PATCH)
        profile = settings.profile or DEFAULT_PROFILE
        if profile == _HEADLESS:
            adopted = () if session_id is None else ("--session-id", session_id)
            start = (str(settings.binary), "--profile", profile, "--patch", patch, *settings.arguments)
            # The prompt stands behind `--`, since it may begin with a dash.
            return HarnessCommand((*start, "--json", *adopted, "--", prompt), _turn_environment(settings))
        resumed = () if session_id is None else (f"--resume={session_id}",)
        arguments = (
            *(sys.executable, "-I", str(_DRIVER)),
            *("--dsh", str(settings.binary), "--profile", profile, "--cwd", str(settings.workdir)),
            *("--provider", _provider(settings), "--model", settings.model or _DEFAULT_MODEL),
            *("--drain", f"{settings.drain_timeout:g}", "--patch", patch, *settings.arguments, *resumed, "--", prompt),
        )
        return HarnessCommand(arguments, _turn_environment(settings))

    def session_ids(self, stdout: Path) -> list[str]:
        found: dict[str, None] = {}
        for record in _records(stdout):
            session_id = record.get("sessionId")
            if record.get("type") == "session" and isinstance(session_id, str):
                found[session_id] = None
        return list(found)

    def has_answered(self, stdout: Path) -> bool:
        return any(record.get("type") in ("answer", "text", "tool_call") for record in _records(stdout))

    def answered_itself(self, stdout: Path) -> bool:  # noqa: ARG002
        return False

    def turn_has_ended(self, stdout: Path, start: int) -> bool:
        return any(_ends_the_turn(record) for record in _records(stdout, start))

    def turn_failed(self, stdout: Path, start: int) -> bool:  # noqa: ARG002
        return False  # its exit code is 1 then (measured)

    def copy_native(self, home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
        gaps = GapLog()
        if not home.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness's home is gone")
            return list(gaps.gaps())
        tree, budget = NativeTree(home, gaps), Budget()
        for path in find_session_logs(tree, session_ids):
            _copy(tree, path, target, budget, gaps)
        return list(gaps.gaps())


LAUNCHER: Final = DeepSeekLauncher()


def _refusal(argument: str, reason: str) -> RollerError:
    return refusal("deepseek", argument, reason)


def _provider(settings: LaunchSettings) -> str:
    return _OTHER_PROVIDER if settings.protocol in _APIS else _OWN_PROVIDER


def _patch_rows(settings: LaunchSettings) -> Iterator[str]:
    """Changes to the profile: one row of the harness's configuration each, as JSON."""
    model = settings.model or _DEFAULT_MODEL
    if settings.protocol in _APIS:
        limits = {"contextWindow": 1_000_000, "maxTokens": 32_768}
        provider = {
            "apiKeyEnv": settings.key_variable,
            "api": _APIS[settings.protocol],
            "baseURL": f"{settings.base_url}/v1",
            "models": [{"id": model, **limits}],
        }
        yield json.dumps({"id": "llm-pi-ai", "config": {"providers": {_OTHER_PROVIDER: provider}}})
    if settings.profile == _HEADLESS and (settings.model is not None or settings.protocol in _APIS):
        yield json.dumps({"id": "agent-default-model", "config": {"provider": _provider(settings), "model": model}})


def _common_environment(home: Path, temporary: Path) -> dict[str, str]:
    return {
        "DSH_HOME": str(home / _DSH_HOME),
        "DSH_TELEMETRY_DISABLED": "1",
        # Nobody is there to approve, and the sandbox of the full profiles does not work inside a plain container.
        "DSH_PERMISSION_MODE": "danger-full-access",
        "TMPDIR": str(temporary),
    }


def _turn_environment(settings: LaunchSettings) -> dict[str, str]:
    environment = _common_environment(settings.home, settings.temporary)
    if settings.base_url is not None:
        environment["DEEPSEEK_BASE_URL"] = settings.base_url
    if settings.key is not None:
        environment[settings.key_variable] = settings.key
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


def _ends_the_turn(record: Mapping[str, Any]) -> bool:
    """The driver marks the root's turns; of `headless`, only the root's events are on the output."""
    by_driver = record.get("type") == "turn" and record.get("root") is True
    return by_driver or (record.get("type") == "status" and record.get("phase") == "turn_end")


def _copy(tree: NativeTree, path: PurePosixPath, target: Path, budget: Budget, gaps: GapLog) -> None:
    """Copies a log; a compressed one is expanded, since evidence is found in it by lines."""
    inner = path.relative_to(_DSH_HOME) if path.parts[0] == _DSH_HOME else path
    if path.suffix == COMPRESSED:
        inner = inner.with_suffix("")
    with tree.open(path, as_evidence=False) as source:
        if source is None:
            return
        try:
            copy = target / inner
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy.unlink(missing_ok=True)
            with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                if path.suffix != COMPRESSED:
                    shutil.copyfileobj(source, stream, 1024 * 1024)
                    return
                for problem in expand(source, stream, budget):
                    gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, problem.value, source=str(inner))
        except OSError as error:
            reason = f"cannot be copied: {error.strerror}"
            gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=str(inner))
