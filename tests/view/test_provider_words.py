"""Token counts and finish words of the three protocols."""

from typing import Any

import pytest

from roller_capture.json_text import NumberText
from roller_capture.view.provider_words import Tokens, finish_word, token_counts, total
from roller_capture.vocabulary import Protocol

ANTHROPIC, CHAT, RESPONSES = Protocol.ANTHROPIC_MESSAGES, Protocol.OPENAI_CHAT_COMPLETIONS, Protocol.OPENAI_RESPONSES


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Tokens()),
        ({}, Tokens()),
        ({"input_tokens": 1, "output_tokens": 2}, Tokens(1, 2)),
        (
            {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4},
            Tokens(1, 2, 3, 4),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}},
            Tokens(9, 2, 3),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 5}, Tokens(9, 2, 5)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4}},
            Tokens(9, None, 3, 4),
        ),
        ({"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 3}}, Tokens(9, 2, 3)),
        ({"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": None}, Tokens(0, 0)),
        ({"input_tokens": 7.0, "output_tokens": 1.5}, Tokens(7)),
        ({"input_tokens": True, "output_tokens": "5", "cache_read_input_tokens": -1}, Tokens()),
        ({"input_tokens": 10**300, "output_tokens": [1], "input_tokens_details": []}, Tokens()),
        ({"input_tokens": NumberText("1e999"), "output_tokens": float("inf")}, Tokens()),
    ],
)
def test_the_providers_own_counts_are_taken_and_nothing_else(usage: dict[str, Any] | None, expected: Tokens) -> None:
    """Each protocol's members; what is no count is unknown, never zero."""
    assert token_counts(usage) == expected


def test_totals_add_what_was_reported_and_count_what_was_not() -> None:
    """A call without usage is told; an unknown part stays unknown."""
    sums = total([Tokens(1, 2), Tokens(), Tokens(3, None, 5)])
    assert (sums.tokens, sums.unreported) == (Tokens(4, 2, 5), 1)
    assert total([]).tokens == Tokens()


@pytest.mark.parametrize(
    ("protocol", "output", "word"),
    [
        (ANTHROPIC, {"stop_reason": "end_turn"}, "end_turn"),
        (ANTHROPIC, {"stop_reason": None}, None),
        (ANTHROPIC, {"stop_reason": {"a": 1}}, None),
        (CHAT, {"choices": [{"finish_reason": "stop"}]}, "stop"),
        (CHAT, {"choices": [{"finish_reason": "stop"}, {"finish_reason": "length"}, {"finish_reason": "stop"}]},
         "stop, length"),
        (CHAT, {"choices": [7, {"finish_reason": None}]}, None),
        (CHAT, {"choices": "x"}, None),
        (RESPONSES, {"status": "completed"}, "completed"),
        (RESPONSES, {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
         "incomplete: max_output_tokens"),
        (RESPONSES, {"status": "incomplete", "incomplete_details": "x"}, "incomplete"),
        (ANTHROPIC, None, None),
        (CHAT, [], None),
        (RESPONSES, "text", None),
    ],
)  # fmt: skip
def test_the_finish_word_is_the_providers(protocol: Protocol, output: Any, word: str | None) -> None:
    """From the output as published."""
    assert finish_word(protocol, output) == word
