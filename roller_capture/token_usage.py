"""Token counts of a call in one meaning for all protocols, that of the exchange formats: totals, cached ones inside.

The three protocols do not mean the same: Anthropic's `input_tokens` leaves out what the cache read or wrote, OpenAI's
include it (https://docs.anthropic.com/en/api/messages, https://platform.openai.com/docs/api-reference).
"""

from dataclasses import dataclass
from typing import Any, Final

from roller_capture.view.provider_words import Tokens, token_counts
from roller_capture.vocabulary import Protocol

_DETAILS: Final = ("output_tokens_details", "completion_tokens_details")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; `None` where the service reported none. Cached ones are part of `input`."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_creation: int | None = None
    reasoning: int | None = None
    """Part of `output`."""


def usage_of(protocol: Protocol, usage: dict[str, Any] | None) -> Usage:
    """The counts in a provider's usage object; what is no count is passed over."""
    tokens = token_counts(usage)
    return Usage(_input(protocol, tokens), tokens.output, tokens.cache_read, tokens.cache_creation, _reasoning(usage))


def _input(protocol: Protocol, tokens: Tokens) -> int | None:
    if tokens.input is None or protocol is not Protocol.ANTHROPIC_MESSAGES:
        return tokens.input
    return tokens.input + (tokens.cache_read or 0) + (tokens.cache_creation or 0)


def _reasoning(usage: dict[str, Any] | None) -> int | None:
    for name in _DETAILS:
        details = (usage or {}).get(name)
        count = details.get("reasoning_tokens") if isinstance(details, dict) else None
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
            return count
    return None
