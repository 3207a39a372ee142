"""Appends what the plugin saw to `HERMES_HOME/roller_capture/events.jsonl`, one JSON object a line.

Only ids, short words and numbers are noted, nothing of a conversation. Whatever goes wrong here is swallowed: a log
that cannot be written must not cost a turn.
"""

import json
import os
import threading
from pathlib import Path

MAX_TEXT = 300
"""Longest value that is noted; a longer one is no id."""

_lock = threading.Lock()


def note(event: str, **values: object) -> None:
    """Appends one event. Values that are no short text, number or truth value are left out."""
    try:
        plain = {name: value for name, value in values.items() if _is_plain(value)}
        line = json.dumps({"event": event, **plain}, ensure_ascii=True).encode("ascii") + b"\n"
        with _lock:
            descriptor = os.open(_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, line)  # in one piece, since a kill may come at any moment
            finally:
                os.close(descriptor)
    except Exception:  # noqa: BLE001, S110 - see above
        pass


def _is_plain(value: object) -> bool:
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and 0 < len(value) <= MAX_TEXT)


def _path() -> Path:
    # The plugin's own place is HERMES_HOME/plugins/roller_capture.
    folder = Path(__file__).resolve().parents[2] / "roller_capture"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / "events.jsonl"
