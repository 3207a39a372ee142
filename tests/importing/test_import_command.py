"""The command: all or nothing, no credential on disk, logs alone are refused."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.importing import command, feeding
from roller_capture.importing.command import ImportRequest, import_attempt
from tests.importing.recorded import ANSWER, KEY, QUESTION, flow, har_entry, write_flows, write_har
from tests.support.attempts import ROOT_SESSION

SESSION = (b"x-claude-code-session-id", ROOT_SESSION.encode())


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _log(home: Path, *records: dict[str, object]) -> Path:
    path = home / ".claude" / "projects" / "-work" / f"{ROOT_SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_no_credential_is_on_disk(tmp_path: Path) -> None:
    """Not that of headers and queries, nor what answers and the harness's logs echo: in flows and HAR, coded or not."""
    echo = json.dumps({"error": {"message": f"invalid key {KEY}"}}).encode()
    bad = flow("/v1/messages?api_key=hunter2hunter2", SESSION, response=echo, status=401)
    coded = flow("/v1/messages", SESSION, response=None, status=401, answer_headers=((b"content-encoding", b"gzip"),))
    assert coded.response is not None
    coded.response.content = echo
    cookie = flow(
        "/v1/messages", (b"cookie", b"session=verysecretcookie"), (b"authorization", f"Bearer {KEY}".encode())
    )
    other = flow("/hook/bot123456:AAsecretsecretsecret", request=b"hello")
    entry = har_entry(response={"status": 401, "content": {"text": echo.decode()}})
    _log(tmp_path / "home", {"sessionId": ROOT_SESSION, "type": "user", "error": f"key {KEY} refused"})
    sources = (write_flows(tmp_path / "f", bad, coded, cookie, other), write_har(tmp_path / "h", entry))
    outcome = import_attempt(ImportRequest(sources, tmp_path / "attempt", "claude-code", tmp_path / "home"))
    assert (outcome.calls, outcome.others, outcome.native_files) == (4, 1, 1)
    stored = _files(tmp_path / "attempt")
    assert any(b"invalid key ****" in data for data in stored.values())
    assert any(name.endswith(f"{ROOT_SESSION}.jsonl") and b"key ****" in data for name, data in stored.items())
    for secret in (KEY, "hunter2hunter2", "verysecretcookie", "AAsecretsecretsecret"):
        assert [name for name, data in stored.items() if secret.encode() in data] == []
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "attempt").rglob("*")} == {0}


def test_the_source_is_named_by_hash_and_not_by_place(tmp_path: Path) -> None:
    """attempt.json says what was imported."""
    path = write_flows(tmp_path / "f.mitm", flow())
    import_attempt(ImportRequest((path,), tmp_path / "attempt", "generic"))
    info = json.loads((tmp_path / "attempt" / "work" / "attempt.json").read_bytes())
    (source,) = info["options"]["imported_from"]
    assert (source["name"], source["kind"], source["bytes"]) == ("f.mitm", "mitmproxy-flows", path.stat().st_size)
    assert info["closed"] is True
    assert "mitmproxy" not in info["versions"]


_SHAREGPT = '{"conversations": [{"from": "human", "value": "a"}], "timestamp": "t", "model": "m", "completed": true}\n'
_CASSETTE = """\
interactions:
- request: {method: POST, uri: "https://api.example.com/v1/messages"}
  response:
    body:
      string: "event: message_start

        data: {\\"type\\": \\"message_start\\"}

        "
"""


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("trajectory_samples.jsonl", _SHAREGPT, "a harness's own log is no record of its requests"),
        ("cassette.yaml", _CASSETTE, "is neither a mitmdump -w file nor a HAR"),
    ],
)
def test_what_other_programs_keep_of_a_conversation_is_refused(tmp_path: Path, name: str, text: str, why: str) -> None:
    """Conversations without requests, and cassettes, whose long lines are folded: one line, and nothing is made."""
    (tmp_path / name).write_text(text)
    arguments = ["import", str(tmp_path / name), "--attempt", str(tmp_path / "attempt"), "--harness", "hermes"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert why in result.stderr
    assert not (tmp_path / "attempt").exists()


@pytest.mark.parametrize("kind", ["file", "folder", "HOME"])
def test_a_harness_log_alone_is_refused(tmp_path: Path, kind: str) -> None:
    """It says why: a log is no record of requests."""
    log = _log(tmp_path / "home", {"sessionId": ROOT_SESSION, "uuid": "u", "type": "user"}, {"type": "assistant"})
    source = {"file": log, "folder": log.parent, "HOME": tmp_path / "home"}[kind]
    result = CliRunner().invoke(
        app, ["import", str(source), "--attempt", str(tmp_path / "attempt"), "--harness", "claude-code"]
    )
    assert result.exit_code == 1
    assert "what was really sent are not in it, so no call can be made from it" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "attempt").exists()


@pytest.mark.parametrize(
    ("case", "words", "code"),
    [
        ("missing", "no such file", 2),
        ("folder", "is a folder", 2),
        ("harness", "unknown harness", 2),
        ("native", "is no directory", 2),
        ("used", "is there already", 1),
        ("nothing", "holds no model request", 1),
        ("damaged", "record 1 cannot be read", 1),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing(tmp_path: Path, case: str, words: str, code: int) -> None:
    """The attempt's directory is not there, or as it was."""
    path, attempt, harness, native = write_flows(tmp_path / "f", flow()), tmp_path / "attempt", "generic", None
    if case == "missing":
        path = tmp_path / "none"
    elif case == "folder":
        path = tmp_path / "empty"
        path.mkdir()
    elif case == "harness":
        harness = "nobody"
    elif case == "native":
        native = tmp_path / "none"
    elif case == "used":
        attempt.mkdir()
        (attempt / "file").touch()
    elif case == "nothing":
        write_flows(path, flow("/v1/models", method="GET"))
    elif case == "damaged":
        path.write_bytes(b"3:abc,")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RollerError, match=words) as caught:
        import_attempt(ImportRequest((path,), attempt, harness, native))
    assert caught.value.exit_code == code
    assert sorted(tmp_path.rglob("*")) == before


def test_an_import_that_fails_on_the_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, a fault of ours, an interrupt."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(feeding.Feeder, "note", interrupted)
    with pytest.raises(KeyboardInterrupt):
        import_attempt(ImportRequest((write_flows(tmp_path / "f", flow()),), tmp_path / "attempt", "generic"))
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_a_disk_that_takes_no_more_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import is whole or not there: unlike a recording, it can be done again."""
    real = command.AttemptRecorder.stop

    def failing(self: command.AttemptRecorder) -> None:
        self.journal.disk_error(None, "x", OSError(28, "No space left on device"))
        real(self)

    monkeypatch.setattr(command.AttemptRecorder, "stop", failing)
    with pytest.raises(RollerError, match="make room"):
        import_attempt(ImportRequest((write_flows(tmp_path / "f", flow()),), tmp_path / "attempt", "generic"))
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_logs_of_other_sessions_are_not_copied(tmp_path: Path) -> None:
    """Only those that the requests name; it is said when there is none."""
    _log(tmp_path / "home", {"sessionId": ROOT_SESSION})
    (tmp_path / "home" / ".credentials.json").write_text("{}")
    path = write_flows(tmp_path / "f", flow("/v1/messages", (SESSION[0], b"99999999-2222-4333-8444-555555555555")))
    request = ImportRequest((path,), tmp_path / "attempt", "claude-code", tmp_path / "home")
    outcome = import_attempt(request)
    assert outcome.native_files == 0
    assert any("no log of a session" in line for line in command.outcome_lines(request, outcome))
    assert set(_files(tmp_path / "attempt" / "work" / "native")) == {"launcher.json"}


def test_the_command_says_what_to_do_now(tmp_path: Path) -> None:
    """And what is not proven."""
    path = write_flows(tmp_path / "f", flow(request=QUESTION, response=ANSWER))
    attempt = tmp_path / "my attempt"
    result = CliRunner().invoke(app, ["import", str(path), "--attempt", str(attempt), "--harness", "generic"])
    assert result.exit_code == 0
    assert "imported 1 call, 0 other requests\n" in result.stderr
    assert "not proven: import_calls_unproven (1), import_timing_unknown (1)" in result.stderr
    assert f"roller-capture finalize '{attempt}' --execution-status completed" in result.stderr
    assert result.stdout == ""


def test_only_flow_files_need_mitmproxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not installed, one line says so, and a HAR is imported."""
    flows, har = write_flows(tmp_path / "f", flow()), write_har(tmp_path / "h", har_entry())
    monkeypatch.delitem(sys.modules, "roller_capture.importing.flow_file", raising=False)
    monkeypatch.setitem(sys.modules, "mitmproxy", None)
    with pytest.raises(RollerError, match="are read with mitmproxy") as caught:
        import_attempt(ImportRequest((flows,), tmp_path / "attempt", "generic"))
    assert caught.value.exit_code == 2
    assert import_attempt(ImportRequest((har,), tmp_path / "attempt", "generic")).calls == 1


def test_the_example_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands there."""
    text = (Path(__file__).parents[2] / "docs" / "import.md").read_text(encoding="utf-8")
    commands = text.split("```sh\n")[1].split("```")[0].splitlines()
    assert [command.split()[:2] for command in commands] == [
        ["roller-capture", "import"],
        ["roller-capture", "finalize"],
    ]
    monkeypatch.chdir(tmp_path)
    write_flows(tmp_path / "flows.mitm", flow("/v1/messages", SESSION))
    _log(tmp_path / "agent-home", {"sessionId": ROOT_SESSION, "type": "user"})
    for line in commands:
        assert CliRunner().invoke(app, shlex.split(line)[1:]).exit_code == 0, line
    assert (tmp_path / "runs" / "attempt-0001" / "manifest.json").is_file()
