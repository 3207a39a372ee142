"""Does the model that answered match the one that was asked?"""

import pytest

from roller_capture.finalizer.model_names import match_models


@pytest.mark.parametrize(
    ("requested", "responded", "rule"),
    [
        ("m", "m", "equal"),
        ("claude-sonnet-4", "claude-sonnet-4-20250514", "date_suffix"),
        ("gpt-x-2025-01-31", "gpt-x", "date_suffix"),
        ("vendor/m", "m", "provider_prefix"),
        ("m", "models/m", "provider_prefix"),
        ("m[1m]", "m", "context_suffix"),
        ("vendor/m[1m]", "m-20250514", "context_suffix+provider_prefix+date_suffix"),
        ("mine", "theirs", "alias"),
        ("m", None, "unreported"),
        (None, "m", "unrequested"),
        (None, None, "unreported"),
        ("m", "m-large", "mismatch"),
        ("m-20250514", "m-20250601", "mismatch"),
        ("a/m", "b/m", "mismatch"),
        ("m", "m-2", "mismatch"),
        ("m", "m-12345678", "mismatch"),
        ("", "m", "mismatch"),
        ("20250514", "-20250514", "mismatch"),
        ("M", "m", "mismatch"),
    ],
)
def test_names_match_when_equal_or_by_one_of_the_stated_rules(
    requested: str | None, responded: str | None, rule: str
) -> None:
    """The rule is recorded; anything else is a mismatch."""
    assert match_models(requested, responded, {"mine": "theirs"}) == rule
