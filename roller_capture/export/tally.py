"""What was exported and what was left out, by reason: counted while it happens, told on one screen."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from roller_capture.export.call_rows import NoRowError, Row
from roller_capture.export.outcome import ALLOW_UNRESOLVED, Reasons, Runs
from roller_capture.export.sources import AttemptTally
from roller_capture.view.words import count
from roller_capture.vocabulary import Blocker, Purpose

_PURPOSE: Final = "purpose "
_MOST_LINES: Final = 12
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d(:?\d\d){0,2}Z?)?\Z")
_GROUPS: Final = ("role", "protocol", "purpose", "harness", "model_responded")


@dataclass(slots=True)
class Tally:
    """Counts of one export; memory does not grow with the calls."""

    exported: int = 0
    """Calls."""
    attempts: AttemptTally = field(default_factory=AttemptTally)
    runs: Runs = field(default_factory=Runs)
    groups: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in _GROUPS})
    left_out: Reasons = field(default_factory=Reasons)
    unreadable: int = 0
    dates: frozenset[str] = frozenset()
    """Columns in which every text looks like a date."""

    def add(self, row: Row) -> None:
        """A call that was exported."""
        names = self.dates if self.exported else row.keys()
        self.dates = frozenset(name for name in names if isinstance(row[name], str) and _DATE.match(row[name]))
        self.exported += 1
        for group, counter in self.groups.items():
            counter[str(row[group]) or "unknown"] += 1

    def leave_out_named(self, attempt: str, call_id: str, error: NoRowError) -> None:
        """A call that was to be exported and could not be."""
        self.left_out.add(error.reason, f"{attempt}: {call_id}{f' ({error.place})' if error.place else ''}")

    def lines(self) -> list[str]:
        """The summary, for people."""
        lines = [f"exported {count(self.exported, 'call')}, of {count(self.attempts.read, 'attempt')} read"]
        if self.exported:
            for group, counter in self.groups.items():
                shown = ", ".join(f"{word} {number:,}" for word, number in counter.most_common(6))
                more = f", and {len(counter) - 6} more" if len(counter) > 6 else ""
                lines.append(f"  {group.replace('_', ' ')}: {shown}{more}")
        lines += self.runs.lines()
        counts, left = self.left_out.counts, self.left_out.total()
        lines.append(f"left out {count(left, 'call')}{':' if left else ''}")
        most = counts.most_common(_MOST_LINES)
        lines += [f"  {number:>7,}  {_with_option(reason)}" for reason, number in most]
        rest = left - sum(number for _, number in most)
        lines += [f"  {rest:>7,}  for {count(len(counts) - len(most), 'other reason')}"] if rest else []
        for reason, names in self.left_out.named.items():
            unnamed = counts[reason] - len(names)
            lines += [f"{reason}:", *(f"  {name}" for name in names)]
            lines += [f"  and {unnamed:,} more"] if unnamed else []
        return [*lines, *self.runs.hints(counts, are_calls=True), *self.attempts.lines()]

    def taken_by_purpose(self) -> str:
        """Which options would take exportable calls that were left out; empty when there are none."""
        words = [reason for reason in self.left_out.counts if reason.startswith(_PURPOSE)]
        options = " ".join(f"--{reason}" for reason in words)
        calls = count(sum(self.left_out.counts[reason] for reason in words), "exportable call")
        return f"{options} would take {calls}" if words else ""

    def document(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "calls": self.exported,
            "by": {name: dict(counter) for name, counter in self.groups.items()},
            "left_out": dict(self.left_out.counts),
            "named": self.left_out.named,
            **self.runs.document(),
            **self.attempts.document(),
        }


def purpose_reason(purpose: Purpose) -> str:
    """The reason of an exportable call that was made for something else than what is asked for."""
    return f"{_PURPOSE}{purpose}"


def _with_option(reason: str) -> str:
    if reason.startswith(_PURPOSE):
        return f"{reason} (exportable: --{reason} takes them)"
    if reason == Blocker.IDENTITY_UNRESOLVED:
        return f"{reason} ({ALLOW_UNRESOLVED} takes those whose purpose is asked for)"
    return reason
