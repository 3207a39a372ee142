"""Costs by the user's table: each protocol counts its input in its own way, and what has no price has no cost."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.view.attempt import Call
from roller_capture.view.html.prices import Prices, read_prices
from roller_capture.view.provider_words import token_counts

PRICES = Prices("USD", 10, {"m": {"input": 100, "output": 1000, "cache_read": 10, "cache_write": 125}})


def call(usage: dict[str, Any] | None, *, protocol: str = "anthropic-messages", model: str | None = "m") -> Call:
    models = {"requested": "asked", "responded": model}
    return Call({"usage": usage, "protocol": protocol, "model": models}, None, token_counts(usage))


def test_anthropic_counts_the_cache_beside_the_input() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 4}
    assert PRICES.cost(call(usage)) == pytest.approx((1 * 100 + 2 * 1000 + 3 * 10 + 4 * 125) / 10)


@pytest.mark.parametrize(
    ("protocol", "usage"),
    [
        (
            "openai-chat-completions",
            {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}},
        ),
        ("openai-responses", {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}),
    ],
)
def test_openai_counts_the_cache_within_the_input(protocol: str, usage: dict[str, Any]) -> None:
    assert PRICES.cost(call(usage, protocol=protocol)) == pytest.approx((6 * 100 + 2 * 1000 + 4 * 10) / 10)


def test_what_an_hour_of_cache_costs_needs_its_own_price() -> None:
    usage = {"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 5}
    usage |= {"cache_creation": {"ephemeral_1h_input_tokens": 2, "ephemeral_5m_input_tokens": 3}}  # type: ignore[dict-item]
    assert PRICES.cost(call(usage)) is None
    priced = Prices("USD", 1, {"m": {**PRICES.models["m"], "cache_write_1h": 200}})
    assert priced.cost(call(usage)) == 3 * 125 + 2 * 200


@pytest.mark.parametrize(
    "one",
    [
        call(None),
        call({"input_tokens": 1}),
        call({"input_tokens": 1, "output_tokens": 1}, model="unknown"),
        call(
            {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}},
            protocol="openai-chat-completions",
        ),
    ],
)
def test_what_is_not_known_costs_nothing_that_could_be_said(one: Call) -> None:
    assert PRICES.cost(one) is None


def test_the_longest_name_that_fits_wins_and_an_exact_one_before_all() -> None:
    kinds = {"input": 1.0, "output": 0.0}
    prices = Prices("USD", 1, {"*": kinds, "big-*": {**kinds, "input": 2}, "big-one": {**kinds, "input": 3}})
    usage = {"input_tokens": 1, "output_tokens": 1}
    assert [prices.cost(call(usage, model=model)) for model in ("x", "big-two", "big-one")] == [1, 2, 3]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ([], "names no models"),
        ({"models": {}}, "names no models"),
        ({"models": {"m": {"input": "3"}}}, "m: input is no number"),
        ({"models": {"m": {"input": True}}}, "m: input is no number"),
        ({"models": {"m": {"inputs": 3}}}, "m: inputs is none of input, output"),
        ({"models": {"m": {}}}, "m has no prices"),
        ({"models": {"m": {"input": 3}}, "per_tokens": 0}, "per_tokens is no number above 0"),
        ({"models": {"m": {"input": 3}}, "currency": "\u202e"}, "currency is no short word"),
        ({"models": {"m": {"input": 3}}, "price": 1}, "price is no member"),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(tmp_path: Path, table: Any, problem: str) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(table))
    with pytest.raises(RollerError, match=problem) as refused:
        read_prices(path)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [None, "no json", '{"models":'])
def test_a_table_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "prices.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RollerError) as refused:
        read_prices(path)
    assert refused.value.exit_code == 2
