"""OpenAI Chat Completions: chunks folded into the `chat.completion` that `stream: false` would have brought.

Every choice ends with a `finish_reason`; then may come a chunk with usage and no choices, then the line `data: [DONE]`
(https://platform.openai.com/docs/api-reference/chat-streaming). Terminal marker here: a finish reason for every choice
that was seen, and `[DONE]`. Servers that never send `[DONE]` are whole at a clean end of the body.
"""

import dataclasses
from typing import Any

from roller_capture.model_protocols import shapes
from roller_capture.model_protocols.chat_deltas import Pieces, add_up, message_of
from roller_capture.model_protocols.folding import Folded, Warnings, id_of, usage_of
from roller_capture.model_protocols.merging import Merger
from roller_capture.model_protocols.shapes import JsonObject
from roller_capture.model_protocols.types import ToolRef
from roller_capture.vocabulary import OutputWarningCode as Code

_STREAM_ONLY = frozenset({"choices", "obfuscation"})
"""Members of a chunk that are no part of the answer; `obfuscation` is padding against traffic analysis."""

_FIRST_COUNTS = frozenset({"id", "object", "created", "model"})
"""Members that a chunk repeats; where servers make up a new value for each chunk, the first non-empty one counts."""

_FOLDED_APART = frozenset({"index", "delta", "message", "finish_reason"})


class _Choice:
    """One choice being streamed; `members` holds the pieces of all that is not folded apart, and every key's place."""

    def __init__(self) -> None:
        self.members: dict[str, list[Any]] = {}
        self.message = Pieces()
        self.finish_reasons: dict[str, None] = {}

    def add(self, choice: JsonObject, warnings: Warnings) -> bool:
        """Add one piece of the choice; false when its delta has no shape that can be added."""
        delta = choice.get("delta")
        if delta is None:
            delta = self._whole_message(choice.get("message"), warnings)
        if isinstance(delta, dict):
            self.message.add(delta)
        elif delta is not None:
            warnings.unexpected("delta", delta)
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            if self.finish_reasons and reason not in self.finish_reasons:
                warnings.add(Code.SECOND_FINISH_REASON, shapes.name_of(reason))
            self.finish_reasons.pop(reason, None)
            self.finish_reasons[reason] = None
        elif reason is not None and reason != "":
            warnings.unexpected("finish_reason", reason)
        for key, value in choice.items():
            pieces = self.members.setdefault(key, [])
            if value is not None and key not in _FOLDED_APART:
                pieces.append(value)
        return not delta or isinstance(delta, dict)

    def _whole_message(self, message: object, warnings: Warnings) -> object:
        """Some servers close with the whole message; it is taken where no deltas came, and compared where they did."""
        if not self.message.members or not isinstance(message, dict):
            return message
        content = message.get("content")
        if isinstance(content, str) and content != self.message.texts("content"):
            warnings.add(Code.DELTA_FINAL_MISMATCH, "message of a choice")
        return None

    def result(self, index: int, warnings: Warnings) -> JsonObject:
        result: JsonObject = {}
        for key, values in self.members.items():
            if key in ("delta", "message"):
                result["message"] = message_of(self.message, warnings)
            elif key == "finish_reason":
                result[key] = next(reversed(self.finish_reasons), None)
            elif key == "index":
                result[key] = index
            elif key in ("logprobs", "token_ids"):
                result[key] = add_up(key, values, warnings)
            else:
                result[key] = _later(key, values, warnings)
        return result


def _later(key: str, values: list[Any], warnings: Warnings) -> Any:
    """A member of the choice that is none of the protocol's: objects merge, lists go on, else the last one counts."""
    if all(isinstance(value, dict) for value in values):
        merger = Merger()
        for value in values:
            merger.add(value)
        return merger.value if values else None
    if all(isinstance(value, list) for value in values):
        return add_up(key, values, warnings)
    return values[-1]


class ChatFold:
    """The fold of one stream. `terminal` is set by `[DONE]`; whether it counts depends on the finish reasons."""

    def __init__(self, warnings: Warnings) -> None:
        self.terminal = False
        self._warnings = warnings
        self._top = Merger()
        self._choices: dict[int, _Choice] = {}
        self._error: str | None = None
        self._loss: str | None = None

    def add(self, kind: str | None, payload: JsonObject) -> bool:
        if kind == "error" and shapes.provider_error(payload) is None:
            payload = {"type": "error", **payload}
        error = shapes.provider_error(payload)
        self._error = self._error or error
        is_chunk = "choices" in payload or (payload.get("usage") is not None and "type" not in payload)
        if error is None and not is_chunk:
            self._warnings.unknown_event(kind)
            return False
        self._add_top(payload)
        choices = payload.get("choices")
        return not choices or self.terminal or self._add_choices(choices)

    def _add_choices(self, choices: object) -> bool:
        readable = isinstance(choices, list) and all(isinstance(choice, dict) for choice in choices)
        if not readable:
            self._warnings.unexpected("choices", choices)
        for choice in shapes.objects(choices):
            self._error = self._error or shapes.provider_error(choice)
            readable = self._choice(choice).add(choice, self._warnings) and readable
        if not readable:
            self._loss = "a choice of a chunk cannot be read"
        return readable

    def _choice(self, choice: JsonObject) -> _Choice:
        index = choice.get("index", 0)
        if not isinstance(index, int):
            self._warnings.unexpected("index of a choice", index)
            index = 0
        return self._choices.setdefault(index, _Choice())

    def _add_top(self, payload: JsonObject) -> None:
        top = self._top.value
        for key, value in payload.items():
            if key == "choices":
                top.setdefault(key, None)  # holds its place
            elif key in top and top[key] == value:
                continue
            elif key in _FIRST_COUNTS:
                self._add_repeated(key, value)
            elif key not in _STREAM_ONLY:
                earlier = top.get(key)
                if key not in ("usage", "error") and None not in (earlier, value) and not isinstance(value, dict):
                    self._warnings.add(Code.UNKNOWN_FIELD_CONFLICT, shapes.name_of(key))
                self._top.add({key: value})

    def _add_repeated(self, key: str, value: object) -> None:
        top = self._top.value
        earlier = top.get(key)
        if earlier is None or earlier in ("", 0):
            if value is not None or key not in top:
                top[key] = value
        elif value not in (None, "", 0, earlier) and key in ("id", "model"):
            code = Code.RESPONSE_ID_CHANGED if key == "id" else Code.UNKNOWN_FIELD_CONFLICT
            self._warnings.add(code, key)

    def done(self) -> None:
        self.terminal = True

    def finish(self) -> Folded:
        output = self._output()
        if output is None:
            return Folded(error=self._error)
        finished = bool(self._choices) and all(choice.finish_reasons for choice in self._choices.values())
        reasons = [reason for _, choice in sorted(self._choices.items()) for reason in reversed(choice.finish_reasons)]
        return dataclasses.replace(
            _read(output, self._warnings),
            finish_reasons=tuple(dict.fromkeys(reasons)),
            terminal=self.terminal and finished,
            finished=finished,
            error=self._error,
            loss=self._loss,
        )

    def _output(self) -> JsonObject | None:
        output = dict(self._top.value)
        if not output:
            return None
        if str(output.get("object")).startswith("chat.completion"):
            output["object"] = "chat.completion"
        if "choices" in output:
            choices = sorted(self._choices.items())
            output["choices"] = [choice.result(index, self._warnings) for index, choice in choices]
        return output


def read_completion(value: Any, warnings: Warnings) -> Folded:
    """The same about a JSON body."""
    if not isinstance(value, dict):
        return Folded(shape=f"a JSON {shapes.name_of(value)}")
    choices = value.get("choices")
    errors = map(shapes.provider_error, [value, *shapes.objects(choices)])
    error = next((error for error in errors if error is not None), None)
    if error is not None:
        return Folded(output=value, error=error)
    if not isinstance(choices, list):
        return Folded(output=value, shape="a JSON object that is no chat completion")
    reasons = [shapes.text_or_none(choice.get("finish_reason")) for choice in shapes.objects(choices)]
    finished = bool(reasons) and all(reasons) and len(reasons) == len(choices)
    return dataclasses.replace(
        _read(value, warnings),
        finish_reasons=tuple(dict.fromkeys(reason for reason in reasons if reason)),
        terminal=finished,
        finished=finished,
    )


def _read(completion: JsonObject, warnings: Warnings) -> Folded:
    refs: list[ToolRef] = []
    missing = False
    for choice in shapes.objects(completion.get("choices")):
        found, whole = _tool_refs(shapes.object_or_none(choice.get("message")) or {}, warnings)
        refs += found
        missing = missing or (choice.get("finish_reason") == "tool_calls" and not whole)
    return Folded(
        output=completion,
        response_id=id_of(completion, "id", warnings),
        model=shapes.text_or_none(completion.get("model")) or None,
        usage=_usage(completion, warnings),
        tool_refs=tuple(refs),
        tool_call_missing=missing,
    )


def _tool_refs(message: JsonObject, warnings: Warnings) -> tuple[list[ToolRef], bool]:
    """The tool calls of a message, and whether there are any and each has the id and the name that a call needs."""
    refs = []
    for call in shapes.objects(message.get("tool_calls")):
        inner = shapes.object_or_none(call.get("function")) or shapes.object_or_none(call.get("custom")) or {}
        refs.append(ToolRef(id_of(call, "id", warnings), None, id_of(inner, "name", warnings)))
    whole = bool(refs) and all(ref.tool_call_id and ref.name for ref in refs)
    legacy = shapes.object_or_none(message.get("function_call"))
    if legacy is not None:
        refs.append(ToolRef(None, None, id_of(legacy, "name", warnings)))
    return refs, whole


def _usage(completion: JsonObject, warnings: Warnings) -> JsonObject | None:
    """`usage`, or where some servers put it instead: Groq's `x_groq`, Moonshot's choice."""
    places = [
        completion,
        shapes.object_or_none(completion.get("x_groq")) or {},
        *shapes.objects(completion.get("choices")),
    ]
    return next((usage for place in places if (usage := usage_of(place.get("usage"), warnings)) is not None), None)
