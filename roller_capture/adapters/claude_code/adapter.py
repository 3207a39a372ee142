"""The order of the steps that turn the native logs of Claude Code into a `NativeCapture`."""

from collections import Counter
from typing import Final

from roller_capture.adapters.claude_code import identity
from roller_capture.adapters.claude_code.delegations import DelegationFinder, Delegations
from roller_capture.adapters.claude_code.executors import Executor, Executors, find_executors
from roller_capture.adapters.claude_code.locate import is_file_name, root_sessions
from roller_capture.adapters.claude_code.record_shapes import DELEGATION_TOOLS
from roller_capture.adapters.claude_code.relations import (
    ChildOutcome,
    NativeRelations,
    RelationFinder,
    execution_status,
)
from roller_capture.adapters.claude_code.sessions import read_sessions
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_values import as_id
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NativeParticipant
from roller_capture.vocabulary import (
    AttemptErrorCode,
    ExecutionStatus,
    LifecycleStatus,
    Role,
    SubtaskSupport,
)

TESTED_VERSIONS: Final = frozenset({"2.1.332", "2.1.197"})
_UNKNOWN_CHILD: Final = ChildOutcome(ExecutionStatus.UNKNOWN, LifecycleStatus.UNKNOWN)


def read(source: AdapterInput) -> NativeCapture:
    """Reads the sessions that the attempt's requests name, and all their agents, below `source.native_root`.

    Raises nothing on content: what cannot be read or proven is a gap of the result.
    """
    gaps = GapLog()
    tree = _tree(source, gaps)
    if tree is None:
        return _capture(source, Executors({}), Delegations(), NativeRelations(), None, gaps)
    sessions = read_sessions(tree, _session_ids(source, tree, gaps), gaps)
    executors = find_executors(sessions, gaps)
    delegations = DelegationFinder(executors, _told_parents(source), gaps).find()
    relations = RelationFinder(executors, delegations, gaps).find()
    _name_unknown_agents(source, executors, gaps)
    return _capture(source, executors, delegations, relations, tree, gaps)


def _tree(source: AdapterInput, gaps: GapLog) -> NativeTree | None:
    root = source.native_root
    try:
        if root is not None and root.is_dir():
            return NativeTree(root, gaps)
    except OSError:
        pass
    gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no folder with native logs")
    return None


def _session_ids(source: AdapterInput, tree: NativeTree, gaps: GapLog) -> frozenset[str]:
    """The sessions to read: those seen on the wire. Versions that send no session id need the launcher or, in the
    run's own copy of the logs, a single session."""
    seen = source.wire_headers.get(identity.SESSION_HEADER, frozenset())
    usable = frozenset(item for item in seen if is_file_name(item))
    if len(usable) < len(seen):
        gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a request's session id cannot be the name of a log")
    if usable:
        return usable
    named = as_id(source.launcher.get("root_native_id"))
    if named is not None and is_file_name(named):
        return frozenset({named})
    is_own = _is_own_copy(source)
    present = root_sessions(tree) if is_own else []
    if len(present) == 1:
        return frozenset(present)
    held = f"the run's own logs hold {len(present) or 'none'}" if is_own else "the logs are not the run's own copy"
    gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, f"no request and no launcher names the session, and {held}")
    return frozenset()


def _is_own_copy(source: AdapterInput) -> bool:
    """Whether the native root holds the logs of this run only: `work/native`, as a launcher fills it."""
    root = source.native_root
    return bool(source.launcher) or (root is not None and root.parts[-2:] == ("work", "native"))


def _told_parents(source: AdapterInput) -> dict[str, frozenset[str]]:
    """The parents that agents named in their own requests, by agent id. A child of the root names none."""
    found: dict[str, frozenset[str]] = {}
    for call in source.wire_calls:
        told = frozenset(call.headers.get(identity.PARENT_HEADER, ()))
        for agent_id in call.headers.get(identity.AGENT_HEADER, ()) if told else ():
            found[agent_id] = found.get(agent_id, frozenset()) | told
    return found


def _name_unknown_agents(source: AdapterInput, executors: Executors, gaps: GapLog) -> None:
    known = {executor.agent_id for executor in executors.by_key.values()}
    for agent_id in sorted(source.wire_headers.get(identity.AGENT_HEADER, frozenset()) - known):
        label = agent_id if as_id(agent_id) is not None else "of unusable form"
        gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, f"requests name agent {label}, of which there is no log")


def _capture(
    source: AdapterInput,
    executors: Executors,
    delegations: Delegations,
    relations: NativeRelations,
    tree: NativeTree | None,
    gaps: GapLog,
) -> NativeCapture:
    everyone = list(executors.by_key.values())
    roots = _root_keys(source, everyone, gaps)
    participants = tuple(
        participant
        for executor in everyone
        if (participant := _participant(executor, executors, relations, roots)) is not None
    )
    versions = sum((executor.thread.versions for executor in everyone), Counter[str]())
    any_root_read = any(executor.is_root for executor in everyone)
    seen_sessions = source.wire_headers.get(identity.SESSION_HEADER, frozenset())
    seen_agents = source.wire_headers.get(identity.AGENT_HEADER, frozenset())
    all_known = seen_agents <= {executor.agent_id for executor in everyone} and seen_sessions <= {
        session_id for executor in everyone if executor.is_root for session_id in executor.session_ids
    }
    return NativeCapture(
        harness_version=max(versions, key=lambda item: versions[item]) if versions else None,
        version_tested=bool(versions) and TESTED_VERSIONS.issuperset(versions),
        participants=participants,
        identity_fields=identity.IDENTITY_FIELDS,
        identity_claims=tuple(identity.identity_claims(executors, delegations, agents_on_the_wire=bool(seen_agents))),
        absent_header_claims=tuple(identity.absent_header_claims(executors, seen_sessions)),
        purpose_claims=tuple(identity.purpose_claims(executors)),
        relations=tuple(relations.relations),
        context_probes=tuple(relations.probes),
        coverage=identity.coverage(executors, any_root_read=any_root_read),
        subtasks=SubtaskSupport.SUPPORTED,
        delegation_tools=DELEGATION_TOOLS,
        sources=tree.sources if tree is not None else (),
        gaps=gaps.gaps(),
        lifecycle=None if any_root_read and all_known else LifecycleStatus.UNKNOWN,
    )


def _root_keys(source: AdapterInput, everyone: list[Executor], gaps: GapLog) -> frozenset[str]:
    """Which session executors are roots: the one that the launcher started, else all, which is a gap if not one."""
    sessions = [executor for executor in everyone if executor.is_root]
    named = as_id(source.launcher.get("root_native_id"))
    launched = frozenset(executor.key for executor in sessions if named in executor.session_ids)
    if named is not None and not launched and sessions:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, "the session that the launcher started made no request")
    if not launched and len(sessions) > 1:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, f"{len(sessions)} sessions made requests, none is marked as root")
    if launched and len(sessions) > 1:
        reason = "a session that the launcher did not start made requests"
        gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)
    return launched or frozenset(executor.key for executor in sessions)


def _participant(
    executor: Executor, executors: Executors, relations: NativeRelations, roots: frozenset[str]
) -> NativeParticipant | None:
    evidence = executor.evidence()
    if evidence is None:
        return None
    outcome = relations.outcomes.get(executor.key, _UNKNOWN_CHILD)
    if executor.is_root:
        status = execution_status(executor, said_completed=False)
        settled = LifecycleStatus.COMPLETE if executor.key in roots else LifecycleStatus.UNKNOWN
        outcome = ChildOutcome(status, settled)
    return NativeParticipant(
        key=executor.key,
        role=Role.ROOT if executor.key in roots else Role.CHILD,
        parent_key=executor.parent_key if executor.parent_key in executors.by_key else None,
        native_ids=identity.native_ids(executor),
        execution_status=outcome.execution_status,
        evidence=(evidence,),
        lifecycle=outcome.lifecycle,
    )
