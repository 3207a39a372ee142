"""Hermes: its delegations are always waited for in a finite query, and a child that has ended cannot be given more."""

from typing import Final

from roller_capture.acceptance.expected import (
    Cell,
    Delegation,
    Expected,
    NotApplicable,
    NotApplicableReason,
    Plan,
)
from roller_capture.scripted_provider.hermes_scenarios import SETTINGS
from roller_capture.scripted_provider.scenario import Scenario

_CUT: Final = {"call_incomplete": 1}


def _settings(scenario: Scenario) -> tuple[str, ...]:
    return tuple(word for setting in SETTINGS.get(scenario.name, ()) for word in ("--config", setting))


PLAN: Final = Plan(
    scripts="roller_capture.scripted_provider.hermes_scenarios:SCENARIOS",
    delegation_tools=("delegate_task",),
    request="Use the delegate_task tool once: the subagent runs `echo hello` and tells you what it printed.",
    arguments=_settings,
    cells={
        "ordinary": Cell("ordinary", Expected()),
        "single": Cell("single", Expected((Delegation("child-a"),))),
        "parallel": Cell("parallel", Expected((Delegation("child-a"), Delegation("child-b", same_call=True)))),
        "identical-prompts": Cell(
            "identical-prompts", Expected((Delegation("child-1"), Delegation("child-2", same_call=True)))
        ),
        "file-sharing": Cell("file-sharing", Expected((Delegation("writer"), Delegation("reader")))),
        "tool-error": Cell("tool-error", Expected((Delegation("child-e"),))),
        "tool-configs": Cell(
            "tool-configs", Expected((Delegation("leaf"), Delegation("orchestrator", same_call=True)))
        ),
        "background": NotApplicable(
            NotApplicableReason.NO_BACKGROUND, "background", Expected((Delegation("child-bg"),))
        ),
        "nested": Cell(
            "nested", Expected((Delegation("child-n"), Delegation("grand-g", parent="child-n", receiver="child-n")))
        ),
        "child-failure": Cell(
            "child-failure",
            Expected((Delegation("child-f", end="child_failed"),), ended={"child-f": "failed"}),
        ),
        "resumed-child": NotApplicable(
            NotApplicableReason.NO_RESUMED_CHILD,
            "resumed-child",
            Expected((Delegation("child-1"), Delegation("child-2"))),
        ),
        "compaction": Cell("compaction", Expected((Delegation("child-a"),), purposes={"compaction": 1}, surplus=1)),
        "cross-process-resume": Cell(
            "cross-process-resume",
            Expected((Delegation("child-a"), Delegation("child-b"))),
            more_prompts=("SECOND-TURN: and once more.",),
        ),
        "cut-stream": Cell("cut-stream", Expected((Delegation("child-c"),), reasons=_CUT)),
        "killed": Cell(
            "killed",
            Expected(
                (Delegation("child-k", end=None),),
                ended={"root": "interrupted", "child-k": "interrupted"},
                pending=frozenset({"child-k"}),
                reasons={"call_incomplete": 1, "lifecycle_pending": 1},
                execution="interrupted",
            ),
            kill=True,
        ),
    },
)
