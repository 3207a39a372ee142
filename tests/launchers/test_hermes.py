"""Tests of the Hermes launcher: arguments, configuration, commands, output, and what it copies."""

import json
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers import LaunchSettings, find_launcher
from roller_capture.launchers.hermes import LAUNCHER
from roller_capture.vocabulary import Protocol

KEY = "roller-dummy-1"


@pytest.fixture
def settings(tmp_path: Path) -> LaunchSettings:
    """Settings of an attempt, with a program that is no Python script."""
    for name in ("home", "temporary", "work"):
        (tmp_path / name).mkdir()
    binary = tmp_path / "hermes"
    binary.write_text("#!/bin/sh\n")
    return LaunchSettings(
        binary=binary,
        home=tmp_path / "home",
        temporary=tmp_path / "temporary",
        workdir=tmp_path / "work",
        base_url="http://127.0.0.1:1234/path",
        key_variable="OPENAI_API_KEY",
        key=KEY,
        model="some-model",
        protocol=Protocol.OPENAI_CHAT_COMPLETIONS,
        profile=None,
        drain_timeout=60.0,
        arguments=(),
    )


def _configuration(settings: LaunchSettings) -> dict[str, Any]:
    LAUNCHER.prepare(settings)
    document: dict[str, Any] = json.loads((settings.home / ".hermes" / "config.yaml").read_bytes())
    return document


def test_it_is_registered() -> None:
    """`collect --harness hermes` finds it."""
    assert find_launcher("hermes") is LAUNCHER
    assert LAUNCHER.traits.protocols[0] is Protocol.OPENAI_CHAT_COMPLETIONS


@pytest.mark.parametrize(
    ("protocol", "mode", "url"),
    [
        (Protocol.OPENAI_CHAT_COMPLETIONS, "chat_completions", "http://127.0.0.1:1234/path/v1"),
        (Protocol.OPENAI_RESPONSES, "codex_responses", "http://127.0.0.1:1234/path/v1"),
        (Protocol.ANTHROPIC_MESSAGES, "anthropic_messages", "http://127.0.0.1:1234/path"),
    ],
)
def test_the_protocol_is_that_of_the_configured_provider(
    settings: LaunchSettings, protocol: Protocol, mode: str, url: str
) -> None:
    """Hermes adds `/v1` for Messages alone."""
    configuration = _configuration(replace(settings, protocol=protocol))
    provider = configuration["providers"][configuration["model"]["provider"]]
    assert (provider["api_mode"], provider["base_url"]) == (mode, url)
    assert configuration["model"]["default"] == "some-model"


def test_no_key_is_in_a_file_or_an_argument(settings: LaunchSettings) -> None:
    """Hermes is told the name of the variable that holds it."""
    _configuration(settings)
    files = [path for path in settings.home.rglob("*") if path.is_file()]
    assert files
    assert all(KEY.encode() not in path.read_bytes() for path in files)
    command = LAUNCHER.turn(settings, "x", None)
    assert KEY not in " ".join(command.arguments)
    assert command.environment["OPENAI_API_KEY"] == KEY


def test_the_plugin_is_laid_down_and_enabled(settings: LaunchSettings) -> None:
    """With no byte code, and nobody else may read the configuration."""
    configuration = _configuration(settings)
    home = settings.home / ".hermes"
    assert configuration["plugins"] == {"enabled": ["roller_capture"]}
    assert (home / "plugins" / "roller_capture" / "plugin.yaml").is_file()
    assert not list(home.rglob("__pycache__"))
    assert stat.S_IMODE((home / "config.yaml").stat().st_mode) == 0o600


def test_calls_that_nobody_asked_for_are_off(settings: LaunchSettings) -> None:
    """Titles, reviews, catalogues, probes and downloads."""
    configuration = _configuration(settings)
    assert configuration["auxiliary"]["title_generation"]["enabled"] is False
    assert configuration["skills"]["creation_nudge_interval"] == 0
    assert configuration["memory"]["nudge_interval"] == 0
    assert configuration["security"] == {"tirith_enabled": False, "allow_lazy_installs": False}
    assert (configuration["model_catalog"]["enabled"], configuration["agent"]["environment_probe"]) == (False, False)


def test_settings_given_as_arguments_are_written_and_not_passed_on(settings: LaunchSettings) -> None:
    """Numbers, truth values and words."""
    given = ("--config", "delegation.max_spawn_depth=2", "--config=compression.in_place=false", "--toolsets", "web")
    settings = replace(settings, arguments=given)
    configuration = _configuration(settings)
    assert configuration["delegation"] == {"max_spawn_depth": 2}
    assert configuration["compression"] == {"in_place": False}
    for session_id in (None, "s1"):
        arguments = LAUNCHER.turn(settings, "x", session_id).arguments
        assert "--toolsets=web" in arguments
        assert not [argument for argument in arguments if "--config" in argument]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gateway",), "gateway"),
        (("-z", "x"), "-z"),
        (("--oneshot=x",), "--oneshot"),
        (("--resume", "s1"), "--resume"),
        (("--model", "m"), "--model"),
        (("--provider=p",), "--provider"),
        (("--safe-mode",), "--safe-mode"),
        (("--ignore-user-config",), "--ignore-user-config"),
        (("--ignore-rules=1",), "--ignore-rules"),
        (("--toolsets",), "its value is missing"),
        (("--config",), "its value is missing"),
        (("--config", "agent.max_turns"), "KEY=VALUE"),
        (("--config", "delegation.base_url=http://x"), "it may set"),
        (("--config", "plugins.enabled=[]"), "it may set"),
        (("--config", "agent.max_turns=[1]"), "a number"),
        (("--", "x"), "--"),
    ],
)
def test_arguments_that_would_break_the_capture_are_refused(arguments: tuple[str, ...], said: str) -> None:
    """With the reason, before anything is written."""
    with pytest.raises(RollerError, match="cannot be given to hermes here") as caught:
        LAUNCHER.check_arguments(arguments)
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("arguments", [(), ("--ignore-rules",), ("-t", "web"), ("--skills=a,b", "--accept-hooks")])
def test_harmless_arguments_are_let_through(arguments: tuple[str, ...]) -> None:
    """Tools, skills and rules are the user's business."""
    LAUNCHER.check_arguments(arguments)


def test_a_model_has_to_be_named(settings: LaunchSettings) -> None:
    """Hermes has none of its own."""
    with pytest.raises(RollerError, match="--model"):
        LAUNCHER.prepare(replace(settings, model=None))


def test_the_first_turn_is_a_finite_query_and_further_ones_resume(settings: LaunchSettings) -> None:
    """The prompt may begin with a dash; `-z` would ignore the session."""
    first = LAUNCHER.turn(settings, "-x", None).arguments
    assert first[-1] == "--oneshot=-x"
    assert "--usage-file" in first
    second = LAUNCHER.turn(settings, "-y", "s1").arguments
    assert second[-1] == "--query=-y"
    assert second[second.index("--resume") + 1] == "s1"
    assert LAUNCHER.turn(settings, "x", "s1").environment["ROLLER_HERMES_FINITE"] == "1"


@pytest.mark.parametrize(
    ("output", "version"),
    [("Hermes Agent v0.19.0 (2026.7.20)\nPython: 3.11.7\n", "0.19.0"), ("hermes 1.0", None), ("", None)],
)
def test_the_version_is_read_from_the_first_line(output: str, version: str | None) -> None:
    """Anything else is no Hermes."""
    assert LAUNCHER.version_in(output) == version


def test_asking_for_the_version_looks_for_no_update(tmp_path: Path) -> None:
    """`hermes --version` does, and nothing answers it."""
    command = LAUNCHER.version_command(tmp_path / "hermes", tmp_path)
    assert command.environment["HTTPS_PROXY"] == "http://127.0.0.1:9"


def test_the_output_tells_sessions_answers_and_ends(tmp_path: Path) -> None:
    """One line a turn; anything else on it says nothing."""
    stdout = tmp_path / "stdout.jsonl"
    first = json.dumps({"type": "turn_end", "session_id": "s1", "answered": True}) + "\n"
    second = json.dumps({"type": "turn_end", "session_id": "s1", "answered": False}) + "\n"
    stdout.write_text(first + "noise\n" + json.dumps({"type": "turn_end", "session_id": 5}) + "\n")
    assert LAUNCHER.session_ids(stdout) == ["s1"]
    assert LAUNCHER.has_answered(stdout)
    end = stdout.stat().st_size
    assert not LAUNCHER.turn_has_ended(stdout, end)
    with stdout.open("a") as stream:
        stream.write(second)
    assert LAUNCHER.turn_has_ended(stdout, end)
    assert LAUNCHER.session_ids(tmp_path / "none") == []


def test_only_the_extracts_are_copied(tmp_path: Path) -> None:
    """The database itself, and whatever else a home holds, stays there; again gives the same."""
    home = tmp_path / "home"
    (home / ".hermes").mkdir(parents=True)
    with sqlite3.connect(home / ".hermes" / "state.db") as connection:
        connection.execute("CREATE TABLE sessions (id TEXT, source TEXT, parent_session_id TEXT)")
        connection.execute("CREATE TABLE messages (id INTEGER, session_id TEXT, role TEXT)")
        connection.execute("INSERT INTO sessions VALUES ('s1', 'cli', NULL), ('s2', 'cli', NULL)")
    connection.close()
    target = tmp_path / "native"
    for _ in range(2):
        gaps = LAUNCHER.copy_native(home, target, frozenset({"s1"}))
        assert [gap.code.value for gap in gaps] == ["hook_not_seen"]
        assert [path.name for path in target.iterdir()] == ["state.jsonl"]
    [row] = [json.loads(line) for line in (target / "state.jsonl").read_bytes().splitlines()]
    assert row["id"] == "s1"


def test_a_home_that_is_gone_is_told(tmp_path: Path) -> None:
    """Nothing is raised."""
    gaps = LAUNCHER.copy_native(tmp_path / "none", tmp_path / "native", frozenset({"s1"}))
    assert [gap.code.value for gap in gaps] == ["native_logs_missing"]


def _python(folder: Path, prints: str) -> Path:
    """A program whose first line names a Python that prints what is given."""
    folder.mkdir()
    interpreter = folder / "python3"
    interpreter.write_text(f"#!/bin/sh\necho '{prints}'\n")
    interpreter.chmod(0o755)
    binary = folder / "hermes"
    binary.write_text(f"#!{interpreter}\n")
    return binary


def test_a_plugin_that_does_not_fit_is_refused_before_the_run(tmp_path: Path, settings: LaunchSettings) -> None:
    """Hermes's own Python says what is missing."""
    binary = _python(tmp_path / "old", '{"problems": ["no middleware llm_request"]}')
    with pytest.raises(RollerError, match=r"does not fit.*no middleware llm_request.*0\.19\.0") as caught:
        LAUNCHER.prepare(replace(settings, binary=binary))
    assert caught.value.exit_code == 2


def test_further_turns_look_for_no_update(tmp_path: Path, settings: LaunchSettings) -> None:
    """Hermes finds that it has just looked, with this very version."""
    LAUNCHER.prepare(replace(settings, binary=_python(tmp_path / "new", '{"problems": [], "version": "0.19.0"}')))
    found = json.loads((settings.home / ".hermes" / ".update_check").read_bytes())
    assert (found["ver"], found["behind"], found["rev"]) == ("0.19.0", 0, None)


def test_a_model_service_has_to_be_named(settings: LaunchSettings) -> None:
    """Also in a run without capture."""
    with pytest.raises(RollerError, match="--api-base"):
        LAUNCHER.prepare(replace(settings, base_url=None))


@pytest.mark.parametrize("prints", ['{"problems": []}', "nonsense", "[]", ""])
def test_what_cannot_be_checked_is_run(tmp_path: Path, settings: LaunchSettings, prints: str) -> None:
    """A plugin that then does nothing is named afterwards, by `hook_not_seen`."""
    LAUNCHER.prepare(replace(settings, binary=_python(tmp_path / "some", prints)))
