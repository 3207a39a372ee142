"""The real OpenCode without `--capture-calls`: whatever a project permits, nothing is delegated."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roller_capture.scripted_provider import ModelRequest, Reply, ScriptedProvider, ToolUse
from tests.support.harness_run import binary

pytestmark = pytest.mark.e2e

ALLOWED = {"permission": {"task": "allow"}}
FIRST = {"permission": {"task": "allow", "*": "allow"}}
OWN_AGENT = {"default_agent": "mine", "agent": {"mine": {"mode": "primary", **ALLOWED}}}
COMMAND = {"command": {"look": {"template": "CHILD: look around.", "agent": "general", "subtask": True}}}


class Seen(NamedTuple):
    """What the service saw: the tools of each turn of an agent, and the results that the model was told."""

    offered: list[frozenset[str]]
    told: list[str]
    children: int


def run(tmp_path: Path, project: Mapping[str, Any], *arguments: str) -> Seen:
    """One uncaptured run in a project whose model delegates as its first answer, offered or not."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "opencode.json").write_text(json.dumps(project))
    seen = Seen([], [], 0)
    children = []

    def decide(request: ModelRequest) -> Reply:
        if not request.tool_names:
            return Reply(text="A title")
        seen.offered.append(request.tool_names)
        seen.told.extend(result.text for result in request.tool_results)
        if "CHILD" in json.dumps(request.messages[0:2]) and not request.tool_results:
            children.append(request)
        if request.tool_results:
            return Reply(text="All done.")
        return Reply(tools=(ToolUse("task", {"description": "x", "prompt": "CHILD: go", "subagent_type": "general"}),))

    options = {
        "--harness": "opencode",
        "--harness-bin": str(binary("opencode", "1.18.33")),
        "--model": "scripted-model",
        "--run-dir": str(tmp_path / "run"),
        "--workdir": str(work),
        "--prompt": "Do it.",
    }
    with ScriptedProvider(decide) as provider:
        given = [word for option in {**options, "--api-base": provider.url}.items() for word in option]
        process = subprocess.run(
            [sys.executable, "-m", "roller_capture", "collect", *given, *(("--", *arguments) if arguments else ())],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OPENAI_API_KEY": "scripted"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert process.returncode == 0, process.stderr
    return seen._replace(children=len(children))


@pytest.mark.parametrize(
    "project",
    [
        pytest.param({}, id="nothing"),
        pytest.param(ALLOWED, id="permission"),
        pytest.param(FIRST, id="permission-before-all"),
        pytest.param({"agent": {"build": ALLOWED}}, id="agent"),
        pytest.param({"agent": {"build": FIRST}}, id="agent-before-all"),
        pytest.param({"mode": {"build": ALLOWED}}, id="mode"),
        pytest.param({"tools": {"task": True}}, id="tools"),
    ],
)
def test_the_tool_is_not_offered(tmp_path: Path, project: Mapping[str, Any]) -> None:
    """A model that calls it all the same is told that there is none."""
    seen = run(tmp_path, project)
    assert len(seen.offered) == 2
    assert not any("task" in tools for tools in seen.offered)
    assert ["unavailable tool" in text for text in seen.told] == [True]
    assert seen.children == 0


@pytest.mark.parametrize(
    "project",
    [
        pytest.param(OWN_AGENT, id="own-agent"),
        pytest.param({**OWN_AGENT, "subagent_depth": 3}, id="own-agent-and-depth"),
        pytest.param({"mode": {"build": FIRST}}, id="mode-before-all"),
    ],
)
def test_where_the_tool_is_offered_it_launches_nothing(tmp_path: Path, project: Mapping[str, Any]) -> None:
    """An agent whose name the project alone knows, and rules under `mode`, which come after all others."""
    seen = run(tmp_path, project)
    assert all("task" in tools for tools in seen.offered)
    assert ["depth limit reached (0)" in text for text in seen.told] == [True]
    assert seen.children == 0


def test_a_command_launches_nothing(tmp_path: Path) -> None:
    """A subtask command asks for no permission."""
    seen = run(tmp_path, COMMAND, "--command", "look")
    assert any("depth limit reached (0)" in text for text in seen.told)
    assert seen.children == 0
