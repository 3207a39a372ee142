"""Recorded logs, damaged in one place: nothing raises, no call changes hands, no relation is made up, and what is lost
has a name.

A few recordings of each harness are damaged in a sample of all ways. `ROLLER_HOSTILE=N` takes N times as many of each
recording, and all recordings; `ROLLER_HOSTILE_SEED` other ones.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from roller_capture.harnesses import HARNESSES
from tests.adapters.mutations import Mutation, file_mutations, line_mutations, value_mutations
from tests.adapters.recordings import Recording, Verdict, recordings

_TIMES = int(os.environ.get("ROLLER_HOSTILE", "0"))
_SEED = int(os.environ.get("ROLLER_HOSTILE_SEED", "1"))
_PART_OF_ALL = {"values": 90, "lines": 30, "files": 25}
"""How many mutations of each sort a recording is put through."""

_CHOSEN = {
    "claude-code": ("2.1.332/nested-background", "2.1.332/mid-turn-notification", "2.1.197/fetched-result"),
    "opencode": ("1.18.33/nested", "1.18.33/background", "1.18.33/resumed-child"),
    "codex": ("0.171.0/nested", "0.171.0/resumed-child-v2", "0.171.0/forked-late"),
    "hermes": ("0.19.0/nested", "0.19.0/rotation", "0.19.0/interactive-background"),
    "openclaw": ("2026.9.6/nested", "2026.9.6/background-pair", "2026.9.6/resumed-child"),
    "pi": ("1.6.0/compaction", "1.6.0/cross-process-resume", "1.6.0/without-response-ids"),
    "deepseek": ("0.2.1rc2/nested-allowed", "0.2.1rc2/resumed-child", "0.2.1rc2/tool-configs"),
    "generic": ("headers-and-log",),
}


def _chosen() -> Iterator[Recording]:
    for harness in HARNESSES:
        for recording in recordings(harness):
            if _TIMES or recording.name in _CHOSEN[harness]:
                yield recording


def _mutations(recording: Recording) -> Iterator[Mutation]:
    chance = random.Random(f"{_SEED} {recording.harness} {recording.name}")
    makers = {"values": value_mutations, "lines": line_mutations, "files": file_mutations}
    for sort, maker in makers.items():
        every = list(maker(recording.files, chance))
        yield from chance.sample(every, min(len(every), _PART_OF_ALL[sort] * max(1, _TIMES)))


@dataclass(frozen=True)
class _Workshop:
    """A copy of a recording's logs in which one mutation is made at a time."""

    recording: Recording
    folder: Path

    def verdict(self, mutation: Mutation | None = None) -> Verdict:
        """The verdict on the logs, damaged so."""
        root, scratch = self.folder / "native", self.folder / "scratch"
        self.recording.write(root)
        if mutation is not None and mutation.change is None:
            (root / mutation.file).unlink()
        elif mutation is not None and mutation.change is not None:
            (root / mutation.file).write_bytes(mutation.change(self.recording.files[mutation.file]))
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        return Verdict.of(self.recording, self.recording.read(root, scratch))


@pytest.mark.parametrize("recording", list(_chosen()), ids=lambda item: f"{item.harness} {item.name}")
def test_damaged_logs_cost_what_they_held_and_no_more(recording: Recording, tmp_path: Path) -> None:
    """The same recording, damaged in one place after another; findings are told by the name of the damage."""
    workshop = _Workshop(recording, tmp_path)
    truth = Truth.of(recording, workshop.verdict())
    assert not truth.base.reasons.keys() & {"ambiguous"}
    found: list[str] = []
    tried = 0
    for mutation in _mutations(recording):
        tried += 1
        try:
            verdict = workshop.verdict(mutation)
        except Exception as error:  # noqa: BLE001 - which ones raise is what is asked for
            found.append(f"{mutation.name}: {type(error).__name__}: {error}")
            continue
        found += [f"{mutation.name}: {finding}" for finding in truth.findings(verdict, mutation)]
    assert tried >= 20
    assert found == []


@dataclass(frozen=True)
class Truth:
    """The verdict on the logs as they were recorded, and the owners that the provider knows."""

    recording: Recording
    base: Verdict
    owners: dict[str, set[str]]
    """By participant, those of its calls."""

    @classmethod
    def of(cls, recording: Recording, base: Verdict) -> "Truth":
        """The truth of a recording. Of the undamaged logs every owner must be right."""
        owners: dict[str, set[str]] = {}
        for key, call in zip(base.owners, recording.calls, strict=True):
            if key is not None:
                owners.setdefault(key, set()).add(call.owner)
        assert all(len(names) == 1 for names in owners.values())
        return cls(recording, base, owners)

    def findings(self, verdict: Verdict, mutation: Mutation) -> Iterator[str]:
        """What a verdict on damaged logs should not say."""
        yield from self._wrong_owners(verdict)
        yield from self._made_up(verdict)
        lost = self._lost(verdict)
        if lost and not mutation.silent and not mutation.foreign and not verdict.reasons - self.base.reasons:
            yield f"lost without a reason: {lost}"

    def _wrong_owners(self, verdict: Verdict) -> Iterator[str]:
        strangers: dict[str, set[str]] = {}
        for key, call in zip(verdict.owners, self.recording.calls, strict=True):
            known = self._known(verdict, key)
            if known is not None and call.owner not in self.owners.get(known, {call.owner}):
                yield f"a call of {call.owner} is given to {key}"
            elif known is None and key is not None:
                strangers.setdefault(key, set()).add(call.owner)
        yield from (f"{key} is given calls of {sorted(names)}" for key, names in strangers.items() if len(names) > 1)

    def _known(self, verdict: Verdict, key: str | None) -> str | None:
        """The participant of the undamaged logs that this one is: one of two session ids may be all that is left."""
        if key is None or key in self.base.native_ids:
            return key
        ids = verdict.native_ids[key]
        return next((known for known, all_ids in self.base.native_ids.items() if ids <= all_ids), None)

    def _made_up(self, verdict: Verdict) -> Iterator[str]:
        """Relations between others than those that were related, or by another's tool call. A tool call's own id may
        have been what was damaged. In an agent's own log one event is all that there is, so it is believed."""
        if self.recording.harness == "generic":
            return
        related = {(parent, child) for _, parent, child, _ in self.base.relations}
        of_tool: dict[tuple[str | None, str | None], set[str]] = {}
        for _, parent_key, child_key, tool in self.base.relations:
            of_tool.setdefault((parent_key, tool), set()).add(child_key)
        for kind, parent_key, child_key, tool in verdict.relations:
            parent, child = self._known(verdict, parent_key), self._known(verdict, child_key)
            same = (parent, child) in related or (parent is None and any(child == known for _, known in related))
            if not same or child not in of_tool.get((parent, tool), {child}):
                yield f"{kind} of {child_key} by {parent_key} with {tool} is made up"

    def _lost(self, verdict: Verdict) -> list[str]:
        now = [self._known(verdict, key) for key in verdict.owners]
        lost = [f"call {number}" for number, key in enumerate(now, 1) if key is None and self.base.owners[number - 1]]
        kinds = _by_type(self.base) - _by_type(verdict)
        left = {self._known(verdict, key) for key in verdict.native_ids}
        lost += sorted(kinds) + [f"participant {key}" for key in self.base.native_ids if key not in left]
        return lost + (["outputs"] if verdict.outputs < self.base.outputs else [])


def _by_type(verdict: Verdict) -> Counter[str]:
    return Counter(kind for kind, *_ in verdict.relations.elements())
