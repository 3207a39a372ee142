"""One attempt: private folder, proxy, turns, native logs, in the one order that loses nothing.

Stop order (design section 11): the harness's processes, then the calls they left open, then the proxy. It is kept on
every way out; the guard keeps it when this process is killed.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from roller_capture.capture_protocol import Gap
from roller_capture.collect import native_logs
from roller_capture.collect.api_base import ApiBase
from roller_capture.collect.credentials import Keys
from roller_capture.collect.guard import Guard, Guarded, Lifeline
from roller_capture.collect.kept_process import Keeping
from roller_capture.collect.native_logs import NativeStore, NotSavedError
from roller_capture.collect.private_folder import (
    PrivateFolder,
    make_private_folder,
    no_temporary_room,
    remove_private_folder,
    temporary_trouble,
)
from roller_capture.collect.recorded import recorded_so_far
from roller_capture.collect.stop_signal import StopSignal
from roller_capture.collect.turns import RunOutcome, TurnFiles, TurnLimits, TurnRunner, tail_of
from roller_capture.collect.waiting import Cause, process_descriptor
from roller_capture.errors import RollerError
from roller_capture.launchers import Launcher, LaunchSettings
from roller_capture.proxy_process import ProxyProcess
from roller_capture.terminal import safe, say
from roller_capture.vocabulary import AttemptErrorCode, ExecutionStatus, Protocol
from roller_capture.working_files import RecordedCall

_LONGEST_LINE: Final = 300
"""Characters that are shown of a line of the harness."""


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """Everything that is decided before an attempt begins. `api_base` is `None` only in an uncaptured run."""

    harness: str
    launcher: Launcher
    binary: Path
    version: str
    attempt: Path
    prompts: tuple[str, ...]
    api_base: ApiBase | None
    keys: Keys
    key_variable: str
    model: str | None
    protocol: Protocol
    profile: str | None
    workdir: Path | None
    timeout: float
    drain_timeout: float
    arguments: tuple[str, ...]
    captured: bool
    umask: int = -1
    """The user's own, for the harness; -1: as this process has it."""
    tell: Callable[[str], None] = say
    """Told what goes on, a line each time."""
    starting: AbstractContextManager[object] = field(default_factory=contextlib.nullcontext)
    """Held while the proxy comes up: many at once would take so long that some are given up."""


class UnsavedError(RollerError):
    """The run is over, but its logs could not be saved; `is_kept` tells that the private folder has them."""

    def __init__(self, message: str, execution_status: ExecutionStatus, *, is_kept: bool) -> None:
        super().__init__(message)
        self.execution_status = execution_status
        self.is_kept = is_kept


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How an attempt went. `calls` counts the model requests that reached the proxy."""

    outcome: RunOutcome
    calls: int
    errors: tuple[Gap, ...]
    stderr_tail: str

    @property
    def last_words(self) -> list[str]:
        """The last lines of the harness's error output, when it did not end well; fit to be shown."""
        if self.outcome.execution_status is ExecutionStatus.COMPLETED:
            return []
        return [safe(line)[:_LONGEST_LINE] for line in self.stderr_tail.splitlines() if line.strip()]


class AttemptRunner:
    """Runs one attempt up to the point where it can be finalized."""

    def __init__(self, plan: AttemptPlan, stop: StopSignal, guard: Guard) -> None:
        self._plan = plan
        self._stop = stop
        self._guard = guard
        self._name = str(plan.attempt)
        self.has_started = False
        """Whether a process of the harness was started."""
        self.is_guarded = False
        """Whether the watchdog would put it in order now."""

    def run(self, on_private_folder: Callable[[Path], None], tick: Callable[[], None] | None = None) -> AttemptResult:
        """Runs it. `on_private_folder` is told where the harness's home will be.

        Raises `RollerError` when proxy or harness do not start, and `UnsavedError` when the logs could not be saved.
        Whatever happens, no process is left, and the working files are as complete as they can be.
        """
        try:
            private = make_private_folder()
        except OSError as error:
            raise no_temporary_room(error) from None
        on_private_folder(private.root)
        try:
            result = self._run_in(private, tick)
        except UnsavedError as error:
            if error.is_kept:
                self._release()
            else:
                self._put_away(private)
            raise
        except RollerError:
            self._put_away(private)
            raise
        # Not on other ways out, such as a second Ctrl-C: then the watchdog does what may have been left undone.
        self._put_away(private)
        return result

    def _put_away(self, private: PrivateFolder) -> None:
        # The watchdog lets go last: half of a folder that was being removed would pass for the harness's logs.
        remove_private_folder(private.root)
        self._release()

    def _watch(self, guarded: Guarded) -> None:
        self.is_guarded = True
        self._guard.watch(self._name, guarded)

    def _release(self) -> None:
        self._guard.release(self._name)
        self.is_guarded = False

    def _run_in(self, private: PrivateFolder, tick: Callable[[], None] | None) -> AttemptResult:
        guarded = Guarded(
            harness=self._plan.harness,
            harness_version=self._plan.version,
            turns=len(self._plan.prompts),
            private=str(private.root),
            home=str(private.home),
            attempt=str(self._plan.attempt),
            captured=self._plan.captured,
            real_keys=self._plan.keys.real,
        )
        with (
            self._guard.lifeline() as lifeline,
            self._proxy(guarded, lifeline) as (base_url, guarded, proxy_descriptor),
        ):
            settings = self._settings(private, base_url)
            folder = self._native_folder()
            keeping = Keeping(lifeline, self._plan.umask)
            limits = TurnLimits(self._plan.timeout, self._stop, proxy_descriptor, keeping, self._plan.tell)
            files = TurnFiles(folder / native_logs.STDOUT, private.stderr, private.service_output)
            runner = TurnRunner(self._plan.launcher, settings, limits, files, self._count_requests)
            started_at = time.time()
            outcome = RunOutcome(ended_by=Cause.COLLECT_FAILED)

            def started(pid: int) -> None:
                nonlocal guarded
                self.has_started = True
                guarded = replace(guarded, keepers=(*guarded.keepers, pid))
                self._watch(guarded)

            try:
                self._plan.launcher.prepare(settings)
                outcome = runner.run(self._plan.prompts, started, tick)
            finally:
                calls = native_logs.settled_calls(self._plan.attempt) if self._plan.captured else ()
                tail = tail_of(private.stderr, self._plan.keys.secrets)
                errors = self._save(folder, private, outcome, calls, started_at, tail)
        return AttemptResult(outcome, len(calls), tuple(errors), tail)

    def _count_requests(self) -> int | None:
        """How many model requests have come so far; `None` where nobody counts."""
        return recorded_so_far(self._plan.attempt).calls if self._plan.captured else None

    @contextlib.contextmanager
    def _proxy(self, guarded: Guarded, lifeline: Lifeline) -> Iterator[tuple[str | None, Guarded, int | None]]:
        """The recording proxy, or nothing in an uncaptured run: the harness's base URL, what to guard, a descriptor."""
        base = self._plan.api_base
        self._watch(guarded)
        if not self._plan.captured or base is None:
            yield (None if base is None else base.url), guarded, None
            return
        keys = self._plan.keys
        options = [*keys.proxy_options, *_trusted_authority()]
        watched = guarded

        def watch(proxy: ProxyProcess) -> None:
            nonlocal watched
            watched = replace(guarded, proxy=proxy.pid, proxy_folder=str(proxy.private_folder))
            self._watch(watched)

        plan = self._plan
        proxy = ProxyProcess(
            plan.attempt, plan.harness, base.origin, options, keys.proxy_environment, watch, lifeline.of_proxy
        )
        with plan.starting:
            self._start(proxy)
        try:
            with process_descriptor(proxy.pid) as descriptor:
                yield base.behind(proxy.url), watched, descriptor
        finally:
            proxy.stop()

    @staticmethod
    def _start(proxy: ProxyProcess) -> None:
        try:
            proxy.start()
        except OSError as error:
            raise no_temporary_room(error) from None
        except RollerError as error:
            trouble = temporary_trouble()  # then the proxy had no room for a word, either
            if trouble is not None:
                raise no_temporary_room(trouble) from None
            # The recorder's advice is for those who start it by hand.
            message = str(error).replace("another attempt directory", "another run directory with --run-dir")
            raise RollerError(message, exit_code=error.exit_code) from None

    def _native_folder(self) -> Path:
        plan = self._plan
        try:
            if plan.captured:
                return native_logs.native_folder(plan.attempt)
            plan.attempt.mkdir(mode=0o700)
        except OSError as error:
            raise RollerError(f"{plan.attempt}: cannot be written ({error.strerror}): make room") from None
        return plan.attempt

    def _settings(self, private: PrivateFolder, base_url: str | None) -> LaunchSettings:
        plan = self._plan
        return LaunchSettings(
            binary=plan.binary,
            home=private.home,
            temporary=private.temporary,
            workdir=plan.workdir or private.workspace,
            base_url=base_url,
            key_variable=plan.key_variable,
            key=plan.keys.for_harness,
            model=plan.model,
            protocol=plan.protocol,
            profile=plan.profile,
            drain_timeout=plan.drain_timeout,
            arguments=plan.arguments,
            captured=plan.captured,
        )

    def _save(
        self,
        folder: Path,
        private: PrivateFolder,
        outcome: RunOutcome,
        calls: tuple[RecordedCall, ...],
        started_at: float,
        tail: str,
    ) -> list[Gap]:
        """Native logs and launcher.json; returns all that went wrong. Raises `UnsavedError`."""
        plan = self._plan
        errors = [*outcome.errors]
        if plan.captured and outcome.answered and not calls:
            message = "the harness gave answers, but no model request reached the proxy: it has gone around it"
            errors.append(Gap(AttemptErrorCode.NO_REQUEST_SEEN, message, native_logs.STDOUT))
        facts: dict[str, Any] = {
            "root_native_id": outcome.root_session_id,
            "from": native_logs.STDOUT,
            "execution_status": outcome.execution_status,
            "exit_codes": outcome.exit_codes,
            "turn_failed": outcome.turn_failed,
            "ended_by": outcome.ended_by,
            "harness_version": plan.version,
            "turns": len(plan.prompts),
            "turns_not_run": outcome.turns_not_run,
            "started_at": started_at,
            "ended_at": time.time(),
        }
        if outcome.execution_status is not ExecutionStatus.COMPLETED:
            facts["stderr_tail"] = tail
        store = NativeStore(plan.launcher, private.home, folder, plan.keys.real)
        try:
            return store.save(calls, outcome.session_ids, facts, errors)
        except NotSavedError as error:
            status = outcome.execution_status
            told = error.told(plan.attempt, private.root, private.home, status, captured=plan.captured)
            raise UnsavedError(told, status, is_kept=not error.is_gone) from None


def _trusted_authority() -> list[str]:
    """OpenSSL's own variable for a private authority, which mitmproxy does not look at."""
    path = os.environ.get("SSL_CERT_FILE")
    return ["--set", f"ssl_verify_upstream_trusted_ca={Path(path).absolute()}"] if path else []
