"""Token ids and log probabilities are found where services put them, and nowhere else."""

from typing import Any

from roller_capture.export.tokens import logprobs, token_ids


def test_the_places_of_each_service() -> None:
    """By JSON Pointer; empty ones are none."""
    vllm = {"prompt_token_ids": [1], "choices": [{"token_ids": [2], "logprobs": None}, {"token_ids": []}]}
    assert token_ids(vllm) == {"/prompt_token_ids": [1], "/choices/0/token_ids": [2]}
    assert logprobs(vllm) == {}
    sglang = {"choices": [{"meta_info": {"output_token_logprobs": [[-0.5, 3, None]]}}]}
    assert logprobs(sglang) == {"/choices/0/meta_info/output_token_logprobs": [[-0.5, 3, None]]}
    responses = {"output": [{"content": [{"text": "a", "logprobs": [{"token": "a", "logprob": -1}]}]}]}
    assert logprobs(responses) == {"/output/0/content/0/logprobs": [{"token": "a", "logprob": -1}]}


def test_what_a_tool_was_given_is_not_searched() -> None:
    """An argument may have any name."""
    assert token_ids({"content": [{"type": "tool_use", "input": {"token_ids": [1]}}]}) == {}


def test_depth_is_bounded_and_no_shape_breaks_it() -> None:
    """Output is what a service sent."""
    deep: dict[str, Any] = {"token_ids": [1]}
    for _ in range(2000):
        deep = {"message": deep}
    assert token_ids(deep) == {}
    for value in (None, [], 1, {"choices": 1}, {"choices": [None, [{}]]}, {"output": {"content": []}}):
        assert token_ids(value) == {}
