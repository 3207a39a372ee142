"""What every launcher must answer when there is nothing to say a turn failed."""

from pathlib import Path

import pytest

from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import find_launcher


@pytest.mark.parametrize("harness", HARNESSES)
def test_no_words_are_no_failure(harness: str, tmp_path: Path) -> None:
    """Of an output that is not there, is empty, or holds what is none of the harness's."""
    launcher = find_launcher(harness)
    output = tmp_path / "stdout.jsonl"
    assert not launcher.turn_failed(output, 0)
    for text in ("", "error\n", '{"type": "message_end"}\n', '["failed"]\n', "\0\n"):
        output.write_text(text)
        assert not launcher.turn_failed(output, 0)
