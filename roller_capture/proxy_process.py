"""Starts the recording proxy as a process of its own, waits until it listens, and stops it."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from roller_capture.errors import RollerError
from roller_capture.shipped import shipped_path

_PACKAGE_ROOT: Final = Path(__file__).resolve().parent.parent
_MITMDUMP: Final = "import sys; sys.path.append(sys.argv.pop(1)); from mitmproxy.tools.main import mitmdump; mitmdump()"
"""mitmproxy of this interpreter, wherever its script may have been put; the first argument leads to this package."""

_MITMDUMP_NOT_ALONE: Final = (
    "import sys; sys.path.append(sys.argv.pop(1)); from roller_capture.lifeline import end_when_alone; "
    "*processes, pipe = map(int, sys.argv.pop(1).split(',')); end_when_alone(processes, pipe); "
    "from mitmproxy.tools.main import mitmdump; mitmdump()"
)
"""The same, which ends when those are gone whom the second argument tells."""

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_LOOK_EVERY = 0.05
_OUTPUT_BYTES = 1 << 20


class ProxyProcess:
    """A `mitmdump` that records `attempt` and forwards to `upstream`, from `start` to `stop`; also a context manager.

    It listens on a free loopback port and keeps mitmproxy's own files in a temporary folder. Its output is in
    `output()`. `environment` is added to this process's own; `on_spawn` is told when the process is there, before it
    listens; `lifeline` are the descriptors that `roller_capture.lifeline` watches, the pipe last. `start` raises
    `RollerError` with the output when it does not come up.
    """

    def __init__(
        self,
        attempt: Path,
        harness: str,
        upstream: str,
        options: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        on_spawn: Callable[["ProxyProcess"], None] | None = None,
        lifeline: Sequence[int] = (),
    ) -> None:
        self._attempt = attempt
        self._options = ["--set", f"roller_attempt={attempt}", "--set", f"roller_harness={harness}", *options]
        self._mode = f"reverse:{upstream}@127.0.0.1:0"
        self._environment = dict(environment or {})
        self._on_spawn = on_spawn
        self._lifeline = tuple(lifeline)
        self._process: subprocess.Popen[bytes] | None = None
        self._printed = ""
        self.url = ""
        """Where clients find it, once it has started."""

    @property
    def command(self) -> list[str]:
        """What a user would type."""
        script = str(shipped_path("addons", "capture.py"))
        return ["mitmdump", "-q", "-s", script, *self._options, "--mode", self._mode]

    @property
    def _arguments(self) -> list[str]:
        return [*self.command[1:], "--set", f"confdir={self._private.name}"]

    @property
    def _program(self) -> list[str]:
        if not self._lifeline:
            return [_MITMDUMP, str(_PACKAGE_ROOT)]
        return [_MITMDUMP_NOT_ALONE, str(_PACKAGE_ROOT), ",".join(map(str, self._lifeline))]

    def start(self) -> Self:
        """Starts it and waits until it listens."""
        self._private = tempfile.TemporaryDirectory(prefix="roller-proxy-")
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        earlier = self._info().get("recorders", 0)
        self._process = subprocess.Popen(
            # -P: a module in the user's working directory must not stand in for one of Python's.
            [sys.executable, "-P", "-c", *self._program, *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | self._environment,
            start_new_session=True,
            pass_fds=self._lifeline,
        )
        try:
            if self._on_spawn is not None:
                self._on_spawn(self)
            if self._listens(earlier):
                return self
        except BaseException:
            self.kill()
            raise
        self.kill()
        raise RollerError(f"the recording proxy did not start: {self.output().strip() or 'no output'}", exit_code=2)

    def _listens(self, earlier_recorders: int) -> bool:
        """Waits until it does; false when it ends, or takes too long."""
        assert self._process is not None
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            info = self._info()
            listeners = info.get("options", {}).get("listeners", [])
            if info.get("recorders", 0) > earlier_recorders and listeners:
                self.url = f"http://{listeners[0]}"
                return True
            time.sleep(_LOOK_EVERY)
        return False

    def _info(self) -> dict[str, Any]:
        try:
            value = json.loads((self._attempt / "work" / "attempt.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    @property
    def pid(self) -> int:
        """The running process's id. Raises `RuntimeError` when it is not running."""
        if self._process is None:
            raise RuntimeError("the proxy is not running")
        return self._process.pid

    @property
    def private_folder(self) -> Path:
        """mitmproxy's own files, while it runs; `stop` removes them."""
        return Path(self._private.name)

    def output(self) -> str:
        """What it has printed so far."""
        if self._process is not None:
            self._printed = os.pread(self._output.fileno(), _OUTPUT_BYTES, 0).decode("utf-8", "replace")
        return self._printed

    def stop(self) -> int:
        """Ends it by SIGTERM, as a user would, and returns its exit code; 0 when it is not running."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """Ends it by SIGKILL: nothing is closed."""
        return self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            code = self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self.output()
        self._process = None
        self._output.close()
        self._private.cleanup()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
