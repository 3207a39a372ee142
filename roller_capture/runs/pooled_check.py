"""Checks the samples of a run in several processes (`check_run(checks=…)`)."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from roller_capture.errors import RollerError
from roller_capture.integrity import Finding
from roller_capture.pool import Ask, Job, Pool
from roller_capture.runs.check import SampleChecks, SampleReport, check_sample
from roller_capture.runs.configuration import RunDocument


def pooled_checks(pool: Pool, *, deep: bool = False) -> SampleChecks:
    """What checks samples in the processes of `pool`. One at which they die is no valid sample."""
    return partial(_reports, pool, deep)


def _reports(pool: Pool, deep: bool, folders: Sequence[Path], run: RunDocument) -> Iterator[SampleReport]:
    jobs = (Job(str(folder), partial(_check, folder, run, deep), folder) for folder in folders)
    for folder, report in pool.each(jobs):
        if isinstance(report, RollerError):
            yield SampleReport(folder, None, [Finding("", f"could not be checked: {report}")])
        else:
            yield report


def _check(folder: Path, run: RunDocument, deep: bool, _ask: Ask) -> SampleReport:
    return check_sample(folder, run, deep=deep)
