"""Reads the records of one session log, in file order (docs/harnesses/deepseek.md, "What is read").

A log's records have `type`, `seq` and `data`; the first one is the header. A forked child's log begins with a copy of
its parent's records, up to `session/end-seed`; only what follows is its own. A session that was resumed has the same
mark, and there the records before it are its own too: the header's `isSeeded` tells them apart.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final

from roller_capture import json_text
from roller_capture.adapters.deepseek.facts import (
    Catalog,
    Notice,
    Output,
    Place,
    Session,
    SideOutput,
    ToolCall,
    ToolResult,
    Turn,
    WorkflowAgent,
    WorkflowRun,
)
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_jsonl import NativeLine, read_lines
from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word
from roller_capture.vocabulary import AttemptErrorCode

FORMAT_VERSION: Final = 4
_MOST_ARGUMENTS: Final = 1 << 20
_SENTENCE: Final = re.compile(
    r"(started subagent|message delivered to agent|interrupt requested for agent) (\S{1,512})"
)
_NOTICE: Final = re.compile(
    r"Background subagent (\S{1,512}) (finished|failed|was stopped)"
    r"(?: before it finished\.| and will do no further work)"
)
_MOST_EVENTS: Final = 1 << 53
_WORDS: Final = {"finished": "finished", "failed": "failed", "was stopped": "stopped"}

_Record = Mapping[str, Any]


class SessionReader:
    """Fed with the lines of one log; `session` is `None` until a header was read."""

    def __init__(self, session_id: str, path: PurePosixPath, source: str, gaps: GapLog) -> None:
        self.session: Session | None = None
        self._session_id = session_id
        self._path = path
        self._source = source
        self._gaps = gaps
        self._in_copy = False
        self._accepted = -1
        self._unended: set[int] = set()
        self._ended = -1
        self._title_seq: int | None = None
        self._title_accepted = False
        self._unanswered: list[str] = []
        self._output_ids: dict[str, str | None] = {}
        self._resumption: int | None = None
        self._handlers: Mapping[str, Callable[[Session, _Record, Place], None]] = {
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "system/message": self._system_message,
            "user/message": self._user_message,
            "agent/inbox/spliced": self._inbox,
            "request/header": self._request_header,
            "assistant/message": self._assistant_message,
            "assistant/attempt": self._attempt,
            "tool/call": self._tool_call,
            "tool/result": self._tool_result,
            "subagent/catalog": self._catalog,
            "tool-workflow/run-start": self._run_start,
            "tool-workflow/agent-start": self._agent_start,
            "tool-workflow/agent-end": self._agent_end,
            "session/title-llm-request": self._title_request,
            "session/title": self._title,
            "compaction/start": self._compaction,
            "compaction/summary": self._summary,
            "compaction/end": self._attempt,
            "session-log-deepseek/delivery-accepted": self._accept,
        }

    def read(self, stream: BinaryIO) -> None:
        """Reads the whole log. Lines that cannot be read are gaps. Raises `OSError`."""
        for line in read_lines(stream):
            if line.problem is not None:
                code = AttemptErrorCode.NATIVE_LINE_UNREADABLE
                self._gaps.add(code, f"a line {line.problem.value}", source=self._source, line=line.number)
            elif self.session is None:
                self._header(line)
            else:
                self._record(self.session, line)
        if self.session is None:
            self._gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, "holds no session", source=self._source)
        elif self._in_copy:
            self._odd("a forked session's log does not say where its copy of the parent's ends", 1)

    def _odd(self, reason: str, line: int) -> None:
        self._gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=self._source, line=line)

    def _header(self, line: NativeLine) -> None:
        record = line.record
        if record.get("type") != "session" or as_id(record.get("id")) != self._session_id:
            self._odd("does not begin with the header of the session that its folder names", line.number)
            return
        if record.get("version") != FORMAT_VERSION:
            reason = f"has another format than {FORMAT_VERSION}"
            code = AttemptErrorCode.NATIVE_VERSION_UNTESTED
            self._gaps.add(code, reason, source=self._source, line=line.number)
        # Older formats give a length instead; without the mark, what is a copy cannot be told, and nothing is claimed.
        self._in_copy = record.get("isSeeded") is True or record.get("seedLength") not in (None, 0)
        self.session = Session(
            session_id=self._session_id,
            path=self._path,
            header=Place(self._source, line.number),
            parent_id=as_id(record.get("parentSession")),
            is_seeded=self._in_copy,
        )

    def _record(self, session: Session, line: NativeLine) -> None:
        kind = as_text(line.record.get("type"))
        if kind is None:
            self._odd("a record names no type", line.number)
        if kind == "session/end-seed":
            self._in_copy = False
            self._forget_requests()  # those of a process that was ended in the middle
            return
        handler = self._handlers.get(kind or "")
        if handler is None or self._in_copy:
            return
        seq = _event_number(line.record.get("seq"))
        if seq is None:
            self._odd("a record has no number", line.number)
            return
        handler(session, as_mapping(line.record.get("data")), Place(self._source, line.number, seq))

    def _accept(self, session: Session, data: _Record, place: Place) -> None:  # noqa: ARG002
        """The provider has taken a request, and with it all events up to a number. A fork's copy names the parent."""
        through = _event_number(data.get("throughSeq"))
        if as_id(data.get("sessionId")) == session.session_id and through is not None:
            self._accepted = max(self._accepted, through)
            if through > self._ended:  # else the acceptance of a title, or one that is told twice
                self._unended.add(through)
            self._title_accepted |= through == self._title_seq

    def _ended_request(self) -> int | None:
        """Which request this outcome ends, by the last event that it brought along: the only one that was accepted
        since the outcome before, but for that of a title, which runs beside an agent's."""
        requests = self._unended - {self._title_seq} or set(self._unended)
        self._forget_requests()
        return requests.pop() if len(requests) == 1 else None

    def _forget_requests(self) -> None:
        """None that was accepted so far can still have an output."""
        self._ended = max(self._ended, *self._unended, -1)
        self._unended.clear()

    def _attempt(self, session: Session, data: _Record, place: Place) -> None:  # noqa: ARG002
        """A call has ended without an output."""
        self._forget_requests()

    def _turn_start(self, session: Session, data: _Record, place: Place) -> None:  # noqa: ARG002
        self._forget_requests()
        session.turns.append(Turn(place, is_resumption=self._resumption is not None))
        self._resumption = None

    def _turn_end(self, session: Session, data: _Record, place: Place) -> None:
        self._forget_requests()
        reason = as_mapping(data.get("reason"))
        if not session.turns or session.turns[-1].end is not None:
            self._odd("a turn ends that did not begin", place.line)
            return
        turn = session.turns[-1]
        turn.end = place
        turn.reason = as_word(reason.get("kind"))
        turn.detail = as_word(as_mapping(reason.get("error")).get("code"))
        if turn.reason is None:
            self._odd("a turn ends without a reason", place.line)

    def _system_message(self, session: Session, data: _Record, place: Place) -> None:
        texts = _texts(as_mapping(data.get("message")))
        if len(texts) == 1:
            session.system_texts.setdefault(texts[0], place)

    def _title_request(self, session: Session, data: _Record, place: Place) -> None:
        self._title_seq, self._title_accepted = place.seq, False
        system = as_text(data.get("system"))
        if system:
            session.title_systems.setdefault(system, place)

    def _title(self, session: Session, data: _Record, place: Place) -> None:
        source = as_word(as_mapping(data.get("source")).get("kind"))
        if source == "provider":
            request = self._title_seq if self._title_accepted else None
            session.side_outputs.append(SideOutput(place, request))
        elif source is None:
            self._odd("a title does not say who gave it", place.line)

    def _compaction(self, session: Session, data: _Record, place: Place) -> None:  # noqa: ARG002
        self._forget_requests()
        session.compactions.append(place)

    def _summary(self, session: Session, data: _Record, place: Place) -> None:  # noqa: ARG002
        session.side_outputs.append(SideOutput(place, self._ended_request()))

    def _request_header(self, session: Session, data: _Record, place: Place) -> None:  # noqa: ARG002
        tools = as_list(as_mapping(data.get("header")).get("tools"))
        names = {name for tool in tools if (name := as_id(as_mapping(tool).get("name"))) is not None}
        session.tools = names | (session.tools or set())

    def _assistant_message(self, session: Session, data: _Record, place: Place) -> None:
        request = self._ended_request()
        if data.get("interrupted") is True:
            return  # a call that was aborted in the middle, with the text that had come
        message = as_mapping(data.get("message"))
        replayed = as_mapping(as_mapping(as_mapping(message.get("source")).get("replayState")).get("response"))
        output = Output(place, as_id(message.get("id")), as_id(replayed.get("responseId")), request)
        session.outputs.append(output)
        for identifier in self._unanswered:
            if identifier in session.notices:
                answered = replace(session.notices[identifier], answered_by=output.response_id)
                session.notices[identifier] = answered
        self._unanswered.clear()
        for block in map(as_mapping, as_list(message.get("content"))):
            tool_id = as_id(block.get("id"))
            if block.get("type") == "tool-call" and tool_id is not None:
                self._output_ids[tool_id] = output.response_id

    def _inbox(self, session: Session, data: _Record, place: Place) -> None:
        for message in map(as_mapping, as_list(data.get("inserted"))):
            identifier = as_id(message.get("id"))
            if identifier is None:
                continue
            source = as_mapping(message.get("source"))
            idle = not session.turns or session.turns[-1].end is not None
            by_parent = as_id(source.get("senderSessionId")) == session.parent_id and session.parent_id is not None
            if source.get("kind") == "agent-message" and by_parent and idle and session.turns:
                self._resumption = place.seq
            elif source.get("kind") == "subagent-settled":
                self._notice(session, message, place)

    def _user_message(self, session: Session, data: _Record, place: Place) -> None:
        if as_mapping(data.get("source")).get("kind") != "subagent-settled":
            return
        self._notice(session, data, place)
        identifier = as_id(data.get("id"))
        if identifier is not None and identifier in session.notices:
            known = session.notices[identifier]
            session.notices[identifier] = replace(known, read=place, accepted_before=self._accepted)
            self._unanswered.append(identifier)

    def _notice(self, session: Session, message: _Record, place: Place) -> None:
        source = as_mapping(message.get("source"))
        identifier, sender = as_id(message.get("id")), as_id(source.get("senderSessionId"))
        if identifier is None or sender is None:
            self._odd("a notice has no id or names no sender", place.line)
            return
        if identifier in session.notices:
            if session.notices[identifier].sender_id != sender:
                self._odd("a notice comes in from one agent and is read as from another", place.line)
                del session.notices[identifier]
            return
        match = _NOTICE.match(as_text(source.get("summary")) or "")
        word = _WORDS[match[2]] if match is not None and match[1] == sender else None
        if word is None:
            self._odd("a notice does not say how its agent ended", place.line)
        session.notices[identifier] = Notice(sender, identifier, word, tuple(_texts(message)), place)

    def _tool_call(self, session: Session, data: _Record, place: Place) -> None:
        tool_id, name = as_id(data.get("callId")), as_id(data.get("name"))
        if tool_id is None or name is None:
            self._odd("a tool call has no id or no name", place.line)
        elif tool_id in session.calls:
            session.repeated_tool_ids.add(tool_id)
        else:
            addressed = _addressed(data.get("arguments"))
            session.calls[tool_id] = ToolCall(tool_id, name, place, addressed, self._output_ids.get(tool_id))

    def _tool_result(self, session: Session, data: _Record, place: Place) -> None:
        message = as_mapping(data.get("message"))
        tool_id = as_id(message.get("toolCallId"))
        if tool_id is None:
            self._odd("a tool result has no id", place.line)
            return
        if tool_id in session.results:
            session.repeated_tool_ids.add(tool_id)
            return
        if not isinstance(message.get("isError"), bool):
            self._odd("a tool result does not say whether it is an error", place.line)
        texts = _texts(message)
        match = _SENTENCE.fullmatch(texts[0]) if len(texts) == 1 else None
        word, agent_id = (match[1], match[2]) if match is not None else (None, None)
        session.results[tool_id] = ToolResult(place, message.get("isError") is not False, word, agent_id)

    def _catalog(self, session: Session, data: _Record, place: Place) -> None:
        child = as_id(data.get("childId"))
        if child is None:
            self._odd("the record of a child names none", place.line)
        else:
            session.catalogs.setdefault(child, Catalog(child, place))

    def _run_start(self, session: Session, data: _Record, place: Place) -> None:
        run_id = as_id(data.get("runId"))
        if run_id is None or run_id in session.runs:
            self._odd("a workflow run has no id of its own", place.line)
        else:
            session.runs[run_id] = WorkflowRun(run_id, place)

    def _agent_start(self, session: Session, data: _Record, place: Place) -> None:
        run, index, child = self._workflow_agent(session, data)
        if run is None or index is None or child is None or index in run.agents:
            self._odd("a workflow agent begins of which run, number or id are not known", place.line)
        else:
            run.agents[index] = WorkflowAgent(child, index, place)

    def _agent_end(self, session: Session, data: _Record, place: Place) -> None:
        run, index, _ = self._workflow_agent(session, data)
        agent = run.agents.get(index) if run is not None and index is not None else None
        if agent is None or agent.end is not None:
            self._odd("a workflow agent ends that did not begin", place.line)
        else:
            agent.end, agent.outcome = place, as_word(data.get("outcome"))
            if agent.outcome is None:
                self._odd("a workflow agent ends without an outcome", place.line)

    @staticmethod
    def _workflow_agent(session: Session, data: _Record) -> tuple[WorkflowRun | None, int | None, str | None]:
        index = data.get("seq")
        number = index if isinstance(index, int) and not isinstance(index, bool) and 0 < index < 1 << 31 else None
        return session.runs.get(as_id(data.get("runId")) or ""), number, as_id(data.get("childId"))


def _event_number(value: Any) -> int | None:
    """The harness's own number of an event, or `None` where it cannot be one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_EVENTS else None


def _texts(message: _Record) -> list[str]:
    return list(_text_blocks(as_list(message.get("content"))))


def _text_blocks(blocks: list[Any]) -> Iterator[str]:
    for block in map(as_mapping, blocks):
        text = as_text(block.get("text"))
        if block.get("type") == "text" and text is not None:
            yield text


def _addressed(arguments: object) -> str | None:
    """The agent that a tool call's arguments, a JSON text, address."""
    if not isinstance(arguments, str) or len(arguments) > _MOST_ARGUMENTS:
        return None
    try:
        value = json_text.parse(arguments.encode("utf-8", "surrogatepass"))
    except json_text.JsonError:
        return None
    return as_id(as_mapping(value).get("agent_id"))
