"""Notes the provider's response id of each request, where Hermes still has it.

Hermes keeps no response id in its database, and in Chat Completions streams it makes one up. So it is read where the
client library parses the stream; the request's own headers say whose it is. Messages answers keep their id.
"""

import contextlib
import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any

from .event_log import note
from .stamps import REQUEST, SESSION


def note_message_id(request: Any = None, next_call: Any = None, **context: Any) -> Any:
    """`llm_execution` middleware: the id of an Anthropic message."""
    response = next_call(request)
    if context.get("api_mode") == "anthropic_messages":
        _note(context.get("session_id"), context.get("api_request_id"), getattr(response, "id", None))
    return response


def install() -> list[str]:
    """Wraps the OpenAI client's stream. Returns what could not be wrapped."""
    try:
        stream = importlib.import_module("openai").Stream
        original = stream.__stream__
    except Exception:  # noqa: BLE001
        return ["openai.Stream.__stream__"]

    @functools.wraps(original)
    def read(self: Any) -> Iterator[Any]:
        noted = False
        for item in original(self):
            with contextlib.suppress(Exception):
                noted = noted or _noted(self.response.request.headers, item)
            yield item

    stream.__stream__ = read
    return []


def _noted(headers: Mapping[str, str], item: Any) -> bool:
    """Notes the response id if this part of the stream has it. Events of Responses hold the response inside; other
    parts of them have ids of their own."""
    holder = item if hasattr(item, "choices") else getattr(item, "response", None)
    return _note(headers.get(SESSION), headers.get(REQUEST), getattr(holder, "id", None))


def _note(session_id: object, request_id: object, response_id: object) -> bool:
    if not (session_id and request_id and response_id):
        return False
    note("response", session_id=session_id, request_id=request_id, response_id=response_id)
    return True
