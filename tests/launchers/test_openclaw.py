"""Tests of how OpenClaw is configured, started, waited for, and what its client's output says."""

import dataclasses
import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect.request import CollectRequest
from roller_capture.errors import RollerError
from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.openclaw import LAUNCHER
from roller_capture.launchers.openclaw_gateway import Gateway
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.openclaw_scenarios import SCENARIOS
from roller_capture.vocabulary import Protocol
from tests.support.collecting import collecting

KEY = "roller-dummy-canary"
SESSION = "11111111-0000-4000-8000-000000000001"


_LOADED = json.dumps({"plugin": {"id": "roller-headers", "status": "loaded", "providerIds": ["roller"]}}, indent=2)


def _install(program: Path, inspection: str) -> None:
    """A program that says this of our plugin."""
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{inspection}\nEND\n")
    program.chmod(0o700)


@pytest.fixture
def settings(tmp_path: Path) -> LaunchSettings:
    """One attempt."""
    for name in ("home", "tmp", "work", "bin"):
        (tmp_path / name).mkdir()
    _install(tmp_path / "bin/openclaw", _LOADED)
    return LaunchSettings(
        binary=tmp_path / "bin/openclaw",
        home=tmp_path / "home",
        temporary=tmp_path / "tmp",
        workdir=tmp_path / "work",
        base_url="http://127.0.0.1:4000",
        key_variable="OPENAI_API_KEY",
        key=KEY,
        model="some-model",
        protocol=Protocol.OPENAI_CHAT_COMPLETIONS,
        profile=None,
        drain_timeout=60.0,
        arguments=(),
    )


def configuration(settings: LaunchSettings) -> dict[str, Any]:
    """What `prepare` lays down."""
    LAUNCHER.prepare(settings)
    document: dict[str, Any] = json.loads((settings.home / ".openclaw/openclaw.json").read_text())
    return document


@pytest.mark.parametrize(
    ("protocol", "api", "base"),
    [
        (Protocol.OPENAI_CHAT_COMPLETIONS, "openai-completions", "http://127.0.0.1:4000/v1"),
        (Protocol.OPENAI_RESPONSES, "openai-responses", "http://127.0.0.1:4000/v1"),
        (Protocol.ANTHROPIC_MESSAGES, "anthropic-messages", "http://127.0.0.1:4000"),
    ],
)
def test_the_one_provider_is_the_proxy(settings: LaunchSettings, protocol: Protocol, api: str, base: str) -> None:
    """Under the id that our plugin claims, for every run: announcements use the primary model, not a turn's."""
    found = configuration(dataclasses.replace(settings, protocol=protocol))
    assert found["models"]["mode"] == "replace"
    [(name, provider)] = found["models"]["providers"].items()
    assert (provider["api"], provider["baseUrl"]) == (api, base)
    assert found["agents"]["defaults"]["model"] == {"primary": f"{name}/some-model"}
    plugin = json.loads((Path(found["plugins"]["load"]["paths"][0]) / "openclaw.plugin.json").read_text())
    assert name in plugin["providers"]
    assert found["plugins"]["allow"] == [plugin["id"]]


def test_the_key_is_in_the_environment_and_in_no_file(settings: LaunchSettings) -> None:
    """The configuration names the variable only; nobody else can read it."""
    found = configuration(settings)
    [provider] = found["models"]["providers"].values()
    assert provider["apiKey"] == "${OPENAI_API_KEY}"
    path = settings.home / ".openclaw/openclaw.json"
    assert KEY not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    turn = LAUNCHER.turn(settings, "Do it.", None)
    assert turn.environment["OPENAI_API_KEY"] == KEY
    assert not any(KEY in argument for argument in turn.arguments)


def test_nothing_is_written_outside_of_the_home(settings: LaunchSettings) -> None:
    """The log would go to the system's temporary folder by default."""
    found = configuration(settings)
    service = LAUNCHER.service(settings)
    assert service is not None
    assert Path(found["logging"]["file"]).is_relative_to(settings.home)
    for command in (service.command, LAUNCHER.turn(settings, "Do it.", None)):
        assert Path(command.environment["OPENCLAW_STATE_DIR"]).is_relative_to(settings.home)
        assert Path(command.environment["ROLLER_HOOK_LOG"]).is_relative_to(settings.home)
        assert command.environment["TMPDIR"] == str(settings.temporary)


def test_a_turn_goes_to_one_explicit_session(settings: LaunchSettings) -> None:
    """The first chooses an id, the next ones take the confirmed one; a prompt is never an option."""
    first = LAUNCHER.turn(settings, "--help", None).arguments
    second = LAUNCHER.turn(settings, "--help", SESSION).arguments
    assert first[-1] == second[-1] == "--message=--help"
    assert first[first.index("--session-id") + 1] != LAUNCHER.turn(settings, "x", None).arguments[4]
    assert second[second.index("--session-id") + 1] == SESSION


def test_the_node_beside_the_program_is_used(settings: LaunchSettings) -> None:
    """The system's may be too old; without one beside it, the program finds its own."""
    assert LAUNCHER.version_command(settings.binary, settings.home).arguments == (str(settings.binary), "--version")
    node = settings.binary.parent / "node"
    node.write_text("")
    node.chmod(0o700)
    assert LAUNCHER.version_command(settings.binary, settings.home).arguments[:2] == (str(node), str(settings.binary))


def test_a_model_has_to_be_named(settings: LaunchSettings) -> None:
    """OpenClaw has no default that the proxy could serve."""
    with pytest.raises(RollerError, match="--model"):
        LAUNCHER.prepare(dataclasses.replace(settings, model=None))


@pytest.mark.parametrize(
    ("inspection", "said"),
    [
        ('{"plugin": {"status": "error", "error": "register is no function"}}', "register is no function"),
        ('{"plugin": {"status": "disabled"}}', "disabled"),
        ('{"plugin": {"status": "loaded", "providerIds": ["other"]}}', "loaded"),
        ('{"plugin": {"status": "loaded", "providerIds": "roller"}}', "loaded"),
        ('{"plugin": 7}', "None"),
        ("no such plugin", "nothing of it"),
        ("", "nothing of it"),
    ],
)
def test_a_hook_that_does_not_fit_stops_the_run_before_it_begins(
    settings: LaunchSettings, inspection: str, said: str
) -> None:
    """The harness itself is asked, since without the hook no call could be attributed."""
    _install(settings.binary, inspection)
    with pytest.raises(RollerError, match=f"does not fit .*{said}"):
        LAUNCHER.prepare(settings)


def test_a_newer_version_that_the_hook_does_not_fit_is_refused_before_any_turn(tmp_path: Path) -> None:
    """The warning about the version first; then an error, of which the service has noticed nothing."""
    program = tmp_path / "openclaw"
    program.write_text("""#!/bin/sh
case "$*" in
  *--version) echo 'OpenClaw 2027.1.1 (abc)' ;;
  *inspect*) echo '{"plugin": {"status": "error", "error": "registerProvider is no function"}}' ;;
  *) echo started > "$0.started" ;;
esac
""")
    program.chmod(0o700)
    with ScriptedProvider(SCENARIOS["ordinary"]().decide) as provider:
        request = CollectRequest(
            harness="openclaw",
            run_dir=tmp_path / "run",
            prompts=("Do it.",),
            api_base=provider.url,
            capture_calls=True,
            model="m",
            harness_bin=program,
        )
        process = collecting(request, environment={**os.environ, "OPENAI_API_KEY": KEY})
        _, err = process.communicate()
    assert process.returncode == 1, err
    assert "warning: openclaw 2027.1.1 was never tested with this (tested: 2026.9.6)" in err
    assert "our plugin roller-headers does not fit this version (it says: registerProvider is no function)" in err
    assert not (tmp_path / "openclaw.started").exists()
    assert provider.truth.records == ()


def test_a_program_that_cannot_be_run_is_said(settings: LaunchSettings) -> None:
    """No traceback."""
    settings.binary.unlink()
    with pytest.raises(RollerError, match="cannot be run"):
        LAUNCHER.prepare(settings)


@pytest.mark.parametrize(
    "arguments",
    [["--local"], ["--session-id", "x"], ["exec"], ["--thinking", "off", "--deliver"], ["--thinking"], ["--model=x"]],
)
def test_arguments_that_would_break_the_capture_are_refused(arguments: list[str]) -> None:
    """Only what changes the model's thinking and the client's talk may be given."""
    with pytest.raises(RollerError):
        LAUNCHER.check_arguments(arguments)


@pytest.mark.parametrize("arguments", [[], ["--thinking", "high"], ["--thinking=high", "--verbose", "off"]])
def test_harmless_arguments_pass(arguments: list[str]) -> None:
    """Each with its value."""
    LAUNCHER.check_arguments(arguments)


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("OpenClaw 2026.9.6 (eb377ac)\n", "2026.9.6"),
        ("a notice\nOpenClaw 2026.10.1-beta.2 (abc)", "2026.10.1-beta.2"),
        ("2.1.332 (Claude Code)", None),
        ("", None),
    ],
)
def test_the_version_is_found_among_notices(output: str, version: str | None) -> None:
    """Or it is none of this harness."""
    assert LAUNCHER.version_in(output) == version


def _printed(session: str | None = SESSION, usage: object = 1) -> str:
    meta = {"agentMeta": {"sessionId": session, "usage": usage}}
    return json.dumps({"runId": "r", "status": "ok", "result": {"payloads": [], "meta": meta}}, indent=2) + "\n"


@pytest.mark.parametrize(
    ("text", "sessions", "answered", "ended"),
    [
        (_printed(), [SESSION], True, True),
        (_printed() + _printed(), [SESSION], True, True),
        ("a notice {\n" + _printed() + "another", [SESSION], True, True),
        (_printed() + _printed("other"), [SESSION, "other"], True, True),
        (_printed(None, None), [], False, True),
        (_printed()[:-20], [], False, False),
        ("[]\n{", [], False, False),
        ('{"result": [1], "a": "\ud800"}\n'.encode("utf-8", "surrogatepass").decode("latin1"), [], False, True),
        ("{" * 5000, [], False, False),
        ("", [], False, False),
    ],
    ids=["one", "two turns", "notices", "two sessions", "nothing", "torn", "no object", "odd", "deep", "empty"],
)
def test_the_clients_output_names_the_session(
    tmp_path: Path, text: str, sessions: list[str], answered: bool, ended: bool
) -> None:
    """One indented object for each turn."""
    stdout = tmp_path / "stdout.jsonl"
    stdout.write_text(text, encoding="utf-8")
    assert LAUNCHER.session_ids(stdout) == sessions
    assert LAUNCHER.has_answered(stdout) is answered
    assert LAUNCHER.turn_has_ended(stdout, 0) is ended
    assert LAUNCHER.turn_has_ended(stdout, len(text.encode())) is False
    assert LAUNCHER.session_ids(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("line", "ready"),
    [
        ("\x1b[90m2026\x1b[39m \x1b[36m[gateway]\x1b[39m \x1b[36mready\x1b[39m\n", True),
        ("2026 [gateway] ready\n", True),
        ("2026 [gateway] http server listening (2 plugins)\n", False),
        ("2026 [gateway] spawn broker ready pid=9703\n", False),
        ("2026 [gateway] ready to start\n", False),
    ],
)
def test_the_gateway_is_ready_when_it_says_so(settings: LaunchSettings, line: str, ready: bool) -> None:
    """Lines before it come while it takes no turns yet."""
    output = settings.temporary / "service.txt"
    gateway = LAUNCHER.service(settings)
    assert gateway is not None
    assert not gateway.is_ready(output)
    output.write_text(f"2026 [gateway] starting...\n{line}more\n")
    assert gateway.is_ready(output) is ready


_STOPPED = {"endedReason": "subagent-killed", "suppressAnnounceReason": "killed"}


def _over(**more: object) -> dict[str, Any]:
    ended = {"status": "terminal", "outcome": {"status": "ok"}}
    return {"execution": ended, "delivery": {"status": "delivered"}, "cleanupCompletedAt": 1, **more}


def _registry(home: Path, runs: list[object], tasks: list[str], sessions: list[str]) -> None:
    state, agent = home / ".openclaw/state", home / ".openclaw/agents/main/agent"
    for folder in (state, agent):
        folder.mkdir(parents=True)
    with closing(sqlite3.connect(state / "openclaw.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE subagent_runs (payload_json)")
        connection.execute("CREATE TABLE task_runs (status)")
        texts = [(run if isinstance(run, str) else json.dumps(run),) for run in runs]
        connection.executemany("INSERT INTO subagent_runs VALUES (?)", texts)
        connection.executemany("INSERT INTO task_runs VALUES (?)", [(status,) for status in tasks])
    with closing(sqlite3.connect(agent / "openclaw-agent.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE session_nodes (status)")
        connection.executemany("INSERT INTO session_nodes VALUES (?)", [(status,) for status in sessions])


@pytest.mark.parametrize(
    ("runs", "tasks", "sessions", "settled"),
    [
        ([], [], [], True),
        ([_over()], ["succeeded", "failed"], ["done", "failed"], True),
        ([_over(delivery={"status": "failed"})], [], [], True),
        ([_over(delivery={"status": "not_required"})], [], [], True),
        ([_over(), _over(execution={"status": "running"})], [], [], False),
        ([_over(delivery={"status": "pending"})], [], [], False),
        ([_over(delivery={"status": "in_progress"})], [], [], False),
        ([_over(delivery={"status": "session_queued"})], [], [], False),
        ([_over(delivery={"status": "a new word"})], [], [], False),
        ([_over(delivery=None)], [], [], False),
        ([_over(delivery={"status": "pending"}, **_STOPPED)], [], [], True),
        ([_over(delivery={"status": "pending"}, endedReason="subagent-killed")], [], [], False),
        ([_over(delivery={"status": "pending"}, cleanupCompletedAt=None, **_STOPPED)], [], [], False),
        ([_over(cleanupCompletedAt=None)], [], [], False),
        ([_over(requesterSettleWake={"attempt": 1})], [], [], False),
        ([_over()], ["succeeded", "running"], [], False),
        ([_over()], ["queued"], [], False),
        ([_over()], [], ["done", "running"], False),
        (["no json"], [], [], False),
        ([[1]], [], [], False),
    ],
)
def test_settled_is_what_the_registry_says_twice(
    settings: LaunchSettings, runs: list[object], tasks: list[str], sessions: list[str], settled: bool
) -> None:
    """Ended, delivered and cleaned up, and nobody at work; once could be the moment between end and announcement."""
    _registry(settings.home, runs, tasks, sessions)
    before = {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file()}
    gateway = LAUNCHER.service(settings)
    assert gateway is not None
    assert [gateway.is_settled() for _ in range(3)] == [False, settled, settled]
    assert {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file()} == before


def test_a_registry_that_cannot_be_read_says_nothing(settings: LaunchSettings) -> None:
    """Missing or damaged: not settled, no exception, and no empty database is made."""
    gateway = Gateway(LAUNCHER.turn(settings, "x", None), settings.home)
    assert [gateway.is_settled() for _ in range(2)] == [False, False]
    assert list(settings.home.rglob("*")) == []
    (settings.home / ".openclaw/state").mkdir(parents=True)
    assert not gateway.is_settled()
    assert list((settings.home / ".openclaw/state").iterdir()) == []
    (settings.home / ".openclaw/state/openclaw.sqlite").write_bytes(b"no database" * 100)
    assert [gateway.is_settled() for _ in range(2)] == [False, False]
