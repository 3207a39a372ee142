"""One measured task in a process of its own: `python -m benchmarks.child TASK PATH…` prints its cost as JSON.

Imports are done before the clock starts, on all sides alike.
"""

import gc
import hashlib
import io
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import orjson

from benchmarks.sessions import HARNESS
from roller_capture.adapter_registry import find_adapter
from roller_capture.api import open_attempt
from roller_capture.call_heads import CallFile
from roller_capture.calls_file import open_calls
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.finalize_command import FinalizeCommand, run_finalize
from roller_capture.integrity import validate_attempt
from roller_capture.pool import Workers
from roller_capture.published import calls_path, read_manifest
from roller_capture.validate_command import ValidateRequest, run_validate
from roller_capture.view.command import view

_PIECE: Final = 1 << 20
_CONTEXT: Final = b',"context":'


def finalize(attempt: Path) -> None:
    """The whole of `roller-capture finalize`: read, decode, attribute, publish, check, remove `work/`."""
    _finalize(attempt, FinalizeRequest())


def finalize_compressed(attempt: Path) -> None:
    """The same with `--compress`."""
    _finalize(attempt, FinalizeRequest(compress=True))


def _finalize(attempt: Path, request: FinalizeRequest) -> None:
    manifest = finalize_attempt(attempt, request).manifest
    if manifest["capture_status"] != "complete":
        raise SystemExit(f"{attempt}: the made-up session is not complete: {manifest['status_reasons']}")


def unavoidable(attempt: Path, target: Path) -> None:
    """What no finalizer can leave out: read every working file, parse the JSON in it once, hash and write the bodies.

    The written file is synced to disk, as a published one must be.
    """
    work = attempt / "work"
    for path in (work / "events.jsonl", *work.glob("native/**/*.json*")):
        for line in path.read_bytes().splitlines():
            orjson.loads(line)
    digest = hashlib.sha256()
    with target.open("wb", buffering=_PIECE) as stream:
        for path in sorted((work / "bodies").iterdir()):
            data = path.read_bytes()
            if path.suffix == ".request":
                orjson.loads(data)
            else:
                for line in data.splitlines():
                    if line.startswith(b"data: "):
                        orjson.loads(line[6:])
            digest.update(data)
            stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    target.unlink()


def view_attempt(attempt: Path) -> None:
    """`roller-capture view`, its text thrown away."""
    if view(attempt, stream=io.StringIO()):
        raise SystemExit(f"{attempt}: view found something damaged")


def read_heads(attempt: Path) -> None:
    """The plain way to read line heads: line by line, and parse what stands before the context."""
    with (attempt / "calls.jsonl").open("rb") as stream:
        for line in stream:
            orjson.loads(line[: line.index(_CONTEXT)] + b"}")


def skip_to_heads(attempt: Path) -> None:
    """The heads as `view` reads them, contexts passed over."""
    with CallFile(attempt / "calls.jsonl") as file:
        for head in file.heads():
            if head.problem is not None:
                raise SystemExit(f"{attempt}: line {head.number}: {head.problem}")


def read_contexts(attempt: Path) -> None:
    """Every context in turn, as `export` reads them."""
    for call in open_attempt(attempt, validate=False).calls():
        if not call.context_text:
            raise SystemExit(f"{attempt}: {call.call_id} has no context")


def read_each_alone(attempt: Path) -> None:
    """Every context in turn, and each as if it were the only one that is wanted: the file is opened anew."""
    path = calls_path(attempt, read_manifest(attempt))
    with CallFile(path) as file:
        places = [head.place for head in file.heads() if head.place is not None and head.place.context is not None]
    for place in places:
        with open_calls(path) as calls:
            calls.read(place.context or 0, place.end - 1)


def validate(attempt: Path) -> None:
    """`roller-capture validate`."""
    _refuse_findings(attempt, deep=False)


def validate_deep(attempt: Path) -> None:
    """`roller-capture validate --deep`."""
    _refuse_findings(attempt, deep=True)


def finalize_run(run: Path, *, jobs: int) -> None:
    """`roller-capture finalize RUN --jobs N`."""
    if run_finalize(FinalizeCommand((run,), FinalizeRequest(), Workers(jobs))):
        raise SystemExit(f"{run}: not every attempt was published")


def validate_run(run: Path, *, jobs: int) -> None:
    """`roller-capture validate RUN --jobs N`."""
    if run_validate(ValidateRequest((run,), workers=Workers(jobs))):
        raise SystemExit(f"{run}: not every attempt is valid")


def _refuse_findings(attempt: Path, *, deep: bool) -> None:
    findings = validate_attempt(attempt, deep=deep)
    if findings:
        raise SystemExit(f"{attempt}: {findings[0]}")


def hash_files(attempt: Path) -> None:
    """sha256 of every published file."""
    for path in sorted(attempt.rglob("*")):
        if path.is_file():
            digest = hashlib.sha256()
            with path.open("rb", buffering=0) as stream:
                while piece := stream.read(_PIECE):
                    digest.update(piece)


TASKS: Final[Mapping[str, Callable[..., None]]] = {
    task.__name__: task
    for task in (
        finalize,
        finalize_compressed,
        unavoidable,
        view_attempt,
        read_heads,
        skip_to_heads,
        read_contexts,
        read_each_alone,
        validate,
        validate_deep,
        hash_files,
    )
} | {f"{task.__name__}_{jobs}": partial(task, jobs=jobs) for task in (finalize_run, validate_run) for jobs in (1, 2)}


def _memory(name: str) -> int:
    """A figure of this process in bytes. VmHWM and not `ru_maxrss`, which a child inherits from its parent."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Runs one task and prints what it cost."""
    task, *paths = sys.argv[1:]
    find_adapter(HARNESS)  # imports it
    gc.collect()
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # VmHWM begins anew (proc(5))
    processor, started = _processor_seconds(), time.perf_counter()
    TASKS[task](*map(Path, paths))
    cost = {
        "seconds": time.perf_counter() - started,
        "processor_seconds": _processor_seconds() - processor,
        "memory_before": before,
        "peak_memory": _memory("VmHWM"),
    }
    sys.stdout.write(json.dumps(cost) + "\n")


if __name__ == "__main__":
    main()
