"""Text from data drives no terminal, no log of CI and no report: escapes, hyperlinks, clipboard, direction, markup.

What `view` shows is tried in tests/view/test_command.py.
"""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from roller_capture import terminal
from roller_capture.collect.display import LiveBoard, PlainBoard
from roller_capture.collect.outcome import SampleOutcome
from roller_capture.collect.summary import closing_lines
from roller_capture.errors import RollerError
from roller_capture.integrity import Finding
from roller_capture.migrate_command import migrate
from roller_capture.prune_command import prune
from roller_capture.published import find_attempts
from roller_capture.recording.credentials import Credentials
from roller_capture.recording.failure_text import failure_text
from roller_capture.reports import Checked, annotation_lines, write_junit
from roller_capture.runs.books import SampleState
from roller_capture.scripted_provider import Reply
from roller_capture.vocabulary import DebugRetention
from tests.collect.rig import Rig
from tests.support.publish import publish_family

ESCAPES = {
    "CSI": "\x1b[2J\x1b[31m",
    "CSI, 8 bit": "\x9b2J",
    "OSC 8, a link": "\x1b]8;;http://evil.test\x1b\\click\x1b]8;;\x07",
    "OSC 52, the clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "DCS": "\x1bP$q\x1b\\ \x90q\x9c",
    "direction": "\u202egpj.exe\u2066x\u2069\u200f\u061c",
    "lines": "a\r\n::error::forged\n\x0b\x0c\x85\u2028\u2029b",
    "lone surrogates": "\ud800x\udfff\udc80",
    "others": "\x00\x07\x08\x7f\u200b\ufeff\u00ad\U000e0041",
    "markup": "[red]x[/red][/][link=http://evil.test]",
}
HOSTILE = "".join(ESCAPES.values())
_RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0041]"
)
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


def raw(text: str) -> list[str]:
    """What of it would drive something."""
    return _RAW.findall(text)


class Terminal(io.StringIO):
    """A terminal."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_message(monkeypatch: pytest.MonkeyPatch, text: str, stream: Callable[[], io.StringIO]) -> None:
    """One line, as it was, with what drives escaped."""
    out = stream()
    monkeypatch.setattr("sys.stderr", out)
    terminal.say(f"error: {text}: more")
    assert out.getvalue().count("\n") == 1
    assert raw(out.getvalue()) == []
    assert out.getvalue().endswith(": more\n")


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_progress(monkeypatch: pytest.MonkeyPatch, stream: Callable[[], io.StringIO]) -> None:
    """Its title is a path."""
    out = stream()
    monkeypatch.setattr("sys.stderr", out)
    with terminal.progress(f"finalize {HOSTILE}") as tell:
        for done in range(0, 1000, 50):
            tell(done, 1000)
    text = _COLOURS.sub("", out.getvalue())
    assert raw(text) == []
    assert "evil" in text


def _outcome() -> SampleOutcome:
    return SampleOutcome(
        HOSTILE, None, error=HOSTILE, reasons=(HOSTILE,), place=Path(f"/run/{HOSTILE}".replace("\0", ""))
    )


def test_the_board_of_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """While they run and when they end, on a terminal and elsewhere."""
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    board = LiveBoard(3, 0, 2)
    board.began(HOSTILE)
    board.note(HOSTILE, HOSTILE)
    console = Console(file=io.StringIO(), width=400, force_terminal=True)
    console.print(board.render())
    assert isinstance(console.file, io.StringIO)
    board.ended(_outcome())
    PlainBoard(1).ended(_outcome())
    assert raw(_COLOURS.sub("", console.file.getvalue())) == []
    assert raw(out.getvalue()) == []
    assert "[red]x" in console.file.getvalue()


def test_the_summary_of_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of it goes through `say`."""
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    good = SampleOutcome(HOSTILE, SampleState.FAILED, place=Path("/x"))
    for line in closing_lines([_outcome(), good], 1, Path("/run/\x1b[2J")):
        terminal.say(line)
    assert raw(out.getvalue()) == []


def _checked(tmp_path: Path) -> Iterator[Checked]:
    for text in (*ESCAPES.values(), HOSTILE, "x" * 100_000, "name:" + "9" * 5000, "a%0A::error::b,line=1"):
        yield Checked(
            "attempt", tmp_path / "a", "invalid", (Finding(text, text), Finding("calls.jsonl:7", text)), sample=text
        )
        yield Checked("path", Path(f"/{text}"), "error", (Finding("", text),), exit_code=2)


def test_annotations_for_ci(tmp_path: Path) -> None:
    """One workflow command a finding: no data ends it, begins another one, or adds to its properties."""
    for result in _checked(tmp_path):
        for line in annotation_lines(result):
            assert raw(line) == []
            assert "\n" not in line
            match = re.fullmatch(r"::(error|warning) file=([^,:]*)(,line=\d+)?,title=([^,:]*)::(.*)", line)
            assert match is not None, line[:200]


def test_a_junit_report(tmp_path: Path) -> None:
    """Well-formed whatever the data holds, with the same cases in it."""
    results = list(_checked(tmp_path))
    write_junit(tmp_path / "report.xml", results)
    data = (tmp_path / "report.xml").read_bytes()
    cases = ElementTree.fromstring(data).findall(".//testcase")
    assert len(cases) == len(results)
    assert b"<!" not in data
    assert raw(data.decode()) == []


def test_what_prune_and_migrate_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They name paths."""
    attempt = tmp_path / f"a{ESCAPES['CSI']}{ESCAPES['direction']}b".replace("/", "")
    publish_family(attempt, monkeypatch, debug_retention=DebugRetention.FULL)
    migrate(attempt, tmp_path / "b\x1b[2J", from_raw=True)
    prune([attempt, tmp_path / "none\x9b"], dry_run=False)
    said = capsys.readouterr()
    assert "freed" in said.out
    assert raw(said.out + said.err) == []


def test_what_collect_says_of_a_hostile_service(rig: Rig) -> None:
    """Its error body, and the harness's own error output, which repeats it."""
    body = "".join(text for name, text in ESCAPES.items() if name != "lone surrogates")
    rig.replies["REFUSE-ME"] = Reply(status=401, error_body=json.dumps({"error": {"type": body, "message": body}}))
    result = rig.collect("ECHO-KEY FAIL hello", model="m")
    assert result.exit_code == 0
    assert "something broke" in result.err
    assert raw(result.out + result.err) == []


@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES)
def test_the_proxys_own_words(text: str) -> None:
    """They are stored, so controls go before."""
    assert not re.search("[\x00-\x1f\x7f-\x9f]", failure_text(f"Invalid header: {text}", Credentials()))


def test_an_error_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also about a path that somebody chose with care."""
    out = Terminal()
    monkeypatch.setattr("sys.stderr", out)
    with pytest.raises(RollerError) as caught:
        find_attempts(tmp_path / "\x1b]52;c;ZXZpbA==\x07\nx")
    terminal.say(f"error: {caught.value}")
    assert out.getvalue().count("\n") == 1
    assert raw(out.getvalue()) == []
