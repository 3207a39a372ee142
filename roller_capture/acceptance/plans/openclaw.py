"""OpenClaw does all fifteen. A spawn always returns at once, so each is one in the background; a message to a child
that has ended is waited for. Each turn is a process of its own, and all of them speak to one gateway. A transcript
holds no failed or cut call, so that nothing says what it was made for."""

import re
from dataclasses import replace
from typing import Final

from roller_capture.acceptance.expected import Cell, Delegation, Expected, Plan
from roller_capture.scripted_provider.openclaw_scenarios import DELEGATION_TOOLS

_CUT: Final = {"call_incomplete": 1}
_FAILED: Final = "status: error: LLM request failed"
"""All that the root is told of a child whose model calls fail: neither its answers nor the service's error text."""
_NOT_SENT: Final = re.compile(r"[^A-Za-z0-9]")


def _plain_tool_id(tool_id: str) -> str:
    """Requests have ids without their punctuation, and logs of the Responses protocol `call_id|item_id` (measured)."""
    return _NOT_SENT.sub("", tool_id.partition("|")[0])


def _one(child: str, end: str | None = "child_completed", parent: str = "root") -> Delegation:
    return Delegation(child, parent, background=True, end=end, receiver=parent)


PLAN: Final = Plan(
    scripts="roller_capture.scripted_provider.openclaw_scenarios:SCENARIOS",
    delegation_tools=DELEGATION_TOOLS,
    request="Use sessions_spawn once: the subagent runs `echo hello` and tells you what it printed. Wait for it.",
    plain_tool_id=_plain_tool_id,
    cells={
        "ordinary": Cell("ordinary", Expected()),
        "single": Cell("single", Expected((_one("child-a"),))),
        "parallel": Cell("parallel", Expected((_one("child-p"), _one("child-r")))),
        "identical-prompts": Cell("identical-prompts", Expected((_one("child-1"), _one("child-2")))),
        "file-sharing": Cell("file-sharing", Expected((_one("writer"), _one("reader")))),
        "tool-error": Cell("tool-error", Expected((_one("child-e"),))),
        "tool-configs": Cell("tool-configs", Expected((_one("leaf"), _one("other")))),
        "background": Cell("background", Expected((_one("child-bg"),))),
        "nested": Cell("nested", Expected((_one("child-n"), _one("grand-g", parent="child-n")))),
        "child-failure": Cell(
            "child-failure",
            Expected(
                (replace(_one("child-f", "child_failed"), told_as=_FAILED),),
                ended={"child-f": "failed"},
                purposes={"unknown": 1},
            ),
        ),
        "resumed-child": Cell("resumed-child", Expected((_one("child-re"), Delegation("child-re")))),
        # The call that was too long for its service comes before the one that compacts.
        "compaction": Cell(
            "compaction", Expected(purposes={"compaction": 1, "unknown": 1}, surplus=1), more_prompts=("Go on.",)
        ),
        "cross-process-resume": Cell(
            "cross-process-resume",
            Expected((_one("child-1"), _one("child-2"))),
            more_prompts=("Second turn: go on.",),
        ),
        "cut-stream": Cell("cut-child", Expected((_one("child-c"),), reasons=_CUT, purposes={"unknown": 1})),
        "killed": Cell(
            "killed",
            Expected(
                (_one("child-k", None),),
                ended={"root": "interrupted", "child-k": "interrupted"},
                pending=frozenset({"child-k"}),
                # The turn has ended, and the gateway that its child was to be waited for in is gone.
                reasons={"call_incomplete": 2, "lifecycle_pending": 1, "errors": 1},
                errors=("drain_failed",),
                execution="interrupted",
                purposes={"unknown": 2},
            ),
            kill=True,
        ),
    },
)
