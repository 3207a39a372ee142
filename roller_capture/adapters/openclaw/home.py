"""Where OpenClaw keeps its records, and which of them are taken out: sessions and their registry, nothing else.

Measured with 2026.9.6 (agent schema 23, state schema 18): one database for each agent holds its sessions, one for the
whole home the registry of subtasks. Both also hold credentials (`auth_profile_store`, `device_auth_tokens`,
`secret_store_entries`, …), so they are never copied: rows of the sessions that are wanted, and of their descendants,
become JSON Lines.
"""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from roller_capture import json_text
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree, PathKind
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_sqlite import Database, Selection, Table, open_database
from roller_capture.adapters.native_values import as_id
from roller_capture.adapters.openclaw.compressed import event_text
from roller_capture.capture_protocol import Gap
from roller_capture.vocabulary import AttemptErrorCode

STATE_DIR: Final = ".openclaw"
STATE_DATABASE: Final = "state/openclaw.sqlite"
AGENT_DATABASES: Final = "agents/*/agent/openclaw-agent.sqlite"
HOOK_LOG: Final = "roller-hook.jsonl"
REGISTRY: Final = "state/openclaw.jsonl"
"""The extract of the state database."""

_OLDER_REGISTRIES: Final = ("subagents/runs.json", "tasks/runs.sqlite")
_AGENTS: Final = PurePosixPath("agents")
_AGENT_DATABASE: Final = PurePosixPath("agent/openclaw-agent.sqlite")
_AGENT_EXTRACT: Final = "openclaw-agent.jsonl"

_VERSIONS: Final = Table("schema_meta", ("meta_key", "role", "schema_version", "agent_id", "app_version"))
_WINDOWS: Final = Table(
    "session_windows",
    (
        "session_id",
        "session_key",
        "previous_session_id",
        "reason",
        "started_at",
        "ended_at",
        "status",
        "model_provider",
        "model",
        "parent_session_key",
        "spawned_by",
    ),
    needed=("session_id", "session_key"),
    order=("session_id",),
)
_NODES: Final = Table(
    "session_nodes",
    (
        "session_key",
        "current_session_id",
        "status",
        "created_via",
        "parent_session_key",
        "spawned_by",
        "fork_source_session_key",
        "fork_source_session_id",
    ),
    needed=("session_key", "current_session_id"),
    order=("session_key",),
)
_EVENTS: Final = Table(
    "transcript_events",
    ("session_id", "seq", "event_json", "event_zstd"),
    needed=("session_id", "seq"),
    order=("session_id", "seq"),
    blobs={"event_zstd": event_text},
)
_RUNS: Final = Table(
    "subagent_runs",
    ("run_id", "child_session_key", "controller_session_key", "requester_session_key", "created_at", "payload_json"),
    needed=("run_id", "child_session_key", "requester_session_key", "payload_json"),
    order=("created_at", "run_id"),
)
_TASKS: Final = Table(
    "task_runs",
    (
        "task_id",
        "run_id",
        "runtime",
        "status",
        "delivery_status",
        "child_session_key",
        "requester_session_key",
        "created_at",
        "started_at",
        "ended_at",
    ),
    needed=("run_id", "runtime", "status"),
    order=("created_at", "task_id"),
)


@dataclass(frozen=True, slots=True)
class Extract:
    """JSON Lines that hold allowed rows. `source` is the name by which evidence calls them."""

    source: str
    path: Path


@dataclass(slots=True)
class Extracts:
    """What was found of one home. `registry` and `hook_log` are `None` where there is none."""

    agents: list[Extract] = field(default_factory=list)
    registry: Extract | None = None
    hook_log: Extract | None = None

    def all(self) -> list[Extract]:
        """Every extract."""
        return [*self.agents, *(item for item in (self.registry, self.hook_log) if item is not None)]


@dataclass(slots=True)
class _Family:
    """The keys that rows give to each session id, and who spawned whom. Where rows disagree all of them are wanted, so
    that their disagreement is seen."""

    keys: dict[str, set[str]] = field(default_factory=dict)
    parents: dict[str, set[str]] = field(default_factory=dict)

    def add(self, key: object, session_ids: Iterable[object], parents: Iterable[object]) -> None:
        own = as_id(key)
        if own is None:
            return
        for session_id in filter(None, map(as_id, session_ids)):
            self.keys.setdefault(session_id, set()).add(own)
        self.parents.setdefault(own, set()).update(parent for item in parents if (parent := as_id(item)) is not None)

    def with_descendants(self, session_ids: Iterable[str]) -> frozenset[str]:
        """The keys of these sessions, of those of the same key, and of all that they spawned."""
        children: dict[str, set[str]] = {}
        for child, parents in self.parents.items():
            for parent in parents:
                children.setdefault(parent, set()).add(child)
        wanted = set[str]().union(*(self.keys.get(item, ()) for item in session_ids))
        waiting = list(wanted)
        while waiting:
            reached = children.get(waiting.pop(), set()) - wanted
            wanted |= reached
            waiting += reached
        return frozenset(wanted)

    def session_ids(self, keys: frozenset[str]) -> frozenset[str]:
        return frozenset(session_id for session_id, own in self.keys.items() if own & keys)


def find_extracts(tree: NativeTree, scratch: Path, session_ids: frozenset[str], gaps: GapLog) -> Extracts:
    """The records of these sessions and their descendants: from extracts that a launcher has made, else taken out of
    the databases into new files below `scratch`. Raises `OSError` when these cannot be written."""
    base = _state_folder(tree)
    made = _made_extracts(tree, base)
    if made is not None:
        return made
    return _take_out(tree, base, scratch, scratch / "extracts", session_ids, gaps)


def copy_records(home: Path, target: Path, session_ids: frozenset[str]) -> list[Gap]:
    """Writes the extracts below `target`, as a launcher does after a run; replaces those that stand there."""
    gaps = GapLog()
    if not home.is_dir():
        gaps.add(AttemptErrorCode.NATIVE_LOGS_MISSING, "the harness's home is gone")
        return list(gaps.gaps())
    tree = NativeTree(home, gaps)
    try:
        with tempfile.TemporaryDirectory(prefix="roller-openclaw-") as scratch:
            _take_out(tree, _state_folder(tree), Path(scratch), target, session_ids, gaps)
    except OSError as error:
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"records cannot be written: {error.strerror}")
    return list(gaps.gaps())


def _state_folder(tree: NativeTree) -> PurePosixPath:
    inner = PurePosixPath(STATE_DIR)
    return inner if tree.kind(inner) is PathKind.FOLDER else PurePosixPath()


def _agent_ids(tree: NativeTree, base: PurePosixPath) -> list[str]:
    return tree.names(base / _AGENTS)


def _made_extracts(tree: NativeTree, base: PurePosixPath) -> Extracts | None:
    """Extracts in the folder, if there are any. They are opened once, so that they count as evidence."""
    agents = [base / _AGENTS / agent / _AGENT_EXTRACT for agent in _agent_ids(tree, base)]
    found = Extracts(
        [extract for path in agents if (extract := _made(tree, path)) is not None],
        _made(tree, base / REGISTRY),
    )
    if not found.all():
        return None
    found.hook_log = _made(tree, base / HOOK_LOG)
    return found


def _made(tree: NativeTree, path: PurePosixPath) -> Extract | None:
    with tree.open(path) as stream:
        if stream is None:
            return None
    source = next(item for item in tree.sources if item.source == str(path))
    return Extract(source.source, source.path)


def _take_out(
    tree: NativeTree,
    base: PurePosixPath,
    scratch: Path,
    target: Path,
    session_ids: frozenset[str],
    gaps: GapLog,
) -> Extracts:
    found = Extracts()
    with ExitStack() as stack:
        agents: dict[str, Database] = {}
        for agent in _agent_ids(tree, base):
            place = base / _AGENTS / agent / _AGENT_DATABASE
            database = stack.enter_context(open_database(tree, place, scratch, gaps, trusted_schema=True))
            if database is not None:
                agents[agent] = database
            elif tree.kind(base / _AGENTS / agent / "sessions") is PathKind.FOLDER:
                gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "has session files of an older version", source=agent)
        registry = stack.enter_context(open_database(tree, base / STATE_DATABASE, scratch, gaps, trusted_schema=True))
        family = _family(agents, registry)
        keys = family.with_descendants(session_ids)
        wanted = family.session_ids(keys)
        for agent, database in agents.items():
            name = f"{_AGENTS}/{agent}/{_AGENT_EXTRACT}"
            found.agents.append(_extract(database, target, name, _agent_rows(keys, wanted)))
        if registry is not None:
            found.registry = _extract(registry, target, REGISTRY, _registry_rows(keys))
        else:
            _name_older_registries(tree, base, gaps)
        found.hook_log = _hook_log(tree, base, target, wanted | session_ids, gaps)
    return found


def _name_older_registries(tree: NativeTree, base: PurePosixPath, gaps: GapLog) -> None:
    for name in _OLDER_REGISTRIES:
        if tree.kind(base / name) is PathKind.FILE:
            gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "is a registry of an older version", source=name)


def _family(agents: Mapping[str, Database], registry: Database | None) -> _Family:
    family = _Family()
    for database in agents.values():
        for row in database.rows(Selection(_WINDOWS)):
            family.add(row["session_key"], (row["session_id"],), (row.get("parent_session_key"), row.get("spawned_by")))
        for row in database.rows(Selection(_NODES)):
            parents = (row.get("parent_session_key"), row.get("spawned_by"))
            family.add(row["session_key"], (row["current_session_id"],), parents)
    if registry is not None:
        for row in registry.rows(Selection(Table(_RUNS.name, _RUNS.needed[:3], _RUNS.needed))):
            family.add(row["child_session_key"], (), (row["requester_session_key"],))
    return family


def _agent_rows(keys: frozenset[str], session_ids: frozenset[str]) -> Sequence[Selection]:
    return (
        Selection(_VERSIONS, "meta_key", ("primary",)),
        Selection(_WINDOWS, "session_key", keys),
        Selection(_NODES, "session_key", keys),
        Selection(_EVENTS, "session_id", session_ids),
    )


def _registry_rows(keys: frozenset[str]) -> Sequence[Selection]:
    return (
        Selection(_VERSIONS, "meta_key", ("primary",)),
        Selection(_RUNS, "child_session_key", keys),
        Selection(_TASKS, "child_session_key", keys),
    )


def _extract(database: Database, target: Path, name: str, rows: Sequence[Selection]) -> Extract:
    path = target / name
    path.unlink(missing_ok=True)
    database.extract(path, *rows)
    return Extract(name, path)


def _hook_log(
    tree: NativeTree, base: PurePosixPath, target: Path, session_ids: frozenset[str], gaps: GapLog
) -> Extract | None:
    """The lines of our plugin's own log that are about these sessions."""
    with tree.open(base / HOOK_LOG, as_evidence=False) as stream:
        if stream is None:
            return None
        path = target / HOOK_LOG
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.touch(mode=0o600)
        with path.open("wb") as copy:
            for line in read_lines(stream):
                if line.problem is not None:
                    reason = f"a line {line.problem.value}"
                    gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=HOOK_LOG, line=line.number)
                elif as_id(line.record.get("session_id")) in session_ids:
                    copy.write(json_text.dumps(line.record) + b"\n")
    return Extract(HOOK_LOG, path)
