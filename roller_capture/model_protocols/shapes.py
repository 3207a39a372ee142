"""Reads values of a provider's JSON, which is never trusted to have the documented types: nothing here raises."""

from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]

_NAME_LIMIT = 80
_MESSAGE_LIMIT = 4000


def name_of(value: object) -> str:
    """A provider's word, made fit for a warning: words only, bounded, never content."""
    return value[:_NAME_LIMIT] if isinstance(value, str) else type(value).__name__


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def int_or_none(value: object) -> int | None:
    return value if isinstance(value, int) else None


def object_or_none(value: object) -> JsonObject | None:
    return value if isinstance(value, dict) else None


def objects(value: object) -> list[JsonObject]:
    """The objects in a list; nothing for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def provider_error(payload: JsonObject) -> str | None:
    """The provider's error in one line, `type (code): message`, or `None` when the object reports none.

    Known shapes: `{"error": {...}}`, `{"error": "text"}`, `{"type": "error", ...}`, `{"object": "error", ...}`.
    """
    error = payload.get("error")
    if not error:
        if payload.get("type") != "error" and payload.get("object") != "error":
            return None
        error = payload
    if not isinstance(error, dict):
        return str(error)[:_MESSAGE_LIMIT]
    words = [_word(error.get(name)) for name in ("type", "code")]
    kind, code = (None if word == "error" else word for word in words)
    label = f"{kind} ({code})" if kind and code else kind or code
    return ": ".join(part for part in (label, bare_error(error)) if part)[:_MESSAGE_LIMIT] or "error"


def bare_error(payload: JsonObject) -> str | None:
    """The text of `{"message": "…"}` or `{"detail": "…"}`, which gateways and frameworks answer with."""
    texts = (payload.get(name) for name in ("message", "detail"))
    return next((text[:_MESSAGE_LIMIT] for text in texts if isinstance(text, str) and text), None)


def _word(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
