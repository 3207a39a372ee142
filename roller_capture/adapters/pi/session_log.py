"""Reads one session log: a tree of entries, appended line by line (Pi's own `docs/session-format.md`, version 3).

Only ids, places and a few words are kept. Any value may have any type; what does not fit is a named gap.
"""

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_files import NativeTree
from roller_capture.adapters.native_jsonl import LineProblem, NativeLine, read_lines
from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word, is_locatable
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import AttemptErrorCode, EvidenceKind, ExecutionStatus

FORMAT: Final = 3
COMPLETED_REASONS: Final = frozenset({"stop", "toolUse", "length"})
"""Stop reasons of an answer that ended by itself."""

_ENDS: Final = {
    "stop": ExecutionStatus.COMPLETED,
    "length": ExecutionStatus.COMPLETED,
    "toolUse": ExecutionStatus.INTERRUPTED,  # the tools it asked for never answered
    "aborted": ExecutionStatus.INTERRUPTED,
    "error": ExecutionStatus.FAILED,
}
_MESSAGE_ROLES: Final = frozenset({"system", "user", "assistant", "toolResult", "custom", "bashExecution"})
_SILENT_TYPES: Final = frozenset(
    (
        "model_change",
        "thinking_level_change",
        "context_edit",
        "usage",
        "custom",
        "custom_message",
        "label",
        "session_info",
        "branch_summary",
    )
)
"""Entries that prove nothing that is asked for here."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an entry stands, and the entry that it was appended to. Logs before format 2 have no ids."""

    line: int
    entry_id: str | None
    parent_id: str | None


@dataclass(frozen=True, slots=True)
class Answer(Entry):
    """An assistant's message. `response_id` is the provider's; `None` where no body came, or it had no id."""

    response_id: str | None
    stop_reason: str | None

    @property
    def completed(self) -> bool:
        """Whether it ended by itself."""
        return self.stop_reason in COMPLETED_REASONS


@dataclass(slots=True)
class SessionLog:
    """What one log tells. `tools` is `None` where the log says of no tool that it was offered."""

    session_id: str
    source: str
    answers: list[Answer] = field(default_factory=list)
    compactions: list[Entry] = field(default_factory=list)
    tools: set[str] | None = None
    execution_status: ExecutionStatus = ExecutionStatus.UNKNOWN

    def header_evidence(self, kind: EvidenceKind) -> Evidence:
        """The log's first line, which names the session."""
        return Evidence(kind, self.source, _locator(1, "session", self.session_id))

    def evidence(self, entry: Entry, kind: EvidenceKind) -> Evidence:
        """An entry; an answer by the provider's id where it has one."""
        response_id = entry.response_id if isinstance(entry, Answer) else None
        if response_id is not None and is_locatable(response_id):
            return Evidence(kind, self.source, _locator(entry.line, "response", response_id))
        return Evidence(kind, self.source, _locator(entry.line, "entry", entry.entry_id))


def read_log(tree: NativeTree, path: PurePosixPath, session_id: str, gaps: GapLog) -> SessionLog:
    """Reads the log of `session_id`, whose header has been looked at. What cannot be read is a gap, no more."""
    reader = _Reader(SessionLog(session_id, str(path)), gaps)
    with tree.open(path) as stream:
        if stream is not None:
            try:
                for line in read_lines(stream):
                    if not reader.take(line):
                        break
            except OSError as error:
                reason = f"cannot be read on: {error.strerror}"
                gaps.add(AttemptErrorCode.NATIVE_LOG_UNREADABLE, reason, source=str(path))
    return reader.log


class _Reader:
    def __init__(self, log: SessionLog, gaps: GapLog) -> None:
        self.log = log
        self._gaps = gaps

    def take(self, line: NativeLine) -> bool:
        """Takes one line in; `False` when what follows is another session's."""
        kind = as_text(line.record.get("type"))
        if line.problem is not None:
            self._unreadable(line, line.problem)
        elif kind == "session":
            return self._is_own_header(line)
        elif kind == "message":
            self._message(line)
        elif kind == "compaction":
            self._compaction(line)
        elif kind not in _SILENT_TYPES:
            self._strange(line, "an entry of an unknown type")
        return True

    def _is_own_header(self, line: NativeLine) -> bool:
        if line.record.get("id") != self.log.session_id:
            self._strange(line, "the header of another session; nothing behind it is read")
            return False
        if line.record.get("version") != FORMAT:
            self._strange(line, f"the log is not of format {FORMAT}")
        return True

    def _message(self, line: NativeLine) -> None:
        message = as_mapping(line.record.get("message"))
        role = as_text(message.get("role"))
        if role == "system":
            self._offered(message)
        elif role == "assistant":
            self._answer(line, message)
        elif role in ("user", "toolResult"):
            self.log.execution_status = ExecutionStatus.INTERRUPTED  # until an answer to it follows
        elif role not in _MESSAGE_ROLES:
            self._strange(line, "a message of an unknown role")

    def _offered(self, message: Any) -> None:
        for tool in as_list(message.get("toolsAdded")):
            name = as_text(as_mapping(tool).get("name"))
            self.log.tools = (self.log.tools or set()) | {name or ""}

    def _answer(self, line: NativeLine, message: Any) -> None:
        reason = as_word(message.get("stopReason"))
        if reason not in _ENDS:
            self._strange(line, "an answer with an unknown stop reason")
        entry = self._entry(line)
        response_id = as_id(message.get("responseId"))
        if response_id is None and message.get("responseId") is not None:
            self._strange(line, "an answer's response id has no form of an id")
        self.log.answers.append(Answer(entry.line, entry.entry_id, entry.parent_id, response_id, reason))
        self.log.execution_status = _ENDS.get(reason or "", ExecutionStatus.UNKNOWN)

    def _compaction(self, line: NativeLine) -> None:
        # An extension's summary need not be a model's. A fork of Pi has the second word.
        if line.record.get("fromHook") is not True and line.record.get("fromExtension") is not True:
            self.log.compactions.append(self._entry(line))

    def _entry(self, line: NativeLine) -> Entry:
        return Entry(line.number, as_id(line.record.get("id")), as_id(line.record.get("parentId")))

    def _unreadable(self, line: NativeLine, problem: LineProblem) -> None:
        reason = f"a line {problem.value}"
        self._gaps.add(AttemptErrorCode.NATIVE_LINE_UNREADABLE, reason, source=self.log.source, line=line.number)

    def _strange(self, line: NativeLine, reason: str) -> None:
        self._gaps.add(AttemptErrorCode.NATIVE_SHAPE_UNKNOWN, reason, source=self.log.source, line=line.number)


def _locator(line: int, kind: str, identifier: str | None) -> str:
    named = identifier is not None and is_locatable(identifier)
    return f"line:{line} {kind}:{identifier}" if named else f"line:{line}"
