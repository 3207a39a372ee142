"""`roller-capture import`: one attempt's working files from the files of other recorders, all of them or none."""

import contextlib
import os
import platform
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import roller_capture
from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError
from roller_capture.harnesses import HARNESSES
from roller_capture.importing.exchange import DamagedRecordError, ImportGap
from roller_capture.importing.feeding import Feeder
from roller_capture.importing.native_logs import copy_logs
from roller_capture.importing.repeated import LeftOut, Record, each_flow_once
from roller_capture.importing.sources import Source, describe, open_file, open_source, refuse_copies
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.view.words import count
from roller_capture.vocabulary import AttemptErrorCode

_NOTHING: Final = "holds no model request: nothing was imported"


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What is asked for. `native` is the HOME of the run, or the harness's own folder in it."""

    sources: Sequence[Path]
    attempt: Path
    harness: str
    native: Path | None = None
    progress: Callable[[int, int], None] = field(default=lambda _done, _all: None)


@dataclass(frozen=True, slots=True)
class ImportOutcome:
    """What was imported; `unproven` counts the gaps by code, `left_out` the records that stand for no call, by file.

    `without_ids` are the files of which nothing tells whether they hold exchanges of the others.
    """

    calls: int
    others: int
    native_files: int | None
    unproven: dict[str, int]
    left_out: Mapping[tuple[Path, LeftOut], int] = field(default_factory=dict)
    without_ids: Sequence[Path] = ()


def import_attempt(request: ImportRequest) -> ImportOutcome:
    """Makes `ATTEMPT_DIR/work/`, ready for `finalize`.

    Raises `RollerError`, and leaves nothing behind: exit 2 for a missing path, a file that is named twice or an unknown
    harness; exit 1 for a file
    of no known kind or without model requests, an attempt's directory that is in use, and no space.
    """
    if request.harness not in HARNESSES:
        raise RollerError(f"unknown harness {request.harness!r}: use one of {', '.join(HARNESSES)}", exit_code=2)
    if request.native is not None and not request.native.is_dir():
        raise RollerError(f"{request.native}: is no directory: --native names the HOME of the run", exit_code=2)
    _refuse_used(request.attempt)
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(open_file(path)) for path in request.sources]
        sources = [open_source(path, stream) for path, stream in zip(request.sources, streams, strict=True)]
        described = [
            describe(path, stream, source.kind)
            for path, stream, source in zip(request.sources, streams, sources, strict=True)
        ]
        refuse_copies(request.sources, described)
        with stops_cleanly(), _new_attempt(request.attempt) as attempt:
            return _import_into(attempt, request, sources, described)


def outcome_lines(request: ImportRequest, outcome: ImportOutcome) -> Iterator[str]:
    """What people should know: what was imported, what is not proven, what to do now."""
    native = "" if outcome.native_files is None else f", {count(outcome.native_files, 'native log')}"
    imported = f"{count(outcome.calls, 'call')}, {count(outcome.others, 'other request')}{native}"
    yield f"{request.attempt}: imported {imported}"
    yield f"  not proven: {', '.join(f'{code} ({number})' for code, number in sorted(outcome.unproven.items()))}"
    for (path, why), times in outcome.left_out.items():
        yield f"warning: {path}: {count(times, 'record')} left out: {why}"
    for path in outcome.without_ids:
        yield f"warning: {path}: a HAR has no ids: what the other files hold of it, too, was imported twice"
    if outcome.native_files == 0:
        yield f"warning: no log of a session that the requests name was found below {request.native}"
    yield "warning: the imported files hold the credentials of their requests still; the attempt does not"
    yield from _next_lines(request, has_logs=bool(outcome.native_files))


def _next_lines(request: ImportRequest, *, has_logs: bool) -> Iterator[str]:
    """What to do now. Without a harness's logs its calls stay nobody's; an agent of one's own may have none."""
    finalize = f"roller-capture finalize {shlex.quote(str(request.attempt))}"
    harness = HARNESSES[request.harness]
    if not has_logs and harness.logs and not harness.is_users_own:
        finalize += " --native HOME"
        why = "calls stay nobody's, and what is published is final"
        yield f"warning: the harness's logs are not there yet ({harness.logs}): without --native HOME {why}"
    elif not has_logs and harness.logs:
        yield f"if the agent kept a log ({harness.logs}), add --native FOLDER: what is published is final"
    yield f"now: {finalize} --execution-status completed (or failed, interrupted)"


def _import_into(
    attempt: Path, request: ImportRequest, sources: Sequence[Source], described: Sequence[dict[str, Any]]
) -> ImportOutcome:
    versions = {"roller_capture": roller_capture.__version__, "python": platform.python_version()}
    recorder = AttemptRecorder(attempt, HARNESSES[request.harness], {"imported_from": list(described)}, versions)
    try:
        feeder = Feeder(recorder)
        order, left_out = each_flow_once(sources)
        damage = _feed_all(feeder, sources, order, request.progress)
        feeder.note(_sharing_gaps(sources, left_out))
    finally:
        recorder.stop()
    if recorder.journal.error_count:
        raise RollerError(f"{request.attempt}: could not be written: make room and import again: nothing was imported")
    if not feeder.calls and not feeder.unrecognised:
        names = ", ".join(str(path) for path in request.sources)
        raise RollerError(f"{names}: {damage or _NOTHING}")
    files = None if request.native is None else copy_logs(attempt, request.harness, request.native, tuple(feeder.keys))
    told = {(request.sources[number], why): times for (number, why), times in left_out.items()}
    return ImportOutcome(feeder.calls, feeder.others, files, feeder.unproven, told, _may_share(request, sources))


def _sharing_gaps(sources: Sequence[Source], left_out: Mapping[tuple[int, LeftOut], int]) -> Iterator[ImportGap]:
    """Files are named by their place in attempt.json's list of them."""
    for (number, why), times in left_out.items():
        message = f"{count(times, 'record')} of file {number + 1} left out: {why}"
        yield ImportGap(AttemptErrorCode.IMPORT_SOURCE_DAMAGED, message)
    if len(sources) > 1 and not all(source.has_ids for source in sources):
        message = "a HAR has no ids, so nothing tells whether exchanges of it are in the other files, too"
        yield ImportGap(AttemptErrorCode.IMPORT_CALLS_UNPROVEN, message)


def _may_share(request: ImportRequest, sources: Sequence[Source]) -> list[Path]:
    pairs = zip(request.sources, sources, strict=True)
    return [path for path, source in pairs if len(sources) > 1 and not source.has_ids]


def _feed_all(
    feeder: Feeder,
    sources: Sequence[Source],
    order: Sequence[Record],
    progress: Callable[[int, int], None],
) -> str | None:
    """Feeds the exchanges; the first damage there was."""
    damage: list[ImportGap] = []
    for done, (number, place) in enumerate(order, 1):
        try:
            exchange = sources[number].read(place)
        except DamagedRecordError as error:
            message = f"record {place.number} cannot be read: {error}"
            gap = ImportGap(AttemptErrorCode.IMPORT_SOURCE_DAMAGED, message)
            damage.append(_with_file(gap, number, sources))
            continue
        feeder.feed(f"{number + 1}:{place.number}", exchange)
        progress(done, len(order))
    known = (_with_file(gap, number, sources) for number, source in enumerate(sources) for gap in source.gaps)
    gaps = [*known, *damage]
    feeder.note(gaps)
    return next((gap.message for gap in gaps if gap.code is AttemptErrorCode.IMPORT_SOURCE_DAMAGED), None)


def _with_file(gap: ImportGap, number: int, sources: Sequence[Source]) -> ImportGap:
    """Damage says in which of several files it is: records of two files have the same numbers."""
    if len(sources) == 1 or gap.code is not AttemptErrorCode.IMPORT_SOURCE_DAMAGED:
        return gap
    return gap._replace(message=f"file {number + 1}: {gap.message}")


def _refuse_used(attempt: Path) -> None:
    """An import adds to nothing: what was imported twice would be two calls."""
    try:
        used = any(attempt.iterdir()) if attempt.is_dir() else os.path.lexists(attempt)
    except OSError as error:
        raise RollerError(f"{attempt}: cannot be read ({error.strerror})", exit_code=2) from None
    if used:
        raise RollerError(f"{attempt}: is there already: name a new directory for the attempt")


@contextlib.contextmanager
def _new_attempt(attempt: Path) -> Iterator[Path]:
    """A folder beside it, which gets its name when the block ends well and is removed otherwise."""
    place = attempt.absolute()
    temporary = place.with_name(f".{place.name[:200]}.{secrets.token_hex(4)}.import")
    try:
        yield temporary
        temporary.rename(place)
    except OSError as error:
        raise RollerError(f"{attempt}: cannot be made ({error.strerror or error}): nothing was imported") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
