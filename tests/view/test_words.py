"""Numbers, durations and lists as a person reads them."""

import pytest

from roller_capture.view.words import cache_words, call_numbers, count, cut, duration, listing


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, ""), (0, "0 ms"), (11.85, "12 ms"), (999.4, "999 ms"), (1000, "1.0 s"), (59_900, "59.9 s"),
        (59_990, "1 min 00 s"), (125_000, "2 min 05 s"), (3_600_000, "1 h 00 min"), (1e30, "277,777,777 h 46 min"),
    ],
)  # fmt: skip
def test_durations(milliseconds: float | None, text: str) -> None:
    """In the unit that fits."""
    assert duration(milliseconds) == text


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""), ([3], "#3"), ([5, 3], "#3, #5"), ([1, 2, 3, 7, 8], "#1-#3, #7-#8"), ([2, 2], "#2"),
        (range(1, 41, 2), "#1, #3, #5, #7, #9, #11, #13, #15, #17, #19, #21, #23 and 8 more"),
    ],
)  # fmt: skip
def test_call_numbers_join_what_follows_each_other(numbers: list[int], text: str) -> None:
    """And nothing that does not."""
    assert call_numbers(numbers) == text


def test_words_for_one_and_many_for_long_and_for_nothing() -> None:
    """Counts, cuts, lists, cache."""
    assert [count(number, "call") for number in (0, 1, 1234)] == ["0 calls", "1 call", "1,234 calls"]
    assert cut("a" * 60, 10) == "a" * 9 + "…"
    assert listing(list("abc"), 2) == "a, b and 1 more"
    assert [cache_words(5000, 70), cache_words(0, None), cache_words(None, 1)] == [
        "cache 5,000 read, 70 written",
        "",
        "cache 1 written",
    ]
