"""What to say to OpenCode (1.18.33) so that it delegates, fails and breaks in a known way.

Each scenario is a function that returns a fresh `Scenario`; `SCENARIOS` lists them by name. Tool names and arguments
are OpenCode's own. A root's first request is accompanied by one for a title, which declares no tools and belongs to the
root. Children in the background need the profile `background`, nested ones the profile `nested`.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from roller_capture.scripted_provider.reply import ErrorEvent, Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest
from roller_capture.scripted_provider.scenario import Scenario, ended_when_held
from roller_capture.scripted_provider.script import AgentScript, Script, Turn

ROOT = "ROOT-TASK"
LONG = "A longer text, so that its stream can be broken in the middle of it and not only at an end. "
OTHER_MODEL = "other-scripted-model"
_AT_ONCE = {"retry-after-ms": "10"}
"""Without it the harness waits 2, 4, 8, … seconds before it asks again."""
_FULL = {"prompt_tokens": 190_000, "input_tokens": 190_000, "total_tokens": 190_100}
"""A context that is nearly full, in the words of all three protocols."""
_CHILD_ID = re.compile(r'<task id="(ses_[A-Za-z0-9]+)"')


def shell(command: str) -> ToolUse:
    """A call of the shell tool."""
    return ToolUse("bash", {"command": command, "description": "Run a command"})


def delegate(marker: str, *, agent_type: str = "general", **more: object) -> ToolUse:
    """A delegation to a child whose prompt holds `marker`."""
    arguments = {"description": "a subtask", "prompt": f"{marker}: do your part.", "subagent_type": agent_type, **more}
    return ToolUse("task", arguments)


def worker(marker: str, owners: Sequence[str], answer: str = "done", *, command: str = "echo working") -> AgentScript:
    """A child that runs one command and then answers."""
    return AgentScript(owners, marker, (Reply(text="On it.", tools=(shell(command),)), Reply(text=answer)))


def root(*turns: Turn) -> AgentScript:
    """The root, with its turns."""
    return AgentScript(("root",), ROOT, turns)


def _scenario(name: str, *agents: AgentScript, files: Mapping[str, str] | None = None) -> Scenario:
    script = Script(agents)

    def decide(request: ModelRequest) -> Reply:
        return script(request) if request.tool_names else Reply(text="A title", owner="root")

    return Scenario(name, f"{ROOT}: do what the scenario {name} says.", decide, files=files or {})


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
    children = (delegate("CHILD-A"), delegate("CHILD-B"))
    slow = AgentScript(["child-a"], "CHILD-A", (Reply(tools=(shell("echo a"),)), Reply(text="Answer A.", delay=1.5)))
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
    """One child writes a file, then another one reads it."""
    return _scenario(
        "file-sharing",
        root(
            Reply(text="First.", tools=(delegate("CHILD-W"),)),
            Reply(text="Second.", tools=(delegate("CHILD-R"),)),
            Reply(text="All done."),
        ),
        worker("CHILD-W", ["writer"], "Written.", command="echo shared > shared.txt"),
        worker("CHILD-R", ["reader"], "Read.", command="cat shared.txt"),
    )


def tool_error() -> Scenario:
    """A child with a tool that fails and a command that ends badly; it sees both and ends well."""
    calls = (ToolUse("read", {"filePath": "/nonexistent/file.txt"}), shell("echo oops >&2; exit 3"))
    return _scenario(
        "tool-error",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-E"),)), Reply(text="All done.")),
        AgentScript(["child-e"], "CHILD-E", (Reply(text="On it.", tools=calls), Reply(text="Failed, as it should."))),
    )


def tool_configs() -> Scenario:
    """Two children of other kinds than the root, by the project's own configuration: one with few tools, one with
    another model."""
    project = {
        "provider": {"roller": {"models": {OTHER_MODEL: {"name": OTHER_MODEL, "tool_call": True}}}},
        "agent": {
            "reader": {
                "mode": "subagent",
                "description": "Only reads.",
                "prompt": "READER-SYSTEM: you only read.",
                "permission": {"edit": "deny", "webfetch": "deny", "todowrite": "deny"},
            },
            "other": {"mode": "subagent", "description": "Has another model.", "model": f"roller/{OTHER_MODEL}"},
        },
    }
    return _scenario(
        "tool-configs",
        root(
            Reply(tools=(delegate("CHILD-R", agent_type="reader"), delegate("CHILD-M", agent_type="other"))),
            Reply(text="All done."),
        ),
        worker("CHILD-R", ["reader"], "Read."),
        worker("CHILD-M", ["other-model"], "Done by another model."),
        files={"opencode.json": json.dumps(project)},
    )


def child_failure(status: int) -> Scenario:
    """A child that has done one tool call, and whose further model calls fail with an HTTP error; one of 500 is asked
    for again five times."""
    broken = Reply(status=status, headers=_AT_ONCE)
    return _scenario(
        f"child-failure-{status}",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-F"),)), Reply(text="All done.")),
        AgentScript(["child-f"], "CHILD-F", (Reply(text="On it.", tools=(shell("echo f"),)), broken)),
    )


def own_project() -> Scenario:
    """A project with a configuration folder of its own, as OpenCode leaves it behind, which brings an agent, and with a
    file that would lead around the proxy."""
    package = {"dependencies": {"@opencode-ai/plugin": "1.18.33"}}
    lock = {"lockfileVersion": 3, "packages": {"": package}}
    nowhere = {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "none"}
    return _scenario(
        "own-project",
        root(Reply(tools=(delegate("CHILD-P", agent_type="reviewer"),)), Reply(text="All done.")),
        worker("CHILD-P", ["child-p"], "Reviewed."),
        files={
            ".opencode/agent/reviewer.md": "---\nmode: subagent\ndescription: Reviews.\n---\nREVIEWER-SYSTEM\n",
            ".opencode/package.json": json.dumps(package),
            ".opencode/package-lock.json": json.dumps(lock),
            ".opencode/node_modules/.package-lock.json": json.dumps(lock),
            "opencode.json": json.dumps({"provider": {"roller": {"options": nowhere}}, "enabled_providers": ["other"]}),
        },
    )


def retries() -> Scenario:
    """The root's second answer fails with 500 before it comes: two requests with one message id."""
    broken = Reply(status=500, headers=_AT_ONCE)
    return _scenario("retries", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def title_failure() -> Scenario:
    """The title's request fails each time; the run goes on without one."""
    scenario = ordinary()
    decide = scenario.decide

    def fail_titles(request: ModelRequest) -> Reply:
        return decide(request) if request.tool_names else Reply(status=500, owner="root", headers=_AT_ONCE)

    return replace(scenario, name="title-failure", decide=fail_titles)


def cut_root() -> Scenario:
    """The root's answer is cut in the middle of its text, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=4)
    return _scenario("cut-stream", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def cut_child() -> Scenario:
    """A child's answer is cut within a tool call, then comes whole."""
    call = shell("echo c # " + "padding " * 20)
    broken = Reply(text="Let me", tools=(call,), gap=0.05, cut_after=5)
    return _scenario(
        "cut-child",
        root(Reply(text="Delegating.", tools=(delegate("CHILD-C"),)), Reply(text="All done.")),
        AgentScript(["child-c"], "CHILD-C", ((broken, Reply(tools=(call,))), Reply(text="Done."))),
    )


def error_event() -> Scenario:
    """An error event in mid-text, in a stream that began with 200."""
    broken = Reply(text=LONG * 3, error_event=ErrorEvent(after=4))
    return _scenario("error-event", root(Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done."))))


def background() -> Scenario:
    """A child in the background that ends after the root has gone idle; its result comes as an automatic message."""
    launch = delegate("CHILD-BG", background=True)
    return _scenario(
        "background",
        root(Reply(tools=(launch,)), Reply(text="Waiting."), Reply(text="All done.")),
        worker("CHILD-BG", ["child-bg"], "Done in the background.", command="sleep 3; echo bg"),
    )


def background_refused() -> Scenario:
    """The model asks for a child in the background where that is not switched on: refused, and no child is there."""
    launch = delegate("CHILD-BG", background=True)
    return _scenario("background-refused", root(Reply(tools=(launch,)), Reply(text="All done.")))


def background_failure() -> Scenario:
    """A child in the background whose model calls fail after its first tool call; the root is told so."""
    return _scenario(
        "background-failure",
        root(Reply(tools=(delegate("CHILD-F", background=True),)), Reply(text="Waiting."), Reply(text="All done.")),
        AgentScript(["child-f"], "CHILD-F", (Reply(text="On it.", tools=(shell("sleep 2"),)), Reply(status=400))),
    )


def background_cut() -> Scenario:
    """A child in the background that does not end: nothing tells its result."""
    held = Reply(text=LONG, hold=threading.Event(), hold_after=4)
    return _scenario(
        "background-cut",
        root(Reply(tools=(delegate("CHILD-W", background=True),)), Reply(text="Waiting.")),
        AgentScript(["child-w"], "CHILD-W", (Reply(tools=(shell("echo w"),)), held)),
    )


def two_notifications() -> Scenario:
    """Two children in the background that both end while the root is at work on a command."""
    launches = (delegate("CHILD-B1", background=True), delegate("CHILD-B2", background=True))
    return _scenario(
        "two-notifications",
        root(Reply(tools=launches), Reply(tools=(shell("sleep 6"),)), Reply(text="All done.")),
        worker("CHILD-B1", ["child-b1"], "Answer B1."),
        worker("CHILD-B2", ["child-b2"], "Answer B2."),
    )


def nested() -> Scenario:
    """Root, child, grandchild. Without the profile `nested` the child is not offered the tool."""
    return _scenario(
        "nested",
        root(Reply(tools=(delegate("CHILD-N"),)), Reply(text="All done.")),
        AgentScript(["child-n"], "CHILD-N", (Reply(tools=(delegate("GRAND-G"),)), Reply(text="Passed on."))),
        worker("GRAND-G", ["grand-g"], "From the grandchild."),
    )


def depth_limit() -> Scenario:
    """A child that may delegate by its own kind's permission, but is at the depth limit: refused, no grandchild."""
    project = {"agent": {"general": {"permission": {"task": "allow"}}}}
    return replace(nested(), name="depth-limit", files={"opencode.json": json.dumps(project)})


def resumed_child() -> Scenario:
    """A child that has ended is given a further prompt by its id."""
    scenario = _scenario(
        "resumed-child",
        root(Reply(tools=(delegate("CHILD-RE"),)), Reply(text="Resuming."), Reply(text="All done.")),
        AgentScript(
            ["child-re"],
            "CHILD-RE",
            (Reply(tools=(shell("echo re"),)), Reply(text="An answer."), Reply(text="Another answer.")),
        ),
    )
    decide = scenario.decide

    def address_the_child(request: ModelRequest) -> Reply:
        reply = decide(request)
        found = [match[1] for result in request.tool_results if (match := _CHILD_ID.match(result.text))]
        if reply.owner != "root" or reply.text != "Resuming." or not found:
            return reply
        return replace(reply, tools=(delegate("CHILD-RE once more", task_id=found[0]),))

    return replace(scenario, decide=address_the_child)


def compaction() -> Scenario:
    """The context is said to be full, and the harness has it summed up before it goes on."""
    full = Reply(text="Much to read.", tools=(shell("echo much"),), usage=_FULL)
    scenario = _scenario(
        "compaction", root(Reply(tools=(delegate("CHILD-A"),)), full), worker("CHILD-A", ["child-a"], "41.")
    )
    decide = scenario.decide
    summed_up = threading.Event()

    def sum_up(request: ModelRequest) -> Reply:
        if not request.tool_names and request.nonces:  # a title is asked for before anything was answered
            summed_up.set()
            return Reply(text=f"{ROOT}: almost done.", owner="root")
        reply = decide(request)  # after the summary, no request holds the root's prompt any more
        return Reply(text="All done.", owner="root") if reply.owner in ("root", None) and summed_up.is_set() else reply

    return replace(scenario, decide=sum_up)


def subtask_command() -> Scenario:
    """A command of the project's own that runs as a child, without any model having asked for it."""
    project = {
        "command": {
            "look": {"template": "CHILD-S: look around.", "description": "look", "agent": "general", "subtask": True}
        }
    }
    files = {"opencode.json": json.dumps(project)}
    scenario = _scenario("subtask-command", worker("CHILD-S", ["child-s"], "Looked."), files=files)
    decide = scenario.decide

    def answer(request: ModelRequest) -> Reply:
        reply = decide(request)
        return reply if reply.owner is not None else Reply(text="All done.", owner="root")

    return replace(scenario, decide=answer)


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
    "background": background,
    "background-refused": background_refused,
    "background-failure": background_failure,
    "background-cut": background_cut,
    "two-notifications": two_notifications,
    "nested": nested,
    "depth-limit": depth_limit,
    "child-failure": lambda: child_failure(400),
    "child-failure-500": lambda: child_failure(500),
    "own-project": own_project,
    "resumed-child": resumed_child,
    "compaction": compaction,
    "cross-process-resume": ordinary,
    "cut-stream": cut_root,
    "cut-child": cut_child,
    "error-event": error_event,
    "retries": retries,
    "title-failure": title_failure,
    "subtask-command": subtask_command,
    "killed": killed,
}
"""Every scenario by its name."""
