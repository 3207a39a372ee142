"""The command line: exit codes, one-line errors, what goes to stdout and what to stderr."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from roller_capture import __version__
from roller_capture.cli import app, main
from roller_capture.vocabulary import DebugRetention
from tests.support.attempts import AttemptBuilder, message_body, native_capture, participant, request_body
from tests.support.publish import family_attempt, family_capture, publish_family, use_capture

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


def run(*arguments: str | Path) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of the command, in this process."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the harness's adapter."""
    use_capture(monkeypatch, family_capture())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_an_example(command: str) -> None:
    """`--help` explains each with an example."""
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "Example:" in out


def test_the_version_is_the_packages() -> None:
    """`--version` prints name and version."""
    assert run("--version") == (0, f"roller-capture {__version__}\n", "")


def test_finalize_publishes_and_says_so_in_one_line(tmp_path: Path, adapter: None) -> None:
    """Exit 0, the line on stderr, nothing on stdout."""
    del adapter
    family_attempt(tmp_path).build()
    code, out, err = run("finalize", tmp_path, "--execution-status", "completed")
    assert (code, out) == (0, "")
    assert err == (f"{tmp_path}: published, capture complete: 3 calls (3 exportable), 2 participants, 4 relations\n")
    code, _, err = run("finalize", tmp_path)
    assert code == 0
    assert "was published before" in err


def test_a_partial_capture_says_why_and_fails_only_when_strict(tmp_path: Path, adapter: None) -> None:
    """Partial is exit 0, with the reasons; `--strict` makes it 1."""
    del adapter
    builder = family_attempt(tmp_path)
    builder.closed = False
    builder.build()
    code, _, err = run("finalize", tmp_path)
    assert code == 0
    assert "partial because of recorder_not_closed (1), errors (1)" in err
    assert run("finalize", tmp_path, "--strict")[0] == 1


def test_finalize_tries_every_directory_and_returns_the_highest_exit_code(tmp_path: Path, adapter: None) -> None:
    """A line each: good, empty, missing, a file."""
    del adapter
    family_attempt(tmp_path / "good").build()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    code, _, err = run("finalize", tmp_path / "empty", tmp_path / "none", tmp_path / "file", tmp_path / "good")
    lines = err.splitlines()
    assert code == 2
    assert [line.startswith("error: ") for line in lines] == [True, True, True, False]
    assert (tmp_path / "good" / "manifest.json").exists()
    assert run("finalize", tmp_path / "empty")[0] == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("finalize",),
        ("finalize", "x", "--harness"),
        ("finalize", ".", "--harness", "no-such-harness"),
        ("finalize", ".", "--capture-debug", "sometimes"),
        ("finalize", ".", "--native", "no-such-folder"),
        ("finalize", ".", "--native", ""),
        ("finalize", ".", "--model-alias", "nothing"),
        ("finalize", ".", "--no-such-option"),
        ("finalize", ".", "--execution-status", "unknown"),
        ("validate",),
        ("validate", "no-such-path"),
        ("decode", "x"),
        ("decode", "--protocol", "gopher", "x"),
        ("no-such-command",),
    ],
)
def test_a_wrong_call_is_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapter: None, arguments: tuple[str, ...]
) -> None:
    """Bad options, missing paths, unknown names: told on stderr, no traceback, nothing done."""
    del adapter
    family_attempt(tmp_path).build()
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err
    assert "Traceback" not in err
    assert (tmp_path / "work").is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("collect", "--prompt"), "Option '--prompt' requires an argument: see roller-capture collect --help"),
        (
            ("export", "calls", "x", "--output"),
            "Option '--output' requires an argument: see roller-capture export calls",
        ),
        (("no-such-command",), "No such command 'no-such-command': see roller-capture --help"),
        (("decode", "x", "--protocol", "gopher"), "Invalid value for '--protocol': 'gopher' is not one of 'anthropic"),
        (
            ("export", "calls", "x", "--output", "y", "--format", "xml"),
            "Invalid value for '--format': 'xml' is not one",
        ),
        (
            ("collect", "--harness", "pi", "--run-dir", "x", "--prompt", "p", "--timeout", "inf"),
            "--timeout inf: give a number of seconds above 0, at most 10,000,000",
        ),
        (("acceptance", "--harness", "pi", "--timeout", "inf"), "--timeout inf: give a number of seconds above 0"),
        (("acceptance", "--harness", "pi", "--timeout", "nan"), "--timeout nan: give a number of seconds above 0"),
    ],
)
def test_a_wrong_call_is_one_line_that_names_the_command(
    arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the words of people, whichever library has found it."""
    monkeypatch.setattr(sys, "argv", ["roller-capture", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


def test_one_of_a_thing_is_no_plural(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is counted."""
    use_capture(monkeypatch, native_capture(participant("root"), response_ids={"msg_1": "root"}))
    builder = AttemptBuilder(tmp_path)
    builder.call(request_body(), message_body("msg_1"))
    builder.build()
    _, _, err = run("finalize", tmp_path)
    assert ": 1 call (1 exportable), 1 participant, 0 relations" in err


def test_validate_tells_valid_invalid_and_unfinished_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1 for the last two; `--allow-unfinished` lets the last one pass."""
    publish_family(tmp_path / "good", monkeypatch)
    publish_family(tmp_path / "bad", monkeypatch)
    family_attempt(tmp_path / "open").build()
    with (tmp_path / "bad" / "calls.jsonl").open("ab") as stream:
        stream.write(b"\n")
    code, out, err = run("validate", tmp_path)
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        f"{tmp_path}/bad: invalid",
        "  calls.jsonl: has " + err.split("calls.jsonl: has ")[1].splitlines()[0],
        f"{tmp_path}/good: valid (capture complete)",
        f"{tmp_path}/open: unfinished",
        f"  open: is not published: run roller-capture finalize {tmp_path}/open",
    ]
    assert run("validate", tmp_path / "good")[0] == 0
    assert run("validate", tmp_path / "open")[0] == 1
    assert run("validate", tmp_path / "open", "--allow-unfinished")[0] == 0


def test_validate_json_is_one_document_on_stdout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine-readable, ASCII, with a finding's file and message."""
    publish_family(tmp_path / "good", monkeypatch, debug_retention=DebugRetention.FULL)
    publish_family(tmp_path / "bad", monkeypatch)
    (tmp_path / "bad" / "relations.jsonl").unlink()
    code, out, _ = run("validate", tmp_path / "good", tmp_path / "bad", "--json", "--deep")
    result = json.loads(out)
    assert code == 1
    assert out.isascii()
    assert result["valid"] is False
    assert [item["status"] for item in result["attempts"]] == ["valid", "invalid"]
    assert result["attempts"][1]["findings"] == [{"file": "relations.jsonl", "message": "is missing"}]


def test_names_with_control_characters_never_reach_the_terminal_raw(tmp_path: Path) -> None:
    """Escaped in errors and in JSON."""
    name = tmp_path / "a\x1b[31m\nb"
    for arguments in (("finalize", name), ("validate", name), ("validate", name, "--json")):
        code, out, err = run(*arguments)
        assert code == 2
        assert "\x1b" not in out + err
        assert err.count("\n") == 1


def test_decode_prints_one_ascii_line_for_each_file(tmp_path: Path) -> None:
    """The keys in the order of the design; a missing file is one error line and exit 2."""
    (tmp_path / "plain").write_bytes(message_body("msg_1", "é"))
    (tmp_path / "coded").write_bytes(gzip.compress(message_body("msg_2")))
    code, out, err = run("decode", "--protocol", "anthropic-messages", tmp_path / "plain", tmp_path / "none")
    assert code == 2
    assert err.count("\n") == 1
    assert out.isascii()
    assert list(json.loads(out)) == [
        "output",
        "usage",
        "response_id",
        "tool_refs",
        "execution_status",
        "response_capture_status",
        "export_blockers",
        "output_warnings",
    ]
    code, out, _ = run("decode", "--protocol", "anthropic-messages", "--content-encoding", "gzip", tmp_path / "coded")
    assert code == 0
    assert json.loads(out)["response_id"] == "msg_2"


def test_the_addon_path_is_a_file_that_mitmdump_can_load() -> None:
    """For `mitmdump -s "$(roller-capture addon-path)"`."""
    code, out, _ = run("addon-path")
    assert code == 0
    assert Path(out.strip()).read_text().startswith('"""Entry point')


def test_finalize_runs_where_mitmproxy_is_not_installed(tmp_path: Path) -> None:
    """Recorder and finalizer share only the working files."""
    family_attempt(tmp_path / "attempt").build()
    (tmp_path / "mitmproxy.py").write_text("raise ImportError('not installed here')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[1]}"}
    for command in ("finalize", "validate"):
        done = subprocess.run(
            [sys.executable, "-m", "roller_capture", command, str(tmp_path / "attempt")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path) -> None:
    """`roller-capture decode … | head` prints no traceback."""
    (tmp_path / "body").write_bytes(message_body("msg_1"))
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "roller_capture", "decode", "--protocol", "anthropic-messages", str(tmp_path / "body")],
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write_end)
    assert done.stderr == ""
    assert done.returncode != 0


def shell(command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PY": sys.executable}
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", ">&-", "2>&- >&-"])
def test_finalize_publishes_also_where_nothing_can_be_said(tmp_path: Path, redirection: str) -> None:
    """A closed or full stderr takes the words away, not the work."""
    family_attempt(tmp_path / "attempt").build()
    done = shell(f"$PY -m roller_capture finalize attempt {redirection}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "attempt" / "manifest.json").exists()


@pytest.mark.parametrize(
    "command", ["decode --protocol anthropic-messages body", "validate --json attempt", "--version"]
)
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_is_an_error_in_one_line(tmp_path: Path, command: str, redirection: str) -> None:
    """No traceback, and no exit code 0 for an answer that nobody got."""
    (tmp_path / "body").write_bytes(message_body("msg_1"))
    family_attempt(tmp_path / "attempt").build()
    done = shell(f"$PY -m roller_capture {command} {redirection}", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output could not be written")
    assert done.stderr.count("\n") == 1


def test_json_holds_names_as_they_are(tmp_path: Path) -> None:
    """Escapes for terminals would make them another path; JSON has its own."""
    family_attempt(tmp_path / "a\nb").build()
    _, out, _ = run("validate", "--json", tmp_path / "a\nb")
    assert json.loads(out)["attempts"][0]["path"] == str(tmp_path / "a\nb")


def test_missing_native_logs_are_said_with_what_to_do(tmp_path: Path) -> None:
    """The one thing that a new user forgets."""
    family_attempt(tmp_path).build()
    _, _, err = run("finalize", tmp_path)
    assert "--native names the HOME of the run" in err


def test_prune_and_migrate_are_commands(tmp_path: Path) -> None:
    """Each with a line per attempt and the exit codes of all commands."""
    attempt = family_attempt(tmp_path / "attempt")
    attempt.build()
    assert CliRunner().invoke(app, ["finalize", str(attempt.directory), "--capture-debug", "full"]).exit_code == 0
    copied = CliRunner().invoke(
        app, ["migrate", str(attempt.directory), "--output", str(tmp_path / "copy"), "--from-raw"]
    )
    assert (copied.exit_code, "calls" in copied.output) == (0, True)
    dry = CliRunner().invoke(app, ["prune", str(attempt.directory), "--dry-run"])
    assert (dry.exit_code, "would be freed" in dry.output) == (0, True)
    assert CliRunner().invoke(app, ["prune", str(attempt.directory)]).exit_code == 0
    assert not (attempt.directory / "raw").exists()
    both = [str(attempt.directory), str(tmp_path / "copy")]
    assert CliRunner().invoke(app, ["validate", "--deep", *both]).exit_code == 0
    assert CliRunner().invoke(app, ["prune", str(tmp_path / "nowhere")]).exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        'finalize ""',
        'validate ""',
        'view ""',
        'prune attempt ""',
        "collect --run-dir=",
        'collect --run-dir "" --prompt x',
    ],
)
def test_an_empty_path_is_not_the_current_directory(tmp_path: Path, command: str) -> None:
    """An unset variable must not lead the agent, or a clean-up, into the folder where one happens to stand."""
    done = shell(f"$PY -m roller_capture {command}", tmp_path)
    assert done.returncode == 2
    assert "is empty" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_that_cannot_be_written_is_an_error_in_one_line(tmp_path: Path) -> None:
    """The help is printed by a library; a full disk is told all the same."""
    done = shell("$PY -m roller_capture --help >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: the output could not be written: No space left on device\n"


def test_what_ended_collect_is_said_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """It tells by itself that a signal has stopped it."""
    monkeypatch.setattr("roller_capture.collect.command.run_collect", lambda _: 130)
    monkeypatch.setattr(sys, "argv", ["roller-capture", "collect", "--harness", "pi", "--run-dir", "run"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == ""


def test_an_interrupt_is_said_whatever_the_library_makes_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some versions of Typer end with an exit code, others let the interrupt through."""

    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    for stand_in in (interrupted, lambda **_: 130):
        monkeypatch.setattr("roller_capture.cli.app", stand_in)
        monkeypatch.setattr(sys, "argv", ["roller-capture", "validate", "run"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 130
        assert capsys.readouterr().err == "interrupted\n"
