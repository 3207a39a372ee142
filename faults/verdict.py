"""What is left after a fault is looked at: each invariant of docs/faults.md, and what was found of each call."""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from faults.talks import Talk
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.publication import CALLS, MANIFEST, RAW, RELATIONS
from roller_capture.published import CallLine, call_lines, calls_path, read_manifest
from roller_capture.replay import validate_published
from roller_capture.vocabulary import DebugRetention

_PUBLISHED: Final = frozenset({MANIFEST, CALLS, RELATIONS, RAW})
_EVENTS_LOST: Final = frozenset({"recorder_error", "recorder_not_closed"})
_BAD_GATEWAY: Final = 502
_HANDED_ON: Final = ("completed", "complete")


@dataclass(slots=True)
class Verdict:
    """`problems` are broken invariants; the rest is what there was to see."""

    problems: list[str] = field(default_factory=list)
    finished: int = 0
    """Calls whose end the client saw; every one of them has to be there to the last byte."""
    intact: int = 0
    """Those of them that are."""
    cut: int = 0
    """Calls that did not come so far."""
    named: Counter[str] = field(default_factory=Counter)
    """Reasons that the manifest gives, and refusals."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the fault allows.

    `lossy`: bodies may be missing where the call says so (a full disk). `reasons`: the manifest must give each of them.
    `events_lost`: also calls may be missing, if the manifest says that events could not be recorded. `partial`: the
    capture must not be complete.
    """

    lossy: bool = False
    events_lost: bool = False
    reasons: frozenset[str] = frozenset()
    partial: bool = True
    request: FinalizeRequest = field(default_factory=lambda: FinalizeRequest(debug_retention=DebugRetention.FULL))


def conclude(attempt: Path, talks: Iterable[Talk], expected: Expected | None = None) -> Verdict:
    """Finalizes an attempt that a fault has left, and looks at all of it. Blocks."""
    expected = expected or Expected()
    verdict = Verdict()
    if (attempt / MANIFEST).exists():
        verdict.problems.append("published before anybody finalized it")
    try:
        finalize_attempt(attempt, expected.request)
    except RollerError as error:
        verdict.problems.append(f"finalize refused: {error}")
        return verdict
    except Exception as error:  # noqa: BLE001 - a traceback is what is looked for
        verdict.problems.append(f"finalize raised {type(error).__name__}: {error}")
        return verdict
    look_at(attempt, talks, expected, verdict)
    return verdict


def look_at(attempt: Path, talks: Iterable[Talk], expected: Expected, verdict: Verdict) -> None:
    """The published attempt against the truth of its calls."""
    verdict.problems += [
        f"validate: {finding.file}: {finding.message}" for finding in validate_published(attempt, deep=True)
    ]
    verdict.problems += [f"left over: {path.name}" for path in attempt.iterdir() if path.name not in _PUBLISHED]
    if verdict.problems:
        return
    manifest = read_manifest(attempt)
    codes = {reason["code"] for reason in manifest["status_reasons"]} | {item["code"] for item in manifest["errors"]}
    verdict.named.update(codes)
    if expected.partial and (manifest["capture_status"] != "partial" or not codes):
        verdict.problems.append("no gap is named")
    verdict.problems += [f"{code} is not named" for code in sorted(expected.reasons - codes)]
    lines = list(call_lines(calls_path(attempt, manifest)))
    for talk in talks:
        problems = _look_at_call(attempt, lines, talk, expected, codes)
        verdict.problems += [f"{talk.mark}: {problem}" for problem in problems]
        verdict.finished += talk.whole
        verdict.intact += talk.whole and any(_stored(attempt, line) == talk.got for line in _lines_of(talk, lines))
        verdict.cut += not talk.whole
    verdict.problems += _second_time(attempt, expected.request)


def _second_time(attempt: Path, request: FinalizeRequest) -> Iterator[str]:
    """Published is final."""
    before = fingerprint(attempt)
    if not finalize_attempt(attempt, request).already_published:
        yield "a second finalize published again"
    if fingerprint(attempt) != before:
        yield "a second finalize changed files"


def refusal(text: str) -> str:
    """What a refusal says, without its path."""
    return text.strip().removeprefix("error: ").partition(": ")[2].partition(":")[0]


def fingerprint(folder: Path) -> dict[str, str]:
    """The hash of every file below a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def _look_at_call(
    attempt: Path, lines: list[CallLine], talk: Talk, expected: Expected, codes: set[str]
) -> Iterator[str]:
    mine = _lines_of(talk, lines)
    if len(mine) != 1:
        is_told = expected.events_lost and bool(codes & _EVENTS_LOST)
        is_kept = expected.lossy and any(line.head["errors"] for line in lines)
        if (talk.asked and not is_told and not is_kept) or len(mine) > 1:
            yield f"it is there {len(mine)} times"
        return
    (line,) = mine
    if talk.asked and _request_of(line) != talk.request:
        yield "its context is not the request"
    stored = _stored(attempt, line)
    if not talk.odd and not talk.answer.startswith(stored):
        yield "its response holds what was never sent"
    is_named = expected.lossy and bool(line.head["errors"])
    is_named |= expected.events_lost and bool(codes & _EVENTS_LOST)
    if talk.odd and talk.status == _BAD_GATEWAY and not stored:
        if line.head["execution_status"] != "failed" and not line.head["export_blockers"]:
            yield "no service has answered, and it does not say so"
        return
    if not stored.startswith(talk.got) and not is_named:
        yield f"{len(talk.got)} bytes reached the client, {len(stored)} are there"
    yield from _statuses(line.head, talk, stored, is_named=is_named)
    if not talk.odd:
        yield from _words(line.head, talk)


def _lines_of(talk: Talk, lines: list[CallLine]) -> list[CallLine]:
    return [line for line in lines if talk.mark.encode() in _request_of(line)]


def _request_of(line: CallLine) -> bytes:
    """The body of the request, whole or cut."""
    raw = line.head.get("context_raw")
    if raw is None:
        return bytes(line.context)
    return base64.b64decode(raw["data"]) if raw["encoding"] == "base64" else str(raw["data"]).encode()


def _stored(attempt: Path, line: CallLine) -> bytes:
    path = line.head["response_path"]
    return b"" if path is None else (attempt / path).read_bytes()


def _statuses(head: dict[str, Any], talk: Talk, stored: bytes, *, is_named: bool) -> Iterator[str]:
    status = (head["execution_status"], head["response_capture_status"])
    if status == _HANDED_ON and not talk.says_its_end(stored):
        yield "it counts as completed, and its end mark is not there"
    if talk.whole and talk.odd and stored != talk.got and not is_named:
        yield "the client got another body than the file holds"
    if talk.whole and talk.status == 200 and not is_named and not talk.odd:
        if stored != talk.answer:
            yield "the client has the whole answer, and the file has not"
        if status != _HANDED_ON:
            yield f"the client saw its end, and it is {'/'.join(status)}"
    if status != _HANDED_ON and not head["export_blockers"]:
        yield "it is not complete, and nothing bars it from export"


def _words(head: dict[str, Any], talk: Talk) -> Iterator[str]:
    """What the output says is what was sent, or the beginning of it."""
    said = list(_texts(head["output"]))
    for text in said:
        if not any(whole.startswith(text) for whole in talk.texts) and text != _NO_ARGUMENTS_YET:
            yield f"its output says {text[:40]!r}, which was not sent"
    is_done = (head["execution_status"], head["response_capture_status"]) == _HANDED_ON
    if is_done and not all(whole in said for whole in talk.texts):
        yield "its output does not say all that was sent"


_NO_ARGUMENTS_YET: Final = "{}"
_TEXT_MEMBERS: Final = ("text", "content", "arguments", "partial_json")


def _texts(value: Any) -> Iterator[str]:
    """The texts of an output in any protocol; the arguments of a tool as their JSON text."""
    if isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for name, member in value.items():
            if name in _TEXT_MEMBERS and isinstance(member, str):
                yield member
            elif name == "input" and isinstance(member, dict):
                yield json.dumps(member)
            else:
                yield from _texts(member)
