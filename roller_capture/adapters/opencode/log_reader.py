"""Reads extracts of OpenCode's database, and exported sessions, into a `Log`. Whatever is odd is a gap.

An extract holds one row a line (`store`): `session` rows first, then `message` and `part` rows whose `data` is JSON
text. An export (`opencode export ID`) is one JSON document `{"info": session, "messages": [{"info", "parts"}]}`; it may
be wrapped, pretty-printed and renamed, and a message of 2.x stands there without `info` around it.
"""

from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from roller_capture import json_text
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word
from roller_capture.adapters.opencode.facts import Log, Message, Session
from roller_capture.adapters.opencode.places import Place
from roller_capture.adapters.opencode.record_shapes import (
    DELEGATION_TOOLS,
    names_child,
    notice_of_message,
    notice_of_text,
    tool_call_of,
    uses_tokens,
)
from roller_capture.vocabulary import AttemptErrorCode

_OTHER_PARTS: Final = frozenset(("file", "snapshot", "patch", "agent", "retry", "compaction"))


class LogReader:
    """Collects what several files hold. Call `log` when all are read."""

    def __init__(self, gaps: GapLog) -> None:
        self._gaps = gaps
        self._sessions: dict[str, Session] = {}
        self._messages: dict[str, Message] = {}
        self._repeated: set[str] = set()
        self._was_read = False

    def log(self) -> Log:
        """Everything, without the ids that stand for two things."""
        for message in self._messages.values():
            session = self._sessions.get(message.session_id)
            if session is not None:
                session.messages.append(message)
            else:
                self._odd("a message belongs to no session that is there", message.place)
        kept = {key: session for key, session in self._sessions.items() if key not in self._repeated}
        messages = {
            key: message
            for key, message in self._messages.items()
            if key not in self._repeated and message.session_id in kept
        }
        return Log(kept, messages, self._was_read)

    def read_extract(self, stream: BinaryIO, source: str) -> None:
        """Reads the lines of an extract. Raises `OSError` when the file cannot be read on."""
        self._was_read = True
        for line in read_lines(stream):
            place = Place(source, f"line:{line.number}")
            if line.problem is not None:
                reason = f"a line {line.problem.value}"
                self._gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=source, line=line.number)
                continue
            table = line.record.get("table")
            if table == "session":
                self._session(line.record, place)
            elif table in ("message", "part"):
                self._row(str(table), line.record, place)
            else:
                self._odd("a line names no table of ours", place)

    def read_export(self, document: Mapping[str, Any], source: str) -> None:
        """Reads one exported session."""
        self._was_read = True
        info = as_mapping(document.get("info"))
        session_id = as_id(info.get("id"))
        self._session(info, Place(source, "json:/info"))
        for index, item in enumerate(as_list(document.get("messages"))):
            record = as_mapping(item)
            inner = as_mapping(record.get("info"))
            base = json_text.pointer("messages", index)
            place = Place(source, f"json:{base}/info" if inner else f"json:{base}")
            message = self._message({"session_id": session_id, **(inner or record)}, inner or record, place)
            parts = "parts" if isinstance(record.get("parts"), list) else "content"
            for number, part in enumerate(as_list(record.get(parts))):
                if message is not None:
                    self._part(message, as_mapping(part), Place(source, f"json:{base}/{parts}/{number}"))

    def _row(self, table: str, row: Mapping[str, Any], place: Place) -> None:
        data = self._data(row, place)
        if data is None:
            return
        if table == "message":
            self._message(row, data, place)
            return
        message = self._messages.get(as_id(row.get("message_id")) or "")
        if message is None or row.get("session_id") != message.session_id:
            self._odd("a part belongs to no message that is there", place)
        else:
            self._part(message, data, place)

    def _data(self, row: Mapping[str, Any], place: Place) -> Mapping[str, Any] | None:
        text = as_text(row.get("data"))
        try:
            value = json_text.parse(text.encode("utf-8", "surrogatepass")) if text is not None else None
        except json_text.JsonError:
            value = None
        if isinstance(value, dict):
            return value
        self._odd("the data of a row is no JSON object", place)
        return None

    def _session(self, row: Mapping[str, Any], place: Place) -> None:
        identifier = as_id(row.get("id"))
        if identifier is None:
            self._odd("a session has no usable id", place)
            return
        parent = row.get("parent_id", row.get("parentID"))
        if parent is not None and as_id(parent) is None:
            self._odd("the parent of a session is no usable id", place)
        version = (as_word(row.get("version")) or "").removeprefix("v") or None
        session = Session(identifier, place, as_id(parent), version)
        if self._sessions.setdefault(identifier, session) is not session:
            self._not_unique("session", identifier, place)

    def _message(self, ids: Mapping[str, Any], data: Mapping[str, Any], place: Place) -> Message | None:
        identifier = as_id(ids.get("id"))
        named = {as_id(ids.get(name)) for name in ("session_id", "sessionID")} - {None}
        session_id = named.pop() if len(named) == 1 else None
        if identifier is None or session_id is None:
            reason = "a message names another session than its export" if named else "a message has no usable ids"
            self._odd(reason, place)
            return None
        error = data.get("error")
        message = Message(
            identifier,
            session_id,
            as_word(data.get("role")) or as_word(data.get("type")),
            place,
            parent_id=as_id(data.get("parentID")),
            mode=as_word(data.get("mode")),
            is_summary=data.get("summary") is True,
            ended=isinstance(as_mapping(data.get("time")).get("completed"), int | float),
            finish=as_word(data.get("finish")),
            error=None if error is None else as_word(as_mapping(error).get("name")) or "error",
            used_tokens=uses_tokens(data),
        )
        if self._messages.setdefault(identifier, message) is not message:
            self._not_unique("message", identifier, place)
            return None
        notice = notice_of_message(data, place)
        if notice is not None:
            message.notices.append(notice)
        return message

    def _part(self, message: Message, data: Mapping[str, Any], place: Place) -> None:
        kind = as_text(data.get("type"))
        if kind == "step-start":
            message.begun_steps += 1
        elif kind == "step-finish":
            message.finished_steps += 1
        elif kind == "tool":
            call = tool_call_of(data, place)
            if call is None:
                self._odd("a tool part has no usable id or name", place)
            else:
                message.tools.append(call)
                if call.name not in DELEGATION_TOOLS and names_child(data):
                    self._odd("a record of a tool that cannot delegate names a child", place)
        elif kind == "subtask":
            message.is_command = True
        elif kind == "reasoning":
            message.has_words = True
        elif kind == "text":
            message.has_words = True
            if as_text(data.get("text")) is None:
                self._odd("a text part has no text", place)
            notice = notice_of_text(data, place)
            if notice is not None and message.role == "user":
                message.notices.append(notice)
        elif kind not in _OTHER_PARTS:
            self._odd("a part has an unknown type", place)

    def _not_unique(self, what: str, identifier: str, place: Place) -> None:
        self._repeated.add(identifier)
        place.note(self._gaps, AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, f"a {what} id stands for two {what}s")

    def _odd(self, reason: str, place: Place) -> None:
        place.note(self._gaps, AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason)
