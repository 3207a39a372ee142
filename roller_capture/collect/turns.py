"""Runs the given turns of one session, one harness process each, and nothing else."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from roller_capture.capture_protocol import Gap
from roller_capture.collect.kept_process import Keeping, KeptProcess, Output
from roller_capture.collect.private_umask import open_private
from roller_capture.collect.service import RunningService, running
from roller_capture.collect.stop_signal import StopSignal
from roller_capture.collect.waiting import Cause, wait_for_first
from roller_capture.errors import RollerError
from roller_capture.launchers import HarnessCommand, Launcher, LaunchSettings
from roller_capture.recording.credentials import Masker
from roller_capture.terminal import say
from roller_capture.vocabulary import AttemptErrorCode, ExecutionStatus

_UNKNOWN: Final = -9
_SIGNALLED: Final = frozenset((129, 130, 131, 134, 137, 143))
"""Exit codes of programs that end because of SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGKILL or SIGTERM (128 + number)."""


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """What ends a run before its own end: seconds for all turns together, the user's signal, the death of the proxy."""

    timeout: float
    stop: StopSignal
    proxy_descriptor: int | None
    keeping: Keeping
    tell: Callable[[str], None] = say
    """Told what goes on, a line each time."""

    @property
    def causes(self) -> dict[int, Cause]:
        """What to wait for beside the harness, by descriptor."""
        found = {self.stop.descriptor: Cause.STOP_SIGNAL}
        if self.proxy_descriptor is not None:
            found[self.proxy_descriptor] = Cause.PROXY_DIED
        return found


class TurnEnd(NamedTuple):
    """How one turn ended. `failed`: the harness's own output says so; its exit code can be 0 then."""

    cause: Cause
    exit_code: int
    failed: bool


class TurnFiles(NamedTuple):
    """Where output goes, appended: that of the turns, and that of a service beside them."""

    stdout: Path
    stderr: Path
    service: Path


@dataclass(slots=True)
class RunOutcome:
    """How the harness ran. `exit_codes` are those of the turns, negative for a signal (as `subprocess` has them);
    `turn_failed` says that the last of them failed by the harness's own output; `answered_itself`, that by that output
    a prompt was answered without a model; `silent_turns` are the numbers of those during which no request came."""

    exit_codes: list[int] = field(default_factory=list)
    turn_failed: bool = False
    session_ids: list[str] = field(default_factory=list)
    ended_by: Cause = Cause.HARNESS_ENDED
    turns_not_run: int = 0
    answered: bool = False
    answered_itself: bool = False
    silent_turns: list[int] = field(default_factory=list)
    errors: list[Gap] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def execution_status(self) -> ExecutionStatus:
        """Completed when every turn ended well; interrupted when somebody else ended it."""
        signalled = any(code < 0 or code in _SIGNALLED for code in self.exit_codes)
        # After the drain timeout the root has given its answer: what ended its process was we.
        drained = self.ended_by is Cause.DRAIN_TIMEOUT and not self.turns_not_run
        if not drained and (signalled or self.ended_by is not Cause.HARNESS_ENDED):
            return ExecutionStatus.INTERRUPTED
        failed = self.turn_failed or any(code > 0 and code not in _SIGNALLED for code in self.exit_codes)
        return ExecutionStatus.FAILED if failed or self.turns_not_run > 0 else ExecutionStatus.COMPLETED

    @property
    def root_session_id(self) -> str | None:
        """The session that the first turn announced."""
        return self.session_ids[0] if self.session_ids else None


class TurnRunner:
    """Runs turns in a home, beside the harness's service where it has one. `count_requests` tells how many model
    requests have come so far, or `None`."""

    def __init__(
        self,
        launcher: Launcher,
        settings: LaunchSettings,
        limits: TurnLimits,
        files: TurnFiles,
        count_requests: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._launcher = launcher
        self._settings = settings
        self._limits = limits
        self._files = files
        self._stdout = files.stdout
        self._count_requests = count_requests

    def run(
        self, prompts: tuple[str, ...], on_start: Callable[[int], None], tick: Callable[[], None] | None
    ) -> RunOutcome:
        """Runs one turn after the other until one does not end well. `on_start` is told each process id.

        All processes of the harness are gone when this returns or raises.
        """
        outcome = RunOutcome()
        started = time.monotonic()
        with self._service(on_start) as service:
            cause = None if service is None else service.wait_until_ready(self._limits.causes, tick)
            if cause is not None:
                outcome.ended_by = cause
            else:
                self._run_turns(prompts, outcome, service, started + self._limits.timeout, on_start, tick)
        outcome.turns_not_run = len(prompts) - len(outcome.exit_codes)
        outcome.answered = self._launcher.has_answered(self._stdout)
        outcome.answered_itself = self._launcher.answered_itself(self._stdout)
        outcome.seconds = time.monotonic() - started
        self._note_oddities(outcome)
        return outcome

    @contextlib.contextmanager
    def _service(self, on_start: Callable[[int], None]) -> Iterator[RunningService | None]:
        service = self._launcher.service(self._settings)
        if service is None:
            yield None
            return
        self._limits.tell("starting the harness's service")
        with running(service, self._settings, self._files.service, self._limits.keeping, on_start) as started:
            yield started

    def _run_turns(
        self,
        prompts: tuple[str, ...],
        outcome: RunOutcome,
        service: RunningService | None,
        deadline: float,
        on_start: Callable[[int], None],
        tick: Callable[[], None] | None,
    ) -> None:
        for number, prompt in enumerate(prompts, 1):
            if self._limits.stop.received is not None:
                outcome.ended_by = Cause.STOP_SIGNAL
                return
            if time.monotonic() >= deadline:  # the drain of the turn before may have gone on beyond it
                self._limits.tell(f"the time limit of {self._limits.timeout:g} s is reached: no further turn is run")
                outcome.ended_by = Cause.TIMEOUT
                return
            self._limits.tell(f"turn {number} of {len(prompts)}")
            turn = self._launcher.turn(self._settings, prompt, outcome.root_session_id)
            before = self._count_requests()
            end = self._run_turn(turn, service, deadline, on_start, tick)
            outcome.ended_by, outcome.turn_failed = end.cause, end.failed
            outcome.exit_codes.append(end.exit_code)
            outcome.session_ids = self._launcher.session_ids(self._stdout)
            if service is not None and outcome.ended_by is Cause.HARNESS_ENDED:
                self._drain(service, outcome, tick)
            if before is not None and self._count_requests() == before:
                outcome.silent_turns.append(number)
            if outcome.ended_by is not Cause.HARNESS_ENDED or outcome.errors or end.failed or end.exit_code != 0:
                return
            if number < len(prompts) and not self._can_go_on(outcome):
                return

    def _drain(self, service: RunningService, outcome: RunOutcome, tick: Callable[[], None] | None) -> None:
        """Subtasks outlive the turn. When they are not waited for to the end, that is an error beside a good turn."""
        cause = service.drain(self._limits.causes, self._settings.drain_timeout, tick, self._limits.tell)
        if cause is Cause.SERVICE_ENDED:
            message = "the harness's service ended while subtasks were waited for"
            outcome.errors.append(Gap(AttemptErrorCode.DRAIN_FAILED, message))
        elif cause is not None:
            outcome.ended_by = cause

    def _can_go_on(self, outcome: RunOutcome) -> bool:
        """A further turn resumes the session that the harness itself has named, and never "the latest"."""
        if len(outcome.session_ids) == 1:
            return True
        reason = "none" if not outcome.session_ids else "more than one"
        message = f"the next turn was not run: of the sessions to resume, the harness announced {reason}"
        outcome.errors.append(Gap(AttemptErrorCode.ROOT_AMBIGUOUS, message, "stdout.jsonl"))
        return False

    def _note_oddities(self, outcome: RunOutcome) -> None:
        if outcome.ended_by is Cause.DRAIN_TIMEOUT:
            waited = f"{self._settings.drain_timeout:g} seconds of waiting for them alone"
            message = f"subtasks or background commands had not ended after {waited}"
            outcome.errors.append(Gap(AttemptErrorCode.DRAIN_FAILED, message))
        if len(outcome.session_ids) > 1 and not outcome.errors:
            message = f"the harness announced {len(outcome.session_ids)} root sessions"
            outcome.errors.append(Gap(AttemptErrorCode.ROOT_AMBIGUOUS, message, "stdout.jsonl"))

    def _run_turn(
        self,
        command: HarnessCommand,
        service: RunningService | None,
        deadline: float,
        on_start: Callable[[int], None],
        tick: Callable[[], None] | None,
    ) -> TurnEnd:
        with open_private(self._stdout) as out, open_private(self._files.stderr) as err:
            start = out.tell()
            try:
                process = KeptProcess.start(command, self._settings, Output(out, err), self._limits.keeping)
            except OSError as error:
                raise self._not_started(error) from None
        code = _UNKNOWN
        try:
            on_start(process.pid)
            cause = self._wait(process, service, start, deadline, tick)
        finally:
            # Also when it has ended well: what its tools left running would go on in a home that is taken away. Beside
            # a service only what the turn itself has started: the subtasks' processes are the service's.
            try:
                code = process.end(self._settings.home if service is None else None)
            except OSError as error:
                raise self._not_started(error) from None
        return TurnEnd(cause, code, self._launcher.turn_failed(self._stdout, start))

    def _not_started(self, error: OSError) -> RollerError:
        return RollerError(f"{self._settings.binary}: cannot be started ({error.strerror})", exit_code=2)

    def _wait(
        self,
        process: KeptProcess,
        service: RunningService | None,
        start: int,
        deadline: float,
        tick: Callable[[], None] | None,
    ) -> Cause:
        descriptors = {process.ended: Cause.HARNESS_ENDED, **self._limits.causes}
        if service is not None:
            descriptors[service.descriptor] = Cause.SERVICE_ENDED
        cause = wait_for_first(descriptors, deadline, tick)
        if cause is not None:
            return cause
        if not self._launcher.turn_has_ended(self._stdout, start):
            self._limits.tell(f"the time limit of {self._limits.timeout:g} s is reached: the harness is stopped")
            return Cause.TIMEOUT
        self._limits.tell(
            f"the time limit is reached; what runs in the background gets {self._settings.drain_timeout:g} s more"
        )
        cause = wait_for_first(descriptors, time.monotonic() + self._settings.drain_timeout, tick)
        if cause is not None:
            return cause
        # What looked like the answer can have been the text before a further tool call.
        return Cause.DRAIN_TIMEOUT if self._launcher.turn_has_ended(self._stdout, start) else Cause.TIMEOUT


def tail_of(path: Path, secrets: tuple[str, ...], limit: int = 2000) -> str:
    """The end of the harness's error output, without keys."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            # Longer than what is shown, so that no key is cut where the window begins.
            stream.seek(max(0, size - 2 * limit))
            data = stream.read(2 * limit)
    except OSError:
        return ""
    masked = Masker(secret.encode() for secret in secrets).mask(data)
    return masked.decode("utf-8", "replace").strip()[-limit:]
