"""A call in the one chat form that the three protocols have in common."""

from typing import Any, NamedTuple

from roller_capture.export.chat import anthropic_messages, chat_completions, responses
from roller_capture.export.chat.tools import add_tools
from roller_capture.export.chat.transcript import Message, NoChatFormError, Transcript, split_parts
from roller_capture.vocabulary import Protocol

__all__ = ["ChatCall", "Message", "NoChatFormError", "chat_call", "split_parts"]

_PROTOCOLS = {
    Protocol.ANTHROPIC_MESSAGES: anthropic_messages,
    Protocol.OPENAI_CHAT_COMPLETIONS: chat_completions,
    Protocol.OPENAI_RESPONSES: responses,
}


class ChatCall(NamedTuple):
    """What was sent and what came back.

    `origins` and `extra` have the members `context` and `output`: where the messages come from, and what has no place
    in them, by JSON Pointers into the request body and the response.
    """

    messages: list[Message]
    output: list[Message]
    tools: list[Any]
    other_tools: list[Any]
    origins: dict[str, list[dict[str, Any]]]
    extra: dict[str, dict[str, Any]]


def chat_call(protocol: Protocol, context: dict[str, Any], output: Any) -> ChatCall:
    """The call in the chat form. Raises `NoChatFormError` where it cannot be told without leaving something away."""
    module = _PROTOCOLS[protocol]
    sent, answered = Transcript(), Transcript()
    module.add_request(sent, context)
    tools, others = add_tools(sent, protocol, context.get("tools"))
    if not isinstance(output, dict):
        raise NoChatFormError("no output", "")
    module.add_output(answered, output)
    return ChatCall(
        sent.messages,
        answered.messages,
        tools,
        others,
        {"context": sent.origins, "output": answered.origins},
        {"context": sent.extra, "output": answered.extra},
    )
