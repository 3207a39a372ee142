"""The truth of a Claude Code run, where the wire itself says who is who."""

from collections.abc import Mapping
from functools import cached_property

from tests.support.truth_table import TruthTable

_AGENT_ID = "x-claude-code-agent-id"


class ClaudeCodeTruth(TruthTable):
    """A participant is the owner whose requests carried its agent id (none: the root)."""

    delegation_tools = ("Agent", "SendMessage")

    @cached_property
    def owners(self) -> Mapping[str, str]:
        """The owner that each published participant id stands for."""
        agents = {record.headers.get(_AGENT_ID): str(record.owner) for record in self.capture.truth}
        return {
            participant["participant_id"]: agents[next(iter(participant["native_ids"].get("agent_id", [])), None)]
            for participant in self.capture.manifest["participants"]
        }
