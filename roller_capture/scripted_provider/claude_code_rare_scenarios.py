"""What Claude Code (2.1.197 and 2.1.332) does seldom: scenarios beside those of `claude_code_scenarios`, of which the
shared acceptance needs none."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from roller_capture.scripted_provider.claude_code_scenarios import (
    LONG,
    ROOT,
    delegate,
    request_agent_id,
    root,
    shell,
    worker,
)
from roller_capture.scripted_provider.reply import Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest
from roller_capture.scripted_provider.scenario import Scenario
from roller_capture.scripted_provider.script import AgentScript, Script

_GOES_IDLE_WITHIN = 1.0  # seconds, after the provider has been asked for an answer without tool calls
_SUMMARY_REQUEST = "create a detailed summary"  # the harness's own words when it compacts


def _scenario(name: str, *agents: AgentScript, environment: Mapping[str, str] | None = None) -> Scenario:
    return Scenario(name, f"{ROOT}: do what the scenario {name} says.", Script(agents), environment or {})


def fork() -> Scenario:
    """2.1.332: a child that begins with the root's conversation; its log begins with a copy of the root's output. Its
    script stands first, since its requests hold the root's prompt, too."""
    return _scenario(
        "fork",
        worker("CHILD-F", ["child-f"], "The fork is done."),
        root(
            Reply(text="Forking.", tools=(delegate("CHILD-F", background=True, agent_type="fork"),)),
            Reply(text="Waiting."),
            Reply(text="All done."),
        ),
    )


def fetched_result() -> Scenario:
    """2.1.197: the root fetches the result of a background child by a tool, and is notified of it all the same."""
    scenario = _scenario(
        "fetched-result",
        root(Reply(tools=(delegate("CHILD-T", background=True),)), Reply(text="Fetching."), Reply(text="All done.")),
        worker("CHILD-T", ["child-t"], "The answer is 41.", command="sleep 1; echo t"),
    )

    def fetch(child: str) -> ToolUse:
        return ToolUse("TaskOutput", {"task_id": child, "block": True, "timeout": 20000})

    return _naming_the_child(scenario, "Fetching.", fetch)


def held_resumption() -> Scenario:
    """A child that has ended is sent a further message, and its answer to that never ends; to be run with a low ceiling
    for such waits (2.1.332: the tool for it has to be loaded first)."""
    scenario = _scenario(
        "held-resumption",
        root(
            Reply(tools=(delegate("CHILD-RE"),)),
            Reply(tools=(ToolUse("ToolSearch", {"query": "select:SendMessage", "max_results": 1}),)),
            Reply(text="Resuming."),
            Reply(text="Waiting."),
        ),
        AgentScript(
            ["child-re"],
            "CHILD-RE",
            (
                Reply(tools=(shell("echo re"),)),
                Reply(text="An answer."),
                Reply(text=LONG, hold=threading.Event(), hold_after=4),
            ),
        ),
    )

    def send(child: str) -> ToolUse:
        return ToolUse("SendMessage", {"to": child, "summary": "one thing more", "message": "One thing more, please."})

    return _naming_the_child(scenario, "Resuming.", send)


def _naming_the_child(scenario: Scenario, text: str, use: Callable[[str], ToolUse]) -> Scenario:
    """The root's reply with this text gets a tool call that names the agent launched first."""
    decide = scenario.decide

    def answer(request: ModelRequest) -> Reply:
        reply, child = decide(request), request_agent_id(request)
        return reply if reply.text != text or child is None else replace(reply, tools=(use(child),))

    return replace(scenario, decide=answer)


def notifications_at_once() -> Scenario:
    """Two background children that end together, when the root has long been idle."""
    idle = threading.Event()
    scenario = _scenario(
        "notifications-at-once",
        root(
            Reply(tools=(delegate("CHILD-A", background=True), delegate("CHILD-B", background=True))),
            Reply(text="Waiting."),
            Reply(text="Done."),
        ),
        AgentScript(["child-a"], "CHILD-A", (Reply(text="Answer A.", hold=idle, hold_after=0),)),
        AgentScript(["child-b"], "CHILD-B", (Reply(text="Answer B.", hold=idle, hold_after=0),)),
    )
    decide = scenario.decide

    def release(request: ModelRequest) -> Reply:
        reply = decide(request)
        if reply.text == "Waiting.":
            timer = threading.Timer(_GOES_IDLE_WITHIN, idle.set)
            timer.daemon = True
            timer.start()
        return reply

    return replace(scenario, decide=release)


def child_compaction() -> Scenario:
    """A child's context is said to be nearly full, and the harness has it summed up before the child goes on."""
    full = Reply(text="Much to read.", tools=(shell("echo much"),), usage={"input_tokens": 98_000})
    scenario = _scenario(
        "child-compaction",
        root(Reply(tools=(delegate("CHILD-C"),)), Reply(text="All done.")),
        AgentScript(["child-c"], "CHILD-C", (full,)),
        environment={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"},
    )
    decide = scenario.decide
    summed_up = threading.Event()

    def sum_up(request: ModelRequest) -> Reply:
        if _SUMMARY_REQUEST in request.prompt_text:
            summed_up.set()
            return Reply(text="<summary>CHILD-C: almost done.</summary>", owner="child-c")
        reply = decide(request)
        is_last = reply.owner == "child-c" and summed_up.is_set()
        return Reply(text="The child is done.", owner="child-c") if is_last else reply

    return replace(scenario, decide=sum_up)


def cut_launch() -> Scenario:
    """The root's slow answer is cut after a finished delegation: the child is launched, and comes to a good end."""
    broken = Reply(
        tools=(delegate("CHILD-A", background=True), shell("echo never # " + "padding " * 20)), gap=0.4, cut_after=7
    )
    return _scenario(
        "cut-launch",
        root((broken, Reply(text="Going on.")), Reply(text="All done.")),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
        environment={"CLAUDE_CODE_MAX_RETRIES": "3"},
    )
