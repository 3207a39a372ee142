"""Scripts made of agents and their turns: who is asking, and how far along is it?

Both questions are answered by what the request holds. The owner is told by a marker that the scenario planted in the
agent's prompt; the turn by how many of this agent's own earlier answers, each with its nonce, stand in the request. So
a retry is the same turn again, a cut answer that the harness took for whole is a turn of its own, and two children with
the same prompt are told apart from their second request on.
"""

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from roller_capture.scripted_provider.reply import Reply
from roller_capture.scripted_provider.request import ModelRequest

Turn = Reply | Sequence[Reply]
"""An answer, or one for each attempt at it; the last one serves all further attempts."""


@dataclass(frozen=True, slots=True)
class AgentScript:
    """One agent, or several with the same prompt.

    `marker` is text that stands in this agent's prompt and in no other. `turns` are its answers; a request beyond them
    gets the last turn again. Give as many `owners` as there will be agents with this prompt; only agents whose first
    request is answered well can be told apart.
    """

    owners: Sequence[str]
    marker: str
    turns: Sequence[Turn]


class Script:
    """A `decide` for `ScriptedProvider`. The first agent whose marker is in a request's prompt text owns it; requests
    of nobody get a plain answer without an owner."""

    def __init__(self, agents: Sequence[AgentScript]) -> None:
        self._agents = agents
        self._lock = threading.Lock()
        self._nonces: dict[str, set[str]] = defaultdict(set)
        self._attempts: dict[tuple[str, int], int] = defaultdict(int)

    def __call__(self, request: ModelRequest) -> Reply:
        agent = next((agent for agent in self._agents if agent.marker in request.prompt_text), None)
        if agent is None:
            return Reply(text="Nobody's question.")
        with self._lock:
            owner = self._owner(agent, request)
            position = len(self._nonces[owner] & request.nonces)
            attempt = self._attempts[owner, position]
            self._attempts[owner, position] += 1
            self._nonces[owner].add(request.nonce)
        turn = agent.turns[min(position, len(agent.turns) - 1)]
        reply = turn if isinstance(turn, Reply) else turn[min(attempt, len(turn) - 1)]
        return replace(reply, owner=owner)

    def _owner(self, agent: AgentScript, request: ModelRequest) -> str:
        known = [owner for owner in agent.owners if self._nonces[owner] & request.nonces]
        fresh = [owner for owner in agent.owners if not self._nonces[owner]]
        return (known or fresh or list(agent.owners))[0]
