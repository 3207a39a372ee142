"""Pi has no delegation tool in the bundled profile: what needs a child is refused by Pi itself."""

from typing import Final

from roller_capture.acceptance.expected import Cell, Delegation, Expected, NotApplicable, NotApplicableReason, Plan
from roller_capture.scripted_provider.pi_scenarios import ARGUMENTS, DELEGATION_TOOLS
from roller_capture.scripted_provider.scenario import Scenario

_ALONE: Final = "unsupported"
_REFUSED: Final = NotApplicable(
    NotApplicableReason.NO_DELEGATION,
    "refused-delegation",
    Expected(tuple(Delegation(name, refused=True) for name in ("one", "two", "three")), lifecycle=_ALONE),
)


def _arguments(scenario: Scenario) -> tuple[str, ...]:
    return tuple(ARGUMENTS.get(scenario.name, ()))


PLAN: Final = Plan(
    scripts="roller_capture.scripted_provider.pi_scenarios:SCENARIOS",
    delegation_tools=DELEGATION_TOOLS,
    request="Run `echo hello` with the bash tool and tell me what it printed.",
    delegates=False,
    arguments=_arguments,
    cells={
        "ordinary": Cell("ordinary", Expected(lifecycle=_ALONE)),
        "single": _REFUSED,
        "parallel": _REFUSED,
        "identical-prompts": _REFUSED,
        "file-sharing": _REFUSED,
        "tool-error": Cell("tool-error", Expected(lifecycle=_ALONE)),
        "tool-configs": Cell("tool-configs", Expected(lifecycle=_ALONE)),
        "background": _REFUSED,
        "nested": _REFUSED,
        "child-failure": _REFUSED,
        "resumed-child": _REFUSED,
        "compaction": Cell("compaction", Expected(lifecycle=_ALONE, purposes={"compaction": 1}, surplus=1)),
        "cross-process-resume": Cell(
            "cross-process-resume", Expected(lifecycle=_ALONE), more_prompts=("And once more.",)
        ),
        "cut-stream": Cell("cut-stream", Expected(lifecycle=_ALONE, reasons={"call_incomplete": 1})),
        "killed": Cell(
            "killed",
            Expected(
                ended={"root": "interrupted"},
                lifecycle=_ALONE,
                reasons={"call_incomplete": 1},
                execution="interrupted",
                purposes={"unknown": 1},
            ),
            kill=True,
        ),
    },
)
