"""The order of the steps that turn the sessions of OpenCode into a `NativeCapture`."""

from collections import Counter
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_values import as_id
from roller_capture.adapters.opencode import identity
from roller_capture.adapters.opencode.ends import end_of
from roller_capture.adapters.opencode.facts import Log, Session
from roller_capture.adapters.opencode.family import Family, find_family
from roller_capture.adapters.opencode.log_reader import LogReader
from roller_capture.adapters.opencode.record_shapes import DELEGATION_TOOLS
from roller_capture.adapters.opencode.relations import ChildOutcome, NativeRelations, RelationFinder
from roller_capture.adapters.opencode.sources import read_files
from roller_capture.adapters.wire_parents import contradicted_children
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NativeParticipant, NativeSource
from roller_capture.vocabulary import (
    AttemptErrorCode,
    ExecutionStatus,
    LifecycleStatus,
    Role,
    SubtaskSupport,
)

TESTED_VERSIONS: Final = frozenset({"1.18.33"})


def read(source: AdapterInput) -> NativeCapture:
    """Reads the sessions that the attempt's requests name, and all their descendants, below `source.native_root`.

    Raises nothing on content: what cannot be read or proven is a gap of the result.
    """
    gaps = GapLog()
    reader = LogReader(gaps)
    sources = read_files(source, reader, gaps)
    log = reader.log()
    if not log.was_read:
        reason = "there is no database, extract or export of OpenCode that can be read"
        gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, reason)
    family = find_family(log, _contradicted(source, log, gaps), gaps)
    relations = RelationFinder(log, family, source.wire_headers, gaps).find()
    return _capture(source, log, family, relations, sources, gaps)


def _contradicted(source: AdapterInput, log: Log, gaps: GapLog) -> frozenset[str]:
    """The sessions whose requests name another parent than their rows."""
    parents = {session.identifier: session.parent_id for session in log.sessions.values()}
    return contradicted_children(source.wire_calls, identity.NATIVE_SESSION, identity.PARENT_SESSION, parents, gaps)


def _capture(
    source: AdapterInput,
    log: Log,
    family: Family,
    relations: NativeRelations,
    sources: tuple[NativeSource, ...],
    gaps: GapLog,
) -> NativeCapture:
    roots = _root_ids(source, log, gaps)
    missing = _name_missing(source, log, gaps)
    versions = Counter(session.version for session in log.sessions.values() if session.version is not None)
    tested = bool(versions) and TESTED_VERSIONS.issuperset(versions)
    if versions and not tested:
        strange = sorted(set(versions) - TESTED_VERSIONS)
        gaps.add(AttemptErrorCode.NATIVE_VERSION_UNTESTED, f"OpenCode {', '.join(strange)} was never tested")
    return NativeCapture(
        harness_version=max(versions, key=lambda item: versions[item]) if versions else None,
        version_tested=tested,
        participants=tuple(
            _participant(session, log, family, relations, is_root=session.identifier in roots)
            for session in log.sessions.values()
        ),
        identity_fields=identity.IDENTITY_FIELDS,
        identity_claims=tuple(identity.identity_claims(log)),
        absent_header_claims=(),
        purpose_claims=tuple(identity.purpose_claims(log)),
        relations=tuple(relations.relations),
        context_probes=tuple(relations.probes),
        coverage=identity.coverage(log, source.wire_headers),
        subtasks=SubtaskSupport.SUPPORTED,
        delegation_tools=DELEGATION_TOOLS,
        sources=sources,
        gaps=gaps.gaps(),
        hook_header=identity.HOOK_SESSION,
        lifecycle=LifecycleStatus.UNKNOWN if missing or family.missing or not log.sessions else None,
    )


def _name_missing(source: AdapterInput, log: Log, gaps: GapLog) -> bool:
    """Sessions and answers that requests name and the log does not hold."""
    seen = frozenset().union(*(source.wire_headers.get(header, frozenset()) for header in identity.SESSION_HEADERS))
    for session_id in sorted(seen - log.sessions.keys()):
        label = session_id if as_id(session_id) is not None else "of unusable form"
        gaps.add(
            AttemptErrorCode.PARTICIPANT_LOG_MISSING, f"requests name session {label}, which no log that was read holds"
        )
    lost = identity.lost_messages(log, source.wire_headers)
    if lost:
        reason = f"requests name {len(lost)} messages that no log that was read holds"
        gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason)
    return bool(lost) or not seen <= log.sessions.keys()


def _root_ids(source: AdapterInput, log: Log, gaps: GapLog) -> frozenset[str]:
    """Sessions without a parent; of several, the one that the launcher started."""
    orphans = frozenset(session.identifier for session in log.sessions.values() if session.parent_id is None)
    named = as_id(source.launcher.get("root_native_id"))
    if named is not None and named not in orphans and log.sessions:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, "the session that the launcher started is no root that was read")
    if len(orphans) > 1:
        reason = f"{len(orphans)} sessions without a parent made requests"
        code = AttemptErrorCode.NATIVE_RELATION_UNPROVEN if named in orphans else AttemptErrorCode.ROOT_AMBIGUOUS
        gaps.add(code, reason)
    if log.sessions and not orphans:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, "every session that was read has a parent")
    return frozenset({named}) if named is not None and named in orphans else orphans


def _participant(
    session: Session, log: Log, family: Family, relations: NativeRelations, *, is_root: bool
) -> NativeParticipant:
    parent = session.parent_id if session.parent_id in log.sessions else None
    end = end_of(session)
    outcome = relations.outcomes.get(session.identifier)
    if outcome is None:
        status = end.execution_status if end is not None else ExecutionStatus.UNKNOWN
        lifecycle = LifecycleStatus.COMPLETE if is_root else LifecycleStatus.UNKNOWN
        outcome = ChildOutcome(status, lifecycle)
    return NativeParticipant(
        key=session.identifier,
        role=Role.ROOT if is_root else Role.CHILD,
        parent_key=None if session.identifier in family.parentless else parent,
        native_ids={"session_id": (session.identifier,)},
        execution_status=outcome.execution_status,
        evidence=(session.place.evidence("session", session.identifier),),
        lifecycle=outcome.lifecycle,
    )
