"""What a scenario must give, beyond what the provider's own record tells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from roller_capture.scripted_provider.scenario import Scenario
from roller_capture.vocabulary import CoverageStrength

SCENARIO_NAMES = (
    "ordinary",
    "single",
    "parallel",
    "identical-prompts",
    "file-sharing",
    "tool-error",
    "tool-configs",
    "background",
    "nested",
    "child-failure",
    "resumed-child",
    "compaction",
    "cross-process-resume",
    "cut-stream",
    "killed",
)
"""The scenarios that every harness is held to (design section 3)."""


@dataclass(frozen=True, slots=True)
class Delegation:
    """One delegating tool call, in the script's words.

    `child` and `parent` are owners. `end` is the type of the relation that its end gives, `None` where nothing was
    delivered. `receiver` is whom the result reached. `same_call`: a further child of the tool call before. `refused`:
    the harness answered the tool call itself, and there is no child. `told_as` is what the harness itself writes into
    the request that tells of the end, where nothing that the child said stands in it. `twin`: another child has the
    same prompt. The provider names such children as they ask, and cannot know whom which tool call launched: the answer
    that came back as its result tells, and in the background the one that came with the id that the result names.
    """

    child: str
    parent: str = "root"
    background: bool = False
    end: str | None = "child_completed"
    receiver: str = "root"
    same_call: bool = False
    refused: bool = False
    told_as: str | None = None
    twin: bool = False


@dataclass(frozen=True, slots=True)
class Expected:
    """The rest of the truth about one run.

    `delegations` stand in the order in which the provider was asked for them. `ended` names the agents that did not
    end well, with their status. `pending` are the children of a pending lifecycle. `reasons` are those of a capture
    that is not complete, with their counts, and `errors` the codes of what the attempt itself must name. `unattributed`
    is the number of calls that nothing can attribute.
    """

    delegations: tuple[Delegation, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    lifecycle: str | None = None
    """Where it is neither complete nor pending."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    unattributed: int = 0
    execution: str = "completed"
    purposes: Mapping[str, int] = field(default_factory=dict)
    """How many calls were made for something else than an agent's turn, by purpose; `unknown` are those that the
    harness marks by nothing: often calls that failed or were cut."""
    surplus: int = 0
    """Completed calls of which the harness keeps no record."""


class NotApplicableReason(StrEnum):
    """Why a harness cannot do a scenario. Each entry of a plan names the run that shows the refusal."""

    NO_DELEGATION = "no_delegation"  # the bundled profile has no subagents at all
    NO_BACKGROUND = "no_background"  # delegations are always waited for
    NO_RESUMED_CHILD = "no_resumed_child"  # a child that has ended cannot be given more to do


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """`proof` is the scenario whose run shows the refusal: it is run, and must give what it says."""

    reason: NotApplicableReason
    proof: str
    expected: Expected


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario as one harness runs it.

    `scenario` is its name among the harness's scripts. `more_prompts` are further turns, each a process of its own.
    `kill` ends the harness's process with SIGKILL when the script holds an answer. `options` are further options of
    `collect`.
    """

    scenario: str
    expected: Expected
    more_prompts: tuple[str, ...] = ()
    kill: bool = False
    options: tuple[str, ...] = ()


def no_arguments(scenario: Scenario) -> tuple[str, ...]:  # noqa: ARG001
    """For harnesses whose scripts need nothing."""
    return ()


def as_it_stands(tool_id: str) -> str:
    """For harnesses that send a tool call's id as the provider made it."""
    return tool_id


@dataclass(frozen=True, slots=True)
class Plan:
    """A harness: its scripts as `module:NAME`, the names of its delegating tools, and what each scenario must give."""

    scripts: str
    delegation_tools: tuple[str, ...]
    cells: Mapping[str, Cell | NotApplicable]
    request: str
    """What a person would write so that a real model delegates once, for runs against a real service."""
    request_options: tuple[str, ...] = ()
    """Further options of `collect` for that run."""
    delegates: bool = True
    """Whether it can delegate at all."""
    coverage: CoverageStrength = CoverageStrength.PER_ID
    """How native outputs are compared with calls."""
    arguments: Callable[[Scenario], tuple[str, ...]] = no_arguments
    """How the harness is told what a script needs of it (`Scenario.environment`), since `collect` hands no variables
    on: as further arguments of the harness."""
    in_protocol: Mapping[str, Mapping[str, Cell | NotApplicable]] = field(default_factory=dict)
    """Where the harness gives something else in another protocol than its first: these cells instead."""
    plain_tool_id: Callable[[str], str] = as_it_stands
    """Where a harness has several spellings of a tool call's id (the provider's, its log's, its requests'): what they
    share. The id's mark must stay in it."""

    def cell(self, scenario: str, protocol: str) -> Cell | NotApplicable:
        """What a scenario must give in a protocol."""
        return self.in_protocol.get(protocol, {}).get(scenario, self.cells[scenario])
