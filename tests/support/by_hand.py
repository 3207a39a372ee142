"""Follows what `roller-capture hooks NAME` prints, to the letter, as somebody would who has a runner of their own.

The printed text has titles and, indented below them, what is to be typed; words in capitals stand for what only the
user knows.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from roller_capture.launchers import find_launcher
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.scripted_provider.scenario import Scenario
from tests.support.capture import Capture, read_lines, roller_capture
from tests.support.collecting import REAL_KEY, REPOSITORY, until
from tests.support.harness_run import read_json

MODEL = "scripted-model"
_PUT_INTO = re.compile(r"put into ~/(\S+?):?(?:\s|$)")
_PLACEHOLDER = re.compile(r"\b(?:MODEL|PORT|ORIGIN|ATTEMPT|PROMPT)\b")
_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY")
"""Of these a harness gets those that it reads itself: at the key of a service that OpenClaw has no plugin for, it asks
npm for one, twice for more than a minute each where there is no network (measured)."""
_COMMANDS = {"claude-code": "claude", "deepseek": "dsh"}
"""What the program is called, where it is not the harness's name."""
_OFFLINE = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}


@dataclass(frozen=True)
class Step:
    """A title, and what is to be typed or put into a file."""

    title: str
    text: str


def printed_steps(harness: str) -> list[Step]:
    """What `roller-capture hooks NAME` tells beside the path."""
    steps: list[tuple[str, list[str]]] = []
    for line in roller_capture("hooks", harness).stderr.splitlines():
        if line.startswith("  "):
            steps[-1][1].append(line[2:])
        else:
            steps.append((line, []))
    return [Step(title, "\n".join(lines)) for title, lines in steps]


def follow(
    harness: str,
    program: Sequence[str],
    scenario: Scenario,
    directory: Path,
    steps: Sequence[Step] | None = None,
    files: Mapping[str, str] | None = None,
) -> Capture:
    """Does every step in its order (those that the command prints, if not given); the harness is started by `program`.
    The attempt is `directory/work/attempt`; `files` are programs that stand in the working folder before."""
    work, home = directory / "work", directory / "home"
    for folder in (work, home):
        folder.mkdir(parents=True)
    for name, text in (files or {}).items():
        (work / name).write_text(text, encoding="utf-8")
        (work / name).chmod(0o700)
    environment = {
        "PATH": _path(_COMMANDS.get(harness, harness), program, directory / "bin"),
        "HOME": str(home),
        **{name: REAL_KEY for name in _KEYS if name in find_launcher(harness).traits.key_variables},
    }
    environment |= _OFFLINE | {"LANG": "C.UTF-8"}
    with ScriptedProvider(scenario.decide) as provider:
        port = str(_free_port())
        known = {"MODEL": MODEL, "PORT": port, "ORIGIN": provider.url, "ATTEMPT": "attempt", "PROMPT": scenario.prompt}
        _do(printed_steps(harness) if steps is None else steps, known, home, work, environment)
    attempt = work / known["ATTEMPT"]
    assert {_key(record.headers) for record in provider.truth.records} == {REAL_KEY}
    assert [path for path in attempt.rglob("*") if path.is_file() and REAL_KEY.encode() in path.read_bytes()] == []
    return Capture(
        provider.truth.records,
        len(provider.truth.others),
        0,
        attempt,
        read_json(attempt / "manifest.json"),
        read_lines(attempt / "calls.jsonl"),
        read_lines(attempt / "relations.jsonl"),
        roller_capture("validate", "--deep", str(attempt)),
    )


def _key(headers: Mapping[str, str]) -> str | None:
    """The key that a request brought."""
    return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")


def _do(steps: Sequence[Step], known: dict[str, str], home: Path, work: Path, environment: dict[str, str]) -> None:
    recorder: subprocess.Popen[bytes] | None = None
    try:
        for step in steps:
            text = _PLACEHOLDER.sub(lambda match: known[match[0]], step.text)
            file = _PUT_INTO.match(step.title)
            if file is not None:
                path = home / file[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"{text}\n", encoding="utf-8")
            elif step.title.startswith("record"):
                recorder = subprocess.Popen(["bash", "-c", f"exec {text}"], cwd=work, env=environment)
                until(lambda: _listens(int(known["PORT"])))
            else:
                if "stop mitmdump" in step.title:
                    assert recorder is not None
                    recorder.send_signal(signal.SIGINT)
                    recorder.wait(30)
                done = subprocess.run(
                    ["bash", "-c", text],
                    cwd=work,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{step.title}\n{done.stdout}\n{done.stderr}"
    finally:
        if recorder is not None and recorder.poll() is None:
            recorder.kill()
            recorder.wait()


def _path(name: str, program: Sequence[str], folder: Path) -> str:
    """A PATH on which the three programs are that somebody would have installed."""
    folder.mkdir()
    ours = f"export PYTHONPATH={shlex.quote(str(REPOSITORY))}\nexec {shlex.quote(sys.executable)}"
    mitmdump = shlex.quote("from mitmproxy.tools.main import mitmdump; mitmdump()")
    programs = {
        "roller-capture": f"{ours} -m roller_capture",
        "mitmdump": f"{ours} -c {mitmdump}",
        name: f"exec {shlex.join(program)}",
    }
    for command, text in programs.items():
        (folder / command).write_text(f'#!/bin/sh\n{text} "$@"\n', encoding="utf-8")
        (folder / command).chmod(0o700)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
