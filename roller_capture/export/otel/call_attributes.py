"""Attributes of a chat span beside what was said: the request's settings, the answer's model, tokens, how it ended."""

from collections.abc import Collection
from typing import Any, Final

from roller_capture.api import Call
from roller_capture.export.otel.otlp import Attribute, unix_nanoseconds
from roller_capture.export.otel.survey import conversation_id
from roller_capture.token_usage import usage_of
from roller_capture.view.provider_words import finish_word
from roller_capture.vocabulary import ExecutionStatus, Protocol

_PROVIDERS: Final = {
    Protocol.ANTHROPIC_MESSAGES: "anthropic",
    Protocol.OPENAI_CHAT_COMPLETIONS: "openai",
    Protocol.OPENAI_RESPONSES: "openai",
}
"""The conventions' word for the flavour of the format, which is what the wire proves; `server.address` has the host."""

_MAX_TOKENS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_STOP: Final = ("stop_sequences", "stop")
_NUMBERS: Final = ("temperature", "top_p", "frequency_penalty", "presence_penalty")


def call_attributes(call: Call, context: dict[str, Any]) -> dict[str, Attribute]:
    """The attributes; `context` is the request body, or empty where it cannot be read."""
    record = call.record
    usage = usage_of(call.protocol, record["usage"])
    finish = finish_word(call.protocol, call.output)
    host, port = _address(record["endpoint"]["host"])
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider({call.protocol}),
        "gen_ai.conversation.id": conversation_id(call),
        "gen_ai.request.model": record["model"]["requested"],
        **_settings(context),
        "gen_ai.response.id": record["response_id"],
        "gen_ai.response.model": record["model"]["responded"],
        "gen_ai.response.finish_reasons": None if finish is None else [finish],
        "gen_ai.response.time_to_first_chunk": _first_chunk(call, context),
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_creation,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
        "server.address": host,
        "server.port": port,
        "http.response.status_code": record["http"]["status"],
        "roller.call_id": call.call_id,
        "roller.sequence": call.sequence,
        "roller.participant_id": call.participant_id,
        "roller.protocol": call.protocol,
        "roller.purpose": call.purpose,
        "roller.execution_status": record["execution_status"],
        "roller.identity_status": record["identity_status"],
        "roller.capture_status": record["capture_status"],
        "roller.export_blockers": list(call.blockers) or None,
    }


def provider(protocols: Collection[Protocol]) -> str | None:
    """The provider of calls in these protocols, if it is one."""
    names = {_PROVIDERS[protocol] for protocol in protocols}
    return names.pop() if len(names) == 1 else None


def error_of(call: Call) -> str | None:
    """`error.type` of a call that did not end well: the status of an HTTP error, else our word for what went wrong."""
    if call.record["execution_status"] == ExecutionStatus.COMPLETED:
        return None
    status = call.record["http"]["status"]
    if isinstance(status, int) and status >= 400:
        return str(status)
    codes = [error["code"] for error in call.record["errors"]]
    return str(codes[0]) if codes else str(call.record["execution_status"])


def _settings(context: dict[str, Any]) -> dict[str, Attribute]:
    """What the request asks for. Values of other types than the conventions have are not told."""
    stop = next((context[name] for name in _STOP if name in context), None)
    stops = [stop] if isinstance(stop, str) else stop
    choices = _integer(context.get("n"))
    return {
        "gen_ai.request.max_tokens": next(
            (value for value in map(_integer, map(context.get, _MAX_TOKENS)) if value is not None), None
        ),
        "gen_ai.request.stop_sequences": stops if _are_texts(stops) else None,
        "gen_ai.request.seed": _integer(context.get("seed")),
        "gen_ai.request.choice.count": choices if choices != 1 else None,
        "gen_ai.request.stream": True if context.get("stream") is True else None,
        **{f"gen_ai.request.{name}": _double(context.get(name)) for name in _NUMBERS},
    }


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _double(value: Any) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _address(host: str) -> tuple[str, int | None]:
    """Host and port; the port is not in the record where it is the scheme's own."""
    name, separator, port = host.rpartition(":")
    if separator and port.isascii() and port.isdigit() and (":" not in name or name.endswith("]")):
        return name.strip("[]"), int(port)
    return host.strip("[]"), None


def _first_chunk(call: Call, context: dict[str, Any]) -> float | None:
    """Of a streamed answer: seconds from the start of the request to the first byte."""
    start, first = (unix_nanoseconds(call.record["timing"][name]) for name in ("request_start", "first_byte"))
    if context.get("stream") is not True or start is None or first is None:
        return None
    return max(0, first - start) / 1e9
