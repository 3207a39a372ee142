"""Claude Code does all fifteen. It marks by nothing what a call was made for: an answer in a log was an agent's turn,
and calls that failed, were cut or compact leave none."""

import json
from typing import Final

from roller_capture.acceptance.expected import Cell, Delegation, Expected, Plan
from roller_capture.scripted_provider.scenario import Scenario

_CUT: Final = {"call_incomplete": 1}


def _settings(scenario: Scenario) -> tuple[str, ...]:
    return ("--settings", json.dumps({"env": dict(scenario.environment)})) if scenario.environment else ()


PLAN: Final = Plan(
    scripts="roller_capture.scripted_provider.claude_code_scenarios:SCENARIOS",
    delegation_tools=("Agent", "SendMessage"),
    request="Use the Agent tool once: the subagent runs `echo hello` and tells you what it printed. Wait for it.",
    arguments=_settings,
    cells={
        "ordinary": Cell("ordinary", Expected()),
        "single": Cell("single", Expected((Delegation("child-a"),))),
        "parallel": Cell("parallel", Expected((Delegation("child-a"), Delegation("child-b")))),
        "identical-prompts": Cell(
            "identical-prompts", Expected((Delegation("child-1", twin=True), Delegation("child-2", twin=True)))
        ),
        "file-sharing": Cell("file-sharing", Expected((Delegation("writer"), Delegation("reader")))),
        "tool-error": Cell("tool-error", Expected((Delegation("child-e"),))),
        "tool-configs": Cell("tool-configs", Expected((Delegation("reader"), Delegation("other-model")))),
        "background": Cell("background", Expected((Delegation("child-bg", background=True),))),
        "nested": Cell(
            "nested", Expected((Delegation("child-n"), Delegation("grand-g", parent="child-n", receiver="child-n")))
        ),
        "child-failure": Cell(
            "child-failure-500",
            Expected(
                (Delegation("child-f", end="child_failed"),), ended={"child-f": "failed"}, purposes={"unknown": 3}
            ),
        ),
        "resumed-child": Cell(
            "resumed-child", Expected((Delegation("child-re"), Delegation("child-re", background=True)))
        ),
        "compaction": Cell("compaction", Expected((Delegation("child-a"),), purposes={"unknown": 1}, surplus=1)),
        "cross-process-resume": Cell("ordinary", Expected(), more_prompts=("And once more.",)),
        "cut-stream": Cell("slow-cut-child", Expected((Delegation("child-c"),), reasons=_CUT)),
        "killed": Cell(
            "killed",
            Expected(
                (Delegation("child-k", end=None),),
                ended={"root": "interrupted", "child-k": "interrupted"},
                pending=frozenset({"child-k"}),
                reasons={"call_incomplete": 1, "lifecycle_pending": 1},
                execution="interrupted",
                purposes={"unknown": 1},
            ),
            kill=True,
        ),
    },
)
