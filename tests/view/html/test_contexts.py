"""Requests as pieces: nothing of a conversation is lost, and what is called new is new."""

import json
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roller_capture.api import Call
from roller_capture.view.html.contexts import Contexts
from roller_capture.view.html.pieces import PieceBook

CACHED = {"cache_control": {"type": "ephemeral"}}


def call(
    context: Any, *, owner: str | None = "p1", purpose: str = "agent", protocol: str = "anthropic-messages"
) -> Call:
    record = {"participant_id": owner, "purpose": purpose, "protocol": protocol}
    return Call(record, lambda: json.dumps(context).encode())


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text, **more}]}


class Book:
    """Documents of calls, and their messages put together again as the page does it."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self._book = PieceBook(lambda _number, text: self.texts.append(text))
        self._contexts = Contexts(self._book)
        self.documents: list[dict[str, Any]] = []

    def add(self, one: Call) -> dict[str, Any]:
        self.documents.append(self._contexts.document(len(self.documents), one))
        return self.documents[-1]

    def messages(self, place: int) -> list[Any]:
        self._book.flush()
        pieces: list[Any] = []
        for text, lengths in zip(self.texts, self._book.lengths, strict=True):
            ends = list(accumulate(lengths, initial=0))
            pieces += [json.loads(text[start:end]) for start, end in pairwise(ends)]
        return [pieces[number] for number in self._numbers(place)]

    def _numbers(self, place: int) -> list[int]:
        described = self.documents[place]["list"]
        before = [] if described["base"] is None else self._numbers(described["base"])
        tail = before[len(before) - described["tail"] :]
        return [*before[: described["head"]], *described["mid"], *tail]


_CONVERSATIONS = st.lists(
    st.tuples(st.sampled_from(["p1", "p2", None]), st.lists(st.sampled_from("abcde").map(said), max_size=8)), max_size=8
)


@given(_CONVERSATIONS)
def test_conversations_come_out_as_they_went_in(conversations: list[tuple[str | None, list[Any]]]) -> None:
    """Also those that shrink, begin anew, or change in the middle, of agents that take turns."""
    book = Book()
    for owner, messages in conversations:
        book.add(call({"messages": messages}, owner=owner))
    for place, (_, messages) in enumerate(conversations):
        assert book.messages(place) == messages


@given(_CONVERSATIONS)
def test_what_is_not_new_stood_in_the_call_before(conversations: list[tuple[str | None, list[Any]]]) -> None:
    book = Book()
    for place, (owner, messages) in enumerate(conversations):
        since = book.add(call({"messages": messages}, owner=owner)).get("since")
        earlier = [at for at in range(place) if conversations[at][0] == owner]
        if owner is None or not earlier:
            assert since is None
            continue
        before = conversations[earlier[-1]][1]
        assert since is not None
        assert since["call"] == earlier[-1]
        assert messages[: since["head"]] == before[: since["head"]]
        assert messages[len(messages) - since["tail"] :] == before[len(before) - since["tail"] :]
        assert since["gone"] == len(before) - since["head"] - since["tail"]
        assert since["head"] + since["tail"] <= len(messages)


def test_a_cache_mark_that_moves_makes_no_message_new() -> None:
    """The mark itself is kept: pieces are what was sent."""
    book = Book()
    book.add(call({"messages": [said("a"), said("b", **CACHED)]}))
    since = book.add(call({"messages": [said("a"), said("b"), said("c", **CACHED)]}))["since"]
    assert (since["head"], since["tail"], since["gone"]) == (2, 0, 0)
    assert book.messages(0)[1] == said("b", **CACHED)
    assert book.messages(1)[1] == said("b")


def test_a_bare_text_and_its_only_block_are_the_same_message() -> None:
    book = Book()
    book.add(call({"messages": [said("a", **CACHED)]}))
    since = book.add(call({"messages": [{"role": "user", "content": "a"}, said("b")]}))["since"]
    assert since["head"] == 1


def test_another_purpose_or_nobody_is_another_line_of_calls() -> None:
    """A title that is asked for in between hides nothing; calls of nobody are compared with nothing."""
    book = Book()
    book.add(call({"messages": [said("a")]}))
    assert "since" not in book.add(call({"messages": [said("title?")]}, purpose="title"))
    assert book.add(call({"messages": [said("a"), said("b")]}))["since"]["call"] == 0
    book.add(call({"messages": [said("a")]}, owner=None))
    assert "since" not in book.add(call({"messages": [said("a"), said("b")]}, owner=None))


def test_what_changed_beside_the_messages_is_named() -> None:
    book = Book()
    book.add(call({"model": "m", "system": "s", "tools": [1], "messages": []}))
    since = book.add(call({"model": "m", "system": "other", "messages": []}))["since"]
    assert since["changed"] == ["system", "tools"]


def test_a_conversation_that_the_service_keeps_is_all_new() -> None:
    book = Book()
    book.add(call({"input": [said("a")]}, protocol="openai-responses"))
    continued = {"input": [said("a")], "previous_response_id": "resp_1"}
    since = book.add(call(continued, protocol="openai-responses"))["since"]
    assert (since["head"], since["tail"], since["gone"], since["kept_there"]) == (0, 0, 0, True)


@pytest.mark.parametrize(("context", "pieces"), [({"input": "hello"}, ["hello"]), ({"input": None}, []), ({}, [])])
def test_odd_conversations(context: Any, pieces: list[Any]) -> None:
    book = Book()
    book.add(call(context, protocol="openai-responses"))
    assert book.messages(0) == pieces


def test_a_request_that_is_no_object_is_one_piece() -> None:
    book = Book()
    assert book.add(call([1, 2]))["body"] == 0
    raw = Call({**call(None).record, "context_raw": {"encoding": "utf-8", "data": "x"}}, lambda: b"null")
    assert book.add(raw)["body"] == 1


def test_equal_texts_are_kept_once() -> None:
    """160 requests that grow by a message each cost 160 messages, not 12,880."""
    book = Book()
    for turns in range(1, 161):
        book.add(call({"system": "s" * 1000, "messages": [said(str(turn) * 100) for turn in range(turns)]}))
    assert len(book.messages(159)) == 160
    assert sum(map(len, book.texts)) < 160 * 500
