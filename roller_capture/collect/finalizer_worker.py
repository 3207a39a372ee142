"""A process that finalizes attempts for `collect`, one after the other (`roller_capture.collect.finalizer_pool`).

It reads a job a line from stdin and answers on stdout, both JSON. Before it publishes it tells the intended hash and
waits for leave: the books come first (design section 9). When `collect` is killed, the leave never comes and nothing is
published. It has a session of its own, so a Ctrl-C in the terminal does not reach it.
"""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.vocabulary import DebugRetention, ExecutionStatus


def main() -> None:
    """Works until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0o077)
    with contextlib.suppress(BrokenPipeError):  # `collect` is gone
        for line in sys.stdin.buffer:
            _tell(_result(json.loads(line)))


def _result(job: dict[str, Any]) -> dict[str, Any]:
    try:
        finalize_attempt(Path(job["attempt"]), _request(job))
    except BrokenPipeError:
        raise
    except RollerError as error:
        return {"error": str(error), "exit_code": error.exit_code}
    except Exception as error:  # noqa: BLE001 - the other attempts are finalized all the same
        return {"error": f"{job['attempt']}: finalizing failed: {type(error).__name__}: {error}", "exit_code": 1}
    return {"done": True}


def _request(job: dict[str, Any]) -> FinalizeRequest:
    return FinalizeRequest(
        harness=job["harness"],
        native=None if job["native"] is None else Path(job["native"]),
        debug_retention=DebugRetention(job["debug_retention"]),
        execution_status=None if job["execution_status"] is None else ExecutionStatus(job["execution_status"]),
        model_aliases=job["model_aliases"],
        before_publish=_ask_leave,
    )


def _ask_leave(digest: str) -> None:
    _tell({"intend": digest})
    answer = sys.stdin.buffer.readline()
    if not answer or not json.loads(answer)["go"]:
        raise RollerError("not published, since the books of the run could not be written")


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()
