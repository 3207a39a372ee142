"""Working files with up to three damages: events, attempt.json, bodies, native logs, or anything in their place."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from fuzz.damage import DAMAGES, Damage, Odd, Tree, damaged, read, write
from fuzz.scene import MARKS, working_files
from fuzz.target import Target
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.publication import CALLS
from roller_capture.published import CallLine, call_lines, calls_path, read_manifest
from roller_capture.replay import validate_published
from roller_capture.vocabulary import DebugRetention

_REQUEST: Final = FinalizeRequest(debug_retention=DebugRetention.FULL, harness="generic")
_EVENTS: Final = "work/events.jsonl"
_TAKEN: Final = frozenset({"lock", "reserve"})
_COMPARED: Final = ("output", "usage", "tool_refs", "execution_status", "response_capture_status", "response_id")


@cache
def _weights() -> list[str]:
    """Mostly events."""
    names = sorted(working_files())
    return [*names, *[_EVENTS] * len(names), "work/attempt.json", "work/attempt.json"]


@cache
def _base() -> dict[str, dict[str, Any]]:
    """The calls of the undamaged attempt by their marks."""
    with tempfile.TemporaryDirectory(prefix="roller-fuzz-") as folder:
        attempt = Path(folder) / "attempt"
        write(working_files(), attempt)
        finalize_attempt(attempt, _REQUEST)
        return {mark: line.head for line in call_lines(attempt / CALLS) for mark in MARKS if _is_of(mark, line)}


def _is_of(mark: str, line: CallLine) -> bool:
    return mark.encode() in bytes(line.context) or mark in json.dumps(line.head.get("context_raw"))


def check(damages: list[Damage]) -> str:
    """Published and valid, with a name for what is lost; or refused in one line, with nothing touched."""
    tree = damaged(working_files(), damages, _weights())
    with tempfile.TemporaryDirectory(prefix="roller-fuzz-") as folder:
        attempt = Path(folder) / "attempt"
        attempt.mkdir()
        write(tree, attempt)
        before = _files_of(attempt)
        refusal: str | None = None
        try:
            finalize_attempt(attempt, _REQUEST)
        except RollerError as error:
            refusal = str(error)
        if refusal is not None:
            assert "\n" not in refusal, "the refusal is not one line"
            assert _files_of(attempt) == before, "it was refused, and files were touched"
            return "refused in one line"
        findings = validate_published(attempt, deep=True)
        assert not findings, findings
        return _check_calls(attempt, tree)


def _files_of(attempt: Path) -> dict[str, bytes]:
    return {name: data for name, data in read(attempt).items() if Path(name).name not in _TAKEN}


def _check_calls(attempt: Path, tree: Tree) -> str:
    manifest = read_manifest(attempt)
    lines = list(call_lines(calls_path(attempt, manifest)))
    lost = 0
    for number, mark in enumerate(MARKS, 1):
        mine = [line for line in lines if _is_of(mark, line)]
        if not mine:
            lost += 1
        elif _is_untouched(number, tree):
            assert len(mine) == 1, f"call {number} is there {len(mine)} times"
            for name in _COMPARED:
                assert mine[0].head[name] == _base()[mark][name], f"{name} of call {number}, which nobody touched"
    named = [error["code"] for error in manifest["errors"]] + [code for line in lines for code in line.head["errors"]]
    if lost:
        assert manifest["capture_status"] == "partial", "calls are lost, and the capture is complete"
        assert named, "calls are lost without a name"
        return "published, lost calls named"
    return "published, gaps named" if named else "published, no error named"


def _is_untouched(number: int, tree: Tree) -> bool:
    """Whether all that concerns a call is as it was: its bodies, its events in their order, and no others that claim
    its flow, its number or its files."""
    base = working_files()
    names = (f"work/bodies/{number:06d}.request", f"work/bodies/{number:06d}.response")
    events = tree.get(_EVENTS)
    if any(tree.get(name) != base[name] for name in names) or isinstance(events, Odd | None):
        return False
    return _lines_about(number, events) == _lines_about(number, base[_EVENTS])


def _lines_about(number: int, events: bytes) -> list[bytes]:
    words = (b'"flow-%d"' % number, b"/%06d." % number, b'"sequence":%d,' % number, b'"sequence": %d,' % number)
    return [line for line in events.splitlines() if any(word in line for word in words)]


TARGET: Final = Target(
    "working files",
    5,
    "finalize publishes what validates (--deep), or refuses in one line and touches nothing; a call that nobody "
    "touched is as it was; no call is lost without a name",
    DAMAGES,
    check,
)
