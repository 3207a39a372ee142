"""Tests of the plugin that Hermes loads, without Hermes: what it adds to requests, what it notes, and that it fails
quietly."""

import importlib
import importlib.util
import json
import shutil
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from roller_capture.adapters.hermes.identity import PURPOSES, REQUEST_HEADER, SESSION_HEADER, TASK_HEADER
from roller_capture.adapters.hermes.plugin_reader import OWN_TURN
from roller_capture.shipped import shipped_path

NAME = "hermes_plugin_under_test"


class Context:
    """What Hermes hands to `register`."""

    def __init__(self) -> None:
        self.hooks: dict[str, Callable[..., Any]] = {}
        self.middleware: dict[str, Callable[..., Any]] = {}

    def register_hook(self, name: str, function: Callable[..., Any]) -> None:
        """As Hermes has it."""
        self.hooks[name] = function

    def register_middleware(self, name: str, function: Callable[..., Any]) -> None:
        """As Hermes has it."""
        self.middleware[name] = function


class Plugin:
    """The plugin as Hermes loads it: a package in `HERMES_HOME/plugins/roller_capture`."""

    def __init__(self, home: Path) -> None:
        self._log = home / "roller_capture" / "events.jsonl"
        folder = home / "plugins" / "roller_capture"
        shutil.copytree(shipped_path("hooks", "hermes", "roller_capture"), folder)
        spec = importlib.util.spec_from_file_location(
            NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[NAME] = module
        spec.loader.exec_module(module)
        self.module = module
        self.stamps = importlib.import_module(f"{NAME}.stamps")
        self.delegations = importlib.import_module(f"{NAME}.delegations")
        self.responses = importlib.import_module(f"{NAME}.responses")
        self.event_log = importlib.import_module(f"{NAME}.event_log")

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it has noted."""
        return [json.loads(line) for line in self._log.read_bytes().splitlines()] if self._log.exists() else []


class AIAgent:
    """The parts of Hermes's class that are wrapped."""

    session_id = "s1"

    def __init__(self, ask: Callable[[], None]) -> None:
        self._ask = ask

    def _handle_max_iterations(self) -> str:
        self._ask()
        return "summary"

    def _compress_context(self) -> str:
        auxiliary = sys.modules["agent.auxiliary_client"]
        return str(auxiliary.call_llm("compression", messages=[self._ask]))


@pytest.fixture
def hermes(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """Stand-ins for the modules of Hermes, and an `origin` that its turns have."""
    state = types.SimpleNamespace(origin="assistant_tool", stateless=False)

    def call_llm(task: Any = None, *, messages: list[Callable[[], None]]) -> str:
        messages[0]()
        return str(task)

    async def async_call_llm(task: Any = None, *, messages: list[Callable[[], None]]) -> str:
        return call_llm(task, messages=messages)

    def auto_title_session(_: object, session_id: str, ask: Callable[[], None]) -> None:
        holder.call_llm("title_generation", messages=[ask])
        assert session_id

    def declare_stateless_channel() -> None:
        state.stateless = True

    class Stream:
        """The client's stream, over given parts."""

        def __init__(self, parts: list[Any], headers: dict[str, str]) -> None:
            self.parts = parts
            self.response = types.SimpleNamespace(request=types.SimpleNamespace(headers=headers))

        def __stream__(self) -> Iterator[Any]:
            yield from self.parts

    holder = types.ModuleType("agent.title_generator")  # has the function under its own name, as an import leaves it
    modules = {
        "run_agent": {"AIAgent": type("AIAgent", (AIAgent,), {})},
        "agent": {},
        "agent.auxiliary_client": {"call_llm": call_llm, "async_call_llm": async_call_llm},
        "agent.title_generator": {"call_llm": call_llm, "auto_title_session": auto_title_session},
        "tools": {},
        "tools.skill_provenance": {"get_current_write_origin": lambda: state.origin},
        "gateway": {},
        "gateway.session_context": {"declare_stateless_channel": declare_stateless_channel},
        "openai": {"Stream": Stream},
    }
    for name, members in modules.items():
        module = holder if name == "agent.title_generator" else types.ModuleType(name)
        for member, value in members.items():
            setattr(module, member, value)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(httpx.Client, "send", httpx.Client.send)  # so that the wrapper is taken off again
    monkeypatch.setattr(httpx.AsyncClient, "send", httpx.AsyncClient.send)
    return state


@pytest.fixture
def plugin(tmp_path: Path, hermes: types.SimpleNamespace) -> Iterator[Plugin]:  # noqa: ARG001
    """The plugin, loaded from a home."""
    yield Plugin(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


@pytest.fixture
def context(plugin: Plugin) -> Context:
    """What the plugin registered."""
    found = Context()
    plugin.module.register(found)
    return found


@pytest.fixture
def asked() -> tuple[Callable[[], None], list[httpx.Headers]]:
    """A model request through the HTTP client, and the headers of all of them."""
    seen: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200)

    client = httpx.Client(transport=httpx.MockTransport(answer))
    return lambda: (client.post("http://model.invalid/v1/chat/completions"), None)[1], seen


def test_plugin_and_adapter_use_the_same_words(plugin: Plugin) -> None:
    """Header names, and the tasks that the plugin has its own words for."""
    assert (plugin.stamps.SESSION, plugin.stamps.REQUEST, plugin.stamps.TASK) == (
        SESSION_HEADER,
        REQUEST_HEADER,
        TASK_HEADER,
    )
    assert plugin.stamps.TURN == OWN_TURN
    assert {plugin.stamps.TURN, plugin.stamps.SUMMARY} <= PURPOSES.keys()


def test_everything_was_wrapped(plugin: Plugin, context: Context) -> None:
    """It says in its log what could not be."""
    assert context.middleware.keys() == {"llm_request", "llm_execution", "tool_execution"}
    [hook] = plugin.events
    assert "failed" not in hook


def test_a_hermes_without_those_parts_is_noted_and_runs(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing place costs its headers, nothing else."""
    monkeypatch.setitem(sys.modules, "run_agent", types.ModuleType("run_agent"))
    plugin.module.register(Context())
    [hook] = plugin.events
    assert hook["failed"] == "AIAgent._handle_max_iterations,AIAgent._compress_context"


@pytest.mark.parametrize(
    ("origin", "task"),
    [("assistant_tool", "turn"), ("foreground", "turn"), ("background_review", "background_review")],
)
def test_a_turns_request_says_who_asks(context: Context, hermes: types.SimpleNamespace, origin: str, task: str) -> None:
    """Session, request and task; what stood in the headers stays."""
    hermes.origin = origin
    request = {"model": "m", "extra_headers": {"x-other": "1"}}
    changed = context.middleware["llm_request"](request=request, session_id="s1", api_request_id="r1")
    headers = {"x-other": "1", SESSION_HEADER: "s1", REQUEST_HEADER: "r1", TASK_HEADER: task}
    assert changed == {"request": {"model": "m", "extra_headers": headers}}
    assert request["extra_headers"] == {"x-other": "1"}


@pytest.mark.parametrize("arguments", [{}, {"request": None}, {"request": {}, "session_id": ""}, {"request": "x"}])
def test_a_request_of_unknown_shape_is_left_alone(context: Context, arguments: dict[str, Any]) -> None:
    """It then goes out without headers, which the capture names."""
    assert context.middleware["llm_request"](**arguments) is None


def test_calls_beside_the_turns_are_stamped_in_the_client(
    context: Context,  # noqa: ARG001
    asked: tuple[Callable[[], None], list[httpx.Headers]],
) -> None:
    """Summary, compression and title: each with its session, its task and an id of its own."""
    ask, seen = asked
    agent = sys.modules["run_agent"].AIAgent(ask)
    assert agent._handle_max_iterations() == "summary"
    assert agent._compress_context() == "compression"
    sys.modules["agent.title_generator"].auto_title_session(None, "s2", ask)
    stamped = [(headers[SESSION_HEADER], headers[TASK_HEADER]) for headers in seen]
    assert stamped == [("s1", "iteration_limit_summary"), ("s1", "compression"), ("s2", "title_generation")]
    assert len({headers[REQUEST_HEADER] for headers in seen}) == 3


def test_a_call_of_unknown_session_has_its_task_alone(
    context: Context,  # noqa: ARG001
    asked: tuple[Callable[[], None], list[httpx.Headers]],
) -> None:
    """Nobody's, rather than the last one's."""
    ask, seen = asked
    sys.modules["agent.auxiliary_client"].call_llm("vision", messages=[ask])
    [headers] = seen
    assert headers[TASK_HEADER] == "vision"
    assert SESSION_HEADER not in headers


def test_a_tool_lends_its_session_to_the_calls_inside(
    context: Context, asked: tuple[Callable[[], None], list[httpx.Headers]]
) -> None:
    """And to none after it."""
    ask, seen = asked
    call = sys.modules["agent.auxiliary_client"].call_llm
    carry_out = context.middleware["tool_execution"]
    carry_out(
        tool_name="web_extract", args={}, next_call=lambda _: call("web_extract", messages=[ask]), session_id="s3"
    )
    call("web_extract", messages=[ask])
    assert [headers.get(SESSION_HEADER) for headers in seen] == ["s3", None]


def test_what_a_child_asks_beside_its_turns_is_not_its_parents(
    context: Context, asked: tuple[Callable[[], None], list[httpx.Headers]]
) -> None:
    """It may run in the thread of its parent's tool call. Inside its own tools it is known again."""
    ask, seen = asked
    carry_out = context.middleware["tool_execution"]
    auxiliary = sys.modules["agent.auxiliary_client"]

    def look() -> object:
        return auxiliary.call_llm("vision", messages=[ask])

    def child(_: object) -> None:
        auxiliary.call_llm("query_rewrite", messages=[ask])
        carry_out(tool_name="look", args={}, next_call=lambda _: look(), tool_call_id="call_2", session_id="child")
        auxiliary.call_llm("query_rewrite", messages=[ask])

    carry_out(tool_name="delegate_task", args={}, next_call=child, tool_call_id="call_1", session_id="parent")
    assert [(one.get(SESSION_HEADER), one.get(TASK_HEADER)) for one in seen] == [
        (None, "query_rewrite"),
        ("child", "vision"),
        (None, "query_rewrite"),
    ]


def test_a_request_that_says_who_asks_is_not_stamped_again(
    context: Context,  # noqa: ARG001
    plugin: Plugin,
) -> None:
    """A turn's own request, made while a call beside it is open."""
    seen: list[httpx.Headers] = []
    transport = httpx.MockTransport(lambda request: (seen.append(request.headers), httpx.Response(200))[1])
    own = {SESSION_HEADER: "child", REQUEST_HEADER: "r1", TASK_HEADER: "turn"}
    with plugin.stamps.beside_turn(session_id="s1", task="compression"):
        httpx.Client(transport=transport).post("http://model.invalid/v1/messages", headers=own)
    assert {name: seen[0][name] for name in own} == own


def test_other_requests_are_not_stamped(
    context: Context,  # noqa: ARG001
    asked: tuple[Callable[[], None], list[httpx.Headers]],
) -> None:
    """Outside of any call beside the turns."""
    ask, seen = asked
    ask()
    assert not [name for name in seen[0] if name.startswith("x-roller-")]


@pytest.mark.parametrize(("finite", "stateless"), [("1", True), ("", False)])
def test_a_child_is_noted_with_the_tool_call_that_made_it(
    plugin: Plugin,
    context: Context,
    hermes: types.SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    finite: str,
    stateless: bool,
) -> None:
    """Also when it starts in a call inside another's; a finite query waits for it."""
    monkeypatch.setenv("ROLLER_HERMES_FINITE", finite)
    start, carry_out = context.hooks["subagent_start"], context.middleware["tool_execution"]

    def delegate(_: Any) -> str:
        start(child_session_id="c1", parent_session_id="s1", child_subagent_id="sa-0-0a")
        return "result"

    made = carry_out(tool_name="delegate_task", args={}, next_call=delegate, tool_call_id="call_1", session_id="s1")
    start(child_session_id="c2", parent_session_id="s1", child_subagent_id="sa-0-0b")
    assert made == "result"
    assert [(line["session_id"], line.get("tool_call_id")) for line in plugin.events[1:]] == [
        ("c1", "call_1"),
        ("c2", None),
    ]
    assert hermes.stateless is stateless


def test_response_ids_are_read_where_the_client_reads_them(plugin: Plugin, context: Context) -> None:
    """Chat Completions from the first part, Responses from the response inside an event, Messages from the answer."""
    stream = sys.modules["openai"].Stream
    chat = types.SimpleNamespace(id="chatcmpl-1", choices=[])
    item = types.SimpleNamespace(id="not-a-response")
    created = types.SimpleNamespace(response=types.SimpleNamespace(id="resp_1"))
    for number, parts in enumerate(([chat, chat], [item, created, created])):
        headers = {SESSION_HEADER: "s1", REQUEST_HEADER: f"r{number}"}
        assert list(stream(parts, headers).__stream__()) == parts
    answer = types.SimpleNamespace(id="msg_1")
    told = {"session_id": "s1", "api_request_id": "r2", "api_mode": "anthropic_messages"}
    assert context.middleware["llm_execution"](request={}, next_call=lambda _: answer, **told) is answer
    noted = [(line["request_id"], line["response_id"]) for line in plugin.events[1:]]
    assert noted == [("r0", "chatcmpl-1"), ("r1", "resp_1"), ("r2", "msg_1")]


def test_a_stream_without_headers_or_ids_passes_unnoted(plugin: Plugin, context: Context) -> None:  # noqa: ARG001
    """Every part comes through."""
    stream = sys.modules["openai"].Stream
    parts = [object(), types.SimpleNamespace(id=None, choices=[])]
    one = stream(parts, {})
    del one.response
    assert list(one.__stream__()) == parts
    assert len(plugin.events) == 1


def test_hooks_note_ids_and_words_alone(plugin: Plugin, context: Context) -> None:
    """Prompts, answers and errors of a conversation are not in the log."""
    ids = {"session_id": "s1", "turn_id": "t1", "api_request_id": "r1"}
    context.hooks["pre_llm_call"](**ids, user_message="secret words")
    context.hooks["pre_api_request"](**ids, request={"messages": ["secret words"]})
    context.hooks["post_api_request"](**ids, finish_reason="stop", response={"text": "secret words"})
    context.hooks["api_request_error"](**ids, status_code=500, reason="server_error", error={"message": "secret words"})
    context.hooks["subagent_stop"](child_session_id="c1", child_status="completed", child_summary="secret words")
    context.hooks["on_session_end"](**ids, completed=True, interrupted=False)
    kinds = [line["event"] for line in plugin.events]
    assert kinds == ["hook", "turn", "request", "output", "error", "child_end", "turn_end"]
    assert "secret" not in json.dumps(plugin.events)


def test_a_turn_that_a_background_delegation_began_names_it(plugin: Plugin, context: Context) -> None:
    """By Hermes's own first words; the same words later in a message are somebody's quotation."""
    notice = "[ASYNC DELEGATION BATCH COMPLETE — deleg_0123abcd]\nDone."
    for text in (notice, f"He said {notice}"):
        context.hooks["pre_llm_call"](session_id="s1", turn_id="t", user_message=text)
    assert [line.get("delegation_id") for line in plugin.events[1:]] == ["deleg_0123abcd", None]


def test_a_log_that_cannot_be_written_costs_nothing(plugin: Plugin, tmp_path: Path) -> None:
    """A file stands where its folder should be."""
    (tmp_path / "roller_capture").write_text("in the way")
    plugin.event_log.note("turn", session_id="s1")
    assert (tmp_path / "roller_capture").read_text() == "in the way"


def test_long_and_strange_values_are_left_out(plugin: Plugin) -> None:
    """Whatever Hermes may hand over."""
    plugin.event_log.note("turn", session_id="s1", turn_id="x" * 400, origin=None, status=object(), finish="\ud800")
    assert plugin.events == [{"event": "turn", "session_id": "s1", "finish": "\ud800"}]


def test_the_check_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run by a Python without Hermes, it says so."""
    spec = importlib.util.spec_from_file_location("hermes_fits", shipped_path("hooks", "hermes", "fits.py"))
    assert spec is not None
    assert spec.loader is not None
    fits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fits)
    monkeypatch.chdir(tmp_path)
    assert list(fits.problems()) == ["no plugin interface (ModuleNotFoundError)"]
    for name, member in (("middleware", "VALID_MIDDLEWARE"), ("plugins", "VALID_HOOKS")):
        module = types.ModuleType(f"hermes_cli.{name}")
        setattr(module, member, {"llm_request", "subagent_start"})
        monkeypatch.setitem(sys.modules, module.__name__, module)
    missing = list(fits.problems())
    assert "no middleware tool_execution" in missing
    assert "no hook on_session_end" in missing
    assert "no 'def call_llm(' in agent.auxiliary_client" in missing
