"""What to say to DeepSeek Harness (0.2.1rc2) so that it delegates, fails and breaks in a known way.

Each scenario is a function that returns a fresh `Scenario`; `SCENARIOS` lists them by name, `ARGUMENTS` says what else
the harness has to be given. Tool names and arguments are the harness's own: `subagent` is always in the background,
`workflow` waits for its agents. What delegates needs profile `sdk` or `headless`, and only the latter makes up titles.
"""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from roller_capture.scripted_provider.reply import Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest
from roller_capture.scripted_provider.scenario import Scenario, ended_when_held
from roller_capture.scripted_provider.script import AgentScript, Script, Turn

ROOT: Final = "ROOT-TASK"
LONG: Final = "A longer text, so that its stream can be broken in the middle of it and not only at an end. "
PATCH: Final = "patch.yml"
"""Name of the file, in the working folder, with a scenario's changes to the harness's configuration."""

DELEGATION_TOOLS: Final = ("subagent", "subagent_fork", "workflow", "send_message")
"""With the last one an agent sends a message: to a child that has ended, that is a further delegation."""

SESSION_HEADER: Final = "x-deepseek-harness-session-id"
_RESPONSES_SESSION_HEADER: Final = "session_id"
_COMPACTION_HEADER: Final = "x-deepseek-harness-compact"
_COMPACTION_ORDER: Final = "You are now acting as a compaction engine"
"""What the harness asks for with a compaction, which through the providers that are not its own has no header."""
_LONGEST_WAIT: Final = 30.0
"""Seconds that one request waits for another; when one is up, the run differs from the scenario."""

_STARTED: Final = re.compile(r"started subagent ([0-9a-f-]{36})")
_PARENT: Final = re.compile(r'parent agent id is "([^"]+)"')

_TWO_LEVELS: Final = """\
- id: subagent
  config:
    maxDepth: 2
- id: tool-subagent
  config:
    provider: spawn
    toolName: subagent
    maxDepth: 2
"""
_COMPACT_SOON: Final = """\
- id: compaction-basic
  config:
    thresholdRatio: 0.5
    headroomTokens: 0
    retainTokens: 10
    maxTokens: 500
    auto: true
"""
_SMALL_WINDOW: Final = """\
- id: llm-deepseek
  config:
    apiKeyEnv: DEEPSEEK_API_KEY
    defaultContextWindow: 5000
    streamIdleTimeoutMs: 172800000
"""
_OTHER_PROVIDER: Final = """\
- id: llm-pi-ai
  config:
    providers:
      roller:
        apiKeyEnv: DEEPSEEK_API_KEY
        api: {api}
        baseURL: !!js process.env.DEEPSEEK_BASE_URL + '/v1'
        models:
"""
"""The provider that `collect` lays down for the protocols that are not the harness's own. A change to it has to say all
of it again, with its models behind."""
_TWO_MODELS: Final = """\
          - {id: scripted-model, contextWindow: 1000000, maxTokens: 32768}
          - {id: other-model, contextWindow: 1000000, maxTokens: 32768}
"""
_ONE_SMALL_MODEL: Final = """\
          - {id: scripted-model, contextWindow: 15000, maxTokens: 500}
"""
_OTHER_APIS: Final = {"responses": "openai-responses", "chat": "openai-completions"}
"""The harness's names of those protocols."""


def shell(command: str) -> ToolUse:
    """A call of the shell tool."""
    return ToolUse("bash", {"command": command, "description": "Run a command"})


def delegate(marker: str, tool: str = "subagent") -> ToolUse:
    """A delegation to a background child whose prompt holds `marker`."""
    return ToolUse(tool, {"description": "a subtask", "prompt": f"{marker}: do your part."})


def workflow(script: str) -> ToolUse:
    """A workflow, whose agents are waited for."""
    return ToolUse("workflow", {"script": script, "meta": {"name": "a-workflow", "description": "Runs agents."}})


def worker(marker: str, owners: Sequence[str], answer: str = "done", *, command: str = "echo working") -> AgentScript:
    """A child that runs one command and then answers."""
    return AgentScript(owners, marker, (Reply(text="On it.", tools=(shell(command),)), Reply(text=answer)))


def root(*turns: Turn) -> AgentScript:
    """The root, with its turns; the last one answers every further notice."""
    return AgentScript(("root",), ROOT, turns)


def _scenario(name: str, the_root: AgentScript, *children: AgentScript, patch: str | None = None) -> Scenario:
    # A forked child carries the root's prompt too, so that the children's markers are looked for first.
    script = Script((*children, the_root))

    def decide(request: ModelRequest) -> Reply:
        # Only the call that makes up a title has no tools.
        return script(request) if request.tool_names else Reply(text="A title", owner="root")

    files = {} if patch is None else {PATCH: patch}
    return Scenario(name, f"{ROOT}: do what the scenario {name} says.", decide, files=files)


def ordinary() -> Scenario:
    """One agent, one tool call, no child."""
    return _scenario("ordinary", root(Reply(text="Listing.", tools=(shell("ls"),)), Reply(text="All done.")))


def cross_process_resume() -> Scenario:
    """As ordinary; to be given two prompts, so that a second process goes on with the session."""
    return replace(ordinary(), name="cross-process-resume")


def single() -> Scenario:
    """One child; its notice comes while the root is at work."""
    return _scenario(
        "single",
        root(
            Reply(text="Delegating.", tools=(delegate("CHILD-A"),)),
            Reply(text="Meanwhile.", tools=(shell("sleep 3"),)),
            Reply(text="All done."),
        ),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )


def background() -> Scenario:
    """One child that ends after the root has gone idle; its notice wakes the root."""
    return _scenario(
        "background",
        root(Reply(tools=(delegate("CHILD-BG"),)), Reply(text="Waiting."), Reply(text="All done.")),
        worker("CHILD-BG", ["child-bg"], "Done in the background.", command="sleep 2; echo bg"),
    )


def parallel() -> Scenario:
    """Two children in one turn with different prompts; the one that was started first ends last."""
    children = (delegate("CHILD-A"), delegate("CHILD-B"))
    slow = AgentScript(["child-a"], "CHILD-A", (Reply(tools=(shell("echo a"),)), Reply(text="Answer A.", delay=1.5)))
    return _scenario(
        "parallel",
        root(Reply(text="Delegating twice.", tools=children), Reply(text="Waiting."), Reply(text="All done.")),
        slow,
        worker("CHILD-B", ["child-b"], "Answer B."),
    )


def identical_prompts() -> Scenario:
    """Two children in one turn with the same prompt, down to the byte; the one that was started first ends last."""
    children = (delegate("CHILD-SAME"), delegate("CHILD-SAME"))
    scenario = _scenario(
        "identical-prompts",
        root(Reply(text="Delegating twice.", tools=children), Reply(text="Waiting."), Reply(text="All done.")),
        worker("CHILD-SAME", ["child-1", "child-2"], "An answer."),
    )
    decide = _in_order_of_launch(scenario.decide, "CHILD-SAME")

    def first_ends_last(request: ModelRequest) -> Reply:
        reply = decide(request)
        return replace(reply, delay=1.0) if reply.owner == "child-1" and not reply.tools else reply

    return replace(scenario, decide=first_ends_last)


def _in_order_of_launch(decide: Callable[[ModelRequest], Reply], marker: str) -> Callable[[ModelRequest], Reply]:
    """Of two children whose prompt holds `marker`, the one of the first tool call is answered first, whichever asks
    first: the harness tells its parent which session each tool call has started."""
    launched: list[str] = []
    told, first_was_answered = threading.Event(), threading.Event()

    def wait_for_turn(request: ModelRequest) -> Reply:
        if marker in request.prompt_text:
            told.wait(_LONGEST_WAIT)
            session = request.headers.get(SESSION_HEADER, request.headers.get(_RESPONSES_SESSION_HEADER))
            if session in launched[1:]:
                first_was_answered.wait(_LONGEST_WAIT)
            reply = decide(request)
            first_was_answered.set()
            return reply
        started = [found[1] for result in request.tool_results if (found := _STARTED.search(result.text))]
        if len(started) > 1 and not told.is_set():
            launched.extend(started)
            told.set()
        return decide(request)

    return wait_for_turn


def file_sharing() -> Scenario:
    """One child writes a file; a second one, started when the first has ended, reads it."""
    return _scenario(
        "file-sharing",
        root(
            Reply(tools=(delegate("CHILD-WRITER"),)),
            Reply(tools=(shell("until [ -s shared.txt ]; do sleep 0.1; done; sleep 1"),)),
            Reply(text="Now the reader.", tools=(delegate("CHILD-READER"),)),
            Reply(text="Waiting."),
            Reply(text="All done."),
        ),
        worker("CHILD-WRITER", ["writer"], "Written.", command="echo shared > shared.txt"),
        worker("CHILD-READER", ["reader"], "Read.", command="cat shared.txt"),
    )


def tool_error() -> Scenario:
    """A child whose tools fail, the last one because there is none of that name; it ends well."""
    failing = (shell("echo oops >&2; exit 3"), ToolUse("no_such_tool", {"x": 1}))
    return _scenario(
        "tool-error",
        root(Reply(tools=(delegate("CHILD-E"),)), Reply(text="Waiting."), Reply(text="All done.")),
        AgentScript(["child-e"], "CHILD-E", (Reply(tools=failing), Reply(text="It failed, as it should."))),
    )


def tool_configs(patch: str | None = None) -> Scenario:
    """A workflow whose second agent has another model than the root and the first. Of another provider than the
    harness's own, the models are listed: then a `patch` lists both."""
    script = (
        'const a = await agent("CHILD-R: do your part.", {label: "one"});\n'
        'const b = await agent("CHILD-M: do your part.", {label: "two", model: "other-model"});\n'
        "return {a, b};"
    )
    return _scenario(
        "tool-configs",
        root(Reply(tools=(workflow(script),)), Reply(text="All done.")),
        worker("CHILD-R", ["same-model"], "Done."),
        worker("CHILD-M", ["other-model"], "Done by another model."),
        patch=patch,
    )


def workflow_parallel() -> Scenario:
    """A workflow that runs two agents side by side, the second with another model, and waits for both."""
    script = (
        'const one = () => agent("CHILD-P1: do your part.");\n'
        'const two = () => agent("CHILD-P2: do your part.", {model: "other-model"});\n'
        "return {both: await parallel([one, two])};"
    )
    return _scenario(
        "workflow",
        root(Reply(tools=(workflow(script),)), Reply(text="All done.")),
        worker("CHILD-P1", ["child-p1"], "One."),
        worker("CHILD-P2", ["child-p2"], "Two.", command="sleep 1"),
    )


def two_workflows() -> Scenario:
    """Two workflows in one turn, so that nothing but ids can tell whose agent is whose."""
    calls = tuple(workflow(f'return await agent("CHILD-W{number}: do your part.");') for number in (1, 2))
    return _scenario(
        "two-workflows",
        root(Reply(tools=calls), Reply(text="All done.")),
        worker("CHILD-W1", ["child-w1"], "One.", command="sleep 1"),
        worker("CHILD-W2", ["child-w2"], "Two."),
    )


def child_failure() -> Scenario:
    """A child that has done one tool call, and whose further model calls fail."""
    return _scenario(
        "child-failure",
        root(Reply(tools=(delegate("CHILD-F"),)), Reply(text="Waiting."), Reply(text="All done.")),
        AgentScript(["child-f"], "CHILD-F", (Reply(text="On it.", tools=(shell("echo f"),)), Reply(status=400))),
    )


def fork() -> Scenario:
    """A child that begins with a copy of what the root has said; to be given a second prompt, which delegates."""
    return _scenario(
        "fork",
        root(
            Reply(tools=(shell("echo first"),)),
            Reply(text="The first turn is over."),
            Reply(tools=(delegate("CHILD-FORK", "subagent_fork"),)),
            Reply(text="Waiting."),
            Reply(text="All done."),
        ),
        worker("CHILD-FORK", ["child-fork"], "From the fork.", command="sleep 1; echo fork"),
    )


def nested() -> Scenario:
    """Root, child, grandchild: refused at the harness's own depth limit, which is one."""
    return _nested("nested", None)


def nested_allowed() -> Scenario:
    """Root, child, grandchild, with a configuration that allows two levels."""
    return _nested("nested-allowed", _TWO_LEVELS)


def _nested(name: str, patch: str | None) -> Scenario:
    return _scenario(
        name,
        root(Reply(tools=(delegate("CHILD-N"),)), Reply(text="Waiting."), Reply(text="All done.")),
        AgentScript(
            ["child-n"],
            "CHILD-N",
            (Reply(tools=(delegate("GRAND-G"),)), Reply(text="Waiting for it."), Reply(text="Passed on.")),
        ),
        worker("GRAND-G", ["grand-g"], "From the grandchild."),
        patch=patch,
    )


def _addressing(
    scenario: Scenario, owner: str, text: str, make: Callable[[str], ToolUse], of: re.Pattern[str]
) -> Scenario:
    """The answer `text` of `owner` gets the tool call that `make` builds of the first agent id that `of` finds."""
    decide = scenario.decide

    def address(request: ModelRequest) -> Reply:
        reply = decide(request)
        heard = "\n".join((request.prompt_text, *(result.text for result in request.tool_results)))
        found = of.search(heard)
        if reply.owner != owner or reply.text != text or found is None:
            return reply
        return replace(reply, tools=(make(found[1]),))

    return replace(scenario, decide=address)


def _stop(agent: str) -> ToolUse:
    return ToolUse("interrupt_agent", {"agent_id": agent})


def _message(text: str) -> Callable[[str], ToolUse]:
    return lambda agent: ToolUse("send_message", {"agent_id": agent, "message": text})


def resumed_child() -> Scenario:
    """A child that has ended is sent a further message, works again and ends again."""
    scenario = _scenario(
        "resumed-child",
        root(
            Reply(tools=(delegate("CHILD-RE"),)),
            Reply(text="Waiting."),
            Reply(text="Resuming."),
            Reply(text="Waiting again."),
            Reply(text="All done."),
        ),
        AgentScript(
            ["child-re"],
            "CHILD-RE",
            (Reply(tools=(shell("sleep 1; echo re"),)), Reply(text="An answer."), Reply(text="Another.", delay=1.5)),
        ),
    )
    return _addressing(scenario, "root", "Resuming.", _message("One thing more, please."), _STARTED)


def messages() -> Scenario:
    """A child that tells its parent its result in a message, before it ends."""
    scenario = _scenario(
        "messages",
        root(Reply(tools=(delegate("CHILD-S"),)), Reply(text="Waiting."), Reply(text="All done.")),
        AgentScript(["child-s"], "CHILD-S", (Reply(text="Telling."), Reply(text="I have told it."))),
    )
    return _addressing(scenario, "child-s", "Telling.", _message("The answer is 42."), _PARENT)


def stopped_child() -> Scenario:
    """The root stops a child that is in the middle of a command."""
    scenario = _scenario(
        "stopped-child",
        root(
            Reply(tools=(delegate("CHILD-X"),)),
            Reply(tools=(shell("until [ -e started ]; do sleep 0.1; done"),)),
            Reply(text="Stopping."),
            Reply(text="All done."),
        ),
        worker("CHILD-X", ["child-x"], command="touch started; sleep 60"),
    )
    return _addressing(scenario, "root", "Stopping.", _stop, _STARTED)


def stopped_again() -> Scenario:
    """A child that was stopped is sent a further message, and its answer to that never ends; to be run with a low drain
    timeout."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    scenario = _scenario(
        "stopped-again",
        root(
            Reply(tools=(delegate("CHILD-X"),)),
            Reply(tools=(shell("until [ -e started ]; do sleep 0.1; done"),)),
            Reply(text="Stopping."),
            Reply(text="Noted.", delay=2.0),  # the notice comes meanwhile
            Reply(text="Resuming."),
            Reply(text="Waiting again."),
        ),
        AgentScript(["child-x"], "CHILD-X", (Reply(text="On it.", tools=(shell("touch started; sleep 60"),)), held)),
    )
    scenario = _addressing(scenario, "root", "Stopping.", _stop, _STARTED)
    return _addressing(scenario, "root", "Resuming.", _message("One thing more, please."), _STARTED)


def wait_ceiling() -> Scenario:
    """A child whose answer never ends; to be run with a low drain timeout."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    return _scenario(
        "wait-ceiling",
        root(Reply(tools=(delegate("CHILD-W"),)), Reply(text="Waiting.")),
        AgentScript(["child-w"], "CHILD-W", (Reply(tools=(shell("echo w"),)), held)),
    )


def compaction(window: str = _SMALL_WINDOW) -> Scenario:
    """A window so small that the harness has the context summed up before it goes on."""
    scenario = _scenario(
        "compaction",
        root(Reply(tools=(shell("seq 1 1500"),)), Reply(tools=(shell("seq 1 1500"),)), Reply(text="All done.")),
        patch=_COMPACT_SOON + window,
    )
    decide = scenario.decide
    summed_up = threading.Event()

    def sum_up(request: ModelRequest) -> Reply:
        if _COMPACTION_HEADER in request.headers or _COMPACTION_ORDER in request.prompt_text:
            summed_up.set()
            return Reply(text=f"{ROOT}: nearly done.", owner="root")
        return Reply(text="All done.", owner="root") if summed_up.is_set() else decide(request)

    return replace(scenario, decide=sum_up)


def cut_stream() -> Scenario:
    """An answer is cut in the middle of its text, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=4)
    return _scenario("cut-stream", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def cut_child() -> Scenario:
    """A child's answer is cut, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=4)
    return _scenario(
        "cut-child",
        root(Reply(tools=(delegate("CHILD-C"),)), Reply(text="Waiting."), Reply(text="All done.")),
        AgentScript(["child-c"], "CHILD-C", (Reply(tools=(shell("echo c"),)), (broken, Reply(text="Done.")))),
    )


def retries() -> Scenario:
    """The provider fails twice, then answers."""
    failed = Reply(status=500)
    return _scenario("retries", root((failed, failed, Reply(tools=(shell("echo x"),))), Reply(text="All done.")))


def refused() -> Scenario:
    """The provider refuses every request: the turn ends in an error."""
    return _scenario("refused", root(Reply(status=400)))


def killed() -> Scenario:
    """The harness is told to stop while a child's second answer is held."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    scenario = _scenario(
        "killed",
        root(Reply(tools=(delegate("CHILD-K"),)), Reply(text="Waiting.")),
        AgentScript(["child-k"], "CHILD-K", (Reply(tools=(shell("echo k"),)), held)),
    )
    return ended_when_held(scenario)


def killed_root() -> Scenario:
    """The harness is told to stop while the root's second answer is held."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    return ended_when_held(_scenario("killed-root", root(Reply(tools=(shell("echo x"),)), held)))


def _through_another_provider(make: Callable[[str], Scenario], models: str) -> dict[str, Callable[[], Scenario]]:
    """A scenario that changes the configuration of the provider, in the protocols that are not the harness's own."""

    def made(protocol: str, api: str) -> Scenario:
        scenario = make(_OTHER_PROVIDER.format(api=api) + models)
        return replace(scenario, name=f"{scenario.name}-{protocol}")

    return {f"{make.__name__.replace('_', '-')}-{name}": partial(made, name, api) for name, api in _OTHER_APIS.items()}


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {
    "ordinary": ordinary,
    "single": single,
    "parallel": parallel,
    "identical-prompts": identical_prompts,
    "file-sharing": file_sharing,
    "tool-error": tool_error,
    "tool-configs": tool_configs,
    "background": background,
    "nested": nested,
    "nested-allowed": nested_allowed,
    "child-failure": child_failure,
    "resumed-child": resumed_child,
    "compaction": compaction,
    "cross-process-resume": cross_process_resume,
    "cut-stream": cut_stream,
    "cut-child": cut_child,
    "killed": killed,
    "killed-root": killed_root,
    "title": lambda: replace(ordinary(), name="title"),
    "retries": retries,
    "refused": refused,
    "fork": fork,
    "messages": messages,
    "workflow": workflow_parallel,
    "two-workflows": two_workflows,
    "stopped-child": stopped_child,
    "stopped-again": stopped_again,
    "wait-ceiling": wait_ceiling,
    **_through_another_provider(tool_configs, _TWO_MODELS),
    **_through_another_provider(compaction, _ONE_SMALL_MODEL),
}
"""Every scenario by its name."""

_SMALL_ANSWERS: Final = ("--patch", PATCH, "--max-tokens", "200")

ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    **{name: _SMALL_ANSWERS for name in SCENARIOS if name.startswith("compaction")},
    **dict.fromkeys(("nested-allowed", "tool-configs-responses", "tool-configs-chat"), ("--patch", PATCH)),
}
"""Arguments for the harness, relative to the working folder."""
