"""`export main`: the root's conversation as ACTF and SFT rows, and why there is none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from roller_capture import finalize_attempt
from roller_capture.capture_protocol import (
    ContextProbe,
    Delivery,
    NativeCapture,
    NativeRelation,
    PurposeClaim,
    ToolResultItem,
)
from roller_capture.cli import app
from roller_capture.export.main import trajectory
from roller_capture.finalize_attempt import FinalizeRequest
from roller_capture.schemas import schema_findings
from roller_capture.vocabulary import BoundBy, DeliveryKind, ExecutionStatus, Purpose, RelationType
from tests.adapters.codex.rollouts import FIRST_AGENT
from tests.export.published import FUNCTION, RESPONSES_REQUEST, RESPONSES_RESPONSE, publish_calls
from tests.support.attempts import (
    CHILD_AGENT,
    AttemptBuilder,
    evidence,
    message_body,
    native_capture,
    participant,
)
from tests.support.publish import lines

Exchange = tuple[str, Any, Any]


def export(*arguments: str | Path) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `export main`."""
    result = CliRunner().invoke(app, ["export", "main", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def completion(number: int, text: str | None, call: str | None = None, arguments: str = '{"at": "."}') -> Any:
    """A response of Chat Completions."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if call:
        function = {"name": "ls", "arguments": arguments}
        message["tool_calls"] = [{"id": call, "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def asked(*messages: Any, tools: Any = None) -> Any:
    system = {"role": "system", "content": "be brief"}
    tools = [{"type": "function", "function": FUNCTION}] if tools is None else tools
    return {"model": "m", "temperature": 1, "messages": [system, *messages], "tools": tools}


GO = {"role": "user", "content": "go"}
SAID = {
    "role": "assistant",
    "content": None,
    "tool_calls": completion(1, None, "t1")["choices"][0]["message"]["tool_calls"],
}
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "a b"}


def two_turns() -> list[Exchange]:
    """A tool call and the answer."""
    return [
        ("openai-chat-completions", asked(GO), completion(1, None, "t1")),
        ("openai-chat-completions", asked(GO, SAID, RESULT), completion(2, "done")),
    ]


def test_a_conversation_is_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last request and its answer; each answer knows its call; the configuration is the root's."""
    publish_calls(tmp_path / "run" / "samples" / "s" / "capture" / "attempt-0001", monkeypatch, two_turns())
    code, out, err = export(tmp_path / "run", "--output", tmp_path / "o.jsonl", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 1
    assert "exported 1 main trajectory, of 1 attempt" in err
    (row,) = lines(tmp_path / "o.jsonl")
    assert list(schema_findings("roller.actf.v1.json", row)) == []
    assert row["segment"] == {"number": 1, "of": 1, "cut_by": None}
    assert [message["role"] for message in row["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert [message["call_id"] for message in row["messages"]] == [
        None,
        None,
        row["call_ids"][0],
        None,
        row["call_ids"][1],
    ]
    assert row["messages"][-1]["origin"] == {"in": "output", "at": "/choices/0/message"}
    assert row["parameters"] == {"model": "m", "temperature": 1}
    assert row["tools"] == [{"type": "function", "function": FUNCTION}]
    assert row["sample_id"] == "s"
    assert row["manifest_path"] == "run/samples/s/capture/attempt-0001/manifest.json"
    assert not {"loss", "mask", "weight", "reward"} & set(json.dumps(row).replace('"', " ").split())


def test_sft_rows_are_messages_and_tools_as_templates_take_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments are objects, and no text is null."""
    publish_calls(tmp_path / "a", monkeypatch, two_turns())
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl", "--as", "sft")[0] == 0
    (row,) = lines(tmp_path / "o.jsonl")
    call = {"id": "t1", "type": "function", "function": {"name": "ls", "arguments": {"at": "."}}}
    assert row["messages"] == [
        {"role": "system", "content": "be brief"},
        GO,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "a b", "tool_call_id": "t1"},
        {"role": "assistant", "content": "done"},
    ]
    assert row["tools"] == [{"type": "function", "function": FUNCTION}]
    assert (row["segment"], row["segments"], row["notifications"]) == (1, 1, [])


def test_a_compaction_gives_a_row_for_each_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """n of m, with the call that cut."""
    summary = {"role": "user", "content": "What went before: nothing."}
    exchanges = [
        *two_turns(),
        ("openai-chat-completions", asked(GO, SAID, RESULT, {"role": "user", "content": "sum up"}), completion(3, "s")),
        ("openai-chat-completions", asked(summary), completion(4, "on")),
    ]
    publish_calls(tmp_path / "a", monkeypatch, exchanges, purposes={"chatcmpl-3": Purpose.COMPACTION})
    code, _, err = export(tmp_path / "a", "--output", tmp_path / "o.jsonl")
    assert code == 0
    assert "segments between compactions: 2" in err
    first, second = lines(tmp_path / "o.jsonl")
    assert first["segment"] == {"number": 1, "of": 2, "cut_by": None}
    assert (second["segment"]["number"], second["segment"]["of"]) == (2, 2)
    assert second["segment"]["cut_by"].endswith("_000003")
    assert [message["content"] for message in second["messages"]] == ["be brief", summary["content"], "on"]


def test_calls_that_did_not_end_well_are_named_and_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry takes their place."""
    cut = completion(9, "half")
    cut["choices"][0]["finish_reason"] = "length"
    exchanges = [("openai-chat-completions", asked(GO), cut), *two_turns()]
    publish_calls(tmp_path / "a", monkeypatch, exchanges)
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl")[0] == 0
    (row,) = lines(tmp_path / "o.jsonl")
    assert [item["blockers"] for item in row["left_out_calls"]] == [["output_truncated"]]
    assert len(row["messages"]) == 5


def with_(name: str, value: Any) -> Callable[[list[Exchange]], None]:
    """Changes the second request."""

    def change(exchanges: list[Exchange]) -> None:
        exchanges[1][1][name] = value

    return change


def both(name: str, value: Any) -> Callable[[list[Exchange]], None]:
    """Changes both requests."""

    def change(exchanges: list[Exchange]) -> None:
        for _, request, _ in exchanges:
            request[name] = value

    return change


@pytest.mark.parametrize(
    ("change", "form", "reason"),
    [
        (with_("messages", [GO, {"role": "assistant", "content": "else"}]), "actf", "the history changed"),
        (with_("messages", [{"role": "user", "content": [{"type": "image_url"}]}]), "actf", "no chat form: image_url"),
        (with_("tools", []), "sft", "the tools changed on the way"),
        (both("tools", [{"type": "web_search"}]), "sft", "a tool that is no function"),
        (both("tools", [{"type": "custom", "custom": {"name": "x"}}]), "sft", "a tool that is no function"),
        (both("tools", [{"type": "function", "function": {**FUNCTION, "description": "\ud800"}}]), "sft", "lone surr"),
        (
            both("tools", [{"type": "function", "function": {**FUNCTION, "parameters": 1 << 70}}]),
            "sft",
            "a number that",
        ),
    ],
)
def test_what_would_be_a_guess_is_refused_with_its_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[list[Exchange]], None],
    form: str,
    reason: str,
) -> None:
    """Named with the call; nothing of the attempt is written, and the other attempts are."""
    exchanges: list[Exchange] = json.loads(json.dumps(two_turns()))
    change(exchanges)
    publish_calls(tmp_path / "run" / "bad", monkeypatch, exchanges)
    publish_calls(tmp_path / "run" / "good", monkeypatch, two_turns(), capture_id="cap_good567890123456789")
    code, _, err = export(tmp_path / "run", "--output", tmp_path / "o.jsonl", "--as", form)
    assert code == 0
    assert [row["attempt"] for row in lines(tmp_path / "o.jsonl")] == ["good"]
    assert f"1  {reason}" in err
    assert "_000002" in err or form == "sft"
    calls = CliRunner().invoke(app, ["export", "calls", str(tmp_path / "run"), "--output", str(tmp_path / "c.jsonl")])
    assert calls.exit_code == 0
    assert len(lines(tmp_path / "c.jsonl")) == 4


def test_a_call_that_may_have_been_a_turn_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells what it was made for; a title is known to be none."""
    exchanges = [
        *two_turns(),
        ("openai-chat-completions", asked(GO), completion(7, "which?")),
        ("openai-chat-completions", asked(GO), completion(8, "a title")),
    ]
    purposes = {"chatcmpl-7": Purpose.UNKNOWN, "chatcmpl-8": Purpose.TITLE}
    publish_calls(tmp_path / "a", monkeypatch, exchanges, purposes=purposes)
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl")[0] == 0
    (row,) = lines(tmp_path / "o.jsonl")
    assert [(item["purpose"], item["blockers"]) for item in row["left_out_calls"]] == [("unknown", [])]
    assert list(schema_findings("roller.actf.v1.json", row)) == []


def test_answers_that_nobody_here_gave_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an earlier run, or of a call that was barred: what to do with them is for those who train."""
    cut = completion(8, "half")
    cut["choices"][0]["finish_reason"] = "length"
    earlier, half = {"role": "assistant", "content": "hello"}, {"role": "assistant", "content": "half"}
    exchanges = [
        ("openai-chat-completions", asked(GO, earlier, GO), cut),
        ("openai-chat-completions", asked(GO, earlier, GO, half, GO), completion(9, "whole")),
    ]
    publish_calls(tmp_path / "a", monkeypatch, exchanges)
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl", "--as", "sft")[0] == 0
    (row,) = lines(tmp_path / "o.jsonl")
    assert row["unproven_answers"] == [2, 4]
    assert (row["finish"], row["execution_status"], row["system_changed_at"]) == ("stop", "completed", [])


def test_messages_between_agents_are_in_actf_and_in_no_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex has items of their own for them; no chat template has such a role."""
    item = {
        "type": "agent_message",
        "id": "amsg_1",
        "author": f"{FIRST_AGENT}/child",
        "content": [{"type": "input_text", "text": "FINAL_ANSWER: 3"}],
    }
    asked_for = {**RESPONSES_REQUEST, "tools": [{"type": "function", **FUNCTION}]}
    request = {**asked_for, "input": [*asked_for["input"], item]}  # type: ignore[misc]
    publish_calls(tmp_path / "a", monkeypatch, [("openai-responses", request, RESPONSES_RESPONSE)])
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl")[0] == 0
    (row,) = lines(tmp_path / "o.jsonl")
    assert list(schema_findings("roller.actf.v1.json", row)) == []
    (message,) = (message for message in row["messages"] if message["role"] == "agent_message")
    assert (message["content"], message["name"], message["id"]) == ("FINAL_ANSWER: 3", f"{FIRST_AGENT}/child", "amsg_1")
    code, _, err = export(tmp_path / "a", "--output", tmp_path / "s.jsonl", "--as", "sft")
    assert (code, "a message between agents" in err) == (1, True)


def test_actf_is_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is read."""
    publish_calls(tmp_path / "a", monkeypatch, two_turns())
    code, _, err = export(tmp_path / "a", "--output", tmp_path / "o.parquet", "--format", "parquet")
    assert (code, "is for --as sft" in err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


@pytest.mark.parametrize("arguments", ["[1]", "{", '"x"'])
def test_arguments_that_templates_cannot_take_are_refused_for_sft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    """ACTF has them as they are."""
    publish_calls(
        tmp_path / "a",
        monkeypatch,
        [("openai-chat-completions", asked(GO), completion(1, None, "t1", arguments))],
    )
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl")[0] == 0
    code, _, err = export(tmp_path / "a", "--output", tmp_path / "s.jsonl", "--as", "sft")
    assert code == 1
    assert "arguments that are no JSON object" in err
    assert "no file was written" in err


def test_existing_and_invalid_are_treated_as_by_every_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, and exit 1."""
    publish_calls(tmp_path / "a", monkeypatch, two_turns())
    (tmp_path / "o.jsonl").write_text("mine")
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl")[0] == 2
    (tmp_path / "a" / "calls.jsonl").write_text("")
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl", "--overwrite")[0] == 1
    assert (tmp_path / "o.jsonl").read_text() == "mine"


def notified_attempt(directory: Path, monkeypatch: pytest.MonkeyPatch, *, held: bool, harness: str) -> Path:
    """The root's second request holds, or does not, what the child's notification brought."""
    builder = AttemptBuilder(directory, harness=harness)
    go = {"role": "user", "content": "go"}
    spawn = json.loads(message_body("msg_1", tools=(("toolu_1", "Agent"),)))
    note = {"role": "user", "content": [{"type": "text", "text": "<note>child: done</note>"}]}
    started = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "started"}
    later = [go, {"role": "assistant", "content": spawn["content"]}, {"role": "user", "content": [started]}, note]
    builder.call(json.dumps({"model": "fake-model", "messages": [go]}).encode(), json.dumps(spawn).encode())
    builder.call(json.dumps({"model": "fake-model", "messages": later}).encode(), message_body("msg_2"))
    builder.build()
    delivery = Delivery(DeliveryKind.NOTIFICATION, BoundBy.ANNOUNCEMENT_RUN_ID, "run_1")
    result = NativeRelation(
        RelationType.RESULT_DELIVERED, "root", CHILD_AGENT, "toolu_1", (evidence(),), delivery=delivery
    )
    native: NativeCapture = native_capture(
        participant("root"),
        participant(CHILD_AGENT, parent="root"),
        response_ids={"msg_1": "root", "msg_2": "root"},
        purpose_claims=tuple(
            PurposeClaim("response_id", item, Purpose.AGENT, evidence()) for item in ("msg_1", "msg_2")
        ),
        relations=(result,),
        context_probes=(ContextProbe(result, ToolResultItem("toolu_1")),) if held else (),
    )
    monkeypatch.setattr(finalize_attempt, "find_adapter", lambda _name: lambda _source: native)
    finalize_attempt.finalize_attempt(directory, FinalizeRequest(execution_status=ExecutionStatus.COMPLETED))
    return directory


def test_a_notification_is_as_it_was_sent_and_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message that the relation's pointer leads into; role and wrapper stay."""
    notified_attempt(tmp_path / "a", monkeypatch, held=True, harness="openclaw")
    code, _, err = export(tmp_path / "a", "--output", tmp_path / "o.jsonl")
    assert code == 0, err
    assert "notifications that are marked: 1" in err
    (row,) = lines(tmp_path / "o.jsonl")
    assert list(schema_findings("roller.actf.v1.json", row)) == []
    (marked,) = [message for message in row["messages"] if message["notifications"]]
    assert marked["origin"]["at"] == "/messages/2/content/0"
    (note,) = marked["notifications"]
    assert (note["kind"], note["bound_by"], note["bound_id"]) == ("notification", "announcement_run_id", "run_1")
    assert row["messages"][-2]["content"] == "<note>child: done</note>"
    assert row["messages"][-2]["role"] == "user"
    assert export(tmp_path / "a", "--output", tmp_path / "s.jsonl", "--as", "sft")[0] == 0
    assert lines(tmp_path / "s.jsonl")[0]["notifications"] == [row["messages"].index(marked)]


@pytest.mark.parametrize(("harness", "code"), [("openclaw", 1), ("claude-code", 0)])
def test_openclaw_input_that_cannot_be_bound_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harness: str, code: int
) -> None:
    """The protocol's rule for this harness."""
    notified_attempt(tmp_path / "a", monkeypatch, held=False, harness=harness)
    done, _, err = export(tmp_path / "a", "--output", tmp_path / "o.jsonl")
    assert done == code
    assert ("a notification cannot be bound to the input" in err) is bool(code)


def test_a_pointer_leads_into_the_nearest_message() -> None:
    """A tool result inside a message comes before the message."""
    rows: list[dict[str, Any]] = [
        {"origin": {"in": "context", "at": at}} for at in ("/messages/1", "/messages/1/content/0", "/messages/10")
    ]
    assert trajectory._marked(rows, "/messages/1/content/0/text") is rows[1]
    assert trajectory._marked(rows, "/messages/1/content/1") is rows[0]
    assert trajectory._marked(rows, "/messages/10") is rows[2]
    with pytest.raises(trajectory.NoTrajectoryError):
        trajectory._marked(rows, "/messages/2")
