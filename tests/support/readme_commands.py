"""The five commands of README, "From a run to a data set", run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.support.collecting import REAL_KEY, REPOSITORY

API: Final = "https://api.anthropic.com"
PROMPT: Final = "Ask a subagent to count the files here"


def data_set_commands() -> list[str]:
    """The lines of the section's block."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^## From a run to a data set\n.*?^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].splitlines()


def run_commands(folder: Path, service: str) -> list[str]:
    """Runs them in `folder` with the scripted service in the place of the real one; what each printed.

    `roller-capture` and `python` are those of this interpreter, as they are in an activated environment.
    """
    programs = folder / "bin"
    programs.mkdir()
    for name, arguments in (("roller-capture", "-W ignore -m roller_capture"), ("python", "-W ignore")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (programs / name).chmod(0o700)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "HOME": str(folder),
        "HF_HOME": str(folder / "hf"),
        "HF_HUB_OFFLINE": "1",
        "ANTHROPIC_API_KEY": REAL_KEY,
    }
    printed = []
    for command in data_set_commands():
        asked = command.replace(API, service)
        done: Any = subprocess.run(
            asked, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        printed.append(done.stdout + done.stderr)
    return printed
