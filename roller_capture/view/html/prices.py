"""What calls cost by a table that the user gives. What has no price has no cost: nothing is guessed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.view.attempt import Call
from roller_capture.view.words import cut
from roller_capture.vocabulary import Protocol
from roller_capture.working_files import read_regular_file

_LARGEST_TABLE: Final = 4 * 1024 * 1024
_KINDS: Final = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
_EXAMPLE: Final = '{"currency": "USD", "per_tokens": 1000000, "models": {"NAME": {"input": 3, "output": 15}}}'


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by model name; a name that ends with `*` stands for all that begin so, the longest first."""

    currency: str
    per_tokens: float
    models: Mapping[str, Mapping[str, float]]

    def cost(self, call: Call) -> float | None:
        """What a call cost, in the table's currency; `None` where its usage or a price that it takes is not known."""
        model = call.record["model"]["responded"] or call.record["model"]["requested"]
        prices = self._of(model)
        amounts = _amounts(call)
        if prices is None or amounts is None:
            return None
        if any(amount and kind not in prices for kind, amount in amounts.items()):
            return None
        return math.fsum(amount * prices.get(kind, 0.0) for kind, amount in amounts.items()) / self.per_tokens

    def _of(self, model: str | None) -> Mapping[str, float] | None:
        if model is None:
            return None
        if model in self.models:
            return self.models[model]
        fitting = [name for name in self.models if name.endswith("*") and model.startswith(name[:-1])]
        return self.models[max(fitting, key=len)] if fitting else None


def _amounts(call: Call) -> dict[str, int] | None:
    """Tokens by kind of price. OpenAI's input counts what the cache read and wrote as well, Anthropic's does not."""
    tokens = call.tokens
    if tokens.input is None or tokens.output is None:
        return None
    read, written = tokens.cache_read or 0, tokens.cache_creation or 0
    fresh = tokens.input
    if call.record["protocol"] != Protocol.ANTHROPIC_MESSAGES:
        fresh -= read + written
    if fresh < 0:
        return None
    hour = _written_for_an_hour(call.record["usage"], written)
    return {
        "input": fresh,
        "output": tokens.output,
        "cache_read": read,
        "cache_write": written - hour,
        "cache_write_1h": hour,
    }


def _written_for_an_hour(usage: dict[str, Any] | None, written: int) -> int:
    """Anthropic's cache has two lifetimes with two prices."""
    kinds = (usage or {}).get("cache_creation")
    hour = kinds.get("ephemeral_1h_input_tokens") if isinstance(kinds, dict) else None
    return hour if isinstance(hour, int) and not isinstance(hour, bool) and 0 <= hour <= written else 0


def read_prices(path: Path) -> Prices:
    """The table in a JSON file. Raises `RollerError` (exit 2) with what is wrong in it."""
    try:
        value = json_text.parse(read_regular_file(path, limit=_LARGEST_TABLE))
    except OSError as error:
        raise RollerError(f"{path}: cannot be read ({error.strerror or error})", exit_code=2) from None
    except json_text.JsonError as error:
        raise RollerError(f"{path}: is no JSON ({error}): write {_EXAMPLE}", exit_code=2) from None
    problem = _problem(value)
    if problem is not None:
        raise RollerError(f"{path}: {problem}: write {_EXAMPLE}", exit_code=2)
    models = {name: {kind: float(price) for kind, price in item.items()} for name, item in value["models"].items()}
    return Prices(value.get("currency", "USD"), float(value.get("per_tokens", 1_000_000)), models)


def _problem(value: Any) -> str | None:
    if not isinstance(value, dict) or not isinstance(value.get("models"), dict) or not value["models"]:
        return "names no models"
    unknown = sorted(set(value) - {"currency", "per_tokens", "models"})
    if unknown:
        return f"{cut(unknown[0])} is no member of a price table"
    currency = value.get("currency", "USD")
    if not isinstance(currency, str) or not 0 < len(currency) <= 8 or not currency.isprintable():
        return "currency is no short word"
    if not _is_amount(value.get("per_tokens", 1)) or value.get("per_tokens", 1) == 0:
        return "per_tokens is no number above 0"
    for name, prices in value["models"].items():
        if not isinstance(prices, dict) or not prices:
            return f"{cut(name)} has no prices"
        for kind, price in prices.items():
            if kind not in _KINDS:
                return f"{cut(name)}: {cut(kind)} is none of {', '.join(_KINDS)}"
            if not _is_amount(price):
                return f"{cut(name)}: {kind} is no number"
    return None


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12
