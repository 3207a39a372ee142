"""attempt.json: what the attempt is, and whether its last recorder ended cleanly."""

import secrets
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from roller_capture import json_text
from roller_capture.errors import RollerError
from roller_capture.recording.path_trouble import in_the_way, refusal
from roller_capture.recording.work_folder import WorkFolder

ATTEMPT_FILE: Final = "attempt.json"
WORK_FORMAT: Final = "roller.work/v1"
_LARGEST: Final = 1024 * 1024
_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(slots=True)
class AttemptInfo:
    """The members of attempt.json (docs/working-files.md)."""

    capture_id: str
    harness: str
    started_at: float
    closed_at: float | None = None
    closed: bool = False
    recorders: int = 0
    error_count: int = 0
    unrecorded_events: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def write(self, folder: WorkFolder) -> None:
        """Replaces the file. Raises `OSError`."""
        folder.replace(ATTEMPT_FILE, json_text.dumps({"format": WORK_FORMAT, **asdict(self)}) + b"\n")


def new_capture_id() -> str:
    """A random id: `cap_` and 20 lower-case base32 characters (100 bits)."""
    return "cap_" + "".join(secrets.choice(_BASE32) for _ in range(20))


def read_attempt(folder: WorkFolder) -> AttemptInfo | None:
    """What an earlier recorder left, or `None`. Raises `RollerError` when it is damaged or of another format."""
    path = folder.path / ATTEMPT_FILE
    try:
        data = folder.read(ATTEMPT_FILE, _LARGEST)
        value = None if data is None else json_text.parse(data)
    except OSError as error:
        raise in_the_way(path, folder=False) or refusal(path, "cannot be read", error) from None
    except json_text.JsonError as error:
        raise RollerError(f"{path}: cannot be read ({error}): name another attempt directory") from None
    if value is None:
        return None
    found = value.get("format") if isinstance(value, dict) else None
    if found != WORK_FORMAT:
        raise RollerError(f"{path}: format {found!r} is not {WORK_FORMAT!r}: name another attempt directory")
    expected: dict[str, type | tuple[type, ...]] = {
        "capture_id": str,
        "harness": str,
        "started_at": (int, float),
        "recorders": int,
        "error_count": int,
    }
    if any(not isinstance(value.get(name), kind) for name, kind in expected.items()):
        raise RollerError(f"{path}: is damaged: name another attempt directory")
    unrecorded = value.get("unrecorded_events")
    return AttemptInfo(
        **{name: value[name] for name in expected}, unrecorded_events=unrecorded if isinstance(unrecorded, int) else 0
    )
