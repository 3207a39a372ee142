"""Derives a published attempt anew from its own `raw/`, and says where the published records say something else.

A forger who raises a status and corrects every hash is found, unless the raw files were changed with it; against that
stands the run's own record of manifest hashes (design section 9). Only attempts that kept `raw/` can be derived again.
"""

import base64
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from roller_capture import __version__, json_text
from roller_capture.derivation import derivation
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import Finding, validate_attempt
from roller_capture.old_layouts import Layout, layout_of
from roller_capture.publication import CALLS, MANIFEST, RAW, RELATIONS
from roller_capture.published import CallLine, call_lines, calls_path, read_manifest, relation_lines
from roller_capture.vocabulary import (
    AttemptErrorCode,
    CallErrorCode,
    DebugRetention,
    ExecutionStatus,
    ModelMatch,
    RawEncoding,
    StatusReason,
)
from roller_capture.working_files import EVENTS, WORK_DIR, WORK_FORMAT

_OF_THE_WORKING_FILES: Final = frozenset(
    {
        AttemptErrorCode.EVENT_UNREADABLE,
        AttemptErrorCode.EVENTS_MISSING,
        AttemptErrorCode.ATTEMPT_FILE_UNREADABLE,
        AttemptErrorCode.BODY_WITHOUT_EVENT,
        AttemptErrorCode.FILE_REFUSED,
        AttemptErrorCode.RECORDER_NOT_CLOSED,
        AttemptErrorCode.RECORDER_ERROR,
        AttemptErrorCode.UNRECOGNISED_MODEL_REQUEST,
    }
)
"""What only the working files themselves showed."""

_DAMAGED: Final = frozenset({CallErrorCode.BODY_FILE_DAMAGED, CallErrorCode.BODY_FILE_MISSING})
_MANIFEST_MEMBERS: Final = ("harness", "participants", "lifecycle", "capabilities", "counts", "other_requests")
_REQUEST_HASHES: Final = frozenset({"request_sha256", "context_sha256", "context_exact"})


def validate_published(attempt_dir: Path, *, deep: bool) -> list[Finding]:
    """`validate_attempt`, and where that finds nothing, `deep` also derives the records anew from `raw/`."""
    findings = validate_attempt(attempt_dir, deep=deep)
    return findings if findings or not deep else replay_findings(attempt_dir)


def not_compared(manifest: Mapping[str, Any]) -> str | None:
    """Why `raw/` of a published attempt is not held against its records; `None` where it is, or where there is none.

    A later decoder may know more: what another state of this program made out of the same bytes is no finding.
    """
    tool = manifest.get("tool")
    if not manifest.get("raw_retained") or not isinstance(tool, dict):
        return None
    made_by = (tool.get("version"), tool.get("derivation"))
    if made_by == (__version__, derivation()):
        return None
    return f"derived by another state of roller-capture ({made_by[0]}): not compared with {RAW}/"


def replay_findings(attempt_dir: Path) -> list[Finding]:
    """Where the records of a valid published attempt differ from what its `raw/` gives; nothing when `raw/` is gone.

    Nothing is compared where `not_compared` says why.
    """
    manifest = read_manifest(attempt_dir)
    if layout_of(attempt_dir, manifest) is not Layout.CURRENT:
        return []
    if not manifest["raw_retained"] or not_compared(manifest) is not None:
        return []
    with tempfile.TemporaryDirectory(prefix="roller-replay-") as scratch:
        copy = Path(scratch)
        try:
            rebuild_working_files(attempt_dir, copy)
            finalize_attempt(copy, replay_request(attempt_dir, manifest))
            return list(_differences(attempt_dir, manifest, copy))
        except (RollerError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            return [Finding(RAW, f"the records cannot be derived from it again: {error}")]


def rebuild_working_files(attempt_dir: Path, target: Path) -> None:
    """Makes `target/work/` from a published attempt that kept `raw/`, as the recorder had left it.

    Request bodies are the published contexts. Raises `OSError` and `json_text.JsonError`.
    """
    manifest = read_manifest(attempt_dir)
    work = target / WORK_DIR
    (work / "bodies").mkdir(parents=True, mode=0o700)
    sequences: dict[str, int] = {}
    as_sent: set[int] = set()
    for line in call_lines(calls_path(attempt_dir, manifest)):
        sequence = sequences[line.head["call_id"]] = line.head["sequence"]
        if line.head["request_sha256"] == line.head["context_sha256"]:
            as_sent.add(sequence)
        body = _request_body(line)
        if body is not None:
            _body_file(work, sequence, "request").write_bytes(body)
        if line.head["response_path"] is not None:
            source = attempt_dir / line.head["response_path"]
            shutil.copyfile(source, _body_file(work, sequence, "response"), follow_symlinks=False)
    with (work / EVENTS).open("wb") as out, (attempt_dir / RAW / EVENTS).open("rb") as events:
        for line_text in events:
            out.write(_working_event(line_text, attempt_dir, work, sequences, as_sent))
    native = attempt_dir / RAW / "native"
    if native.is_dir():
        shutil.copytree(native, work / "native", symlinks=True)
    _write_attempt_file(work, manifest)


def _body_file(work: Path, sequence: int, which: str) -> Path:
    """Named as the recorder names it: a killed one leaves a response that no event names."""
    return work / "bodies" / f"{sequence:06d}.{which}"


def _request_body(line: CallLine) -> bytes | None:
    raw = line.head.get("context_raw")
    if raw is None:
        return None if line.head["context_sha256"] is None else bytes(line.context)
    data: str = raw["data"]
    return base64.b64decode(data) if raw["encoding"] == RawEncoding.BASE64 else data.encode()


def _working_event(
    text: bytes, attempt_dir: Path, work: Path, sequences: Mapping[str, int], as_sent: Collection[int]
) -> bytes:
    """An event with its references led back into the working files; `as_sent` are the calls whose published context is
    the body as it was on the wire, since there was no coding, or one that could not be undone."""
    if not text.strip():
        return text
    event = json_text.parse(text)
    reference = event.pop("body_ref", None)
    number = event.get("sequence")
    if event.get("type") == "request_headers" and not (isinstance(number, int) and number in as_sent):
        event["content_encoding"] = None  # the published context is decoded already
    if reference is not None:
        path = _body_file(work, sequences[reference["call_id"]], "request")
        if path.is_file():
            event["body"] = {"path": f"bodies/{path.name}", "bytes": path.stat().st_size}
    for name in ("body", "response_body"):
        body = event.get(name)
        place = PurePosixPath(body["path"] or "") if isinstance(body, dict) and "path" in body else None
        if place is not None and place.parts[:2] == (RAW, "responses"):
            path = _body_file(work, sequences[place.stem], "response")
            event[name] = {**body, "path": f"bodies/{path.name}"}
        elif place is not None and place.parts[:1] == (RAW,):
            shutil.copyfile(attempt_dir / place, work / "bodies" / place.name, follow_symlinks=False)
            event[name] = {**body, "path": f"bodies/{place.name}"}
    return json_text.dumps(event) + b"\n"


def _write_attempt_file(work: Path, manifest: dict[str, Any]) -> None:
    closed = all(reason["code"] != StatusReason.RECORDER_NOT_CLOSED for reason in manifest["status_reasons"])
    document = {
        "format": WORK_FORMAT,
        "capture_id": manifest["capture_id"],
        "harness": manifest["harness"]["name"],
        "started_at": 0.0,
        "closed_at": 0.0,
        "closed": closed,
        "versions": {"roller_capture": manifest["tool"]["recorder_version"]},
    }
    (work / "attempt.json").write_bytes(json_text.dumps(document))


def replay_request(attempt_dir: Path, manifest: dict[str, Any]) -> FinalizeRequest:
    """How the attempt was finalized, as far as its records tell it; `raw/` is kept."""
    aliases = {}
    for line in call_lines(calls_path(attempt_dir, manifest)):
        model = line.head["model"]
        if model["match"] == ModelMatch.ALIAS:
            aliases[model["requested"]] = model["responded"]
    return FinalizeRequest(
        harness=manifest["harness"]["name"],
        debug_retention=DebugRetention.FULL,
        execution_status=ExecutionStatus(manifest["execution_status"]),
        model_aliases=aliases,
    )


def _differences(attempt_dir: Path, manifest: dict[str, Any], copy: Path) -> Iterator[Finding]:
    derived = read_manifest(copy)
    for name in _comparable(attempt_dir, manifest):
        if manifest[name] != derived[name]:
            yield Finding(MANIFEST, f"{name} is not what {RAW}/ gives")
    published = call_lines(calls_path(attempt_dir, manifest))
    for ours, theirs in zip(published, call_lines(copy / CALLS), strict=False):
        for name in _different_members(ours.head, theirs.head):
            yield Finding(f"{CALLS}:{ours.number}", f"{name} is not what {RAW}/ gives")
    pairs = zip(relation_lines(attempt_dir / RELATIONS), relation_lines(copy / RELATIONS), strict=False)
    for (number, ours_relation), (_, theirs_relation) in pairs:
        if ours_relation != theirs_relation:
            yield Finding(f"{RELATIONS}:{number}", f"the relation is not what {RAW}/ gives")


def _comparable(attempt_dir: Path, manifest: dict[str, Any]) -> tuple[str, ...]:
    """The members of the manifest that `raw/` must give again: not those that tell of damage to the working files, nor
    the optional one where it is not there."""
    members = tuple(name for name in _MANIFEST_MEMBERS if name in manifest)
    if any(_is_damaged(line.head) for line in call_lines(calls_path(attempt_dir, manifest))):
        return tuple(name for name in members if name != "counts")
    if any(error["code"] in _OF_THE_WORKING_FILES for error in manifest["errors"]):
        return members
    return (*members, "capture_status", "status_reasons", "errors")


def _is_damaged(call: dict[str, Any]) -> bool:
    return any(error["code"] in _DAMAGED for error in call["errors"])


def _different_members(ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    if _is_damaged(ours):
        return  # the file as the recorder meant it is not there any more
    for name in ours.keys() | theirs.keys():
        # The request as it was on the wire is not kept: it may have been encoded, or have had line breaks.
        if name not in _REQUEST_HASHES and ours.get(name) != theirs.get(name):
            yield name
