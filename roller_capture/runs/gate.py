"""Resume's decision, before any model runs: reuse, redo, new or refuse, for each sample, with the file and the reason.

Design section 9: a sample is reused only if its files match their hashes, every reference resolves, and the
configuration is the same. `completed` is reused, also when `partial`; failed or interrupted becomes the next attempt.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from roller_capture.publication import MANIFEST
from roller_capture.runs.books import CAPTURE, SAMPLE_FILE, SAMPLES, Sample, SampleState
from roller_capture.runs.check import AttemptReport, AttemptStatus, RunReport, SampleReport
from roller_capture.runs.configuration import Arguments, RunMode
from roller_capture.runs.old_trajectories import advice
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.terminal import safe
from roller_capture.vocabulary import CaptureStatus


class Action(StrEnum):
    """What is done with a sample."""

    NEW = "new"
    REUSE = "reuse"
    REDO = "redo"
    FINISH = "finish"  # publish what a killed collect has left, then decide again
    REFUSE = "refuse"
    KEEP = "keep"  # it is in the run, and not in the file


@dataclass(frozen=True, slots=True)
class Decision:
    """What is done with one sample; `reason` names the file and says why. `spec` is `None` if nobody asked for it."""

    sample_id: str
    action: Action
    reason: str
    spec: SampleSpec | None
    report: SampleReport | None = None

    @property
    def line(self) -> str:
        """As it is told."""
        return f"{self.sample_id}: {self.action}: {safe(self.reason)}"

    @property
    def sample(self) -> Sample | None:
        """Its books."""
        return None if self.report is None else self.report.sample


def decide_all(report: RunReport, specs: Sequence[SampleSpec], *, redo_partial: bool) -> Iterator[Decision]:
    """One decision for each sample of the file, in its order, then for those that are in the run alone."""
    found = {sample.folder.name: sample for sample in report.samples}
    for spec in specs:
        sample = found.pop(spec.sample_id, None)
        if sample is None:
            yield Decision(spec.sample_id, Action.NEW, "is not in the run yet", spec)
        else:
            yield decide(sample, spec, report.run_dir, redo_partial=redo_partial)
    for sample in found.values():
        yield decide(sample, None, report.run_dir, redo_partial=redo_partial)


def decide(sample: SampleReport, spec: SampleSpec | None, run_dir: Path, *, redo_partial: bool) -> Decision:
    """What is done with a sample that is in the run. `run_dir` is what its files are named from."""
    name = sample.folder.name
    problems = list(sample.problems())
    if problems:
        path, problem = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        todo = advice(sample.folder, run_dir) if sample.mixed else "put the file back, or use a new --run-dir"
        return Decision(name, Action.REFUSE, f"{_named(path, run_dir)}: {problem}{more}: {todo}", spec, sample)
    assert sample.sample is not None
    books = sample.sample
    if spec is not None:
        changes = list(changed(books, spec))
        if changes:
            reason = f"{SAMPLES}/{name}/{SAMPLE_FILE}: {changes[0]}: give the sample another id, or use a new --run-dir"
            return Decision(name, Action.REFUSE, reason, spec, sample)
    decision = _by_attempts(sample, books, redo_partial=redo_partial)
    if spec is None and decision.action is not Action.FINISH:
        return replace(decision, action=Action.KEEP, reason=f"is not in the file: {decision.reason}")
    return replace(decision, spec=spec)


def _by_attempts(sample: SampleReport, books: Sample, *, redo_partial: bool) -> Decision:
    name = sample.folder.name

    def decided(action: Action, attempt: AttemptReport | None, why: str, file: str = "") -> Decision:
        inner = SAMPLE_FILE if attempt is None else f"{CAPTURE}/{attempt.place.name}{file}"
        return Decision(name, action, f"{SAMPLES}/{name}/{inner}: {why}", None, sample)

    unfinished = [attempt for attempt in sample.attempts if attempt.status is AttemptStatus.UNFINISHED]
    if unfinished:
        return decided(Action.FINISH, unfinished[0], "was cut off before it was published", "/work")
    recorded = [attempt for attempt in sample.attempts if attempt.status is not AttemptStatus.ABSENT]
    newest = sample.attempts[-1] if sample.attempts else None
    following = f"attempt-{len(sample.attempts) + 1:04} follows"
    if newest is None or not recorded or newest.status is AttemptStatus.ABSENT:
        return decided(Action.REDO, None, f"nothing was recorded: {following}")
    if books.mode is RunMode.UNCAPTURED:
        completed = books.state is SampleState.COMPLETED
        action = Action.REUSE if completed else Action.REDO
        return decided(action, None, str(books.state) if completed else f"{books.state}: {following}")
    assert newest.manifest is not None
    state = SampleState.of(newest.manifest["execution_status"])
    capture = newest.manifest["capture_status"]
    if state is not SampleState.COMPLETED:
        return decided(Action.REDO, newest, f"{state}: {following}", f"/{MANIFEST}")
    if redo_partial and capture != CaptureStatus.COMPLETE:
        return decided(Action.REDO, newest, f"completed, capture {capture}: {following}", f"/{MANIFEST}")
    return decided(Action.REUSE, newest, f"completed, capture {capture}", f"/{MANIFEST}")


def changed(books: Sample, spec: SampleSpec) -> Iterator[str]:
    """In what a sample differs from what was collected under its id."""
    if books.turns != spec.turns:
        count = f"{len(books.turns)} turns, now {len(spec.turns)}" if len(books.turns) != len(spec.turns) else ""
        yield f"the {'turns are' if count else 'prompt is'} another one under this id{f' ({count})' if count else ''}"
    now = None if spec.workdir is None else str(spec.workdir)
    for name, before, after in (
        ("workdir", books.workdir, now),
        ("model", books.model, spec.model),
        ("profile", books.profile, spec.profile),
    ):
        if before != after:
            yield f"{name} was {before or 'the default'}, now it is {after or 'the default'}"
    arguments = Arguments.of(spec.harness_args) if spec.harness_args else None
    if books.harness_args != arguments:
        yield "harness_args are others under this id"


def _named(path: Path, run_dir: Path) -> str:
    return path.relative_to(run_dir).as_posix() if path.is_relative_to(run_dir) else str(path)
