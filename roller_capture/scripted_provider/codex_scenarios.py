"""What to say to Codex (0.171.0) so that it delegates, fails and breaks in a known way.

Each scenario is a function that returns a fresh `Scenario`; `SCENARIOS` lists them by name. Tool names and arguments
are Codex's own. It has two generations of delegating tools, `multi_agent_v1` and `collaboration` (v2); which of them a
model is offered depends on its name and on a feature. Scenarios that both can play are made for either, and take the
one that the request declares. `ARGUMENTS` says what a run needs beside its scenario, which may be a model by name.

A delegation always returns at once; a parent that wants the result has to wait for it by a tool call. So an agent that
has nothing else left to say waits as long as an answer of its children is missing in its request.
"""

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from roller_capture.scripted_provider.reply import ErrorEvent, Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest, nonces_in
from roller_capture.scripted_provider.scenario import Scenario, ended_when_held
from roller_capture.scripted_provider.script import AgentScript, Script, Turn

ROOT: Final = "ROOT-TASK"
LONG: Final = "A longer text, so that its stream can be broken in the middle of it and not only at an end. "
DELEGATION_TOOLS: Final = tuple(
    f"{namespace}/{name}"
    for namespace, names in (
        ("multi_agent_v1", ("spawn_agent", "send_input")),
        ("collaboration", ("spawn_agent", "followup_task")),
    )
    for name in names
)
"""The tools that give a task to a child, as the provider's record names them."""

_SPAWN, _FOLLOW_UP, _WAIT, _STOP, _REOPEN = "spawn_agent", "follow-up", "wait_agent", "stop", "reopen"
_OWN_NAMES: Final = {
    "multi_agent_v1": {_FOLLOW_UP: "send_input", _STOP: "close_agent", _REOPEN: "resume_agent"},
    "collaboration": {_FOLLOW_UP: "followup_task", _STOP: "interrupt_agent"},
}
_ADDRESSED: Final = re.compile(r"CHILD|GRAND")
_FAILED_AUTHOR: Final = re.compile(r"Sender: (\S+?)\\nPayload:\\nAgent errored")
_MAX_WAITS: Final = 40


def shell(command: str) -> ToolUse:
    """A call of the shell tool."""
    return ToolUse("exec_command", {"cmd": command})


def delegate(marker: str, **more: Any) -> ToolUse:
    """A delegation to a child whose prompt holds `marker`; `more` are further arguments, used where the tool knows
    them."""
    return ToolUse(_SPAWN, {"message": f"{marker}: do your part.", "marker": marker, **more})


def worker(marker: str, owners: Sequence[str], answer: str = "done", *, command: str = "echo working") -> AgentScript:
    """A child that runs one command and then answers."""
    return AgentScript(owners, marker, (Reply(text="On it.", tools=(shell(command),)), Reply(text=answer)))


def root(*turns: Turn) -> AgentScript:
    """The root, with its turns."""
    return AgentScript(("root",), ROOT, turns)


@dataclass(frozen=True, slots=True)
class Tools:
    """The delegating tools that a request offers: their namespace, and the arguments of each by its name."""

    namespace: str | None
    arguments: Mapping[str, frozenset[str]]

    def use(self, name: str, arguments: Mapping[str, Any]) -> ToolUse:
        """A call of the tool that plays the part `name`, with those of the arguments that it knows."""
        own = _OWN_NAMES.get(self.namespace or "", {}).get(name, name)
        known = self.arguments.get(own, frozenset())
        return ToolUse(f"{self.namespace}/{own}", {key: value for key, value in arguments.items() if key in known})


def tools_of(request: ModelRequest) -> Tools:
    """They stand in `tools`, or in items of `input` where the harness loads them later."""
    listed = [*_objects(request.body.get("tools"))]
    for item in request.messages:
        listed += _objects(item.get("tools"))
    for tool in listed:
        if tool.get("type") == "namespace" and tool.get("name") in _OWN_NAMES:
            names = {str(inner.get("name")): _arguments(inner) for inner in _objects(tool.get("tools"))}
            return Tools(str(tool["name"]), names)
    return Tools(None, {})


def _arguments(tool: Mapping[str, Any]) -> frozenset[str]:
    parameters = tool.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    return frozenset(properties if isinstance(properties, dict) else ())


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


@dataclass
class Family:
    """Plays a script whose agents delegate by Codex's tools, and wait for their children.

    Delegations stand in the script as parts (`delegate`, `follow_up`, `stop`), since their names and arguments depend
    on what the request offers. `waits` names the owners that wait before their last answer, or, with `always`, before
    each further one.
    """

    script: Script
    waits: frozenset[str] = frozenset({"root"})
    always: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _own: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _waits: set[str] = field(default_factory=set)
    _answers: dict[str, str] = field(default_factory=dict)
    _marks: int = 0

    def __call__(self, request: ModelRequest) -> Reply:
        seen = self._readable(request)
        reply = self.script(seen)
        owner = str(reply.owner)
        with self._lock:
            mine = set(self._own[owner])
            self._own[owner].add(request.nonce)
            may_wait = owner in self.waits and (self.always or not reply.tools) and reply.status == 200
            if may_wait and self._missing(request, mine):
                self._waits.add(request.nonce)
                tools = tools_of(request)
                targets = _waited_for(request)
                wait = tools.use(_WAIT, {"targets": targets, "timeout_ms": 30_000})
                return Reply(text="Waiting.", tools=(wait,), owner=owner)
            if not reply.tools:
                self._answers[request.nonce] = owner
        return replace(reply, tools=tuple(self._own_use(request, use) for use in reply.tools))

    def _own_use(self, request: ModelRequest, use: ToolUse) -> ToolUse:
        if use.name not in (_SPAWN, _FOLLOW_UP, _STOP, _WAIT, _REOPEN):
            return use
        arguments = {"targets": _children(request), "timeout_ms": 30_000, **use.arguments}
        child = _children(request)[-1:] or [""]
        marker = str(arguments.pop("marker", "task"))
        with self._lock:
            self._marks += 1
            name = f"{marker.lower().replace('-', '_')}_{self._marks}"
        return tools_of(request).use(use.name, {"task_name": name, "target": child[0], "id": child[0], **arguments})

    def _missing(self, request: ModelRequest, mine: set[str]) -> bool:
        """Whether a delegation of this agent has no answer in its request yet."""
        calls = [item for item in request.messages if item.get("type") == "function_call"]
        made = [item for item in calls if _is_delegation(item) and nonces_in(json.dumps(item.get("id"))) & mine]
        heard = {nonce for nonce in request.nonces if nonce in self._answers and nonce not in mine}
        waited = sum(item.get("name") == _WAIT for item in calls)
        return len(made) > len(heard) + len(_failed(request)) and waited < _MAX_WAITS

    def _readable(self, request: ModelRequest) -> ModelRequest:
        """The request as `Script` reads it: tasks that another agent sent as messages of the user, and no waiting."""
        items = [_as_message(item) for item in request.messages]
        text = json.dumps({**request.body, "input": items})
        for nonce in request.nonces & self._waits:
            text = text.replace(nonce, "")
        return replace(request, body=json.loads(text))


def _is_delegation(item: Mapping[str, Any]) -> bool:
    return f"{item.get('namespace')}/{item.get('name')}" in DELEGATION_TOOLS


def _as_message(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An `agent_message` (v2) as a user's; the task of a child stands in a part of its own."""
    if item.get("type") != "agent_message":
        return item
    texts = [str(part.get("text") or part.get("encrypted_content") or "") for part in _objects(item.get("content"))]
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}


def _children(request: ModelRequest) -> list[str]:
    """What the harness calls the children that were launched, in the order of their launches."""
    found = []
    for result in request.tool_results:
        value = _json(result.text)
        name = value.get("agent_id") or value.get("task_name")
        if isinstance(name, str):
            found.append(name)
    return found


def _waited_for(request: ModelRequest) -> list[str]:
    """The children (v1) that no result has named yet; all of them where each was named before."""
    named = set()
    for result in request.tool_results:
        status = _json(result.text).get("status")
        named |= set(status) if isinstance(status, dict) else set()
    children = _children(request)
    return [child for child in children if child not in named] or children


def _failed(request: ModelRequest) -> set[str]:
    """The children that are said to have failed: their errors hold no mark of any answer."""
    found = set(_FAILED_AUTHOR.findall(json.dumps(request.messages)))
    for result in request.tool_results:
        status = _json(result.text).get("status")
        if isinstance(status, dict):
            found |= {child for child, state in status.items() if isinstance(state, dict) and "errored" in state}
    return found


def _json(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _scenario(name: str, *agents: AgentScript, waits: Sequence[str] = ("root",)) -> Scenario:
    """Agents further down come first, since a forked child's request holds its parent's prompt too."""
    ordered = sorted(agents, key=lambda agent: ("GRAND", "CHILD", ROOT).index(_level(agent.marker)))
    family = Family(Script(ordered), frozenset(waits))
    return Scenario(name, f"{ROOT}: do what the scenario {name} says.", family)


def _level(marker: str) -> str:
    found = _ADDRESSED.search(marker)
    return found.group() if found else ROOT


def ordinary() -> Scenario:
    """One agent, one tool call, no child."""
    return _scenario("ordinary", root(Reply(text="Listing.", tools=(shell("ls"),)), Reply(text="All done.")))


def single() -> Scenario:
    """One child that is waited for."""
    return _scenario(
        "single",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-A"),)), Reply(text="All done.")),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )


def parallel() -> Scenario:
    """Two children in one turn with different prompts; the one that was started first ends last."""
    slow = AgentScript(["child-a"], "CHILD-A", (Reply(tools=(shell("echo a"),)), Reply(text="Answer A.", delay=1.5)))
    return _scenario(
        "parallel",
        root(
            Reply(text="Delegating twice.", tools=(delegate("CHILD-A"), delegate("CHILD-B"))), Reply(text="All done.")
        ),
        slow,
        worker("CHILD-B", ["child-b"], "Answer B."),
    )


def identical_prompts() -> Scenario:
    """Two children in one turn with the same prompt, down to the byte; the first to ask ends last."""
    scenario = _scenario(
        "identical-prompts",
        root(
            Reply(text="Delegating twice.", tools=(delegate("CHILD-SAME"), delegate("CHILD-SAME"))),
            Reply(text="All done."),
        ),
        worker("CHILD-SAME", ["child-1", "child-2"], "An answer."),
    )
    decide = scenario.decide

    def first_asked_ends_last(request: ModelRequest) -> Reply:
        reply = decide(request)
        return replace(reply, delay=1.0) if reply.owner == "child-1" and not reply.tools else reply

    return replace(scenario, decide=first_asked_ends_last)


def one_wait_for_two() -> Scenario:
    """Two children have both ended before the root waits for both, so that one tool output brings two results (v1)."""
    return _scenario(
        "one-wait-for-two",
        root(
            Reply(tools=(delegate("CHILD-A"), delegate("CHILD-B"))),
            Reply(text="At work.", tools=(shell("sleep 1.5"),)),
            Reply(text="Now both.", tools=(ToolUse(_WAIT, {}),)),
            Reply(text="All done."),
        ),
        worker("CHILD-A", ["child-a"], "Answer A."),
        worker("CHILD-B", ["child-b"], "Answer B."),
        waits=(),
    )


def file_sharing() -> Scenario:
    """One child writes a file, a second one, launched when the first has ended, reads it."""
    scenario = _scenario(
        "file-sharing",
        root(Reply(tools=(delegate("CHILD-WRITER"),)), Reply(tools=(delegate("CHILD-READER"),)), Reply(text="Done.")),
        worker("CHILD-WRITER", ["writer"], "Written.", command="echo shared > shared.txt"),
        worker("CHILD-READER", ["reader"], "Read.", command="cat shared.txt"),
    )
    return _patient(scenario)


def tool_error() -> Scenario:
    """A child whose tools fail, also one that there is not; it sees the errors and ends well."""
    wrong = (shell("echo oops >&2; exit 3"), ToolUse("no_such_tool", {"x": 1}))
    return _scenario(
        "tool-error",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-E"),)), Reply(text="All done.")),
        AgentScript(["child-e"], "CHILD-E", (Reply(tools=wrong), Reply(text="It failed, as it should."))),
    )


def tool_configs() -> Scenario:
    """Two children: one like the root, one with another model, which offers it other tools."""
    other = delegate("CHILD-M", model="gpt-5.5", fork_turns="none")
    return _scenario(
        "tool-configs",
        root(Reply(tools=(delegate("CHILD-R"), other)), Reply(text="All done.")),
        worker("CHILD-R", ["reader"], "Read."),
        worker("CHILD-M", ["other-model"], "Done by another model."),
    )


def child_failure(status: int) -> Scenario:
    """A child that has done one tool call, and whose further model calls all fail with an HTTP error."""
    return _scenario(
        f"child-failure-{status}",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-F"),)), Reply(text="All done.")),
        AgentScript(["child-f"], "CHILD-F", (Reply(text="On it.", tools=(shell("echo f"),)), Reply(status=status))),
    )


def cut_root() -> Scenario:
    """The root's answer is cut in the middle of its text, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=6)
    return _scenario("cut-root", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def cut_tool() -> Scenario:
    """An answer is cut after a finished tool call: the tool runs, and nothing native says that the call was cut."""
    broken = Reply(tools=(shell("echo x"), shell("echo never # " + "padding " * 20)), gap=0.1, cut_after=9)
    return _scenario("cut-tool", root(broken, Reply(text="All done.")))


def cut_spawn() -> Scenario:
    """The same where the finished tool call is a delegation: a child of a call that was cut."""
    broken = Reply(tools=(delegate("CHILD-A"), shell("echo never # " + "padding " * 20)), gap=0.1, cut_after=9)
    return _scenario(
        "cut-spawn", root(broken, Reply(text="All done.")), worker("CHILD-A", ["child-a"], "The answer is 41.")
    )


def cut_child() -> Scenario:
    """A child's answer is cut, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=6)
    return _scenario(
        "cut-child",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-C"),)), Reply(text="All done.")),
        AgentScript(["child-c"], "CHILD-C", (Reply(tools=(shell("echo c"),)), (broken, Reply(text="Done.")))),
    )


def error_event() -> Scenario:
    """An error event in mid-text, in a stream that began with 200."""
    broken = Reply(text=LONG * 3, error_event=ErrorEvent(after=6))
    return _scenario("error-event", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def incomplete() -> Scenario:
    """The root's answer ends as `incomplete`, and its turn with it."""
    return _scenario("incomplete", root(Reply(tools=(shell("echo x"),)), Reply(text="Too lo", finish="incomplete")))


def thinking() -> Scenario:
    """Answers of several items each: reasoning with encrypted content, text and two tool calls."""
    calls = (shell("echo one"), shell("echo two"))
    return _scenario(
        "thinking", root(Reply(thinking="Let me see.", text="Both.", tools=calls), Reply(text="All done."))
    )


def background() -> Scenario:
    """The root goes on working after it has delegated, and is told the result by a message of its own."""
    scenario = _scenario(
        "background",
        root(Reply(tools=(delegate("CHILD-BG"),)), Reply(text="All done.")),
        worker("CHILD-BG", ["child-bg"], "Done in the background.", command="sleep 0.5; echo bg"),
    )
    return _notified(scenario)


def abandoned() -> Scenario:
    """The root ends while a child still waits for its answer; the child ends with it."""
    reached = threading.Event()
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    scenario = _scenario(
        "abandoned",
        root(Reply(tools=(delegate("CHILD-W"),)), Reply(text="All done.", hold=reached, hold_after=0)),
        AgentScript(["child-w"], "CHILD-W", (Reply(tools=(shell("echo w"),)), held)),
        waits=(),
    )
    return replace(scenario, decide=_telling(scenario, "child-w", reached))


def nested() -> Scenario:
    """Root, child, grandchild; each waits for the next."""
    return _scenario(
        "nested",
        root(Reply(tools=(delegate("CHILD-N"),)), Reply(text="All done.")),
        AgentScript(["child-n"], "CHILD-N", (Reply(tools=(delegate("GRAND-G"),)), Reply(text="Passed on."))),
        worker("GRAND-G", ["grand-g"], "From the grandchild."),
        waits=("root", "child-n"),
    )


def nested_notified() -> Scenario:
    """Root, child, grandchild; each works until it is told the result of the next."""
    return replace(_notified(nested()), name="nested-notified")


def resumed_child() -> Scenario:
    """A child that has ended is given a further task."""
    scenario = _scenario(
        "resumed-child",
        root(
            Reply(tools=(delegate("CHILD-RE"),)),
            Reply(tools=(ToolUse(_FOLLOW_UP, {"message": "One thing more, please."}),)),
            Reply(text="All done."),
        ),
        AgentScript(
            ["child-re"],
            "CHILD-RE",
            (Reply(tools=(shell("echo re"),)), Reply(text="An answer."), Reply(text="Another answer.", delay=0.5)),
        ),
    )
    return _patient(scenario)


def stopped_child() -> Scenario:
    """The root stops a child whose answer does not come."""
    reached = threading.Event()
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    scenario = _scenario(
        "stopped-child",
        root(
            Reply(tools=(delegate("CHILD-S"),)),
            Reply(tools=(ToolUse(_STOP, {}),), hold=reached, hold_after=0),
            Reply(text="All done."),
        ),
        AgentScript(["child-s"], "CHILD-S", (Reply(tools=(shell("echo s"),)), held)),
        waits=(),
    )
    return replace(scenario, decide=_telling(scenario, "child-s", reached))


def stopped_again(*between: Reply) -> Scenario:
    """The root stops a child, gives it a further task (`between` comes before that), and ends while the child is at
    work on it."""
    stopping, ending = threading.Event(), threading.Event()
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    scenario = _scenario(
        "stopped-again",
        root(
            Reply(tools=(delegate("CHILD-S"),)),
            Reply(tools=(ToolUse(_STOP, {}),), hold=stopping, hold_after=0),
            *between,
            Reply(tools=(ToolUse(_FOLLOW_UP, {"message": "One thing more, please."}),)),
            Reply(text="All done.", hold=ending, hold_after=0),
        ),
        AgentScript(["child-s"], "CHILD-S", (Reply(tools=(shell("echo s"),)), held)),
        waits=(),
    )
    return replace(scenario, decide=_telling(scenario, "child-s", stopping, ending))


def reopened_child() -> Scenario:
    """The same with v1, whose closed children take no task before they are opened again."""
    return replace(stopped_again(Reply(tools=(ToolUse(_REOPEN, {}),))), name="reopened-child")


def forked_late() -> Scenario:
    """A child that is launched with a copy of the root's history, after the root has worked and delegated before."""
    forked = delegate("CHILD-B", fork_context=True, fork_turns="all")
    scenario = _scenario(
        "forked-late",
        root(
            Reply(text="First.", tools=(shell("echo first"),)),
            Reply(tools=(delegate("CHILD-A"),)),
            Reply(tools=(forked,)),
            Reply(text="All done."),
        ),
        worker("CHILD-A", ["child-a"], "Answer A."),
        worker("CHILD-B", ["child-b"], "Answer B."),
    )
    return _patient(scenario)


def compaction() -> Scenario:
    """The context is said to be nearly full, and the harness has it summed up before it goes on."""
    full = Reply(
        text="Much to read.", tools=(shell("echo much"),), usage={"input_tokens": 90_000, "total_tokens": 90_042}
    )
    scenario = _scenario(
        "compaction",
        root(Reply(tools=(delegate("CHILD-A"),)), full),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )
    decide = _patient(scenario).decide
    summed_up = threading.Event()

    def sum_up(request: ModelRequest) -> Reply:
        if _sums_up(request):
            summed_up.set()
            return Reply(text=f"{ROOT}: almost done.", owner="root")
        reply = decide(request)
        return Reply(text="All done.", owner="root") if reply.owner == "root" and summed_up.is_set() else reply

    return replace(scenario, decide=sum_up)


def cross_process_resume() -> Scenario:
    """Two turns in two processes; to be run with a second prompt, which holds `ROOT-TASK` too."""
    return _scenario(
        "cross-process-resume",
        root(
            Reply(tools=(delegate("CHILD-A"),)),
            Reply(text="First turn done."),
            Reply(text="More.", tools=(shell("echo more"),)),
            Reply(text="All done."),
        ),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )


def killed() -> Scenario:
    """The harness is told to stop while a child's second answer is held."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    scenario = _scenario(
        "killed",
        root(Reply(tools=(delegate("CHILD-K"),)), Reply(text="All done.")),
        AgentScript(["child-k"], "CHILD-K", (Reply(tools=(shell("echo k"),)), held)),
    )
    return ended_when_held(scenario, "child-k")


def searched_tools() -> Scenario:
    """The root is not offered the delegating tools until it has searched for them; for a model whose tools are loaded
    later."""
    search = ToolUse("tool_search", {"query": "spawn an agent", "limit": 8}, kind="tool_search_call")
    return _scenario(
        "searched-tools",
        root(
            Reply(text="Searching.", tools=(search,)),
            Reply(text="Delegating.", tools=(delegate("CHILD-A"),)),
            Reply(text="All done."),
        ),
        worker("CHILD-A", ["child-a"], "The answer is 41."),
    )


def code_mode() -> Scenario:
    """The root runs a piece of JavaScript, as a custom tool; for a model in code mode."""
    code = 'const run = await tools.exec_command({cmd: "echo from-code"}); text(JSON.stringify(run));'
    run = ToolUse("exec", {"input": code}, kind="custom_tool_call")
    return _scenario("code-mode", root(Reply(text="Running.", tools=(run,)), Reply(text="All done.")))


def review() -> Scenario:
    """A code review, which a thread of its own makes; to be run with the profile `review`."""
    return _scenario("review", AgentScript(("reviewer",), ROOT, (Reply(tools=(shell("ls"),)), Reply(text="Fine."))))


def guardian() -> Scenario:
    """A command that needs more rights than the sandbox gives, which a thread of the harness's own allows."""
    asks = {"cmd": "echo allowed", "sandbox_permissions": "require_escalated", "justification": "It has to be."}
    scenario = _scenario(
        "guardian", root(Reply(text="Asking.", tools=(ToolUse("exec_command", asks),)), Reply(text="All done."))
    )
    decide = scenario.decide
    verdict = {"risk_level": "low", "user_authorization": "high", "outcome": "allow", "rationale": "Harmless."}

    def guard(request: ModelRequest) -> Reply:
        if request.headers.get("x-openai-subagent") == "guardian":
            return Reply(text=json.dumps(verdict), owner="guardian")
        return decide(request)

    return replace(scenario, decide=guard)


def _patient(scenario: Scenario) -> Scenario:
    """The waiting agents wait before each of their answers, not only before the last."""
    family = scenario.decide
    assert isinstance(family, Family)
    return replace(scenario, decide=replace(family, always=True))


def _notified(scenario: Scenario) -> Scenario:
    """Where an agent would wait it works instead, so that only messages bring it the results of its children."""
    decide = scenario.decide

    def answer(request: ModelRequest) -> Reply:
        reply = decide(request)
        waits = any(tool.name.endswith(_WAIT) for tool in reply.tools)
        return replace(reply, text="At work.", tools=(shell("sleep 0.3"),)) if waits else reply

    return replace(scenario, decide=answer)


def _telling(scenario: Scenario, owner: str, *reached: threading.Event) -> Callable[[ModelRequest], Reply]:
    """One event after the other is set when the owner is given an answer that is held."""
    decide = scenario.decide

    def answer(request: ModelRequest) -> Reply:
        reply = decide(request)
        waiting = next((event for event in reached if not event.is_set()), None)
        if reply.owner == owner and reply.hold is not None and waiting is not None:
            waiting.set()
        return reply

    return answer


def _sums_up(request: ModelRequest) -> bool:
    """The harness's own mark on requests that sum a thread up."""
    return '"request_kind":"compaction"' in request.headers.get("x-codex-turn-metadata", "").replace(" ", "")


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {
    "ordinary": ordinary,
    "single": single,
    "parallel": parallel,
    "identical-prompts": identical_prompts,
    "one-wait-for-two": one_wait_for_two,
    "file-sharing": file_sharing,
    "tool-error": tool_error,
    "tool-configs": tool_configs,
    "child-failure-400": lambda: child_failure(400),
    "child-failure-500": lambda: child_failure(500),
    "cut-root": cut_root,
    "cut-tool": cut_tool,
    "cut-spawn": cut_spawn,
    "cut-child": cut_child,
    "error-event": error_event,
    "incomplete": incomplete,
    "thinking": thinking,
    "background": background,
    "abandoned": abandoned,
    "nested": nested,
    "nested-notified": nested_notified,
    "resumed-child": resumed_child,
    "stopped-child": stopped_child,
    "stopped-again": stopped_again,
    "reopened-child": reopened_child,
    "forked-late": forked_late,
    "compaction": compaction,
    "cross-process-resume": cross_process_resume,
    "searched-tools": searched_tools,
    "code-mode": code_mode,
    "review": review,
    "guardian": guardian,
    "killed": killed,
}
"""Every scenario by its name."""

_FEW_RETRIES: Final = (
    "-c",
    "model_providers.roller.request_max_retries=1",
    "-c",
    "model_providers.roller.stream_max_retries=2",
)
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("nested", "nested-notified"), ("-c", "agents.max_depth=2")),
    "compaction": ("-c", "model_auto_compact_token_limit=50000"),
    "child-failure-500": _FEW_RETRIES,
    "guardian": ("--approve-for-me",),
}
"""Arguments of the harness that a scenario needs."""
