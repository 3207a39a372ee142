"""What `collect` gives to Claude Code, what it refuses, and what it reads and copies of what Claude Code leaves."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.claude_code import LAUNCHER
from roller_capture.vocabulary import AttemptErrorCode, Protocol

SESSION = "0f4b2a7e-1111-4222-8333-444455556666"
OTHER = "0f4b2a7e-9999-4222-8333-444455556666"


def settings(tmp_path: Path, **changes: Any) -> LaunchSettings:
    """One attempt."""
    fields: dict[str, Any] = {
        "binary": Path("/opt/claude"),
        "home": tmp_path / "home",
        "temporary": tmp_path / "tmp",
        "workdir": tmp_path,
        "base_url": "http://127.0.0.1:1",
        "key_variable": "ANTHROPIC_API_KEY",
        "key": "dummy",
        "model": None,
        "protocol": Protocol.ANTHROPIC_MESSAGES,
        "profile": None,
        "drain_timeout": 1.5,
        "arguments": (),
    }
    return LaunchSettings(**{**fields, **changes})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--no-session-persistence",), "session log"),
        (("--output-format", "json"), "collect gives it itself"),
        (("--output-format=json",), "collect gives it itself"),
        (("-p",), "collect gives it itself"),
        (("-cp",), "resumes it"),
        (("-r", "x"), "resumes it"),
        (("-rx",), "resumes it"),
        (("--resume=x",), "resumes it"),
        (("--verbose", "--session-id", "x"), "resumes it"),
        (("--fork-session",), "resumes it"),
        (("--bg",), "outside"),
        (("--model", "opus"), "collect's own --model"),
        (("--", "x"), "second prompt"),
        (("go on",), "second prompt"),
        (("mcp", "list"), "second prompt"),
        (("--help",), "nothing would be run"),
        (("-V",), "nothing would be run"),
        (("--init-only",), "nothing would be run"),
        (("--verbose", "go on"), "'go on' cannot be given to claude-code here: it would be a second prompt"),
        (("--verbose", ""), "second prompt"),
        (("--verbose", "-"), "second prompt"),
        (("--settings", "{}", "go on"), "second prompt"),
        (("--settings={}", "go on"), "second prompt"),
        (("--debug", "api", "go on"), "second prompt"),
        (("-dapi", "go on"), "second prompt"),
        (("-d2e", "go on"), "second prompt"),
        (("--debug=api", "go on"), "second prompt"),
        (("--allowedTools=Bash", "go on"), "second prompt"),
        (("--dangerously-skip-permissions", "mcp"), "second prompt"),
        (("--newly-made", "go on"), "write --newly-made=VALUE"),
        (("--prefill", "go on"), "second prompt"),
        (("--settings",), "its value is missing"),
        (("--tools",), "its value is missing"),
        (("--settings", "--verbose"), "its value is missing before --verbose"),
        (("--tools", "--bg"), "its value is missing before --bg"),
        (("--rc",), "could be added"),
        (("--rc=name",), "could be added"),
        (("--remote-control",), "could be added"),
        (("--channels", "x"), "could be added"),
        (("--messaging-socket-path", "/x"), "could be added"),
        (("--watch-artifact", "x"), "could be added"),
        (("--remote", "x"), "outside"),
        (("--cloud",), "outside"),
        (("--background",), "outside"),
        (("--routine=x",), "outside"),
        (("--sdk-url=ws://x",), "outside"),
        (("--exec", "x"), "outside"),
        (("--resume-session-at", "x"), "resumes it"),
        (("--parent-session-id", "x"), "resumes it"),
        (("--agent-id", "x"), "another session's team"),
        (("--await-initialize",), "collect gives it itself"),
        (("-m", "opus"), "collect's own --model"),
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
        ("--allowedTools", "Bash", "Edit"),
        ("--allowedTools", "Bash", "Edit", "--verbose"),
        ("--settings", "{}"),
        ("--permission-mode=plan",),
        ("--add-dir", "/x"),
        ("--debug",),
        ("--debug", "api"),
        ("-d", "api", "--verbose"),
        ("-n", "a name"),
        ("--append-system-prompt", "- be brief"),
        ("--max-budget-usd", "-1"),
        ("--newly-made",),
        ("--newly-made=x", "--verbose"),
    ],
)
def test_other_arguments_are_the_users_business(arguments: tuple[str, ...]) -> None:
    """They are handed on as they are."""
    LAUNCHER.check_arguments(arguments)


def test_the_command_of_a_turn(tmp_path: Path) -> None:
    """The prompt is the first value, before all arguments of the user; a further turn names the session."""
    first = LAUNCHER.turn(settings(tmp_path, arguments=("--tools", "Bash")), "do it", None)
    common = ("--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions")
    assert first.arguments == ("/opt/claude", "-p", "do it", *common, "--tools", "Bash")
    second = LAUNCHER.turn(settings(tmp_path), "more", SESSION)
    assert second.arguments == ("/opt/claude", "-p", "more", *common, "--resume", SESSION)
    assert (first.standard_input, second.standard_input) == (None, None)


@pytest.mark.parametrize("prompt", ["-do it", "--bg", "-"])
def test_a_prompt_that_looks_like_an_option_is_never_an_argument(tmp_path: Path, prompt: str) -> None:
    """2.1.197 takes the prompt `--bg` for the option, also behind `--`."""
    command = LAUNCHER.turn(settings(tmp_path), prompt, None)
    assert prompt not in command.arguments
    assert command.standard_input == prompt


@pytest.mark.parametrize("mode", [("--permission-mode", "plan"), ("--permission-mode=plan",), ("--restricted",)])
def test_a_permission_mode_of_the_users_counts(tmp_path: Path, mode: tuple[str, ...]) -> None:
    """Only without one may the agent do everything."""
    command = LAUNCHER.turn(settings(tmp_path, arguments=mode), "x", None)
    assert "--dangerously-skip-permissions" not in command.arguments


def test_the_environment_of_a_turn(tmp_path: Path) -> None:
    """Everything that the harness writes goes to the attempt's own folders, and it talks to the proxy."""
    environment = LAUNCHER.turn(settings(tmp_path, model="m"), "x", None).environment
    assert environment["CLAUDE_CONFIG_DIR"] == str(tmp_path / "home" / ".claude")
    assert environment["TMPDIR"] == environment["CLAUDE_CODE_TMPDIR"] == str(tmp_path / "tmp")
    assert environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1"
    assert environment["ANTHROPIC_API_KEY"] == "dummy"
    assert environment["ANTHROPIC_MODEL"] == "m"
    assert environment["CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"] == "1500"
    assert environment.get("IS_SANDBOX") == ("1" if os.geteuid() == 0 else None)
    short = LAUNCHER.turn(settings(tmp_path, drain_timeout=0.0004), "x", None).environment
    assert short["CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"] == "1"  # 0 is no ceiling at all
    bare = LAUNCHER.turn(settings(tmp_path, base_url=None, key=None), "x", None).environment
    assert not {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL"} & bare.keys()
    token = LAUNCHER.turn(settings(tmp_path, key_variable="ANTHROPIC_AUTH_TOKEN"), "x", None).environment
    assert token["ANTHROPIC_AUTH_TOKEN"] == "dummy"
    assert "ANTHROPIC_API_KEY" not in token


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("2.1.332 (Claude Code)", "2.1.332"),
        ("a warning\n2.2.0-beta.1 (Claude Code)\n", "2.2.0-beta.1"),
        ("2.1.332", None),
        ("", None),
        ("GNU bash, version 5", None),
    ],
)
def test_the_version_is_told_from_its_own_words(output: str, version: str | None) -> None:
    """Anything else is no Claude Code."""
    assert LAUNCHER.version_in(output) == version


def stdout_of(tmp_path: Path, *lines: object) -> Path:
    """An output stream; text stands as it is."""
    path = tmp_path / "stdout.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


INIT = {"type": "system", "subtype": "init", "session_id": SESSION}


SAID_ITSELF = {"type": "assistant", "message": {"model": "<synthetic>", "content": []}}
NO_TURN = {"type": "result", "is_error": False, "num_turns": 0}


@pytest.mark.parametrize(
    ("lines", "itself", "answered"),
    [
        ([INIT, SAID_ITSELF, NO_TURN], True, False),
        ([INIT, SAID_ITSELF], False, False),
        ([INIT, NO_TURN], False, False),
        ([INIT, SAID_ITSELF, {**NO_TURN, "num_turns": 1}], False, True),
        ([INIT, SAID_ITSELF, {**NO_TURN, "is_error": True}], False, False),
        ([INIT, {"type": "assistant", "message": {"model": "m"}}, NO_TURN], False, True),
        ([], False, False),
    ],
)
def test_what_the_program_answered_itself(tmp_path: Path, lines: list[object], itself: bool, answered: bool) -> None:
    """By its own words: its model is none, and it took no turn. Neither alone says so."""
    path = stdout_of(tmp_path, *lines)
    assert (LAUNCHER.answered_itself(path), LAUNCHER.has_answered(path)) == (itself, answered)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], []),
        ([INIT, INIT], [SESSION]),
        ([INIT, {**INIT, "session_id": OTHER}], [SESSION, OTHER]),
        ([{**INIT, "subtype": "other"}, {"type": "assistant", "session_id": SESSION}], []),
        ([{**INIT, "session_id": {"a": 1}}, {**INIT, "session_id": None}, {"type": ["system"]}], []),
        ([{**INIT, "session_id": "../../etc/passwd"}], []),
        ([[1], 5, "no json\n", "\x00\n", INIT, '{"type": "system", "subtype": "init", "session_id": "torn'], [SESSION]),
    ],
)
def test_announced_sessions(tmp_path: Path, lines: list[object], expected: list[str]) -> None:
    """Only from the harness's own init records, and only ids that can name a log."""
    assert LAUNCHER.session_ids(stdout_of(tmp_path, *lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([INIT], False),
        ([INIT, {"type": "assistant", "message": {"model": "m"}}], True),
        ([INIT, {"type": "assistant", "message": {"model": "<synthetic>"}}], False),
        ([INIT, {"type": "assistant", "message": "text"}, {"type": "assistant"}], False),
        ([INIT, {"type": "result", "is_error": True}], False),
        ([INIT, {"type": "result"}], False),
        ([INIT, {"type": "result", "is_error": False}], True),
    ],
)
def test_whether_a_model_has_answered(tmp_path: Path, lines: list[object], expected: bool) -> None:
    """The harness's own error texts are no answers."""
    assert LAUNCHER.has_answered(stdout_of(tmp_path, *lines)) is expected


def test_the_end_of_a_turn_is_looked_for_behind_the_turns_before(tmp_path: Path) -> None:
    """Each turn begins at its own place of the output."""
    stdout = stdout_of(tmp_path, INIT, {"type": "result", "is_error": False})
    assert LAUNCHER.turn_has_ended(stdout, 0)
    assert not LAUNCHER.turn_has_ended(stdout, stdout.stat().st_size)
    assert not LAUNCHER.turn_has_ended(tmp_path / "missing", 0)


def _said(kind: str, parent: str | None, *blocks: str, message_id: object = "m1", model: str = "m") -> dict[str, Any]:
    content = [{"type": block} for block in blocks]
    return {
        "type": kind,
        "parent_tool_use_id": parent,
        "message": {"id": message_id, "model": model, "content": content},
    }


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([INIT], False),
        ([_said("assistant", None, "text")], True),
        ([_said("assistant", None, "thinking"), _said("assistant", None, "text")], True),
        ([_said("assistant", None, "text", "tool_use")], False),
        ([_said("assistant", None, "text"), _said("assistant", None, "tool_use")], False),
        ([_said("assistant", None, "tool_use"), _said("assistant", None, "text")], False),
        ([_said("assistant", None, "tool_use"), _said("user", None, "tool_result")], False),
        ([_said("assistant", None, "tool_use"), _said("assistant", None, "text", message_id="m2")], True),
        ([_said("assistant", None, "text"), _said("user", None, "tool_result")], False),
        ([_said("assistant", None, "text"), _said("user", None, "text")], True),
        ([_said("assistant", None, "text"), _said("assistant", "toolu_1", "tool_use", message_id="m9")], True),
        ([_said("assistant", None, "text"), _said("user", "toolu_1", "tool_result")], True),
        ([_said("assistant", "toolu_1", "text")], False),
        ([_said("assistant", None, "text", model="<synthetic>")], False),
        ([_said("assistant", None, "tool_use"), {"type": "result", "is_error": True}], True),
        (
            [_said("assistant", None, "text", message_id=None), _said("assistant", None, "tool_use", message_id=None)],
            False,
        ),
        ([{"type": "assistant", "message": {"content": {"type": "tool_use"}}}], True),
        ([{"type": "assistant", "message": 5}, {"type": ["result"]}, 7], False),
    ],
)
def test_whether_the_root_has_answered(tmp_path: Path, lines: list[object], expected: bool) -> None:
    """By its own last message: the `result` record comes only when the wait for background subtasks is over."""
    assert LAUNCHER.turn_has_ended(stdout_of(tmp_path, *lines), 0) is expected


def _home(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".claude" / "projects" / "-work"
    agents = folder / SESSION / "subagents"
    agents.mkdir(parents=True)
    (agents / "workflows" / "run").mkdir(parents=True)
    (folder / OTHER / "subagents").mkdir(parents=True)
    for path in (
        folder / f"{SESSION}.jsonl",
        agents / "agent-a1.jsonl",
        agents / "agent-a1.meta.json",
        agents / "workflows" / "run" / "agent-a2.jsonl",
        agents / "notes.txt",
        folder / SESSION / "tool-results.txt",
        folder / f"{OTHER}.jsonl",
        folder / OTHER / "subagents" / "agent-a3.jsonl",
        folder.parent.parent / ".credentials.json",
        folder.parent.parent / "settings.json",
    ):
        path.write_text(path.name)
    return tmp_path / "home"


def test_only_logs_of_the_named_sessions_are_copied(tmp_path: Path) -> None:
    """Sessions, their agents at any depth, and the agents' metadata; nothing else of the home."""
    target = tmp_path / "native"
    target.mkdir()
    for _ in range(2):  # again after a crash: the same
        assert LAUNCHER.copy_native(_home_once(tmp_path), target, frozenset({SESSION})) == []
    copied = {
        str(path.relative_to(target)): path.stat().st_mode & 0o777 for path in target.rglob("*") if path.is_file()
    }
    base = f"projects/-work/{SESSION}"
    assert copied == dict.fromkeys(
        (
            f"{base}.jsonl",
            f"{base}/subagents/agent-a1.jsonl",
            f"{base}/subagents/agent-a1.meta.json",
            f"{base}/subagents/workflows/run/agent-a2.jsonl",
        ),
        0o600,
    )
    assert (target / f"{base}.jsonl").read_text() == f"{SESSION}.jsonl"


def _home_once(tmp_path: Path) -> Path:
    return tmp_path / "home" if (tmp_path / "home").exists() else _home(tmp_path)


def test_links_are_named_and_not_followed(tmp_path: Path) -> None:
    """A log that leads elsewhere is a gap; so is a home that has gone."""
    home = _home(tmp_path)
    log = home / ".claude" / "projects" / "-work" / f"{SESSION}.jsonl"
    log.unlink()
    log.symlink_to("/etc/hostname")
    target = tmp_path / "native"
    gaps = LAUNCHER.copy_native(home, target, frozenset({SESSION, "../../../etc/passwd"}))
    assert [gap.code for gap in gaps] == [AttemptErrorCode.FILE_REFUSED]
    assert not (target / "projects" / "-work" / f"{SESSION}.jsonl").exists()
    gone = LAUNCHER.copy_native(tmp_path / "none", target, frozenset({SESSION}))
    assert [gap.code for gap in gone] == [AttemptErrorCode.NATIVE_LOGS_MISSING]
