"""The books of a run, for those who work on one attempt: `finalize`, `prune`, `validate`, and the watchdog.

An attempt that belongs to no run has no books: then there is nothing to say and nothing to note.
"""

import contextlib
import time
from pathlib import Path

from roller_capture import json_text
from roller_capture.runs.books import CAPTURE, SAMPLE_FILE, SampleState, hash_problem, read_sample
from roller_capture.runs.configuration import RunMode
from roller_capture.runs.stored import DamagedError, write_json


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
