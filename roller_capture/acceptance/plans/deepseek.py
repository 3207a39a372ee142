"""DeepSeek Harness does all fifteen. The profile that `collect` takes by default has no delegation tool
(`not_available_in_bundled_profile`), so that what delegates is played with `sdk`; so is all else but compaction, since
only the full profiles speak every protocol. In the protocols that are not its own, through another provider, compaction
is played with `sdk` too; nothing marks such a call, so that its purpose is unknown, and no record has its response id.
A Chat Completions request names no session: calls that failed, were cut or compact belong to nobody, and which of two
equal children is which, the provider learns only from what the harness tells of them.

A subagent is always in the background, and a notice brings its result; a workflow is waited for. A grandchild is beyond
the harness's own depth limit, and is played with a configuration that allows two levels."""

from dataclasses import replace
from typing import Final

from roller_capture.acceptance.expected import Cell, Delegation, Expected, Plan
from roller_capture.scripted_provider.deepseek_scenarios import ARGUMENTS, DELEGATION_TOOLS
from roller_capture.scripted_provider.scenario import Scenario
from roller_capture.vocabulary import Protocol

_CUT: Final = {"call_incomplete": 1}
_NOBODYS: Final = {"identity_unattributed": 1}
_WORKFLOW: Final = (Delegation("same-model"), Delegation("other-model", same_call=True))
_COMPACTED: Final = Expected(purposes={"unknown": 1}, surplus=1)


def _arguments(scenario: Scenario) -> tuple[str, ...]:
    return ARGUMENTS.get(scenario.name, ())


def _call_id(tool_id: str) -> str:
    """Of a Responses call, the log's id is `call_id|item_id`, and a request's only the first."""
    return tool_id.partition("|")[0]


def _one(child: str, end: str | None = "child_completed", parent: str = "root") -> Delegation:
    return Delegation(child, parent, background=True, end=end, receiver=parent)


def _twin(child: str) -> Delegation:
    return replace(_one(child), twin=True)


def _full(scenario: str, *delegations: Delegation, more_prompts: tuple[str, ...] = ()) -> Cell:
    """Played with the profile that has all tools and protocols, and ends well."""
    return _cell(scenario, Expected(delegations), more_prompts)


def _cell(scenario: str, expected: Expected, more_prompts: tuple[str, ...] = (), *, kill: bool = False) -> Cell:
    return Cell(scenario, expected, more_prompts, kill, options=("--profile", "sdk"))


_CHILD_FAILURE: Final = Expected((_one("child-f", "child_failed"),), ended={"child-f": "failed"})
_CUT_CHILD: Final = Expected((_one("child-c"),), reasons=_CUT)
_KILLED: Final = Expected(
    (_one("child-k", None),),
    # The root had ended its turn, and would have been woken by the child's notice.
    ended={"child-k": "interrupted"},
    pending=frozenset({"child-k"}),
    reasons={"call_incomplete": 1, "lifecycle_pending": 1},
    execution="interrupted",
)


def _nobodys(expected: Expected) -> Expected:
    """The same, with one call that nothing attributes."""
    return replace(expected, unattributed=1, reasons={**expected.reasons, **_NOBODYS})


PLAN: Final = Plan(
    scripts="roller_capture.scripted_provider.deepseek_scenarios:SCENARIOS",
    delegation_tools=DELEGATION_TOOLS,
    request="Use the subagent tool once: the agent runs `echo hello` and tells you what it printed. Wait for it.",
    request_options=("--profile", "sdk"),
    arguments=_arguments,
    plain_tool_id=_call_id,
    cells={
        "ordinary": _full("ordinary"),
        "single": _full("single", _one("child-a")),
        "parallel": _full("parallel", _one("child-a"), _one("child-b")),
        "identical-prompts": _full("identical-prompts", _one("child-1"), _one("child-2")),
        "file-sharing": _full("file-sharing", _one("writer"), _one("reader")),
        "tool-error": _full("tool-error", _one("child-e")),
        "tool-configs": _full("tool-configs", *_WORKFLOW),
        "background": _full("background", _one("child-bg")),
        "nested": _full("nested-allowed", _one("child-n"), _one("grand-g", parent="child-n")),
        "child-failure": _cell("child-failure", _CHILD_FAILURE),
        "resumed-child": _full("resumed-child", _one("child-re"), _one("child-re")),
        "compaction": Cell("compaction", Expected(lifecycle="unsupported", purposes={"compaction": 1})),
        "cross-process-resume": _full("cross-process-resume", more_prompts=("And once more.",)),
        "cut-stream": _cell("cut-child", _CUT_CHILD),
        "killed": _cell("killed", _KILLED, kill=True),
    },
    in_protocol={
        Protocol.OPENAI_RESPONSES: {
            "tool-configs": _full("tool-configs-responses", *_WORKFLOW),
            "compaction": _cell("compaction-responses", _COMPACTED),
        },
        Protocol.OPENAI_CHAT_COMPLETIONS: {
            "identical-prompts": _full("identical-prompts", _twin("child-1"), _twin("child-2")),
            "tool-configs": _full("tool-configs-chat", *_WORKFLOW),
            "child-failure": _cell("child-failure", _nobodys(_CHILD_FAILURE)),
            "compaction": _cell("compaction-chat", _nobodys(_COMPACTED)),
            "cut-stream": _cell("cut-child", _nobodys(_CUT_CHILD)),
            "killed": _cell("killed", _nobodys(_KILLED), kill=True),
        },
    },
)
