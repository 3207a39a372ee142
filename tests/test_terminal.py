"""Text from data never drives the terminal."""

import pytest

from roller_capture.terminal import progress, safe, say


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢字 😀", "plain é 漢字 😀"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\r\tc", "a\\nb\\r\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eevil", "\\u202eevil"),
        ("\u2028", "\\u2028"),
        ("\udc80", "\\udc80"),
        ("\x00\x7f", "\\x00\\x7f"),
    ],
)
def test_control_and_format_characters_are_shown_escaped(text: str, shown: str) -> None:
    """C0, C1, bidirectional overrides, separators, lone surrogates."""
    assert safe(text) == shown


def test_a_message_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of it reaches stdout."""
    say("one\ntwo")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "one\\ntwo\n")


def test_elsewhere_than_on_a_terminal_long_work_says_a_plain_line_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nine lines for a thousand calls, none for ten."""
    for total in (10, 1000):
        with progress("finalize x") as update:
            for done in range(1, total + 1):
                update(done, total)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 9
    assert lines[0] == "finalize x: 100 of 1000 calls"
