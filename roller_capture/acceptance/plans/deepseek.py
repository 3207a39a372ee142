"""DeepSeek Harness does all fifteen. The profile that `collect` takes by default has no delegation tool
(`not_available_in_bundled_profile`), so that what delegates is played with `sdk`; so is all else but compaction, since
only the full profiles speak every protocol.

A subagent is always in the background, and a notice brings its result; a workflow is waited for. A grandchild is beyond
the harness's own depth limit, and is played with a configuration that allows two levels."""

from typing import Final

from roller_capture.acceptance.expected import Cell, Delegation, Expected, Plan
from roller_capture.scripted_provider.deepseek_scenarios import ARGUMENTS, DELEGATION_TOOLS
from roller_capture.scripted_provider.scenario import Scenario

_CUT: Final = {"call_incomplete": 1}


def _arguments(scenario: Scenario) -> tuple[str, ...]:
    return ARGUMENTS.get(scenario.name, ())


def _call_id(tool_id: str) -> str:
    """Of a Responses call, the log's id is `call_id|item_id`, and a request's only the first."""
    return tool_id.partition("|")[0]


def _one(child: str, end: str | None = "child_completed", parent: str = "root") -> Delegation:
    return Delegation(child, parent, background=True, end=end, receiver=parent)


def _full(scenario: str, *delegations: Delegation, more_prompts: tuple[str, ...] = ()) -> Cell:
    """Played with the profile that has all tools and protocols, and ends well."""
    return _cell(scenario, Expected(delegations), more_prompts)


def _cell(scenario: str, expected: Expected, more_prompts: tuple[str, ...] = (), *, kill: bool = False) -> Cell:
    return Cell(scenario, expected, more_prompts, kill, options=("--profile", "sdk"))


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
        "tool-configs": _full("tool-configs", Delegation("same-model"), Delegation("other-model", same_call=True)),
        "background": _full("background", _one("child-bg")),
        "nested": _full("nested-allowed", _one("child-n"), _one("grand-g", parent="child-n")),
        "child-failure": _cell(
            "child-failure", Expected((_one("child-f", "child_failed"),), ended={"child-f": "failed"})
        ),
        "resumed-child": _full("resumed-child", _one("child-re"), _one("child-re")),
        "compaction": Cell("compaction", Expected(lifecycle="unsupported", purposes={"compaction": 1})),
        "cross-process-resume": _full("cross-process-resume", more_prompts=("And once more.",)),
        "cut-stream": _cell("cut-child", Expected((_one("child-c"),), reasons=_CUT)),
        "killed": _cell(
            "killed",
            Expected(
                (_one("child-k", None),),
                # The root had ended its turn, and would have been woken by the child's notice.
                ended={"child-k": "interrupted"},
                pending=frozenset({"child-k"}),
                reasons={"call_incomplete": 1, "lifecycle_pending": 1},
                execution="interrupted",
            ),
            kill=True,
        ),
    },
)
