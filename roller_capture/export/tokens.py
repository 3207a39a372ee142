"""Token ids and log probabilities in a response, wherever its service puts them.

vLLM: `prompt_token_ids` and `prompt_logprobs` of the response, `token_ids` of a choice; SGLang: `meta_info` of a
choice; OpenAI: `logprobs` of a choice, and of a part of an output item. Nothing else of the output is searched.
"""

from collections.abc import Iterator
from typing import Any, Final

from roller_capture import json_text

_TOKEN_IDS: Final = frozenset({"token_ids", "prompt_token_ids", "output_token_ids", "output_ids", "input_token_ids"})
_LOGPROBS: Final = frozenset(
    {"logprobs", "prompt_logprobs", "output_token_logprobs", "input_token_logprobs", "output_top_logprobs"}
)
_LISTS: Final = ("choices", "output", "content")
_OBJECTS: Final = ("message", "meta_info")
_DEEPEST: Final = 4
"""A part in the content of an item of the output, and no deeper."""


def token_ids(output: Any) -> dict[str, Any]:
    """JSON Pointer → what stands there."""
    return dict(_found(output, _TOKEN_IDS, ""))


def logprobs(output: Any) -> dict[str, Any]:
    """The same for log probabilities."""
    return dict(_found(output, _LOGPROBS, ""))


def _found(value: Any, names: frozenset[str], at: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict) or depth > _DEEPEST:
        return
    for name in sorted(value.keys() & names):
        if value[name] not in (None, [], {}):
            yield f"{at}/{name}", value[name]
    for name in _OBJECTS:
        yield from _found(value.get(name), names, f"{at}/{name}", depth + 1)
    for name in _LISTS:
        items = value.get(name)
        for position, item in enumerate(items if isinstance(items, list) else []):
            yield from _found(item, names, at + json_text.pointer(name, position), depth + 1)
