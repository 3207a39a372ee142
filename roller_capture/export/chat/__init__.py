"""A call in the one chat form that the three protocols have in common."""

from typing import Any, NamedTuple

from roller_capture import json_text
from roller_capture.export.chat import anthropic_messages, chat_completions, responses
from roller_capture.export.chat.tools import add_tools
from roller_capture.export.chat.transcript import Message, NoChatFormError, Transcript, split_parts
from roller_capture.model_protocols.response import UNKNOWN_EVENTS
from roller_capture.vocabulary import Protocol

__all__ = ["ChatCall", "Message", "NoChatFormError", "chat_call", "chat_request", "split_parts"]

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


def chat_call(
    protocol: Protocol, context: dict[str, Any], output: Any, *, agent_messages: bool = False, images: bool = False
) -> ChatCall:
    """The call in the chat form. Raises `NoChatFormError` where it cannot be told without leaving something away.

    `agent_messages`: for formats that have a place for messages between agents of Codex, which chats have not. They get
    the role `agent_message`, and the member `id`. `images`: for formats that have a place for images of what was sent;
    messages with one get the member `parts`.
    """
    asked = chat_request(protocol, context, agent_messages=agent_messages, images=images)
    if not isinstance(output, dict):
        raise NoChatFormError("no output", "")
    answered = Transcript()
    _PROTOCOLS[protocol].add_output(answered, output)
    answered.keep(json_text.pointer(UNKNOWN_EVENTS), output.get(UNKNOWN_EVENTS))
    return asked._replace(
        output=answered.messages,
        origins={**asked.origins, "output": answered.origins},
        extra={**asked.extra, "output": answered.extra},
    )


def chat_request(
    protocol: Protocol, context: dict[str, Any], *, agent_messages: bool = False, images: bool = False
) -> ChatCall:
    """What was sent alone: nothing came back, or it does not matter. Raises like `chat_call`."""
    sent = Transcript(images)
    if protocol is Protocol.OPENAI_RESPONSES:
        responses.add_request(sent, context, agent_messages=agent_messages)
    else:
        _PROTOCOLS[protocol].add_request(sent, context)
    tools, others = add_tools(sent, protocol, context.get("tools"))
    return ChatCall(
        sent.messages, [], tools, others, {"context": sent.origins, "output": []}, {"context": sent.extra, "output": {}}
    )
