"""Which calls form one conversation: by what they hold, and by nothing else."""

from typing import Any

import pytest

from roller_capture.export.chat import ChatCall, Message
from roller_capture.export.main.chain import Chain, NoTrajectoryError

SYSTEM: Message = {"role": "system", "content": "be brief"}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str | None, *calls: tuple[str, str], **members: Any) -> Message:
    message: Message = {"role": "assistant", "content": text, **members}
    if calls:
        message["tool_calls"] = [
            {"id": one, "type": "function", "function": {"name": "f", "arguments": arguments}}
            for one, arguments in calls
        ]
    return message


def result(call_id: str, text: str) -> Message:
    return {"role": "tool", "content": text, "tool_call_id": call_id}


def chat(*messages: Message, answer: Message | None = None, tools: tuple[str, ...] = ()) -> ChatCall:
    return ChatCall(list(messages), [answer or assistant("ok")], list(tools), [], {}, {})


def ids(chain: Chain) -> list[list[str]]:
    return [[link.call_id for link in segment.links] for segment in chain.segments]


def test_a_request_that_holds_all_of_the_one_before_goes_on() -> None:
    """Reasoning that is dropped, arguments written anew, and another system prompt do not matter."""
    chain = Chain()
    first = assistant("I look.", ("t1", '{"a": 1, "b": [2]}'), reasoning_content="hm")
    again = assistant("I look.", ("t1", '{"b":[2],"a":1}'))
    assert chain.add("c1", chat(SYSTEM, user("go"), answer=first)) is None
    other = {"role": "system", "content": "be briefer"}
    assert chain.add("c2", chat(other, user("go"), again, result("t1", "x"), tools=("t",))) is None
    (segment,) = chain.segments
    assert ids(chain) == [["c1", "c2"]]
    assert [(link.start, link.end) for link in segment.links] == [(1, 2), (3, 4)]
    assert segment.changes("head") == ["c2"]
    assert segment.changes("tools") == ["c2"]
    assert segment.abandoned == []


def test_a_call_that_is_asked_again_was_not_taken() -> None:
    """Also with a further word; those after it neither."""
    chain = Chain()
    chain.add("c1", chat(user("go"), answer=assistant("", ("t1", "{}"))))
    held = (user("go"), assistant("", ("t1", "{}")), result("t1", "x"))
    chain.add("c2", chat(*held, answer=assistant("no")))
    chain.add("c3", chat(*held, answer=assistant("yes")))
    chain.add("c4", chat(*held, user("please"), answer=assistant("so")))
    assert ids(chain) == [["c1", "c4"]]
    assert chain.segments[0].abandoned == ["c2", "c3"]


def test_after_a_compaction_a_new_segment_begins() -> None:
    """Even where the first messages stay."""
    chain = Chain()
    chain.add("c1", chat(user("go"), answer=assistant("1")))
    chain.add("c2", chat(user("go"), assistant("1"), user("more"), answer=assistant("2")))
    chain.compacted("c3")
    over = chain.add("c4", chat(user("go"), assistant("1"), user("summary")))
    assert over is chain.segments[0]
    assert ids(chain) == [["c1", "c2"], ["c4"]]
    assert [segment.cut_by for segment in chain.segments] == [None, "c3"]


def test_a_compaction_that_changed_nothing_cuts_nothing() -> None:
    """And it explains no later change."""
    chain = Chain()
    chain.add("c1", chat(user("go"), answer=assistant("1")))
    chain.compacted("c2")
    chain.add("c3", chat(user("go"), assistant("1"), user("more"), answer=assistant("2")))
    assert ids(chain) == [["c1", "c3"]]
    with pytest.raises(NoTrajectoryError, match="no compaction is known"):
        chain.add("c4", chat(user("else")))


@pytest.mark.parametrize(
    "messages",
    [
        (user("go"), assistant("1"), user("changed"), assistant("2"), user("on")),
        (user("go"), assistant("2"), user("on")),  # a window that slid
        (user("go"), result("t1", "late")),
        (),
    ],
)
def test_a_history_that_changed_without_a_reason_is_refused(messages: tuple[Message, ...]) -> None:
    """Nobody knows what happened: no trajectory, with the call."""
    chain = Chain()
    chain.add("c1", chat(user("go"), answer=assistant("1")))
    chain.add("c2", chat(user("go"), assistant("1"), user("more"), answer=assistant("2")))
    with pytest.raises(NoTrajectoryError) as caught:
        chain.add("c3", chat(*messages))
    assert caught.value.call_id == "c3"


def test_tool_ids_and_arguments_must_be_the_same() -> None:
    """Text that is no JSON is compared as it is."""
    for answer, held in (
        (assistant("", ("t1", "{}")), assistant("", ("t2", "{}"))),
        (assistant("", ("t1", '{"a":1}')), assistant("", ("t1", '{"a":2}'))),
        (assistant("", ("t1", "{")), assistant("", ("t1", "{ "))),
    ):
        chain = Chain()
        chain.add("c1", chat(user("go"), answer=answer))
        with pytest.raises(NoTrajectoryError):
            chain.add("c2", chat(user("go"), held, result("t1", "x")))
