from pathlib import Path

import pytest

from benchmarks.sessions import Shape, clone, record_session
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.integrity import validate_attempt
from roller_capture.published import call_lines

GROWING = Shape(calls=20, first_body=4_000, last_body=40_000, answer=200, children=2, child_calls=3)
LEVEL = Shape(calls=20, first_body=2_000, last_body=2_000, answer=100, children=2, child_calls=3)


@pytest.mark.parametrize("shape", [GROWING, LEVEL])
def test_a_made_up_session_is_a_complete_capture(tmp_path: Path, shape: Shape) -> None:
    """The real adapter finds every agent and output, so that the figures are those of the whole work."""
    record_session(tmp_path, shape)
    manifest = finalize_attempt(tmp_path, FinalizeRequest()).manifest
    assert manifest["status_reasons"] == []
    assert manifest["counts"]["calls"] == manifest["counts"]["exportable_calls"] == shape.calls
    assert manifest["counts"]["participants"] == 1 + shape.children
    assert manifest["counts"]["relations"]["result_delivered"] == shape.children
    assert manifest["counts"]["relations"]["result_in_context"] >= shape.children
    assert validate_attempt(tmp_path, deep=True) == []


def test_bodies_have_the_sizes_that_the_shape_says(tmp_path: Path) -> None:
    """The root's first and last request, within a hundredth and a twentieth."""
    record_session(tmp_path, Shape(calls=12, first_body=20_000, last_body=80_000, answer=200))
    finalize_attempt(tmp_path, FinalizeRequest())
    sizes = [len(line.context) for line in call_lines(tmp_path / "calls.jsonl")]
    assert sizes[0] == pytest.approx(20_000, rel=0.01)
    assert sizes[-1] == pytest.approx(80_000, rel=0.05)


def test_a_clone_can_be_finalized_and_leaves_the_original_alone(tmp_path: Path) -> None:
    """Every repetition finds the same working folder."""
    record_session(tmp_path / "one", LEVEL)
    clone(tmp_path / "one", tmp_path / "two")
    before = sorted(path for path in (tmp_path / "one").rglob("*"))
    finalize_attempt(tmp_path / "two", FinalizeRequest())
    assert sorted(path for path in (tmp_path / "one").rglob("*")) == before
