"""`roller-capture decode`: the line it prints, and files that cannot be read."""

import gzip
import json
from pathlib import Path

import pytest

from roller_capture.decode_command import decode_file, render
from roller_capture.errors import RollerError
from tests.model_protocols.transcripts import ANTHROPIC, CHAT, wire

KEYS = [
    "output", "usage", "response_id", "tool_refs",
    "execution_status", "response_capture_status", "export_blockers", "output_warnings",
]  # fmt: skip


def test_line(tmp_path: Path) -> None:
    """One ASCII JSON line with the documented keys in their order; refs and warnings are objects."""
    path = tmp_path / "body"
    path.write_bytes(gzip.compress(wire(ANTHROPIC, "tool_input_cut.sse")))
    line = render(decode_file(path, ANTHROPIC, "gzip"))
    decoded = json.loads(line)
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert list(decoded) == KEYS
    assert decoded["tool_refs"] == [{"tool_call_id": "toolu_01D", "item_id": None, "name": "write_file"}]
    assert {"code": "tool_input_incomplete", "detail": "write_file"} in decoded["output_warnings"]
    assert (decoded["execution_status"], decoded["export_blockers"]) == ("interrupted", ["response_incomplete"])


def test_missing_file_and_folder_are_named(tmp_path: Path) -> None:
    """A path that is missing or no file is one clear line, exit code 2."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(RollerError, match=str(path)) as raised:
            decode_file(path, CHAT)
        assert raised.value.exit_code == 2
        assert "\n" not in str(raised.value)


def test_unreadable_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be read is one clear line."""
    path = tmp_path / "secret"
    path.write_bytes(b"{}")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(RollerError, match="secret: cannot be read: Permission denied"):
        decode_file(path, CHAT)


def test_unknown_coding_is_refused(tmp_path: Path) -> None:
    """A coding that nobody knows is a wrong call."""
    (tmp_path / "body").write_bytes(b"{}")
    with pytest.raises(RollerError, match="mystery") as raised:
        decode_file(tmp_path / "body", CHAT, "mystery")
    assert raised.value.exit_code == 2
