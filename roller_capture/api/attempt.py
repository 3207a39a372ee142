"""Opens published attempts, of today's layout and of earlier ones, after they were validated."""

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.api.calls import Call, FileIdentity, calls_of_file
from roller_capture.api.participants import Participant, Relation
from roller_capture.api.tree import Agent, tree_of
from roller_capture.errors import RollerError
from roller_capture.integrity import Finding, validate_attempt
from roller_capture.old_layouts import Layout, OldAttempt, layout_of, read_old_attempt
from roller_capture.publication import CALLS, COMPRESSED_CALLS, MANIFEST, RELATIONS
from roller_capture.published import (
    UnreadableError,
    calls_path,
    find_attempts,
    read_manifest,
    relation_lines,
    require_published,
)
from roller_capture.remote import local_path
from roller_capture.runs.newest import superseded
from roller_capture.runs.outside_books import books_findings
from roller_capture.schemas import schema_findings
from roller_capture.vocabulary import CaptureStatus, ExecutionStatus, Role

_SAMPLES: Final = "samples"
_CAPTURE: Final = "capture"
_MOST_FINDINGS: Final = 3


class InvalidAttemptError(RollerError):
    """The attempt does not validate; `findings` say why."""

    def __init__(self, path: Path, findings: Sequence[Finding]) -> None:
        words = [f"{finding.file}: {finding.message}" for finding in findings[:_MOST_FINDINGS]]
        more = len(findings) - len(words)
        super().__init__(f"{path}: does not validate: {'; '.join(words)}{f' (and {more} more)' if more else ''}")
        self.path = path
        self.findings = tuple(findings)


@dataclass(frozen=True, eq=False)
class Attempt:
    """A published attempt. Nothing of it is in memory but the manifest and the relations."""

    path: Path
    manifest: dict[str, Any] = field(repr=False)
    manifest_sha256: str
    participants: tuple[Participant, ...] = field(repr=False)
    relations: tuple[Relation, ...] = field(repr=False)
    _calls: Callable[[], Iterator[Call]] = field(repr=False)

    @property
    def capture_id(self) -> str:
        """Its random id."""
        return str(self.manifest["capture_id"])

    @property
    def sample_id(self) -> str | None:
        """The sample of a run directory that it belongs to, by the folders that it lies in."""
        parents = self.path.absolute().parents
        if len(parents) > 2 and parents[0].name == _CAPTURE and parents[2].name == _SAMPLES:
            return parents[1].name
        return None

    @property
    def harness(self) -> str:
        """What made the calls."""
        return str(self.manifest["harness"]["name"])

    @property
    def harness_version(self) -> str | None:
        """Its version, where the native logs told it."""
        version = self.manifest["harness"]["version"]
        return None if version is None else str(version)

    @property
    def execution_status(self) -> ExecutionStatus:
        """How the run ended."""
        return ExecutionStatus(self.manifest["execution_status"])

    @property
    def capture_status(self) -> CaptureStatus:
        """Is anything missing? The manifest's `status_reasons` say what."""
        return CaptureStatus(self.manifest["capture_status"])

    @property
    def roots(self) -> tuple[Participant, ...]:
        """The participants with the role root: one, as a rule."""
        return tuple(item for item in self.participants if item.role is Role.ROOT)

    def participant(self, participant_id: str) -> Participant:
        """The participant of this id. Raises `KeyError`."""
        return self._by_id[participant_id]

    def calls(self, participant: Participant | str | None = None) -> Iterator[Call]:
        """The calls in order of arrival, one in memory at a time: all, or those of one participant.

        Raises `RollerError` when the file has changed since the attempt was opened.
        """
        wanted = participant.participant_id if isinstance(participant, Participant) else participant
        return (call for call in self._calls() if wanted is None or call.participant_id == wanted)

    def tree(self) -> tuple[Agent, ...]:
        """The agents at the top, each with its children."""
        return tree_of(self.participants, self.relations)

    @functools.cached_property
    def _by_id(self) -> dict[str, Participant]:
        return {item.participant_id: item for item in self.participants}


def open_attempt(path: Path | str, *, validate: bool = True) -> Attempt:
    """Opens a published attempt.

    Raises `InvalidAttemptError` when it does not validate, or when the books of the run that it lies in do not know it
    as it is (its files are hashed; `validate=False` trusts them), and `RollerError` when there is none, or it is not
    published.
    """
    path = local_path(path) if isinstance(path, str) else path
    if not path.is_dir():
        raise RollerError(f"{path}: there is no such folder", exit_code=2)
    require_published(path)
    identities = {name: _identity(path / name) for name in (CALLS, COMPRESSED_CALLS)}
    findings = [*books_findings(path), *validate_attempt(path)] if validate else []
    if findings:
        raise InvalidAttemptError(path, findings)
    try:
        return _opened(path, identities)
    except (OSError, json_text.JsonError, KeyError, TypeError, ValueError) as error:
        raise RollerError(f"{path}: cannot be read ({error})") from None


def iter_attempts(
    path: Path | str,
    *,
    validate: bool = True,
    all_attempts: bool = False,
    on_error: Callable[[RollerError], object] | None = None,
) -> Iterator[Attempt]:
    """The attempts of a run directory, or of a folder of attempts, in the order of their paths. Of a sample that was
    made again only the newest is told, by the run's books, unless `all_attempts` are wanted.

    An attempt that cannot be opened raises like `open_attempt`, or is told to `on_error` and passed over. Raises
    `RollerError` for a path without attempts, and with `validate=False` for damaged books of a sample with several.
    """
    unreadable: list[UnreadableError] = []
    attempts = find_attempts(local_path(path) if isinstance(path, str) else path, unreadable)
    for closed in unreadable:
        if on_error is None:
            raise closed
        on_error(closed)
    # Where nothing is validated, nobody else would find that the books cannot tell the newest one.
    older = (
        frozenset()
        if all_attempts
        else superseded([*attempts, *(closed.path for closed in unreadable)], strict=not validate)
    )
    for attempt in attempts:
        if attempt in older:
            continue
        try:
            opened = open_attempt(attempt, validate=validate)
        except RollerError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        yield opened


def _opened(path: Path, identities: Mapping[str, FileIdentity | None]) -> Attempt:
    manifest = read_manifest(path)
    sha256 = hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest()
    layout = layout_of(path, manifest)
    if layout is None:
        raise RollerError(f"{path / MANIFEST}: a format that this version does not know")
    if layout is Layout.CURRENT and "lifecycle" in manifest:
        relations = [record for _, record in relation_lines(path / RELATIONS)]
        file = calls_path(path, manifest)
        calls = functools.partial(_calls, file, identities[file.name])
    else:
        old = read_old_attempt(path, layout, manifest)
        manifest = old.known_manifest()
        relations = [record for _, record in old.relations()]
        calls = functools.partial(_old_calls, old)
    _check_shapes(path, manifest, relations)
    return Attempt(
        path,
        manifest,
        sha256,
        tuple(Participant(record) for record in manifest["participants"]),
        tuple(Relation(record) for record in relations),
        calls,
    )


def _check_shapes(path: Path, manifest: dict[str, Any], relations: Sequence[dict[str, Any]]) -> None:
    """What the properties rely on; all of it holds where the attempt was validated."""
    findings = [Finding(MANIFEST, problem) for problem in schema_findings("roller.capture.v1.json", manifest)]
    for record in relations:
        findings += [Finding(RELATIONS, problem) for problem in schema_findings("roller.relation.v1.json", record)]
    if findings:
        raise InvalidAttemptError(path, findings)


def _calls(path: Path, identity: FileIdentity | None) -> Iterator[Call]:
    if identity is None:
        raise RollerError(f"{path}: is missing")
    return calls_of_file(path, identity)


def _old_calls(old: OldAttempt) -> Iterator[Call]:
    try:
        for line in old.calls():
            yield Call(line.head, functools.partial(bytes, line.context))
    except (OSError, json_text.JsonError) as error:
        raise RollerError(f"{old.directory}: cannot be read ({error})") from None


def _identity(path: Path) -> FileIdentity | None:
    try:
        return FileIdentity.of(path.lstat())
    except OSError:
        return None
