"""What one participant said, call by call: its conversations between compactions, and what is known of each call."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from roller_capture.api import Attempt, Call, Participant
from roller_capture.export.atif.images import Images
from roller_capture.export.main.chain import Chain, NoTrajectoryError, Segment
from roller_capture.export.main.trajectory import Row, chat_of, notifications_of, refuse_unbound, why_no_turns
from roller_capture.export.times import nanoseconds
from roller_capture.export.tokens import logprobs, token_ids
from roller_capture.token_usage import Usage, usage_of
from roller_capture.view.provider_words import finish_word
from roller_capture.vocabulary import Protocol, Purpose

_PROMPT_IDS: Final = ("/prompt_token_ids", "/choices/0/prompt_token_ids", "/input_token_ids")
_COMPLETION_IDS: Final = (
    "/choices/0/token_ids",
    "/choices/0/output_token_ids",
    "/token_ids",
    "/output_token_ids",
    "/output_ids",
)


class Turn(NamedTuple):
    """A call beside its messages, as members of an agent's step."""

    model: str | None
    effort: str | float | None
    timestamp: str | None
    usage: Usage
    metrics: dict[str, Any]
    extra: dict[str, Any]


@dataclass(slots=True)
class Stretch:
    """A conversation between two compactions: its last request, the calls that are not in it, and how it is told:
    its steps, and the images that they refer to."""

    segment: Segment
    protocol: Protocol
    parameters: Row
    left_out: list[Row] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    images: Images = field(default_factory=dict)


class Conversation:
    """Takes a participant's calls in order. `refused` says why there is none that could be told."""

    def __init__(self, attempt: Attempt, participant: Participant) -> None:
        self.participant = participant
        self.stretches: list[Stretch] = []
        self.turns: dict[str, Turn] = {}
        self.notifications = notifications_of(attempt, participant)
        self.refused: NoTrajectoryError | None = None
        self._chain = Chain()
        self._left_out: list[Row] = []
        self._guarded(refuse_unbound, attempt, participant)

    def add(self, call: Call) -> None:
        """The next call. Only exportable agent calls are turns of the conversation."""
        if self.refused is None:
            self._guarded(self._add, call)

    def finish(self, tell: Callable[["Conversation", Stretch], list[dict[str, Any]]]) -> None:
        """No more calls: the conversations are told as steps."""
        if self.refused is None:
            self._guarded(self._finish, tell)

    def _finish(self, tell: Callable[["Conversation", Stretch], list[dict[str, Any]]]) -> None:
        if not self.stretches:
            raise NoTrajectoryError(why_no_turns(self._left_out))
        self.stretches[-1].left_out += self._left_out  # what failed behind the last turn
        for stretch in self.stretches:
            stretch.steps = tell(self, stretch)
            last = stretch.segment.last
            stretch.segment.last = last._replace(messages=[], output=[], origins={}, extra={})  # they are told

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except NoTrajectoryError as error:
            self.refused = error
            self.stretches, self.turns = [], {}  # nothing of it is needed any more

    def _add(self, call: Call) -> None:
        if call.purpose is Purpose.COMPACTION:
            self._chain.compacted(call.call_id)
        if call.purpose is not Purpose.AGENT or not call.exportable:
            told = {"call_id": call.call_id, "purpose": call.purpose, "blockers": list(call.blockers)}
            self._left_out.append(told)
            return
        chat, parameters = chat_of(call, agent_messages=True, images=True)
        self._chain.add(call.call_id, chat)
        segment = self._chain.segments[-1]
        if len(self._chain.segments) > len(self.stretches):
            self.stretches.append(Stretch(segment, call.protocol, parameters))
        last = self.stretches[-1]
        last.protocol, last.parameters = call.protocol, parameters
        last.left_out += self._left_out
        self._left_out = []
        self.turns[call.call_id] = turn_of(call, parameters)


def turn_of(call: Call, parameters: Row) -> Turn:
    """What is known of a call, with real times; what is not known is left away."""
    record = call.record
    usage = usage_of(call.protocol, record["usage"])
    known = {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "cached_tokens": usage.cache_read,
        "prompt_token_ids": _token_ids(call.output, _PROMPT_IDS),
        "completion_token_ids": _token_ids(call.output, _COMPLETION_IDS),
        "logprobs": _logprobs(call),
        "extra": {"usage": record["usage"]} if record["usage"] else None,
    }
    return Turn(
        record["model"]["responded"] or record["model"]["requested"],
        _effort(parameters),
        _timestamp(record["timing"]),
        usage,
        {name: value for name, value in known.items() if value is not None},
        {
            "call_id": call.call_id,
            "response_id": record["response_id"],
            "finish": finish_word(call.protocol, call.output),
            "timing": record["timing"],
        },
    )


def _timestamp(timing: dict[str, Any]) -> str | None:
    start = timing["request_start"]
    return None if nanoseconds(start) is None else str(start)


def _effort(parameters: Row) -> str | float | None:
    """Responses `reasoning.effort`, Chat Completions `reasoning_effort`, Anthropic `output_config.effort`."""
    for name in ("reasoning", "output_config"):
        inner = parameters.get(name)
        if isinstance(inner, dict) and isinstance(inner.get("effort"), str):
            return str(inner["effort"])
    effort = parameters.get("reasoning_effort")
    return effort if isinstance(effort, str) else None


def _token_ids(output: Any, pointers: tuple[str, ...]) -> list[int] | None:
    """The list of ids, if the response carried one and only one."""
    found = [value for pointer, value in token_ids(output).items() if pointer in pointers]
    if len(found) != 1 or not _are_integers(found[0]):
        return None
    return list(found[0])


def _are_integers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value)


def _logprobs(call: Call) -> list[float] | None:
    """One number for each generated token, in order; nothing where a token has none."""
    if call.protocol is Protocol.OPENAI_CHAT_COMPLETIONS:
        place = logprobs(call.output).get("/choices/0/logprobs")
        tokens = place.get("content") if isinstance(place, dict) else None
    else:
        parts = [value for pointer, value in logprobs(call.output).items() if pointer.startswith("/output/")]
        tokens = parts[0] if len(parts) == 1 else None
    if not isinstance(tokens, list) or not tokens:
        return None
    values = [token.get("logprob") if isinstance(token, dict) else None for token in tokens]
    numbers = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return numbers if len(numbers) == len(values) else None
