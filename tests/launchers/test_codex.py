"""What `collect` gives to Codex, what it refuses, and what it reads and copies of what Codex leaves."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.codex import LAUNCHER
from roller_capture.vocabulary import AttemptErrorCode, Protocol

THREAD = "0000000a-0000-7000-8000-000000000000"
CHILD = "0000000b-0000-7000-8000-000000000000"
OTHER = "0000000c-0000-7000-8000-000000000000"


def settings(tmp_path: Path, **changes: Any) -> LaunchSettings:
    """One attempt."""
    fields: dict[str, Any] = {
        "binary": Path("/opt/codex"),
        "home": tmp_path / "home",
        "temporary": tmp_path / "tmp",
        "workdir": tmp_path,
        "base_url": "http://127.0.0.1:1/path",
        "key_variable": "OPENAI_API_KEY",
        "key": "dummy",
        "model": None,
        "protocol": Protocol.OPENAI_RESPONSES,
        "profile": None,
        "drain_timeout": 1.5,
        "arguments": (),
    }
    return LaunchSettings(**{**fields, **changes})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ephemeral",), "rollouts"),
        (("--ignore-user-config",), "would not be read"),
        (("--json",), "collect gives it itself"),
        (("-C", "/x"), "--workdir"),
        (("--cd=/x",), "--workdir"),
        (("-m", "gpt-5.5"), "collect's own --model"),
        (("-mgpt-5.5",), "collect's own --model"),
        (("--oss",), "through the proxy"),
        (("--remote", "x"), "through the proxy"),
        (("-p", "mine"), "no profiles"),
        (("-c", "model=x"), "collect's own --model"),
        (("-cmodel=x",), "collect's own --model"),
        (("--config=model_provider=x",), "through the proxy"),
        (("--enable", "x", "-c", "model_providers.roller.base_url=x"), "through the proxy"),
        (("-c", 'model_providers={"roller"={}}'), "through the proxy"),
        (("-c", "openai_base_url=x"), "through the proxy"),
        (("--last",), "resumes it"),
        (("resume", "x"), "second prompt"),
        (("--", "x"), "second prompt"),
        (("--help",), "nothing would be run"),
    ],
)
def test_arguments_that_break_the_capture_are_refused(arguments: tuple[str, ...], said: str) -> None:
    """With the reason, exit code 2."""
    with pytest.raises(RollerError, match=said) as caught:
        LAUNCHER.check_arguments(arguments)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--enable", "multi_agent_v2"),
        ("-c", "agents.max_depth=2"),
        ("-c", "model_auto_compact_token_limit=9"),
        ("-c", "model_reasoning_effort=low"),
        ("-c", "model_providers.roller.stream_max_retries=2"),
        ("-c",),
        ("-s", "read-only"),
    ],
)
def test_other_arguments_are_the_users_business(arguments: tuple[str, ...]) -> None:
    """They are handed on as they are."""
    LAUNCHER.check_arguments(arguments)


def test_the_command_of_a_turn(tmp_path: Path) -> None:
    """The prompt stands last, behind `--`; a further turn names the thread, and never the last one."""
    first = LAUNCHER.turn(settings(tmp_path, arguments=("--enable", "x")), "-do it", None)
    common = ("/opt/codex", "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    assert first.arguments == (*common, "--enable", "x", "--", "-do it")
    second = LAUNCHER.turn(settings(tmp_path, profile="review"), "more", THREAD)
    assert second.arguments == (*common, "resume", THREAD, "--", "more")
    review = LAUNCHER.turn(settings(tmp_path, profile="review"), "look", None)
    assert review.arguments == (*common, "review", "--", "look")
    assert {first.standard_input, second.standard_input, review.standard_input} == {None}


@pytest.mark.parametrize("session_id", [None, THREAD])
def test_a_prompt_that_means_the_input_is_on_the_input(tmp_path: Path, session_id: str | None) -> None:
    """A dash alone, also behind `--`."""
    command = LAUNCHER.turn(settings(tmp_path), "-", session_id)
    assert (command.arguments[-2:], command.standard_input) == (("--", "-"), "-")
    assert LAUNCHER.turn(settings(tmp_path), "--", session_id).standard_input is None


@pytest.mark.parametrize("mode", [("--sandbox", "read-only"), ("-s", "read-only"), ("--approve-for-me",)])
def test_a_sandbox_of_the_users_counts(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Only without one may the agent do everything."""
    command = LAUNCHER.turn(settings(tmp_path, arguments=mode), "x", None)
    assert "--dangerously-bypass-approvals-and-sandbox" not in command.arguments


def test_the_configuration_leads_to_the_proxy(tmp_path: Path) -> None:
    """A provider of our own, which names the key's variable and no key."""
    (tmp_path / "home").mkdir()
    LAUNCHER.prepare(settings(tmp_path, model='a "model"'))
    text = (tmp_path / "home" / ".codex" / "config.toml").read_text()
    written = tomllib.loads(text)
    assert (written["model"], written["model_provider"]) == ('a "model"', "roller")
    assert written["model_providers"]["roller"] == {
        "name": "roller",
        "base_url": "http://127.0.0.1:1/path/v1",
        "wire_api": "responses",
        "env_key": "OPENAI_API_KEY",
    }
    assert "dummy" not in text
    LAUNCHER.prepare(settings(tmp_path, base_url=None))
    assert "model_provider" not in (tmp_path / "home" / ".codex" / "config.toml").read_text()


def test_the_environment_of_a_turn(tmp_path: Path) -> None:
    """Everything that the harness writes goes to the attempt's own folders."""
    environment = LAUNCHER.turn(settings(tmp_path), "x", None).environment
    assert environment == {
        "CODEX_HOME": str(tmp_path / "home" / ".codex"),
        "TMPDIR": str(tmp_path / "tmp"),
        "OPENAI_API_KEY": "dummy",
    }
    built_in = LAUNCHER.turn(settings(tmp_path, base_url=None), "x", None).environment
    assert built_in["CODEX_API_KEY"] == "dummy"
    assert "OPENAI_API_KEY" not in LAUNCHER.turn(settings(tmp_path, key=None), "x", None).environment


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("codex-cli 0.171.0", "0.171.0"),
        ("WARNING: something\ncodex-cli 0.172.0-alpha.1\n", "0.172.0-alpha.1"),
        ("0.171.0", None),
        ("", None),
    ],
)
def test_the_version_is_told_from_its_own_words(tmp_path: Path, printed: str, version: str | None) -> None:
    """Anything else is no Codex. It is asked in an empty home."""
    assert LAUNCHER.version_in(printed) == version
    command = LAUNCHER.version_command(Path("/opt/codex"), tmp_path)
    assert (command.arguments, command.environment) == (("/opt/codex", "--version"), {"CODEX_HOME": str(tmp_path)})


def stdout_of(tmp_path: Path, *lines: object) -> Path:
    """An output stream; text stands as it is."""
    path = tmp_path / "stdout.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


STARTED = {"type": "thread.started", "thread_id": THREAD}


def test_the_root_thread_is_the_announced_one(tmp_path: Path) -> None:
    """Each once; what is no thread id could not be resumed."""
    stdout = stdout_of(
        tmp_path, STARTED, "noise\n", {"type": "turn.started"}, STARTED, {**STARTED, "thread_id": "../x"}
    )
    assert LAUNCHER.session_ids(stdout) == [THREAD]
    assert LAUNCHER.session_ids(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("record", "answered", "over"),
    [
        ({"type": "item.completed", "item": {"type": "agent_message", "text": "x"}}, True, False),
        ({"type": "item.completed", "item": {"type": "error", "message": "x"}}, False, False),
        ({"type": "turn.completed"}, True, True),
        ({"type": "turn.failed"}, False, True),
        ({"type": "item.completed", "item": 7}, False, False),
    ],
)
def test_what_the_output_tells(tmp_path: Path, record: object, answered: bool, over: bool) -> None:
    """Whether a model has answered, and whether the root's turn is over."""
    stdout = stdout_of(tmp_path, STARTED, record)
    assert (LAUNCHER.has_answered(stdout), LAUNCHER.turn_has_ended(stdout, 0)) == (answered, over)
    assert not LAUNCHER.turn_has_ended(stdout, stdout.stat().st_size)


def rollout(home: Path, thread: str, **payload: object) -> Path:
    """A rollout of one line."""
    path = home / ".codex" / "sessions" / "2026" / "01" / "01" / f"rollout-2026-01-01T00-00-00-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"type": "session_meta", "payload": {"id": thread, **payload}}) + "\n")
    return path


def test_only_rollouts_of_the_run_are_copied(tmp_path: Path) -> None:
    """Named threads and their descendants; no credentials, no databases, no other session."""
    home, target = tmp_path / "home", tmp_path / "native"
    rollout(home, THREAD, source="exec")
    rollout(home, CHILD, source={"subagent": "review"}, parent_thread_id=THREAD)
    rollout(home, OTHER, source="exec")
    for name in ("auth.json", "state_5.sqlite", "config.toml", "history.jsonl"):
        (home / ".codex" / name).write_text("secret")
    for _ in range(2):
        assert LAUNCHER.copy_native(home, target, frozenset({THREAD, "../../etc"})) == []
    kept = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())
    folder = "sessions/2026/01/01/rollout-2026-01-01T00-00-00-"
    assert kept == [f"{folder}{THREAD}.jsonl", f"{folder}{CHILD}.jsonl"]
    assert {path.stat().st_mode & 0o777 for path in target.rglob("*.jsonl")} == {0o600}


def test_a_home_that_is_gone_is_told(tmp_path: Path) -> None:
    """By name, and nothing is raised."""
    gaps = LAUNCHER.copy_native(tmp_path / "gone", tmp_path / "native", frozenset({THREAD}))
    assert [gap.code for gap in gaps] == [AttemptErrorCode.NATIVE_LOGS_MISSING]


def test_links_are_not_followed(tmp_path: Path) -> None:
    """What a link leads to is none of the run's."""
    home = tmp_path / "home"
    secret = tmp_path / "secret"
    secret.write_text("secret")
    path = rollout(home, THREAD)
    path.unlink()
    path.symlink_to(secret)
    gaps = LAUNCHER.copy_native(home, tmp_path / "native", frozenset({THREAD}))
    assert [gap.code for gap in gaps] == [AttemptErrorCode.FILE_REFUSED]
    assert not list((tmp_path / "native").rglob("*.jsonl"))
