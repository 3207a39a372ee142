"""`roller-capture hooks NAME`: for people who start harness and proxy themselves."""

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roller_capture.acceptance.expected import Expected
from roller_capture.acceptance.judge import differences
from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.hook_files import hook_path, steps
from roller_capture.scripted_provider import Reply
from roller_capture.scripted_provider.scenario import Scenario
from tests.support.by_hand import follow, printed_steps
from tests.support.truth_table import TruthTable

RUNNER = CliRunner()
HOOKS = [name for name in HARNESSES if hook_path(name) is not None]
ROOT = Path(__file__).resolve().parents[1]
README_FILE = ROOT / "README.md"
README = README_FILE.read_text(encoding="utf-8")
AGENT = f"""#!{sys.executable}
import json, os, sys, urllib.request

def log(**event):
    with open(os.environ["ROLLER_EVENTS"], "a") as stream:
        stream.write(json.dumps(event) + "\\n")

log(event="session", session="mine")
body = {{"model": os.environ["ROLLER_MODEL"], "messages": [{{"role": "user", "content": sys.argv[-1]}}]}}
headers = {{"x-roller-session": "mine", "content-type": "application/json"}}
headers["authorization"] = "Bearer " + os.environ["OPENAI_API_KEY"]
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(body).encode(), headers)
answer = json.load(urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(request))
log(event="output", session="mine", response_id=answer["id"])
log(event="ended", session="mine", status="completed")
"""


@pytest.mark.parametrize("harness", HOOKS)
def test_the_path_alone_is_on_stdout(harness: str) -> None:
    """So that it can be put into a command line; what to do with it is told beside."""
    result = RUNNER.invoke(app, ["hooks", harness])
    assert result.exit_code == 0
    path = Path(result.stdout.removesuffix("\n"))
    assert path == hook_path(harness)
    assert path.exists()
    assert result.stderr.splitlines() == steps(harness, path)
    assert "{path}" not in result.stderr
    assert "{{" not in result.stderr.replace('{"providers": {"recorded": {', "")


@pytest.mark.parametrize("harness", sorted(HARNESSES.keys() - set(HOOKS)))
def test_a_harness_without_a_hook_says_so(harness: str) -> None:
    """Nothing on stdout, and no error; the steps are told all the same."""
    result = RUNNER.invoke(app, ["hooks", harness])
    assert (result.exit_code, result.stdout) == (0, "")
    first, *told = result.stderr.splitlines()
    assert first == f"{harness} needs no hook: its own headers and logs say who made a call"
    assert told == steps(harness, None)


@pytest.mark.parametrize("harness", HARNESSES)
def test_every_harness_has_all_steps_of_a_run_by_hand(harness: str) -> None:
    """Record, lead the harness to the proxy, publish with its logs; as the README says it."""
    typed = [step.text for step in printed_steps(harness)]
    [recorder] = [text for text in typed if "mitmdump" in text]
    for option in ("-q", f"roller_harness={harness}", 'confdir="$(mktemp -d)"', "roller_attempt=ATTEMPT"):
        assert f" {option}" in recorder or f"--set {option}" in recorder
        assert option.split("=")[0] in README
    assert any("http://127.0.0.1:PORT" in text for text in typed if text is not recorder)
    assert typed[-1].startswith("roller-capture finalize ATTEMPT --native ")


@pytest.mark.parametrize("path", [README_FILE, *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: path.name)
def test_a_recorder_in_the_documents_leaves_the_home_alone(path: Path) -> None:
    """mitmproxy writes certificates into ~/.mitmproxy unless it is told another place, and prints every flow."""
    commands = re.findall(r"mitmdump[^`]*?roller_attempt[^`]*?--mode", path.read_text(encoding="utf-8"))
    assert [command for command in commands if " -q " not in command or "confdir=" not in command] == []


def test_the_steps_for_an_agent_of_one_s_own_are_enough(tmp_path: Path) -> None:
    """Followed to the letter by an agent that keeps the log which the steps name."""
    agent = tmp_path / "run" / "work" / "my_agent.py"
    scenario = Scenario("ordinary", "Say hello.", lambda _request: Reply(text="Hello.", owner="root"))
    table = TruthTable(follow("generic", ("true",), scenario, tmp_path / "run", files={agent.name: AGENT}))
    assert differences(table, Expected(execution="unknown")) == []
    assert table.capture.manifest["participants"][0]["native_ids"] == {"session_id": ["mine"]}


@pytest.mark.parametrize("harness", HOOKS)
def test_it_is_copied_where_the_user_wants_it(harness: str, tmp_path: Path) -> None:
    """Again over an older one, too; with every file."""
    for _ in range(2):
        result = RUNNER.invoke(app, ["hooks", harness, "--install", str(tmp_path)])
        assert result.exit_code == 0
    source = hook_path(harness)
    assert source is not None
    copy = tmp_path / source.name
    assert result.stdout == f"{copy}\n"
    files = [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]
    for file in files:
        if "__pycache__" not in file.parts:
            assert (copy / file.relative_to(source)).read_bytes() == file.read_bytes()
    assert not list(tmp_path.rglob("__pycache__"))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["emacs"], "'emacs' is no known harness"),
        (["pi", "--install", "{tmp}/none"], "none: is no folder"),
        (["codex", "--install", "{tmp}"], "codex needs no hook"),
    ],
)
def test_wrong_calls(arguments: list[str], text: str, tmp_path: Path) -> None:
    """One line, exit code 2."""
    result = RUNNER.invoke(app, ["hooks", *(argument.format(tmp=tmp_path) for argument in arguments)])
    assert isinstance(result.exception, RollerError)
    assert (result.exception.exit_code, text in str(result.exception)) == (2, True)
