"""One attempt: private folder, proxy, turns, native logs, in the one order that loses nothing.

Stop order (design section 11): the harness's processes, then the calls they left open, then the proxy. It is kept on
every way out; the guard keeps it when this process is killed.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from roller_capture.capture_protocol import Gap
from roller_capture.collect import native_logs
from roller_capture.collect.api_base import ApiBase
from roller_capture.collect.credentials import Keys
from roller_capture.collect.guard import Guard, Guarded
from roller_capture.collect.private_folder import PrivateFolder, make_private_folder, remove_private_folder
from roller_capture.collect.stop_signal import StopSignal
from roller_capture.collect.turns import RunOutcome, TurnFiles, TurnLimits, TurnRunner, tail_of
from roller_capture.collect.waiting import Cause, process_descriptor
from roller_capture.errors import RollerError
from roller_capture.launchers import Launcher, LaunchSettings
from roller_capture.proxy_process import ProxyProcess
from roller_capture.vocabulary import AttemptErrorCode, ExecutionStatus, Protocol
from roller_capture.working_files import RecordedCall


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


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How an attempt went. `calls` counts the model requests that reached the proxy."""

    outcome: RunOutcome
    calls: int
    errors: tuple[Gap, ...]
    stderr_tail: str


class AttemptRunner:
    """Runs one attempt up to the point where it can be finalized."""

    def __init__(self, plan: AttemptPlan, stop: StopSignal, guard: Guard) -> None:
        self._plan = plan
        self._stop = stop
        self._guard = guard
        self._name = str(plan.attempt)

    def run(self, on_private_folder: Callable[[Path], None], tick: Callable[[], None] | None = None) -> AttemptResult:
        """Runs it. `on_private_folder` is told where the harness's home will be.

        Raises `RollerError` when proxy or harness do not start. Whatever happens, no process is left, and the working
        files are as complete as they can be.
        """
        private = make_private_folder()
        on_private_folder(private.root)
        try:
            result = self._run_in(private, tick)
        except RollerError:
            self._put_away(private)
            raise
        # Not on other ways out, such as a second Ctrl-C: then the watchdog does what may have been left undone.
        self._put_away(private)
        return result

    def _put_away(self, private: PrivateFolder) -> None:
        self._guard.release(self._name)
        remove_private_folder(private.root)

    def _run_in(self, private: PrivateFolder, tick: Callable[[], None] | None) -> AttemptResult:
        guarded = Guarded(
            harness=self._plan.harness,
            harness_version=self._plan.version,
            turns=len(self._plan.prompts),
            private=(str(private.root),),
            home=str(private.home),
            attempt=str(self._plan.attempt) if self._plan.captured else None,
        )
        with self._proxy(guarded) as (base_url, guarded, proxy_descriptor):
            settings = self._settings(private, base_url)
            folder = self._native_folder()
            stdout = folder / native_logs.STDOUT
            limits = TurnLimits(self._plan.timeout, self._stop, proxy_descriptor)
            runner = TurnRunner(
                self._plan.launcher, settings, limits, TurnFiles(stdout, private.stderr, private.service_output)
            )
            started_at = time.time()
            outcome = RunOutcome(ended_by=Cause.COLLECT_FAILED)

            def started(pid: int) -> None:
                self._guard.watch(self._name, replace(guarded, leader=pid))

            try:
                self._plan.launcher.prepare(settings)
                outcome = runner.run(self._plan.prompts, started, tick)
            finally:
                calls = native_logs.settled_calls(self._plan.attempt) if self._plan.captured else ()
                tail = tail_of(private.stderr, self._plan.keys.secrets)
                errors = self._save(folder, private.home, outcome, calls, started_at, tail)
        return AttemptResult(outcome, len(calls), tuple(errors), tail)

    @contextlib.contextmanager
    def _proxy(self, guarded: Guarded) -> Iterator[tuple[str | None, Guarded, int | None]]:
        """The recording proxy, or nothing in an uncaptured run: the harness's base URL, what to guard, a descriptor."""
        base = self._plan.api_base
        self._guard.watch(self._name, guarded)
        if not self._plan.captured or base is None:
            yield (None if base is None else base.url), guarded, None
            return
        keys = self._plan.keys
        options = [*keys.proxy_options, *_trusted_authority()]
        watched = guarded

        def watch(proxy: ProxyProcess) -> None:
            nonlocal watched
            private = (*guarded.private, str(proxy.private_folder))
            watched = replace(guarded, proxy=proxy.pid, private=private)
            self._guard.watch(self._name, watched)

        plan = self._plan
        proxy = ProxyProcess(plan.attempt, plan.harness, base.origin, options, keys.proxy_environment, watch)
        with proxy, process_descriptor(proxy.pid) as descriptor:
            yield base.behind(proxy.url), watched, descriptor

    def _native_folder(self) -> Path:
        if self._plan.captured:
            return native_logs.native_folder(self._plan.attempt)
        self._plan.attempt.mkdir(mode=0o700, parents=True)
        return self._plan.attempt

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
        home: Path,
        outcome: RunOutcome,
        calls: tuple[RecordedCall, ...],
        started_at: float,
        tail: str,
    ) -> list[Gap]:
        """Native logs and launcher.json; returns all that went wrong."""
        plan = self._plan
        errors = [*outcome.errors]
        errors += native_logs.copy_native_logs(plan.launcher, home, folder, calls, outcome.session_ids)
        if plan.captured and outcome.answered and not calls:
            message = "the harness gave answers, but no model request reached the proxy: it has gone around it"
            errors.append(Gap(AttemptErrorCode.NO_REQUEST_SEEN, message, native_logs.STDOUT))
        facts: dict[str, Any] = {
            "root_native_id": outcome.root_session_id,
            "from": native_logs.STDOUT,
            "execution_status": outcome.execution_status,
            "exit_codes": outcome.exit_codes,
            "ended_by": outcome.ended_by,
            "harness_version": plan.version,
            "turns": len(plan.prompts),
            "turns_not_run": outcome.turns_not_run,
            "started_at": started_at,
            "ended_at": time.time(),
            "errors": [native_logs.launcher_error(error) for error in errors],
        }
        if outcome.execution_status is not ExecutionStatus.COMPLETED:
            facts["stderr_tail"] = tail
        native_logs.write_launcher_file(folder, facts)
        return errors


def _trusted_authority() -> list[str]:
    """OpenSSL's own variable for a private authority, which mitmproxy does not look at."""
    path = os.environ.get("SSL_CERT_FILE")
    return ["--set", f"ssl_verify_upstream_trusted_ca={Path(path).absolute()}"] if path else []
