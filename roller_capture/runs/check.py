"""Checks a run: configuration, books, the recorded hash of each manifest, and every attempt. It changes nothing.

This is what `validate RUN_DIR` says, and what Resume decides by (`roller_capture.runs.gate`).
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from roller_capture.integrity import Finding
from roller_capture.old_layouts import Layout, layout_of, read_old_attempt
from roller_capture.publication import FORMAL_FILES, MANIFEST, RAW, STAGING_PREFIX
from roller_capture.published import read_manifest
from roller_capture.replay import validate_published
from roller_capture.runs import old_trajectories
from roller_capture.runs.agreement import disagreements
from roller_capture.runs.books import (
    CAPTURE,
    SAMPLE_FILE,
    SAMPLES,
    UNCAPTURED,
    AttemptEntry,
    Sample,
    hash_problem,
    manifest_digest,
    read_sample,
)
from roller_capture.runs.configuration import RUN_FILE, RunDocument, RunMode, impossible, read_run
from roller_capture.runs.samples_file import id_problem
from roller_capture.runs.stored import DamagedError
from roller_capture.working_files import WORK_DIR

_UNFINISHED_CLEANUP = "run finalize again"


class AttemptStatus(StrEnum):
    """What there is of an attempt."""

    VALID = "valid"
    INVALID = "invalid"
    UNFINISHED = "unfinished"  # working files that are not published yet, or not cleaned up
    ABSENT = "absent"  # it ended before anything was recorded
    UNCAPTURED = "uncaptured"


@dataclass(slots=True)
class AttemptReport:
    """One attempt; `digest` is its manifest's sha256. `entry` is `None` for one that the books do not know."""

    place: Path
    entry: AttemptEntry | None
    status: AttemptStatus
    findings: list[Finding] = field(default_factory=list)
    manifest: dict[str, Any] | None = None
    digest: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the books say all that the manifest does."""
        entry, manifest = self.entry, self.manifest
        if entry is None or manifest is None:
            return True
        return entry.capture_status is not None and entry.manifest_sha256 == self.digest


@dataclass(slots=True)
class SampleReport:
    """One sample: what is wrong with its books, and its attempts in order. `sample` is `None` without readable books.

    `mixed` are the findings of `old_trajectories`.
    """

    folder: Path
    sample: Sample | None
    findings: list[Finding] = field(default_factory=list)
    mixed: list[Finding] = field(default_factory=list)
    attempts: list[AttemptReport] = field(default_factory=list)

    def problems(self) -> Iterator[tuple[Path, str]]:
        """Everything that is wrong, with the file."""
        for finding in (*self.mixed, *self.findings):
            yield self.folder / finding.file, finding.message
        for attempt in self.attempts:
            for finding in attempt.findings:
                yield attempt.place / finding.file, finding.message


@dataclass(slots=True)
class RunReport:
    """A whole run; `run` is `None` when run.json cannot be used: then nothing else is looked at."""

    run_dir: Path
    run: RunDocument | None
    findings: list[Finding] = field(default_factory=list)
    samples: list[SampleReport] = field(default_factory=list)


def is_run(path: Path) -> bool:
    """Whether a directory holds a run. One that cannot be looked into shows none."""
    try:
        return (path / RUN_FILE).is_symlink() or (path / RUN_FILE).exists()
    except OSError:
        return False


SampleChecks = Callable[[Sequence[Path], RunDocument], Iterable[SampleReport]]
"""Checks the samples in these folders, and tells the reports in their order."""


def check_run(
    run_dir: Path,
    *,
    deep: bool = False,
    on_sample: Callable[[SampleReport], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    checks: SampleChecks | None = None,
    keep: bool = True,
) -> RunReport:
    """Checks everything in a run directory. `on_sample` is told of each sample when it has been checked, `progress` how
    many of how many.

    `checks` checks them in another way than one after the other in this process. With `keep=False` the report has no
    samples: memory grows with their number by their ids alone.
    """
    try:
        run = read_run(run_dir)
    except DamagedError as error:
        return RunReport(run_dir, None, [Finding(RUN_FILE, error.problem)])
    report = RunReport(run_dir, run, [Finding(RUN_FILE, text) for text in impossible(run)])
    folders = list(_sample_folders(run_dir, report))
    seen: dict[str, str] = {}
    reports = checks(folders, run) if checks else (check_sample(folder, run, deep=deep) for folder in folders)
    for number, sample in enumerate(reports, 1):
        _check_unique(sample, seen)
        if keep:
            report.samples.append(sample)
        if on_sample is not None:
            on_sample(sample)
        if progress is not None:
            progress(number, len(folders))
    return report


def _sample_folders(run_dir: Path, report: RunReport) -> Iterator[Path]:
    samples = run_dir / SAMPLES
    if samples.is_symlink() or (samples.exists() and not samples.is_dir()):
        report.findings.append(Finding(SAMPLES, "is no folder, but a link or a file"))
        return
    try:
        paths = sorted(samples.iterdir()) if samples.exists() else []
    except OSError as error:
        report.findings.append(Finding(SAMPLES, f"cannot be read ({error.strerror})"))
        return
    for path in paths:
        if path.name.startswith("."):  # what an interrupted write left, and what file managers leave
            continue
        if id_problem(path.name) is not None:
            report.findings.append(Finding(f"{SAMPLES}/{path.name}", "is no sample of this run"))
        elif not _is_unbegun(path):
            yield path


def _is_unbegun(folder: Path) -> bool:
    """Made for a sample whose books were not yet written when `collect` was killed: it is as if it were not there."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    try:
        return all(path.name.startswith(f".{SAMPLE_FILE}.") for path in folder.iterdir())
    except OSError:  # whoever checks it says so
        return False


def check_sample(folder: Path, run: RunDocument, *, deep: bool = False) -> SampleReport:
    """Checks one sample: books, hashes, attempts. A folder that this user must not look into is a finding, too."""
    try:
        return _check_sample(folder, run, deep=deep)
    except OSError as error:
        place = _within(folder, Path(error.filename)) if isinstance(error.filename, str) else ""
        return SampleReport(folder, None, [Finding(place, f"cannot be read ({error.strerror})")])


def _check_sample(folder: Path, run: RunDocument, *, deep: bool) -> SampleReport:
    try:
        sample = read_sample(folder, run.mode)
    except DamagedError as error:
        report = SampleReport(folder, None, [Finding(_within(folder, error.path), error.problem)])
        if not folder.is_symlink():
            unknown = _attempt_folders(folder / CAPTURE)
            report.attempts += [check_attempt(path, None, run, deep=deep) for path in unknown]
            _look_for_mixed_steps(report, run)
        return report
    report = SampleReport(folder, sample)
    known = {entry.name for entry in sample.attempts}
    for entry in sample.attempts:
        report.attempts.append(check_attempt(sample.place(entry), entry, run, deep=deep))
    for path in _attempt_folders(sample.attempts_folder):
        if path.name not in known:
            report.findings.append(Finding(_within(folder, path), f"is no attempt that {SAMPLE_FILE} knows"))
    other = UNCAPTURED if run.mode is RunMode.CAPTURED else CAPTURE
    if (folder / other).exists():
        report.findings.append(Finding(other, f"is there, but the run is {run.mode}: they cannot be mixed"))
    _look_for_mixed_steps(report, run)
    return report


def _within(folder: Path, path: Path) -> str:
    return "" if path == folder or not path.is_relative_to(folder) else path.relative_to(folder).as_posix()


def _attempt_folders(folder: Path) -> list[Path]:
    """What stands where attempts are; a hidden name is what an interrupted command left."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _look_for_mixed_steps(report: SampleReport, run: RunDocument) -> None:
    if run.harness.name == old_trajectories.HARNESS and run.mode is RunMode.CAPTURED:
        report.mixed += old_trajectories.mixed_steps(report.folder, [attempt.place for attempt in report.attempts])


def check_attempt(place: Path, entry: AttemptEntry | None, run: RunDocument, *, deep: bool = False) -> AttemptReport:
    """Checks one attempt against the books and the run."""
    if place.is_symlink() or place.parent.is_symlink() or (place.exists() and not place.is_dir()):
        return AttemptReport(place, entry, AttemptStatus.INVALID, [Finding("", "is no folder, but a link or a file")])
    if run.mode is RunMode.UNCAPTURED:
        return AttemptReport(place, entry, AttemptStatus.UNCAPTURED if place.exists() else AttemptStatus.ABSENT)
    if not (place / MANIFEST).exists() and not (place / MANIFEST).is_symlink():
        return _without_manifest(place, entry)
    findings = validate_published(place, deep=deep)
    leftovers = [finding for finding in findings if _UNFINISHED_CLEANUP in finding.message]
    report = AttemptReport(place, entry, AttemptStatus.INVALID, [item for item in findings if item not in leftovers])
    report.digest = _digest(place)
    problem = hash_problem(entry, report.digest) if entry is not None and report.digest is not None else None
    if problem is not None:  # first, since it is the surest
        report.findings.insert(0, Finding(MANIFEST, problem))
    if report.findings:
        return report
    report.manifest = _known_manifest(place)
    report.findings += disagreements(report.manifest, entry, run)
    if not report.findings:
        report.status = AttemptStatus.UNFINISHED if leftovers else AttemptStatus.VALID
    return report


def _digest(place: Path) -> str | None:
    with contextlib.suppress(OSError):  # that is a finding already
        return manifest_digest(place)
    return None


def _without_manifest(place: Path, entry: AttemptEntry | None) -> AttemptReport:
    work = place / WORK_DIR
    recorded = work.is_dir() and not work.is_symlink()
    if entry is not None and entry.capture_status is not None:
        return AttemptReport(place, entry, AttemptStatus.INVALID, [Finding(MANIFEST, "is missing")])
    foreign = sorted(path.name for path in place.iterdir() if not _is_ours(path.name)) if recorded else []
    if foreign:
        return AttemptReport(place, entry, AttemptStatus.INVALID, [Finding(foreign[0], "is no file of the attempt")])
    if recorded:
        return AttemptReport(place, entry, AttemptStatus.UNFINISHED)
    if (place.exists() and any(place.iterdir())) or (entry is not None and entry.manifest_sha256 is not None):
        return AttemptReport(place, entry, AttemptStatus.INVALID, [Finding(MANIFEST, "is missing")])
    return AttemptReport(place, entry, AttemptStatus.ABSENT)


def _known_manifest(place: Path) -> dict[str, Any]:
    """The manifest of a valid attempt; what one of an earlier layout does not say is filled in as unknown."""
    manifest = read_manifest(place)
    layout = layout_of(place, manifest)
    if layout is None or (layout is Layout.CURRENT and "lifecycle" in manifest):
        return manifest
    return read_old_attempt(place, layout, manifest).known_manifest()


def _is_ours(name: str) -> bool:
    """What a recorder, or a publication that was cut off, leaves in an attempt."""
    return name in (WORK_DIR, RAW, *FORMAL_FILES) or name.startswith(STAGING_PREFIX)


def _check_unique(sample: SampleReport, seen: dict[str, str]) -> None:
    """An attempt that was copied from another place is not this sample's: a capture has a scope of its own."""
    for attempt in sample.attempts:
        if attempt.manifest is None:
            continue
        name = f"sample {sample.folder.name}, {CAPTURE}/{attempt.place.name}/{MANIFEST}"
        twin = seen.setdefault(str(attempt.manifest["capture_id"]), name)
        if twin is not name:
            attempt.findings.append(Finding(MANIFEST, f"capture_id is the one of {twin}"))
            attempt.status = AttemptStatus.INVALID
