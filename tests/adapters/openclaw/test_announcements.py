"""Tests of which child runs an announcement's id names, and of the text that its message must hold."""

import pytest

from roller_capture.adapters.openclaw.announcements import Announcement
from roller_capture.adapters.openclaw.facts import ChildRun, Input, Place

_ROOT = "agent:main:explicit:root"
_CHILD = "agent:main:subagent:child"
_MIDDLE = "agent:main:subagent:middle"
_PLACE = Place("state/openclaw.jsonl", 1)
_SETTLE = f"announce:requester-settle:main:{_ROOT}:"
_INNER = f"announce:requester-settle:main:{_MIDDLE}:g1,g2,g3:yield-1"


def run(run_id: str = "r1", child: str = _CHILD, requester: str = _ROOT, result: str | None = None) -> ChildRun:
    """A row of the registry."""
    return ChildRun(
        run_id=run_id,
        task_run_id="task-" + run_id[:4],
        child_key=child,
        requester_key=requester,
        execution="terminal",
        outcome="ok",
        ended_reason="subagent-complete",
        delivery="delivered",
        expects_delivery=True,
        result_text=result,
        place=_PLACE,
    )


def announcement(announcement_id: str, text: str | None = None) -> Announcement:
    """An announcement, with its message if there is a text."""
    return Announcement(announcement_id, None if text is None else Input("e", announcement_id, text, _PLACE), None)


@pytest.mark.parametrize(
    ("announcement_id", "child_run", "named"),
    [
        (f"announce:v1:{_CHILD}:r1", run(), True),
        (f"announce:v1:{_CHILD}:r1:active-wake", run(), True),
        (f"announce:v1:{_CHILD}:r1:anything", run(), False),
        (f"announce:v1:{_CHILD}:r11", run(), False),
        (f"announce:v1:{_MIDDLE}:r1", run(), False),
        (f"announce:v2:{_CHILD}:r1", run(), False),
        (f"{_SETTLE}r1:yield-1", run(), True),
        (f"{_SETTLE}r1", run(), True),
        (f"{_SETTLE}r1:retry-2", run(), True),
        (f"{_SETTLE}r1:yield-12:retry-2", run(), True),
        (f"{_SETTLE}r1:yield-1:active-wake", run(), True),
        (f"{_SETTLE}r0,r1,r2:yield-1", run(), True),
        (f"{_SETTLE}r0,r1", run(), True),
        (f"{_SETTLE}r1:elsewhere", run(), False),
        (f"{_SETTLE}r12:yield-1", run(), False),
        (f"{_SETTLE}0r1:yield-1", run(), False),
        (f"{_SETTLE}task-r1:yield-1", run(), True),
        (f"announce:requester-settle:main:{_MIDDLE}:r1:yield-1", run(), False),
        (f"announce:requester-settle:other:{_ROOT}:r1:yield-1", run(), True),
        ("announce:requester-settle:", run(), False),
        ("", run(), False),
        # A child that had yielded: its own run id is an announcement, with colons and commas in it.
        (f"{_SETTLE}{_INNER}:yield-1", run(_INNER, _MIDDLE), True),
        (f"{_SETTLE}{_INNER}", run(_INNER, _MIDDLE), True),
        (f"{_SETTLE}r0,{_INNER}:yield-1", run(_INNER, _MIDDLE), True),
        (f"announce:v1:{_MIDDLE}:{_INNER}", run(_INNER, _MIDDLE), True),
        # The grandchildren in it were told to the middle one, and not to the root.
        (f"{_SETTLE}{_INNER}:yield-1", run("g2", requester=_MIDDLE), False),
        (_INNER, run("g2", requester=_MIDDLE), True),
    ],
)
def test_an_announcement_names_a_run_only_as_a_whole(announcement_id: str, child_run: ChildRun, named: bool) -> None:
    """Behind the requester's own key, between commas or the ends; nothing is split on colons."""
    assert announcement(announcement_id).names(child_run) is named


@pytest.mark.parametrize(
    ("result", "fragment"),
    [
        ("Plain.", ("Plain.",)),
        ("a <b> longer part", ("longer part",)),
        ("short\nthe longest line of all\nend", ("the longest line of all",)),
        ("zero\u200bwidth characters are dropped", ("width characters are dropped",)),
        ("x" * 1000, ("x" * 400,)),
        ("", ()),
        (None, ()),
        ("<>\n", ()),
    ],
)
def test_of_a_result_only_what_stays_as_it_is_must_be_found(result: str | None, fragment: tuple[str, ...]) -> None:
    """Messages escape angle brackets and drop control characters; the child's key is always asked for."""
    heading = f"session_key: {_CHILD}\nsession_id: "
    assert announcement("a").texts(run(result=result)) == (heading, *fragment)


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("It has ended.", ("It has ended.",)),
        (" \nIt has ended.\n", ("It has ended.",)),
        (
            "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\none\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\ntwo",
            ("one", "two"),
        ),
        (f"[Inter-session message] sourceSession={_CHILD} isUser=false\nIts words.\none\n\ntwo", ("one\n\ntwo",)),
        ("[Inter-session message] alone", ()),
        ("one\n[Inter-session message] quoted\ntwo\nthree", ("one\n[Inter-session message] quoted\ntwo\nthree",)),
    ],
)
def test_the_native_text_must_be_found_whole(text: str, texts: tuple[str, ...]) -> None:
    """All but the marks of internal context, which a request has in another spelling, and the harness's head."""
    assert announcement("a", text).texts(run(result="not asked for")) == texts


def test_later_runs_have_it_with_the_session_that_it_came_from() -> None:
    """By id and whole text; a message that the log lacks, or of which it does not say that, is in none of them."""
    text = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>all have settled<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    routed = Announcement(f"{_SETTLE}r1", Input("e", f"{_SETTLE}r1:user", text, _PLACE, _CHILD), None)
    assert routed.later_texts == (f"[Inter-session message] sourceSession={_CHILD} ", "all have settled")
    assert announcement(f"{_SETTLE}r1", text).later_texts == ()
    assert announcement(f"announce:v1:{_CHILD}:r1").later_texts == ()


@pytest.mark.parametrize(
    ("shortened", "known"),
    [
        (f"{_SETTLE}r1\N{HORIZONTAL ELLIPSIS}9:yield-1", True),
        (f"{_SETTLE}r2\N{HORIZONTAL ELLIPSIS}9:yield-1", False),
        (f"{_SETTLE}r1\N{HORIZONTAL ELLIPSIS}8:yield-1", False),
        (f"{_SETTLE}r1-9:yield-1", False),
    ],
)
def test_a_shortened_id_is_known_by_the_whole_one(shortened: str, *, known: bool) -> None:
    """It names no run, and is no strange announcement either; another's shortened id stays one."""
    assert announcement(shortened).is_short_for({f"{_SETTLE}r1-7-9:yield-1", shortened}) is known
