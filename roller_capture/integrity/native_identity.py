"""Native ids of calls: each comes from a header of its call, and is one of its participant's (design section 6)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from roller_capture.integrity.call_facts import CallFacts
from roller_capture.integrity.findings import Finding
from roller_capture.integrity.records import Seen
from roller_capture.publication import CALLS

Record = dict[str, Any]

_OF_PARTICIPANTS: Final = ("session_id", "thread_id", "agent_id")
"""Kinds of ids that a participant has itself, beside those of its runs, messages and requests."""


def check_native_ids(manifest: Record, seen: Seen) -> Iterator[Finding]:
    """Native ids of all calls: each from one header, the same one everywhere, and one of its owner's."""
    known = {item["participant_id"]: item["native_ids"] for item in manifest["participants"]}
    groups: dict[tuple[frozenset[str], bool], list[CallFacts]] = defaultdict(list)
    for call in seen.calls:
        groups[frozenset(_single(call)), call.answers_by_id].append(call)
        for kind in _OF_PARTICIPANTS:
            value = call.native_ids.get(kind)
            if value is not None and call.owner is not None and value not in known.get(call.owner, {}).get(kind, ()):
                yield Finding(f"{CALLS}:{call.line}", f"its {kind} {value} is none of its participant's native_ids")
    for calls in groups.values():
        yield from _of_one_header(calls)


def _single(call: CallFacts) -> dict[str, str]:
    """The headers that have one value: no other gives an id."""
    return {name: next(iter(values)) for name, values in call.headers.items() if len(values) == 1}


def _of_one_header(calls: Sequence[CallFacts]) -> Iterator[Finding]:
    """Calls with the same headers have the same kinds of ids, and each kind comes from the same header."""
    sent = {call.call_id: _single(call) for call in calls}
    usual = set(calls[0].native_ids)
    sources = {
        kind: [name for name in sent[calls[0].call_id] if _gives(name, kind, calls, sent)] for kind in sorted(usual)
    }
    for kind, names in sources.items():
        if not names:
            lines = ", ".join(str(call.line) for call in calls[:5])
            yield Finding(CALLS, f"native_identity.{kind} is not what a header of the calls says (lines {lines})")
    for call in calls:
        if set(call.native_ids) != usual:
            yield Finding(f"{CALLS}:{call.line}", "native_identity has other ids than calls with the same headers")


def _gives(name: str, kind: str, calls: Sequence[CallFacts], sent: Mapping[str, Mapping[str, str]]) -> bool:
    return all(sent[call.call_id][name] == call.native_ids.get(kind, sent[call.call_id][name]) for call in calls)
