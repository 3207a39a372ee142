"""What `collect` gives to Pi, what it refuses, and what it reads and copies of what Pi leaves."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.pi import LAUNCHER
from roller_capture.shipped import shipped_path
from roller_capture.vocabulary import AttemptErrorCode, Protocol
from tests.adapters.pi.session_logs import GOOD, OTHER, SESSION, header, write_log

CHAT, RESPONSES, MESSAGES = (
    Protocol.OPENAI_CHAT_COMPLETIONS,
    Protocol.OPENAI_RESPONSES,
    Protocol.ANTHROPIC_MESSAGES,
)


def settings(tmp_path: Path, **changes: Any) -> LaunchSettings:
    """One attempt."""
    fields: dict[str, Any] = {
        "binary": Path("/opt/pi"),
        "home": tmp_path / "home",
        "temporary": tmp_path / "tmp",
        "workdir": tmp_path,
        "base_url": "http://127.0.0.1:1",
        "key_variable": "OPENAI_API_KEY",
        "key": "dummy-key",
        "model": "m",
        "protocol": CHAT,
        "profile": None,
        "drain_timeout": 1.5,
        "arguments": (),
    }
    return LaunchSettings(**{**fields, **changes})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--no-session",), "session log"),
        (("--session-dir", "/x"), "does not look"),
        (("--mode", "text"), "collect gives it itself"),
        (("--mode=text",), "collect gives it itself"),
        (("-p",), "collect gives it itself"),
        (("-c",), "one new session"),
        (("--verbose", "--session-id", "x"), "one new session"),
        (("--fork", "x"), "one new session"),
        (("-e", "x.ts"), "no extensions"),
        (("--approve",), "around the proxy"),
        (("--provider", "openai"), "around the proxy"),
        (("--api-key", "x"), "--api-key-env"),
        (("--model", "x"), "collect's own --model"),
        (("--list-models",), "nothing would be run"),
        (("--", "x"), "second prompt"),
        (("go on",), "second prompt"),
        (("--verbose", "@file"), "second prompt"),
    ],
)
def test_arguments_that_break_the_capture_are_refused(arguments: tuple[str, ...], said: str) -> None:
    """With the reason, exit code 2."""
    with pytest.raises(RollerError, match=said) as caught:
        LAUNCHER.check_arguments(arguments)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("arguments", [(), ("--tools", "read,bash"), ("--thinking", "high"), ("-nt",), ("-n", "x")])
def test_other_arguments_are_the_users_business(arguments: tuple[str, ...]) -> None:
    """They are handed on as they are."""
    LAUNCHER.check_arguments(arguments)


def test_the_command_of_a_turn(tmp_path: Path) -> None:
    """Bundled profile and our hook; the prompt last, behind `--`; a further turn names the session; no key in it."""
    first = LAUNCHER.turn(settings(tmp_path, arguments=("--tools", "read")), "-do it", None)
    hook = str(shipped_path("hooks", "pi", "roller-capture.js"))
    assert first.arguments[:4] == ("/opt/pi", "-p", "--mode", "json")
    assert {"--no-extensions", "--no-mcp", "--no-skills", "--no-context-files", "--no-approve"} <= set(first.arguments)
    model = ("-e", hook, "--provider", "roller", "--model", "m")
    assert first.arguments[-10:] == (*model, "--tools", "read", "--", "-do it")
    second = LAUNCHER.turn(settings(tmp_path), "more", SESSION)
    assert second.arguments[-4:] == ("--session-id", SESSION, "--", "more")
    assert "dummy-key" not in " ".join(first.arguments)


@pytest.mark.parametrize(
    ("prompt", "marks", "rest"),
    [
        ("@file", "@", ("--", "file")),
        ("@@ and more", "@@", ("--", " and more")),
        ("@", "@", ()),
        ("a@b", None, ("--", "a@b")),
    ],
)
def test_a_prompt_that_pi_would_take_for_a_file_comes_by_its_input(
    tmp_path: Path, prompt: str, marks: str | None, rest: tuple[str, ...]
) -> None:
    """Pi puts its input before the prompt without a gap, so the two together are the prompt to the letter."""
    command = LAUNCHER.turn(settings(tmp_path), prompt, None)
    assert command.standard_input == marks
    assert command.arguments[-2 - len(rest) :] == ("--model", "m", *rest)


@pytest.mark.parametrize(
    ("protocol", "api", "base"),
    [
        (CHAT, "openai-completions", "http://127.0.0.1:1/v1"),
        (RESPONSES, "openai-responses", "http://127.0.0.1:1/v1"),
        (MESSAGES, "anthropic-messages", "http://127.0.0.1:1"),
    ],
)
def test_the_model_is_reached_through_the_proxy_alone(tmp_path: Path, protocol: Protocol, api: str, base: str) -> None:
    """One provider; its key is a name of a variable, never a value."""
    LAUNCHER.prepare(settings(tmp_path, protocol=protocol))
    LAUNCHER.prepare(settings(tmp_path, protocol=protocol))  # again for a further attempt in the same home
    agent = tmp_path / "home" / ".pi" / "agent"
    [provider] = json.loads((agent / "models.json").read_text())["providers"].values()
    assert (provider["api"], provider["baseUrl"], provider["apiKey"]) == (api, base, "$OPENAI_API_KEY")
    assert provider["models"] == [{"id": "m", "reasoning": False}]
    assert provider["compat"] == {"sendSessionAffinityHeaders": True}
    assert json.loads((agent / "settings.json").read_text()) == {"enableInstallTelemetry": False}
    assert agent.stat().st_mode & 0o777 == 0o700


def test_a_model_thinks_only_when_the_user_says_so(tmp_path: Path) -> None:
    """Pi would ask a model that cannot."""
    LAUNCHER.prepare(settings(tmp_path, arguments=("--thinking", "high")))
    document = json.loads((tmp_path / "home" / ".pi" / "agent" / "models.json").read_text())
    assert document["providers"]["roller"]["models"] == [{"id": "m", "reasoning": True}]


def test_without_a_model_nothing_is_prepared(tmp_path: Path) -> None:
    """Pi has no default for a service it does not know."""
    with pytest.raises(RollerError, match="--model") as caught:
        LAUNCHER.prepare(settings(tmp_path, model=None))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("types", "fits"), [("on(event: 'before_provider_headers')", True), ("on(event: 'x')", False), (None, True)]
)
def test_a_pi_without_the_hooks_event_is_refused(tmp_path: Path, types: str | None, fits: bool) -> None:
    """Older ones load the hook and say nothing; a package of another layout is left to the headers themselves."""
    package = tmp_path / "node_modules" / "@x" / "pi-coding-agent"
    binary = package / "dist" / "bundle" / "cli.js"
    binary.parent.mkdir(parents=True)
    binary.touch()
    (package / "package.json").write_text("{}")
    if types is not None:
        (package / "dist" / "core" / "extensions").mkdir(parents=True)
        (package / "dist" / "core" / "extensions" / "types.d.ts").write_text(types)
    if fits:
        LAUNCHER.prepare(settings(tmp_path, binary=binary))
    else:
        with pytest.raises(RollerError, match="before_provider_headers"):
            LAUNCHER.prepare(settings(tmp_path, binary=binary))


def test_the_node_beside_it_is_taken(tmp_path: Path) -> None:
    """The pinned installation brings a Node.js that is new enough; another one is started as it is."""
    binary = tmp_path / "node_modules" / "@earendil-works" / "pi-coding-agent" / "dist" / "bundle" / "cli.js"
    binary.parent.mkdir(parents=True)
    binary.touch()
    assert LAUNCHER.version_command(binary, tmp_path).arguments == (str(binary), "--version")
    node = tmp_path / "node_modules" / ".bin" / "node"
    node.parent.mkdir()
    node.touch(mode=0o700)
    assert LAUNCHER.version_command(binary, tmp_path).arguments == (str(node), str(binary), "--version")


def test_the_environment_of_a_turn(tmp_path: Path) -> None:
    """Everything that Pi writes goes to the attempt's own folders, and it asks nobody for updates."""
    environment = LAUNCHER.turn(settings(tmp_path), "x", None).environment
    assert environment == {
        "PI_OFFLINE": "1",
        "PI_TELEMETRY": "0",
        "PI_SKIP_VERSION_CHECK": "1",
        "PI_CODING_AGENT_DIR": str(tmp_path / "home" / ".pi" / "agent"),
        "TMPDIR": str(tmp_path / "tmp"),
        "OPENAI_API_KEY": "dummy-key",
    }
    assert "OPENAI_API_KEY" not in LAUNCHER.turn(settings(tmp_path, key=None), "x", None).environment


@pytest.mark.parametrize(
    ("output", "version"),
    [("1.6.0", "1.6.0"), ("1.7.0-beta.2\n", "1.7.0-beta.2"), ("pi 1.6.0", None), ("", None), ("error\n1.6.0", None)],
)
def test_the_version_is_all_that_it_says(output: str, version: str | None) -> None:
    """Anything else is no Pi, or one that does not run."""
    assert LAUNCHER.version_in(output) == version


def stdout_of(tmp_path: Path, *lines: object) -> Path:
    """An output stream; text stands as it is."""
    path = tmp_path / "stdout.jsonl"
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


def _ended(**members: Any) -> dict[str, Any]:
    return {"type": "message_end", "message": {"role": "assistant", **members}}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], []),
        ([header(), header()], [SESSION]),
        ([header(), header(OTHER)], [SESSION, OTHER]),
        ([{"type": "message_end", "id": SESSION}, header(["x"]), header(None), header("../../etc/passwd")], []),
        ([[1], 5, "no json\n", "\x00\n", header(), '{"type": "session", "id": "torn'], [SESSION]),
    ],
)
def test_announced_sessions(tmp_path: Path, lines: list[object], expected: list[str]) -> None:
    """From the headers of the processes, and only ids that can name a log."""
    assert LAUNCHER.session_ids(stdout_of(tmp_path, *lines)) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([header()], False),
        ([_ended(stopReason="stop")], True),
        ([_ended(stopReason="toolUse")], True),
        ([_ended(stopReason="error")], False),
        ([_ended(stopReason=["stop"])], False),
        ([{"type": "message_end", "message": "text"}, {"type": "message_end"}], False),
        ([{"type": "message_start", "message": {"role": "assistant", "stopReason": "stop"}}], False),
    ],
)
def test_whether_a_model_has_answered(tmp_path: Path, lines: list[object], expected: bool) -> None:
    """A failed request leaves an assistant's message too."""
    assert LAUNCHER.has_answered(stdout_of(tmp_path, *lines)) is expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([header(), {"type": "agent_settled"}], False),
        ([_ended(stopReason="toolUse"), _ended(stopReason="error"), {"type": "agent_settled"}], True),
        ([_ended(stopReason="error"), _ended(stopReason="error"), _ended(stopReason="stop")], False),
        ([_ended(stopReason="aborted")], True),
        ([_ended(stopReason="length")], False),
        ([_ended(stopReason="a word of another version")], False),
        (
            [_ended(stopReason=["error"]), {"type": "message_end", "message": {"role": "user", "stopReason": "error"}}],
            False,
        ),
    ],
)
def test_whether_a_turn_failed(tmp_path: Path, lines: list[object], expected: bool) -> None:
    """By its last answer alone: one that failed before was asked for again. The exit code is 0 whatever happened."""
    stdout = stdout_of(tmp_path, *lines)
    assert LAUNCHER.turn_failed(stdout, 0) is expected
    assert not LAUNCHER.turn_failed(stdout, stdout.stat().st_size)
    assert not LAUNCHER.turn_failed(tmp_path / "missing", 0)


def test_the_end_of_a_turn_is_looked_for_behind_the_turns_before(tmp_path: Path) -> None:
    """Each turn begins at its own place of the output."""
    stdout = stdout_of(tmp_path, header(), {"type": "agent_end"}, {"type": "agent_settled"})
    assert LAUNCHER.turn_has_ended(stdout, 0)
    assert not LAUNCHER.turn_has_ended(stdout, stdout.stat().st_size)
    assert not LAUNCHER.turn_has_ended(tmp_path / "missing", 0)


def test_only_logs_of_the_named_sessions_are_copied(tmp_path: Path) -> None:
    """Nothing else of the home: neither other sessions nor models, settings or logins."""
    home, target = tmp_path / "home", tmp_path / "native"
    log = write_log(home, *GOOD)
    write_log(home, header(OTHER), session_id=OTHER)
    for name in ("auth.json", "models.json", "settings.json"):
        (home / ".pi" / "agent" / name).write_text("{}")
    for _ in range(2):  # again after a crash: the same
        assert LAUNCHER.copy_native(home, target, frozenset({SESSION, "../../etc/passwd"})) == []
    copied = [path for path in target.rglob("*") if path.is_file()]
    assert copied == [target / "sessions" / "--work--" / log.name]
    assert copied[0].read_bytes() == log.read_bytes()
    assert copied[0].stat().st_mode & 0o777 == 0o600


def test_links_are_named_and_not_followed(tmp_path: Path) -> None:
    """A log that leads elsewhere is a gap; so is a home that has gone."""
    log = write_log(tmp_path / "home", *GOOD)
    log.unlink()
    log.symlink_to("/etc/hostname")
    gaps = LAUNCHER.copy_native(tmp_path / "home", tmp_path / "native", frozenset({SESSION}))
    assert [gap.code for gap in gaps] == [AttemptErrorCode.FILE_REFUSED]
    assert not (tmp_path / "native").exists()
    gone = LAUNCHER.copy_native(tmp_path / "none", tmp_path / "native", frozenset({SESSION}))
    assert [gap.code for gap in gone] == [AttemptErrorCode.NATIVE_LOGS_MISSING]
