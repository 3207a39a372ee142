"""What every export tells at its end: what was exported, what was left out and why, as lines and as a document."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from roller_capture import json_text
from roller_capture.adapters.generic import PURPOSE, SESSION
from roller_capture.api import Attempt
from roller_capture.export.main.chain import NO_ROOT, UNKNOWN_PURPOSE
from roller_capture.export.request import Export
from roller_capture.export.sources import AttemptTally, Source
from roller_capture.harnesses import HARNESSES
from roller_capture.terminal import answer, say
from roller_capture.vocabulary import Blocker, ExecutionStatus, Purpose

_MOST_NAMED: Final = 5
_AGENT_OR_UNKNOWN: Final = f"--purpose {Purpose.AGENT} --{UNKNOWN_PURPOSE}"
ALLOW_UNRESOLVED: Final = f"--allow {Blocker.IDENTITY_UNRESOLVED}"
_HINTS: Final = (
    ((UNKNOWN_PURPOSE,), f"--{UNKNOWN_PURPOSE}", PURPOSE, "what a call is for"),
    ((NO_ROOT, Blocker.IDENTITY_UNRESOLVED), f"{ALLOW_UNRESOLVED} {_AGENT_OR_UNKNOWN}", SESSION, "who makes a call"),
)
"""Words of reasons, the option of `export calls`, and the header by which an agent of the user's own says it."""


@dataclass(slots=True)
class Reasons:
    """What was left out, counted by its reason; a few of each are named. Memory does not grow with what is left out."""

    counts: Counter[str] = field(default_factory=Counter)
    named: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, name: str | None = None) -> None:
        """One more, with a name for people if it has one."""
        self.counts[reason] += 1
        if name is None:
            return
        names = self.named.setdefault(reason, [])
        if len(names) < _MOST_NAMED:
            names.append(name)

    def total(self) -> int:
        """How many were left out."""
        return sum(self.counts.values())

    def lines(self) -> Iterator[str]:
        """For people: the most frequent reason first, the names below it."""
        for reason, number in self.counts.most_common():
            yield f"  {number:>7,}  {reason}"
            yield from (f"           {name}" for name in self.named.get(reason, ()))


@dataclass(slots=True)
class Runs:
    """The runs of the attempts that were read: how much was exported by how they ended, and whether agents of the
    user's own, which say themselves who calls and what for, are among them."""

    by_status: Counter[ExecutionStatus] = field(default_factory=Counter)
    have_users_own: bool = False

    def add(self, attempt: Attempt, exported: int) -> None:
        """An attempt, and how much of it was exported."""
        self.by_status[attempt.execution_status] += exported
        harness = HARNESSES.get(attempt.harness)
        self.have_users_own |= harness is not None and harness.is_users_own

    def lines(self) -> Iterator[str]:
        """For people: how much is of runs that did not come to their end."""
        failed, interrupted = (
            self.by_status[status] for status in (ExecutionStatus.FAILED, ExecutionStatus.INTERRUPTED)
        )
        words = [f"that failed: {failed:,}"] if failed else []
        words += [f"that were interrupted: {interrupted:,}"] if interrupted else []
        if words:
            yield f"  of runs {', '.join(words)}"

    def ends(self) -> str:
        """For a card: how much was exported of runs that completed, failed, …"""
        found = ((status, self.by_status[status]) for status in ExecutionStatus)
        return ", ".join(f"{status} ({number:,})" for status, number in found if number)

    def hints(self, reasons: Iterable[str], *, are_calls: bool = False) -> Iterator[str]:
        """For people: what helps against these reasons. `are_calls`: each of them is told with its option already."""
        words = " ".join(reasons)
        for known, option, header, what in _HINTS:
            if any(reason in words for reason in known):
                if not are_calls:
                    yield f"hint: roller-capture export calls {option} takes such calls"
                if self.have_users_own:
                    yield f"hint: an agent of your own says {what} in the header {header} (docs/harnesses/generic.md)"

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {"by_execution_status": {status.value: number for status, number in self.by_status.items() if number}}


class Outcome(Protocol):
    """What came of an export."""

    attempts: AttemptTally
    runs: Runs
    exported: int
    """How much: 0 where nothing was written."""

    def lines(self) -> list[str]:
        """For people."""

    def document(self) -> dict[str, Any]:
        """For programs."""


def counted(found: Iterable[tuple[Source, Attempt]], outcome: Outcome) -> Iterator[tuple[Source, Attempt]]:
    """The same attempts; what is exported of each is counted by how its run ended."""
    for source, attempt in found:
        before = outcome.exported
        yield source, attempt
        outcome.runs.add(attempt, outcome.exported - before)


def tell(
    request: Export,
    outcome: Outcome,
    output: Path | str,
    written: Callable[[], str],
    nothing: str = "no file was written",
) -> int:
    """Tells it and returns the exit code: 1 where an attempt could not be trusted, or nothing was exported.

    `written` describes the output, once it is there; `nothing` goes on from "there is nothing to export".
    """
    for line in outcome.lines():
        say(line)
    if outcome.exported:
        say(f"{output}: {written()}")
    else:
        say(f"error: there is nothing to export: {nothing}")
    if request.as_json:
        told = str(output) if outcome.exported else None
        answer(json_text.dumps_ascii({"output": told, **outcome.document()}))
    return int(bool(outcome.attempts.refused) or not outcome.exported)
