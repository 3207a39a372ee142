"""The order of the steps that turn the native logs of Hermes Agent into a `NativeCapture`."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.hermes import identity
from roller_capture.adapters.hermes.delegations import DelegationFinder
from roller_capture.adapters.hermes.ends import find_end
from roller_capture.adapters.hermes.executors import Executor, Executors, find_executors
from roller_capture.adapters.hermes.facts import Place, PluginLog, State
from roller_capture.adapters.hermes.plugin_reader import read_plugin_log
from roller_capture.adapters.hermes.relations import NativeRelations, RelationFinder
from roller_capture.adapters.hermes.state_reader import DELEGATION_TOOL, read_state
from roller_capture.adapters.hermes.store import EVENTS, STATE, Extract, find_extract
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_values import as_id, as_list, as_word
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NativeParticipant, NativeSource
from roller_capture.vocabulary import (
    AttemptErrorCode,
    ExecutionStatus,
    LifecycleStatus,
    Role,
    SubtaskSupport,
)

TESTED_VERSIONS: Final = frozenset({"0.19.0"})

_FIRST_SIGNAL: Final = 128
"""Exit codes from here on tell of a signal."""

_Read = TypeVar("_Read")


def read(source: AdapterInput) -> NativeCapture:
    """Reads the sessions that the attempt's requests name, and all that descend from them, below `source.native_root`.

    Raises nothing on content: what cannot be read or proven is a gap of the result.
    """
    gaps = GapLog()
    extract = _extract(source, gaps)
    state = _read(extract.state, STATE, read_state, gaps) or State()
    log = _read(extract.events, EVENTS, read_plugin_log, gaps)
    if log is not None and log.hook is None and not log.requests:
        gaps.add(AttemptErrorCode.HOOK_NOT_SEEN, "the plugin's log holds no event of it", source=EVENTS)
        log = None
    events = log or PluginLog()
    executors = find_executors(state, events, gaps)
    ended = _ended_by_itself(source)
    ends = {
        key: find_end(executor, state, events, has_ended=ended in executor.session_ids)
        for key, executor in executors.by_key.items()
    }
    delegations = DelegationFinder(executors, state, gaps).find()
    relations = RelationFinder(executors, delegations, ends, state, events, gaps).find()
    statuses = {
        key: ExecutionStatus.UNKNOWN if key in relations.undecided else end.execution_status
        for key, end in ends.items()
    }
    _name_strange_events(executors, events, gaps)
    roots = _root_keys(source, executors, gaps)
    _name_unknown_sessions(source, executors, gaps)
    versions = events.versions or frozenset(filter(None, (as_word(source.launcher.get("harness_version")),)))
    tested = bool(versions) and TESTED_VERSIONS.issuperset(versions)
    if versions and not tested:
        gaps.add(AttemptErrorCode.NATIVE_VERSION_UNTESTED, f"tested with {', '.join(sorted(TESTED_VERSIONS))} only")
    tasks = source.wire_headers.get(identity.TASK_HEADER, frozenset())
    return NativeCapture(
        harness_version=max(versions) if versions else None,
        version_tested=tested,
        participants=tuple(
            _participant(executor, roots, statuses[executor.key], relations) for executor in executors.by_key.values()
        ),
        identity_fields=identity.IDENTITY_FIELDS,
        identity_claims=tuple(identity.identity_claims(executors, events)),
        absent_header_claims=(),
        purpose_claims=tuple(identity.purpose_claims(tasks, events.hook)),
        relations=tuple(relations.relations),
        context_probes=tuple(relations.probes),
        coverage=identity.coverage(executors, log if extract.state is not None else None),
        subtasks=SubtaskSupport.SUPPORTED,
        delegation_tools=frozenset({DELEGATION_TOOL}),
        sources=_sources(extract),
        gaps=gaps.gaps(),
        hook_header=identity.SESSION_HEADER,
        lifecycle=_lifecycle(executors, gaps),
    )


def _extract(source: AdapterInput, gaps: GapLog) -> Extract:
    root = source.native_root
    try:
        if root is None or not root.is_dir():
            gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "there is no folder with native logs")
            return Extract(None, None)
        return find_extract(NativeTree(root, gaps), root, _session_ids(source), source.scratch, gaps)
    except OSError as error:
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"the extract cannot be written: {error.strerror}")
        return Extract(None, None)


def _session_ids(source: AdapterInput) -> frozenset[str]:
    """The sessions to read: those that requests name, else the one that the launcher started."""
    seen = source.wire_headers.get(identity.SESSION_HEADER, frozenset())
    usable = frozenset(item for item in seen if as_id(item) is not None)
    named = as_id(source.launcher.get("root_native_id"))
    return usable or frozenset(filter(None, (named,)))


def _ended_by_itself(source: AdapterInput) -> str | None:
    """The session whose last turn the launcher saw end with an error of Hermes's own, and by no signal."""
    codes = as_list(source.launcher.get("exit_codes"))
    last = codes[-1] if codes else None
    gave_up = isinstance(last, int) and 0 < last < _FIRST_SIGNAL and source.launcher.get("ended_by") == "harness"
    return as_id(source.launcher.get("root_native_id")) if gave_up else None


def _read(path: Path | None, name: str, reader: Callable[[BinaryIO, GapLog], _Read], gaps: GapLog) -> _Read | None:
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            return reader(stream, gaps)
    except OSError as error:
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"cannot be read: {error.strerror}", source=name)
        return None


def _sources(extract: Extract) -> tuple[NativeSource, ...]:
    found = ((STATE, extract.state), (EVENTS, extract.events))
    return tuple(NativeSource(name, path) for name, path in found if path is not None)


def _root_keys(source: AdapterInput, executors: Executors, gaps: GapLog) -> frozenset[str]:
    """Which executors without a mark of a child are roots: the one that the launcher started, else all of them."""
    tops = [executor for executor in executors.by_key.values() if not executor.is_child]
    named = as_id(source.launcher.get("root_native_id"))
    launched = frozenset(executor.key for executor in tops if named in executor.session_ids)
    if named is not None and not launched and tops:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, "the session that the launcher started has no row of a root")
    if not launched and len(tops) > 1:
        gaps.add(AttemptErrorCode.ROOT_AMBIGUOUS, f"{len(tops)} sessions made requests, none is marked as root")
    if launched and len(tops) > 1:
        reason = "a session that the launcher did not start made requests"
        gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)
    return launched or frozenset(executor.key for executor in tops)


def _name_unknown_sessions(source: AdapterInput, executors: Executors, gaps: GapLog) -> None:
    seen = source.wire_headers.get(identity.SESSION_HEADER, frozenset())
    unknown = seen - executors.key_of.keys()
    for session_id in sorted(unknown):
        label = session_id if as_id(session_id) is not None else "of unusable form"
        gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, f"requests name session {label}, of which there is no row")


def _name_strange_events(executors: Executors, events: PluginLog, gaps: GapLog) -> None:
    """Events of sessions that no row tells of, and turns that are told of two executors."""
    missing = AttemptErrorCode.PARTICIPANT_LOG_MISSING
    for output in events.outputs.values():
        if executors.of_session(output.session_id) is None:
            _name(missing, "an answer was taken in a session of which there is no row", output.place, gaps)
    for child in events.children:
        if executors.of_session(child.session_id) is None:
            _name(missing, "a child was started of which there is no row", child.place, gaps)
    owners: dict[str, Executor | None] = {}
    told = [(turn.turn_id, turn.session_id, turn.place) for turn in events.turns]
    told += [(request.turn_id, request.session_id, request.place) for request in events.requests if request.turn_id]
    told += [(turn_id, end.session_id, end.place) for turn_id, end in events.turn_ends.items()]
    for turn_id, session_id, place in told:
        owner = executors.of_session(session_id)
        if owners.setdefault(turn_id, owner) is not owner:
            _name(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, "a turn is told of two sessions", place, gaps)


def _name(code: AttemptErrorCode, reason: str, place: Place, gaps: GapLog) -> None:
    gaps.add(code, reason, source=place.source, line=place.line)


def _lifecycle(executors: Executors, gaps: GapLog) -> LifecycleStatus | None:
    """Unknown where somebody's rows are missing or ids do not match: the protocol, "Execution boundaries"."""
    unmatched = {AttemptErrorCode.PARTICIPANT_LOG_MISSING, AttemptErrorCode.NATIVE_ID_NOT_UNIQUE}
    is_known = executors.by_key and not any(gap.code in unmatched for gap in gaps.gaps())
    return None if is_known else LifecycleStatus.UNKNOWN


def _participant(
    executor: Executor, roots: frozenset[str], status: ExecutionStatus, relations: NativeRelations
) -> NativeParticipant:
    is_root = executor.key in roots
    otherwise = LifecycleStatus.COMPLETE if is_root else LifecycleStatus.UNKNOWN
    return NativeParticipant(
        key=executor.key,
        role=Role.ROOT if is_root else Role.CHILD,
        parent_key=executor.parent_key,
        native_ids={"session_id": executor.session_ids},
        execution_status=status,
        evidence=(executor.evidence(),),
        lifecycle=relations.lifecycles.get(executor.key, otherwise),
    )
