"""What to say to OpenClaw (2026.9.6) so that it delegates, fails and breaks in a known way.

Each scenario is a function that returns a fresh `Scenario`; `SCENARIOS` lists them by name. Tool names and arguments
are OpenClaw's own. Every delegation is a background one: the root either ends its turn by `sessions_yield` and is woken
once for all children, or just ends it and is told of each child in a run of its own.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from roller_capture.scripted_provider.reply import ErrorEvent, Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest
from roller_capture.scripted_provider.scenario import Scenario
from roller_capture.scripted_provider.script import AgentScript, Script, Turn

ROOT = "ROOT-TASK"
_PAIR = 2
_LONGEST_WAIT = 60.0
_CHILD_KEY = re.compile(r'"childSessionKey": "([^"]+)"')
_OWN_KEY = re.compile(rb"Your session: (agent:[\w:-]+)")
"""In a child's system prompt."""
LONG = "A longer text, so that its stream can be broken in the middle of it and not only at an end. "
DELEGATION_TOOLS = ("sessions_spawn", "sessions_send")
_YIELD = ToolUse("sessions_yield", {"message": "waiting for the subtasks"})


_TOO_LONG_ERROR = {
    "message": "This model's maximum context length is 8192 tokens, your messages resulted in 9000 tokens. {nonce}",
    "type": "invalid_request_error",
    "code": "context_length_exceeded",
}
_TOO_LONG = Reply(status=400, error_body=json.dumps({"error": _TOO_LONG_ERROR}))


def shell(command: str) -> ToolUse:
    """A call of the shell tool."""
    return ToolUse("exec", {"command": command})


def spawn(marker: str, **more: object) -> ToolUse:
    """A delegation to a child whose task holds `marker`."""
    return ToolUse("sessions_spawn", {"task": f"{marker}: do your part.", "label": marker.lower(), **more})


def worker(marker: str, owners: Sequence[str], answer: str = "done", *, command: str = "echo working") -> AgentScript:
    """A child that runs one command and then answers."""
    return AgentScript(owners, marker, (Reply(text="On it.", tools=(shell(command),)), Reply(text=answer)))


def root(*turns: Turn) -> AgentScript:
    """The root, with its turns. It has to stand first: what it is told of its children holds their markers."""
    return AgentScript(("root",), ROOT, turns)


def _delegating(*children: ToolUse, then: Sequence[Turn] = (Reply(text="All done."),)) -> AgentScript:
    """A root that delegates, yields, and goes on when it is woken."""
    return root(Reply(text="Delegating.", tools=children), Reply(text="Yielding.", tools=(_YIELD,)), *then)


def _scenario(name: str, *agents: AgentScript, files: Mapping[str, str] | None = None) -> Scenario:
    return Scenario(name, f"{ROOT}: do what the scenario {name} says.", Script(agents), files=files or {})


def ordinary() -> Scenario:
    """One agent, one tool call, no child."""
    return _scenario("ordinary", root(Reply(text="Listing.", tools=(shell("ls"),)), Reply(text="All done.")))


def single() -> Scenario:
    """One child; the root yields and is woken by the child's end."""
    return _scenario("single", _delegating(spawn("CHILD-A")), worker("CHILD-A", ["child-a"], "The answer is 41."))


def parallel() -> Scenario:
    """Two children in one turn with different prompts; the one that was started first ends last."""
    slow = AgentScript(["child-p"], "CHILD-P", (Reply(tools=(shell("echo p"),)), Reply(text="Answer P.", delay=1.5)))
    children = (spawn("CHILD-P"), spawn("CHILD-R"))
    return _scenario("parallel", _delegating(*children), slow, worker("CHILD-R", ["child-r"], "Answer R."))


def identical_prompts() -> Scenario:
    """Two children in one turn with the same task, down to the byte; the one that was started first ends last.

    Which child came of which tool call, the wire itself says: the tool results name the children's session keys, and
    each child's system prompt names its own. So the children are answered once the root has shown both results.
    """
    roots = Script([_delegating(spawn("CHILD-SAME"), spawn("CHILD-SAME"))])
    started: dict[str, Script] = {}
    known = threading.Event()

    def decide(request: ModelRequest) -> Reply:
        own = _OWN_KEY.search(request.raw)
        if own is None:
            _note_children(request, started)
            if len(started) == _PAIR:
                known.set()
            return roots(request)
        known.wait(_LONGEST_WAIT)
        reply = started[own[1].decode()](request)
        return replace(reply, delay=1.0) if reply.owner == "child-1" and not reply.tools else reply

    return Scenario("identical-prompts", f"{ROOT}: do what the scenario identical-prompts says.", decide)


def _note_children(request: ModelRequest, started: dict[str, Script]) -> None:
    """A script for each child that a tool result names, in the order of the tool calls: their ids end in it."""
    for result in sorted(request.tool_results):
        key = _CHILD_KEY.search(result.text)
        if key is not None and key[1] not in started:
            started[key[1]] = Script([worker("CHILD-SAME", [f"child-{len(started) + 1}"], "An answer.")])


def file_sharing() -> Scenario:
    """One child writes a file, then a second one reads it."""
    then = (Reply(tools=(spawn("CHILD-READER"),)), Reply(text="Yielding.", tools=(_YIELD,)), Reply(text="All done."))
    return _scenario(
        "file-sharing",
        _delegating(spawn("CHILD-WRITER"), then=then),
        worker("CHILD-WRITER", ["writer"], "Written.", command="echo shared > shared.txt"),
        worker("CHILD-READER", ["reader"], "Read.", command="cat shared.txt"),
    )


def tool_error() -> Scenario:
    """A child whose tool fails; the child sees the error and ends well."""
    missing = ToolUse("read", {"path": "no-such-file.txt"})
    child = AgentScript(["child-e"], "CHILD-E", (Reply(tools=(missing,)), Reply(text="It failed, as it should.")))
    return _scenario("tool-error", _delegating(spawn("CHILD-E")), child)


def tool_configs() -> Scenario:
    """A child that is a leaf has fewer tools than the root; one that works elsewhere has another prompt."""
    return _scenario(
        "tool-configs",
        _delegating(spawn("CHILD-L", lightContext=True), spawn("CHILD-M", thinking="off")),
        worker("CHILD-L", ["leaf"], "Read."),
        worker("CHILD-M", ["other"], "Done."),
    )


def background() -> Scenario:
    """The root ends its turn without yielding; the child's end begins a further run of the root."""
    return _scenario(
        "background",
        root(Reply(tools=(spawn("CHILD-BG"),)), Reply(text="Waiting."), Reply(text="All done.")),
        worker("CHILD-BG", ["child-bg"], "Done in the background.", command="sleep 2; echo bg"),
    )


def background_pair() -> Scenario:
    """Two children of a root that does not yield."""
    return _scenario(
        "background-pair",
        root(Reply(tools=(spawn("CHILD-B1"), spawn("CHILD-B2"))), Reply(text="Waiting."), Reply(text="Heard.")),
        worker("CHILD-B1", ["child-b1"], "Answer B1.", command="sleep 1"),
        worker("CHILD-B2", ["child-b2"], "Answer B2.", command="sleep 3"),
    )


def mid_turn() -> Scenario:
    """The child ends while the root's turn is still running, and is put into that turn."""
    busy = [Reply(text="Busy.", tools=(shell("sleep 2"),)) for _ in range(3)]
    return _scenario(
        "mid-turn",
        root(Reply(tools=(spawn("CHILD-Q"),)), *busy, Reply(text="All done.")),
        AgentScript(["child-q"], "CHILD-Q", (Reply(text="A quick answer."),)),
    )


def nested() -> Scenario:
    """Root, child, grandchild; both the root and the child yield."""
    middle = AgentScript(
        ["child-n"],
        "CHILD-N",
        (Reply(tools=(spawn("GRAND-G"),)), Reply(text="Yielding.", tools=(_YIELD,)), Reply(text="Passed on.")),
    )
    grand = worker("GRAND-G", ["grand-g"], "From the grandchild.")
    return _scenario("nested", _delegating(spawn("CHILD-N")), middle, grand)


def child_failure(status: int) -> Scenario:
    """A child that has done one tool call, and whose further model calls all fail with an HTTP error."""
    child = AgentScript(["child-f"], "CHILD-F", (Reply(text="On it.", tools=(shell("echo f"),)), Reply(status=status)))
    return _scenario(f"child-failure-{status}", _delegating(spawn("CHILD-F")), child)


def resumed_child() -> Scenario:
    """A child that has ended is sent a further message by its session key."""
    again = (Reply(text="Resuming."), Reply(text="Yielding.", tools=(_YIELD,)), Reply(text="All done."))
    scenario = _scenario(
        "resumed-child",
        _delegating(spawn("CHILD-RE"), then=again),
        AgentScript(
            ["child-re"],
            "CHILD-RE",
            (Reply(tools=(shell("echo re"),)), Reply(text="An answer."), Reply(text="Another answer.")),
        ),
    )
    return _addressing_the_child(scenario, {"Resuming.": None})


def sent_without_waiting() -> Scenario:
    """A child that has ended is sent two further messages: one that is not waited for, and one that is not waited for
    long enough. Each answer begins a further run of the root."""
    again = (
        Reply(text="Resuming."),
        Reply(text="Sent."),
        Reply(text="Heard the first.", tools=(shell("echo heard"),)),
        Reply(text="Resuming once more."),
        Reply(text="Waited in vain."),
        Reply(text="Heard the second."),
    )
    child = (
        Reply(tools=(shell("echo re"),)),
        Reply(text="An answer."),
        Reply(text="Another answer."),
        Reply(tools=(shell("sleep 4"),)),
        Reply(text="A third answer."),
    )
    scenario = _scenario(
        "sent-without-waiting",
        _delegating(spawn("CHILD-RE"), then=again),
        AgentScript(["child-re"], "CHILD-RE", child),
    )
    return _addressing_the_child(scenario, {"Resuming.": 0, "Resuming once more.": 1})


def sent_and_failed() -> Scenario:
    """A child that has ended is sent two further messages, and fails each time: the first is not waited for."""
    again = (
        Reply(text="Resuming."),
        Reply(text="Sent."),
        Reply(text="Resuming once more."),
        Reply(text="Heard of both."),
    )
    child = (Reply(tools=(shell("echo sf"),)), Reply(text="An answer."), Reply(status=400))
    scenario = _scenario(
        "sent-and-failed",
        _delegating(spawn("CHILD-SF"), then=again),
        AgentScript(["child-sf"], "CHILD-SF", child),
    )
    return _addressing_the_child(scenario, {"Resuming.": 0, "Resuming once more.": None})


def _addressing_the_child(scenario: Scenario, waiting: Mapping[str, int | None]) -> Scenario:
    """With a message to the child in the root's answers of these texts. They say how many seconds it is waited for;
    `None` is the harness's own default."""
    decide = scenario.decide

    def address_the_child(request: ModelRequest) -> Reply:
        reply = decide(request)
        child = child_session_key(request)
        if reply.owner != "root" or reply.text is None or reply.text not in waiting or child is None:
            return reply
        seconds = waiting[reply.text]
        limit = {} if seconds is None else {"timeoutSeconds": seconds}
        message = {"sessionKey": child, "message": "One thing more, please.", **limit}
        return replace(reply, tools=(ToolUse("sessions_send", message),))

    return replace(scenario, decide=address_the_child)


def child_session_key(request: ModelRequest) -> str | None:
    """The session key that the result of the latest delegation names."""
    found = (_CHILD_KEY.search(result.text) for result in reversed(request.tool_results))
    return next((match[1] for match in found if match is not None), None)


def stopped_child() -> Scenario:
    """The root lists its background work and cancels a child that is in the middle of an answer."""
    never = threading.Event()
    held = Reply(text=LONG, hold=never, hold_after=2)
    listing = ToolUse("subagents", {"action": "list"})
    scenario = _scenario(
        "stopped-child",
        root(
            Reply(tools=(spawn("CHILD-S"),)),
            Reply(tools=(shell("sleep 3"),)),
            Reply(tools=(listing,)),
            Reply(text="Stopping."),
            Reply(text="All done."),
        ),
        AgentScript(["child-s"], "CHILD-S", (Reply(tools=(shell("echo s"),)), held)),
    )
    decide = scenario.decide

    def stop_the_child(request: ModelRequest) -> Reply:
        reply = decide(request)
        task = _task_id(request)
        if reply.owner != "root" or reply.text != "Stopping." or task is None:
            return reply
        return replace(reply, tools=(ToolUse("subagents", {"action": "cancel", "taskId": task}),))

    return replace(scenario, decide=stop_the_child)


def _task_id(request: ModelRequest) -> str | None:
    """The task id of the subagent in a listing of background work, where the root's own turn stands too."""
    for result in request.tool_results:
        found = re.search(r'"taskId": "([^"]+)",\s*"runtime": "subagent"', result.text)
        if found:
            return found[1]
    return None


def several_turns() -> Scenario:
    """Two turns of one session, to be run with a second prompt, each with a child."""
    return _scenario(
        "cross-process-resume",
        _delegating(
            spawn("CHILD-1"),
            then=(
                Reply(text="The first turn is done."),
                Reply(text="Delegating again.", tools=(spawn("CHILD-2"),)),
                Reply(text="Yielding.", tools=(_YIELD,)),
                Reply(text="All done."),
            ),
        ),
        worker("CHILD-1", ["child-1"], "Answer 1."),
        worker("CHILD-2", ["child-2"], "Answer 2."),
    )


def compaction() -> Scenario:
    """To be run with a second prompt, in which the service says that the context is too long: the harness has the first
    turn summed up and tries again."""
    much = Reply(text="Much to read.", tools=(shell("seq 1 30000"),))
    last = (_TOO_LONG, Reply(text="All done."))
    scenario = _scenario("compaction", root(much, much, much, Reply(text="The first turn is done."), last))
    decide = scenario.decide

    def after_the_summary(request: ModelRequest) -> Reply:
        reply = decide(request)  # the summary has taken the root's prompt out of its requests
        return replace(reply, text="All done.", owner="root") if reply.owner is None else reply

    return replace(scenario, decide=after_the_summary)


def compaction_again() -> Scenario:
    """One turn, of a session that holds much already: the service says once that the context is too long."""
    answered = threading.Event()
    scenario = _scenario("compaction-again", root(Reply(text="All done.")))

    def too_long_once(request: ModelRequest) -> Reply:
        reply = scenario.decide(request)
        if reply.owner != "root" or answered.is_set():
            return reply
        answered.set()
        return replace(_TOO_LONG, owner="root")

    return replace(scenario, decide=too_long_once)


def cut_child() -> Scenario:
    """A child's answer is cut, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=4)
    child = AgentScript(["child-c"], "CHILD-C", (Reply(tools=(shell("echo c"),)), (broken, Reply(text="Done."))))
    return _scenario("cut-child", _delegating(spawn("CHILD-C")), child)


def odd_answers() -> Scenario:
    """One turn: a refused spawn, tool results of 170 kB (which OpenClaw stores compressed), an answer that is cut, one
    with an error event, both repeated, and a last one that ends because it was too long."""
    much = shell("seq 1 30000")
    cut = Reply(text=LONG * 3, cut_after=4)
    wrong = Reply(text=LONG * 3, error_event=ErrorEvent(after=4))
    return _scenario(
        "odd-answers",
        root(
            Reply(tools=(spawn("CHILD-X", agentId="nobody"), much)),
            (cut, Reply(text="Much to read.", tools=(much,))),
            (wrong, Reply(text="More to read.", tools=(much,))),
            Reply(text="Too lo", finish="length"),
        ),
    )


def never_ends() -> Scenario:
    """A child whose answer never ends: to be run with a short drain timeout."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=2)
    child = AgentScript(["child-w"], "CHILD-W", (Reply(tools=(shell("echo w"),)), held))
    return _scenario("never-ends", root(Reply(tools=(spawn("CHILD-W"),)), Reply(text="Not waiting.")), child)


def killed() -> Scenario:
    """To be ended from outside while the root's second answer and a child's are held, in whatever order they are
    asked for."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=2)
    child = AgentScript(["child-k"], "CHILD-K", (Reply(tools=(shell("echo k"),)), held))
    scenario = _scenario("killed", root(Reply(tools=(spawn("CHILD-K"),)), replace(held, text="Waiting.")), child)
    waiting: set[str | None] = set()
    both = threading.Event()

    def tell(request: ModelRequest) -> Reply:
        reply = scenario.decide(request)
        if reply.hold is not None:
            waiting.add(reply.owner)
            if len(waiting) == _PAIR:
                both.set()
        return reply

    return replace(scenario, decide=tell, kill_when=both)


def in_one_session(name: str, *parts: Scenario) -> Scenario:
    """Several scenarios as turns of one session, for one gateway. The first turn's prompt is the whole's; the others
    are to be given as further prompts. A request is of the last part whose prompt stands in it, since a session keeps
    the prompts of its earlier turns; a child's request, of the part whose script knows the child. One without tools
    asks for a summary of the root's session."""

    def decide(request: ModelRequest) -> Reply:
        if not request.tool_names:
            return Reply(text="What was done so far: all of it.", owner="root")
        asked = [part for part in parts if part.prompt in request.prompt_text]
        if asked:
            return asked[-1].decide(request)
        replies = (part.decide(request) for part in parts)
        return next((reply for reply in replies if reply.owner is not None), Reply(text="Nobody's question."))

    [kill_when] = {part.kill_when for part in parts if part.kill_when is not None} or [None]
    return Scenario(name, parts[0].prompt, decide, kill_when=kill_when)


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {
    "ordinary": ordinary,
    "single": single,
    "parallel": parallel,
    "identical-prompts": identical_prompts,
    "file-sharing": file_sharing,
    "tool-error": tool_error,
    "tool-configs": tool_configs,
    "background": background,
    "background-pair": background_pair,
    "mid-turn": mid_turn,
    "nested": nested,
    "child-failure": lambda: child_failure(400),
    "child-failure-500": lambda: child_failure(500),
    "resumed-child": resumed_child,
    "sent-without-waiting": sent_without_waiting,
    "sent-and-failed": sent_and_failed,
    "stopped-child": stopped_child,
    "cross-process-resume": several_turns,
    "compaction": compaction,
    "compaction-again": compaction_again,
    "cut-child": cut_child,
    "odd-answers": odd_answers,
    "never-ends": never_ends,
    "killed": killed,
}
"""Every scenario by its name."""
