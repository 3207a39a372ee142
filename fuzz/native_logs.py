"""Native logs of recorded runs, damaged in one place (tests/adapters says how)."""

import random
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from hypothesis import strategies as st

from fuzz.target import Target
from roller_capture.harnesses import HARNESSES
from tests.adapters.mutations import Mutation, file_mutations, line_mutations, value_mutations
from tests.adapters.recordings import Recording, Verdict, typical
from tests.adapters.test_hostile_mutations import Truth

_MAKERS: Final = {"value": value_mutations, "line": line_mutations, "file": file_mutations}


class Case(NamedTuple):
    """One damage to the typical recording of a harness."""

    harness: str
    kind: str
    number: int


_CASES: Final = st.builds(
    Case,
    st.sampled_from(list(HARNESSES)),
    st.sampled_from(("value", "value", "value", "line", "file")),
    st.integers(0, 1 << 20),
)


@cache
def _mutations(harness: str, kind: str) -> list[Mutation]:
    return list(_MAKERS[kind](typical(harness).files, random.Random(harness)))  # noqa: S311 - to be repeatable


@cache
def _truth(harness: str) -> Truth:
    recording = typical(harness)
    return Truth.of(recording, _verdict(recording, None))


def _verdict(recording: Recording, mutation: Mutation | None) -> Verdict:
    with tempfile.TemporaryDirectory(prefix="roller-fuzz-") as folder:
        root, scratch = Path(folder) / "native", Path(folder) / "scratch"
        recording.write(root)
        scratch.mkdir()
        if mutation is not None and mutation.change is None:
            (root / mutation.file).unlink()
        elif mutation is not None and mutation.change is not None:
            (root / mutation.file).write_bytes(mutation.change(recording.files[mutation.file]))
        verdict = Verdict.of(recording, recording.read(root, scratch))
        shutil.rmtree(scratch)
        return verdict


def check(case: Case) -> str:
    """No adapter raises, no call changes hands, no relation is made up, and what is lost has a name."""
    mutations = _mutations(case.harness, case.kind)
    mutation = mutations[case.number % len(mutations)]
    verdict = _verdict(typical(case.harness), mutation)
    findings = list(_truth(case.harness).findings(verdict, mutation))
    assert not findings, f"{mutation.name}: {findings}"
    return f"{case.kind}: {'same' if verdict == _truth(case.harness).base else 'something lost or changed, and named'}"


TARGET: Final = Target(
    "native logs",
    8,
    "no adapter raises; no call is given to another agent than its own; no relation is made up; what is lost is named",
    _CASES,
    check,
)
