"""Holds the parents that logs name against those that the harness itself named in its requests.

Some harnesses send, with each request of a child, the id of its parent. It proves no owner, but agents can write into
logs, and not into headers: where the two differ, nothing is known of who launched the child.
"""

from collections.abc import Iterable, Mapping

from roller_capture.adapters.gap_log import GapLog
from roller_capture.capture_protocol import WireCall
from roller_capture.vocabulary import AttemptErrorCode

_EVENTS = "events.jsonl"


def contradicted_children(
    calls: Iterable[WireCall], own_header: str, parent_header: str, parents: Mapping[str, str | None], gaps: GapLog
) -> frozenset[str]:
    """The children, by the id in `own_header`, that named another parent in `parent_header` than `parents` has.

    A child of which `parents` has `None` is contradicted by nothing, and neither is one whose header is absent. Each
    request that differs is a gap.
    """
    found = set()
    for call in calls:
        own, told = (set(call.headers.get(name, ())) for name in (own_header, parent_header))
        known = {parent for child in own if (parent := parents.get(child)) is not None}
        if len(own) == 1 and told and known and told != known:
            reason = "an agent's request names another parent than its log"
            gaps.add(AttemptErrorCode.NATIVE_RELATION_UNPROVEN, reason, source=_EVENTS, line=call.line)
            found |= own
    return frozenset(found)
