"""Builds Pi homes by hand: one log per session, as Pi 1.6.0 writes them."""

import json
from pathlib import Path
from typing import Any

from roller_capture.adapters.pi import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture

SESSION = "01a22a94-9999-7286-89b5-b3acf1404afb"
OTHER = "01a22a94-8888-7286-89b5-b3acf1404afb"
BUNDLED = ("read", "bash", "edit", "write")


def header(session_id: Any = SESSION, **changes: Any) -> dict[str, Any]:
    """A log's first line."""
    return {"type": "session", "version": 3, "id": session_id, "timestamp": "t", "cwd": "/work", **changes}


def message(identifier: Any, parent: Any, role: Any, **members: Any) -> dict[str, Any]:
    """A message entry."""
    return {"type": "message", "id": identifier, "parentId": parent, "message": {"role": role, **members}}


def offered(*tools: Any) -> dict[str, Any]:
    """The entry that says which tools there are."""
    return message("e0", None, "system", toolsAdded=[{"name": tool} for tool in tools])


def answer(number: int, parent: Any = None, **members: Any) -> dict[str, Any]:
    """The answer `resp-NUMBER`, appended to `parent` or to `u-NUMBER`."""
    return message(
        f"a-{number}",
        parent or f"u-{number}",
        "assistant",
        **{"stopReason": "stop", "responseId": f"resp-{number}", "content": [], **members},
    )


def compaction(identifier: str, parent: str, **members: Any) -> dict[str, Any]:
    """The entry of a compaction."""
    return {"type": "compaction", "id": identifier, "parentId": parent, "summary": "s", **members}


GOOD = (header(), offered(*BUNDLED), message("u-1", "e0", "user"), answer(1))


def write_log(
    folder: Path, *entries: Any, session_id: str = SESSION, cwd: str = "--work--", base: str = ".pi/agent/sessions"
) -> Path:
    """Writes one log below `folder`; text and bytes stand as they are."""
    path = folder / base / cwd / f"2026-11-30T03-51-51-449Z_{session_id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(_line(entry) for entry in entries))
    return path


def _line(entry: Any) -> bytes:
    if isinstance(entry, bytes):
        return entry
    return (entry if isinstance(entry, str) else json.dumps(entry) + "\n").encode("utf-8", "surrogatepass")


def capture(
    folder: Path | None, *sessions: str, launcher: dict[str, object] | None = None, **wire: str
) -> NativeCapture:
    """What the adapter makes of a home; the sessions were seen in the hook's header, `wire` in others (`_` for `-`)."""
    headers = {name.replace("_", "-"): frozenset({value}) for name, value in wire.items()}
    headers["x-roller-session"] = headers.get("x-roller-session", frozenset()) | frozenset(sessions)
    headers.setdefault("x-roller-harness-version", frozenset({"1.6.0"}))
    return read(AdapterInput(folder, headers, launcher or {}))


def gap_codes(native: NativeCapture) -> list[str]:
    """The codes of all gaps."""
    return [gap.code.value for gap in native.gaps]


def claims(native: NativeCapture) -> dict[str, str]:
    """The owner that each response id is claimed for."""
    return {item.value: item.participant_key for item in native.identity_claims if item.field == "response_id"}
