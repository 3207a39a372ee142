"""The debug material in `raw/`: native logs, raw responses, capture events and the map of evidence sources."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from roller_capture import json_text
from roller_capture.capture_protocol import NativeCapture, NativeSource
from roller_capture.publication import CALLS, RAW, Staging
from roller_capture.vocabulary import AttemptErrorCode
from roller_capture.working_files import EVENTS, AttemptFault, RecordedCall, WorkingAttempt, event_lines

SOURCES: Final = f"{RAW}/sources.json"

_REFUSED: Final = "refused"
"""Published in the place of a body path that leads out of `bodies/`."""


def response_path(call_id: str) -> str:
    """Where a call's raw response is published."""
    return f"{RAW}/responses/{call_id}.body"


def has_response_file(call: RecordedCall) -> bool:
    """Is there anything of the response on disk?"""
    return call.response_body is not None and call.response_body.path is not None


def usable_sources(native: NativeCapture) -> tuple[list[NativeSource], list[AttemptFault]]:
    """The native logs that can be kept, each under one safe name, and a fault for each that cannot."""
    usable: dict[str, NativeSource] = {}
    faults: list[AttemptFault] = []
    for item in native.sources:
        if any(part in ("", ".", "..") or "\0" in part for part in item.source.split("/")):
            faults.append(_refused(item.source, "its name leaves the folder"))
        elif item.path.is_symlink() or not item.path.is_file():
            faults.append(_refused(item.source, "it is no regular file"))
        else:
            usable.setdefault(item.source, item)
    return list(usable.values()), faults


def _refused(source: str, reason: str) -> AttemptFault:
    return AttemptFault(AttemptErrorCode.FILE_REFUSED, f"native log not kept: {reason}", source)


def stage_native_sources(sources: Iterable[NativeSource], staging: Staging) -> dict[str, str]:
    """Copies the native logs that were read as evidence; returns source → raw path."""
    placed: dict[str, str] = {}
    for item in sources:
        placed[item.source] = f"{RAW}/native/{item.source}"
        staging.copy(placed[item.source], item.path)
    return placed


def stage_responses(calls: Sequence[RecordedCall], call_ids: Sequence[str], staging: Staging) -> None:
    """Keeps the raw responses, still content-encoded as on the wire."""
    for call, call_id in zip(calls, call_ids, strict=True):
        if call.response_body is not None and call.response_body.path is not None:
            staging.adopt(response_path(call_id), call.response_body.path)


def stage_kept_bodies(attempt: WorkingAttempt, staging: Staging) -> dict[str, str]:
    """Keeps bodies that belong to no call; returns their name in `bodies/` → raw path."""
    placed: dict[str, str] = {}
    for body in attempt.kept_bodies:
        name = f"{RAW}/{body.folder}/{body.name}"
        if name not in staging.files:
            staging.adopt(name, body.path)
        placed[f"bodies/{body.name}"] = name
    return placed


def stage_events(attempt: WorkingAttempt, call_ids: Sequence[str], kept: dict[str, str], staging: Staging) -> None:
    """Writes the events again, with references into the published files in place of those into `work/`.

    A line that is no event (counted as `event_unreadable`) becomes an empty one, so that locators keep their numbers.
    """
    flows = {call.flow: (index + 1, call_ids[index]) for index, call in enumerate(attempt.calls)}
    path = attempt.directory / EVENTS
    with staging.open(f"{RAW}/{EVENTS}") as writer:
        if path.is_symlink() or not path.is_file():
            return
        written = 0
        for number, line in event_lines(path):
            try:
                event = json_text.parse(line)
            except json_text.JsonError:
                continue
            if isinstance(event, dict):
                published = json_text.dumps(_published_event(event, flows, kept, staging))
                writer.write(b"\n" * (number - written - 1) + published + b"\n")
                written = number


def _published_event(
    event: dict[str, Any], flows: dict[str, tuple[int, str]], kept: dict[str, str], staging: Staging
) -> dict[str, Any]:
    flow = event.get("flow")
    place = flows.get(flow) if isinstance(flow, str) else None
    out: dict[str, Any] = {}
    for name, value in event.items():
        if name not in ("body", "response_body") or not isinstance(value, dict):
            out[name] = value
        elif _leaves_bodies(value.get("path")):
            out[name] = {**value, "path": _REFUSED}
        elif place is not None and event.get("type") == "request":
            line, call_id = place
            pointer = "/context"
            out["body_ref"] = {"file": CALLS, "line": line, "call_id": call_id, "pointer": pointer}
        elif place is not None:
            target = response_path(place[1])
            out["body"] = {**value, "path": target if target in staging.files else None}
        else:
            out[name] = {**value, "path": kept.get(str(value.get("path")))}
    return out


def _leaves_bodies(path: object) -> bool:
    """Whether the reader refused an event for its body's path, as it must do again when it reads what is published."""
    folder, _, name = path.partition("/") if isinstance(path, str) else ("bodies", "", "x")
    return folder != "bodies" or not name or "/" in name or name in (".", "..")


def stage_sources(placed: dict[str, str], staging: Staging) -> None:
    """The map from evidence source to raw file: path, hash, size, original relative path."""
    named: Iterable[tuple[str, str]] = (*placed.items(), (EVENTS, f"{RAW}/{EVENTS}"))
    entries = {
        source: {
            "path": name,
            "sha256": staging.files[name].sha256,
            "bytes": staging.files[name].bytes,
            "original": source,
        }
        for source, name in named
        if name in staging.files
    }
    staging.write(SOURCES, json_text.dumps_indented(entries) + b"\n")
