"""Heads are read, contexts are passed over, and no line is lost by it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from roller_capture.call_heads import CallFile, Head

CONTEXT = {"messages": [{"role": "user", "content": "x" * 100_000, "context": {"a": 1}}]}


def line(number: int, *, context: Any = CONTEXT, length: int | None = None, **members: Any) -> bytes:
    """A call line as the writer spells it; `length` is the content-length that the client sent."""
    headers = {} if length is None else {"content-length": [str(length)]}
    head = {"call_id": str(number), **members, "http": {"request_headers": headers}, "context_exact": True}
    return json.dumps({**head, "context": context}, separators=(",", ":")).encode() + b"\n"


def true_length(context: Any = CONTEXT) -> int:
    return len(json.dumps(context, separators=(",", ":")))


def read(tmp_path: Path, data: bytes, *, trust_lengths: bool = True) -> list[Head]:
    path = tmp_path / "calls.jsonl"
    path.write_bytes(data)
    with CallFile(path) as file:
        return list(file.heads(trust_lengths=trust_lengths))


def ids(heads: list[Head]) -> list[str | None]:
    return [head.head["call_id"] if head.head else None for head in heads]


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"output": {"a": 1, "context": {"b": 2}}},
        {"output": {"text": ',"context_exact":true,"context":'}},
        {"output": [{"x": 1, "context": {}}] * 50},
        {"output": {"context_exact": True, "context": 1}},
        {"output": {"text": "y" * 200_000}},
    ],
    ids=["plain", "nested", "in a text", "nested often", "nested like our own", "longer than a window"],
)
@pytest.mark.parametrize("length", [None, true_length()], ids=["no length", "length"])
def test_a_head_is_what_stands_before_the_records_own_context(
    tmp_path: Path, members: dict[str, Any], length: int | None
) -> None:
    """Whatever the output holds and however long it is."""
    heads = read(tmp_path, line(1, length=length, **members) + line(2, length=length, **members))
    assert ids(heads) == ["1", "2"]
    assert [head.problem for head in heads] == [None, None]
    for head in heads:
        assert head.head is not None
        assert "context" not in head.head
        assert head.head.get("output") == members.get("output")


@pytest.mark.parametrize("length", [0, 1, true_length() - 1, true_length() + 1, 50, 10**12, 10**30])
def test_a_wrong_length_leads_to_a_search(tmp_path: Path, length: int) -> None:
    """Where no line ends at the told distance, the end is looked for."""
    heads = read(tmp_path, b"".join(line(number, length=length) for number in (1, 2, 3)))
    assert ids(heads) == ["1", "2", "3"]


@pytest.mark.parametrize("header", [["12", "12"], "12", [12], ["-1"], ["1e3"], ["٣"], [], None, {"a": 1}])
def test_a_length_that_is_no_length_is_not_used(tmp_path: Path, header: Any) -> None:
    """Wrong types in a forged record."""
    record = {"call_id": "1", "http": {"request_headers": {"content-length": header}}, "context_exact": True}
    text = json.dumps({**record, "context": CONTEXT}, separators=(",", ":")).encode() + b"\n"
    assert ids(read(tmp_path, text + line(2))) == ["1", "2"]


def test_a_forged_length_can_lead_past_a_line_unless_lengths_are_not_trusted(tmp_path: Path) -> None:
    """So the caller counts the calls and reads again."""
    second = line(2)
    data = line(1, length=true_length() + 2 + len(second) - 2) + second + line(3)
    assert ids(read(tmp_path, data)) == ["1", "3"]
    assert ids(read(tmp_path, data, trust_lengths=False)) == ["1", "2", "3"]


def ends_of(data: bytes) -> list[int]:
    return [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda _ends: [],
        lambda ends: ends[:1],
        lambda ends: [*ends, 10**12],
        lambda ends: [end - 1 for end in ends],
        lambda ends: [end + 1 for end in ends],
        lambda _ends: [0, 1, 2],
        lambda _ends: [-1, 10**30, 5],
        lambda ends: [ends[0]] * 3,
    ],
    ids=["none", "too few", "too many", "before", "behind", "in the heads", "outside", "the first alone"],
)
def test_a_line_that_does_not_end_where_it_is_said_to_is_searched_through(tmp_path: Path, wrong: Any) -> None:
    """What the writer of a file tells of it is looked at before it is believed."""
    data = b"".join(line(number) for number in (1, 2, 3))
    path = tmp_path / "calls.jsonl"
    path.write_bytes(data)
    with CallFile(path) as file:
        heads = list(file.heads(trust_lengths=False, ends=wrong(ends_of(data))))
    assert ids(heads) == ["1", "2", "3"]
    assert [head.place.end + 1 for head in heads if head.place is not None] == ends_of(data)


def test_contexts_whose_ends_are_known_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`preadv` is what a search reads with."""
    data = b"".join(line(number) for number in range(5))
    path = tmp_path / "calls.jsonl"
    path.write_bytes(data)
    monkeypatch.setattr(os, "preadv", None)
    with CallFile(path) as file:
        assert len(list(file.heads(trust_lengths=False, ends=ends_of(data)))) == 5


def test_contexts_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20 MB, less than a hundredth is read where the client told its lengths."""
    big = {"text": "x" * 1_000_000}
    taken: list[int] = []
    pread = os.pread

    def counting(descriptor: int, size: int, offset: int) -> bytes:
        data = pread(descriptor, size, offset)
        taken.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counting)
    monkeypatch.setattr(os, "preadv", None)
    data = b"".join(line(number, context=big, length=true_length(big)) for number in range(20))
    assert len(read(tmp_path, data)) == 20
    assert sum(taken) < len(data) / 25


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (b"\n", "no call record"),
        (b"garbage\n", "no call record"),
        (b"[]\n", "no JSON object"),
        (b'{"call_id":\n', "no call record"),
        (b"\xff\xfe\n", "no call record"),
        (line(9)[:-3] + b"\n", "its end is missing"),
        (line(9)[:150] + b"\n", "its end is missing"),
        (b"x" * 300_000 + b"\n", "no call record"),
    ],
)
def test_a_damaged_line_is_told_and_the_next_is_read(tmp_path: Path, damaged: bytes, problem: str) -> None:
    """One bad call never spoils the calls beside it."""
    heads = read(tmp_path, line(1) + damaged + line(3))
    assert [heads[0].problem, heads[2].problem] == [None, None]
    assert problem in (heads[1].problem or "")
    assert [ids(heads)[0], ids(heads)[2]] == ["1", "3"]
    assert [head.number for head in heads] == [1, 2, 3]


@pytest.mark.parametrize("cut_at", [5, 100, 200, 70_000, len(line(1)) - 3])
@pytest.mark.parametrize("length", [None, true_length()], ids=["no length", "length"])
def test_a_torn_tail_is_told(tmp_path: Path, cut_at: int, length: int | None) -> None:
    """Also where the head is whole."""
    heads = read(tmp_path, line(1, length=length) + line(2, length=length)[:cut_at])
    assert ids(heads)[0] == "1"
    assert heads[0].problem is None
    assert heads[1].problem is not None


def test_another_member_order_and_spacing_are_read(tmp_path: Path) -> None:
    """Records of other writers: the whole line is parsed then."""
    data = b'{"context": {"a": 1}, "call_id": "1"}\n{"call_id": "2", "context": null}\n{"call_id":"3"}'
    assert ids(read(tmp_path, data)) == ["1", "2", "3"]


def test_an_empty_file_has_no_heads(tmp_path: Path) -> None:
    """And no findings of its own."""
    assert read(tmp_path, b"") == []


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """No link is followed, no pipe waited for."""
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder", "none"):
        with pytest.raises(OSError, match=r".+"):
            CallFile(tmp_path / name)
