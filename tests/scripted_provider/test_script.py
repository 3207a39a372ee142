"""Who is asking and how far along it is, told from the request alone."""

from collections.abc import Sequence

from roller_capture.scripted_provider import AgentScript, ModelRequest, Reply, Script
from roller_capture.scripted_provider.request import new_nonce
from roller_capture.vocabulary import Protocol

FIRST, SECOND, BROKEN = Reply(text="first"), Reply(text="second"), Reply(text="second", cut_after=1)


class Conversation:
    """One agent's side of a conversation with a script."""

    def __init__(self, script: Script, prompt: str) -> None:
        self._script = script
        self._history: list[str] = []
        self._prompt = prompt

    def ask(self, *, heard: bool = True) -> Reply:
        """One request; `heard` tells whether the answer becomes part of the history."""
        messages = [{"role": "user", "content": self._prompt}]
        messages += [{"role": "assistant", "content": nonce} for nonce in self._history]
        nonce = new_nonce()
        reply = self._script(
            ModelRequest(1, nonce, Protocol.ANTHROPIC_MESSAGES, "/v1/messages", {}, b"", {"messages": messages})
        )
        if heard:
            self._history.append(nonce)
        return reply


def script(*owners: str, turns: Sequence[Reply | Sequence[Reply]] = (FIRST, SECOND)) -> Script:
    return Script([AgentScript(owners, "MARK", turns)])


def texts(*replies: Reply) -> list[tuple[str | None, str | None]]:
    return [(reply.owner, reply.text) for reply in replies]


def test_turns_follow_the_history() -> None:
    """Each answer that the agent heard moves it on; beyond the end the last turn stays."""
    agent = Conversation(script("root"), "MARK: go")
    assert texts(agent.ask(), agent.ask(), agent.ask()) == [("root", "first"), ("root", "second"), ("root", "second")]


def test_a_retry_is_the_same_turn() -> None:
    """An answer that was not heard is given again, as the next attempt."""
    agent = Conversation(script("root", turns=(FIRST, (BROKEN, SECOND))), "MARK: go")
    agent.ask()
    assert agent.ask(heard=False).cut_after == 1
    assert agent.ask(heard=False).cut_after is None
    assert agent.ask().cut_after is None


def test_agents_with_one_prompt_are_told_apart_by_what_they_heard() -> None:
    """Their requests may come in any order after the first."""
    decide = script("child-1", "child-2")
    one, two = Conversation(decide, "MARK: go"), Conversation(decide, "MARK: go")
    assert texts(one.ask(), two.ask()) == [("child-1", "first"), ("child-2", "first")]
    assert texts(two.ask(), one.ask()) == [("child-2", "second"), ("child-1", "second")]


def test_the_first_matching_agent_owns_a_request() -> None:
    """A root that was told of its child's marker is still the root."""
    decide = Script([AgentScript(["root"], "ROOT", [FIRST]), AgentScript(["child"], "CHILD", [SECOND])])
    assert Conversation(decide, "ROOT and CHILD").ask().owner == "root"
    assert Conversation(decide, "CHILD").ask().owner == "child"


def test_a_request_of_nobody_has_no_owner() -> None:
    """It gets an answer all the same."""
    assert Conversation(script("root"), "hello").ask().owner is None
