"""A `mitmdump -w` as anybody would start it, without our addon."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_MITMDUMP = "from mitmproxy.tools.main import mitmdump; mitmdump()"


@contextlib.contextmanager
def bare_mitmdump(upstream: str, flows: Path, *options: str) -> Iterator[str]:
    """Its URL; when the block ends it has been stopped by SIGTERM, and the file is whole."""
    arguments = ["-w", str(flows), "--set", f"confdir={flows.parent}/conf", "--mode", f"reverse:{upstream}@127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, "-c", _MITMDUMP, *arguments, *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            yield _listener(process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def _listener(process: "subprocess.Popen[str]") -> str:
    """Where it listens: it says so."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"listening at \S*?(\d+)\.?\s*$", line)
        if found:
            return f"http://127.0.0.1:{found[1]}"
    raise AssertionError("mitmdump did not start")
