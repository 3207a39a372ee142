"""`roller-capture validate`: checks attempts and runs, and says what is wrong in the form that is wanted.

A run is checked as Resume checks it (`roller_capture.runs.check`): configuration, books, recorded hashes, attempts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.integrity import Finding
from roller_capture.publication import MANIFEST
from roller_capture.published import find_attempts, read_manifest
from roller_capture.replay import validate_published
from roller_capture.reports import Checked, annotation_lines, write_junit
from roller_capture.runs.books import SAMPLE_FILE, manifest_digest
from roller_capture.runs.check import AttemptReport, AttemptStatus, SampleReport, check_run, is_run
from roller_capture.runs.configuration import RUN_FILE, RunMode
from roller_capture.runs.outside_books import recorded_hash_problem
from roller_capture.terminal import answer, say

_NOT_PUBLISHED: Final = "is not published: run roller-capture finalize on it"
_NOTHING_RECORDED: Final = "its newest attempt ended before anything was recorded: go on with collect --resume"


@dataclass(frozen=True, slots=True)
class ValidateRequest:
    """The options of the command."""

    paths: tuple[Path, ...]
    deep: bool = False
    allow_unfinished: bool = False
    as_json: bool = False
    junit: Path | None = None
    github: bool = False


def run_validate(request: ValidateRequest) -> int:
    """Checks all paths and returns the exit code. Raises `RollerError` (exit 2) when a report cannot be written."""
    if request.as_json and request.github:
        raise RollerError("--json and --github both write to stdout: give one of them", exit_code=2)
    results: list[Checked] = []

    def found(result: Checked) -> None:
        results.append(result)
        if not request.as_json or result.kind == "path":
            _say(result)
        if request.github:
            for line in annotation_lines(result):
                answer(line)

    for path in request.paths:
        _check(path, request, found)
    worst = max((result.exit_code for result in results), default=0)
    if request.as_json:
        answer(json_text.dumps_ascii(_document(results, valid=worst == 0)))
    if request.junit is not None:
        write_junit(request.junit, results)
    return worst


def _check(path: Path, request: ValidateRequest, found: Callable[[Checked], None]) -> None:
    try:
        if is_run(path):
            _check_run(path, request, found)
            return
        attempts = find_attempts(path)
    except RollerError as error:
        found(Checked("path", path, "error", (Finding("", str(error)),), exit_code=error.exit_code))
        return
    for attempt in attempts:
        found(_attempt(attempt, request))


def _attempt(attempt: Path, request: ValidateRequest) -> Checked:
    """An attempt on its own; its run, where it has one, knows its manifest's hash."""
    if not (attempt / MANIFEST).exists():
        return _unfinished("attempt", attempt, Finding(attempt.name or ".", _NOT_PUBLISHED), request)
    findings = validate_published(attempt, deep=request.deep)
    if not findings:
        problem = recorded_hash_problem(attempt.absolute(), manifest_digest(attempt))
        findings += [Finding(MANIFEST, problem)] if problem is not None else []
    status = None if findings else read_manifest(attempt)["capture_status"]
    return Checked("attempt", attempt, "invalid" if findings else "valid", tuple(findings), capture_status=status)


def _check_run(run_dir: Path, request: ValidateRequest, found: Callable[[Checked], None]) -> None:
    def each(sample: SampleReport) -> None:
        for result in _sample(sample, request):
            found(result)

    report = check_run(run_dir, deep=request.deep, on_sample=each)
    findings = list(report.findings)
    if report.run is not None and report.run.mode is RunMode.UNCAPTURED:
        findings.append(Finding(RUN_FILE, "mode is uncaptured: there are no calls to validate"))
    elif report.run is not None and not report.samples:
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
        return _unfinished("attempt", attempt.place, Finding(attempt.place.name, _NOT_PUBLISHED), request, sample)
    status = attempt.manifest["capture_status"] if attempt.manifest is not None and not attempt.findings else None
    return Checked(
        "attempt", attempt.place, attempt.status, tuple(attempt.findings), capture_status=status, sample=sample
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
    return document | {"findings": [finding._asdict() for finding in result.findings]}
