"""Reads one rollout into the facts of the thread whose file it is.

A fork's file begins with a copy of its parent's records. Where the copy ends is told by structure alone: the ordinal
that the first line names; else the first settings of the thread itself; else, in versions that write neither, the
first turn that the parent's file does not know.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from roller_capture.adapters.codex import record_shapes
from roller_capture.adapters.codex.facts import EndState, Message, Place, Rollout, SessionMeta, Turn, Usage, digest
from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import read_lines
from roller_capture.adapters.native_values import as_id, as_mapping, as_text, as_word
from roller_capture.vocabulary import AttemptErrorCode

_KNOWN_TYPES = frozenset(
    {
        "session_meta",
        "turn_context",
        "response_item",
        "event_msg",
        "token_usage_record",
        "compacted",
        "world_state",
        "inter_agent_communication_metadata",
        "ghost_snapshot",
    }
)


_READ_TYPES = frozenset({"session_meta", "response_item", "event_msg", "token_usage_record", "compacted"})
"""Those whose payload is looked into."""


def read_rollout(
    tree: NativeTree, path: PurePosixPath, files: Mapping[str | None, PurePosixPath], gaps: GapLog
) -> Rollout | None:
    """The facts of one file; `None`, with a gap, when its first line names no thread.

    `files` are the rollouts by thread: that of the thread it was forked from may be looked at. Never raises on content.
    """
    meta = _first_line(tree, path, gaps)
    if meta is None:
        return None
    parent = files.get(meta.forked_from_id or meta.parent_id)
    own_start = _own_start(tree, path, parent, meta)
    reader = _Reader(Rollout(meta, str(path)), gaps, own_start)
    with tree.open(path) as stream:
        if stream is None:
            return None
        try:
            reader.read(stream)
        except OSError as error:
            reason = f"cannot be read on: {error.strerror}"
            gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=str(path))
    return reader.finish()


def _first_line(tree: NativeTree, path: PurePosixPath, gaps: GapLog) -> SessionMeta | None:
    with tree.open(path) as stream:
        if stream is None:
            return None
        try:
            line = next(read_lines(stream), None)
        except OSError as error:
            gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, f"cannot be read: {error.strerror}", source=str(path))
            return None
    meta = record_shapes.session_meta(line.record) if line is not None else None
    if meta is None:
        gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "the first line names no thread", source=str(path), line=1)
    return meta


def _own_start(tree: NativeTree, path: PurePosixPath, parent: PurePosixPath | None, meta: SessionMeta) -> int | None:
    """The first line after the first that is the thread's own; `None` where nothing tells it."""
    known = frozenset[str]()
    with tree.open(path) as stream:
        if stream is None:
            return None
        try:
            lines = read_lines(stream)
            next(lines, None)
            second = next(lines, None)
            if second is None:
                return 2
            copied = record_shapes.session_meta(second.record)
            is_fork = meta.history_start is not None or (copied is not None and copied.thread_id != meta.thread_id)
            if not is_fork:
                return 2
            if meta.history_start is None:
                known = _turn_ids(tree, parent)
            new_turn: int | None = None
            for line in (second, *lines):
                ordinal = line.record.get("ordinal")
                if meta.history_start is not None and type(ordinal) is int and ordinal == meta.history_start:
                    return line.number
                if record_shapes.settings_of(line.record) == meta.thread_id:
                    return line.number
                ids = set(record_shapes.turn_ids(line.record))
                if known and new_turn is None and ids and not ids & known:
                    new_turn = line.number
        except OSError:
            return None
    return new_turn


def _turn_ids(tree: NativeTree, path: PurePosixPath | None) -> frozenset[str]:
    """All turns that a file knows, its own and those that it copied itself."""
    if path is None:
        return frozenset()
    with tree.open(path, as_evidence=False) as stream:
        if stream is None:
            return frozenset()
        try:
            return frozenset(one for line in read_lines(stream) for one in record_shapes.turn_ids(line.record))
        except OSError:
            return frozenset()


class _Reader:
    """Fed with the lines of one file in order."""

    def __init__(self, rollout: Rollout, gaps: GapLog, own_start: int | None) -> None:
        self._rollout = rollout
        self._gaps = gaps
        self._own_start = own_start
        self._turns: dict[str, Turn] = {}
        self._responses: set[str] = set()
        self._unanswered: list[Message] = []
        self._token_total: str | None = None
        rollout.is_unknown_fork = own_start is None

    def read(self, stream: BinaryIO) -> None:
        for line in read_lines(stream):
            place = Place(self._rollout.source, line.number)
            if line.problem is not None:
                self._add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, f"a line {line.problem.value}", place)
            elif line.number == 1 or (self._own_start is not None and line.number >= self._own_start):
                self._record(line.record, place)

    def finish(self) -> Rollout:
        if self._rollout.is_unknown_fork:
            reason = "the rollout of a fork does not tell where the copy of its parent ends"
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, Place(self._rollout.source, 1))
        return self._rollout

    def _record(self, record: Mapping[str, Any], place: Place) -> None:
        kind, payload = as_text(record.get("type")), as_mapping(record.get("payload"))
        if kind in _READ_TYPES and not payload:
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a record has no payload", place)
        elif kind == "session_meta":
            self._session_meta(record, place)
        elif kind == "response_item":
            self._item(payload, place)
        elif kind == "event_msg":
            self._event(payload, place)
        elif kind == "token_usage_record":
            self._usage(payload, place)
        elif kind == "compacted":
            response_id = as_id(payload.get("compaction_response_id"))
            if response_id is not None:
                self._rollout.compactions[response_id] = place
        elif kind not in _KNOWN_TYPES:
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a record has an unknown type", place)

    def _session_meta(self, record: Mapping[str, Any], place: Place) -> None:
        meta = record_shapes.session_meta(record)
        if meta is None or meta.thread_id != self._rollout.thread_id:
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a rollout names a second thread as its own", place)
        elif meta.version is not None:
            self._rollout.versions[meta.version] += 1

    def _item(self, item: Mapping[str, Any], place: Place) -> None:
        kind = item.get("type")
        if record_shapes.is_damaged(item):
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "an item has an unknown form", place)
        if kind == "function_call":
            call = record_shapes.tool_call(item, place)
            if call is not None:
                known = self._rollout.tool_calls.setdefault(call.call_id, call)
                if known is not call:
                    self._not_unique(call.call_id, place)
        elif kind == "function_call_output":
            output = record_shapes.tool_output(item, place)
            if output is not None and self._rollout.outputs.setdefault(output.call_id, output) is not output:
                self._not_unique(output.call_id, place)
        elif kind == "message":
            self._message(item, place)
        elif kind == "agent_message":
            found = record_shapes.final_answer(item, place)
            # What the thread itself sent stands in the receiver's rollout.
            if found is not None and found[1] == self._rollout.path:
                self._received(found[0])
            self._task(item)

    def _message(self, item: Mapping[str, Any], place: Place) -> None:
        is_marked = record_shapes.is_marked_notification(item)
        if not is_marked and not record_shapes.looks_like_notification(item):
            return
        message = record_shapes.notification(item, place)
        if message is None:
            reason = (
                "a notification does not say of whom or what it tells"
                if is_marked
                else "a text looks like a notification but the harness did not mark it so"
            )
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, place)
        else:
            self._received(message)

    def _task(self, item: Mapping[str, Any]) -> None:
        task = record_shapes.new_task(item)
        if task is not None and item.get("recipient") == self._rollout.path:
            self._rollout.tasks.setdefault(task[0], []).append(task[1])

    def _received(self, message: Message) -> None:
        self._rollout.messages.append(message)
        self._unanswered.append(message)

    def _event(self, event: Mapping[str, Any], place: Place) -> None:
        kind = as_text(event.get("type"))
        if kind is None:
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "an event names no type", place)
        elif kind == "item_completed":
            self._completed(event, place)
        elif kind == "task_started":
            self._turn(event, place)
        elif kind == "task_complete":
            self._end(event, place)
        elif kind == "turn_aborted":
            turn = self._ended_turn(event, place)
            turn.state, turn.place, turn.word = EndState.ABORTED, place, as_word(event.get("reason"))
        elif kind == "token_count":
            total = record_shapes.token_total(event)
            if total is not None and total != self._token_total:
                self._token_total = total
                self._rollout.token_counts.append(place)

    def _completed(self, event: Mapping[str, Any], place: Place) -> None:
        """The harness's own record of a finished item, unless it is told of another thread."""
        if as_id(event.get("thread_id")) != self._rollout.thread_id:
            return
        item = as_mapping(event.get("item"))
        call, activity = record_shapes.collab_call(item, place), record_shapes.activity(item, place)
        if call is not None and self._rollout.collab_calls.setdefault(call.call_id, call) is not call:
            self._not_unique(call.call_id, place)
        if activity is not None:
            self._rollout.activities.append(activity)

    def _turn(self, event: Mapping[str, Any], place: Place) -> Turn:
        turn_id = as_id(event.get("turn_id"))
        known = self._turns.get(turn_id) if turn_id is not None else None
        if known is None:
            known = Turn(turn_id, place)
            self._rollout.turns.append(known)
            if turn_id is not None:
                self._turns[turn_id] = known
        return known

    def _ended_turn(self, event: Mapping[str, Any], place: Place) -> Turn:
        """The turn that an event ends. In a thread that was reviewed, the review's turn ends under an id that began
        nowhere (measured); in a child, whose turns tell how its tasks ended, each has to have begun."""
        meta = self._rollout.meta
        if meta.is_subagent and meta.side is None and as_id(event.get("turn_id")) not in self._turns:
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a turn ends that did not begin", place)
            self._rollout.has_stray_end = True
        return self._turn(event, place)

    def _end(self, event: Mapping[str, Any], place: Place) -> None:
        turn = self._ended_turn(event, place)
        error = record_shapes.error_of(event)
        turn.place = place
        if error is not None:
            turn.state, (turn.word, turn.message) = EndState.FAILED, error
        else:
            text = as_text(event.get("last_agent_message"))
            turn.state, turn.message = EndState.ENDED, None if text is None else digest(text)

    def _usage(self, payload: Mapping[str, Any], place: Place) -> None:
        if as_id(payload.get("thread_id")) != self._rollout.thread_id:
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a usage record names another thread", place)
            return
        response_id = as_id(payload.get("response_id"))
        if response_id is None:
            self._add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, "a usage record has no response id", place)
        elif response_id in self._responses:
            reason = "one response id stands for two responses of a thread"
            self._add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, reason, place)
        else:
            self._responses.add(response_id)
        self._rollout.usages.append(Usage(response_id, place))
        for message in self._unanswered:
            message.answered_by = response_id
        self._unanswered = []

    def _not_unique(self, call_id: str, place: Place) -> None:
        self._rollout.repeated_calls.add(call_id)
        self._add(AttemptErrorCode.NATIVE_ID_NOT_UNIQUE, "one tool call id stands for two records", place)

    def _add(self, code: AttemptErrorCode, reason: str, place: Place) -> None:
        self._gaps.add(code, reason, source=place.source, line=place.line)
