"""`roller-capture finalize` for one attempt: lock, adapter, common finalizer, publication, validation."""

import contextlib
import dataclasses
import os
import secrets
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.adapter_registry import NO_ADAPTER_CAPTURE, find_adapter
from roller_capture.adapters.native_values import as_word
from roller_capture.capture_protocol import AdapterInput, Gap, NativeCapture, NativeSource, WireCall
from roller_capture.errors import RollerError
from roller_capture.finalizer import FinalizeOptions, finalize_capture
from roller_capture.finalizer.adapter_check import checked
from roller_capture.harnesses import HARNESSES
from roller_capture.integrity import validate_attempt
from roller_capture.publication import (
    FORMAL_FILES,
    MANIFEST,
    RAW,
    STAGING_PREFIX,
    Staging,
    clear_disk_errors,
    publish,
    remove_leftovers,
    remove_working_files,
)
from roller_capture.published import find_attempts, has_working_files, read_manifest, why_no_attempts
from roller_capture.recording import lock
from roller_capture.recording.disk_space import RESERVE_FILE
from roller_capture.vocabulary import AttemptErrorCode, DebugRetention, ExecutionStatus
from roller_capture.working_files import (
    EVENTS,
    WORK_DIR,
    RecordedCall,
    WorkingAttempt,
    header_values_on_the_wire,
    read_regular_file,
    read_working_files,
)

_LAUNCHER: Final = "launcher.json"
OF_A_RECORDER: Final = ("attempt.json", EVENTS, "lock")
"""What in a working folder shows that a recorder made it."""

_HARMLESS_ENDINGS: Final = (".jsonl", ".meta.json", _LAUNCHER)
_LARGEST_LAUNCHER: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FinalizeRequest:
    """What the user asked for; None means "as the working files say"."""

    harness: str | None = None
    native: Path | None = None
    needs_native_logs: bool = False
    """Refuse when the adapter finds none of its logs below `native`: what is published is final, and whoever named a
    folder meant another one then."""
    debug_retention: DebugRetention = DebugRetention.ON_ERROR
    execution_status: ExecutionStatus | None = None
    model_aliases: Mapping[str, str] = field(default_factory=dict)
    progress: Callable[[int, int], None] | None = None
    before_publish: Callable[[str], None] | None = None
    """Called with the manifest's sha256 when everything is ready and nothing is in place yet (design section 9)."""
    compress: bool = False
    """Publish calls.jsonl.zst in the place of calls.jsonl."""


@dataclass(frozen=True, slots=True)
class FinalizeOutcome:
    """The published manifest as JSON, and whether it had been published before."""

    manifest: dict[str, Any]
    already_published: bool


def finalize_attempt(attempt_dir: Path, request: FinalizeRequest) -> FinalizeOutcome:
    """Publishes one attempt.

    Raises `RollerError`: exit 2 for a missing path or one that is no directory, or for needed native logs that are not
    there; exit 1 for no `work/`, an attempt still
    being recorded or finalized, a newer format, no space, or a published attempt that does not validate.
    """
    if request.harness is not None and request.harness not in HARNESSES:
        raise RollerError(f"unknown harness {request.harness!r}: use one of {', '.join(HARNESSES)}", exit_code=2)
    _refuse_no_directory(attempt_dir)
    if (attempt_dir / MANIFEST).exists() or (attempt_dir / MANIFEST).is_symlink():
        return _already_published(attempt_dir)
    work = attempt_dir / WORK_DIR
    if work.is_symlink() or not has_working_files(attempt_dir):
        raise _nothing_recorded(attempt_dir)
    with clear_disk_errors(attempt_dir):
        held = lock.acquire(work, "finalizer")
        try:
            if (attempt_dir / MANIFEST).exists():  # another finalizer was quicker
                return _already_published(attempt_dir)
            return _finalize_locked(attempt_dir, request)
        finally:
            held.release()


def _refuse_no_directory(attempt_dir: Path) -> None:
    try:
        if attempt_dir.is_dir():
            return
        state = "is no directory" if attempt_dir.exists() else "does not exist"
    except OSError as error:  # a name that is too long
        state = f"cannot be opened ({error.strerror})"
    raise RollerError(f"{attempt_dir}: {state}: name the attempt's directory", exit_code=2)


def _nothing_recorded(attempt_dir: Path) -> RollerError:
    if any((attempt_dir / name).exists() for name in (*FORMAL_FILES, RAW)):
        return RollerError(f"{attempt_dir}: its {MANIFEST} is missing, and there is no {WORK_DIR}/: it was damaged")
    with contextlib.suppress(RollerError):
        inside = [path for path in find_attempts(attempt_dir) if path != attempt_dir]
        more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        if inside:
            return RollerError(f"{attempt_dir}: is no attempt, but holds {inside[0]}{more}: name those")
    told = why_no_attempts(attempt_dir)
    if told is not None:
        return RollerError(f"{attempt_dir}: {told}")
    return RollerError(f"{attempt_dir}: no {WORK_DIR}/ folder and no {MANIFEST}: nothing was recorded here")


def _already_published(attempt_dir: Path) -> FinalizeOutcome:
    """Validates; finishes the clean-up that an earlier run may have left."""
    findings = [item for item in validate_attempt(attempt_dir) if "run finalize again" not in item.message]
    if findings:
        first = findings[0]
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise RollerError(
            f"{attempt_dir}: already published, but does not validate: {first.file}: {first.message}{more}"
        )
    work = attempt_dir / WORK_DIR
    if work.exists() and not any((work / name).exists() for name in OF_A_RECORDER):
        raise RollerError(f"{work}: holds no working files of a recorder: move it away, it is no part of the attempt")
    with clear_disk_errors(attempt_dir):
        remove_working_files(attempt_dir, WORK_DIR)
    return FinalizeOutcome(read_manifest(attempt_dir), already_published=True)


def _finalize_locked(attempt_dir: Path, request: FinalizeRequest) -> FinalizeOutcome:
    _refuse_foreign_files(attempt_dir)
    attempt = read_working_files(attempt_dir)
    harness = _harness(attempt_dir, attempt, request)
    remove_leftovers(attempt_dir)
    with contextlib.suppress(OSError):
        (attempt.directory / RESERVE_FILE).unlink()  # a killed recorder's; the room may be needed here
    launcher, launcher_gap = _read_launcher(attempt.directory / "native")
    options = FinalizeOptions(
        capture_id=attempt.capture_id or f"cap_{secrets.token_hex(10)}",
        harness=harness,
        execution_status=request.execution_status or _launcher_status(launcher),
        debug_retention=request.debug_retention,
        model_aliases=request.model_aliases,
        progress=request.progress,
        compress=request.compress,
    )
    with tempfile.TemporaryDirectory(dir=attempt_dir, prefix=STAGING_PREFIX) as scratch:
        native = _read_native(attempt, harness, launcher, request, Path(scratch))
        if request.needs_native_logs and attempt.calls:
            _refuse_no_logs(attempt_dir, harness, request.native, native)
        native = _with_copied_files(native, attempt.directory / "native")
        native = dataclasses.replace(native, gaps=(*native.gaps, *launcher_gap))
        staging = _staged(attempt_dir, attempt, native, options)
    try:
        if request.before_publish is not None and staging.manifest_sha256 is not None:
            request.before_publish(staging.manifest_sha256)
        publish(attempt_dir, staging)
    except BaseException:
        staging.discard()
        raise
    remove_working_files(attempt_dir, WORK_DIR)
    return FinalizeOutcome(read_manifest(attempt_dir), already_published=False)


def _staged(attempt_dir: Path, attempt: WorkingAttempt, native: NativeCapture, options: FinalizeOptions) -> Staging:
    """Everything that is to be published, checked as it will be there."""
    staging = Staging(attempt_dir)
    try:
        finalize_capture(attempt, native, options, staging)
        findings = validate_attempt(staging.directory, written=staging.call_ends)
        if findings:
            first = findings[0]
            raise RollerError(
                f"{attempt_dir}: not published, the result would not validate ({first.file}: {first.message}): "
                f"{WORK_DIR}/ is untouched, please report this"
            )
    except BaseException:
        staging.discard()
        raise
    return staging


def _refuse_foreign_files(attempt_dir: Path) -> None:
    """An attempt's directory holds nothing else: what stands beside the published files would not validate."""
    ours = {WORK_DIR, RAW, *FORMAL_FILES}
    for path in sorted(attempt_dir.iterdir()):
        if path.name not in ours and not path.name.startswith(STAGING_PREFIX):
            raise RollerError(f"{path}: is no file of the attempt: move it away and run finalize again")


def _harness(attempt_dir: Path, attempt: WorkingAttempt, request: FinalizeRequest) -> str:
    name = request.harness or attempt.harness
    if name is None:
        raise RollerError(
            f"{attempt_dir}/{WORK_DIR}/attempt.json is missing, damaged or names no harness: give --harness NAME"
        )
    if name not in HARNESSES:
        raise RollerError(f"{attempt_dir}: unknown harness {name!r}: use one of {', '.join(HARNESSES)}")
    return name


def _read_native(
    attempt: WorkingAttempt, harness: str, launcher: Mapping[str, object], request: FinalizeRequest, scratch: Path
) -> NativeCapture:
    """Runs the adapter. One that fails is a named gap: the calls are published all the same."""
    copied = attempt.directory / "native"
    root = request.native or (copied if copied.is_dir() and not copied.is_symlink() else None)
    ours = {name for call in attempt.calls for name, _ in call.roller_headers}
    row = HARNESSES[harness]
    names = ours.union(row.identity_headers, () if row.version_header is None else (row.version_header,))
    source = AdapterInput(
        root,
        header_values_on_the_wire(attempt.calls, frozenset(names)),
        launcher,
        scratch,
        tuple(_wire_call(call, names) for call in attempt.calls if not call.foreign_credential),
    )
    try:
        adapter = find_adapter(harness)
        native = NO_ADAPTER_CAPTURE if adapter is None else checked(adapter(source))
    except Exception as error:  # noqa: BLE001 - a bug in one adapter must not lose the calls
        gap = Gap(AttemptErrorCode.ADAPTER_FAILED, f"the {harness} adapter failed: {type(error).__name__}")
        native = dataclasses.replace(NO_ADAPTER_CAPTURE, gaps=(gap,))
    version = native.harness_version or as_word(launcher.get("harness_version"))  # a harness that wrote no log has one
    return dataclasses.replace(native, harness_version=version, gaps=(*native.gaps, *_launcher_gaps(launcher)))


def _refuse_no_logs(attempt_dir: Path, harness: str, root: Path | None, native: NativeCapture) -> None:
    """An extract of a database that holds none of the sessions is empty."""
    broken = any(gap.code is AttemptErrorCode.ADAPTER_FAILED for gap in native.gaps)
    if broken or any(source.path.stat().st_size for source in native.sources):
        return
    raise RollerError(
        f"{attempt_dir}: not published: no log of the recorded sessions ({HARNESSES[harness].logs}) was found below "
        f"{root}: name the HOME of that run, or leave --native out to publish without native logs",
        exit_code=2,
    )


def _wire_call(call: RecordedCall, names: Collection[str]) -> WireCall:
    carried: dict[str, tuple[str, ...]] = {}
    for name, value in (*call.headers, *call.roller_headers):
        if name in names:
            carried[name] = (*carried.get(name, ()), value)
    return WireCall(carried, call.request_line)


def _with_copied_files(native: NativeCapture, copied: Path) -> NativeCapture:
    """Keeps what stands in `work/native/` beside the logs that the adapter read, since `work/` is removed.

    Only kinds of files that hold no credentials: the folder may be a hasty copy of a whole home. Others are named.
    """
    named = {source.source for source in native.sources}
    sources = list(native.sources)
    gaps = list(native.gaps)
    for path in sorted(_files_below(copied)):
        name = path.relative_to(copied).as_posix()
        if name in named:
            continue
        if path.is_symlink() or not path.name.endswith(_HARMLESS_ENDINGS):
            gaps.append(Gap(AttemptErrorCode.FILE_REFUSED, "a file of work/native/ is not kept as evidence", name))
        else:
            sources.append(NativeSource(name, path))
    return dataclasses.replace(native, sources=tuple(sources), gaps=tuple(gaps))


def _files_below(folder: Path) -> Iterator[Path]:
    if folder.is_symlink():
        return
    for base, _, names in os.walk(folder):
        yield from (Path(base) / name for name in names)


def _read_launcher(native_dir: Path) -> tuple[dict[str, Any], tuple[Gap, ...]]:
    """launcher.json and what is wrong with it. Its absence is normal: a run started by hand has none."""
    path = native_dir / _LAUNCHER
    try:
        value = json_text.parse(read_regular_file(path, limit=_LARGEST_LAUNCHER))
    except FileNotFoundError:
        return {}, ()
    except (OSError, json_text.JsonError) as error:
        return {}, (_unreadable_launcher(str(error)),)
    return (value, ()) if isinstance(value, dict) else ({}, (_unreadable_launcher("it holds no JSON object"),))


def _unreadable_launcher(reason: str) -> Gap:
    return Gap(AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"launcher.json: {reason}", _LAUNCHER)


def _launcher_gaps(launcher: Mapping[str, Any]) -> Iterator[Gap]:
    """What the launcher itself saw go wrong. Codes and shapes that are not known here are passed over."""
    errors = launcher.get("errors")
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict):
            code = next((word for word in AttemptErrorCode if word == error.get("code")), None)
            if code is not None:
                yield Gap(code, str(error.get("message"))[:1000], _LAUNCHER)


def _launcher_status(launcher: Mapping[str, object]) -> ExecutionStatus:
    value = launcher.get("execution_status")
    return next((status for status in ExecutionStatus if status == value), ExecutionStatus.UNKNOWN)
