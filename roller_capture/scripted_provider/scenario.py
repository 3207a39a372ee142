"""One scripted run of a harness, whichever it is. The scenarios are in `NAME_scenarios.py`, one for each harness."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from roller_capture.scripted_provider.reply import Reply
from roller_capture.scripted_provider.request import ModelRequest


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run of the harness: the prompt, what the provider answers, and what else the run needs.

    `environment` is added to the harness's own, `files` (path below the working folder to text) are laid down before
    it starts. With `kill_when`, the run is ended by SIGTERM when that event is set.
    """

    name: str
    prompt: str
    decide: Callable[[ModelRequest], Reply]
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    kill_when: threading.Event | None = None


def ended_when_held(scenario: Scenario, owner: str | None = None) -> Scenario:
    """The same, to be ended from outside once the script has come to an answer that it holds (of `owner`, if given)."""
    reached = threading.Event()

    def tell(request: ModelRequest) -> Reply:
        reply = scenario.decide(request)
        if reply.hold is not None and owner in (None, reply.owner):
            reached.set()
        return reply

    return replace(scenario, decide=tell, kill_when=reached)
