"""Runs one turn of Hermes and says on its output, as one line of JSON, which session it was and how it ended.

Hermes prints the bare answer and nothing else, so that an answer could pass for whatever stands on the output. It is
run as a script of its own (`python hermes_turn.py REPORT COMMAND…`) and imports nothing of the package. Line:

    {"type": "turn_end", "session_id": …, "exit_code": …, "answered": …, "answer": …}

`REPORT` is where `hermes -z --usage-file` writes its own account; `hermes chat -Q` writes `session_id: …` as the last
line of its error output instead. The exit code is Hermes's own, 1 where it says 0 and reports a failure, and 128 + N
after a signal.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, Final

_PREFIX: Final = b"session_id: "
_LONGEST_TAIL: Final = 64 * 1024


def main(arguments: list[str]) -> int:
    """Runs the command and reports."""
    report_path, command = Path(arguments[0]), arguments[1:]
    report_path.unlink(missing_ok=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        tail = bytearray()
        reader = threading.Thread(target=_pass_on, args=(process.stderr, tail))
        reader.start()
        answer = process.stdout.read()
        code = process.wait()
        reader.join()
    report = _report(report_path)
    failed = report.get("failed") is True or report.get("completed") is False
    code = 1 if code == 0 and failed else 128 - code if code < 0 else code
    line = {
        "type": "turn_end",
        "session_id": _session_id(report, bytes(tail)),
        "exit_code": code,
        "answered": code == 0 and bool(answer.strip()),
        "answer": answer.decode("utf-8", "replace"),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    return code


def _pass_on(stream: IO[bytes], tail: bytearray) -> None:
    for line in stream:
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
        tail += line
        del tail[:-_LONGEST_TAIL]


def _report(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _session_id(report: dict[str, Any], tail: bytes) -> str | None:
    if isinstance(report.get("session_id"), str):
        return str(report["session_id"])
    last = tail.strip().rpartition(b"\n")[2]
    return last.removeprefix(_PREFIX).decode("utf-8", "replace") if last.startswith(_PREFIX) else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
