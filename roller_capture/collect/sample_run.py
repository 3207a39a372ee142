"""One attempt of one sample: run, noted in the books, published, noted again."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roller_capture.collect.attempt import AttemptPlan, AttemptResult, AttemptRunner, UnsavedError
from roller_capture.collect.checks import CheckedRequest
from roller_capture.collect.guard import Guard
from roller_capture.collect.native_logs import NATIVE
from roller_capture.collect.private_folder import is_private_folder
from roller_capture.collect.request import CollectRequest
from roller_capture.collect.sealing import seal
from roller_capture.collect.starting import StoppedError
from roller_capture.collect.stop_signal import StopSignal
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.runs.books import AttemptEntry, Sample, SampleState
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.working_files import WORK_DIR

Finalize = Callable[[Path, FinalizeRequest], dict[str, Any]]
"""Publishes an attempt and returns its manifest."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all samples of a run share. `settings` are those in which this call differs from run.json."""

    request: CollectRequest
    checked: CheckedRequest
    settings: dict[str, Any]
    stop: StopSignal
    guard: Guard
    finalize: Finalize
    umask: int
    starting: contextlib.AbstractContextManager[object]
    begun: "list[SampleRun]" = field(default_factory=list)
    """All that have been begun, for who has to break off."""


class SampleRun:
    """The next attempt of a sample. Making it notes the attempt in the books; raises `RollerError` when that fails."""

    def __init__(self, context: RunContext, sample: Sample, spec: SampleSpec, tell: Callable[[str], None]) -> None:
        self._context = context
        self._sample = sample
        self._entry, self.attempt = sample.begin_attempt(dict(context.settings))
        self._runner = AttemptRunner(_plan(context, spec, self.attempt, tell), context.stop, context.guard)
        context.begun.append(self)

    @property
    def has_started(self) -> bool:
        """Whether a process of the harness was started."""
        return self._runner.has_started

    @property
    def is_guarded(self) -> bool:
        """Whether the watchdog would put it in order now, and note in the books what became of it."""
        return self._runner.is_guarded

    @property
    def is_unpublished(self) -> bool:
        """Whether there are working files that nobody has published."""
        return (self.attempt / WORK_DIR).is_dir()

    def note_broken_off(self) -> None:
        """`collect` ends here: in the books it is running no more, unless that is left to the watchdog."""
        if not self.is_guarded and self._entry.state is SampleState.RUNNING:
            with contextlib.suppress(RollerError):
                self._sample.end_attempt(self._entry, SampleState.INTERRUPTED)

    def execute(self, tick: Callable[[], None] | None = None) -> AttemptResult:
        """Runs it; how it was executed stands in the books before anything is published. Raises `RollerError`."""
        entry, sample = self._entry, self._sample

        def note_private_folder(private: Path) -> None:
            entry.private_folder = str(private)
            sample.write()

        try:
            result = self._runner.run(note_private_folder, tick)
        except RollerError as error:
            kept = isinstance(error, UnsavedError) and error.is_kept
            entry.private_folder = entry.private_folder if kept else None
            known = error.execution_status if isinstance(error, UnsavedError | StoppedError) else SampleState.FAILED
            with contextlib.suppress(RollerError):  # what went wrong first is what should be told
                sample.end_attempt(entry, SampleState(known))
            raise
        entry.private_folder = None
        sample.end_attempt(entry, SampleState(result.outcome.execution_status))
        return result

    def publish(self) -> dict[str, Any]:
        """Publishes it; the intended hash is in the books before anything is in place. Raises `RollerError`."""
        request = finalize_request(self._context.request, lambda digest: self._sample.note_intent(self._entry, digest))
        return _published(self._sample, self._entry, self._context.finalize(self.attempt, request))


def publish_leftover(
    sample: Sample, entry: AttemptEntry, request: CollectRequest, finalize: Finalize, real_keys: Sequence[str]
) -> None:
    """Publishes what a `collect` that was killed has left, with the logs where they were left. Raises `RollerError`.

    Nobody may have masked the keys in them: that was the watchdog's, and it can have been killed too.
    """
    home = private_home(entry)
    for folder in (sample.place(entry) / WORK_DIR / NATIVE, home):
        try:
            if folder is not None and folder.is_dir() and not folder.is_symlink():
                seal(folder, real_keys)
        except OSError as error:
            raise RollerError(f"{folder}: keys in it cannot be masked ({error.strerror})") from None
    wanted = replace(
        finalize_request(request, lambda digest: sample.note_intent(entry, digest)),
        native=home,
        execution_status=None if home is None else entry.state.execution_status,
    )
    _published(sample, entry, finalize(sample.place(entry), wanted))


def private_home(entry: AttemptEntry) -> Path | None:
    """The harness's home, where the logs could not be saved into the attempt. What sample.json names is a private
    folder of ours and of this user, or nothing."""
    if entry.private_folder is None:
        return None
    folder = Path(entry.private_folder)
    return folder / "home" if is_private_folder(folder) else None


def _published(sample: Sample, entry: AttemptEntry, manifest: dict[str, Any]) -> dict[str, Any]:
    sample.settle(entry, manifest)
    return manifest


def finalize_request(request: CollectRequest, note_intent: Callable[[str], None]) -> FinalizeRequest:
    """How attempts of this run are published."""
    return FinalizeRequest(
        harness=request.harness,
        debug_retention=request.capture_debug,
        compress=request.compress,
        model_aliases=request.model_aliases,
        before_publish=note_intent,
    )


def _plan(context: RunContext, spec: SampleSpec, attempt: Path, tell: Callable[[str], None]) -> AttemptPlan:
    request, checked = context.request, context.checked
    return AttemptPlan(
        harness=request.harness,
        launcher=checked.launcher,
        binary=checked.binary.path,
        version=checked.binary.version,
        attempt=attempt,
        prompts=spec.turns,
        api_base=checked.api_base,
        keys=checked.keys.for_another_attempt(),
        key_variable=checked.key_variable,
        model=spec.model or request.model,
        protocol=checked.protocol,
        profile=spec.profile or request.profile,
        workdir=spec.workdir,
        timeout=request.timeout,
        drain_timeout=request.drain_timeout,
        arguments=(*request.harness_args, *spec.harness_args),
        captured=request.capture_calls,
        umask=context.umask,
        tell=tell,
        starting=context.starting,
    )
