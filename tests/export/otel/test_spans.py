"""`export otel`: which spans there are, under which parents, with which times, and what they tell."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roller_capture.api import Relation, open_attempt
from roller_capture.export.otel.otlp import unix_nanoseconds
from roller_capture.export.otel.survey import survey
from roller_capture.export.times import nanoseconds
from roller_capture.vocabulary import ExecutionStatus
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
from tests.export.otel.receiver import attributes, file_spans, received
from tests.export.published import publish_calls, three_protocols
from tests.support.old_attempts import bare_by_participant, by_participant

Tree = dict[str, Any]


def exported(attempt: Path, *options: str) -> list[Any]:
    """The spans, as an OTLP receiver reads them. No parent is missing."""
    output = attempt.parent / "spans.jsonl"
    code, _, err = run_export("otel", attempt, "--output", output, "--overwrite", *options)
    assert code == 0, err
    spans = file_spans(output)
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans)
    assert {span.parent_span_id for span in spans} <= ids | {b""}
    return spans


def outline(spans: list[Any], parent: bytes = b"") -> list[Any]:
    """Names of spans with those below them, in order of time."""
    below = sorted(
        (span for span in spans if span.parent_span_id == parent), key=lambda span: span.start_time_unix_nano
    )
    return [[span.name, outline(spans, span.span_id)] if outline(spans, span.span_id) else span.name for span in below]


def named(spans: list[Any], name: str) -> list[Any]:
    """The spans of this name."""
    return [span for span in spans if span.name == name]


def seconds(span: Any) -> tuple[float, float]:
    """Start and end."""
    return span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9


def test_a_family_is_a_tree_of_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents below the tool calls that launched them, calls and tools below their agents."""
    publish_generations(tmp_path / "a", monkeypatch)
    chat = "chat fake-model"
    grandchild = ["invoke_agent", [chat]]
    child = ["invoke_agent", [chat, ["execute_tool Agent", [grandchild]], "execute_tool Bash", chat]]
    assert outline(exported(tmp_path / "a")) == [
        ["invoke_agent claude-code", [chat, chat, ["execute_tool Agent", [child]], chat]]
    ]


def test_times_are_those_of_the_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call a minute: sent in the first second of it, answered in the fourth."""
    publish_generations(tmp_path / "a", monkeypatch)
    spans = exported(tmp_path / "a")
    chats = sorted(named(spans, "chat fake-model"), key=lambda span: span.start_time_unix_nano)
    assert [seconds(span) for span in chats] == [(60 * number + 1, 60 * number + 4) for number in range(1, 7)]
    assert [seconds(span) for span in named(spans, "invoke_agent claude-code")] == [(61, 364)]
    tools = [seconds(span) for span in named(spans, "execute_tool Agent")]
    assert sorted(tools) == [(124, 361), (184, 301)]  # from the answer that asked to the request that holds the result
    assert [seconds(span) for span in named(spans, "execute_tool Bash")] == [(184, 301)]


def test_ids_come_from_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same attempt has the same spans; another capture has others."""
    publish_generations(tmp_path / "a", monkeypatch)
    publish_generations(tmp_path / "b", monkeypatch, capture_id="cap_bbbbbbbbbbbbbbbbbbbb")
    first, again, other = (exported(tmp_path / name) for name in "aab")
    assert {(span.trace_id, span.span_id) for span in first} == {(span.trace_id, span.span_id) for span in again}
    assert len({span.trace_id for span in first}) == 1
    assert {span.trace_id for span in first}.isdisjoint(span.trace_id for span in other)
    assert {span.span_id for span in first}.isdisjoint(span.span_id for span in other)


def test_parents_are_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a launch the agent stands below the one that is known to be its parent; a call of nobody stands alone."""
    delegates = answer("r1", use("toolu_1"))
    calls = [
        ("root", asked(GO), delegates, {}),
        (CHILD, asked(GO), answer("c1", text("42")), {}),
        ("root", asked(GO), b'{"error": "x"}', {"status": 500, "session": None}),
        ("root", asked(GO, said(delegates), result("toolu_1", "42")), answer("r2", text("done")), {}),
    ]
    publish(tmp_path / "a", monkeypatch, calls, parents={CHILD: "root"}, relations=())
    chat = "chat fake-model"
    assert outline(exported(tmp_path / "a")) == [
        ["invoke_agent claude-code", [chat, "execute_tool Agent", ["invoke_agent", [chat]], chat]],
        chat,
    ]


def test_a_call_tells_what_it_asked_and_got(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the names of the GenAI conventions; nothing of what was said."""
    attempt = publish_generations(tmp_path / "a", monkeypatch)
    first = json.loads((attempt / "calls.jsonl").read_text().splitlines()[1])
    spans = exported(attempt)
    (span,) = [item for item in spans if attributes(item).get("gen_ai.response.id") == "msg_r1"]
    told = attributes(span)
    assert span.kind == 3
    assert {name: value for name, value in told.items() if not name.startswith("roller.")} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.conversation.id": "11111111-2222-4333-8444-555555555555",
        "gen_ai.request.model": "fake-model",
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "msg_r1",
        "gen_ai.response.model": "fake-model",
        "gen_ai.response.finish_reasons": ["tool_use"],
        "gen_ai.response.time_to_first_chunk": 2.5,
        "gen_ai.usage.input_tokens": 113,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 10,
        "gen_ai.usage.cache_creation.input_tokens": 100,
        "server.address": "model.example",
        "http.response.status_code": 200,
    }
    assert (told["roller.call_id"], told["roller.purpose"]) == (first["call_id"], "agent")


def test_what_failed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls by their HTTP status or our word, agents by how they ended."""
    publish_generations(tmp_path / "a", monkeypatch)
    errors = [span for span in exported(tmp_path / "a") if span.status.code == 2]
    assert [(span.name, attributes(span)["error.type"]) for span in errors] == [("chat fake-model", "503")]
    cut = [("root", asked(GO), b'{"id"', {"end": "failure"})]
    publish(tmp_path / "b", monkeypatch, cut, parents={}, relations=(), status=ExecutionStatus.INTERRUPTED)
    errors = [span for span in exported(tmp_path / "b") if span.status.code == 2]
    assert [attributes(span)["error.type"] for span in errors] == ["response_cut"]


def test_content_is_told_only_on_purpose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --content nothing that was said, or that a tool got or gave, is in the file."""
    publish_generations(tmp_path / "a", monkeypatch)
    spans = exported(tmp_path / "a")
    file = (tmp_path / "spans.jsonl").read_text()
    assert [words for words in ("be brief", "I delegate.", "it is 42", "delegate") if words in file] == []
    names = {name for span in spans for name in attributes(span)}
    assert not {name for name in names if "messages" in name or "arguments" in name or "definitions" in name}


def test_content_has_the_form_of_the_conventions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of parts, arguments and results at the tools."""
    publish_generations(tmp_path / "a", monkeypatch)
    spans = exported(tmp_path / "a", "--content")
    (last,) = [attributes(span) for span in spans if attributes(span).get("gen_ai.response.id") == "msg_r2"]
    assert json.loads(last["gen_ai.system_instructions"]) == [{"type": "text", "content": "be brief"}]
    assert json.loads(last["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "go"}]},
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "I delegate."},
                {"type": "tool_call", "id": "toolu_1", "name": "Agent", "arguments": {"prompt": "part"}},
            ],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "toolu_1", "response": "it is 42"}]},
    ]
    assert json.loads(last["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "all done"}], "finish_reason": "end_turn"}
    ]
    assert json.loads(last["gen_ai.tool.definitions"]) == [
        {"type": "function", "name": "Agent", "description": "delegate", "parameters": {"type": "object"}}
    ]
    (bash,) = named(spans, "execute_tool Bash")
    assert attributes(bash)["gen_ai.tool.call.arguments"] == '{"command":"ls"}'
    assert attributes(bash)["gen_ai.tool.call.result"] == "a b"


def test_content_that_has_no_form_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent is told where the answer cannot be; both are counted."""
    picture = {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "eA=="}}]}
    calls = [
        ("root", asked(picture), answer("1", text("a")), {}),
        ("root", asked(GO), answer("2", {"type": "server_tool_use", "id": "s", "name": "web", "input": {}}), {}),
    ]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    first, second = (attributes(span) for span in named(exported(tmp_path / "a", "--content"), "chat fake-model"))
    assert first["roller.no_content"] == "no chat form: image"
    assert "gen_ai.input.messages" not in first
    assert second["roller.no_content"] == "no chat form of the answer: server_tool_use"
    assert "gen_ai.input.messages" in second
    _, _, err = run_export("otel", tmp_path / "a", "--output", tmp_path / "o", "--content")
    assert "2  calls whose content has no chat form" in err


def test_a_tool_call_that_ran_has_a_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result was held, or it launched an agent. Of others nobody knows; an id in two answers proves nothing."""
    first = answer("r1", use("toolu_1"), use("toolu_2", "Bash"), use("twice", "Bash"))
    second = answer("r2", use("twice", "Bash"))
    calls = [
        ("root", asked(GO), first, {}),
        (CHILD, asked(GO), answer("c1", text("42")), {}),
        ("root", asked(GO), second, {}),
        ("root", asked(GO, said(second), result("twice", "x")), answer("r3", text("done")), {}),
    ]
    relations = launch("root", CHILD, "toolu_1", "msg_r1")[:1]
    publish(tmp_path / "a", monkeypatch, calls, parents={CHILD: "root"}, relations=relations)
    spans = exported(tmp_path / "a")
    (tool,) = [span for span in spans if span.name.startswith("execute_tool")]
    assert seconds(tool) == (64, 124)  # to the end of the agent that it launched
    (child,) = named(spans, "invoke_agent")
    assert child.parent_span_id == tool.span_id
    _, _, err = run_export("otel", tmp_path / "a", "--output", tmp_path / "o")
    assert "1  tool calls whose result no request held" in err
    assert "1  ids of tool calls that two answers hold" in err


def test_links_tell_who_asked_and_whose_result_was_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the tool to the call, from the call to the subagent."""
    publish_generations(tmp_path / "a", monkeypatch)
    spans = exported(tmp_path / "a")
    by_id = {span.span_id: span for span in spans}
    told = {
        (by_id[link.span_id].name, attributes(link)["roller.link"])
        for span in spans
        for link in span.links
        if span.name == "chat fake-model"
    }
    assert told == {("invoke_agent", "result_in_context")}
    (bash,) = named(spans, "execute_tool Bash")
    assert attributes(by_id[bash.links[0].span_id])["gen_ai.response.id"] == "msg_c1"


def test_a_child_without_calls_has_no_span(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells when it ran; its own child stands alone, and the record of its parent stays."""
    delegates = answer("r1", use("toolu_1"))
    calls = [("root", asked(GO), delegates, {}), (GRANDCHILD, asked(GO), answer("g1", text("42")), {})]
    parents = {CHILD: "root", GRANDCHILD: CHILD}
    relations = launch("root", CHILD, "toolu_1", "msg_r1")[:1]
    publish(tmp_path / "a", monkeypatch, calls, parents=parents, relations=relations)
    spans = exported(tmp_path / "a")
    (grandchild,) = named(spans, "invoke_agent")
    assert grandchild.parent_span_id == b""
    assert attributes(grandchild)["roller.parent_participant_id"].endswith("_002")
    _, _, err = run_export("otel", tmp_path / "a", "--output", tmp_path / "o")
    assert "1  agents without a call" in err


def test_texts_without_utf8_are_escaped_and_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool's name is the model's: it may be anything."""
    calls = [
        ("root", asked(GO), answer("1", use("t1", "ls\ud800")), {}),
        ("root", asked(GO, result("t1", "x")), answer("2", text("a")), {}),
    ]
    publish(tmp_path / "a", monkeypatch, calls, parents={}, relations=())
    (tool,) = [span for span in exported(tmp_path / "a") if span.name.startswith("execute_tool")]
    assert tool.name == "execute_tool ls\\ud800"
    assert attributes(tool)["roller.escaped_attributes"] == ["gen_ai.tool.name"]


def test_every_protocol_and_earlier_layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider is the flavour of the format."""
    publish_calls(tmp_path / "a", monkeypatch, three_protocols())
    spans = exported(tmp_path / "a", "--content")
    told = [attributes(span) for span in named(spans, "chat fake-model")]
    assert [item["gen_ai.provider.name"] for item in told] == ["anthropic", "openai", "openai"]
    assert told[1]["gen_ai.request.temperature"] == 0.5
    (agent,) = named(spans, "invoke_agent claude-code")
    assert "gen_ai.provider.name" not in attributes(agent)
    by_participant(tmp_path / "a")
    assert len(named(exported(tmp_path / "a"), "chat fake-model")) == 3


def test_a_line_is_an_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what made its spans; those that do not validate have none, exit 1."""
    for name in "abc":
        publish_generations(tmp_path / "run" / name, monkeypatch, capture_id=f"cap_{name:x>20}")
    calls = tmp_path / "run" / "b" / "calls.jsonl"
    calls.write_bytes(calls.read_bytes().replace(b"be brief", b"be loud!"))
    code, out, err = run_export("otel", tmp_path / "run", "--output", tmp_path / "o.jsonl", "--json")
    assert (code, "b: does not validate" in err) == (1, True)
    messages = [received(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    resources = [attributes(message.resource_spans[0].resource) for message in messages]
    assert [item["roller.attempt"] for item in resources] == ["a", "c"]
    assert (resources[0]["service.name"], resources[0]["service.version"]) == ("claude-code", "2.1.332")
    assert json.loads(out)["by_operation"] == {"chat": 12, "execute_tool": 6, "invoke_agent": 6}


def test_existing_files_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And an interrupted export leaves nothing."""
    publish_generations(tmp_path / "a", monkeypatch)
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "x.jsonl").write_text("mine")
    assert run_export("otel", tmp_path / "a", "--output", tmp_path / "o" / "x.jsonl")[0] == 2

    def interrupt(*_arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("roller_capture.export.otel.destinations.LinesOfOtlp.end", interrupt)
    code, _, _ = run_export("otel", tmp_path / "a", "--output", tmp_path / "o" / "x.jsonl", "--overwrite")
    assert code != 0
    assert [path.read_text() for path in (tmp_path / "o").iterdir()] == ["mine"]


def test_a_launch_by_another_call_than_the_one_that_asked_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relation and the answer must name the same call."""
    attempt = open_attempt(publish_generations(tmp_path / "a", monkeypatch))
    assert len(survey(attempt).launches) == 2
    other = attempt.relations[0].record["parent_call_id"].replace("_000002", "_000006")
    changed = [Relation({**relation.record, "parent_call_id": other}) for relation in attempt.relations]
    assert survey(replace(attempt, relations=tuple(changed))).launches == {}


def test_calls_without_times_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The earliest layout has none: there is no span without a time, and nothing is written."""
    publish_generations(tmp_path / "a", monkeypatch)
    bare_by_participant(tmp_path / "a")
    code, _, err = run_export("otel", tmp_path / "a", "--output", tmp_path / "o")
    assert code == 1
    assert "8  calls and tool calls whose times are not known" in err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1969-12-31T23:59:59.999999Z", None),
        ("2554-07-21T23:34:33.709551Z", 2**64 - 616),
        ("2554-07-21T23:34:33.709552Z", None),
        ("soon", None),
    ],
)
def test_otlp_has_times_of_64_bits_without_sign(timestamp: str, expected: int | None) -> None:
    """What is beyond would be refused by every reader, and all spans of the request with it."""
    assert unix_nanoseconds(timestamp) == expected


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [("1970-01-01T00:00:01.000002Z", 1_000_002_000), ("1970-01-01T00:00:01", None), ("soon", None), (3, None)],
)
def test_only_times_are_times(timestamp: Any, expected: int | None) -> None:
    """Records of earlier layouts may hold anything."""
    assert nanoseconds(timestamp) == expected
