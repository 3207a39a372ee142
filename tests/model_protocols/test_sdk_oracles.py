"""The vendors' own SDKs read the same streams over HTTP; where they and the decoder differ, the reason is written here.

Only what the SDKs assemble is compared: members that they add themselves (`parsed`, nulls, the stream's tool index) are
set aside.
"""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState

from tests.model_protocols.transcripts import ANTHROPIC, CHAT, ROOT, STREAMS, decode, label, plain, protocol_of

RAISES = "raises"

SDK_DIFFERENCES: dict[str, tuple[frozenset[str], str]] = {
    name: (frozenset(places), why)
    for name, places, why in [
        ("anthropic-messages/error_midway", [RAISES], "an error event becomes an exception, the partial text is lost"),
        ("anthropic-messages/text_without_event_lines", [RAISES], "events without an `event:` line are passed over"),
        (
            "anthropic-messages/second_start",
            ["/content/0/text", "/content/1/text"],
            "deltas go by position in the content, so the second message's text lands in the first one's block",
        ),
        (
            "anthropic-messages/server_tools",
            ["/context_management", "/content/2/input/unit"],
            "the stable API's classes know neither context management nor the input of mcp_tool_use",
        ),
        (
            "anthropic-messages/tool_input_cut",
            ["/content/0/input/path", "/content/0/partial_json"],
            "the SDK guesses an input from half a text",
        ),
        ("anthropic-messages/tool_input_not_json", [RAISES], "input that is no JSON becomes an exception"),
        (
            "anthropic-messages/unknown_kinds",
            ["/novel_total", "/unknown_events", "/content/0/content", "/content/1/unknown_deltas", "/content/2/novel"],
            "events, deltas and members that the classes do not know are dropped",
        ),
        (
            "anthropic-messages/usage_output_only",
            ["/usage/cache_creation/ephemeral_1h_input_tokens"],
            "only some counts of message_delta.usage are taken over",
        ),
        (
            "anthropic-messages/usage_repeated",
            ["/usage/cache_creation"],
            "only some counts of message_delta.usage are taken over",
        ),
        (
            "openai-chat-completions/azure",
            ["/id", "/model", "/created", "/choices/0/content_filter_results"],
            "the first chunk decides, though Azure's is empty; members of a choice after the first are dropped",
        ),
        ("openai-chat-completions/bare_error", [RAISES], "an error chunk becomes an exception"),
        ("openai-chat-completions/error_midway", [RAISES], "an error chunk becomes an exception"),
        (
            "openai-chat-completions/content_filter",
            ["/choices/0/content_filter_results"],
            "members of a choice after the first chunk are dropped",
        ),
        ("openai-chat-completions/groq", ["/x_groq/usage"], "members of a chunk after the first are dropped"),
        ("openai-chat-completions/llama_cpp", ["/timings"], "members of a chunk after the first are dropped"),
        (
            "openai-chat-completions/reasoning_details",
            [
                "/choices/0/native_finish_reason",
                "/choices/0/message/role",
                "/choices/0/message/reasoning_details/0/format",
            ],
            "every text is joined, also a repeated role or format",
        ),
        ("openai-chat-completions/tools_id_once", [RAISES], "a null type in a later delta breaks the accumulation"),
        (
            "openai-chat-completions/tools_one_index",
            ["/choices/0/message/tool_calls"],
            "two calls at one index are joined, ids and all",
        ),
        ("openai-chat-completions/tools_without_index", [RAISES], "a delta needs an index"),
        ("openai-chat-completions/two_choices", [RAISES], "choices have to come in order"),
        ("openai-chat-completions/vllm_token_ids", ["/choices/0/token_ids"], "members of a choice are dropped"),
        ("openai-responses/cut_after_item", [RAISES], "no result without response.completed"),
        ("openai-responses/cut_in_call", [RAISES], "no result without response.completed"),
        ("openai-responses/cut_in_text", [RAISES], "no result without response.completed"),
        ("openai-responses/error_event", [RAISES], "no result without response.completed"),
        ("openai-responses/failed", [RAISES], "no result without response.completed"),
        ("openai-responses/incomplete", [RAISES], "no result without response.completed"),
        ("openai-responses/incomplete_filtered", [RAISES], "no result without response.completed"),
        ("openai-responses/rotated_ids", [RAISES], "newer versions refuse an item whose id changes"),
        ("openai-responses/unknown_kinds", ["/unknown_events"], "events that the classes do not know are dropped"),
        ("openai-responses/terminal_without_output", ["/output"], "an empty terminal output is believed"),
    ]
}

_ADDED_BY_THE_SDK = frozenset({"parsed", "parsed_arguments", "parsed_output"})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        _, protocol, name, *_ = self.path.split("/")
        data = (ROOT / protocol / f"{name}.sse").read_bytes()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", STREAMS, ids=label)
def test_sdk_agrees(path: Path, provider: str) -> None:
    """The SDK's own assembly equals the output, but for the differences that are listed with their reason."""
    allowed, _ = SDK_DIFFERENCES.get(label(path), (frozenset(), ""))
    ours = _comparable(plain(decode(protocol_of(path), path.read_bytes()).output))
    try:
        theirs = _comparable(_sdk_reading(path, f"{provider}/{label(path)}"))
    except Exception:
        if RAISES not in allowed:
            raise
        return
    assert set(_differences(ours, theirs)) <= allowed


def test_every_listed_difference_is_about_a_transcript() -> None:
    """The list holds no name of a transcript that is gone."""
    assert set(SDK_DIFFERENCES) <= {label(path) for path in STREAMS}


def _sdk_reading(path: Path, base_url: str) -> Any:
    protocol = protocol_of(path)
    if protocol is ANTHROPIC:
        messages: Any = [{"role": "user", "content": "x"}]
        with (
            anthropic.Anthropic(api_key="none", base_url=base_url, max_retries=0) as vendor,
            vendor.messages.stream(model="claude-test-1", max_tokens=9, messages=messages) as stream,
        ):
            return stream.get_final_message().to_dict(mode="json")
    with openai.OpenAI(api_key="none", base_url=base_url, max_retries=0) as client:
        if protocol is CHAT:
            state: Any = ChatCompletionStreamState()
            for chunk in client.chat.completions.create(model="gpt-test-1", messages=[], stream=True):
                state.handle_chunk(chunk)
            return state.current_completion_snapshot.to_dict(mode="json")
        with client.responses.stream(model="gpt-test-1", input="x") as events:
            return events.get_final_response().to_dict(mode="json")


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        is_call = "function" in value or "custom" in value
        return {
            key: _comparable(item)
            for key, item in value.items()
            if item is not None and key not in _ADDED_BY_THE_SDK and not (is_call and key == "index")
        }
    return [_comparable(item) for item in value] if isinstance(value, list) else value


def _differences(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in ours.keys() | theirs.keys():
            yield from _differences(ours.get(key), theirs.get(key), f"{place}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for position, (own, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _differences(own, other, f"{place}/{position}")
    elif ours != theirs:
        yield place
