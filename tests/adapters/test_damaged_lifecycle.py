"""Logs that are damaged in one place: where a relation of a child was lost, the lifecycle is not complete.

"A missing registry or an identity mismatch is recorded as unknown": the protocol, "Execution boundaries".
"""

import random
import shutil
from pathlib import Path

import pytest

from tests.adapters.mutations import Mutation, line_mutations, value_mutations
from tests.adapters.recordings import Recording, Verdict, recordings

_CHOSEN = {
    "hermes": (
        "0.19.0/single",
        "0.19.0/nested",
        "0.19.0/child-failure",
        "0.19.0/iteration-limit",
        "0.19.0/interactive-background",
        "0.19.0/interactive-stopped",
    ),
    "openclaw": tuple(
        f"2026.9.6/{name}"
        for name in ("background-pair", "nested", "child-failure", "sent-without-waiting", "sent-and-failed")
    ),
    "deepseek": tuple(
        f"0.2.1rc2/{name}" for name in ("parallel", "resumed-child", "single-chat", "stopped-child", "tool-configs")
    ),
    "generic": ("headers-and-log",),
}
_OF_A_CHILD = frozenset({"spawn", "result_delivered", "child_completed", "child_failed"})
_SAMPLE = 300
_COMPLETE = "lifecycle complete"


def _verdict(recording: Recording, folder: Path, mutation: Mutation | None) -> Verdict:
    recording.write(folder / "native")
    if mutation is not None and mutation.change is not None:
        (folder / "native" / mutation.file).write_bytes(mutation.change(recording.files[mutation.file]))
    shutil.rmtree(folder / "scratch", ignore_errors=True)
    (folder / "scratch").mkdir()
    return Verdict.of(recording, recording.read(folder / "native", folder / "scratch"))


@pytest.mark.parametrize(
    "recording",
    [item for harness, names in _CHOSEN.items() for item in recordings(harness) if item.name in names],
    ids=lambda item: f"{item.harness} {item.name}",
)
def test_a_lifecycle_is_complete_only_with_all_that_proves_it(recording: Recording, tmp_path: Path) -> None:
    """One value or line after another is damaged, by chance with another's ids."""
    known = _verdict(recording, tmp_path, None)
    assert _COMPLETE in known.reasons
    chance = random.Random(f"lifecycle {recording.name}")
    every = [*value_mutations(recording.files, chance), *line_mutations(recording.files, chance)]
    found, lost_any = [], 0
    for mutation in chance.sample(every, min(len(every), _SAMPLE)):
        verdict = _verdict(recording, tmp_path, mutation)
        lost = {kind for kind, *_ in known.relations - verdict.relations} & _OF_A_CHILD
        lost_any += bool(lost)
        if lost and _COMPLETE in verdict.reasons:
            found.append(f"{mutation.name}: {sorted(lost)}")
    assert lost_any > 0
    assert found == []
