"""What docs/api.md and docs/export.md show is run as it stands there."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.cli import app
from tests.export.main.test_main import two_turns
from tests.export.otel.receiver import receiver
from tests.export.published import publish_calls, three_protocols

COLLECTOR = "http://127.0.0.1:4318"
DOCS = Path(__file__).parents[1] / "docs"

pytestmark = pytest.mark.filterwarnings("ignore")


def blocks(name: str, language: str) -> list[str]:
    """The code blocks of a language, in order."""
    text = (DOCS / name).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run directory that the documents name."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for number, exchanges in enumerate((three_protocols(), two_turns()), 1):
        place = tmp_path / "runs" / "first" / "samples" / f"sample-{number:04}" / "capture" / "attempt-0001"
        publish_calls(place, monkeypatch, exchanges, capture_id=f"cap_{number:020}")
    monkeypatch.chdir(tmp_path)


def run_blocks(name: str) -> None:
    """All commands, then all Python of a document, in one namespace as a reader would type it."""
    with receiver() as collector:  # on a port that is free, in the place of the usual one
        for command in "".join(blocks(name, "sh")).replace(COLLECTOR, collector.url).splitlines():
            program, *arguments = shlex.split(command)
            assert program == "roller-capture"
            assert CliRunner().invoke(app, arguments).exit_code == 0, command
    names: dict[str, object] = {}
    for block in blocks(name, "python"):
        exec(compile(block, name, "exec"), names)


@pytest.mark.parametrize("name", ["api.md", "export.md"])
def test_the_examples_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As they stand there, one after the other."""
    run_blocks(name)
    assert capsys.readouterr().out
