"""Which answers must have had a call: by their steps, and by the end of the message where a log tells no steps."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.opencode import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from roller_capture.vocabulary import AttemptErrorCode, LifecycleStatus
from tests.adapters.opencode.session_rows import ROOT, Rows, task

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "harness" / "opencode" / "1.18.33"
ZERO = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
SOME = {"total": 142, "input": 100, "output": 42, "reasoning": 0, "cache": {"read": 0, "write": 0}}
WORDS = {"type": "text", "text": "An answer."}


def expected(capture: NativeCapture) -> list[str] | None:
    """The messages that must have had a call; `None` where that is not known."""
    outputs = capture.coverage.outputs
    return None if outputs is None else sorted(output.output_id for output in outputs)


def recorded(tmp_path: Path, name: str, *without: str) -> NativeCapture:
    """A recorded run, without the rows that hold one of these texts."""
    lines = (RECORDED / name / "native" / "opencode.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not any(text in line for text in without)]
    (tmp_path / "opencode.jsonl").write_text("".join(kept))
    return read(AdapterInput(tmp_path, {}))


@pytest.mark.parametrize("name", ["single", "parallel", "cut-child", "compaction", "child-failure", "subtask-command"])
@pytest.mark.parametrize("without", [(r"\"step-finish\"",), (r"\"step-finish\"", r"\"step-start\"")], ids=len)
def test_a_whole_message_is_an_answer_without_its_steps(tmp_path: Path, name: str, without: tuple[str, ...]) -> None:
    """Its own end counts, so that a log without steps expects the same calls; a command's own message is none."""
    whole, cut = (tmp_path / "whole", tmp_path / "cut")
    whole.mkdir()
    cut.mkdir()
    assert expected(recorded(cut, name, *without)) == expected(recorded(whole, name)) != []


def _answered_command(message: dict[str, Any], *parts: dict[str, Any]) -> Rows:
    """A command that launches a child, and one assistant message after it, without steps."""
    rows = Rows().session()
    asked = rows.message(ROOT, {"role": "user", "time": {"created": 1}}, "msg_asked")
    rows.part(ROOT, asked, {"type": "subtask", "prompt": "x", "agent": "general"})
    whole = {"role": "assistant", "parentID": asked, "time": {"completed": 2}, "finish": "tool-calls", "tokens": ZERO}
    made = rows.message(ROOT, {**whole, **message}, "msg_made")
    for part in parts or (task(None, status="error", error="Unknown agent"),):
        rows.part(ROOT, made, part)
    return rows


def test_a_command_s_own_message_is_no_answer(tmp_path: Path) -> None:
    """It holds the tool call that the command made: no step, no token, under the message of the command."""
    assert expected(_answered_command({}).read(tmp_path)) == []


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        pytest.param({"tokens": SOME}, (), id="tokens"),
        pytest.param({"tokens": None}, (), id="no count of tokens"),
        pytest.param({"tokens": {"input": 0}}, (), id="half a count of tokens"),
        pytest.param({"tokens": {**ZERO, "cache": {"read": 7}}}, (), id="tokens of the cache"),
        pytest.param({"parentID": "msg_other"}, (), id="under another message"),
        pytest.param({}, (WORDS,), id="words"),
        pytest.param({}, (task(None), task(None, "call_2")), id="two tool calls"),
        pytest.param({}, ({"type": "step-start"}, task(None)), id="a step that began"),
    ],
)
def test_each_mark_of_a_command_is_needed(
    tmp_path: Path, message: dict[str, Any], parts: tuple[dict[str, Any], ...]
) -> None:
    """The answer to a command may stand under the same message, and may delegate."""
    assert expected(_answered_command(message, *parts).read(tmp_path)) == ["msg_made"]


@pytest.mark.parametrize("part", [WORDS, {"type": "reasoning", "text": "Hm."}], ids=lambda part: str(part["type"]))
@pytest.mark.parametrize("time", [{"created": 1}, {"created": 1, "completed": 2}], ids=len)
def test_words_of_which_no_step_and_no_end_is_told_leave_coverage_unknown(
    tmp_path: Path, part: dict[str, Any], time: dict[str, int]
) -> None:
    """A log of another form: that nothing is expected of it would be no check at all."""
    rows = Rows().session()
    rows.answer()
    rows.part(ROOT, rows.message(ROOT, {"role": "assistant", "time": time}), part)
    assert expected(rows.read(tmp_path)) is None


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"time": {"created": 1}}, id="cut"),
        pytest.param({"time": {"completed": 2}, "error": {"name": "MessageAbortedError"}}, id="aborted"),
    ],
)
def test_an_answer_that_began_and_did_not_end_is_not_expected(tmp_path: Path, row: dict[str, Any]) -> None:
    """As a run leaves it that was killed, or a child that was stopped."""
    rows = Rows().session()
    whole = rows.answer()
    cut = rows.message(ROOT, {"role": "assistant", **row})
    for part in ({"type": "step-start"}, WORDS):
        rows.part(ROOT, cut, part)
    assert expected(rows.read(tmp_path)) == [whole]


def test_a_user_s_own_command_line_is_no_answer(tmp_path: Path) -> None:
    """`!ls` leaves an assistant message with a tool part and no finish: no model was asked."""
    rows = Rows().session()
    made = rows.message(ROOT, {"role": "assistant", "time": {"completed": 2}, "tokens": ZERO})
    state = {"status": "completed", "input": {"command": "ls"}, "output": "x"}
    rows.part(ROOT, made, {"type": "tool", "tool": "bash", "callID": "01M8", "state": state})
    assert expected(rows.read(tmp_path)) == []


def test_an_export_of_2_x_without_steps_expects_its_answers(tmp_path: Path) -> None:
    """As the described export, with the step parts taken out."""
    folder = RECORDED.parent / "2.0.18-by-document" / "background"
    for name in ("parent.json", "child.json"):
        document = json.loads((folder / name).read_text())
        for message in document["messages"]:
            kept = [part for part in message.get("parts", ()) if not part["type"].startswith("step-")]
            message.update({"parts": kept} if "parts" in message else {})
        (tmp_path / name).write_text(json.dumps(document))
    capture = read(AdapterInput(tmp_path, {"x-session-id": frozenset({"ses_parent01", "ses_child01"})}))
    assert expected(capture) == ["msg_2", "msg_4", "msg_c1"]


@pytest.mark.parametrize("name", ["single", "parallel"])
def test_a_log_without_an_answer_that_a_call_names_is_not_the_whole(tmp_path: Path, name: str) -> None:
    """A copy that is older than the calls: the last answer of the run is not in it, and may have launched anything."""
    calls = json.loads((RECORDED / name / "calls.json").read_text())
    seen = frozenset(
        call["headers"]["x-roller-message-id"] for call in calls if call["headers"].get("x-roller-message-id")
    )
    recorded(tmp_path, name, max(seen))
    capture = read(AdapterInput(tmp_path, {"x-roller-message-id": seen}))
    assert expected(capture) is None
    assert capture.lifecycle is LifecycleStatus.UNKNOWN
    assert [gap.code for gap in capture.gaps] == [AttemptErrorCode.PARTICIPANT_LOG_MISSING]
