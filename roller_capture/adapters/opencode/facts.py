"""The small facts that are kept of OpenCode's sessions: ids, places and words; of contents only automatic messages."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from roller_capture.adapters.opencode.places import Place


class Result(Enum):
    """What a delegating tool call's record says of its child."""

    COMPLETED = "completed"
    FAILED = "failed"
    LAUNCHED = "launched"  # the acknowledgement of a child in the background
    INTERRUPTED = "interrupted"  # the run was cut while the call was open
    OPEN = "open"  # no result yet
    OTHER = "other"  # a state that we do not know, or a record that contradicts itself


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call as its session records it.

    The members after `name` are read of delegating calls only. `child_id` is the session that the record names;
    `from_text` tells that only the harness's sentence names it, `names_two` that its text for the model names another
    one than the record. `cleared`: the result was later taken out of the
    context, so that a request which holds the tool id may not hold the result.
    """

    call_id: str
    name: str
    place: Place
    child_id: str | None = None
    from_text: bool = False
    names_two: bool = False
    parent_id: str | None = None
    result: Result = Result.OPEN
    word: str | None = None
    cleared: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """An automatic message that a child has ended. `text` is the whole of it; `agent` the child's kind, if told."""

    child_id: str
    state: str | None
    text: str
    place: Place


class EndState(Enum):
    """Where an executor stood after its last model call."""

    RUNNING = "running"
    ENDED = "ended"
    FAILED = "failed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Message:
    """One message of a session. `finished_steps` counts the model answers that it holds, `begun_steps` those that had
    begun; `has_words` that it holds text or reasoning; `used_tokens` that its record has a number of tokens other than
    zero, or no such record; `mode` what an assistant message was for; `is_command` that a user message is a command
    which launches a child without a model call."""

    identifier: str
    session_id: str
    role: str | None
    place: Place
    parent_id: str | None = None
    mode: str | None = None
    is_summary: bool = False
    ended: bool = False
    finish: str | None = None
    error: str | None = None
    finished_steps: int = 0
    begun_steps: int = 0
    has_words: bool = False
    used_tokens: bool = True
    is_command: bool = False
    tools: list[ToolCall] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    @property
    def is_completed_assistant(self) -> bool:
        """The protocol's "completed assistant": ended, with a finish reason, without an error."""
        return self.role == "assistant" and self.ended and self.finish is not None and self.error is None

    @property
    def is_compaction(self) -> bool:
        """The harness's own marks of an answer that sums the context up."""
        return self.is_summary and self.mode == "compaction"


@dataclass(slots=True)
class Session:
    """One session: a root, or a child that a session delegated to."""

    identifier: str
    place: Place
    parent_id: str | None = None
    version: str | None = None
    messages: list[Message] = field(default_factory=list)

    def assistants(self) -> Iterator[Message]:
        """The assistant messages in their order."""
        return (message for message in self.messages if message.role == "assistant")

    def tool_calls(self) -> Iterator[tuple[Message, ToolCall]]:
        """All tool calls, each with the message that holds it."""
        return ((message, call) for message in self.messages for call in message.tools)


@dataclass(frozen=True, slots=True)
class Log:
    """Everything that was read. Ids that stand for two things are in neither mapping."""

    sessions: dict[str, Session]
    messages: dict[str, Message]
    was_read: bool
