"""What `collect` refuses before it writes or starts anything."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect.command import run_collect
from roller_capture.collect.request import CollectRequest
from roller_capture.errors import RollerError
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
        ({"workdir": Path("/nowhere/at/all")}, "--workdir /nowhere/at/all"),
        ({"harness_bin": Path("/nowhere/claude")}, "--harness-bin /nowhere/claude: is no file"),
        ({"harness_bin": Path("/bin/true")}, "is no claude-code"),
        ({"harness_args": ("--no-session-persistence",)}, "turns the session log off"),
        ({"harness_args": ("second prompt",)}, "second prompt"),
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
    assert REAL_KEY not in str(caught.value) + "".join(capsys.readouterr())


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
