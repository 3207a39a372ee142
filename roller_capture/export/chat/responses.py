"""Responses in the chat form (https://platform.openai.com/docs/api-reference/responses).

Items between two inputs are one turn: reasoning, message and calls become one assistant message as long as they come in
this order. A second message item is a second message.
"""

from typing import Any, Final

from roller_capture.export.chat.transcript import (
    AGENT_MESSAGE,
    NoChatFormError,
    Part,
    Transcript,
    custom_call,
    function_call,
    image_of_url,
    objects,
    word,
)

_TEXTS: Final = ("input_text", "output_text", "text")
_ELSEWHERE: Final = ("previous_response_id", "conversation", "prompt")


def add_request(transcript: Transcript, context: dict[str, Any], *, agent_messages: bool = False) -> None:
    """The instructions and the input items, in their order."""
    for name in _ELSEWHERE:
        if context.get(name) is not None:
            raise NoChatFormError("a history that is not in the request", f"/{name}")
    instructions = context.get("instructions")
    if instructions is not None:
        if not isinstance(instructions, str):
            raise NoChatFormError("an unknown shape", "/instructions")
        transcript.say("system", [instructions], "/instructions")
    items = context.get("input")
    if isinstance(items, str):
        transcript.say("user", [items], "/input")
        return
    _Items(transcript, agent_messages=agent_messages).add_all(items, "/input")


def add_output(transcript: Transcript, output: dict[str, Any]) -> None:
    """The answer."""
    _Items(transcript).add_all(output.get("output"), "/output")


class _Items:
    """Puts items into a transcript; a turn is named by its first item."""

    def __init__(self, transcript: Transcript, *, agent_messages: bool = False) -> None:
        self._transcript = transcript
        self._turn = ""
        self._answered = False
        self._add = {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._function_call,
            "custom_tool_call": self._custom_call,
            "function_call_output": self._tool_output,
            "custom_tool_call_output": self._tool_output,
        }
        if agent_messages:
            self._add[AGENT_MESSAGE] = self._agent_message

    def add_all(self, items: Any, at: str) -> None:
        for place, item in objects(items, at):
            kind = item.get("type") or "message"  # it may be left out of messages
            add = self._add.get(kind) if isinstance(kind, str) else None
            if add is None:
                raise NoChatFormError(word(kind), place)
            add(item, place)
        self._end_turn()

    def _open_turn(self, at: str) -> str:
        self._turn = self._turn or at
        return self._turn

    def _end_turn(self) -> None:
        self._turn = ""
        self._answered = False
        self._transcript.end_turn()

    def _message(self, item: dict[str, Any], at: str) -> None:
        role = item.get("role")
        if not isinstance(role, str):
            raise NoChatFormError("a message without a role", at)
        self._transcript.keep_rest(at, item, ("type", "role", "content"))
        if role != "assistant":
            self._end_turn()
            self._transcript.say(role, self._parts(item.get("content"), f"{at}/content"), at)
            return
        texts = self._texts(item.get("content"), f"{at}/content")
        if self._answered:
            self._end_turn()
        self._answered = True
        self._transcript.answer(texts, at, self._open_turn(at))

    def _reasoning(self, item: dict[str, Any], at: str) -> None:
        """Only its own content is reasoning; a summary, or what is encrypted, is kept beside."""
        content = item.get("content")
        self._transcript.keep_rest(at, item, ("type", "content"))
        texts = [part.get("text") for _, part in objects(content or [], f"{at}/content")]
        if not all(isinstance(text, str) for text in texts):
            raise NoChatFormError("an unknown shape", f"{at}/content")
        if len(texts) > 1:
            self._transcript.keep(f"{at}/content", content)
        if texts:
            self._transcript.think("".join(map(str, texts)), at, self._open_turn(at))

    def _function_call(self, item: dict[str, Any], at: str) -> None:
        self._transcript.keep_rest(at, item, ("type", "call_id", "name", "arguments"))
        call = function_call(item.get("call_id"), item.get("name"), item.get("arguments", ""), at)
        self._transcript.call(call, at, self._open_turn(at))

    def _custom_call(self, item: dict[str, Any], at: str) -> None:
        self._transcript.keep_rest(at, item, ("type", "call_id", "name", "input"))
        call = custom_call(item.get("call_id"), item.get("name"), item.get("input"), at)
        self._transcript.call(call, at, self._open_turn(at))

    def _tool_output(self, item: dict[str, Any], at: str) -> None:
        call_id = item.get("call_id")
        if not isinstance(call_id, str):
            raise NoChatFormError("a tool result without an id", at)
        self._end_turn()
        self._transcript.keep_rest(at, item, ("type", "call_id", "output"))
        parts = self._parts(item.get("output"), f"{at}/output")
        self._transcript.say("tool", parts, at, tool_call_id=call_id)

    def _agent_message(self, item: dict[str, Any], at: str) -> None:
        """What one agent of Codex wrote to another; what only the service can read is kept beside."""
        self._end_turn()
        self._transcript.keep_rest(at, item, ("type", "id", "author", "content"))
        texts: list[str] = []
        for place, part in objects(item.get("content"), f"{at}/content"):
            if part.get("type") == "encrypted_content":
                self._transcript.keep(place, part)
            else:
                texts += self._texts([part], place)
        told = {"id": item.get("id"), "name": item.get("author")}
        members = {name: value for name, value in told.items() if isinstance(value, str)}
        self._transcript.say(AGENT_MESSAGE, texts, at, **members)

    def _texts(self, content: Any, at: str) -> list[str]:
        if isinstance(content, str):
            return [content]
        return [self._text(part, place) for place, part in objects(content, at)]

    def _parts(self, content: Any, at: str) -> list[Part]:
        """Texts, and images where they have a place."""
        if isinstance(content, str):
            return [content]
        return [self._part(part, place) for place, part in objects(content, at)]

    def _part(self, part: dict[str, Any], at: str) -> Part:
        if part.get("type") != "input_image" or not self._transcript.images:
            return self._text(part, at)
        self._transcript.keep_rest(at, part, ("type", "image_url"))
        return image_of_url(part.get("image_url"), at)

    def _text(self, part: dict[str, Any], at: str) -> str:
        if part.get("type") not in _TEXTS or not isinstance(part.get("text"), str):
            raise NoChatFormError(word(part.get("type")), at)
        rest = {name: value for name, value in part.items() if value not in ([], {})}
        self._transcript.keep_rest(at, rest, ("type", "text"))
        return str(part["text"])
