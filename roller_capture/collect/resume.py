"""Goes on with a run: everything is checked first; then what a killed `collect` has left is published or adopted.

When one sample is refused, nothing is changed and nothing is run.
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from roller_capture.collect.request import CollectRequest
from roller_capture.collect.sample_run import Finalize, publish_leftover
from roller_capture.errors import RollerError
from roller_capture.pool import ProcessPool
from roller_capture.publication import MANIFEST
from roller_capture.recording.lock import LOCK_FILE, holder_of
from roller_capture.runs.books import CAPTURE, SAMPLES
from roller_capture.runs.check import AttemptStatus, SampleReport, check_run, check_sample
from roller_capture.runs.configuration import RUN_FILE, RunConfiguration, RunDocument, differences
from roller_capture.runs.gate import Action, Decision, decide, decide_all
from roller_capture.runs.pooled_check import pooled_checks
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.terminal import progress, say
from roller_capture.working_files import WORK_DIR

_MANY: Final = 2000
"""Samples from which on several processes are quicker, also on two cores: one starts in the time of some 400 checks."""


class Resumption:
    """One call of `collect --resume`, which holds the run directory."""

    def __init__(self, run_dir: Path, request: CollectRequest, finalize: Finalize, real_keys: Sequence[str]) -> None:
        self._run_dir = run_dir
        self._request = request
        self._finalize = finalize
        self._real_keys = real_keys
        self._redo_partial = request.redo is not None

    def decide(self, specs: Sequence[SampleSpec], now: RunConfiguration) -> tuple[RunDocument, list[Decision]]:
        """What is done with each sample, told in a line each. Raises `RollerError` (exit 1) when any is refused."""
        with progress("checking", "samples") as bar:
            report = check_run(self._run_dir, progress=bar)
        run = report.run
        if run is None:
            raise RollerError(f"{self._run_dir / RUN_FILE}: {report.findings[0].message}: put it back as it was")
        problems = [f"{self._run_dir / RUN_FILE}: {text}" for text in differences(run, now)]
        problems += [f"{self._run_dir / finding.file}: {finding.message}" for finding in report.findings]
        for problem in problems:
            say(f"refuse: {problem}")
        decisions = list(decide_all(report, specs, redo_partial=self._redo_partial))
        decisions = [self._unless_in_use(decision) for decision in decisions]
        self._refuse_if_any(decisions, len(problems))
        decisions = [self._finished(decision, run) for decision in decisions]
        for decision in decisions:
            self._adopt(decision)
            say(decision.line)
        self._refuse_if_any(decisions, 0, told=True)
        return run, decisions

    def _refuse_if_any(self, decisions: list[Decision], problems: int, *, told: bool = False) -> None:
        refused = [decision for decision in decisions if decision.action is Action.REFUSE]
        if not refused and not problems:
            return
        for decision in () if told else decisions:
            say(decision.line)
        what = f"{len(refused)} of {len(decisions)} samples" if refused else "the run"
        changed = "no model was run" if told else "nothing was changed, and no model was run"
        raise RollerError(f"{self._run_dir}: Resume refuses {what}: {changed}")

    def _unless_in_use(self, decision: Decision) -> Decision:
        """What is still being recorded or finalized by somebody is nobody's leftover."""
        if decision.action is not Action.FINISH or decision.report is None:
            return decision
        for attempt in decision.report.attempts:
            if attempt.status is AttemptStatus.UNFINISHED and _is_held(attempt.place / WORK_DIR):
                holder = holder_of(attempt.place / WORK_DIR) or "a recorder or finalizer"
                reason = f"{attempt.place / WORK_DIR}: is in use by {holder}: end that first"
                return Decision(decision.sample_id, Action.REFUSE, reason, decision.spec, decision.report)
        return decision

    def _finished(self, decision: Decision, run: RunDocument) -> Decision:
        """Publishes what was left of a sample, and decides anew."""
        report = decision.report
        if decision.action is not Action.FINISH or report is None or report.sample is None:
            return decision
        for attempt in report.attempts:
            if attempt.status is AttemptStatus.UNFINISHED and attempt.entry is not None:
                folder = attempt.entry.private_folder
                try:
                    publish_leftover(report.sample, attempt.entry, self._request, self._finalize, self._real_keys)
                except RollerError as error:
                    return Decision(decision.sample_id, Action.REFUSE, str(error), decision.spec, report)
                say(f"{decision.sample_id}: published what was left: {self._named(report, attempt.place)}")
                if folder is not None and Path(folder).exists():
                    say(f"{decision.sample_id}: its logs have been saved, {folder} can be removed")
        again = check_sample(report.folder, run)
        return decide(again, decision.spec, self._run_dir, redo_partial=self._redo_partial)

    def _adopt(self, decision: Decision) -> None:
        """A crash between publication and bookkeeping: what is published and valid stands, and the books follow."""
        report = decision.report
        if report is None or report.sample is None or decision.action is Action.REFUSE:
            return
        for attempt in report.attempts:
            if not attempt.is_settled and attempt.entry is not None and attempt.manifest is not None:
                report.sample.settle(attempt.entry, attempt.manifest)
                named = self._named(report, attempt.place)
                say(f"{decision.sample_id}: adopted: {named}/{MANIFEST}: was published before the books were written")

    def _named(self, report: SampleReport, place: Path) -> str:
        return f"{SAMPLES}/{report.folder.name}/{CAPTURE}/{place.name}"


def _on_all_cores(folders: Sequence[Path], run: RunDocument) -> Iterator[SampleReport]:
    """Every attempt is read and hashed, which is work for each core where there are many; else it is not worth the
    start of a process."""
    cores = len(os.sched_getaffinity(0))
    if cores == 1 or len(folders) < _MANY:
        yield from (check_sample(folder, run) for folder in folders)
        return
    with ProcessPool(cores) as pool:
        yield from pooled_checks(pool)(folders, run)


def _is_held(work: Path) -> bool:
    """Whether a recorder or finalizer lives that has this folder. Nothing is written: the lock is only tried."""
    try:
        descriptor = os.open(work / LOCK_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
