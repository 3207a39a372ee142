"""What keeps a program from being started is told from its first line, before anything is."""

from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers.binaries import find_binary
from roller_capture.launchers.first_line import start_problem
from roller_capture.launchers.generic import LAUNCHER


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"import sys\n", "without a first line that names its interpreter"),
        (b"", "without a first line"),
        (b"#!\nx", "names no interpreter"),
        (b"#!/nowhere/python3\n", "'/nowhere/python3', is not there"),
        (b"#!/etc\n", "'/etc', is not there or cannot be run"),
        (b"#!/usr/bin/env no-such-program-x\n", "'no-such-program-x', is not on PATH"),
        (b"#!/usr/bin/env -S no-such-program-x -u\n", "'no-such-program-x', is not on PATH"),
        (b"#!/usr/bin/env -i A=1 no-such-program-x\n", "'no-such-program-x', is not on PATH"),
        (b"#!/bin/sh\r\n", "carriage return"),
        (b"#!/bin/sh\n", None),
        (b"#! /bin/sh -e\n", None),
        (b"#!/usr/bin/env python3", None),
        (b"#!/usr/bin/env -u X no-such-program-x\n", None),
        (b"\x7fELF\x02\x01\x01\x00", None),
    ],
)
def test_a_first_line(content: bytes, said: str | None, tmp_path: Path) -> None:
    """What is not understood is left to the system."""
    program = tmp_path / "agent"
    program.write_bytes(content)
    problem = start_problem(program)
    assert (problem is None) if said is None else (said in (problem or ""))


def test_a_program_that_cannot_be_started_is_refused(tmp_path: Path) -> None:
    """One line with what to do, before it is asked for its version."""
    program = tmp_path / "agent"
    program.write_text("print('hello')\n")
    program.chmod(0o700)
    with pytest.raises(RollerError) as caught:
        find_binary("generic", LAUNCHER, program)
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith(f"{program}: cannot be started: ")
    assert "#!/usr/bin/env python3" in str(caught.value)
