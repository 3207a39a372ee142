"""OpenCode does all fifteen: nested and background with the profile that switches them on."""

from collections.abc import Mapping
from typing import Any, Final

from roller_capture.acceptance.expected import Cell, Delegation, Expected, Plan

_CUT: Final = {"call_incomplete": 1}
_TITLE: Final[Mapping[str, int]] = {"title": 1}
"""Each new session of a root has a title made up for it, of which no message is kept."""


def _expected(
    *delegations: Delegation, purposes: Mapping[str, int] = _TITLE, surplus: int = 1, **more: Any
) -> Expected:
    return Expected(delegations, purposes=purposes, surplus=surplus, **more)


PLAN: Final = Plan(
    scripts="roller_capture.scripted_provider.opencode_scenarios:SCENARIOS",
    delegation_tools=("task",),
    request="Use the task tool once: the subagent runs `echo hello` and tells you what it printed.",
    cells={
        "ordinary": Cell("ordinary", _expected()),
        "single": Cell("single", _expected(Delegation("child-a"))),
        "parallel": Cell("parallel", _expected(Delegation("child-a"), Delegation("child-b"))),
        "identical-prompts": Cell(
            "identical-prompts", _expected(Delegation("child-1", twin=True), Delegation("child-2", twin=True))
        ),
        "file-sharing": Cell("file-sharing", _expected(Delegation("writer"), Delegation("reader"))),
        "tool-error": Cell("tool-error", _expected(Delegation("child-e"))),
        "tool-configs": Cell("tool-configs", _expected(Delegation("reader"), Delegation("other-model"))),
        "background": Cell(
            "background",
            _expected(Delegation("child-bg", background=True)),
            options=("--profile", "background"),
        ),
        "nested": Cell(
            "nested",
            _expected(Delegation("child-n"), Delegation("grand-g", parent="child-n", receiver="child-n")),
            options=("--profile", "nested"),
        ),
        "child-failure": Cell(
            "child-failure",
            _expected(Delegation("child-f", end="child_failed"), ended={"child-f": "failed"}),
        ),
        "resumed-child": Cell("resumed-child", _expected(Delegation("child-re"), Delegation("child-re"))),
        "compaction": Cell("compaction", _expected(Delegation("child-a"), purposes={**_TITLE, "compaction": 1})),
        "cross-process-resume": Cell("cross-process-resume", _expected(), more_prompts=("And once more.",)),
        "cut-stream": Cell("cut-child", _expected(Delegation("child-c"), reasons=_CUT)),
        "killed": Cell(
            "killed",
            _expected(
                Delegation("child-k", end=None),
                ended={"root": "interrupted", "child-k": "interrupted"},
                pending=frozenset({"child-k"}),
                reasons={"call_incomplete": 1, "lifecycle_pending": 1},
                execution="interrupted",
                surplus=2,  # the step that delegates was never finished
            ),
            kill=True,
        ),
    },
)
