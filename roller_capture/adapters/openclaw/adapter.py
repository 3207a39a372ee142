"""The order of the steps that turn OpenClaw's records into a `NativeCapture`."""

from collections.abc import Mapping
from typing import Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_values import as_id
from roller_capture.adapters.openclaw import identity
from roller_capture.adapters.openclaw.delegations import Delegations, find_delegations
from roller_capture.adapters.openclaw.ends import child_status
from roller_capture.adapters.openclaw.facts import Answer, Home, Session
from roller_capture.adapters.openclaw.home import Extracts, find_extracts
from roller_capture.adapters.openclaw.records import read_home
from roller_capture.adapters.openclaw.relations import NativeRelations, find_relations
from roller_capture.adapters.openclaw.sent_messages import bind_answers
from roller_capture.adapters.openclaw.transcript import SEND_TOOL, SPAWN_TOOL
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NativeParticipant, NativeSource
from roller_capture.vocabulary import AttemptErrorCode, ExecutionStatus, LifecycleStatus, Role, SubtaskSupport

TESTED_VERSIONS: Final = frozenset({"2026.9.6"})
_ROOT_STATUS: Final[Mapping[str | None, ExecutionStatus]] = {
    "done": ExecutionStatus.COMPLETED,
    "failed": ExecutionStatus.FAILED,
    "killed": ExecutionStatus.INTERRUPTED,
    "timeout": ExecutionStatus.INTERRUPTED,
    "running": ExecutionStatus.INTERRUPTED,
}


def read(source: AdapterInput) -> NativeCapture:
    """Reads the sessions that the attempt's requests name, and their descendants, below `source.native_root`.

    Raises nothing on content: what cannot be read or proven is a gap of the result.
    """
    gaps = GapLog()
    seen = source.wire_headers.get(identity.SESSION_HEADER, frozenset())
    extracts, tree = _extracts(source, seen, gaps)
    home = read_home(extracts, gaps)
    _mark_copies(home, gaps)
    _name_what_is_missing(home, seen, gaps)
    delegations = find_delegations(home, gaps)
    bind_answers(home, delegations, gaps)
    wire_run_ids = source.wire_headers.get(identity.RUN_HEADER, frozenset())
    relations = find_relations(home, delegations, wire_run_ids, gaps)
    return _capture(source, home, seen, delegations, relations, _sources(extracts, tree, home), gaps)


def _extracts(source: AdapterInput, seen: frozenset[str], gaps: GapLog) -> tuple[Extracts, NativeTree | None]:
    root = source.native_root
    try:
        if root is None or source.scratch is None or not root.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no folder with native logs")
            return Extracts(), None
        tree = NativeTree(root, gaps)
        named = as_id(source.launcher.get("root_native_id"))
        wanted = seen if named is None else seen | {named}
        return find_extracts(tree, source.scratch, wanted, gaps), tree
    except OSError as error:
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"records cannot be taken out: {error.strerror}")
        return Extracts(), None


def _sources(extracts: Extracts, tree: NativeTree | None, home: Home) -> tuple[NativeSource, ...]:
    """Extracts that were taken out of databases without any of the sessions hold a version at most: no evidence."""
    known = {item.source: item for item in (tree.sources if tree is not None else ())}
    for extract in extracts.all() if home.sessions else ():
        known.setdefault(extract.source, NativeSource(extract.source, extract.path))
    return tuple(known[name] for name in sorted(known))


def _mark_copies(home: Home, gaps: GapLog) -> None:
    """A session that was forked begins with its source's transcript; what both hold is the source's."""
    holders: dict[str, list[tuple[Session, Answer]]] = {}
    for session in home.sessions.values():
        for thread in session.threads:
            for answer in thread.answers:
                if answer.response_id is not None:
                    holders.setdefault(answer.response_id, []).append((session, answer))
    for held in holders.values():
        keys = {session.key for session, _ in held}
        for session, answer in held:
            answer.is_copy = session.fork_source in keys - {session.key}
        if len(keys) > 1 and sum(not answer.is_copy for _, answer in held) != 1:
            gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, "a response id stands in several sessions")


def _name_what_is_missing(home: Home, seen: frozenset[str], gaps: GapLog) -> None:
    known = {session_id for session in home.sessions.values() for session_id in session.session_ids}
    for session_id in sorted(seen - known):
        label = session_id if as_id(session_id) is not None else "of unusable form"
        gaps.add(
            AttemptErrorCode.PARTICIPANT_LOG_MISSING, f"requests name session {label}, of which there is no record"
        )
    for session in home.sessions.values():
        if not _has_transcript(session):
            reason = f"session {session.key} has no transcript"
            gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, reason)
    if home.agents_read and not home.registry_read:
        gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no registry of subtasks")
    if not home.agents_read:
        gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no database of sessions")


def _has_transcript(session: Session) -> bool:
    return any(thread.entries for thread in session.threads)


def _capture(
    source: AdapterInput,
    home: Home,
    seen: frozenset[str],
    delegations: Delegations,
    relations: NativeRelations,
    sources: tuple[NativeSource, ...],
    gaps: GapLog,
) -> NativeCapture:
    everyone = list(home.sessions.values())
    roots = _root_keys(source, seen, everyone, gaps)
    tested = bool(home.versions) and TESTED_VERSIONS.issuperset(home.versions)
    if home.versions and not tested:
        gaps.add(AttemptErrorCode.NATIVE_VERSION_UNTESTED, f"version {max(home.versions)} was never tested")
    participants = (_participant(home, session, delegations, roots) for session in everyone)
    compactions = tuple(identity.compaction_claims(everyone, source.wire_headers.get(identity.RUN_HEADER, frozenset())))
    known = {session_id for session in everyone for session_id in session.session_ids}
    whole = bool(everyone) and all(map(_has_transcript, everyone))
    all_known = home.registry_read and whole and seen <= known and not delegations.missing
    return NativeCapture(
        harness_version=max(home.versions) if home.versions else None,
        version_tested=tested,
        participants=tuple(item for item in participants if item is not None),
        identity_fields=identity.IDENTITY_FIELDS,
        identity_claims=(*identity.identity_claims(everyone), *compactions),
        absent_header_claims=(),
        purpose_claims=tuple(identity.purpose_claims(everyone, compactions)),
        relations=tuple(relations.relations),
        context_probes=tuple(relations.probes),
        coverage=identity.coverage(home, everyone),
        subtasks=SubtaskSupport.SUPPORTED,
        delegation_tools=frozenset({SPAWN_TOOL, SEND_TOOL}),
        sources=sources,
        gaps=gaps.gaps(),
        hook_header=identity.STREAM_HEADER,
        lifecycle=None if all_known else LifecycleStatus.UNKNOWN,
    )


def _root_keys(source: AdapterInput, seen: frozenset[str], everyone: list[Session], gaps: GapLog) -> frozenset[str]:
    """Which sessions are roots: the one that the launcher started, else all that nobody spawned."""
    tops = [session for session in everyone if not session.spawned_by]
    named = as_id(source.launcher.get("root_native_id"))
    launched = frozenset(session.key for session in tops if named in session.session_ids)
    if named is not None and named not in seen and everyone:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, "the session that the launcher started made no request")
    if not launched and len(tops) > 1:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, f"{len(tops)} sessions made requests, none is marked as root")
    if launched and len(tops) > 1:
        reason = "a session that the launcher did not start made requests"
        gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)
    return launched or frozenset(session.key for session in tops)


def _participant(
    home: Home, session: Session, delegations: Delegations, roots: frozenset[str]
) -> NativeParticipant | None:
    place = session.node or session.place
    if place is None:
        return None
    parents = [key for key in session.spawned_by if key in home.sessions and key != session.key]
    if session.key in roots:
        status, lifecycle = _ROOT_STATUS.get(session.status, ExecutionStatus.UNKNOWN), LifecycleStatus.COMPLETE
    else:
        status, lifecycle = child_status(home, session, delegations)
    return NativeParticipant(
        key=session.key,
        role=Role.ROOT if session.key in roots else Role.CHILD,
        parent_key=parents[0] if len(session.spawned_by) == len(parents) == 1 else None,
        native_ids={"session_id": tuple(session.session_ids), "session_key": (session.key,)},
        execution_status=status,
        evidence=(place.evidence(),),
        lifecycle=lifecycle,
    )
