"""Reads the files of each session, and tells which sessions are one: a fork or an old resume copies the history.

A session whose outputs all stand in another session's log too, under the same record uuids, was continued there: one
executor with two native ids (design section 6, "a rotated session"). Where two sessions each went on from a common
history they are two executors, and the ids of the common part name no single owner.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath

from roller_capture import json_text
from roller_capture.adapters.claude_code.facts import Output, Thread
from roller_capture.adapters.claude_code.locate import AgentFiles, SessionFiles, find_sessions
from roller_capture.adapters.claude_code.log_reader import OWN, read_log
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_values import as_id
from roller_capture.vocabulary import AttemptErrorCode

_MAX_META_BYTES = 1 << 20
_COMPACTING_AGENT = "acompact"
"""Prefix of the ids of agents that some versions start for compaction; their logs begin with the compacted context."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What `agent-<id>.meta.json` says."""

    source: str
    tool_use_id: str | None
    parent_agent_id: str | None
    is_fork: bool
    spawn_depth: int | None = None
    """1 for a child of the root, 2 for its child; `None` in versions that do not say."""


@dataclass(slots=True)
class AgentLog:
    """An agent's own files; `thread` is `None` where there is only metadata."""

    agent_id: str
    thread: Thread | None = None
    metas: list[Meta] = field(default_factory=list)

    @property
    def is_fork(self) -> bool:
        """Whether the log began as a fork of another executor: the harness marks its beginning *and* the metadata.

        Either mark alone may have been written by the agent itself, to have its outputs taken for copies.
        """
        begins_so = self.thread is not None and self.thread.begins_with_reference
        return begins_so and (not self.metas or any(meta.is_fork for meta in self.metas))


@dataclass(slots=True)
class Session:
    """One or, after rotation, several sessions of one root executor; the first id is that of the oldest."""

    session_ids: tuple[str, ...]
    root: Thread | None
    agents: dict[str, AgentLog] = field(default_factory=dict)
    told: dict[str, Thread] = field(default_factory=dict)
    """Threads of children that stand in the root's file, by participant key."""


def is_compacting_agent(agent_id: str) -> bool:
    """Whether the harness's own id marks an agent as one that compacts and was not launched by a tool call."""
    return agent_id.startswith(_COMPACTING_AGENT)


def read_sessions(tree: NativeTree, session_ids: frozenset[str], gaps: GapLog) -> list[Session]:
    """The sessions of an attempt, those that continue one another merged. A session without a log has no root."""
    sessions = [_read_session(tree, files, gaps) for files in find_sessions(tree, session_ids)]
    return [_merge(chain) for chain in _chains(sessions)]


def _read_session(tree: NativeTree, files: SessionFiles, gaps: GapLog) -> Session:
    session = Session((files.session_id,), None)
    for path in files.logs:
        for key, thread in _read(tree, path, gaps, session_id=files.session_id).items():
            if key != OWN:
                session.told.setdefault(key, Thread()).absorb(thread, turns=True)
            elif session.root is None:
                session.root = thread
            else:
                session.root.absorb(thread, turns=True)
    for agent in files.agents.values():
        session.agents[agent.agent_id] = _read_agent(tree, agent, gaps)
    if session.root is None:
        reason = f"no native log of session {files.session_id} was found" if not files.logs else "holds no record"
        code = AttemptErrorCode.NATIVE_LOG_UNREADABLE if files.logs else AttemptErrorCode.NATIVE_LOGS_MISSING
        gaps.add(code, reason, source=str(files.logs[0]) if files.logs else None)
    return session


def _read_agent(tree: NativeTree, files: AgentFiles, gaps: GapLog) -> AgentLog:
    agent = AgentLog(files.agent_id)
    for path in files.logs:
        thread = _read(tree, path, gaps, agent_id=files.agent_id).get(OWN)
        if thread is None:
            gaps.add(AttemptErrorCode.PARTICIPANT_LOG_MISSING, "an agent's log holds no record", source=str(path))
        elif agent.thread is None:
            agent.thread = thread
        else:
            agent.thread.absorb(thread, turns=True)
    agent.metas = [meta for path in files.metas if (meta := _read_meta(tree, path, gaps)) is not None]
    marked = any(meta.is_fork for meta in agent.metas)
    if agent.thread is not None and agent.is_fork != (marked or agent.thread.begins_with_reference):
        reason = "an agent's metadata and the beginning of its log disagree on whether it is a fork"
        gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=str(files.logs[0]))
    return agent


def _read(
    tree: NativeTree,
    path: PurePosixPath,
    gaps: GapLog,
    *,
    session_id: str | None = None,
    agent_id: str | None = None,
) -> Mapping[str, Thread]:
    with tree.open(path) as stream:
        if stream is None:
            return {}
        return read_log(stream, str(path), gaps, session_id=session_id, agent_id=agent_id)


def _read_meta(tree: NativeTree, path: PurePosixPath, gaps: GapLog) -> Meta | None:
    with tree.open(path) as stream:
        if stream is None:
            return None
        try:
            data = stream.read(_MAX_META_BYTES + 1)
            value = json_text.parse(data) if len(data) <= _MAX_META_BYTES else None
        except (OSError, json_text.JsonError):
            value = None
    if not isinstance(value, dict):
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, "an agent's metadata is no JSON object", source=str(path))
        return None
    tool_use_id, parent_agent_id = as_id(value.get("toolUseId")), as_id(value.get("parentAgentId"))
    depth = value.get("spawnDepth")
    spawn_depth = depth if isinstance(depth, int) and not isinstance(depth, bool) and depth > 0 else None
    return Meta(str(path), tool_use_id, parent_agent_id, value.get("isFork") is True, spawn_depth)


def _chains(sessions: list[Session]) -> list[list[Session]]:
    """Sessions that hold common outputs and contain one another, from the oldest on; all others stand alone."""
    chains: list[list[Session]] = []
    for related in _related(sessions):
        ordered = sorted(related, key=lambda item: len(_outputs(item)))
        if all(_continues(older, newer) for older, newer in pairwise(ordered)):
            chains.append(ordered)
        else:
            chains += [[session] for session in ordered]
    return chains


def _related(sessions: list[Session]) -> list[list[Session]]:
    """The sessions in groups that are tied by common output ids."""
    leader = list(range(len(sessions)))

    def find(index: int) -> int:
        while leader[index] != index:
            index = leader[index]
        return index

    first_holder: dict[str, int] = {}
    for index, session in enumerate(sessions):
        for identifier in _outputs(session):
            leader[find(index)] = find(first_holder.setdefault(identifier, index))
    groups: dict[int, list[Session]] = {}
    for index, session in enumerate(sessions):
        groups.setdefault(find(index), []).append(session)
    return list(groups.values())


def _outputs(session: Session) -> Mapping[str, Output]:
    return session.root.outputs if session.root is not None else {}


def _continues(older: Session, newer: Session) -> bool:
    known = _outputs(newer)
    return all(
        identifier in known and output.uuid is not None and known[identifier].uuid == output.uuid
        for identifier, output in _outputs(older).items()
    )


def _merge(chain: list[Session]) -> Session:
    whole = chain[0]
    for session in chain[1:]:
        whole.session_ids += session.session_ids
        if whole.root is not None and session.root is not None:
            whole.root.absorb(session.root, turns=True)
        for key, thread in session.told.items():
            whole.told.setdefault(key, Thread()).absorb(thread, turns=True)
        for agent_id, agent in session.agents.items():
            _merge_agent(whole.agents.setdefault(agent_id, AgentLog(agent_id)), agent)
    return whole


def _merge_agent(known: AgentLog, other: AgentLog) -> None:
    known.metas += other.metas
    if known.thread is None:
        known.thread = other.thread
    elif other.thread is not None:
        known.thread.absorb(other.thread, turns=True)
