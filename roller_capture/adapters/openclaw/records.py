"""Reads the rows of the extracts into facts. A row of an unknown shape is passed over; a damaged one is a gap."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word
from roller_capture.adapters.openclaw.facts import ChildRun, Home, HookFacts, Place, Session, Task, Thread
from roller_capture.adapters.openclaw.home import Extract, Extracts
from roller_capture.adapters.openclaw.transcript import add_event, is_damaged
from roller_capture.vocabulary import AttemptErrorCode

Row = Mapping[str, Any]
_LONGEST_RUN_ID: Final = 16 * 1024
"""Characters: ids of nested announcements hold one another, and those of all children of a batch."""


def read_home(extracts: Extracts, gaps: GapLog) -> Home:
    """All facts of a home. Raises nothing on content."""
    reader = _Reader(gaps)
    for agent in extracts.agents:
        reader.read(agent)
        reader.home.agents_read += 1
    if extracts.registry is not None:
        reader.read(extracts.registry)
        reader.home.registry_read = True
    if extracts.hook_log is not None:
        reader.home.hook = HookFacts()
        reader.read(extracts.hook_log)
    reader.attach_threads()
    return reader.home


class _Reader:
    def __init__(self, gaps: GapLog) -> None:
        self.home = Home()
        self._gaps = gaps
        self._threads: dict[str, Thread] = {}
        self._keys: dict[str, str] = {}
        self._contested: set[str] = set()
        self._tables: dict[str, Callable[[Row, Place], None]] = {
            "schema_meta": self._version,
            "session_windows": self._window,
            "session_nodes": self._node,
            "transcript_events": self._event,
            "subagent_runs": self._run,
            "task_runs": self._task,
        }
        self._hook_events: dict[str, Callable[[Row], None]] = {"stream": self._stream, "tool_ids": self._tool_ids}

    def read(self, extract: Extract) -> None:
        """The lines of one extract."""
        try:
            with Path(extract.path).open("rb") as stream:
                for line in read_lines(stream):
                    place = Place(extract.source, line.number)
                    if line.problem is not None:
                        self._unreadable(line.problem.value, place)
                        continue
                    self._line(line.record, place)
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            self._gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=extract.source)

    def _line(self, record: Row, place: Place) -> None:
        name, kind = as_text(record.get("table")), as_text(record.get("event"))
        table, event = self._tables.get(name or ""), self._hook_events.get(kind or "")
        if table is not None:
            table(record, place)
        elif event is not None:
            event(record)
        elif name is not None or kind is None:  # the hook has events that say nothing here
            self._strange("a line is no row of a table that is known here, and no event", place)

    def attach_threads(self) -> None:
        """Gives each transcript to its session; one of no known session is a gap. An id of two keys is neither's."""
        for session_id in self._contested:
            del self._keys[session_id]
            for session in self.home.sessions.values():
                session.session_ids.pop(session_id, None)
        for session_id, thread in self._threads.items():
            key = self._keys.get(session_id)
            if key is None:
                reason = "holds a transcript of a session that no row names"
                self._gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason)
            else:
                self.home.sessions[key].threads.append(thread)

    def _strange(self, reason: str, place: Place) -> None:
        self._gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=place.source, line=place.line)

    def _unreadable(self, reason: str, place: Place) -> None:
        self._gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=place.source, line=place.line)

    def _version(self, row: Row, place: Place) -> None:  # noqa: ARG002
        version = as_word(row.get("app_version"))
        if row.get("meta_key") == "primary" and version is not None:
            self.home.versions.add(version)

    def _session(self, row: Row, session_id: str | None) -> Session | None:
        key = as_id(row.get("session_key"))
        if key is None:
            return None
        session = self.home.sessions.setdefault(key, Session(key))
        if session_id is not None:
            if self._keys.setdefault(session_id, key) != key:
                reason = "a session id belongs to two session keys"
                self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason)
                self._contested.add(session_id)
            session.session_ids.setdefault(session_id)
        for name in ("spawned_by", "parent_session_key"):
            parent = as_id(row.get(name))
            if parent is not None:
                session.spawned_by.setdefault(parent)
        return session

    def _window(self, row: Row, place: Place) -> None:
        session = self._session(row, as_id(row.get("session_id")))
        if session is not None and session.place is None:
            session.place = place

    def _node(self, row: Row, place: Place) -> None:
        session = self._session(row, as_id(row.get("current_session_id")))
        if session is not None:
            session.node = place
            session.status = as_word(row.get("status"))
            session.created_via = as_word(row.get("created_via"))
            session.fork_source = as_id(row.get("fork_source_session_key"))

    def _event(self, row: Row, place: Place) -> None:
        session_id = as_id(row.get("session_id"))
        if session_id is None:
            self._strange("an event of a transcript names no session", place)
            return
        thread = self._threads.setdefault(session_id, Thread(session_id))
        packed = row.get("event_zstd")
        text = packed if packed is not None else row.get("event_json")
        if not isinstance(text, str):
            self._unreadable(f"an event {as_text(as_mapping(text).get('unreadable')) or 'is no text'}", place)
            return
        event = self._parsed(text, place)
        if event is not None:
            if is_damaged(event):
                self._strange("an event of a transcript has an unknown form", place)
            add_event(thread, event, place)

    def _parsed(self, text: str, place: Place) -> Row | None:
        try:
            value = json_text.parse(text.encode("utf-8", "surrogatepass"))
        except json_text.JsonError:
            self._unreadable("a stored value is no JSON", place)
            return None
        if not isinstance(value, dict):
            self._unreadable("a stored value is no JSON object", place)
            return None
        return value

    def _run(self, row: Row, place: Place) -> None:
        payload_text = as_text(row.get("payload_json"))
        payload = None if payload_text is None else self._parsed(payload_text, place)
        child, requester = as_id(row.get("child_session_key")), as_id(row.get("requester_session_key"))
        run_id = as_run_id(row.get("run_id"))
        if payload is None or child is None or requester is None or run_id is None:
            self._gaps.add(
                AttemptErrorCode.NATIVE_SHAPE_UNKNOWN,
                "a subtask's row lacks an id",
                source=place.source,
                line=place.line,
            )
            return
        self._same(payload, "runId", run_id, child, place)
        self._same(payload, "childSessionKey", child, child, place)
        self._same(payload, "requesterSessionKey", requester, child, place)
        execution, completion = as_mapping(payload.get("execution")), as_mapping(payload.get("completion"))
        self.home.runs.append(
            ChildRun(
                run_id=run_id,
                task_run_id=as_id(payload.get("taskRunId")) or run_id,
                child_key=child,
                requester_key=requester,
                execution=as_word(execution.get("status")),
                outcome=as_word(as_mapping(execution.get("outcome")).get("status")),
                ended_reason=as_word(payload.get("endedReason")),
                delivery=as_word(as_mapping(payload.get("delivery")).get("status")),
                expects_delivery=payload.get("expectsCompletionMessage") is not False,
                result_text=as_text(completion.get("resultText")),
                place=place,
            )
        )

    def _same(self, payload: Row, name: str, expected: str, child: str, place: Place) -> None:
        said = payload.get(name)
        if said is not None and said != expected:
            self.home.contradicted.add(child)
            reason = f"a subtask's row and its payload disagree on {name}"
            self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=place.source, line=place.line)

    def _task(self, row: Row, place: Place) -> None:
        run_id = as_run_id(row.get("run_id"))
        if run_id is not None:
            key = as_id(row.get("child_session_key"))
            runtime, status = as_word(row.get("runtime")), as_word(row.get("status"))
            self.home.tasks.append(Task(as_id(row.get("task_id")), run_id, runtime, status, key, place))

    def _stream(self, row: Row) -> None:
        session_id = as_id(row.get("session_id"))
        if self.home.hook is not None and session_id is not None:
            self.home.hook.streams[session_id] = self.home.hook.streams.get(session_id, 0) + 1

    def _tool_ids(self, row: Row) -> None:
        session_id, response_id = as_id(row.get("session_id")), as_id(row.get("response_id"))
        if self.home.hook is None or session_id is None or response_id is None:
            return
        for position, value in enumerate(as_list(row.get("ids"))):
            resolved = as_id(value)
            if resolved is not None:
                self.home.hook.resolved.setdefault((session_id, response_id, position), {}).setdefault(resolved)


def as_run_id(value: object) -> str | None:
    """`value` if it can be a run id; those of announcements are far longer than other ids."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_RUN_ID or not value.isprintable():
        return None
    return value
