"""Tests of the collection of gaps."""

from roller_capture.adapters.gap_log import GapLog
from roller_capture.capture_protocol import Gap
from roller_capture.vocabulary import AttemptErrorCode

_CODE = AttemptErrorCode.NATIVE_SHAPE_UNKNOWN


def test_equal_gaps_of_one_file_become_one_with_a_count() -> None:
    """The locator is that of the first."""
    gaps = GapLog()
    for line in (3, 7, 9):
        gaps.add(_CODE, "is strange", source="a", line=line)
    gaps.add(_CODE, "is strange", source="b")
    assert gaps.gaps() == (
        Gap(_CODE, "is strange (3 times)", "a", "line:3"),
        Gap(_CODE, "is strange", "b", None),
    )
