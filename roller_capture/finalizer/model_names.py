"""Is the model that answered the one that was asked? By equality or by one of a few stated rules (design section 5)."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from roller_capture.vocabulary import ModelMatch

_DATE: Final = re.compile(r"[-@:](?:20\d\d-?[01]\d-?[0-3]\d)$")
_CONTEXT: Final = re.compile(r"\[\d+[km]\]$", re.IGNORECASE)


class Name(NamedTuple):
    """A model name with the parts taken off that a rule lets differ."""

    bare: str
    context: str
    prefix: str
    date: str


def match_models(requested: str | None, responded: str | None, aliases: Mapping[str, str]) -> str:
    """The rule that makes the two names match, several joined by `+`; or `mismatch`, `unreported`, `unrequested`.

    `aliases` maps a requested name to the name that the service answers with (`--model-alias A=B`).
    """
    if responded is None:
        return ModelMatch.UNREPORTED
    if requested is None:
        return ModelMatch.UNREQUESTED
    if requested == responded:
        return ModelMatch.EQUAL
    if aliases.get(requested) == responded:
        return ModelMatch.ALIAS
    asked, answered = _split(requested), _split(responded)
    if asked.bare != answered.bare or not asked.bare:
        return ModelMatch.MISMATCH
    rules = [
        _differs(ModelMatch.CONTEXT_SUFFIX, asked.context, answered.context),
        _differs(ModelMatch.PROVIDER_PREFIX, asked.prefix, answered.prefix),
        _differs(ModelMatch.DATE_SUFFIX, asked.date, answered.date),
    ]
    return ModelMatch.MISMATCH if ModelMatch.MISMATCH in rules else "+".join(rule for rule in rules if rule)


def _differs(rule: ModelMatch, asked: str, answered: str) -> ModelMatch | None:
    """A part may be there on one side and absent on the other; two different ones are two different models."""
    if asked == answered:
        return None
    return ModelMatch.MISMATCH if asked and answered else rule


def _split(name: str) -> Name:
    context = _CONTEXT.search(name)
    rest = name[: context.start()] if context else name
    date = _DATE.search(rest)
    rest = rest[: date.start()] if date else rest
    prefix, _, bare = rest.rpartition("/")
    return Name(bare, context.group() if context else "", prefix, date.group() if date else "")
