"""What `collect` gives to DeepSeek Harness, what it refuses, and what it reads and copies of what that leaves."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard

from roller_capture.errors import RollerError
from roller_capture.launchers import LaunchSettings
from roller_capture.launchers.deepseek import LAUNCHER
from roller_capture.vocabulary import AttemptErrorCode, Protocol

ROOT = "session-11111111-2222-4333-8444-555555555555"
CHILD = "aaaaaaaa-1111-4222-8333-444444444444"
OTHER = "bbbbbbbb-1111-4222-8333-444444444444"


def settings(tmp_path: Path, **changes: Any) -> LaunchSettings:
    """One attempt."""
    (tmp_path / "home").mkdir(exist_ok=True)
    fields: dict[str, Any] = {
        "binary": Path("/opt/dsh"),
        "home": tmp_path / "home",
        "temporary": tmp_path / "tmp",
        "workdir": tmp_path,
        "base_url": "http://127.0.0.1:1",
        "key_variable": "DEEPSEEK_API_KEY",
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
        (("--profile", "web"), "collect's own --profile"),
        (("--profile=web",), "collect's own --profile"),
        (("--session-id", "x"), "resumes it"),
        (("--patch", "a.yml", "--json"), "collect gives it itself"),
        (("--dump-config",), "nothing would be run"),
        (("-V",), "nothing would be run"),
        (("--", "x"), "second prompt"),
        (("go on",), "only --patch"),
        (("plugin", "add"), "only --patch"),
        (("--patch",), "its value is missing"),
        (("--patch=",), "its value is missing"),
        (("--max-tokens", "many"), "no number"),
    ],
)
def test_arguments_that_break_the_capture_are_refused(arguments: tuple[str, ...], said: str) -> None:
    """With the reason, exit code 2."""
    with pytest.raises(RollerError, match=said) as caught:
        LAUNCHER.check_arguments(arguments)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "arguments", [(), ("--patch", "a.yml", "--patch=b.yml"), ("--max-tokens", "20"), ("--max-tokens=20",)]
)
def test_changes_to_the_configuration_may_be_given(arguments: tuple[str, ...]) -> None:
    """They are handed on as they are."""
    LAUNCHER.check_arguments(arguments)


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("0.2.1-rc.2\n", "0.2.1rc2"),
        ("0.3.0\n", "0.3.0"),
        ("1.0.0-beta.1", "1.0.0b1"),
        ("dsh: an error\n", None),
        ("0.2.1-rc.2 and more\n", None),
    ],
)
def test_the_version_is_that_of_the_package(output: str, version: str | None) -> None:
    """The program spells it otherwise."""
    assert LAUNCHER.version_in(output) == version


def test_a_turn_runs_the_driver_with_the_minimal_profile(tmp_path: Path) -> None:
    """The prompt stands last, behind `--`; a further turn names the session."""
    given = settings(tmp_path, arguments=("--patch", "more.yml"), model="a-model")
    first = LAUNCHER.turn(given, "-do it", None)
    assert first.arguments[:2] == (sys.executable, "-I")
    assert Path(first.arguments[2]).is_file()
    options = ("--profile", "sdk-minimal", "--cwd", str(tmp_path))
    provider = ("--provider", "deepseek-official", "--model", "a-model", "--drain", "1.5")
    patches = ("--patch", str(tmp_path / "home" / "roller.patch.yml"), "--patch", "more.yml")
    assert first.arguments[3:] == ("--dsh", "/opt/dsh", *options, *provider, *patches, "--", "-do it")
    second = LAUNCHER.turn(given, "more", ROOT)
    assert second.arguments[-3:] == (f"--resume={ROOT}", "--", "more")


def test_headless_is_the_command_itself(tmp_path: Path) -> None:
    """It waits for its subagents; its model stands in the configuration."""
    given = settings(tmp_path, profile="headless", model="a-model")
    patch = tmp_path / "home" / "roller.patch.yml"
    start = ("/opt/dsh", "--profile", "headless", "--patch", str(patch), "--json")
    assert LAUNCHER.turn(given, "-do it", None).arguments == (*start, "--", "-do it")
    assert LAUNCHER.turn(given, "more", ROOT).arguments == (*start, "--session-id", ROOT, "--", "more")
    LAUNCHER.prepare(given)
    row = {"id": "agent-default-model", "config": {"provider": "deepseek-official", "model": "a-model"}}
    assert [json.loads(line.removeprefix("- ")) for line in patch.read_text().splitlines()] == [row]


def test_the_environment_of_a_turn(tmp_path: Path) -> None:
    """A home of its own, no telemetry, and the key and the base of this attempt only."""
    environment = LAUNCHER.turn(settings(tmp_path), "x", None).environment
    assert environment == {
        "DSH_HOME": str(tmp_path / "home" / ".dsh"),
        "DSH_TELEMETRY_DISABLED": "1",
        "DSH_PERMISSION_MODE": "danger-full-access",
        "TMPDIR": str(tmp_path / "tmp"),
        "DEEPSEEK_BASE_URL": "http://127.0.0.1:1",
        "DEEPSEEK_API_KEY": "dummy",
    }
    bare = LAUNCHER.turn(settings(tmp_path, base_url=None, key=None), "x", None).environment
    assert "DEEPSEEK_BASE_URL" not in bare
    assert "DEEPSEEK_API_KEY" not in bare


@pytest.mark.parametrize(
    ("protocol", "api"),
    [(Protocol.OPENAI_RESPONSES, "openai-responses"), (Protocol.OPENAI_CHAT_COMPLETIONS, "openai-completions")],
)
@pytest.mark.parametrize("profile", ["sdk", "headless"])
def test_another_protocol_gets_a_provider_of_its_own(
    tmp_path: Path, profile: str, protocol: Protocol, api: str
) -> None:
    """Behind the proxy, with the key's variable and never the key."""
    given = settings(tmp_path, profile=profile, protocol=protocol, model="a-model", key="secret-of-the-user")
    LAUNCHER.prepare(given)
    text = (tmp_path / "home" / "roller.patch.yml").read_text()
    assert "secret-of-the-user" not in text
    provider = json.loads(text.splitlines()[0].removeprefix("- "))["config"]["providers"]["roller"]
    assert (provider["api"], provider["baseURL"], provider["apiKeyEnv"]) == (
        api,
        "http://127.0.0.1:1/v1",
        "DEEPSEEK_API_KEY",
    )
    assert [model["id"] for model in provider["models"]] == ["a-model"]
    arguments = LAUNCHER.turn(given, "x", None).arguments
    assert profile == "headless" or arguments[arguments.index("--provider") + 1] == "roller"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"protocol": Protocol.OPENAI_RESPONSES}, "add --profile sdk"),
        ({"protocol": Protocol.OPENAI_CHAT_COMPLETIONS, "profile": "sdk-minimal"}, "add --profile sdk"),
        ({"profile": "headless", "arguments": ("--max-tokens", "20")}, "has no such option"),
    ],
)
def test_what_a_profile_cannot_do_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    """Before anything is run."""
    with pytest.raises(RollerError, match=said) as caught:
        LAUNCHER.prepare(settings(tmp_path, **changes))
    assert caught.value.exit_code == 2


def _stdout(tmp_path: Path, *records: object) -> Path:
    path = tmp_path / "stdout.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("records", "ids", "answered", "ended"),
    [
        ([], [], False, False),
        ([{"type": "session", "sessionId": ROOT}], [ROOT], False, False),
        ([{"type": "session", "sessionId": ROOT}, {"type": "session", "sessionId": ROOT}], [ROOT], False, False),
        ([{"type": "session", "sessionId": 7}, "x", [1], {"type": "answer"}], [], True, False),
        ([{"type": "turn", "root": False}, {"type": "turn", "root": True}], [], False, True),
        ([{"type": "text", "text": "x"}, {"type": "status", "phase": "turn_end"}], [], True, True),
    ],
)
def test_what_the_output_says(
    tmp_path: Path, records: list[object], ids: list[str], answered: bool, ended: bool
) -> None:
    """That of the driver and that of `headless`."""
    path = _stdout(tmp_path, *records)
    assert LAUNCHER.session_ids(path) == ids
    assert LAUNCHER.has_answered(path) is answered
    assert LAUNCHER.turn_has_ended(path, 0) is ended
    assert not LAUNCHER.turn_has_ended(path, path.stat().st_size)


def test_no_output_says_nothing(tmp_path: Path) -> None:
    """The harness may have died before."""
    assert LAUNCHER.session_ids(tmp_path / "none") == []
    assert not LAUNCHER.has_answered(tmp_path / "none")


def _log(home: Path, session_id: str, *children: str, compressed: bool = False) -> bytes:
    records = [{"type": "session", "id": session_id}]
    records += [{"type": "subagent/catalog", "data": {"childId": child}} for child in children]
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    folder = home / ".dsh" / "sessions" / "--w--" / session_id
    folder.mkdir(parents=True)
    if compressed:
        (folder / "session.v4.jsonl.zstd").write_bytes(zstandard.ZstdCompressor().compress(data))
    else:
        (folder / "session.v4.jsonl").write_bytes(data)
    (folder / "session.lock").touch()
    return data


@pytest.mark.parametrize("compressed", [False, True])
def test_the_sessions_and_their_descendants_are_copied(tmp_path: Path, compressed: bool) -> None:
    """Expanded, readable by nobody else, and nothing besides; a second copy replaces the first."""
    home = tmp_path / "home"
    logs = {ROOT: _log(home, ROOT, CHILD, compressed=compressed), CHILD: _log(home, CHILD, compressed=compressed)}
    _log(home, OTHER)
    (home / ".dsh" / "credentials.json").write_text("{}")
    target = tmp_path / "target"
    for _ in range(2):
        assert LAUNCHER.copy_native(home, target, frozenset({ROOT})) == []
    copied = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    assert {path.parent.name: data for path, data in copied.items()} == logs
    assert {path.name for path in copied} == {"session.v4.jsonl"}
    assert {path.stat().st_mode & 0o777 for path in copied} == {0o600}


def test_a_torn_log_is_copied_as_far_as_it_goes(tmp_path: Path) -> None:
    """And said so."""
    home = tmp_path / "home"
    whole = _log(home, ROOT, compressed=True)
    path = home / ".dsh" / "sessions" / "--w--" / ROOT / "session.v4.jsonl.zstd"
    with path.open("ab") as stream:
        stream.write(zstandard.ZstdCompressor(write_checksum=True).compress(b"more\n")[:-3])
    gaps = LAUNCHER.copy_native(home, tmp_path / "target", frozenset({ROOT}))
    assert [gap.code for gap in gaps] == [AttemptErrorCode.NATIVE_LOG_UNREADABLE]
    assert (tmp_path / "target" / "sessions" / "--w--" / ROOT / "session.v4.jsonl").read_bytes().startswith(whole)


def test_a_home_that_is_gone(tmp_path: Path) -> None:
    """A gap."""
    gaps = LAUNCHER.copy_native(tmp_path / "none", tmp_path / "target", frozenset({ROOT}))
    assert [gap.code for gap in gaps] == [AttemptErrorCode.NATIVE_LOGS_MISSING]
