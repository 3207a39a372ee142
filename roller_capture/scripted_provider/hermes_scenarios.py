"""What to say to Hermes Agent (0.19.0) so that it delegates, fails and breaks in a known way.

Each scenario is a function that returns a fresh `Scenario`; `SCENARIOS` lists them by name. Tool names and arguments
are Hermes's own. Settings that a scenario needs beyond the launcher's stand in `SETTINGS`, as `--config` takes them.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from roller_capture.scripted_provider.reply import ErrorEvent, Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest
from roller_capture.scripted_provider.scenario import Scenario, ended_when_held
from roller_capture.scripted_provider.script import AgentScript, Script, Turn

ROOT = "ROOT-TASK"
LONG = "A longer text, so that its stream can be broken in the middle of it and not only at an end. "
_REVIEW = "Review the conversation above"  # Hermes's own words when it reviews a turn behind the user's back
_FULL = {"prompt_tokens": 150_000, "input_tokens": 150_000}


def shell(command: str) -> ToolUse:
    """A call of the shell tool."""
    return ToolUse("terminal", {"command": command})


def delegate(marker: str, *, context: str = "Nothing else matters.", **more: object) -> ToolUse:
    """A delegation to one child whose prompt holds `marker`."""
    return ToolUse("delegate_task", {"goal": f"{marker}: do your part.", "context": context, **more})


def delegate_batch(*markers: str) -> ToolUse:
    """One call that delegates to several children at once; only these run side by side."""
    return ToolUse("delegate_task", {"tasks": [{"goal": f"{marker}: do your part."} for marker in markers]})


def worker(marker: str, owners: Sequence[str], answer: str = "done", *, command: str = "echo working") -> AgentScript:
    """A child that runs one command and then answers."""
    return AgentScript(owners, marker, (Reply(text="On it.", tools=(shell(command),)), Reply(text=answer)))


def root(*turns: Turn) -> AgentScript:
    """The root, with its turns."""
    return AgentScript(("root",), ROOT, turns)


def _scenario(name: str, *agents: AgentScript) -> Scenario:
    return Scenario(name, f"{ROOT}: do what the scenario {name} says.", Script(agents))


def ordinary() -> Scenario:
    """One agent, one tool call, no child."""
    return _scenario("ordinary", root(Reply(text="Listing.", tools=(shell("ls"),)), Reply(text="All done.")))


def single() -> Scenario:
    """One child."""
    return _scenario(
        "single",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-A"),)), Reply(text="All done.")),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )


def parallel() -> Scenario:
    """Two children of one batched call with different prompts; the first task ends last."""
    slow = AgentScript(["child-a"], "CHILD-A", (Reply(tools=(shell("echo a"),)), Reply(text="Answer A.", delay=1.5)))
    return _scenario(
        "parallel",
        root(Reply(text="Delegating twice.", tools=(delegate_batch("CHILD-A", "CHILD-B"),)), Reply(text="All done.")),
        slow,
        worker("CHILD-B", ["child-b"], "Answer B."),
    )


def two_calls() -> Scenario:
    """Two delegating calls in one turn: Hermes carries them out one after the other."""
    calls = (delegate("CHILD-A"), delegate("CHILD-B"))
    return _scenario(
        "two-calls",
        root(Reply(text="Delegating twice.", tools=calls), Reply(text="All done.")),
        worker("CHILD-A", ["child-a"], "Answer A."),
        worker("CHILD-B", ["child-b"], "Answer B."),
    )


def identical_prompts() -> Scenario:
    """Two children of one batched call with the same prompt, down to the byte; the first to ask ends last."""
    scenario = _scenario(
        "identical-prompts",
        root(
            Reply(text="Delegating twice.", tools=(delegate_batch("CHILD-SAME", "CHILD-SAME"),)),
            Reply(text="All done."),
        ),
        worker("CHILD-SAME", ["child-1", "child-2"], "An answer."),
    )
    decide = scenario.decide

    def first_asked_ends_last(request: ModelRequest) -> Reply:
        reply = decide(request)
        return replace(reply, delay=1.0) if reply.owner == "child-1" and not reply.tools else reply

    return replace(scenario, decide=first_asked_ends_last)


def identical_calls() -> Scenario:
    """Two delegating calls with the same arguments in one turn: Hermes drops the second one."""
    calls = (delegate("CHILD-SAME"), delegate("CHILD-SAME"))
    return _scenario(
        "identical-calls",
        root(Reply(text="Delegating twice.", tools=calls), Reply(text="All done.")),
        worker("CHILD-SAME", ["child-1", "child-2"], "An answer."),
    )


def too_many() -> Scenario:
    """One batched call with more tasks than are allowed at once: Hermes refuses it, and there is no child."""
    return _scenario(
        "too-many",
        root(Reply(tools=(delegate_batch("CHILD-1", "CHILD-2", "CHILD-3", "CHILD-4"),)), Reply(text="All done.")),
    )


def file_sharing() -> Scenario:
    """One child writes a file, a second one reads it."""
    return _scenario(
        "file-sharing",
        root(
            Reply(tools=(delegate("CHILD-WRITER"),)),
            Reply(text="Now the reader.", tools=(delegate("CHILD-READER"),)),
            Reply(text="All done."),
        ),
        worker("CHILD-WRITER", ["writer"], "Written.", command="echo shared > shared.txt"),
        worker("CHILD-READER", ["reader"], "Read.", command="cat shared.txt"),
    )


def tool_error() -> Scenario:
    """A child whose tools fail in three ways; the child sees the errors and ends well."""
    calls = (shell("echo oops >&2; exit 3"), ToolUse("read_file", {"path": "/nonexistent"}), ToolUse("no_tool", {}))
    return _scenario(
        "tool-error",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-E"),)), Reply(text="All done.")),
        AgentScript(["child-e"], "CHILD-E", (Reply(tools=calls), Reply(text="It failed, as it should."))),
    )


def tool_configs() -> Scenario:
    """A leaf and an orchestrator side by side: Hermes gives them different tools, and both others than the root's."""
    tasks = [
        {"goal": "CHILD-LEAF: do your part."},
        {"goal": "CHILD-ORCH: do your part.", "role": "orchestrator"},
    ]
    return _scenario(
        "tool-configs",
        root(Reply(tools=(ToolUse("delegate_task", {"tasks": tasks}),)), Reply(text="All done.")),
        worker("CHILD-LEAF", ["leaf"], "Done."),
        worker("CHILD-ORCH", ["orchestrator"], "Done."),
    )


def background() -> Scenario:
    """The model asks for a background child: a finite query makes it a foreground one."""
    return _scenario(
        "background",
        root(Reply(tools=(delegate("CHILD-BG", background=True),)), Reply(text="All done.")),
        worker("CHILD-BG", ["child-bg"], "Done.", command="sleep 1; echo bg"),
    )


def interactive_background() -> Scenario:
    """For an interactive session, where children do run in the background: the root goes idle, and is told the result
    in a message of its own. Hermes also names the session. `kill_when` is set when the last answer has been asked for.
    """
    told = threading.Event()
    scenario = _scenario(
        "interactive-background",
        root(Reply(tools=(delegate("CHILD-BG"),)), Reply(text="Launched, and waiting.")),
        worker("CHILD-BG", ["child-bg"], "Done in the background.", command="sleep 2; echo bg"),
    )
    decide = scenario.decide

    def answer(request: ModelRequest) -> Reply:
        if not request.tool_names:
            return Reply(text="A name", owner="root")
        if "ASYNC DELEGATION" in request.prompt_text:
            told.set()
            return Reply(text="All done.", owner="root")
        return decide(request)

    return replace(scenario, decide=answer, kill_when=told)


def interactive_stopped() -> Scenario:
    """For an interactive session in which the user stops what runs in the background: the root is told in a message of
    its own that the child was interrupted. `kill_when` is set when the child has been told to run its command."""
    working = threading.Event()
    scenario = _scenario(
        "interactive-stopped",
        root(Reply(tools=(delegate("CHILD-S"),)), Reply(text="Launched, and waiting.")),
        worker("CHILD-S", ["child-s"], command="sleep 60"),
    )

    def answer(request: ModelRequest) -> Reply:
        if "ASYNC DELEGATION" in request.prompt_text:
            return Reply(text="All done.", owner="root")
        reply = scenario.decide(request)
        if reply.owner == "child-s":
            working.set()
        return reply

    return replace(scenario, decide=answer, kill_when=working)


def nested() -> Scenario:
    """Root, child, grandchild."""
    return _scenario(
        "nested",
        root(Reply(tools=(delegate("CHILD-N", role="orchestrator"),)), Reply(text="All done.")),
        AgentScript(["child-n"], "CHILD-N", (Reply(tools=(delegate("GRAND-G"),)), Reply(text="Passed on."))),
        worker("GRAND-G", ["grand-g"], "From the grandchild."),
    )


def resumed_child() -> Scenario:
    """The root delegates again and asks for the child that has ended: Hermes knows no such argument, and makes a new
    child."""
    again = delegate("CHILD-RE", resume="the child of before", session_id="the same")
    return _scenario(
        "resumed-child",
        root(Reply(tools=(delegate("CHILD-RE"),)), Reply(tools=(again,)), Reply(text="All done.")),
        worker("CHILD-RE", ["child-1", "child-2"], "An answer."),
    )


def nested_refused() -> Scenario:
    """A leaf tries to delegate: it has no tool for it, and there is no grandchild."""
    return _scenario(
        "nested-refused",
        root(Reply(tools=(delegate("CHILD-N"),)), Reply(text="All done.")),
        AgentScript(["child-n"], "CHILD-N", (Reply(tools=(delegate("GRAND-G"),)), Reply(text="I may not."))),
    )


def child_failure(status: int) -> Scenario:
    """A child that has done one tool call, and whose further model calls all fail with an HTTP error."""
    return _scenario(
        f"child-failure-{status}",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-F"),)), Reply(text="All done.")),
        AgentScript(["child-f"], "CHILD-F", (Reply(text="On it.", tools=(shell("echo f"),)), Reply(status=status))),
    )


def root_failure() -> Scenario:
    """The root's last answer fails with an HTTP error for good."""
    return _scenario("root-failure", root(Reply(text="Listing.", tools=(shell("ls"),)), Reply(status=400)))


def resumed_failure() -> Scenario:
    """For two prompts: the second one's answer fails with an HTTP error for good."""
    return _scenario("resumed-failure", root(Reply(text="The first turn is done."), Reply(status=400)))


def iteration_limit() -> Scenario:
    """A child that is at work until its limit of turns; Hermes then has it sum up, in a call beside the turns."""
    busy = tuple(Reply(tools=(shell(f"echo {number}"),)) for number in range(3))
    return _scenario(
        "iteration-limit",
        root(Reply(tools=(delegate("CHILD-L"),)), Reply(text="All done.")),
        AgentScript(["child-l"], "CHILD-L", (*busy, Reply(text="So far I have counted to three."))),
    )


def cut_root() -> Scenario:
    """The root's answer is cut in the middle of its text; asked to go on, it comes to an end."""
    broken = Reply(text=LONG * 3, cut_after=4)
    return _scenario("cut-root", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def cut_early() -> Scenario:
    """The root's answer is cut before any text: Hermes asks again at once, and it is the same logical call."""
    broken = Reply(text=LONG, cut_after=1)
    return _scenario("cut-early", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def cut_stream() -> Scenario:
    """A child's answer is cut in the middle, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=5)
    return _scenario(
        "cut-stream",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-C"),)), Reply(text="All done.")),
        AgentScript(["child-c"], "CHILD-C", (Reply(tools=(shell("echo c"),)), (broken, Reply(text="Done.")))),
    )


def cut_tool() -> Scenario:
    """A child's answer is cut in the middle of its only tool call; then it comes whole."""
    call = shell("echo x # " + "padding " * 20)
    return _scenario(
        "cut-tool",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-C"),)), Reply(text="All done.")),
        AgentScript(
            ["child-c"], "CHILD-C", ((Reply(tools=(call,), cut_after=4), Reply(tools=(call,))), Reply(text="Done."))
        ),
    )


def error_event() -> Scenario:
    """An error event in mid-text, in a stream that began with 200."""
    broken = Reply(text=LONG * 3, error_event=ErrorEvent(after=4))
    return _scenario("error-event", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def retries() -> Scenario:
    """An overloaded provider: the same logical call is made three times."""
    busy = Reply(status=503)
    return _scenario("retries", root((busy, busy, Reply(tools=(shell("echo x"),))), Reply(text="All done.")))


def compaction() -> Scenario:
    """The context is said to be nearly full after a child has ended, and Hermes has it summed up before it goes on."""
    full = Reply(text="Much to read.", tools=(shell("echo much"),), usage=_FULL)
    work = tuple(Reply(text=f"Step {number}.", tools=(shell(f"echo {number}"),)) for number in range(8))
    scenario = _scenario(
        "compaction",
        root(Reply(tools=(delegate("CHILD-A"),)), *work, full, Reply(text="All done.")),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )
    return _summed_up(scenario)


def rotation() -> Scenario:
    """The same with `compression.in_place: false`: the session goes on under a new id, and makes a child there."""
    full = Reply(text="Much to read.", tools=(shell("echo much"),), usage=_FULL)
    work = tuple(Reply(text=f"Step {number}.", tools=(shell(f"echo {number}"),)) for number in range(8))
    scenario = _scenario(
        "rotation",
        root(*work, full, Reply(text="All done.")),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )
    return _summed_up(scenario, Reply(text="Delegating.", tools=(delegate("CHILD-A"),), owner="root"))


def child_rotation() -> Scenario:
    """The same in a child: its session goes on under a new id, and it is still one child."""
    full = Reply(text="Much to read.", tools=(shell("echo much"),), usage=_FULL)
    work = tuple(Reply(text=f"Step {number}.", tools=(shell(f"echo {number}"),)) for number in range(8))
    scenario = _scenario(
        "child-rotation",
        root(Reply(tools=(delegate("CHILD-R"),)), Reply(text="All done.")),
        AgentScript(["child-r"], "CHILD-R", (*work, full, Reply(text="The answer is 41."))),
    )
    decide = scenario.decide
    summed_up = threading.Event()

    def answer(request: ModelRequest) -> Reply:
        if not request.tool_names:
            summed_up.set()
            return Reply(text="The task is almost done.", owner="child-r")
        reply = decide(request)
        if reply.owner == "child-r" and summed_up.is_set():
            return Reply(text="The answer is 41.", owner="child-r")
        return reply

    return replace(scenario, decide=answer)


def _summed_up(scenario: Scenario, *after: Reply) -> Scenario:
    """Answers the request for a summary; from then on the root gives `after`, then its last answer."""
    decide = scenario.decide
    last = Reply(text="All done.", owner="root")
    remaining = [*after, last]
    summed_up = threading.Event()

    def answer(request: ModelRequest) -> Reply:
        if not request.tool_names:
            summed_up.set()
            return Reply(text="The task is almost done.", owner="root")
        reply = decide(request)
        if reply.owner != "root" or not summed_up.is_set():
            return reply
        return remaining.pop(0) if len(remaining) > 1 else last

    return replace(scenario, decide=answer)


def review() -> Scenario:
    """A child with many tool calls, with Hermes's reviews on: an instance with the child's session id looks back at
    its turn while the root is at work."""
    work = tuple(Reply(text=f"Step {number}.", tools=(shell(f"echo {number}"),)) for number in range(4))
    scenario = _scenario(
        "review",
        root(Reply(tools=(delegate("CHILD-V"),)), Reply(text="All done.", delay=2.0)),
        AgentScript(["child-v"], "CHILD-V", (*work, Reply(text="Four steps."))),
    )
    decide = scenario.decide

    def answer(request: ModelRequest) -> Reply:
        if _REVIEW in request.prompt_text:
            return Reply(text="Nothing to save.", owner="child-v")
        return decide(request)

    return replace(scenario, decide=answer)


def cross_process_resume() -> Scenario:
    """A session that a second process goes on with; each of its turns delegates."""
    scenario = _scenario("cross-process-resume", worker("CHILD-A", ["child-a"]), worker("CHILD-B", ["child-b"]))
    decide = scenario.decide
    given: list[str] = []

    def answer(request: ModelRequest) -> Reply:
        if ROOT not in request.prompt_text:
            return decide(request)
        second = "SECOND-TURN" in request.prompt_text
        marker = "CHILD-B" if second else "CHILD-A"
        if marker not in given:
            given.append(marker)
            return Reply(tools=(delegate(marker),), owner="root")
        return Reply(text="All done." if second else "The first turn is done.", owner="root")

    return replace(scenario, decide=answer)


def title() -> Scenario:
    """A second turn after which Hermes names the session, in a call beside the turns."""
    return _scenario("title", root(Reply(text="The first turn is done."), Reply(text="All done.")))


def killed() -> Scenario:
    """Hermes is told to stop while a child's second answer is held."""
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
    "two-calls": two_calls,
    "identical-prompts": identical_prompts,
    "identical-calls": identical_calls,
    "too-many": too_many,
    "file-sharing": file_sharing,
    "tool-error": tool_error,
    "tool-configs": tool_configs,
    "background": background,
    "interactive-background": interactive_background,
    "interactive-stopped": interactive_stopped,
    "resumed-child": resumed_child,
    "nested": nested,
    "nested-refused": nested_refused,
    "child-failure": lambda: child_failure(400),
    "child-failure-500": lambda: child_failure(500),
    "root-failure": root_failure,
    "resumed-failure": resumed_failure,
    "iteration-limit": iteration_limit,
    "cut-root": cut_root,
    "cut-early": cut_early,
    "cut-stream": cut_stream,
    "cut-tool": cut_tool,
    "error-event": error_event,
    "retries": retries,
    "compaction": compaction,
    "rotation": rotation,
    "child-rotation": child_rotation,
    "review": review,
    "cross-process-resume": cross_process_resume,
    "title": title,
    "killed": killed,
}
"""Every scenario by its name."""

SETTINGS: Mapping[str, Sequence[str]] = {
    "nested": ("delegation.max_spawn_depth=2",),
    "tool-configs": ("delegation.max_spawn_depth=2",),
    "iteration-limit": ("delegation.max_iterations=3",),
    "child-rotation": ("compression.in_place=false",),
    "rotation": ("compression.in_place=false",),
    "review": ("skills.creation_nudge_interval=2", "memory.nudge_interval=1"),
    "title": ("auxiliary.title_generation.enabled=true",),
    "interactive-background": ("auxiliary.title_generation.enabled=true",),
}
"""Settings by scenario, `KEY=VALUE` each."""
