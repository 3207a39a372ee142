"""What `collect` gives to OpenCode, what it refuses, and what it reads and takes out of what OpenCode leaves."""

import base64
import json
import sqlite3
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.opencode import LAUNCHER
from roller_capture.launchers.opencode_project import folders_to_install_in
from roller_capture.launchers.opencode_service import OpenCodeService, is_answered, server_environment
from roller_capture.shipped import shipped_path
from roller_capture.vocabulary import AttemptErrorCode, Protocol

SESSION = "ses_0123456789abcdef"


def program(directory: Path, version: str = "1.18.33", hooks: str = '{"problems": []}') -> Path:
    """An executable that tells a version, and as a bare runtime what the look for our plugin's hooks found."""
    path = directory / "opencode"
    path.write_text(f"#!/bin/sh\n[ -z \"$BUN_BE_BUN\" ] || {{ echo '{hooks}'; exit; }}\necho {version}\n")
    path.chmod(0o700)
    return path


def settings(directory: Path, **changes: Any) -> LaunchSettings:
    """One attempt, with its private home."""
    home = directory / "home"
    home.mkdir(exist_ok=True)
    fields: dict[str, Any] = {
        "binary": directory / "opencode",
        "home": home,
        "temporary": directory / "tmp",
        "workdir": directory / "work",
        "base_url": "http://127.0.0.1:1/path",
        "key_variable": "OPENAI_API_KEY",
        "key": "dummy",
        "model": "m",
        "protocol": Protocol.OPENAI_CHAT_COMPLETIONS,
        "profile": None,
        "drain_timeout": 1.5,
        "arguments": (),
    }
    return LaunchSettings(**{**fields, **changes})


def configuration(settings: LaunchSettings) -> dict[str, Any]:
    """What the harness is told by its environment."""
    value = LAUNCHER.turn(settings, "x", None).environment["OPENCODE_CONFIG_CONTENT"]
    found: dict[str, Any] = json.loads(value)
    return found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--pure",), "plugins off"),
        (("--format", "default"), "collect gives it itself"),
        (("--format=json",), "collect gives it itself"),
        (("--no-format",), "collect gives it itself"),
        (("--dir", "/x"), "collect gives it itself"),
        (("-c",), "resumes it"),
        (("--session=x",), "resumes it"),
        (("-sx",), "resumes it"),
        (("--fork",), "resumes it"),
        (("--attach", "x"), "--profile background"),
        (("--port", "1"), "--profile background"),
        (("-m", "x"), "collect's own --model"),
        (("-i",), "nobody is there"),
        (("--share",), "on the network"),
        (("--title", "t", "--help"), "nothing would be run"),
        (("--", "x"), "second prompt"),
        (("go on",), "--prompt"),
        (("serve",), "--prompt"),
    ],
)
def test_arguments_that_break_the_capture_are_refused(arguments: tuple[str, ...], said: str) -> None:
    """With the reason, exit code 2."""
    with pytest.raises(RollerError, match=said) as caught:
        LAUNCHER.check_arguments(arguments)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "arguments", [(), ("--title", "t"), ("--agent", "plan"), ("--command", "look"), ("--variant=high",), ("-f", "x")]
)
def test_other_arguments_are_the_users_business(arguments: tuple[str, ...]) -> None:
    """They are handed on as they are."""
    LAUNCHER.check_arguments(arguments)


def test_the_command_of_a_turn(tmp_path: Path) -> None:
    """The prompt comes on the input, where a blank and a number are text; a further turn names the session."""
    first = LAUNCHER.turn(settings(tmp_path, arguments=("--title", "t")), '-do  "it"', None)
    common = (str(tmp_path / "opencode"), "run", "--format", "json", "--model", "roller/m")
    assert first.arguments == (*common, "--title", "t")
    assert first.standard_input == '-do  "it"'
    second = LAUNCHER.turn(settings(tmp_path), "more", SESSION)
    assert (second.arguments, second.standard_input) == ((*common, "--session", SESSION), "more")


@pytest.mark.parametrize(
    ("protocol", "package"),
    [
        (Protocol.OPENAI_CHAT_COMPLETIONS, "@ai-sdk/openai-compatible"),
        (Protocol.ANTHROPIC_MESSAGES, "@ai-sdk/anthropic"),
        (Protocol.OPENAI_RESPONSES, "@ai-sdk/openai"),
    ],
)
def test_each_protocol_has_its_client(tmp_path: Path, protocol: Protocol, package: str) -> None:
    """One provider, at the given address, without any key in the configuration."""
    config = configuration(settings(tmp_path, protocol=protocol))
    [provider] = config["provider"].values()
    assert provider["npm"] == package
    assert provider["options"] == {"baseURL": "http://127.0.0.1:1/path/v1", "apiKey": "{env:OPENAI_API_KEY}"}
    assert config["enabled_providers"] == ["roller"]
    assert config["small_model"] == config["model"] == "roller/m"


def test_the_environment_is_the_attempt_s_own(tmp_path: Path) -> None:
    """Every folder below the private home; nothing is fetched; the key in its variable."""
    environment = LAUNCHER.turn(settings(tmp_path), "x", None).environment
    folders = {name: value for name, value in environment.items() if name.startswith("XDG_")}
    assert len(folders) == 4
    assert all(Path(value).is_relative_to(tmp_path / "home") for value in folders.values())
    assert environment["OPENCODE_DISABLE_MODELS_FETCH"] == environment["OPENCODE_DISABLE_AUTOUPDATE"] == "1"
    assert environment["OPENAI_API_KEY"] == "dummy"
    assert "OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS" not in environment


def test_preparing_lays_down_the_hook_and_the_stub(tmp_path: Path) -> None:
    """The plugin that the configuration names is there, and the harness finds no package to install."""
    program(tmp_path)
    attempt = settings(tmp_path)
    LAUNCHER.prepare(attempt)
    [plugin] = configuration(attempt)["plugin"]
    hook = Path(plugin.removeprefix("file://"))
    assert hook.is_relative_to(attempt.home)
    assert hook.read_bytes() == shipped_path("hooks", "opencode", "roller-headers.js").read_bytes()
    config = attempt.home / ".config" / "opencode"
    assert (config / "node_modules").is_dir()
    lock = json.loads((config / "package-lock.json").read_text())
    assert lock["packages"][""]["dependencies"] == json.loads((config / "package.json").read_text())["dependencies"]


def a_project(place: Path, package: object = None, lock: object = None, *, modules: bool = True) -> Path:
    """A project's configuration folder in `place`."""
    folder = place / ".opencode"
    folder.mkdir(parents=True)
    for name, value in (("package.json", package), ("package-lock.json", lock)):
        if value is not None:
            (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    if modules:
        (folder / "node_modules").mkdir()
    return folder


PLUGIN = {"@opencode-ai/plugin": "1.18.33"}
LOCK = {"packages": {"": {"dependencies": PLUGIN}}}


@pytest.mark.parametrize(
    ("package", "lock", "modules", "installs"),
    [
        pytest.param(None, None, False, True, id="fresh"),
        pytest.param({"dependencies": PLUGIN}, LOCK, True, False, id="used-before"),
        pytest.param(None, LOCK, True, False, id="no-package"),
        pytest.param({"dependencies": PLUGIN}, LOCK, False, True, id="no-modules"),
        pytest.param({"dependencies": {**PLUGIN, "zod": "4"}}, LOCK, True, True, id="another-dependency"),
        pytest.param({"devDependencies": {"zod": "4"}}, LOCK, True, True, id="for-development"),
        pytest.param("{", LOCK, True, False, id="broken-package"),
        pytest.param({"dependencies": PLUGIN}, "[" * 9000, True, True, id="broken-lock"),
        pytest.param([1], {"packages": [{"": 1}]}, True, True, id="other-shapes"),
    ],
)
def test_where_opencode_would_install_its_plugin_package(
    tmp_path: Path, package: object, lock: object, modules: bool, installs: bool
) -> None:
    """By its own rule."""
    folder = a_project(tmp_path, package, lock, modules=modules)
    assert folders_to_install_in(tmp_path) == [folder] * installs


def test_folders_above_count_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    """OpenCode looks no further, and writes to no folder that it may not write to."""
    outside, top, inner = (a_project(tmp_path / name, modules=False) for name in (".", "top", "top/a/b"))
    (tmp_path / "top" / ".git").write_text("gitdir: elsewhere")
    assert folders_to_install_in(tmp_path / "top" / "a" / "b") == [inner, top]
    assert folders_to_install_in(tmp_path) == [outside]


def test_an_installation_from_the_network_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before it is waited for, with the folder; and it does not wait long for a network that is not there."""
    program(tmp_path)
    attempt = settings(tmp_path)
    LAUNCHER.prepare(attempt)
    assert capsys.readouterr().err == ""
    folder = a_project(tmp_path / "work", modules=False)
    LAUNCHER.prepare(attempt)
    assert str(folder) in capsys.readouterr().err
    assert "fetch-retry-maxtimeout=2000" in (attempt.home / ".npmrc").read_text()


@pytest.mark.parametrize(
    ("version", "changes", "said"),
    [
        ("2.0.18", {}, "does not load the hook"),
        ("1.18.33", {"model": None}, "--model"),
        ("1.18.33", {"base_url": None}, "--api-base"),
    ],
)
def test_what_cannot_be_captured_is_refused_before_the_run(
    tmp_path: Path, version: str, changes: Mapping[str, Any], said: str
) -> None:
    """A hook that does not fit, no model, no service: with what to do, exit code 2."""
    program(tmp_path, version)
    with pytest.raises(RollerError, match=said) as caught:
        LAUNCHER.prepare(settings(tmp_path, **changes))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        pytest.param('{"problems": ["no hook chat.headers"]}', "no hook chat.headers", id="without-the-hook"),
        pytest.param("1.18.33", "does not tell its hooks", id="another-program"),
        pytest.param("", "does not tell its hooks", id="says-nothing"),
        pytest.param('{"problems": 7}', "does not tell its hooks", id="odd"),
        pytest.param("[" * 100_000, "does not tell its hooks", id="deep"),
    ],
)
def test_a_program_without_our_hooks_is_refused_before_the_run(tmp_path: Path, hooks: str, said: str) -> None:
    """Whatever its version is: it would ignore the plugin without a word. Uncaptured, there is no plugin."""
    program(tmp_path, "1.17.0", hooks)
    with pytest.raises(RollerError, match=said) as caught:
        LAUNCHER.prepare(settings(tmp_path))
    assert caught.value.exit_code == 2
    LAUNCHER.prepare(settings(tmp_path, captured=False))


def test_the_hooks_are_looked_for_in_the_attempt_s_own_home(tmp_path: Path) -> None:
    """With no model that a program could ask which takes the script for a prompt."""
    seen = tmp_path / "seen"
    program(tmp_path).write_text(
        f'#!/bin/sh\n[ -z "$BUN_BE_BUN" ] || {{ env > "{seen}"; echo "$@" >> "{seen}"; }}\necho 1.18.33\n'
    )
    with pytest.raises(RollerError):
        LAUNCHER.prepare(settings(tmp_path))
    lines = seen.read_text().splitlines()
    assert lines[-1] == f"run {shipped_path('hooks', 'opencode', 'fits.js')}"
    assert {f"HOME={tmp_path / 'home'}", 'OPENCODE_CONFIG_CONTENT={"enabled_providers": []}'} <= set(lines)


def test_a_program_is_asked_once_and_leaves_nothing_running(tmp_path: Path) -> None:
    """Every sample of a run prepares anew; and what a program starts must not outlive its home."""
    asked, left = tmp_path / "asked", tmp_path / "left"
    program(tmp_path).write_text(
        f'#!/bin/sh\n[ -z "$BUN_BE_BUN" ] || {{ echo x >> "{asked}"; sleep 600 > /dev/null & echo $! > "{left}"; }}\n'
        "echo 1.18.33\n"
    )
    for _ in range(2):
        with pytest.raises(RollerError, match="does not tell its hooks"):
            LAUNCHER.prepare(settings(tmp_path))
    assert asked.read_text() == "x\n"
    state = Path(f"/proc/{left.read_text().strip()}/stat")
    until_gone = time.monotonic() + 30
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < until_gone
        time.sleep(0.01)


def test_an_uncaptured_run_delegates_nothing(tmp_path: Path) -> None:
    """Not with a profile either. The last rule is a pattern, since a project's own `task` keeps its place before `*`;
    a depth of 0 holds where an agent of the project's own is offered the tool."""
    for profile in (None, "nested"):
        config = configuration(settings(tmp_path, captured=False, profile=profile))
        assert list(config["permission"].items()) == [("*", "allow"), ("task", "deny"), ("tas?", "deny")]
        assert config["subagent_depth"] == 0
        denied = {name: list(agent["permission"].items()) for name, agent in config["agent"].items()}
        rules = [("task", "deny"), ("tas?", "deny")]
        assert list(denied) == ["build", "plan", "general", "explore"]
        assert all(found == rules for found in denied.values())
        assert "plugin" not in config


def test_delegation_is_permitted_where_calls_are_captured(tmp_path: Path) -> None:
    """The protocol's rule for OpenCode; nested delegation only with its profile."""
    config = configuration(settings(tmp_path))
    assert config["permission"] == {"*": "allow"}
    assert "subagent_depth" not in config
    nested = configuration(settings(tmp_path, profile="nested"))
    assert nested["subagent_depth"] == 2
    assert nested["agent"]["general"]["permission"] == {"task": "allow"}


def test_only_the_profile_background_has_a_service(tmp_path: Path) -> None:
    """Its turns are attached to the address that the server printed."""
    assert LAUNCHER.service(settings(tmp_path)) is None
    attempt = settings(tmp_path, profile="background")
    service = LAUNCHER.service(attempt)
    assert service is not None
    assert service.command.arguments[1:] == ("serve", "--hostname", "127.0.0.1", "--port", "0")
    assert service.command.environment["OPENCODE_EXPERIMENTAL_BACKGROUND_SUBAGENTS"] == "true"
    with pytest.raises(RollerError):
        LAUNCHER.turn(attempt, "x", None)
    output = tmp_path / "output"
    output.write_text("")
    assert not service.is_ready(output)
    output.write_text("opencode server listening on http://127.0.0.1:4096\n")
    assert service.is_ready(output)
    command = LAUNCHER.turn(attempt, "x", None).arguments
    assert command[command.index("--attach") + 1] == "http://127.0.0.1:4096"
    assert command[command.index("--dir") + 1] == str(tmp_path / "work")


def test_the_server_has_a_password_of_its_attempt(tmp_path: Path) -> None:
    """Other users of the machine reach loopback too. Server and turns have the same one, in a file for nobody else."""
    homes = [tmp_path / name for name in ("one", "two")]
    found = []
    for home in homes:
        home.mkdir()
        attempt = settings(home, profile="background")
        service = LAUNCHER.service(attempt)
        assert service is not None
        (attempt.home / "roller-server-address").write_text("http://127.0.0.1:9")
        both = (service.command, LAUNCHER.turn(attempt, "x", None))
        [password] = {command.environment["OPENCODE_SERVER_PASSWORD"] for command in both}
        assert not any(password in argument for command in both for argument in command.arguments)
        assert (attempt.home / "roller-server-password").stat().st_mode & 0o777 == 0o600
        found.append(password)
    assert len(set(found)) == 2
    assert all(len(password) >= 32 for password in found)
    assert "OPENCODE_SERVER_PASSWORD" not in LAUNCHER.turn(settings(tmp_path), "x", None).environment


class _Server(BaseHTTPRequestHandler):
    """An OpenCode server without sessions, which notes what it was asked with."""

    seen: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers["authorization"])
        body = b"{}" if self.path == "/session/status" else b"[]"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_the_server_is_asked_with_its_password(tmp_path: Path) -> None:
    """By HTTP's basic authentication."""
    password = server_environment(tmp_path)["OPENCODE_SERVER_PASSWORD"]
    with HTTPServer(("127.0.0.1", 0), _Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (tmp_path / "roller-server-address").write_text(f"http://127.0.0.1:{server.server_port}")
        assert OpenCodeService(tmp_path / "opencode", tmp_path, {}).is_settled()
        server.shutdown()
    expected = "Basic " + base64.b64encode(f"opencode:{password}".encode()).decode()
    assert set(_Server.seen) == {expected}


def test_a_server_that_does_not_answer_has_not_settled(tmp_path: Path) -> None:
    """Nothing is raised; it is asked again."""
    service = OpenCodeService(tmp_path / "opencode", tmp_path, {})
    assert not service.is_settled()
    (tmp_path / "roller-server-address").write_text("http://127.0.0.1:9")
    assert not service.is_settled()
    server_environment(tmp_path)
    assert not service.is_settled()


@pytest.mark.parametrize("home", ["missing", "file"])
def test_a_password_that_cannot_be_kept_is_told(tmp_path: Path, home: str) -> None:
    """No server without one."""
    (tmp_path / "file").write_text("")
    with pytest.raises(RollerError, match="cannot be written"):
        server_environment(tmp_path / home)


def _message(role: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": {"role": role, **info}, "parts": list(parts)}


_LAUNCH = _message(
    "assistant",
    {
        "type": "tool",
        "tool": "task",
        "callID": "c",
        "state": {"status": "completed", "metadata": {"sessionId": "ses_c", "background": True, "jobId": "ses_c"}},
    },
    time={"completed": 1},
    finish="tool-calls",
)
_DONE = _message("assistant", time={"completed": 1}, finish="stop")
_TOLD = _message("user", {"type": "text", "synthetic": True, "text": '<task id="ses_c" state="completed">x</task>'})
_TYPED = _message("user", {"type": "text", "text": '<task id="ses_c" state="completed">x</task>'})


@pytest.mark.parametrize(
    ("messages", "answered"),
    [
        pytest.param([_DONE], True, id="no-child"),
        pytest.param([_LAUNCH, _DONE], False, id="launched"),
        pytest.param([_LAUNCH, _DONE, _TYPED, _DONE], False, id="somebody-typed-it"),
        pytest.param([_LAUNCH, _DONE, _TOLD], False, id="told"),
        pytest.param([_LAUNCH, _DONE, _TOLD, _message("assistant")], False, id="answering"),
        pytest.param([_LAUNCH, _DONE, _TOLD, _DONE], True, id="answered"),
        pytest.param([_LAUNCH, _TOLD, _DONE, _LAUNCH, _DONE], False, id="launched-again"),
        pytest.param([None, 7, {"info": [], "parts": {}}, {"parts": [None, "x"]}], True, id="other-shapes"),
    ],
)
def test_a_session_is_settled_when_every_launch_was_told_and_answered(messages: list[Any], answered: bool) -> None:
    """An idle parent alone says nothing."""
    assert is_answered(messages) is answered


def test_what_the_output_says(tmp_path: Path) -> None:
    """Session ids once each, an answer, and the end of a turn; anything else on it says nothing."""
    stdout = tmp_path / "stdout"
    lines = [
        {"type": "step_start", "sessionID": SESSION, "part": {}},
        {"type": "step_finish", "sessionID": SESSION, "part": {"reason": "tool-calls"}},
        {"type": "error", "sessionID": 7},
    ]
    stdout.write_text("no json\n" + "".join(json.dumps(line) + "\n" for line in lines))
    assert LAUNCHER.session_ids(stdout) == [SESSION]
    assert LAUNCHER.has_answered(stdout)
    assert not LAUNCHER.turn_has_ended(stdout, 0)
    start = stdout.stat().st_size
    with stdout.open("a") as stream:
        stream.write(json.dumps({"type": "step_finish", "sessionID": SESSION, "part": {"reason": "stop"}}) + "\n")
    assert LAUNCHER.turn_has_ended(stdout, start)
    assert LAUNCHER.session_ids(tmp_path / "missing") == []


@pytest.mark.parametrize(("output", "version"), [("1.18.33\n", "1.18.33"), ("v2.0.18", "2.0.18"), ("x 1.18.33", None)])
def test_the_version(output: str, version: str | None) -> None:
    """The whole output is the version."""
    assert LAUNCHER.version_in(output.strip()) == version


def test_what_is_copied_is_an_extract(tmp_path: Path) -> None:
    """The wanted session's rows of the database, in a file that the adapter finds; never the database."""
    folder = tmp_path / "home" / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    database = sqlite3.connect(folder / "opencode.db", isolation_level=None)
    database.execute("CREATE TABLE session (id TEXT, parent_id TEXT)")
    database.execute("CREATE TABLE message (id TEXT, session_id TEXT, data TEXT)")
    database.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
    database.execute("INSERT INTO session VALUES (?, NULL), ('ses_other', NULL)", (SESSION,))
    database.close()
    target = tmp_path / "native"
    assert LAUNCHER.copy_native(tmp_path / "home", target, frozenset({SESSION})) == []
    assert [path.name for path in target.iterdir()] == ["opencode.jsonl"]
    assert json.loads((target / "opencode.jsonl").read_text()) == {"table": "session", "id": SESSION, "parent_id": None}


@pytest.mark.parametrize("made", [False, True])
def test_a_home_without_sessions_is_named(tmp_path: Path, made: bool) -> None:
    """It is gone, or the harness never came to write anything."""
    if made:
        (tmp_path / "home").mkdir()
    [gap] = LAUNCHER.copy_native(tmp_path / "home", tmp_path / "native", frozenset())
    assert gap.code is AttemptErrorCode.NATIVE_LOGS_MISSING
