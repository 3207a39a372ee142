"""What the spellings of a tool call's id share in OpenClaw: the provider's, its log's and its requests'."""

import pytest

from roller_capture.acceptance.plans.openclaw import PLAN


@pytest.mark.parametrize(
    "spelling", ["call_n0nabn0", "calln0nabn0", "call_n0nabn0|fc_n0nabn0", "call-n0nabn0|"], ids=repr
)
def test_all_spellings_are_one_id(spelling: str) -> None:
    """As measured; the answer's mark stays in it."""
    assert PLAN.plain_tool_id(spelling) == "calln0nabn0"
