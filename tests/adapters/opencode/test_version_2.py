"""OpenCode 2.x, known from a description of its background subagents alone: the shapes that it gives, and no others.

The recorded files are written by hand after that description; no 2.x has been run. Each test changes one thing in them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.opencode import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture, NotificationItem
from roller_capture.vocabulary import LifecycleStatus
from tests.adapters.opencode.session_rows import codes, kinds

DOCUMENTED = Path(__file__).resolve().parents[2] / "fixtures" / "harness" / "opencode" / "2.0.18-by-document"
ROOT = "ses_parent01"
CHILD = "ses_child01"
Document = dict[str, Any]
Change = Callable[[Document], None]


def capture_of(tmp_path: Path, name: str, change: Change | None = None) -> NativeCapture:
    """What the adapter makes of a described export after `change`."""
    parent = json.loads((DOCUMENTED / name / "parent.json").read_text())
    if change is not None:
        change(parent)
    # An export may have any name, and may be pretty-printed in a file that is called .jsonl.
    (tmp_path / "full.jsonl").write_text(json.dumps(parent, indent=2))
    (tmp_path / "child.json").write_text((DOCUMENTED / name / "child.json").read_text())
    return read(AdapterInput(tmp_path, {"x-session-id": frozenset({ROOT, CHILD})}))


def tool(parent: Document) -> Document:
    """The record of the delegating tool call."""
    found: Document = parent["messages"][1]["parts"][1]
    return found


def synthetic(parent: Document) -> Document:
    """The automatic message."""
    found: Document = parent["messages"][2]
    return found


def test_a_child_in_the_background(tmp_path: Path) -> None:
    """Acknowledged by `sessionID` and `status`, ended by a synthetic message with `childID` and `state`."""
    capture = capture_of(tmp_path, "background")
    assert kinds(capture) == ["spawn", "launch_acknowledged", "result_delivered", "child_completed"]
    assert codes(capture) == ["native_version_untested"]
    assert (capture.harness_version, capture.version_tested) == ("2.0.18", False)
    probe = capture.context_probes[-1].item
    assert isinstance(probe, NotificationItem)
    assert probe.value == "msg_3"
    assert f'<subagent sessionID="{CHILD}" state="completed"' in probe.texts[0]


def test_completed_at_once_is_a_child_that_was_waited_for(tmp_path: Path) -> None:
    """The result carries the child's id as well; it is no acknowledgement."""
    capture = capture_of(tmp_path, "completed-at-once")
    assert kinds(capture) == ["spawn", "result_delivered", "child_completed"]
    assert capture.participants[0].lifecycle is LifecycleStatus.COMPLETE


@pytest.mark.parametrize("spelling", ["sessionID", "sessionId", "childID"])
@pytest.mark.parametrize("record", [tool, synthetic])
def test_each_spelling_of_the_child_is_read(
    tmp_path: Path, record: Callable[[Document], Document], spelling: str
) -> None:
    """The acknowledgement and the message spell it differently; which one does is not relied on."""

    def respell(parent: Document) -> None:
        metadata = record(parent)["metadata"]
        metadata[spelling] = metadata.pop("sessionID", None) or metadata.pop("childID")

    capture = capture_of(tmp_path, "background", respell)
    assert kinds(capture) == ["spawn", "launch_acknowledged", "result_delivered", "child_completed"]


def test_the_record_may_stand_in_the_state(tmp_path: Path) -> None:
    """As 1.x has it: `callID`, and the metadata within `state`."""

    def move(parent: Document) -> None:
        record = tool(parent)
        record["callID"] = record.pop("id")
        record["state"] = {name: record.pop(name) for name in ("content", "metadata", "input")}

    capture = capture_of(tmp_path, "background", move)
    assert kinds(capture) == ["spawn", "launch_acknowledged", "result_delivered", "child_completed"]


def test_the_sentence_is_a_second_source_and_marked(tmp_path: Path) -> None:
    """The child's id is read from the acknowledgement's text only where its metadata has none, and that is named."""
    capture = capture_of(tmp_path, "background", lambda parent: tool(parent)["metadata"].pop("sessionID"))
    assert kinds(capture) == ["spawn", "launch_acknowledged", "result_delivered", "child_completed"]
    assert "native_shape_unknown" in codes(capture)


def test_a_sentence_that_names_another_child_contradicts_the_metadata(tmp_path: Path) -> None:
    """Both are the harness's own words, and neither wins."""

    def rename(parent: Document) -> None:
        tool(parent)["content"][0]["text"] = "The subagent is working (sessionID: ses_another)."

    capture = capture_of(tmp_path, "background", rename)
    assert kinds(capture) == []
    assert "native_relation_unproven" in codes(capture)


def test_a_message_of_another_session_than_its_export_is_in_none(tmp_path: Path) -> None:
    """A message that names its session itself must name that of the export."""

    def move(parent: Document) -> None:
        parent["messages"][1]["info"]["sessionID"] = "ses_another"

    capture = capture_of(tmp_path, "background", move)
    assert kinds(capture) == []
    assert "native_shape_unknown" in codes(capture)


@pytest.mark.parametrize("status", ["error", "cancelled", "queued", None, 7])
def test_a_status_that_was_never_seen_leaves_the_lifecycle_unknown(tmp_path: Path, status: object) -> None:
    """It is neither an acknowledgement nor an end."""

    def change(parent: Document) -> None:
        tool(parent)["metadata"]["status"] = status

    capture = capture_of(tmp_path, "background", change)
    assert "launch_acknowledged" not in kinds(capture)
    assert "native_relation_unproven" in codes(capture)
    assert capture.participants[0].lifecycle is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize("state", ["cancelled", "running", None])
def test_an_end_that_was_never_seen_leaves_the_lifecycle_unknown(tmp_path: Path, state: object) -> None:
    """A synthetic message with another state delivers nothing."""

    def change(parent: Document) -> None:
        synthetic(parent)["metadata"]["state"] = state

    capture = capture_of(tmp_path, "background", change)
    assert "result_delivered" not in kinds(capture)
    assert capture.participants[0].lifecycle is LifecycleStatus.UNKNOWN


@pytest.mark.parametrize(
    "text",
    ['<subagent sessionID="ses_other" state="completed">x</subagent>', f'<task id="{CHILD}" state="error">x</task>'],
)
def test_a_message_whose_text_says_otherwise_delivers_nothing(tmp_path: Path, text: str) -> None:
    """Either wrapper is read, and must agree with the metadata."""
    capture = capture_of(tmp_path, "background", lambda parent: synthetic(parent).update(text=text))
    assert "result_delivered" not in kinds(capture)
    assert capture.participants[0].lifecycle is LifecycleStatus.UNKNOWN


def test_an_idle_parent_ends_no_child(tmp_path: Path) -> None:
    """Without the message the child is pending, however well its parent ended."""
    capture = capture_of(tmp_path, "background", lambda parent: parent["messages"].pop(2))
    assert "result_delivered" not in kinds(capture)
    assert capture.participants[0].lifecycle is LifecycleStatus.PENDING


@pytest.mark.parametrize("change", [{"type": "user"}, {"metadata": {"childID": CHILD, "state": "completed"}}])
def test_a_typed_message_is_no_synthetic_one(tmp_path: Path, change: Document) -> None:
    """Its text alone proves nothing."""
    capture = capture_of(tmp_path, "background", lambda parent: synthetic(parent).update(change))
    assert "result_delivered" not in kinds(capture)
