"""What to say to Pi (1.6.0) so that it works, fails and breaks in a known way.

Each scenario is a function that returns a fresh `Scenario`; `SCENARIOS` lists them by name. Tool names and arguments
are Pi's own. Pi as it is bundled has no delegation tool: there is one agent in each, and what needs a child is in
`refused-delegation`.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from roller_capture.scripted_provider.reply import ErrorEvent, Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest
from roller_capture.scripted_provider.scenario import Scenario, ended_when_held
from roller_capture.scripted_provider.script import AgentScript, Script, Turn

ROOT = "ROOT-TASK"
LONG = "A longer text, so that its stream can be broken in the middle of it and not only at an end. "
DELEGATION_TOOLS = ("subagent", "task", "Agent")
"""What such a tool is called in an example extension of Pi's, in a fork of Pi, and in another harness."""

_MORE_THAN_PI_KEEPS = 1000
"""Repetitions of `LONG`: about 23000 tokens by Pi's estimate; it keeps the last 20000 when it compacts."""
_NEARLY_FULL = 125_000
"""Tokens, of a window of 128000 with 16384 in reserve: Pi compacts before the next request."""


def shell(command: str) -> ToolUse:
    """A call of the shell tool."""
    return ToolUse("bash", {"command": command})


def delegate(tool: str) -> ToolUse:
    """A call of a delegation tool that Pi does not have."""
    return ToolUse(tool, {"agent": "worker", "task": "Do your part.", "prompt": "Do your part."})


def _scenario(name: str, *turns: Turn, files: Mapping[str, str] | None = None) -> Scenario:
    script = Script([AgentScript(("root",), ROOT, turns)])
    return Scenario(name, f"{ROOT}: do what the scenario {name} says.", script, files=files or {})


def ordinary() -> Scenario:
    """One tool call, then an answer."""
    return _scenario("ordinary", Reply(text="Listing.", tools=(shell("ls"),)), Reply(text="All done."))


def parallel_tools() -> Scenario:
    """Three tools in one turn, one of them the same call twice; the first one ends last."""
    tools = (shell("sleep 0.3; echo one"), shell("echo two"), shell("echo two"))
    return _scenario("parallel-tools", Reply(text="Three at once.", tools=tools), Reply(text="All done."))


def refused_delegation() -> Scenario:
    """Delegations, as the model of another harness would ask for them: one alone, then two with the same prompt."""
    first, second, third = (delegate(tool) for tool in DELEGATION_TOOLS)
    return _scenario(
        "refused-delegation",
        Reply(text="Delegating.", tools=(first,)),
        Reply(text="Delegating twice.", tools=(second, third)),
        Reply(text="Then by myself.", tools=(shell("echo alone"),)),
        Reply(text="All done."),
    )


def tool_error() -> Scenario:
    """A command that fails, a file that is not there, and a tool that does not exist, in one turn."""
    tools = (shell("echo oops >&2; exit 3"), ToolUse("read", {"path": "missing.txt"}), ToolUse("nosuch", {}))
    return _scenario("tool-error", Reply(text="Trying.", tools=tools), Reply(text="It failed, as it should."))


def tool_configs() -> Scenario:
    """Run with `--tools` (see `ARGUMENTS`): a tool that the user has turned off is asked for."""
    tools = (ToolUse("write", {"path": "never.txt", "content": "no"}), ToolUse("read", {"path": "there.txt"}))
    return _scenario(
        "tool-configs", Reply(text="Trying both.", tools=tools), Reply(text="All done."), files={"there.txt": "here\n"}
    )


def thinking() -> Scenario:
    """An answer of several blocks: thinking, text and two tool calls."""
    calls = (shell("echo one"), shell("echo two"))
    return _scenario("thinking", Reply(thinking="Let me see.", text="Both.", tools=calls), Reply(text="All done."))


def max_tokens() -> Scenario:
    """The last answer ends at the output limit, in the words of any of the three protocols."""

    def decide(request: ModelRequest) -> Reply:
        words = {"anthropic-messages": "max_tokens", "openai-chat-completions": "length"}
        return Reply(text="Too lo", finish=words.get(request.protocol, "max_output_tokens"), owner="root")

    return Scenario("max-tokens", f"{ROOT}: do what the scenario max-tokens says.", decide)


def cut_stream() -> Scenario:
    """An answer is cut in the middle of its text, then comes whole."""
    broken = Reply(text=LONG * 3, cut_after=4)
    return _scenario("cut-stream", Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done.")))


def cut_tool() -> Scenario:
    """An answer is cut in the middle of a tool call, then comes whole."""
    call = shell("echo x # " + "padding " * 20)
    return _scenario("cut-tool", (Reply(tools=(call,), cut_after=3), Reply(tools=(call,))), Reply(text="All done."))


def cut_always() -> Scenario:
    """An answer is cut whenever it is asked for."""
    return _scenario("cut-always", Reply(text=LONG * 3, cut_after=4))


def error_event() -> Scenario:
    """An error event in mid-text, in a stream that began with 200; then the answer comes whole, if it is asked for."""
    broken = Reply(text=LONG * 3, error_event=ErrorEvent(after=4))
    return _scenario("error-event", Reply(tools=(shell("echo x"),)), (broken, Reply(text="All done.")))


def http_error(status: int) -> Scenario:
    """The first request is answered with an HTTP error, the next one well."""
    return _scenario(f"http-{status}", (Reply(status=status), Reply(text="All done.")))


def http_error_late(status: int) -> Scenario:
    """The answer to the first tool's result is an HTTP error for good."""
    return _scenario(f"http-{status}-late", Reply(text="Listing.", tools=(shell("ls"),)), Reply(status=status))


def http_always(status: int) -> Scenario:
    """Every request is answered with an HTTP error."""
    return _scenario(f"http-{status}-always", Reply(status=status))


def without_response_ids() -> Scenario:
    """A provider that gives its answers no ids."""
    return _scenario(
        "without-response-ids",
        Reply(text="Listing.", tools=(shell("ls"),), send_response_id=False),
        Reply(text="All done.", send_response_id=False),
    )


def _compacting() -> Iterator[Reply]:
    """The agent's answers, in the order in which it asks. The second says that the window is nearly full."""
    full = {"prompt_tokens": _NEARLY_FULL, "input_tokens": _NEARLY_FULL, "total_tokens": _NEARLY_FULL + 9}
    yield Reply(text=LONG * _MORE_THAN_PI_KEEPS, tools=(shell("echo one"),))
    yield Reply(text=LONG * _MORE_THAN_PI_KEEPS, tools=(shell("echo two"),), usage=full)
    while True:
        yield Reply(text="All done.")


def compaction() -> Scenario:
    """The context is compacted within a turn. The request for a summary offers no tools; each gets one."""
    answers, lock = _compacting(), threading.Lock()

    def decide(request: ModelRequest) -> Reply:
        with lock:
            reply = next(answers) if request.tool_names else Reply(text="What went before, in short.")
        return replace(reply, owner="root")

    return Scenario("compaction", f"{ROOT}: do what the scenario compaction says.", decide)


def cross_process_resume() -> Scenario:
    """For two prompts: a process for each goes on with the same session."""
    return _scenario(
        "cross-process-resume",
        Reply(text="Listing.", tools=(shell("ls"),)),
        Reply(text="First done."),
        Reply(text="Again.", tools=(shell("ls -a"),)),
        Reply(text="All done."),
    )


def killed() -> Scenario:
    """Everything is to be killed while the second answer is held in the middle of its text."""
    call = Reply(text="Working.", tools=(shell("echo working"),))
    held = Reply(text=LONG * 3, hold_after=4, hold=threading.Event())
    return ended_when_held(_scenario("killed", call, held))


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {
    "ordinary": ordinary,
    "tool-error": tool_error,
    "tool-configs": tool_configs,
    "compaction": compaction,
    "cross-process-resume": cross_process_resume,
    "cut-stream": cut_stream,
    "killed": killed,
    "refused-delegation": refused_delegation,
    "parallel-tools": parallel_tools,
    "thinking": thinking,
    "max-tokens": max_tokens,
    "cut-tool": cut_tool,
    "cut-always": cut_always,
    "error-event": error_event,
    "http-400": lambda: http_error(400),
    "http-400-late": lambda: http_error_late(400),
    "http-500": lambda: http_error(500),
    "http-500-always": lambda: http_always(500),
    "without-response-ids": without_response_ids,
}
"""Every scenario by its name."""

ARGUMENTS: Mapping[str, Sequence[str]] = {"tool-configs": ("--tools", "read,bash")}
"""What Pi is to be given for a scenario."""
