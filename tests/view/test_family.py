"""Who stands where: children in the place of their spawn, nobody lost, nothing guessed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roller_capture.view.attempt import Attempt, Call
from roller_capture.view.family import DEEPEST, Agent, Family, family_of
from roller_capture.view.provider_words import Tokens


def member(name: str, parent: str | None = None, **ids: str) -> dict[str, Any]:
    return {
        "participant_id": name,
        "role": "child" if parent or name.startswith("child") else "root",
        "parent_participant_id": parent,
        "native_ids": {kind: [value] for kind, value in ids.items()},
    }


def call(number: int, owner: str | None) -> Call:
    return Call({"call_id": f"c{number}", "sequence": number, "participant_id": owner}, None, Tokens())


def spawn(child: str, call_id: str | None, delegation: int = 1) -> dict[str, Any]:
    return {"type": "spawn", "child_participant_id": child, "parent_call_id": call_id, "delegation": delegation}


def family(members: list[dict[str, Any]], calls: tuple[Call, ...] = (), *relations: dict[str, Any]) -> Family:
    return family_of(Attempt(Path(), {"participants": members}, list(calls), list(relations)))


def everyone(agents: list[Agent]) -> Iterator[str]:
    for agent in agents:
        yield agent.participant_id
        for children in agent.spawned.values():
            yield from everyone(children)
        yield from everyone(agent.children)


def test_a_child_stands_under_the_call_that_spawned_it() -> None:
    """At any depth; the order of the file does not matter."""
    tree = family(
        [member("g", "k"), member("k", "r"), member("r")],
        (call(2, "k"), call(1, "r")),
        spawn("g", "c2"),
        spawn("k", "c1"),
    )
    (root,) = tree.top
    (child,) = root.spawned["c1"]
    assert [item.participant_id for item in child.spawned["c2"]] == ["g"]
    assert root.children == child.children == []


@pytest.mark.parametrize("call_id", [None, "c2", "c3", "c9"], ids=["unknown", "of a sibling", "of nobody", "no call"])
def test_a_child_whose_call_is_not_the_parents_stands_directly_under_its_parent(call_id: str | None) -> None:
    """A call of another agent, of nobody, or that does not exist, is no place for it."""
    tree = family(
        [member("r"), member("k", "r"), member("s", "r")],
        (call(1, "r"), call(2, "s"), call(3, None)),
        spawn("k", call_id),
    )
    assert [item.participant_id for item in tree.top[0].children] == ["k", "s"]
    assert tree.top[0].spawned == {}


def test_a_resumed_child_stands_at_its_first_spawn_and_is_named_at_the_next() -> None:
    """Per delegation."""
    tree = family(
        [member("r"), member("k", "r")], (call(1, "r"), call(2, "r")), spawn("k", "c2", 2), spawn("k", "c1", 1)
    )
    assert [item.participant_id for item in tree.top[0].spawned["c1"]] == ["k"]
    assert [(item.participant_id, number) for item, number in tree.top[0].resumed["c2"]] == [("k", 2)]


def test_children_without_parent_stand_at_the_end_with_the_reason() -> None:
    """A parent that the manifest does not have, no parent at all, a circle of parents."""
    tree = family([member("child_x"), member("a", "b"), member("b", "a"), member("k", "gone"), member("r")])
    assert [item.participant_id for item in tree.top] == ["r", "child_x", "k", "a"]
    assert tree.strays == {
        "child_x": "its parent is not known",
        "k": "its parent is not known",
        "a": "its parents form a circle",
    }
    assert sorted(everyone(tree.top)) == ["a", "b", "child_x", "k", "r"]


def test_a_participant_that_is_its_own_parent_is_shown_once() -> None:
    """The smallest circle."""
    tree = family([member("a", "a")])
    assert list(everyone(tree.top)) == ["a"]


def test_endless_nesting_is_cut_and_nobody_is_lost() -> None:
    """Thousands of levels of a forged manifest."""
    chain = [member("p0"), *(member(f"p{number}", f"p{number - 1}") for number in range(1, 3000))]
    tree = family(chain)
    assert len(list(everyone(tree.top))) == 3000
    assert len(tree.top) == 3000 // DEEPEST
    assert f"deeper than {DEEPEST}" in tree.strays[f"p{DEEPEST}"]


def test_calls_go_to_their_owner_and_those_of_nobody_apart() -> None:
    """Also a call whose owner the manifest does not have."""
    tree = family([member("r")], (call(3, "r"), call(1, "r"), call(2, None), call(4, "gone")))
    assert [item.number for item in tree.top[0].calls] == [1, 3]
    assert [item.number for item in tree.unowned] == [2, 4]


def test_names_tell_the_agents_apart() -> None:
    """As much of an id of their own as needed; a shared session id is no name."""
    tree = family(
        [
            member("r", session_id="s"),
            member("k1", "r", session_id="s", agent_id="abcdefgh1"),
            member("k2", "r", session_id="s", agent_id="abcdefgh2"),
            member("k3", "r", session_id="s"),
            member("child_lone", None, thread_id="t1"),
        ]
    )
    names = [tree.name(item) for item in ("r", "k1", "k2", "k3", "child_lone", "nobody", None)]
    assert names == [
        "root", "child abcdefgh1", "child abcdefgh2", "child k3", "child t1", "nobody", "an unknown agent"
    ]  # fmt: skip


def test_equal_names_are_numbered() -> None:
    """Ids longer than anybody reads, with one beginning."""
    long = "x" * 60
    tree = family([member("r1", agent_id=long + "1"), member("r2", agent_id=long + "2")])
    assert [agent.name for agent in tree.top] == ["root " + "x" * 40, "root " + "x" * 40 + " (2)"]
