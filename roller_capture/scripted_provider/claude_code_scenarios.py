"""What to say to Claude Code (2.1.197 and 2.1.332) so that it delegates, fails and breaks in a known way.

Each scenario is a function that returns a fresh `Scenario`; `SCENARIOS` lists them by name. Tool names and arguments
are Claude Code's own. Foreground has to be asked for, since newer versions delegate in the background by default.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from roller_capture.scripted_provider.reply import ErrorEvent, Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest
from roller_capture.scripted_provider.scenario import Scenario, ended_when_held
from roller_capture.scripted_provider.script import AgentScript, Script, Turn

ROOT = "ROOT-TASK"
LONG = "A longer text, so that its stream can be broken in the middle of it and not only at an end. "
_GOES_IDLE_WITHIN = 1.0  # seconds, after the provider has been asked for an answer without tool calls
_SUMMARY_REQUEST = "create a detailed summary"  # the harness's own words when it compacts


def shell(command: str) -> ToolUse:
    """A call of the shell tool."""
    return ToolUse("Bash", {"command": command, "description": "Run a command"})


def delegate(marker: str, *, background: bool = False, agent_type: str = "general-purpose", **more: str) -> ToolUse:
    """A delegation to a child whose prompt holds `marker`."""
    arguments = {"description": "a subtask", "prompt": f"{marker}: do your part.", "subagent_type": agent_type, **more}
    return ToolUse("Agent", {**arguments, "run_in_background": background})


def worker(marker: str, owners: Sequence[str], answer: str = "done", *, command: str = "echo working") -> AgentScript:
    """A child that runs one command and then answers."""
    return AgentScript(owners, marker, (Reply(text="On it.", tools=(shell(command),)), Reply(text=answer)))


def root(*turns: Turn) -> AgentScript:
    """The root, with its turns."""
    return AgentScript(("root",), ROOT, turns)


def _scenario(name: str, *agents: AgentScript, environment: Mapping[str, str] | None = None) -> Scenario:
    return Scenario(name, f"{ROOT}: do what the scenario {name} says.", Script(agents), environment or {})


def ordinary() -> Scenario:
    """One agent, one tool call, no child."""
    return _scenario("ordinary", root(Reply(text="Listing.", tools=(shell("ls"),)), Reply(text="All done.")))


def single() -> Scenario:
    """One foreground child."""
    return _scenario(
        "single",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-A"),)), Reply(text="All done.")),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )


def parallel() -> Scenario:
    """Two children in one turn with different prompts; the one that was started first ends last."""
    children = (delegate("CHILD-A"), delegate("CHILD-B"))
    slow = AgentScript(
        ["child-a"],
        "CHILD-A",
        (Reply(tools=(shell("echo a"),)), Reply(text="Answer A.", delay=1.5)),
    )
    return _scenario(
        "parallel",
        root(Reply(text="Delegating twice.", tools=children), Reply(text="All done.")),
        slow,
        worker("CHILD-B", ["child-b"], "Answer B."),
    )


def identical_prompts() -> Scenario:
    """Two children in one turn with the same prompt, down to the byte; the first to ask ends last."""
    children = (delegate("CHILD-SAME"), delegate("CHILD-SAME"))
    scenario = _scenario(
        "identical-prompts",
        root(Reply(text="Delegating twice.", tools=children), Reply(text="All done.")),
        worker("CHILD-SAME", ["child-1", "child-2"], "An answer."),
    )
    decide = scenario.decide

    def first_asked_ends_last(request: ModelRequest) -> Reply:
        reply = decide(request)
        return replace(reply, delay=1.0) if reply.owner == "child-1" and not reply.tools else reply

    return replace(scenario, decide=first_asked_ends_last)


def file_sharing() -> Scenario:
    """One child writes a file, a second one reads it."""
    write, read = delegate("CHILD-WRITER"), delegate("CHILD-READER")
    return _scenario(
        "file-sharing",
        root(Reply(tools=(write,)), Reply(text="Now the reader.", tools=(read,)), Reply(text="All done.")),
        worker("CHILD-WRITER", ["writer"], "Written.", command="echo shared > shared.txt"),
        worker("CHILD-READER", ["reader"], "Read.", command="cat shared.txt"),
    )


def tool_error() -> Scenario:
    """A child whose tool fails; the child sees the error and ends well."""
    return _scenario(
        "tool-error",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-E"),)), Reply(text="All done.")),
        worker("CHILD-E", ["child-e"], "It failed, as it should.", command="echo oops >&2; exit 3"),
    )


def tool_configs() -> Scenario:
    """Two children of other types than the root: one with few tools, one with another model."""
    few = "---\nname: reader\ndescription: Only reads.\ntools: Read, Bash\n---\nREADER-SYSTEM: you only read.\n"
    scenario = _scenario(
        "tool-configs",
        root(
            Reply(tools=(delegate("CHILD-R", agent_type="reader"), delegate("CHILD-M", model="haiku"))),
            Reply(text="All done."),
        ),
        worker("CHILD-R", ["reader"], "Read."),
        worker("CHILD-M", ["other-model"], "Done by another model."),
    )
    return replace(scenario, files={".claude/agents/reader.md": few})


def child_failure(status: int) -> Scenario:
    """A child that has done one tool call, and whose further model calls all fail with an HTTP error."""
    return _scenario(
        f"child-failure-{status}",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-F"),)), Reply(text="All done.")),
        AgentScript(["child-f"], "CHILD-F", (Reply(text="On it.", tools=(shell("echo f"),)), Reply(status=status))),
        environment={"CLAUDE_CODE_MAX_RETRIES": "2"},
    )


def _cut(name: str, *turns: Turn) -> Scenario:
    return _scenario(name, root(*turns), environment={"CLAUDE_CODE_MAX_RETRIES": "3"})


def cut_root() -> Scenario:
    """The root's answer is cut in the middle of its text, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=4)
    return _cut("cut-root", Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done.")))


def cut_tool() -> Scenario:
    """An answer is cut in the middle of its only block, a tool call; then it comes whole."""
    call = shell("echo x # " + "padding " * 20)
    broken = Reply(tools=(call,), cut_after=4)
    return _cut("cut-tool", (broken, Reply(tools=(call,))), Reply(text="All done."))


def cut_late() -> Scenario:
    """An answer is cut after all of its content, before its end; slowly, so that the harness has taken the text in."""
    broken = Reply(text="Short.", gap=0.3, cut_after=5)
    return _cut("cut-late", Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done.")))


def cut_child() -> Scenario:
    """A child's answer is cut, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=4)
    return _scenario(
        "cut-child",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-C"),)), Reply(text="All done.")),
        AgentScript(["child-c"], "CHILD-C", (Reply(tools=(shell("echo c"),)), (broken, Reply(text="Done.")))),
        environment={"CLAUDE_CODE_MAX_RETRIES": "3"},
    )


def slow_cut() -> Scenario:
    """A slow answer is cut after a finished tool call: the tool runs, and the native log makes up a finish reason."""
    broken = Reply(tools=(shell("echo x"), shell("echo never # " + "padding " * 20)), gap=0.4, cut_after=7)
    return _cut("slow-cut", (broken, Reply(tools=(shell("echo x"),))), Reply(text="All done."))


def error_event() -> Scenario:
    """An error event in mid-text, in a stream that began with 200."""
    broken = Reply(text=LONG * 3, error_event=ErrorEvent(after=4))
    return _cut("error-event", Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done.")))


def max_tokens() -> Scenario:
    """A child's final answer ends with `max_tokens`; asked to go on, it ends well."""
    short = Reply(text="Too lo", finish="max_tokens")
    return _scenario(
        "max-tokens",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-T"),)), Reply(text="All done.")),
        AgentScript(["child-t"], "CHILD-T", (short, Reply(text="Shorter."))),
    )


def thinking() -> Scenario:
    """Answers of several blocks each: thinking, text and two tool calls."""
    calls = (shell("echo one"), shell("echo two"))
    return _scenario(
        "thinking", root(Reply(thinking="Let me see.", text="Both.", tools=calls), Reply(text="All done."))
    )


def background() -> Scenario:
    """A background child that ends after the root has gone idle; its result comes as a notification."""
    launch = delegate("CHILD-BG", background=True)
    return _scenario(
        "background",
        root(Reply(tools=(launch,)), Reply(text="Waiting."), Reply(text="All done.")),
        worker("CHILD-BG", ["child-bg"], "Done in the background.", command="sleep 2; echo bg"),
    )


def nested() -> Scenario:
    """Root, child, grandchild, all in the foreground."""
    return _scenario(
        "nested",
        root(Reply(tools=(delegate("CHILD-N"),)), Reply(text="All done.")),
        AgentScript(["child-n"], "CHILD-N", (Reply(tools=(delegate("GRAND-G"),)), Reply(text="Passed on."))),
        worker("GRAND-G", ["grand-g"], "From the grandchild."),
    )


def resumed_child() -> Scenario:
    """A child that has ended is sent a further message (2.1.332: the tool for it has to be loaded first)."""
    scenario = _scenario(
        "resumed-child",
        root(
            Reply(tools=(delegate("CHILD-RE"),)),
            Reply(tools=(ToolUse("ToolSearch", {"query": "select:SendMessage", "max_results": 1}),)),
            Reply(text="Resuming."),
            Reply(text="Waiting."),
            Reply(text="All done."),
        ),
        AgentScript(
            ["child-re"],
            "CHILD-RE",
            (Reply(tools=(shell("echo re"),)), Reply(text="An answer."), Reply(text="Another answer.", delay=1.5)),
        ),
    )
    return replace(scenario, decide=_to_the_child(scenario, {"Resuming.": _send}))


def request_agent_id(request: ModelRequest) -> str | None:
    """The agent id that the harness put into the text of the first delegation's result."""
    for result in request.tool_results:
        _, found, rest = result.text.partition("agentId: ")
        if found:
            return "".join(character for character in rest[:17] if character.isalnum())
    return None


def mid_turn_notification() -> Scenario:
    """Two background children: the first ends while the root is at work, the second after the root has gone idle."""
    idle = threading.Event()
    launch = (delegate("CHILD-B1", background=True), delegate("CHILD-B2", background=True))
    busy = Reply(text="Busy.", tools=(shell("sleep 0.5"),), owner="root")
    scenario = _scenario(
        "mid-turn-notification",
        root(Reply(text="Delegating twice.", tools=launch)),
        worker("CHILD-B1", ["child-b1"], "Answer B1."),
        AgentScript(["child-b2"], "CHILD-B2", (Reply(text="Answer B2.", hold=idle, hold_after=0),)),
    )

    def react(reply: Reply, heard: frozenset[str]) -> Reply:
        if "child-b2" in heard:
            return Reply(text="All done.", owner="root")
        if "child-b1" in heard:
            return _then_set(idle, Reply(text="Waiting.", owner="root"))
        return busy if "root" in heard else reply

    return _reacting(scenario, react)


def nested_background() -> Scenario:
    """A background child launches a background grandchild and ends first, so that nobody but the root is left to be
    told the grandchild's result."""
    waiting, told = threading.Event(), threading.Event()
    passed_on = Reply(text="Passed on.", hold=waiting, hold_after=0)
    late = Reply(text="From the grandchild.", hold=told, hold_after=0)
    scenario = _scenario(
        "nested-background",
        root(Reply(tools=(delegate("CHILD-N", background=True),))),
        AgentScript(["child-n"], "CHILD-N", (Reply(tools=(delegate("GRAND-G", background=True),)), passed_on)),
        AgentScript(["grand-g"], "GRAND-G", (Reply(tools=(shell("echo grand"),)), late)),
    )

    def react(reply: Reply, heard: frozenset[str]) -> Reply:
        if "grand-g" in heard:
            return Reply(text="All done.", owner="root")
        if "child-n" in heard:
            return _then_set(told, Reply(text="Still waiting.", owner="root"))
        return _then_set(waiting, Reply(text="Waiting.", owner="root")) if "root" in heard else reply

    return _reacting(scenario, react)


def _reacting(scenario: Scenario, react: Callable[[Reply, frozenset[str]], Reply]) -> Scenario:
    """The root's answers go through `react`, which is also told the owners whose answers stand in the request."""
    decide = scenario.decide
    nonces: dict[str, set[str]] = defaultdict(set)

    def answer(request: ModelRequest) -> Reply:
        reply = decide(request)
        nonces[str(reply.owner)].add(request.nonce)
        heard = frozenset(owner for owner, own in tuple(nonces.items()) if own & request.nonces)
        return react(reply, heard) if reply.owner == "root" else reply

    return replace(scenario, decide=answer)


def _then_set(event: threading.Event, reply: Reply) -> Reply:
    """The reply; the event is set when the harness has had the time to take it in and go idle."""
    timer = threading.Timer(_GOES_IDLE_WITHIN, event.set)
    timer.daemon = True
    timer.start()
    return reply


def background_failure() -> Scenario:
    """A background child whose model calls fail after its first tool call; the root is told so by a notification."""
    return _scenario(
        "background-failure",
        root(Reply(tools=(delegate("CHILD-F", background=True),)), Reply(text="Waiting."), Reply(text="All done.")),
        AgentScript(["child-f"], "CHILD-F", (Reply(text="On it.", tools=(shell("echo f"),)), Reply(status=400))),
        environment={"CLAUDE_CODE_MAX_RETRIES": "2"},
    )


def stopped_child() -> Scenario:
    """The root stops a background child that is in the middle of a command (2.1.332: the tool has to be loaded)."""
    scenario = _scenario(
        "stopped-child",
        root(
            Reply(tools=(delegate("CHILD-S", background=True),)),
            Reply(tools=(ToolUse("ToolSearch", {"query": "select:TaskStop", "max_results": 1}),)),
            Reply(tools=(shell("until [ -e started ]; do sleep 0.1; done"),)),
            Reply(text="Stopping."),
            Reply(text="All done."),
        ),
        worker("CHILD-S", ["child-s"], command="touch started; sleep 60"),
    )
    return replace(scenario, decide=_to_the_child(scenario, {"Stopping.": _stop}))


def stopped_again() -> Scenario:
    """The root stops a background child, sends it a further message, and ends while the child is at work on that; to be
    run with a low ceiling for such waits."""
    scenario = _scenario(
        "stopped-again",
        root(
            Reply(tools=(delegate("CHILD-S", background=True),)),
            Reply(tools=(ToolUse("ToolSearch", {"query": "select:TaskStop,SendMessage", "max_results": 2}),)),
            Reply(tools=(shell("until [ -e started ]; do sleep 0.1; done"),)),
            Reply(text="Stopping."),
            Reply(text="Resuming."),
            Reply(tools=(shell("until [ -e again ]; do sleep 0.1; done"),)),
            Reply(text="All done."),
        ),
        AgentScript(
            ["child-s"],
            "CHILD-S",
            (Reply(tools=(shell("touch started; sleep 60"),)), Reply(tools=(shell("touch again; sleep 60"),))),
        ),
    )
    return replace(scenario, decide=_to_the_child(scenario, {"Stopping.": _stop, "Resuming.": _send}))


def _to_the_child(scenario: Scenario, uses: Mapping[str, Callable[[str], ToolUse]]) -> Callable[[ModelRequest], Reply]:
    """Gives the root's replies with these texts a tool call that names the agent launched first."""
    decide = scenario.decide

    def answer(request: ModelRequest) -> Reply:
        reply, child = decide(request), request_agent_id(request)
        use = uses.get(reply.text or "") if reply.owner == "root" else None
        return reply if use is None or child is None else replace(reply, tools=(use(child),))

    return answer


def _stop(child: str) -> ToolUse:
    return ToolUse("TaskStop", {"task_id": child})


def _send(child: str) -> ToolUse:
    return ToolUse("SendMessage", {"to": child, "summary": "one thing more", "message": "One thing more, please."})


def wait_ceiling() -> Scenario:
    """A background child whose answer never ends; to be run with a low ceiling for such waits."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    return _scenario(
        "wait-ceiling",
        root(Reply(tools=(delegate("CHILD-W", background=True),)), Reply(text="Waiting.")),
        AgentScript(["child-w"], "CHILD-W", (Reply(tools=(shell("echo w"),)), held)),
    )


def compaction(*, after_child: bool = True) -> Scenario:
    """The context is said to be nearly full, and the harness has it summed up before it goes on."""
    delegating = (Reply(tools=(delegate("CHILD-A"),)),) if after_child else ()
    return _compacting(
        "compaction" if after_child else "compaction-alone",
        root(*delegating, _nearly_full("echo much")),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )


def notified_compaction() -> Scenario:
    """The context is summed up in mid-turn, just when a background child's notification is put into it."""
    launch = Reply(tools=(delegate("CHILD-A", background=True),))
    return _compacting(
        "notified-compaction",
        root(launch, _nearly_full("until [ -e ended ]; do sleep 0.1; done; sleep 1.5")),
        worker("CHILD-A", ["child-a"], "The answer is 41.", command="touch ended"),
    )


def _nearly_full(command: str) -> Reply:
    return Reply(text="Much to read.", tools=(shell(command),), usage={"input_tokens": 98_000})


def _compacting(name: str, *agents: AgentScript) -> Scenario:
    """A small context, a summary when it is asked for, and the root's end after it."""
    scenario = _scenario(name, *agents, environment={"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"})
    decide = scenario.decide
    summed_up = threading.Event()

    def sum_up(request: ModelRequest) -> Reply:
        if _SUMMARY_REQUEST in request.prompt_text:
            summed_up.set()
            return Reply(text=f"<summary>{ROOT}: almost done.</summary>", owner="root")
        reply = decide(request)
        return Reply(text="All done.", owner="root") if reply.owner == "root" and summed_up.is_set() else reply

    return replace(scenario, decide=sum_up)


def notified_child() -> Scenario:
    """A child launches a background grandchild and hears of its end while it is itself at work."""
    waiting = Reply(tools=(shell("until [ -e ended ]; do sleep 0.1; done; sleep 1.5"),))
    return _scenario(
        "notified-child",
        root(Reply(tools=(delegate("CHILD-N"),)), Reply(text="All done.")),
        AgentScript(
            ["child-n"],
            "CHILD-N",
            (Reply(tools=(delegate("GRAND-G", background=True),)), waiting, Reply(text="Passed on.")),
        ),
        worker("GRAND-G", ["grand-g"], "From the grandchild.", command="touch ended"),
    )


def slow_cut_child() -> Scenario:
    """A child's slow answer is cut after a finished tool call: the tool runs, and the child goes on to a good end."""
    broken = Reply(tools=(shell("echo c"), shell("echo never # " + "padding " * 20)), gap=0.4, cut_after=7)
    return _scenario(
        "slow-cut-child",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-C"),)), Reply(text="All done.")),
        AgentScript(["child-c"], "CHILD-C", (broken, Reply(text="Done."))),
        environment={"CLAUDE_CODE_MAX_RETRIES": "3"},
    )


def killed() -> Scenario:
    """The harness is told to stop while a child's second answer is held."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    scenario = _scenario(
        "killed",
        root(Reply(tools=(delegate("CHILD-K"),)), Reply(text="All done.")),
        AgentScript(["child-k"], "CHILD-K", (Reply(tools=(shell("echo k"),)), held)),
    )
    return ended_when_held(scenario)


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {
    "ordinary": ordinary,
    "single": single,
    "parallel": parallel,
    "identical-prompts": identical_prompts,
    "file-sharing": file_sharing,
    "tool-error": tool_error,
    "tool-configs": tool_configs,
    "child-failure-400": lambda: child_failure(400),
    "child-failure-500": lambda: child_failure(500),
    "cut-root": cut_root,
    "cut-tool": cut_tool,
    "cut-late": cut_late,
    "cut-child": cut_child,
    "slow-cut": slow_cut,
    "error-event": error_event,
    "max-tokens": max_tokens,
    "thinking": thinking,
    "background": background,
    "nested": nested,
    "resumed-child": resumed_child,
    "mid-turn-notification": mid_turn_notification,
    "nested-background": nested_background,
    "background-failure": background_failure,
    "stopped-child": stopped_child,
    "stopped-again": stopped_again,
    "wait-ceiling": wait_ceiling,
    "compaction": compaction,
    "compaction-alone": lambda: compaction(after_child=False),
    "notified-compaction": notified_compaction,
    "notified-child": notified_child,
    "slow-cut-child": slow_cut_child,
    "killed": killed,
}
"""Every scenario by its name."""
