"""Checking attempts and runs that lie elsewhere: each attempt, or each sample of a run, is fetched, checked here as any
other, and its copy removed again."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from roller_capture.errors import RollerError
from roller_capture.integrity import Finding
from roller_capture.paths import named
from roller_capture.pool import Ask, Job, Pool
from roller_capture.remote.location import Location
from roller_capture.remote.names import name_problem
from roller_capture.remote.staging import fetch_files, spoken_plainly, staged_attempt, stand_in
from roller_capture.remote.store import Entry, Store
from roller_capture.reports import Checked
from roller_capture.runs.books import SAMPLE_FILE, SAMPLES
from roller_capture.runs.check import SampleChecks, SampleReport, check_sample
from roller_capture.runs.configuration import RUN_FILE, RunDocument

AttemptCheck = Callable[[Path], Checked]
"""Picklable: a function of a module, or a `partial` of one."""


def check_attempts(
    attempts: Sequence[Location], check: AttemptCheck, pool: Pool | None, scratch: Path
) -> Iterator[Checked]:
    """What `check` says of each attempt, in their order; a `path` of `Checked` is the attempt's URL."""
    jobs = (Job(str(item), partial(_attempt_job, item, check, scratch), item) for item in attempts)
    for attempt, result in _each(jobs, pool):
        if isinstance(result, RollerError):
            yield Checked("attempt", attempt, "invalid", (Finding("", f"could not be checked: {result}"),))
        else:
            yield result


def _attempt_job(attempt: Location, check: AttemptCheck, scratch: Path, _ask: Ask) -> Checked:
    with staged_attempt(attempt, scratch, books=True) as staged:
        return replace(_plain(check(staged.path)), path=attempt)


@contextlib.contextmanager
def run_outline(
    run: Location, files: Mapping[str, Entry], pool: Pool | None, scratch: Path, *, deep: bool
) -> Iterator[tuple[Path, SampleChecks]]:
    """A folder with a run's configuration and the names of its samples, and what checks those for `check_run`.

    Raises `RollerError` for names that cannot be used, and where the configuration cannot be fetched.
    """
    with stand_in(run, scratch) as folder, spoken_plainly():
        fetch_files(Store(run), {RUN_FILE: files[RUN_FILE]}, folder)
        for name, is_folder in _names_of_samples(files).items():
            if (problem := name_problem(name)) is not None:
                raise RollerError(f"{run}/{SAMPLES}: the name {name!r} cannot be used: it {problem}")
            (folder / SAMPLES).mkdir(exist_ok=True)
            if is_folder:
                (folder / SAMPLES / name).mkdir()
                (folder / SAMPLES / name / SAMPLE_FILE).touch()  # it is fetched when the sample is checked
            else:
                (folder / SAMPLES / name).touch()
        yield folder, partial(_check_samples, run, pool, scratch, deep)


def _names_of_samples(files: Iterable[str]) -> dict[str, bool]:
    """What lies where samples are, and whether it is a folder; not those of which nobody has written the books yet."""
    names: dict[str, bool] = {}
    for file in files:
        top, _, rest = file.partition("/")
        name, slash, inside = rest.partition("/")
        if top == SAMPLES and rest and not (slash and inside.startswith(f".{SAMPLE_FILE}.")):
            names[name] = bool(slash)
    return names


def _check_samples(
    run: Location, pool: Pool | None, scratch: Path, deep: bool, folders: Sequence[Path], document: RunDocument
) -> Iterator[SampleReport]:
    jobs = (
        Job(str(run / SAMPLES / folder.name), partial(_sample_job, run, folder, document, scratch, deep), folder)
        for folder in folders
    )
    for folder, report in _each(jobs, pool):
        if isinstance(report, RollerError):
            yield SampleReport(folder, None, [Finding("", f"could not be checked: {report}")])
        else:
            yield report


def _sample_job(
    run: Location, folder: Path, document: RunDocument, scratch: Path, deep: bool, _ask: Ask
) -> SampleReport:
    """The report tells of `folder`, the sample's place in the outline."""
    sample = run / SAMPLES / folder.name
    with stand_in(sample, scratch) as copy, spoken_plainly():
        store = Store(sample)
        fetch_files(store, store.listing(), copy)
        report = check_sample(copy, document, deep=deep)
        report.folder, report.sample = folder, None
        report.findings, report.mixed = _named(report.findings), _named(report.mixed)
        for attempt in report.attempts:
            attempt.place = folder / attempt.place.relative_to(copy)
            attempt.findings = _named(attempt.findings)
        return report


def of_outline(result: Checked, folder: Path, run: Location) -> Checked:
    """What is said of a path in the outline, said of the run."""
    assert isinstance(result.path, Path)
    below = result.path.relative_to(folder).parts
    return replace(_plain(result), path=Location("/".join((run.url, *below))))


def _plain(result: Checked) -> Checked:
    return replace(result, findings=tuple(_named(result.findings)))


def _named(findings: Sequence[Finding]) -> list[Finding]:
    return [Finding(named(finding.file), named(finding.message)) for finding in findings]


def _each(jobs: Iterator[Job[Any]], pool: Pool | None) -> Iterator[tuple[Any, Any | RollerError]]:
    """The results of jobs that ask nothing, of the pool or of this process."""
    if pool is not None:
        yield from pool.each(jobs)
        return
    for job in jobs:
        try:
            yield job.item, job.task(_ask_nobody)
        except RollerError as error:
            yield job.item, error


def _ask_nobody(_question: Any) -> None:
    raise AssertionError("nobody is asked")
