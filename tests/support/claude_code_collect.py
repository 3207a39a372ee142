"""One run of the real Claude Code through `collect`, against a scripted provider."""

import json
from pathlib import Path

from roller_capture.collect.request import DEFAULT_DRAIN_TIMEOUT
from roller_capture.scripted_provider.scenario import Scenario
from tests.support.capture import Capture
from tests.support.claude_code_truth import ClaudeCodeTruth
from tests.support.harness_run import HarnessRun
from tests.support.harness_run import check_attribution as check_table


class Run(HarnessRun):
    """What the scenario adds to the harness's environment is given as a setting, since `collect` passes no variables
    on."""

    def __init__(
        self,
        scenario: Scenario,
        version: str,
        directory: Path,
        *more_prompts: str,
        drain_timeout: float = DEFAULT_DRAIN_TIMEOUT,
    ) -> None:
        settings = ("--settings", json.dumps({"env": dict(scenario.environment)}))
        super().__init__(
            "claude-code",
            version,
            scenario,
            directory,
            *more_prompts,
            user_files={".claude/settings.json": '{"env": {"ANTHROPIC_BASE_URL": "http://nowhere.invalid"}}'},
            drain_timeout=drain_timeout,
            harness_args=settings if scenario.environment else (),
        )


def check_attribution(capture: Capture) -> ClaudeCodeTruth:
    """Every request a call, every call with its owner, and a valid attempt."""
    table = ClaudeCodeTruth(capture)
    check_table(table)
    return table
