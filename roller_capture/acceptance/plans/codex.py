"""Codex does all fifteen. A delegation always returns at once, so each is one in the background; the second
generation of its tools brings results as messages. Its children delegate further only with a model that Codex knows, so
the nested scenario is played with the first generation, where notifications bring the results."""

from typing import Final

from roller_capture.acceptance.expected import Cell, Delegation, Expected, Plan
from roller_capture.scripted_provider.codex_scenarios import ARGUMENTS, DELEGATION_TOOLS
from roller_capture.scripted_provider.scenario import Scenario

_CUT: Final = {"call_incomplete": 1}
_NESTED: Final = "nested-notified"


def _arguments(scenario: Scenario) -> tuple[str, ...]:
    generation = () if scenario.name == _NESTED else ("--enable", "multi_agent_v2")
    return (*generation, *ARGUMENTS.get(scenario.name, ()))


def _one(child: str, end: str | None = "child_completed", parent: str = "root") -> Delegation:
    return Delegation(child, parent, background=True, end=end, receiver=parent)


PLAN: Final = Plan(
    scripts="roller_capture.scripted_provider.codex_scenarios:SCENARIOS",
    delegation_tools=DELEGATION_TOOLS,
    request="Use spawn_agent once: the agent runs `echo hello` and tells you what it printed. Wait for it.",
    arguments=_arguments,
    cells={
        "ordinary": Cell("ordinary", Expected()),
        "single": Cell("single", Expected((_one("child-a"),))),
        "parallel": Cell("parallel", Expected((_one("child-a"), _one("child-b")))),
        "identical-prompts": Cell("identical-prompts", Expected((_one("child-1"), _one("child-2")))),
        "file-sharing": Cell("file-sharing", Expected((_one("writer"), _one("reader")))),
        "tool-error": Cell("tool-error", Expected((_one("child-e"),))),
        "tool-configs": Cell("tool-configs", Expected((_one("reader"), _one("other-model")))),
        "background": Cell("background", Expected((_one("child-bg"),))),
        "nested": Cell(_NESTED, Expected((_one("child-n"), _one("grand-g", parent="child-n")))),
        "child-failure": Cell(
            "child-failure-400", Expected((_one("child-f", "child_failed"),), ended={"child-f": "failed"})
        ),
        "resumed-child": Cell("resumed-child", Expected((_one("child-re"), _one("child-re")))),
        "compaction": Cell("compaction", Expected((_one("child-a"),), purposes={"compaction": 1})),
        "cross-process-resume": Cell(
            "cross-process-resume", Expected((_one("child-a"),)), more_prompts=("ROOT-TASK: go on.",)
        ),
        "cut-stream": Cell("cut-child", Expected((_one("child-c"),), reasons=_CUT)),
        "killed": Cell(
            "killed",
            Expected(
                (_one("child-k", None),),
                ended={"root": "interrupted", "child-k": "interrupted"},
                pending=frozenset({"child-k"}),
                reasons={"call_incomplete": 1, "lifecycle_pending": 1},
                execution="interrupted",
            ),
            kill=True,
        ),
    },
)
