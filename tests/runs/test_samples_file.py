"""The file of samples: read strictly, and what is wrong is one line with file and line number."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.runs.samples_file import SampleSpec, duplicates, read_samples


def write(path: Path, *lines: Any) -> Path:
    """Each line as JSON, or as it stands where it is text."""
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_what_a_sample_can_have(tmp_path: Path) -> None:
    """A folder is named from where the file is, so that both can be moved together."""
    (tmp_path / "repo").mkdir()
    path = write(
        tmp_path / "s.jsonl",
        {"id": "a", "prompt": "one"},
        {
            "id": "b.2",
            "turns": ["one", "two"],
            "workdir": "repo",
            "model": "m",
            "profile": "p",
            "harness_args": ["--x"],
        },
        {"id": "c", "prompt": "p", "workdir": None, "model": None, "profile": None, "harness_args": None},
    )
    assert read_samples(path) == [
        SampleSpec("a", ("one",), origin=f"{path}:1"),
        SampleSpec("b.2", ("one", "two"), tmp_path / "repo", "m", "p", ("--x",), f"{path}:2"),
        SampleSpec("c", ("p",), origin=f"{path}:3"),
    ]


LONG = "x" * 121


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is no JSON ("),
        ('{"id": "a", "prompt": "p"} x', "is no JSON ("),
        ('{"id": "a", "prompt": NaN}', "is no JSON ("),
        ("[]", "is no JSON object"),
        ('"a"', "is no JSON object"),
        ("[" * 100_000, "nests deeper"),
        ('{"id": "a", "prompt": "p", "prompt": "q"}', "'prompt' is there twice"),
        ({"id": "a", "prompt": "p", "promt": "q"}, "'promt' is no member of a sample"),
        ({"prompt": "p"}, "id is missing"),
        ({"id": 7, "prompt": "p"}, "id is no text"),
        ({"id": None, "prompt": "p"}, "id is no text"),
        ({"id": "", "prompt": "p"}, "id '' is empty"),
        ({"id": ".", "prompt": "p"}, "no safe folder name"),
        ({"id": "..", "prompt": "p"}, "no safe folder name"),
        ({"id": "../x", "prompt": "p"}, "no safe folder name"),
        ({"id": "a/b", "prompt": "p"}, "no safe folder name"),
        ({"id": "a\\b", "prompt": "p"}, "no safe folder name"),
        ({"id": "/etc", "prompt": "p"}, "no safe folder name"),
        ({"id": "a b", "prompt": "p"}, "no safe folder name"),
        ({"id": " a", "prompt": "p"}, "no safe folder name"),
        ({"id": "a\0", "prompt": "p"}, "no safe folder name"),
        ({"id": "a\n", "prompt": "p"}, "no safe folder name"),
        ({"id": "\u202ea", "prompt": "p"}, "no safe folder name"),
        ({"id": "\ud800", "prompt": "p"}, "no safe folder name"),
        ({"id": ".hidden", "prompt": "p"}, "no safe folder name"),
        ({"id": "-x", "prompt": "p"}, "no safe folder name"),
        ({"id": "x.", "prompt": "p"}, "no safe folder name"),
        ({"id": LONG, "prompt": "p"}, "is too long: 121 bytes"),
        ({"id": "é" * 61, "prompt": "p"}, "is too long: 122 bytes"),
        ({"id": "e\u0301x", "prompt": "p"}, "no safe folder name"),
        ({"id": "a"}, "prompt is missing"),
        ({"id": "a", "prompt": "p", "turns": ["p"]}, "has both prompt and turns"),
        ({"id": "a", "prompt": 5}, "prompt is no text"),
        ({"id": "a", "prompt": None}, "prompt is no text"),
        ({"id": "a", "prompt": ""}, "prompt is empty"),
        ({"id": "a", "prompt": "\ud800"}, "prompt is no valid text"),
        ({"id": "a", "prompt": "x\0"}, "NUL"),
        ({"id": "a", "prompt": "x" * 140_000}, "140000 bytes"),
        ({"id": "a", "turns": []}, "turns is empty"),
        ({"id": "a", "turns": "p"}, "turns is no list of texts"),
        ({"id": "a", "turns": ["p", 1]}, "turns is no list of texts"),
        ({"id": "a", "turns": ["p", " "]}, "a turn is empty"),
        ({"id": "a", "prompt": "p", "workdir": "none"}, "is no directory"),
        ({"id": "a", "prompt": "p", "workdir": ""}, "workdir is empty"),
        ({"id": "a", "prompt": "p", "workdir": 1}, "workdir is no text"),
        ({"id": "a", "prompt": "p", "workdir": "~nobody-at-all/x"}, "workdir '~nobody-at-all/x' cannot be used"),
        ({"id": "a", "prompt": "p", "workdir": "y" * 5000}, "workdir"),
        ({"id": "a", "prompt": "p", "model": 1}, "model is no text"),
        ({"id": "a", "prompt": "p", "profile": []}, "profile is no text"),
        ({"id": "a", "prompt": "p", "harness_args": "--x"}, "harness_args is no list of texts"),
        ({"id": "good", "prompt": "p"}, "id 'good' is the one of line 1"),
        ({"id": "GOOD", "prompt": "p"}, "is, but for case, the one of line 1"),
    ],
)
def test_what_is_wrong_is_one_line(line: Any, said: str, tmp_path: Path) -> None:
    """With file and line; blank lines count."""
    path = write(tmp_path / "s.jsonl", {"id": "good", "prompt": "p"}, "", line)
    with pytest.raises(RollerError) as caught:
        read_samples(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_ids_that_people_use(tmp_path: Path) -> None:
    """Also of other scripts."""
    names = ["django__django-11099", "a.b_c-1", "样本-1", "x@2", "a=1,b=2", "9", "a~b", "é"]
    path = write(tmp_path / "s.jsonl", *({"id": name, "prompt": "p"} for name in names))
    assert [sample.sample_id for sample in read_samples(path)] == names


@pytest.mark.parametrize("text", ["", "\n\n  \r\n", "\ufeff\n"])
def test_a_file_without_samples_is_refused(text: str, tmp_path: Path) -> None:
    """And so is one that cannot be read."""
    path = tmp_path / "s.jsonl"
    path.write_text(text)
    with pytest.raises(RollerError, match="holds no sample") as caught:
        read_samples(path)
    assert caught.value.exit_code == 2
    for other in (tmp_path, tmp_path / "none", Path("a\0b")):
        with pytest.raises(RollerError, match="cannot be read"):
            read_samples(other)


def test_files_of_other_systems(tmp_path: Path) -> None:
    """A byte order mark, CRLF, no line break at the end; no UTF-8 is refused with the place."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id":"a","prompt":"p"}\r\n\r\n{"id":"b","prompt":"q\\r\\n"}')
    assert [(sample.sample_id, sample.turns) for sample in read_samples(path)] == [("a", ("p",)), ("b", ("q\r\n",))]
    path.write_bytes(b'{"id":"a","prompt":"\xff"}')
    with pytest.raises(RollerError, match=r":1: is no UTF-8 at byte 20$"):
        read_samples(path)


def test_many_samples(tmp_path: Path) -> None:
    """A hundred thousand are read at once, and the last line is looked at as the first."""
    lines = [f'{{"id":"s-{number}","prompt":"p"}}\n' for number in range(100_000)]
    path = tmp_path / "s.jsonl"
    path.write_text("".join(lines))
    assert len(read_samples(path)) == 100_000
    path.write_text("".join([*lines, lines[0]]))
    with pytest.raises(RollerError, match=r":100001: id 's-0' is the one of line 1$"):
        read_samples(path)


def test_shared_folders_are_counted() -> None:
    """Those without a folder get one of their own."""
    assert duplicates([None, None, Path("a"), Path("b"), Path("a")]) == 1
