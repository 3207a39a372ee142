"""`export atif`: steps, references by relations alone, sums, what is refused. Harbor's validator takes all of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.capture_protocol import ContextProbe, Delivery, NativeRelation, NotificationItem
from roller_capture.vocabulary import BoundBy, DeliveryKind, Purpose, RelationType
from tests.adapters.codex.rollouts import FIRST_AGENT
from tests.export.atif.harbor import harbor_errors
from tests.export.families import (
    CHILD,
    GO,
    GRANDCHILD,
    answer,
    asked,
    launch,
    publish,
    publish_generations,
    result,
    run_export,
    said,
    text,
    use,
)
from tests.export.published import CHAT_REQUEST, CHAT_RESPONSE, publish_calls
from tests.support.attempts import evidence

Trajectory = dict[str, Any]


def exported(attempt: Path, output: Path) -> Trajectory:
    """The trajectory; Harbor has nothing against it."""
    code, _, err = run_export("atif", attempt, "--output", output)
    assert code == 0, err
    assert harbor_errors([output]) == []
    document: Trajectory = json.loads(output.read_text())
    return document


def references(trajectory: Trajectory) -> dict[str | None, list[str]]:
    """The trajectories that observations lead to, by the tool call."""
    return {
        item.get("source_call_id"): [reference["trajectory_id"] for reference in item["subagent_trajectory_ref"]]
        for step in trajectory["steps"]
        for item in step.get("observation", {}).get("results", ())
        if "subagent_trajectory_ref" in item
    }


def by_agent_id(trajectory: Trajectory) -> dict[str, Trajectory]:
    """The trajectories inside by the harness's own id."""
    inside = trajectory.get("subagent_trajectories", [])
    return {item["extra"]["roller"]["native_ids"]["agent_id"][0]: item for item in inside}


def test_a_family_is_one_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each subagent inside the one that launched it, referred to where its result is."""
    publish_generations(tmp_path / "a", monkeypatch)
    root = exported(tmp_path / "a", tmp_path / "o.json")
    child = by_agent_id(root)[CHILD]
    grandchild = by_agent_id(child)[GRANDCHILD]
    assert references(root) == {"toolu_1": [child["trajectory_id"]]}
    assert references(child) == {"toolu_2": [grandchild["trajectory_id"]]}
    assert references(grandchild) == {}
    assert [step["source"] for step in root["steps"]] == ["system", "user", "agent", "agent"]
    delegates = root["steps"][2]
    assert delegates["tool_calls"] == [
        {"tool_call_id": "toolu_1", "function_name": "Agent", "arguments": {"prompt": "part"}}
    ]
    assert delegates["observation"]["results"][0]["content"] == "it is 42"
    assert delegates["observation"]["results"][0]["extra"] == {"is_error": True}
    results = child["steps"][2]["observation"]["results"]
    assert [(item["source_call_id"], item["content"]) for item in results] == [("toolu_2", "42"), ("toolu_3", "a b")]
    assert root["agent"]["tool_definitions"][0]["function"]["name"] == "Agent"
    assert (root["agent"]["name"], root["agent"]["version"]) == ("claude-code", "2.1.332")


def test_steps_have_the_metrics_of_their_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached tokens are part of the prompt's; sums are of this trajectory alone; a failed call is named."""
    attempt = publish_generations(tmp_path / "a", monkeypatch)
    calls = [json.loads(line) for line in (attempt / "calls.jsonl").read_text().splitlines()]
    root = exported(attempt, tmp_path / "o.json")
    first = root["steps"][2]
    counts = {name: value for name, value in first["metrics"].items() if name != "extra"}
    assert counts == {"prompt_tokens": 113, "completion_tokens": 5, "cached_tokens": 10}
    assert (first["llm_call_count"], first["model_name"]) == (1, "fake-model")
    assert first["extra"]["call_id"] == calls[1]["call_id"]
    assert first["timestamp"] == calls[1]["timing"]["request_start"]
    assert root["final_metrics"] == {
        "total_prompt_tokens": 226,
        "total_completion_tokens": 10,
        "total_cached_tokens": 20,
        "total_steps": 4,
        "extra": {"llm_calls": 2},
    }
    assert root["extra"]["roller"]["left_out_calls"] == [
        {"call_id": calls[0]["call_id"], "purpose": "unknown", "blockers": calls[0]["export_blockers"]}
    ]


def test_a_sum_of_which_something_is_not_known_is_left_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of the tokens is no total."""
    first = answer("1", use("t1", "Bash"))
    last = answer("2", text("done"), usage={"output_tokens": 2})
    calls = [("root", asked(GO), first, {}), ("root", asked(GO, said(first), result("t1", "x")), last, {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    metrics = exported(tmp_path / "a", tmp_path / "o.json")["final_metrics"]
    assert "total_prompt_tokens" not in metrics
    assert metrics["total_completion_tokens"] == 7


@pytest.mark.parametrize("tool_call_id", ["toolu_other", None])
def test_without_a_proven_launch_there_is_no_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool_call_id: str | None
) -> None:
    """The child is inside, since its parent is known; nothing says which tool call it was."""
    delegates, child, last = answer("r1", use("toolu_1")), answer("c1", text("42")), answer("r2", text("done"))
    calls = [
        ("root", asked(GO), delegates, {}),
        (CHILD, asked({"role": "user", "content": "part"}), child, {}),
        ("root", asked(GO, said(delegates), result("toolu_1", "42")), last, {}),
    ]
    spawn = NativeRelation(RelationType.SPAWN, "root", CHILD, tool_call_id or "", (evidence(),))
    relations = () if tool_call_id is None else (spawn,)
    publish(tmp_path / "a", monkeypatch, calls, parents={CHILD: "root"}, relations=relations)
    root = exported(tmp_path / "a", tmp_path / "o.json")
    assert references(root) == {}
    assert [step["message"] for step in by_agent_id(root)[CHILD]["steps"]] == ["be brief", "part", "42"]


def test_one_tool_call_can_launch_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where no result came yet, the references are all that is known of it."""
    delegates = answer("r1", use("toolu_1"))
    calls = [
        ("root", asked(GO), delegates, {}),
        (CHILD, asked({"role": "user", "content": "one"}), answer("c1", text("1")), {}),
        (GRANDCHILD, asked({"role": "user", "content": "two"}), answer("c2", text("2")), {}),
    ]
    relations = [
        NativeRelation(
            RelationType.SPAWN, "root", key, "toolu_1", (evidence(),), parent_output_id="msg_r1", task_index=index
        )
        for index, key in enumerate((CHILD, GRANDCHILD))
    ]
    parents = {CHILD: "root", GRANDCHILD: "root"}
    publish(tmp_path / "a", monkeypatch, calls, parents=parents, relations=relations)
    root = exported(tmp_path / "a", tmp_path / "o.json")
    inside = by_agent_id(root)
    assert references(root) == {"toolu_1": [inside[CHILD]["trajectory_id"], inside[GRANDCHILD]["trajectory_id"]]}
    (only,) = root["steps"][2]["observation"]["results"]
    assert "content" not in only
    assert [item["extra"]["task_index"] for item in only["subagent_trajectory_ref"]] == [0, 1]


def test_a_subagent_that_cannot_be_told_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither it nor those below it are inside, and no reference leads nowhere."""
    paper = {"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "x"}}]}
    delegates, passes_on = answer("r1", use("toolu_1")), answer("c1", use("toolu_2"))
    calls = [
        ("root", asked(GO), delegates, {}),
        (CHILD, asked(paper), passes_on, {}),
        (GRANDCHILD, asked(GO), answer("g1", text("42")), {}),
        ("root", asked(GO, said(delegates), result("toolu_1", "42")), answer("r2", text("done")), {}),
    ]
    relations = (*launch("root", CHILD, "toolu_1", "msg_r1"), *launch(CHILD, GRANDCHILD, "toolu_2", "msg_c1"))
    parents = {CHILD: "root", GRANDCHILD: CHILD}
    publish(tmp_path / "a", monkeypatch, calls, parents=parents, relations=relations)
    root = exported(tmp_path / "a", tmp_path / "o.json")
    assert "subagent_trajectories" not in root
    assert references(root) == {}
    reasons = [item["reason"] for item in root["extra"]["roller"]["subagents_left_out"]]
    assert reasons == ["no chat form: document", "its parent has no trajectory"]
    _, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / "p.json")
    assert "subagents without a trajectory: 2" in err


def compacted(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root's first conversation has a child; the second begins with a summary and an old answer."""
    delegates, summary = answer("r1", use("toolu_1")), answer("sum", text("SUMMARY"))
    later, sum_up = ({"role": "user", "content": words} for words in ("SUMMARY: go on", "sum up"))
    kept = {"role": "assistant", "content": [text("as I said")]}
    second = answer("r2", text("done"))
    calls = [
        ("root", asked(GO), delegates, {}),
        (CHILD, asked({"role": "user", "content": "part"}), answer("c1", text("42")), {}),
        ("root", asked(GO, said(delegates), result("toolu_1", "42"), sum_up), summary, {}),
        ("root", asked(later, kept, GO), second, {}),
    ]
    return publish(
        directory,
        monkeypatch,
        calls,
        parents={CHILD: "root"},
        relations=launch("root", CHILD, "toolu_1", "msg_r1"),
        purposes={"msg_sum": Purpose.COMPACTION},
    )


def test_a_compaction_begins_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first leads to it; what stood in its first request is copied; each holds the agents that it refers to."""
    compacted(tmp_path / "a", monkeypatch)
    code, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / "out")
    assert code == 0, err
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert sorted(files) == ["a.cont-1.json", "a.json"]
    assert harbor_errors((tmp_path / "out").iterdir()) == []
    first, second = files["a.json"], files["a.cont-1.json"]
    assert first["continued_trajectory_ref"] == "a.cont-1.json"
    assert "continued_trajectory_ref" not in second
    assert first["trajectory_id"] != second["trajectory_id"]
    assert first["session_id"] == second["session_id"]
    assert set(by_agent_id(first)) == {CHILD}
    assert "subagent_trajectories" not in second
    assert [step.get("is_copied_context") for step in second["steps"]] == [None, None, True, None, None]
    assert "metrics" not in second["steps"][2]
    cut_by = second["extra"]["roller"]["segment"]["cut_by"]
    assert cut_by == first["extra"]["roller"]["call_ids"][0].replace("_000001", "_000003")


def test_a_compacted_conversation_needs_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file holds one trajectory: nothing is left away silently."""
    compacted(tmp_path / "a", monkeypatch)
    code, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / "o.json")
    assert code == 1
    assert "name a folder" in err
    assert not (tmp_path / "o.json").exists()


def test_a_resumed_child_is_one_trajectory_with_two_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One participant, launched by two tool calls."""
    one, two, last = answer("r1", use("toolu_1")), answer("r2", use("toolu_2")), answer("r3", text("done"))
    part = {"role": "user", "content": "part"}
    early, more = answer("c1", text("41")), {"role": "user", "content": "more"}
    calls = [
        ("root", asked(GO), one, {}),
        (CHILD, asked(part), early, {}),
        ("root", asked(GO, said(one), result("toolu_1", "41")), two, {}),
        (CHILD, asked(part, said(early), more), answer("c2", text("42")), {}),
        ("root", asked(GO, said(one), result("toolu_1", "41"), said(two), result("toolu_2", "42")), last, {}),
    ]
    relations = [
        NativeRelation(
            RelationType.SPAWN, "root", CHILD, name, (evidence(),), parent_output_id=output, delegation=number
        )
        for number, (name, output) in enumerate((("toolu_1", "msg_r1"), ("toolu_2", "msg_r2")), 1)
    ]
    publish(tmp_path / "a", monkeypatch, calls, parents={CHILD: "root"}, relations=relations)
    root = exported(tmp_path / "a", tmp_path / "o.json")
    (child,) = root["subagent_trajectories"]
    name = child["trajectory_id"]
    assert references(root) == {"toolu_1": [name], "toolu_2": [name]}
    assert [step["message"] for step in child["steps"]] == ["be brief", "part", "41", "more", "42"]


def test_token_ids_and_logprobs_are_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the response has them; arguments are objects there."""
    request = {**CHAT_REQUEST, "reasoning_effort": "low"}
    publish_calls(tmp_path / "a", monkeypatch, [("openai-chat-completions", request, CHAT_RESPONSE)])
    step = exported(tmp_path / "a", tmp_path / "o.json")["steps"][-1]
    metrics = step["metrics"]
    assert (metrics["prompt_token_ids"], metrics["completion_token_ids"], metrics["logprobs"]) == (
        [1, 2],
        [7, 8],
        [-0.25],
    )
    assert step["reasoning_content"] == "hm"
    assert step["reasoning_effort"] == "low"
    assert step["tool_calls"][0]["arguments"] == {"at": "."}


def codex_exchange() -> tuple[str, Any, Any]:
    """A custom tool, and a message of another agent of which only the service can read a part."""
    request = {
        "model": "m",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
            {
                "type": "agent_message",
                "id": "amsg_1",
                "author": f"{FIRST_AGENT}/child",
                "recipient": "/root",
                "content": [
                    {"type": "input_text", "text": "FINAL"},
                    {"type": "encrypted_content", "encrypted_content": "opaque"},
                ],
            },
        ],
    }
    response = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "output": [
            {
                "type": "message",
                "id": "m1",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "done", "annotations": []}],
            }
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 1}},
    }
    return "openai-responses", request, response


def test_messages_between_agents_and_custom_tools_have_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is an observation that the system brought; what cannot be read is kept as it is."""
    publish_calls(tmp_path / "a", monkeypatch, [codex_exchange()])
    root = exported(tmp_path / "a", tmp_path / "o.json")
    user, calls, heard, last = root["steps"]
    assert (user["message"], last["message"]) == ("go", "done")
    assert calls["tool_calls"] == [
        {
            "tool_call_id": "c1",
            "function_name": "patch",
            "arguments": {"input": "*** Begin"},
            "extra": {"type": "custom"},
        }
    ]
    assert calls["is_copied_context"] is True  # no captured call made it
    (brought,) = heard["observation"]["results"]
    assert (heard["source"], heard["message"], brought["content"]) == ("system", "", "FINAL")
    assert brought["extra"] == {
        "type": "agent_message",
        "id": "amsg_1",
        "author": f"{FIRST_AGENT}/child",
        "recipient": "/root",
        "content/1": {"type": "encrypted_content", "encrypted_content": "opaque"},
    }


def test_text_behind_a_tool_call_is_a_step_without_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order stays, and the tokens are counted once."""
    calls = [("root", asked(GO), answer("1", text("a"), use("t1", "Bash"), text("b")), {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    root = exported(tmp_path / "a", tmp_path / "o.json")
    first, second = root["steps"][-2:]
    assert (first["message"], second["message"]) == ("a", "b")
    assert first["extra"]["call_id"] == second["extra"]["call_id"]
    assert "metrics" not in second
    assert root["final_metrics"]["total_prompt_tokens"] == 113


def test_a_version_that_is_not_known_is_said_to_be_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The format demands a text; this is the one its own producers write."""
    calls = [("root", asked(GO), answer("1", text("a")), {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=(), harness_version=None)
    assert exported(tmp_path / "a", tmp_path / "o.json")["agent"]["version"] == "unknown"


def broken(arguments: str) -> tuple[str, Any, Any]:
    """A tool call with these arguments."""
    response = json.loads(json.dumps(CHAT_RESPONSE))
    response["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = arguments
    return "openai-chat-completions", CHAT_REQUEST, response


ORPHAN = {"role": "tool", "tool_call_id": "nobody", "content": "x"}
CRITIC = {"role": "critic", "content": "x"}
REFUSED = {
    "arguments that are no JSON object": broken("[1]"),
    "lone surrogate": broken('{"at": "\\ud800"}'),
    "the result of a tool call that is not in the conversation": (
        "openai-chat-completions",
        {**CHAT_REQUEST, "messages": [ORPHAN]},
        CHAT_RESPONSE,
    ),
    "a message with a role that the format has not": (
        "openai-chat-completions",
        {**CHAT_REQUEST, "messages": [CRITIC]},
        CHAT_RESPONSE,
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_the_format_cannot_hold_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """Exit 1, and no file."""
    publish_calls(tmp_path / "a", monkeypatch, [REFUSED[reason]])
    code, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / "o.json")
    assert code == 1
    assert f"1  {reason}" in err
    assert not (tmp_path / "o.json").exists()


@pytest.mark.parametrize("output", ["o.json", "o"])
def test_a_document_that_no_reader_takes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """A harness may call itself anything; what was begun is taken back."""
    calls = [("root", asked(GO), answer("1", text("a")), {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=(), harness_version="1\ud800")
    code, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / output)
    assert (code, "1  lone surrogate" in err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_call_that_is_barred_is_no_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named with what bars it; the harness asked again."""
    cut = answer("cut", text("I was c"), stop_reason="max_tokens")
    calls = [("root", asked(GO), cut, {}), ("root", asked(GO), answer("1", text("done")), {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    root = exported(tmp_path / "a", tmp_path / "o.json")
    assert [step["message"] for step in root["steps"]] == ["be brief", "go", "done"]
    (left_out,) = root["extra"]["roller"]["left_out_calls"]
    assert (left_out["purpose"], left_out["blockers"]) == ("agent", ["output_truncated"])


def test_calls_of_nobody_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in no trajectory, and not forgotten."""
    calls = [
        ("root", asked(GO), b'{"error": "x"}', {"status": 500, "session": None}),
        ("root", asked(GO), answer("1", text("done")), {}),
    ]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    told = exported(tmp_path / "a", tmp_path / "o.json")["extra"]["roller"]
    assert told["unattributed_call_ids"] == [told["call_ids"][0].replace("_000002", "_000001")]
    assert told["left_out_calls"] == []


def test_no_arguments_at_all_are_an_empty_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Services stream an empty text for a tool without parameters."""
    publish_calls(tmp_path / "a", monkeypatch, [broken("")])
    step = exported(tmp_path / "a", tmp_path / "o.json")["steps"][-1]
    assert step["tool_calls"][0]["arguments"] == {}


def test_an_attempt_without_agent_calls_has_no_trajectory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A title is no turn."""
    calls = [("root", asked(GO), answer("1", text("a")), {})]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=(), purposes={"msg_1": Purpose.TITLE})
    code, _, err = run_export("atif", tmp_path / "a", "--output", tmp_path / "o.json")
    assert code == 1
    assert "there is no exportable call of an agent's turn" in err


def test_notifications_are_marked_at_their_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the main trajectory: the message stays a user's, with the relation that proves it."""
    delegates, note = answer("r1", use("toolu_1")), {"role": "user", "content": "<note>child: done</note>"}
    calls = [
        ("root", asked(GO), delegates, {}),
        (CHILD, asked({"role": "user", "content": "part"}), answer("c1", text("done")), {}),
        ("root", asked(GO, said(delegates), result("toolu_1", "started"), note), answer("r2", text("ok")), {}),
    ]
    delivery = Delivery(DeliveryKind.NOTIFICATION, BoundBy.RESPONSE_ID, "msg_r2")
    came = NativeRelation(RelationType.RESULT_DELIVERED, "root", CHILD, "toolu_1", (evidence(),), delivery=delivery)
    probe = ContextProbe(came, NotificationItem(("child: done",), "msg_r2"))
    publish(tmp_path / "a", monkeypatch, calls, parents={CHILD: "root"}, relations=(came,), probes=(probe,))
    root = exported(tmp_path / "a", tmp_path / "o.json")
    (marked,) = [step for step in root["steps"] if "notifications" in step.get("extra", {})]
    assert (marked["source"], marked["message"]) == ("user", "<note>child: done</note>")
    (told,) = marked["extra"]["notifications"]
    assert (told["bound_by"], told["bound_id"]) == ("response_id", "msg_r2")
    assert told["child_participant_id"] == by_agent_id(root)[CHILD]["trajectory_id"]
