"""The order of the steps that turn the native logs of DeepSeek Harness into a `NativeCapture`."""

from collections.abc import Mapping
from typing import Final

from roller_capture.adapters.deepseek import identity
from roller_capture.adapters.deepseek.delegations import (
    DELEGATION_TOOLS,
    DelegationFinder,
    Delegations,
    launched_agents,
)
from roller_capture.adapters.deepseek.facts import Place, Session
from roller_capture.adapters.deepseek.locate import all_session_ids, is_session_id
from roller_capture.adapters.deepseek.relations import ChildOutcome, NativeRelations, RelationFinder, last_status
from roller_capture.adapters.deepseek.sessions import SessionSource
from roller_capture.adapters.deepseek.version import versions_of
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_values import as_id
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NativeParticipant, NativeSource
from roller_capture.vocabulary import (
    AttemptErrorCode,
    EvidenceKind,
    ExecutionStatus,
    LifecycleStatus,
    Role,
    SubtaskSupport,
)

TESTED_VERSIONS: Final = frozenset({"0.2.1rc2"})
_UNKNOWN_CHILD: Final = ChildOutcome(ExecutionStatus.UNKNOWN, LifecycleStatus.UNKNOWN)


def read(source: AdapterInput) -> NativeCapture:
    """Reads the sessions that the attempt's requests name, and their descendants, below `source.native_root`.

    Raises nothing on content: what cannot be read or proven is a gap of the result.
    """
    gaps = GapLog()
    tree = _tree(source, gaps)
    if tree is None:
        return _capture(source, {}, Delegations(), NativeRelations(), (), gaps)
    logs = SessionSource(tree, source.scratch, gaps)
    sessions = logs.read(_session_ids(source, tree, gaps))
    delegations = DelegationFinder(sessions, gaps).find()
    relations = RelationFinder(sessions, delegations, gaps).find()
    return _capture(source, sessions, delegations, relations, logs.sources, gaps)


def _tree(source: AdapterInput, gaps: GapLog) -> NativeTree | None:
    root = source.native_root
    try:
        if root is not None and root.is_dir():
            return NativeTree(root, gaps)
    except OSError:
        pass
    gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no folder with native logs")
    return None


def _seen_ids(source: AdapterInput) -> frozenset[str]:
    headers = (identity.SESSION_HEADER, identity.RESPONSES_SESSION_HEADER)
    return frozenset().union(*(source.wire_headers.get(name, frozenset()) for name in headers))


def _session_ids(source: AdapterInput, tree: NativeTree, gaps: GapLog) -> frozenset[str]:
    """The sessions to read: those seen on the wire and the launcher's. Where nothing names one, as with Chat
    Completions, the run's own copy of the logs holds no other than this run's."""
    seen = _seen_ids(source)
    usable = frozenset(item for item in seen if is_session_id(item))
    if len(usable) < len(seen):
        gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a request's session id cannot be the name of a log")
    named = as_id(source.launcher.get("root_native_id"))
    if named is not None and is_session_id(named):
        usable |= {named}
    if not usable and _is_own_copy(source):
        usable = all_session_ids(tree)
    if not usable:
        gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "no request and no launcher names a session")
    return usable


def _is_own_copy(source: AdapterInput) -> bool:
    """Whether the native root holds the logs of this run only: `work/native`, as a launcher fills it."""
    root = source.native_root
    return bool(source.launcher) or (root is not None and root.parts[-2:] == ("work", "native"))


def _capture(
    source: AdapterInput,
    sessions: Mapping[str, Session],
    delegations: Delegations,
    relations: NativeRelations,
    sources: tuple[NativeSource, ...],
    gaps: GapLog,
) -> NativeCapture:
    participants = _participants(source, sessions, delegations, relations, gaps)
    places = {item.key: _place(item.key, sessions) for item in participants}
    sent = frozenset(name for name, values in source.wire_headers.items() if values)
    named = _seen_ids(source) | launched_agents(sessions)
    versions = versions_of(source.launcher, source.wire_headers)
    for version in sorted(versions - TESTED_VERSIONS):
        gaps.add(AttemptErrorCode.NATIVE_VERSION_UNTESTED, f"version {version} was not tested")
    return NativeCapture(
        harness_version=max(versions, default=None),
        version_tested=bool(versions) and versions <= TESTED_VERSIONS,
        participants=participants,
        identity_fields=identity.IDENTITY_FIELDS,
        identity_claims=tuple(identity.identity_claims(places, sessions, sent)),
        absent_header_claims=(),
        purpose_claims=tuple(identity.purpose_claims(sessions)),
        relations=tuple(relations.relations),
        context_probes=tuple(relations.probes),
        coverage=identity.coverage(sessions, any_read=bool(sessions)),
        subtasks=_subtasks(sessions),
        delegation_tools=DELEGATION_TOOLS,
        sources=sources,
        gaps=gaps.gaps(),
        lifecycle=None if sessions and named <= places.keys() else LifecycleStatus.UNKNOWN,
    )


def _subtasks(sessions: Mapping[str, Session]) -> SubtaskSupport:
    """Whether the harness, as it was run, can delegate: by the tools that its own records say it offered."""
    offered = [session.tools for session in sessions.values() if session.parent_id is None]
    if any(tools is not None and tools & DELEGATION_TOOLS for tools in offered) or len(offered) < len(sessions):
        return SubtaskSupport.SUPPORTED
    known = bool(offered) and all(tools is not None for tools in offered)
    return SubtaskSupport.NOT_AVAILABLE if known else SubtaskSupport.UNKNOWN


def _place(session_id: str, sessions: Mapping[str, Session]) -> Place:
    """The record that proves a session: its own header, or its parent's record of it."""
    if session_id in sessions:
        return sessions[session_id].header
    return next(item.catalogs[session_id].place for item in sessions.values() if session_id in item.catalogs)


def _participants(
    source: AdapterInput,
    sessions: Mapping[str, Session],
    delegations: Delegations,
    relations: NativeRelations,
    gaps: GapLog,
) -> tuple[NativeParticipant, ...]:
    roots = _roots(source, sessions, gaps)
    parents = _parents(sessions, delegations, gaps)
    found = []
    for session in sessions.values():
        outcome = relations.outcomes.get(session.session_id, _UNKNOWN_CHILD)
        if session.parent_id is None:
            settled = LifecycleStatus.COMPLETE if session.session_id in roots else LifecycleStatus.UNKNOWN
            outcome = ChildOutcome(last_status(session), settled)
        found.append(_participant(session.session_id, sessions, roots, parents, outcome))
    listed = {child for session in sessions.values() for child in session.catalogs} - sessions.keys()
    found += [_participant(child, sessions, roots, parents, _UNKNOWN_CHILD) for child in sorted(listed)]
    return tuple(found)


def _participant(
    session_id: str,
    sessions: Mapping[str, Session],
    roots: frozenset[str],
    parents: Mapping[str, str],
    outcome: ChildOutcome,
) -> NativeParticipant:
    return NativeParticipant(
        key=session_id,
        role=Role.ROOT if session_id in roots else Role.CHILD,
        parent_key=parents.get(session_id),
        native_ids={"session_id": (session_id,)},
        execution_status=outcome.status,
        evidence=(_place(session_id, sessions).evidence("session", session_id, EvidenceKind.NATIVE_METADATA),),
        lifecycle=outcome.lifecycle,
    )


def _roots(source: AdapterInput, sessions: Mapping[str, Session], gaps: GapLog) -> frozenset[str]:
    """Which sessions without a parent are roots: the one that the launcher started, else all, which is a gap if not
    one."""
    candidates = frozenset(item.session_id for item in sessions.values() if item.parent_id is None)
    named = as_id(source.launcher.get("root_native_id"))
    launched = candidates & {named}
    if named is not None and not launched and sessions:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, "the session that the launcher started has no log, or a parent")
    if launched and len(candidates) > 1:
        reason = "a session that the launcher did not start made requests"
        gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)
    if not launched and len(candidates) != 1 and sessions:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, f"{len(candidates)} sessions have no parent, none is marked as root")
    return launched or candidates


def _parents(sessions: Mapping[str, Session], delegations: Delegations, gaps: GapLog) -> dict[str, str]:
    """The parent of each child: by its proven launch, or by its own header where nothing contradicts it."""
    parents: dict[str, str] = {}
    for child_id, found in delegations.of_child.items():
        named = sessions[child_id].parent_id if child_id in sessions else None
        if found:
            parents[child_id] = found[0].parent.session_id
        elif named is not None and named in sessions and child_id not in delegations.contradicted:
            parents[child_id] = named
    for child_id in _in_cycles(parents):
        del parents[child_id]
        reason = "agents are said to have launched one another"
        gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=_place(child_id, sessions).source)
    return parents


def _in_cycles(parents: Mapping[str, str]) -> list[str]:
    found = []
    for child in parents:
        at, seen = parents.get(child), {child}
        while at is not None and at not in seen:
            seen.add(at)
            at = parents.get(at)
        if at == child:
            found.append(child)
    return found
