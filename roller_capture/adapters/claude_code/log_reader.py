"""Reads one native log file into threads: the executor whose file it is, and others that it holds records of.

Others are children of which a root file holds records: `progress` records (with the child's agent id), and sidechains
of versions that wrote children into the root file.
"""

from collections.abc import Mapping
from typing import Any, BinaryIO

from roller_capture.adapters.claude_code import record_shapes
from roller_capture.adapters.claude_code.descent import Descent
from roller_capture.adapters.claude_code.facts import AgentLink, Notification, Output, Place, Thread
from roller_capture.adapters.claude_code.turns import TurnTracker
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_jsonl import LineProblem, read_lines
from roller_capture.adapters.native_values import as_id, as_mapping, as_text, as_word
from roller_capture.vocabulary import AttemptErrorCode

_Known = tuple[str, str | None, Notification]
"""A notification that stands in the conversation, with the thread and the record that it goes on from."""

OWN = ""
"""The thread of the executor whose file it is; other keys are `agent_key` and `sidechain_key`."""


def agent_key(agent_id: str) -> str:
    """The participant key of a child with an agent id."""
    return f"agent:{agent_id}"


def sidechain_key(uuid: str) -> str:
    """The participant key of a child without an agent id, by the uuid of its first record."""
    return f"sidechain:{uuid}"


def read_log(
    stream: BinaryIO, source: str, gaps: GapLog, *, session_id: str | None = None, agent_id: str | None = None
) -> dict[str, Thread]:
    """The threads of one file: of a root (`session_id`) or of a child (`agent_id`). Never raises on content."""
    reader = _LogReader(source, gaps, session_id, agent_id)
    try:
        for line in read_lines(stream):
            if line.problem is not None:
                reader.problem(line.problem, line.number)
            else:
                reader.record(line.record, Place(source, line.number))
    except OSError as error:
        reason = f"cannot be read on: {error.strerror}"
        gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=source)
    return reader.finish()


class _LogReader:
    def __init__(self, source: str, gaps: GapLog, session_id: str | None, agent_id: str | None) -> None:
        self._source = source
        self._gaps = gaps
        self._session_id = session_id
        self._agent_id = agent_id
        self._threads: dict[str, Thread] = {}
        self._turns: dict[str, TurnTracker] = {}
        self._sidechains: dict[str, str] = {}
        self._descent = Descent()
        self._notified: dict[str | None, _Known] = {}

    def problem(self, problem: LineProblem, line: int) -> None:
        self._gaps.add(
            AttemptErrorCode.NATIVE_LINE_UNREADABLE, f"a line {problem.value}", source=self._source, line=line
        )

    def finish(self) -> dict[str, Thread]:
        for key, tracker in self._turns.items():
            self._thread(key).turn_ends = tracker.finish()
        return self._threads

    def record(self, record: Mapping[str, Any], place: Place) -> None:
        kind = as_text(record.get("type"))
        key = self._owner(record, place)
        if key is None:
            return
        is_first = key not in self._threads
        self._note_thread(key, record, place)
        if kind == "progress":
            self._progress(record, place)
        elif kind == "assistant":
            self._assistant(key, record, as_mapping(record.get("message")), place)
        elif kind == "user":
            self._user(key, record, as_mapping(record.get("message")), place)
        elif kind == "queue-operation":
            self._queued(record, place)
        elif kind == "fork-context-ref":
            self._reference(is_first, place)
        elif kind is None:
            self._unknown("a record names no type", place)
        elif kind == "attachment":
            self._attachment(record, place)
        elif _holds_output(record):
            self._unknown("a record of an unknown type holds an assistant message", place)
        if kind != "assistant":
            self._follow(key, record, place)

    def _owner(self, record: Mapping[str, Any], place: Place) -> str | None:
        """The key of the thread a record belongs to; `None` (with a gap) where the log contradicts itself."""
        agent_id = as_id(record.get("agentId"))
        if self._agent_id is not None:
            if agent_id in (None, self._agent_id):
                return OWN
            self._unknown("a record names another agent than its file", place)
            return None
        if agent_id is not None and record.get("type") in ("assistant", "user"):
            return agent_key(agent_id)
        if record.get("isSidechain") is True:
            return self._sidechain(record, place)
        return OWN

    def _reference(self, is_first: bool, place: Place) -> None:
        """The harness begins the log of a forked agent with it and writes it nowhere else."""
        if self._agent_id is not None and is_first:
            self._thread(OWN).begins_with_reference = True
        else:
            self._unknown("a fork's reference to its context does not stand at the beginning of an agent's log", place)

    def _sidechain(self, record: Mapping[str, Any], place: Place) -> str | None:
        uuid, parent = as_id(record.get("uuid")), as_id(record.get("parentUuid"))
        if parent is not None:
            root = self._sidechains.get(parent)
        else:
            root = uuid if record.get("parentUuid") is None else None
        if uuid is None or root is None:
            reason = "a sidechain record is not tied to the beginning of its chain"
            self._gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=self._source, line=place.line)
            return None
        self._sidechains[uuid] = root
        return sidechain_key(root)

    def _note_thread(self, key: str, record: Mapping[str, Any], place: Place) -> None:
        thread = self._thread(key)
        thread.first_place = thread.first_place or place
        if thread.id_place is None and self._spells_id(key, record):
            thread.id_place = place
        version = as_word(record.get("version"))
        if version is not None:
            thread.versions[version] += 1

    def _spells_id(self, key: str, record: Mapping[str, Any]) -> bool:
        if key != OWN:
            return True
        if self._agent_id is not None:
            return record.get("agentId") == self._agent_id
        return record.get("sessionId") == self._session_id

    def _progress(self, record: Mapping[str, Any], place: Place) -> None:
        """A child's message in the root's file: the child's by `data.agentId`, never the root's."""
        data = as_mapping(record.get("data"))
        if data.get("type") != "agent_progress":
            return
        agent_id = as_id(data.get("agentId"))
        if agent_id is None:
            self._unknown("a progress record of an agent names no agent", place)
            return
        key, tool_id = agent_key(agent_id), as_id(record.get("parentToolUseID"))
        thread = self._thread(key)
        thread.first_place = thread.first_place or place
        thread.id_place = thread.id_place or place
        if tool_id is not None:
            self._thread(OWN).links.append(AgentLink(agent_id, tool_id, place))
        inner = as_mapping(data.get("message"))
        message = as_mapping(inner.get("message")) or inner
        kind = inner.get("type") if inner.get("type") in ("assistant", "user") else message.get("role")
        if kind == "assistant":
            self._assistant(key, inner, message, place)
        elif kind == "user":
            self._user(key, inner, message, place)

    def _assistant(self, key: str, record: Mapping[str, Any], message: Mapping[str, Any], place: Place) -> None:
        uuid, parent = as_id(record.get("uuid")), as_id(record.get("parentUuid"))
        if not message:
            self._unknown("an assistant record has no message", place)
        else:
            self._turn(key).assistant(record, message, place)
        synthetic = record.get("isApiErrorMessage") is True or message.get("model") == record_shapes.SYNTHETIC_MODEL
        if synthetic or not message:
            self._descent.record(uuid, parent)
            return
        self._check_content(message, place)
        thread = self._thread(key)
        for use in record_shapes.tool_uses(message, uuid=uuid, place=place):
            thread.add_tool_use(use)
        self._output(thread, record, message, place)

    def _output(self, thread: Thread, record: Mapping[str, Any], message: Mapping[str, Any], place: Place) -> None:
        uuid, parent = as_id(record.get("uuid")), as_id(record.get("parentUuid"))
        made_by = as_id(record.get("requestId")) or as_id(record.get("requestRef"))
        identifier = as_id(message.get("id"))
        if identifier is None:
            # Some providers send no id. Without one an output is compared with nothing, so it is only counted.
            thread.nameless_outputs.setdefault(made_by or "", place)
            self._unknown("an assistant record has no message id that could be compared with calls", place)
            self._descent.record(uuid, parent)
            return
        if not thread.add_output(identifier, Output(place, uuid, made_by)):
            reason = "one message id stands for outputs of different requests"
            self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=self._source, line=place.line)
        self._descent.output(uuid, parent, identifier, thread.outputs[identifier], place)

    def _user(self, key: str, record: Mapping[str, Any], message: Mapping[str, Any], place: Place) -> None:
        self._check_content(message, place)
        thread = self._thread(key)
        for result in record_shapes.tool_results(record, message, place):
            if not thread.add_result(result):
                reason = "one tool id has two different results"
                self._gaps.add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, source=self._source, line=place.line)
        self._turn(key).user(record, message, place)

    def _attachment(self, record: Mapping[str, Any], place: Place) -> None:
        if as_text(as_mapping(record.get("attachment")).get("type")) is None:
            self._unknown("an attachment names no type", place)

    def _queued(self, record: Mapping[str, Any], place: Place) -> None:
        thread, operation = self._thread(OWN), record.get("operation")
        if operation in ("dequeue", "remove"):
            thread.queue_length -= 1
        elif operation == "enqueue":
            thread.queue_length += 1
            text = as_text(record.get("content"))
            found = record_shapes.notification(text or "", place=place, uuid=None, delivered=False)
            if found is not None:
                thread.notifications.append(found)

    def _follow(self, key: str, record: Mapping[str, Any], place: Place) -> None:
        """Notes a notification that was put into the conversation, and follows the branch it stands on."""
        uuid, parent = as_id(record.get("uuid")), record_shapes.parent_uuid(record)
        text = record_shapes.notification_text(record)
        found = None
        if text is not None:
            found = record_shapes.notification(text, place=place, uuid=uuid, delivered=True)
            if found is None:
                self._unknown("a notification has no task id", place)
        elif record_shapes.looks_like_notification(record):
            self._unknown("a text looks like a notification but the harness did not mark it so", place)
        if uuid in self._notified:
            self._repeated(self._notified[uuid], (key, parent, found))
            return
        if found is not None:
            self._thread(key).notifications.append(found)
            if uuid is not None:
                self._notified[uuid] = (key, parent, found)
        self._descent.record(uuid, parent, found)

    def _repeated(self, known: _Known, again: tuple[str, str | None, Notification | None]) -> None:
        """A compaction may write the records that it keeps once more, under their own uuids: they count once."""
        if known[:2] != again[:2] or again[2] is None or not known[2].says_the_same(again[2]):
            known[2].contradicted = True

    def _check_content(self, message: Mapping[str, Any], place: Place) -> None:
        if record_shapes.is_damaged(message):
            self._unknown("a message has content of an unknown form", place)

    def _unknown(self, reason: str, place: Place) -> None:
        self._gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=self._source, line=place.line)

    def _thread(self, key: str) -> Thread:
        thread = self._threads.get(key)
        if thread is None:  # every record asks, and a thread is a dozen collections
            thread = self._threads[key] = Thread()
        return thread

    def _turn(self, key: str) -> TurnTracker:
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = TurnTracker()
        return turn


def _holds_output(record: Mapping[str, Any]) -> bool:
    """Whether a record of an unknown type is part of the conversation (`api-request-blob` is not) and the model's."""
    return as_id(record.get("uuid")) is not None and as_mapping(record.get("message")).get("role") == "assistant"
