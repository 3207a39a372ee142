"""What the three protocols' own objects say to a reader: token counts and the finish word.

Counts are the provider's own and are never converted: Anthropic's `input_tokens` leaves out what the cache read or
wrote, OpenAI's `prompt_tokens` and `input_tokens` include it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from roller_capture.vocabulary import Protocol

_LARGEST_COUNT: Final = 10**15


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts as the provider reported them; `None` where it reported none."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None

    @property
    def reported(self) -> bool:
        """Was anything reported?"""
        return self != Tokens()


@dataclass(slots=True)
class TokenTotal:
    """Sums over calls; `unreported` counts the calls that reported nothing."""

    tokens: Tokens = field(default_factory=Tokens)
    unreported: int = 0

    def add(self, tokens: Tokens) -> None:
        """Adds one call's counts."""
        self.unreported += not tokens.reported
        mine = self.tokens
        self.tokens = Tokens(
            _sum(mine.input, tokens.input),
            _sum(mine.output, tokens.output),
            _sum(mine.cache_read, tokens.cache_read),
            _sum(mine.cache_creation, tokens.cache_creation),
        )


def total(tokens: Iterable[Tokens]) -> TokenTotal:
    """The sums over some calls."""
    result = TokenTotal()
    for item in tokens:
        result.add(item)
    return result


def token_counts(usage: dict[str, Any] | None) -> Tokens:
    """The counts in a usage object of any of the three protocols; what is no count is passed over.

    Members: Anthropic `input_tokens`, `output_tokens`, `cache_read_input_tokens`, `cache_creation_input_tokens`;
    Chat Completions `prompt_tokens`, `completion_tokens`, `prompt_tokens_details.cached_tokens`; Responses
    `input_tokens`, `output_tokens`, `input_tokens_details.cached_tokens`; DeepSeek's `prompt_cache_hit_tokens`;
    OpenRouter's `cache_write_tokens` in the details.
    """
    if usage is None:
        return Tokens()
    details: dict[str, Any] = {}
    for name in ("input_tokens_details", "prompt_tokens_details"):
        details |= usage[name] if isinstance(usage.get(name), dict) else {}
    return Tokens(
        input=_first(usage.get("input_tokens"), usage.get("prompt_tokens")),
        output=_first(usage.get("output_tokens"), usage.get("completion_tokens")),
        cache_read=_first(
            usage.get("cache_read_input_tokens"), details.get("cached_tokens"), usage.get("prompt_cache_hit_tokens")
        ),
        cache_creation=_first(usage.get("cache_creation_input_tokens"), details.get("cache_write_tokens")),
    )


def finish_word(protocol: str, output: Any) -> str | None:
    """The provider's word for how the response ended, from the output as published; several are joined by `, `."""
    if not isinstance(output, dict):
        return None
    if protocol == Protocol.ANTHROPIC_MESSAGES:
        return _text(output.get("stop_reason"))
    if protocol == Protocol.OPENAI_CHAT_COMPLETIONS:
        choices = output.get("choices")
        choices = choices if isinstance(choices, list) else []
        words = [_text(item.get("finish_reason")) for item in choices if isinstance(item, dict)]
        return ", ".join(dict.fromkeys(word for word in words if word)) or None
    details = output.get("incomplete_details")
    reason = _text(details.get("reason")) if isinstance(details, dict) else None
    status = _text(output.get("status"))
    return f"{status}: {reason}" if status and reason else status


def _first(*values: Any) -> int | None:
    return next((int(value) for value in values if _is_count(value)), None)


def _is_count(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value < _LARGEST_COUNT and value == int(value)


def _sum(left: int | None, right: int | None) -> int | None:
    return left if right is None else (left or 0) + right


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
