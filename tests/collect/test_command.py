"""What `collect` refuses before it writes or starts anything."""

import dataclasses
import errno
import json
import tempfile
from pathlib import Path
from typing import IO, Any

import pytest

from roller_capture.collect.command import run_collect
from roller_capture.collect.request import CollectRequest, Redo
from roller_capture.errors import RollerError
from roller_capture.proxy_process import ProxyProcess
from roller_capture.vocabulary import Protocol
from tests.support.collecting import REAL_KEY, fake_claude


@pytest.fixture
def request_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CollectRequest:
    """A request that would run."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", REAL_KEY)
    monkeypatch.delenv("NO_KEY", raising=False)
    return CollectRequest(
        harness="claude-code",
        run_dir=tmp_path / "run",
        prompts=("hello",),
        api_base="https://model.invalid",
        capture_calls=True,
        harness_bin=fake_claude(tmp_path / "bin"),
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"harness": "claude"}, "no known harness: use one of claude-code"),
        ({"prompts": ()}, "--prompt"),
        ({"prompts": ("one", " ")}, "empty"),
        ({"prompts": ("a\0b",)}, "NUL"),
        ({"prompts": ("\udc80",)}, "no valid text"),
        ({"prompts": ("x" * 200_000,)}, "200000 bytes"),
        ({"network": "bridge"}, "--network bridge: only host"),
        ({"wire_trace": False}, "--no-wire-trace"),
        ({"api_base": None}, "--capture-calls needs --api-base"),
        ({"api_base": "model.invalid"}, "must begin with"),
        ({"protocol": Protocol.OPENAI_RESPONSES}, "speaks anthropic-messages"),
        ({"profile": "sdk"}, "leave --profile out"),
        ({"model": ""}, "--model"),
        ({"model": "a\x1b[31m"}, "--model"),
        ({"timeout": 0}, "--timeout 0"),
        ({"timeout": float("nan")}, "--timeout nan"),
        ({"drain_timeout": float("inf")}, "--drain-timeout inf"),
        ({"api_key_env": "NO_KEY"}, "NO_KEY is not set"),
        ({"api_key_env": "NO_KEY", "api_base": "http://127.0.0.1:1"}, "NO_KEY is not set"),
        ({"api_key_env": ""}, "--api-key-env ''"),
        ({"api_base": "https://model.invalid/v1/messages"}, "give https://model.invalid:"),
        ({"run_dir": Path("/proc/none")}, "name another one with --run-dir"),
        ({"run_dir": Path("/etc/hostname/run")}, "name another one with --run-dir"),
        ({"workdir": Path("/nowhere/at/all")}, "--workdir /nowhere/at/all"),
        ({"harness_bin": Path("/nowhere/claude")}, "--harness-bin /nowhere/claude: is no file"),
        ({"harness_bin": Path("/bin/true")}, "is no claude-code"),
        ({"harness_args": ("--no-session-persistence",)}, "turns the session log off"),
        ({"harness_args": ("second prompt",)}, "second prompt"),
        ({"harness_args": ("--verbose", "second prompt")}, "second prompt"),
        ({"jobs": 0}, "--jobs 0: give a number from 1 to 128"),
        ({"jobs": 129}, "--jobs 129"),
        ({"jobs": 2}, "--jobs 2 does not go with --prompt, which is one session"),
        ({"harness": "pi", "api_key_env": "ANTHROPIC_API_KEY"}, "--model NAME is missing: pi has no model of its own"),
        ({"harness": "hermes"}, "--model NAME is missing: hermes has no model of its own"),
        ({"harness": "opencode"}, "--model NAME is missing: opencode has no model of its own"),
        ({"harness": "openclaw"}, "--model NAME is missing: openclaw has no model of its own"),
        ({"harness": "codex", "harness_args": ("the", "files")}, "'the' cannot be given to codex here"),
        ({"harness": "hermes", "model": "m", "harness_args": ("the",)}, "'the' cannot be given to hermes here"),
        ({"harness": "openclaw", "model": "m", "harness_args": ("the",)}, "'the' cannot be given to openclaw here"),
        ({"harness": "deepseek", "harness_args": ("x" * 999,)}, f"'{'x' * 57}...' cannot be given to deepseek here"),
        ({"redo": Redo.PARTIAL}, "--redo partial needs --resume"),
        ({"resume": True}, "there is no run to resume"),
        ({"samples": Path("x.jsonl")}, "--prompt does not go with --samples"),
        ({"samples": Path("/nowhere/x.jsonl"), "prompts": ()}, "--samples /nowhere/x.jsonl: cannot be read"),
    ],
)
def test_a_wrong_call_is_refused_with_one_line(
    request_for: CollectRequest, changes: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, the reason, nothing written, and no key shown."""
    with pytest.raises(RollerError) as caught:
        run_collect(dataclasses.replace(request_for, **changes))
    assert said in str(caught.value)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert not request_for.run_dir.exists()
    assert REAL_KEY not in str(caught.value)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"profile": "sdk"}, "profile sdk: claude-code has none"),
        ({"model": "a\x1b"}, "model: is empty or has control characters"),
        ({"harness_args": ["--no-session-persistence"]}, "harness_args: --no-session-persistence"),
        ({"workdir": "/proc/self"}, "workdir /proc/self cannot be written to"),
        ({"workdir": "/nowhere"}, "workdir /nowhere is no directory"),
    ],
)
def test_what_a_sample_asks_for_must_be_possible(
    members: dict[str, Any], said: str, request_for: CollectRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known before anything runs, with file and line."""
    monkeypatch.setattr("os.access", lambda path, _mode: str(path) != "/proc/self")
    samples = tmp_path / "s.jsonl"
    samples.write_text(json.dumps({"id": "a", "prompt": "p"}) + "\n" + json.dumps({"id": "b", "prompt": "p"} | members))
    with pytest.raises(RollerError) as caught:
        run_collect(dataclasses.replace(request_for, prompts=(), samples=samples))
    assert str(caught.value).startswith(f"{samples}:2: {said}")
    assert caught.value.exit_code == 2
    assert not request_for.run_dir.exists()


def test_each_sample_needs_a_model_where_the_harness_has_none(request_for: CollectRequest, tmp_path: Path) -> None:
    """Its own or the run's; the line that has none is named."""
    samples = tmp_path / "s.jsonl"
    samples.write_text('{"id": "a", "prompt": "p", "model": "m"}\n{"id": "b", "prompt": "p"}\n')
    request = dataclasses.replace(request_for, harness="pi", prompts=(), samples=samples)
    with pytest.raises(RollerError) as caught:
        run_collect(request)
    assert str(caught.value) == f"{samples}:2: model: pi has no model of its own here, so it has to be told one"
    assert caught.value.exit_code == 2
    assert not request_for.run_dir.exists()


@pytest.mark.parametrize(
    ("harness", "protocol", "api_base", "looked_for"),
    [
        ("generic", None, "https://api.openai.com", "OPENAI_API_KEY"),
        ("generic", None, "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
        ("generic", None, "https://notanthropic.com", "OPENAI_API_KEY"),
        ("generic", Protocol.ANTHROPIC_MESSAGES, "https://model.invalid", "ANTHROPIC_API_KEY"),
        ("generic", Protocol.OPENAI_RESPONSES, "https://api.anthropic.com", "OPENAI_API_KEY"),
        ("hermes", Protocol.ANTHROPIC_MESSAGES, "https://model.invalid", "ANTHROPIC_API_KEY"),
        ("opencode", None, "https://model.invalid", "OPENAI_API_KEY"),
        ("claude-code", None, "https://model.invalid", "ANTHROPIC_API_KEY"),
        ("deepseek", Protocol.OPENAI_CHAT_COMPLETIONS, "https://model.invalid", "DEEPSEEK_API_KEY"),
    ],
)
def test_the_key_is_looked_for_where_it_fits(
    harness: str,
    protocol: Protocol | None,
    api_base: str,
    looked_for: str,
    request_for: CollectRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the protocol, else by the service; the key of another vendor is never taken for lack of it."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY"):
        monkeypatch.setenv(name, REAL_KEY)
    monkeypatch.delenv(looked_for)
    request = dataclasses.replace(request_for, harness=harness, protocol=protocol, api_base=api_base, model="m")
    with pytest.raises(RollerError, match=f"^{looked_for} is not set: .*--api-key-env"):
        run_collect(request)


def test_more_jobs_than_files_can_be_open(request_for: CollectRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell's limit is told with what it must be."""
    monkeypatch.setattr("resource.getrlimit", lambda _which: (256, 256))
    with pytest.raises(RollerError, match=r"--jobs 64: needs 996 open files, 256 are allowed: .*ulimit -n 996"):
        run_collect(dataclasses.replace(request_for, jobs=64))


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_authority_that_is_none_is_refused(
    content: str | None, request_for: CollectRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy would only fail with it; a plain service does not need it."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(RollerError, match=f"SSL_CERT_FILE {path}: .*unset it") as caught:
        run_collect(request_for)
    assert caught.value.exit_code == 2
    assert not request_for.run_dir.exists()
    plain = dataclasses.replace(request_for, api_base="http://127.0.0.1:1", harness_bin=Path("/nowhere/claude"))
    with pytest.raises(RollerError, match="is no file"):
        run_collect(plain)


def _full_file() -> IO[bytes]:
    return Path("/dev/full").open("wb")


def test_a_temporary_folder_without_room_is_told_before_anything_starts(
    request_for: CollectRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders can still be made in it."""
    monkeypatch.setattr("tempfile.TemporaryFile", _full_file)
    with pytest.raises(RollerError, match=r"No space left on device\): make room, or name another .*TMPDIR") as caught:
        run_collect(request_for)
    assert caught.value.exit_code == 2
    assert not request_for.run_dir.exists()


def test_a_proxy_that_finds_no_room_for_its_own_words_is_explained(
    request_for: CollectRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not say why it did not start; the run directory is as it was."""

    def refuse(_proxy: ProxyProcess) -> ProxyProcess:
        monkeypatch.setattr("tempfile.TemporaryFile", _full_file)
        raise RollerError("the recording proxy did not start: no output", exit_code=2)

    monkeypatch.setattr(ProxyProcess, "start", refuse)
    with pytest.raises(RollerError, match=r"No space left on device.*TMPDIR") as caught:
        run_collect(request_for)
    assert caught.value.exit_code == 2
    assert not request_for.run_dir.exists()


def test_without_a_temporary_folder_nothing_is_begun(
    request_for: CollectRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line instead of a traceback."""

    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    with pytest.raises(RollerError, match="TMPDIR") as caught:
        run_collect(request_for)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("failing", ["roller-version-", "roller-"])
def test_a_temporary_folder_that_is_full_is_said(
    failing: str, request_for: CollectRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it is that cannot be made there."""
    real = tempfile.mkdtemp

    def full(suffix: str | None = None, prefix: str | None = None, dir: str | None = None) -> str:  # noqa: A002
        if prefix == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(suffix, prefix, dir)

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(RollerError, match=r"No space left on device.*TMPDIR") as caught:
        run_collect(request_for)
    assert caught.value.exit_code == 2


def test_a_proxy_that_does_not_start_leaves_nothing_behind(
    request_for: CollectRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 says that nothing was begun; the advice is one that can be taken."""

    def refuse(_proxy: ProxyProcess) -> ProxyProcess:
        raise RollerError("no room: make room or name another attempt directory", exit_code=2)

    monkeypatch.setattr(ProxyProcess, "start", refuse)
    with pytest.raises(RollerError, match="another run directory with --run-dir") as caught:
        run_collect(dataclasses.replace(request_for, run_dir=request_for.run_dir / "deep" / "run"))
    assert caught.value.exit_code == 2
    assert not request_for.run_dir.exists()


@pytest.mark.parametrize(("inside", "warned"), [(True, True), (False, False)])
def test_a_recording_that_the_agent_can_see_is_warned_of(
    inside: bool, warned: bool, request_for: CollectRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also through a link."""
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "link").symlink_to(work)
    run_dir = tmp_path / "link" / "run" if inside else tmp_path / "run"
    request = dataclasses.replace(request_for, run_dir=run_dir, workdir=work, api_base="http://127.0.0.1:1")
    run_collect(request)
    lines = [line for line in capsys.readouterr().err.splitlines() if "its own recording" in line]
    assert (len(lines) == 1) is warned


@pytest.mark.parametrize(
    ("raised", "code", "name"), [(KeyboardInterrupt(), 130, "SIGINT"), (SystemExit(143), 143, "SIGTERM")]
)
def test_a_break_off_before_anything_runs_is_in_the_books(
    raised: BaseException,
    code: int,
    name: str,
    request_for: CollectRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No watchdog knows of the attempt yet: `collect` itself notes that it runs no more, and says how it goes on."""

    def stop(_base: object) -> None:
        raise raised

    monkeypatch.setattr("roller_capture.collect.command.service_problem", stop)
    assert run_collect(request_for) == code
    document = json.loads((request_for.run_dir / "samples" / "sample-0001" / "sample.json").read_bytes())
    assert document["state"] == document["attempts"][0]["state"] == "interrupted"
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"broken off by {name}: nothing was being recorded. Go on with the same command and --resume"


def test_a_harness_that_is_nowhere_is_told_how_to_get(
    request_for: CollectRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the version that was tested."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("roller_capture.launchers.binaries._CHECKOUT", tmp_path)
    with pytest.raises(RollerError, match=r"make harness-claude-code .*npm install .*@2\.1\.332"):
        run_collect(dataclasses.replace(request_for, harness_bin=None))


def test_a_used_run_directory_is_refused(request_for: CollectRequest) -> None:
    """What is in it stays as it is."""
    request_for.run_dir.mkdir()
    (request_for.run_dir / "notes").write_text("mine")
    with pytest.raises(RollerError, match="is not empty"):
        run_collect(request_for)
    assert [path.name for path in request_for.run_dir.iterdir()] == ["notes"]
