"""The books of a run, for those who work on one attempt: `finalize`, `prune`, `validate`, and the watchdog.

An attempt that belongs to no run has no books: then there is nothing to say and nothing to note.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.integrity import Finding
from roller_capture.publication import MANIFEST
from roller_capture.published import read_manifest
from roller_capture.runs.agreement import disagreements
from roller_capture.runs.books import (
    CAPTURE,
    SAMPLE_FILE,
    SAMPLES,
    SampleState,
    hash_problem,
    manifest_digest,
    read_sample,
)
from roller_capture.runs.configuration import RUN_FILE, RunMode, read_run
from roller_capture.runs.stored import DamagedError, write_json
from roller_capture.schemas import schema_findings


def recorded_hash_problem(attempt: Path, digest: str) -> str | None:
    """What the books say against the manifest of a published attempt with this sha256; `None` also for an attempt that
    belongs to no run. So a manifest that was edited to match its files is found also where the run is not looked at."""
    folder = attempt.parent.parent
    if attempt.parent.name != CAPTURE or not (folder / SAMPLE_FILE).exists():
        return None
    try:
        sample = read_sample(folder, RunMode.CAPTURED)
    except DamagedError as error:
        return str(error)
    entry = next((entry for entry in sample.attempts if entry.name == attempt.name), None)
    if entry is None:
        return f"{sample.file} knows of no {attempt.name}"
    return hash_problem(entry, digest)


def books_findings(attempt: Path) -> list[Finding]:
    """What a run's books and configuration say against a published attempt of it, however it was reached: those of the
    place where it lies, and where links lead there, those of the place that was named.

    Empty for one that belongs to no run, and for one whose manifest cannot be read: that is a finding of its own.
    """
    spelled, real = attempt.absolute(), attempt.resolve()
    return list(dict.fromkeys(found for place in (spelled, real) for found in _findings_at(place)))


def _findings_at(attempt: Path) -> list[Finding]:
    try:
        problem = recorded_hash_problem(attempt, manifest_digest(attempt))
    except OSError:
        return []
    return list(_disagreements(attempt)) if problem is None else [Finding(MANIFEST, problem)]


def _disagreements(attempt: Path) -> Iterator[Finding]:
    """Of an attempt that its sample's books know, if there are any."""
    folder = attempt.parent.parent
    run_dir = folder.parent.parent
    if attempt.parent.name != CAPTURE or folder.parent.name != SAMPLES or not (run_dir / RUN_FILE).exists():
        return
    try:
        run = read_run(run_dir)
        sample = read_sample(folder, run.mode)
        manifest = read_manifest(attempt)
    except RollerError as error:
        yield Finding(MANIFEST, f"its run cannot be used: {error}")
        return
    if any(schema_findings("roller.capture.v1.json", manifest)):  # of an earlier layout, or a finding of its own
        return
    entry = next((entry for entry in sample.attempts if entry.name == attempt.name), None)
    yield from disagreements(manifest, entry, run)


def note_publication(attempt: Path, digest: str) -> None:
    """Writes down what is about to be published, or published again, by a command that works on single attempts.

    One that belongs to no run has no books. Raises `RollerError` when the books are damaged or cannot be written.
    """
    folder = attempt.absolute().parent.parent
    if attempt.absolute().parent.name != CAPTURE or not (folder / SAMPLE_FILE).exists():
        return
    sample = read_sample(folder, RunMode.CAPTURED)
    for entry in sample.attempts:
        if entry.name == attempt.name:
            if entry.capture_status is None:
                entry.manifest_sha256 = digest
            else:
                entry.next_manifest_sha256 = digest
            sample.write()


def note_superseded(attempt: Path, digest: str) -> None:
    """Writes down that the manifest with this sha256, which was noted before, is in place: the one before it is not
    good any more.

    One that belongs to no run has no books. Raises `RollerError` when the books are damaged or cannot be written.
    """
    folder = attempt.absolute().parent.parent
    if attempt.absolute().parent.name != CAPTURE or not (folder / SAMPLE_FILE).exists():
        return
    sample = read_sample(folder, RunMode.CAPTURED)
    for entry in sample.attempts:
        if entry.name == attempt.name and digest in (entry.manifest_sha256, entry.next_manifest_sha256):
            entry.manifest_sha256, entry.next_manifest_sha256 = digest, None
            sample.write()


def note_killed(attempt: Path, state: str, private_folder: Path | None) -> None:
    """Brings sample.json up to date for a `collect` that was killed while `attempt` ran.

    What is there already stays; where it cannot be written, it stays as a whole.
    """
    path = attempt.parent.parent / SAMPLE_FILE
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        document = json_text.parse(path.read_bytes())
        for entry in document["attempts"]:
            if entry["attempt"] == attempt.name and entry["state"] == SampleState.RUNNING:
                entry |= {"state": state, "ended_at": time.time()}
                document["state"] = document["attempts"][-1]["state"]
                entry.pop("private_folder", None)
                if private_folder is not None:
                    entry["private_folder"] = str(private_folder)
                write_json(path, document)
