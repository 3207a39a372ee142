"""Why nothing came of model calls, in few words.

Of calls that failed, these are the words of the record without the provider's message, which can be another one for
each call."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from roller_capture.collect.turns import RunOutcome
from roller_capture.collect.waiting import STOPPED_BY_COLLECT
from roller_capture.errors import RollerError
from roller_capture.terminal import safe
from roller_capture.view.attempt import Call, load_attempt
from roller_capture.view.words import LONGEST_TEXT, cut
from roller_capture.vocabulary import CallErrorCode, ExecutionStatus

NO_REQUEST: Final = "no model request reached the proxy"
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*(?: \([A-Za-z0-9_.-]+\))?")
_FAILURES: Final = (
    CallErrorCode.HTTP_ERROR,
    CallErrorCode.PROVIDER_ERROR,
    CallErrorCode.UPSTREAM_UNREACHABLE,
    CallErrorCode.RESPONSE_UNPARSEABLE,
)


def why_no_call(outcome: RunOutcome) -> str:
    """Why no model request reached the proxy, as far as it is known."""
    if outcome.answered_itself:
        return (
            "no model was asked: by its own output the harness answered the prompt itself, as it does when a prompt "
            "begins with a slash and the name of one of its commands"
        )
    if outcome.ended_by in STOPPED_BY_COLLECT:
        return "the harness was stopped before its first model request"
    return NO_REQUEST


def silent_turns(outcome: RunOutcome) -> str:
    """Which turns of a run that has calls were without any; empty where there is none."""
    numbers = outcome.silent_turns
    if not numbers:
        return ""
    turns = f"turn{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    itself = "; by its own output the harness has answered a prompt itself" if outcome.answered_itself else ""
    return f"during {turns} no model request came{itself}"


def all_calls_failed(manifest: Mapping[str, Any]) -> bool:
    """Whether there are calls, and not one of them brought an answer: nothing of it is of use."""
    counts = manifest["counts"]
    return bool(counts["calls"]) and counts["execution_status"].get(ExecutionStatus.FAILED, 0) == counts["calls"]


def failure_reasons(calls: Iterable[Call]) -> list[tuple[str, int]]:
    """Each reason with how many calls failed for it, the most frequent first."""
    failed = (call for call in calls if call.record["execution_status"] == ExecutionStatus.FAILED)
    return Counter(map(_reason, failed)).most_common()


def first_reason(attempt: Path) -> str:
    """The most frequent reason; empty where the attempt cannot be read."""
    try:
        reasons = failure_reasons(load_attempt(attempt).calls)
    except RollerError:
        return ""
    return reasons[0][0] if reasons else ""


def _reason(call: Call) -> str:
    error = next((error for error in call.record["errors"] if error["code"] in _FAILURES), None)
    if error is None:
        return "no error is recorded"
    text = str(error["message"])
    if error["code"] == CallErrorCode.HTTP_ERROR:
        status, _, rest = text.partition(": ")
        kind = rest.partition(": ")[0]
        text = f"{status} {kind if _KIND.fullmatch(kind) else rest}".strip()
    return safe(cut(text, LONGEST_TEXT))
