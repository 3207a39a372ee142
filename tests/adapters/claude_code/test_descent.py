"""Tests of the search for the output that answers a notification."""

from roller_capture.adapters.claude_code.descent import Descent
from roller_capture.adapters.claude_code.facts import Notification, Output, Place


def _notification(line: int) -> Notification:
    return Notification("a1", "toolu_1", "completed", Place("log", line), f"n{line}")


def _answer(descent: Descent, uuid: str, parent: str | None, line: int, first_line: int | None = None) -> None:
    output = Output(Place("log", first_line or line), uuid, None)
    descent.output(uuid, parent, f"msg_{first_line or line}", output, Place("log", line))


def test_the_first_output_on_the_branch_answers() -> None:
    """A later one on another branch does not replace it."""
    descent, item = Descent(), _notification(1)
    descent.record("n1", None, item)
    descent.record("x", "n1")
    _answer(descent, "o2", "x", 3)
    _answer(descent, "o3", "x", 4)
    assert (item.first_response, item.response_place) == ("msg_3", Place("log", 3))


def test_an_output_on_another_branch_answers_nothing() -> None:
    """Only descent along parent uuids counts, not what comes next in the file."""
    descent, item = Descent(), _notification(1)
    descent.record("n1", "start", item)
    _answer(descent, "o2", "start", 2)
    assert item.first_response is None


def test_a_parent_that_stands_behind_its_child_and_a_cycle_lead_nowhere() -> None:
    """Records are followed in file order."""
    descent, item = Descent(), _notification(2)
    _answer(descent, "o1", "n2", 1)
    descent.record("n2", "o1", item)
    descent.record("o1", "n2")
    assert item.first_response is None


def test_a_long_chain_with_many_branches_is_followed_once() -> None:
    """Each notification is answered by the first output below it, however many there are."""
    descent = Descent()
    items = [_notification(line) for line in range(1, 3001)]
    for line, item in enumerate(items, 1):
        descent.record(f"n{line}", f"n{line - 1}" if line > 1 else None, item)
    for line in range(3001, 6001):
        _answer(descent, f"o{line}", "n3000", line)
    assert {item.first_response for item in items} == {"msg_3001"}
