"""Tests of reading values of any type."""

import pytest

from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word, is_locatable

_ANY = [None, True, 0, 1.5, "", "word", [], ["a"], {}, {"a": 1}]


@pytest.mark.parametrize("value", _ANY, ids=repr)
def test_a_value_of_another_type_is_as_good_as_none(value: object) -> None:
    """No helper raises, and each gives back only its own type."""
    assert as_text(value) == (value if isinstance(value, str) else None)
    assert as_list(value) == (value if isinstance(value, list) else [])
    assert as_mapping(value) == (value if isinstance(value, dict) else {})
    assert as_id(value) == (value if value == "word" else None)
    assert as_word(value) == (value if value == "word" else None)


@pytest.mark.parametrize("value", ["x" * 513, "\ud800", ""])
def test_an_id_has_a_sane_length_and_a_utf8_form(value: str) -> None:
    """What cannot be written to a file is no id."""
    assert as_id(value) is None


@pytest.mark.parametrize("value", ["two words", "x" * 41, "line\n", "é", "<b>"])
def test_a_word_is_short_and_plain(value: str) -> None:
    """Native text never gets into published outcomes."""
    assert as_word(value) is None


@pytest.mark.parametrize(
    ("value", "locatable"),
    [("msg_01", True), ("a b", False), ("ü", False), ('a"b', False), ("a\\b", False), ("", False)],
)
def test_only_ids_that_json_spells_letter_by_letter_are_put_into_locators(value: str, locatable: bool) -> None:
    """Whoever resolves a locator looks for the id's own bytes."""
    assert is_locatable(value) is locatable
