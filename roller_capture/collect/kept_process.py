"""A process of the harness, started through a keeper (`roller_capture.collect.keeper`) that holds its descendants."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

from roller_capture.collect.guard import Lifeline
from roller_capture.collect.process_family import GRACE_SECONDS, end_members
from roller_capture.launchers import HarnessCommand, LaunchSettings
from roller_capture.launchers.environment import harness_environment

_KEEPER: Final = Path(__file__).with_name("keeper.py")
_KEEPER_SECONDS: Final = 5.0
_KILLED: Final = -9


class Output(NamedTuple):
    """Where a process writes."""

    stdout: IO[bytes]
    stderr: IO[bytes]


class Keeping(NamedTuple):
    """How all processes of an attempt are kept. `umask` is the harness's; -1: as this process has it."""

    lifeline: Lifeline
    umask: int = -1


class KeptProcess:
    """A running process. `pid` is the keeper's; `ended` becomes readable when the process itself has ended."""

    def __init__(self, process: "subprocess.Popen[bytes]", ended: int) -> None:
        self._process: Final = process
        self.ended: Final = ended

    @classmethod
    def start(cls, command: HarnessCommand, settings: LaunchSettings, output: Output, keeping: Keeping) -> Self:
        """Starts it in the attempt's home. Raises `OSError` when it cannot be started."""
        read_end, write_end = os.pipe()
        lifeline = keeping.lifeline.of_keeper
        try:
            with _standard_input(command.standard_input) as stdin:
                process = subprocess.Popen(
                    [
                        sys.executable,
                        "-I",
                        "-S",
                        str(_KEEPER),
                        str(write_end),
                        ",".join(map(str, lifeline)),
                        *command.arguments,
                    ],
                    cwd=settings.workdir,
                    env=harness_environment(command, settings.home),
                    stdin=stdin,
                    stdout=output.stdout,
                    stderr=output.stderr,
                    start_new_session=True,
                    pass_fds=(write_end, *lifeline),
                    umask=keeping.umask,
                )
        except BaseException:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        return cls(process, read_end)

    @property
    def pid(self) -> int:
        """The keeper's process id."""
        return self._process.pid

    def end(self, home: Path | None) -> int:
        """Ends all that is left of it (and, with `home`, all that is in that home), and returns its exit code, negative
        for a signal. Raises `OSError` when the program could not be executed."""
        end_members((self.pid,), home, GRACE_SECONDS)
        try:
            self._process.wait(_KEEPER_SECONDS)
        except subprocess.TimeoutExpired:  # somebody holds one of its processes; nothing more can be done
            self._process.kill()
            self._process.wait()
        with os.fdopen(self.ended, "rb") as stream:
            words = stream.read().split()
        if words[:1] == [b"error"]:
            number = int(words[1])
            raise OSError(number, os.strerror(number))
        return int(words[0]) if words else _KILLED  # without a word: the keeper was killed


def _standard_input(text: str | None) -> IO[Any]:
    """A file that holds it, since a pipe takes no more than its reader has read."""
    if text is None:
        return open(os.devnull, "rb")  # noqa: PTH123 - the caller closes it
    stream = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    stream.write(text.encode("utf-8", "surrogateescape"))
    stream.seek(0)
    return stream
