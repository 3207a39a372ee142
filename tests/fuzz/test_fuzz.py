"""A few thousand mutations of all that is read (`make fuzz` takes 100,000), and that the invariants can be broken."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz import native_logs, published, streams, working_files
from fuzz.damage import Damage, Odd, damaged
from fuzz.target import Target, put_through
from roller_capture.finalize_attempt import FinalizeOutcome
from roller_capture.vocabulary import HttpEnd
from tests.model_protocols.transcripts import ALL

_COUNTS = ((streams.TARGET, 2400), (native_logs.TARGET, 160), (working_files.TARGET, 60), (published.TARGET, 140))


@pytest.mark.parametrize(("target", "count"), _COUNTS, ids=[target.name for target, _ in _COUNTS])
def test_what_is_mutated_keeps_the_invariants(target: Target, count: int) -> None:
    """The same mutations in every run; they lead to several outcomes."""
    result = put_through(target, count, number=1)
    assert result.broken == []
    assert result.cases == count
    assert len(result.came_out) >= 3


def test_a_broken_invariant_is_told_with_the_smallest_case() -> None:
    """And the search goes on with the next batch, up to a handful of findings."""

    def check(number: int) -> str:
        assert number < 50, "too much"
        return "little"

    result = put_through(Target("numbers", 1, "small", st.integers(0, 1000), check), 3000, number=1)
    assert len(result.broken) == 5
    assert all("AssertionError: too much" in text and "case: [50]" in text for text in result.broken)
    assert result.came_out.keys() <= {"little"}


# --- each invariant can be broken ---


def _cut(place: int) -> streams.Case:
    number = next(index for index, path in enumerate(ALL) if path.name == "text.sse")
    return streams.Case("cut", number, None, HttpEnd.CUT_BY_UPSTREAM, place, [1], [(0, 0, b"")], "")


def test_a_cut_stream_that_counts_as_whole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that believes the end of every connection."""
    assert streams.check(_cut(400)) == "cut: interrupted/partial"
    monkeypatch.setattr(streams, "_is_whole", lambda _decoded: True)
    with pytest.raises(AssertionError, match="a cut answer counts as whole"):
        streams.check(_cut(400))


def test_a_text_that_was_not_said_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that makes up text."""
    real = streams.decode

    def invents(*args: Any, **options: Any) -> Any:
        decoded = real(*args, **options)
        output = {**(decoded.output or {}), "content": [{"type": "text", "text": "never said"}]}
        object.__setattr__(decoded, "output", output)
        return decoded

    monkeypatch.setattr(streams, "decode", invents)
    with pytest.raises(AssertionError, match="was not said"):
        streams.check(_cut(400))


def test_a_lost_call_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer that publishes an attempt as valid and complete, though a call is missing."""
    torn = [Damage("cut line", working_files._weights().index("work/events.jsonl"), 1, 10, b"")]
    assert working_files.check(torn) == "published, lost calls named"
    real = working_files.read_manifest
    monkeypatch.setattr(working_files, "read_manifest", lambda path: {**real(path), "capture_status": "complete"})
    with pytest.raises(AssertionError, match="the capture is complete"):
        working_files.check(torn)


def test_a_call_that_nobody_touched_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in one call must not change another one."""
    harmless = [Damage("append", 0, 0, 0, b" ")]
    monkeypatch.setitem(working_files._base()["mark-1-of-five"], "output", "something else")
    with pytest.raises(AssertionError, match="output of call 1, which nobody touched"):
        working_files.check(harmless)


def test_a_finalizer_that_raises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything but one clear line."""

    def fails(*_: Any) -> FinalizeOutcome:
        raise KeyError("flow")

    monkeypatch.setattr(working_files, "finalize_attempt", fails)
    with pytest.raises(KeyError):
        working_files.check([Damage("append", 0, 0, 0, b" ")])


def test_a_change_that_nobody_finds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A validator that looks away; and a raised status with hashes made to fit."""
    one_byte = published.Case([Damage("bytes", 0, 20, 1, b"x")], forged=False, compressed=False, raised=None)
    raised = published.Case([], forged=True, compressed=False, raised=5 * 13 * 3)
    assert published.check(one_byte) == "found"
    assert published.check(raised) == "hashes made to fit: found by the attempt itself"
    with monkeypatch.context() as patch:
        patch.setattr(published, "validate_published", lambda *_args, **_options: [])
        with pytest.raises(AssertionError, match=r"raw/ proves"):
            published.check(raised)

    class Blind:
        findings = ()
        samples = ()

    monkeypatch.setattr(published, "check_run", lambda _run: Blind)
    with pytest.raises(AssertionError, match="nobody finds it"):
        published.check(one_byte)


def test_an_owner_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter whose capture of damaged logs gives a call to somebody else."""
    case = native_logs.Case("generic", "line", 0)
    truth = native_logs._truth("generic")
    other = [*truth.base.owners[1:], truth.base.owners[0]]
    wrong = native_logs.Verdict(tuple(other), Counter(), truth.base.native_ids, truth.base.outputs, Counter())
    monkeypatch.setattr(native_logs, "_verdict", lambda *_: wrong)
    with pytest.raises(AssertionError, match="is given to"):
        native_logs.check(case)


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("cut", {"a": b"on"}),
        ("append", {"a": b"one\ntwo\n!!"}),
        ("remove", {}),
        ("drop line", {"a": b"one\n"}),
        ("double line", {"a": b"two\none\ntwo\n"}),
        ("swap lines", {"a": b"two\none\n"}),
    ],
)
def test_damage_is_what_it_says(what: str, expected: dict[str, bytes]) -> None:
    """A file of two lines, at its second line or third byte."""
    place = 2 if what == "cut" else 1
    assert damaged({"a": b"one\ntwo\n"}, [Damage(what, 0, place, 0, b"!!")], ["a"]) == expected


def test_what_stands_in_a_files_place(tmp_path: Any) -> None:
    """Links, folders and pipes."""
    for kind in ("link", "folder", "pipe"):
        odd = damaged({"a": b""}, [Damage(kind, 0, 0, 5, b"")], ["a"])["a"]
        assert isinstance(odd, Odd)
        odd.make(tmp_path / kind)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder").is_dir()
    assert (tmp_path / "pipe").is_fifo()
