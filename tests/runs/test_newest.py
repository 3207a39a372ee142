"""Which attempt of a sample counts."""

from roller_capture.published import find_attempts
from roller_capture.runs.books import SampleState
from roller_capture.runs.newest import superseded
from tests.runs.made_run import MadeRun


def test_a_sample_that_was_made_again_counts_once(run: MadeRun) -> None:
    """By its newest attempt, whatever came of it; samples without a second one are not looked at."""
    again = run.add("again")
    run.record(again, SampleState.FAILED)
    run.record(again, SampleState.COMPLETED)
    run.record(run.add("once"))
    attempts = find_attempts(run.directory)
    assert len(attempts) == 3
    assert superseded(attempts) == {run.attempt("again", 1)}
    assert superseded([run.attempt("again", 1)]) == frozenset()
    (run.folder("once") / "sample.json").write_text("damaged")
    assert superseded(attempts) == {run.attempt("again", 1)}


def test_books_that_cannot_be_read_choose_nothing(run: MadeRun) -> None:
    """Neither the older nor the newer one by its name alone; they are all refused when they are opened."""
    sample = run.add("again")
    run.record(sample)
    run.record(sample)
    (run.folder("again") / "sample.json").write_text("damaged")
    assert superseded(find_attempts(run.directory)) == frozenset()


def test_attempts_without_books_are_all_there_is_to_say(run: MadeRun) -> None:
    """A folder of attempts, and copies of a sample's attempts without its sample.json."""
    sample = run.add("again")
    run.record(sample)
    run.record(sample)
    (run.folder("again") / "sample.json").unlink()
    assert superseded(find_attempts(run.directory)) == frozenset()
