"""`roller-capture validate`: checks attempts and runs, and says what is wrong in the form that is wanted.

A run is checked as Resume checks it (`roller_capture.runs.check`): configuration, books, recorded hashes, attempts.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError
from roller_capture.integrity import Finding
from roller_capture.many_attempts import MANY, Tally
from roller_capture.pool import THIS_PROCESS, Ask, Job, Pool, Workers
from roller_capture.publication import MANIFEST
from roller_capture.published import UnreadableError, find_attempts, is_damaged, read_manifest, why_unpublished
from roller_capture.remote import Location, Place
from roller_capture.remote.attempts import attempts_among
from roller_capture.remote.checking import check_attempts, of_outline, run_outline
from roller_capture.remote.staging import private_folder
from roller_capture.remote.store import Store
from roller_capture.replay import not_compared, validate_published
from roller_capture.reports import Checked, annotation_lines, write_junit
from roller_capture.runs.books import SAMPLE_FILE
from roller_capture.runs.check import AttemptReport, AttemptStatus, SampleChecks, SampleReport, check_run, is_run
from roller_capture.runs.configuration import RUN_FILE, RunMode
from roller_capture.runs.outside_books import books_findings
from roller_capture.runs.pooled_check import pooled_checks
from roller_capture.terminal import answer, progress, say

_NOTHING_RECORDED: Final = "its newest attempt ended before anything was recorded: go on with collect --resume"


Found = Callable[[Checked], None]


@dataclass(frozen=True, slots=True)
class ValidateRequest:
    """The options of the command."""

    paths: tuple[Place, ...]
    deep: bool = False
    allow_unfinished: bool = False
    as_json: bool = False
    junit: Path | None = None
    github: bool = False
    workers: Workers = THIS_PROCESS


def run_validate(request: ValidateRequest) -> int:
    """Checks all paths and returns the exit code. Raises `RollerError` (exit 2) when a report cannot be written."""
    if request.as_json and request.github:
        raise RollerError("--json and --github both write to stdout: give one of them", exit_code=2)
    if request.junit is not None and not request.junit.absolute().parent.is_dir():
        raise RollerError(f"--junit {request.junit}: there is no such folder: make it first", exit_code=2)
    results: list[Checked] = []
    tally = Tally("validate")
    worst = 0

    def found(result: Checked) -> None:
        nonlocal worst
        worst = max(worst, result.exit_code)
        _tell(result, request, tally)
        if request.as_json or request.junit is not None:  # else memory does not grow with the attempts
            results.append(result)

    with ExitStack() as held:
        scratch = Path()
        if any(isinstance(path, Location) for path in request.paths):
            held.enter_context(stops_cleanly())
            scratch = held.enter_context(private_folder())
        pool = held.enter_context(request.workers.pool()) if request.workers.are_needed else None
        for path in request.paths:
            if isinstance(path, Location):
                _check_remote(path, request, pool, found, scratch)
            else:
                _check(path, request, pool, found)
    for line in tally.lines():
        say(line)
    if request.as_json:
        answer(json_text.dumps_ascii(_document(results, valid=worst == 0)))
    if request.junit is not None:
        write_junit(request.junit, results)
    return worst


def _tell(result: Checked, request: ValidateRequest, tally: Tally) -> None:
    if not request.as_json or result.kind == "path":
        _say(result)
    if request.github:
        for line in annotation_lines(result):
            answer(line)
    if not result.is_good:
        reason = f"{result.findings[0].file}: {result.findings[0].message}" if result.findings else result.status
        tally.fail(f"{result.kind}s {result.status}", result.path, reason)
    elif result.kind == "attempt":
        tally.count(f"attempts {result.status}")


def _check(path: Path, request: ValidateRequest, pool: Pool | None, found: Found) -> None:
    try:
        if is_run(path):
            checks = None if pool is None else pooled_checks(pool, deep=request.deep)
            _check_run(path, request, checks, found)
            return
        unreadable: list[UnreadableError] = []
        attempts = find_attempts(path, unreadable)
        for closed in unreadable:
            found(_no_path(closed.path, closed))
    except RollerError as error:
        found(_no_path(path, error))
        return
    _tell_each(_attempts(attempts, request, pool), path, len(attempts), found)


def _no_path(path: Place, error: RollerError) -> Checked:
    return Checked("path", path, "error", (Finding("", str(error)),), exit_code=error.exit_code)


def _tell_each(results: Iterator[Checked], path: Place, total: int, found: Found) -> None:
    with progress(f"validate {path}", "attempts") if total >= MANY else nullcontext() as bar:
        for number, result in enumerate(results, 1):
            found(result)
            if bar is not None:
                bar(number, total)


def _check_remote(path: Location, request: ValidateRequest, pool: Pool | None, found: Found, scratch: Path) -> None:
    try:
        files = Store(path).listing()
        if RUN_FILE in files:
            with run_outline(path, files, pool, scratch, deep=request.deep) as (folder, checks):
                _check_run(folder, request, checks, lambda result: found(of_outline(result, folder, path)))
            return
        attempts = attempts_among(path, files)
    except RollerError as error:
        found(_no_path(path, error))
        return
    check = partial(_attempt, request=request)
    _tell_each(check_attempts(attempts, check, pool, scratch), path, len(attempts), found)


def _attempts(attempts: Sequence[Path], request: ValidateRequest, pool: Pool | None) -> Iterator[Checked]:
    if pool is None:
        yield from (_attempt(attempt, request) for attempt in attempts)
        return
    jobs = (Job(str(attempt), partial(_attempt_job, attempt, request), attempt) for attempt in attempts)
    for attempt, result in pool.each(jobs):
        if isinstance(result, RollerError):
            yield Checked("attempt", attempt, "invalid", (_unchecked(result),))
        else:
            yield result


def _unchecked(error: RollerError) -> Finding:
    return Finding("", f"could not be checked: {error}")


def _attempt_job(attempt: Path, request: ValidateRequest, _ask: Ask) -> Checked:
    return _attempt(attempt, request)


def _attempt(attempt: Path, request: ValidateRequest) -> Checked:
    """An attempt on its own; its run, where it has one, knows its manifest's hash."""
    if not (attempt / MANIFEST).exists():
        finding = Finding(attempt.name or ".", why_unpublished(attempt))
        if is_damaged(attempt):
            return Checked("attempt", attempt, "invalid", (finding,))
        return _unfinished("attempt", attempt, finding, request)
    findings = [*books_findings(attempt), *validate_published(attempt, deep=request.deep)]  # the surest first
    if findings:
        return Checked("attempt", attempt, "invalid", tuple(findings))
    manifest = read_manifest(attempt)
    note = not_compared(manifest) if request.deep else None
    return Checked("attempt", attempt, "valid", capture_status=manifest["capture_status"], note=note)


def _check_run(run_dir: Path, request: ValidateRequest, checks: SampleChecks | None, found: Found) -> None:
    samples = 0

    def each(sample: SampleReport) -> None:
        nonlocal samples
        samples += 1
        for result in _sample(sample, request):
            found(result)

    with progress(f"validate {run_dir}", "samples") as bar:
        report = check_run(run_dir, deep=request.deep, on_sample=each, progress=bar, checks=checks, keep=False)
    findings = list(report.findings)
    if report.run is not None and report.run.mode is RunMode.UNCAPTURED:
        findings.append(Finding(RUN_FILE, "mode is uncaptured: there are no calls to validate"))
    elif report.run is not None and not samples:
        findings.append(Finding(RUN_FILE, "the run holds no sample yet"))
    found(Checked("run", run_dir, "invalid" if findings else "valid", tuple(findings)))


def _sample(sample: SampleReport, request: ValidateRequest) -> Iterator[Checked]:
    name = sample.folder.name
    findings = (*sample.mixed, *sample.findings)
    newest = sample.attempts[-1].status if sample.attempts else AttemptStatus.ABSENT
    if not findings and newest is AttemptStatus.ABSENT:
        yield _unfinished("sample", sample.folder, Finding(SAMPLE_FILE, _NOTHING_RECORDED), request, name)
    else:
        yield Checked("sample", sample.folder, "invalid" if findings else "valid", findings, sample=name)
    for attempt in sample.attempts:
        if attempt.status not in (AttemptStatus.ABSENT, AttemptStatus.UNCAPTURED):
            yield _attempt_of(attempt, name, request)


def _attempt_of(attempt: AttemptReport, sample: str, request: ValidateRequest) -> Checked:
    if attempt.status is AttemptStatus.UNFINISHED:
        finding = Finding(attempt.place.name, why_unpublished(attempt.place))
        return _unfinished("attempt", attempt.place, finding, request, sample)
    good = attempt.manifest if not attempt.findings else None
    return Checked(
        "attempt",
        attempt.place,
        attempt.status,
        tuple(attempt.findings),
        capture_status=None if good is None else good["capture_status"],
        sample=sample,
        note=None if good is None or not request.deep else not_compared(good),
    )


def _unfinished(
    kind: str, path: Path, finding: Finding, request: ValidateRequest, sample: str | None = None
) -> Checked:
    if request.allow_unfinished:
        return Checked(kind, path, "unfinished-allowed", (finding,), exit_code=0, sample=sample)
    return Checked(kind, path, "unfinished", (finding,), sample=sample)


def _say(result: Checked) -> None:
    if result.kind == "path":
        say(f"error: {result.findings[0].message}")
        return
    if result.kind != "attempt" and result.status == "valid":
        return
    suffix = f" (capture {result.capture_status})" if result.capture_status else ""
    say(f"{result.path}: {result.status}{suffix}")
    if result.note is not None:
        say(f"  {result.note}")
    for finding in result.findings:
        say(f"  {finding.file}: {finding.message}")


def _document(results: list[Checked], *, valid: bool) -> dict[str, Any]:
    """The attempts, and beside them the books of samples and runs that something is to be said of."""
    attempts = [_json(result) for result in results if result.kind in ("attempt", "path")]
    return {
        "valid": valid,
        "attempts": attempts,
        "samples": [_json(result) for result in results if result.kind == "sample"],
        "runs": [_json(result) for result in results if result.kind == "run"],
    }


def _json(result: Checked) -> dict[str, Any]:
    """What names an attempt of a run always carries sample and manifest path (protocol, "Three objects")."""
    document: dict[str, Any] = {"path": str(result.path), "status": result.status}
    if result.kind == "attempt":
        document |= {"capture_status": result.capture_status, "manifest": str(result.path / MANIFEST)}
    if result.sample is not None:
        document["sample"] = result.sample
    if result.note is not None:
        document["note"] = result.note
    return document | {"findings": [finding._asdict() for finding in result.findings]}
