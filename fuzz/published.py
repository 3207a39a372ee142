"""Published attempts in a run, with up to three damages; also with the hashes of the manifest made to fit."""

import contextlib
import hashlib
import json
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from fuzz.damage import DAMAGES, Damage, Tree, damaged, read, write
from fuzz.scene import working_files
from fuzz.target import Target
from roller_capture import json_text
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.replay import validate_published
from roller_capture.runs.books import SampleState, create_sample
from roller_capture.runs.check import check_run
from roller_capture.runs.configuration import RunMode
from roller_capture.runs.directory import new_run
from roller_capture.runs.samples_file import SampleSpec
from roller_capture.vocabulary import DebugRetention, ExecutionStatus
from tests.support.run_configurations import CAPTURED_RUN

_CONFIGURATION: Final = replace(CAPTURED_RUN, harness="generic", harness_version="1", capture_debug="full")
_ATTEMPT: Final = "samples/one/capture/attempt-0001/"
_MANIFEST: Final = f"{_ATTEMPT}manifest.json"
_CALLS: Final = f"{_ATTEMPT}calls.jsonl"
_JUDGED: Final = (
    "execution_status", "response_capture_status", "identity_status", "capture_status", "export_status",
    "export_blockers", "participant_id", "output", "usage", "tool_refs", "response_id", "purpose", "errors",
)  # fmt: skip
"""What `raw/` proves of a call: one of them changed is found, also when all hashes were made to fit."""


class Case(NamedTuple):
    """`forged`: the manifest lists the changed files with their new hashes."""

    damages: list[Damage]
    forged: bool
    compressed: bool
    raised: int | None
    """Instead of the damages: this member of some call gets another value, and the hashes fit."""


_CASES: Final = st.builds(Case, DAMAGES, st.booleans(), st.booleans(), st.none() | st.none() | st.integers(0, 1 << 10))


@cache
def _run(*, compressed: bool) -> dict[str, bytes]:
    """A run with one sample, by path below its directory."""
    with tempfile.TemporaryDirectory(prefix="roller-fuzz-") as folder:
        run_dir = Path(folder) / "run"
        with contextlib.ExitStack() as held, new_run(run_dir, _CONFIGURATION, held):
            pass
        sample = create_sample(run_dir, SampleSpec("one", ("go",)), RunMode.CAPTURED)
        entry, place = sample.begin_attempt()
        write(working_files(), place)
        sample.end_attempt(entry, SampleState.COMPLETED)
        request = FinalizeRequest(
            debug_retention=DebugRetention.FULL,
            execution_status=ExecutionStatus.COMPLETED,
            compress=compressed,
            before_publish=lambda digest: sample.note_intent(entry, digest),
        )
        sample.settle(entry, finalize_attempt(place, request).manifest)
        assert not list(check_run(run_dir, deep=True).samples[0].problems())
        return read(run_dir)


@cache
def _weights(*, compressed: bool) -> list[str]:
    names = sorted(name for name in _run(compressed=compressed) if name.startswith(_ATTEMPT))
    formal = [name for name in names if name.startswith((_MANIFEST, _CALLS, f"{_ATTEMPT}relations.jsonl"))]
    return [*names, *formal * 8]


def check(case: Case) -> str:
    """Valid and of the same meaning, or found out."""
    base = _run(compressed=case.compressed and case.raised is None)
    if case.raised is not None:
        tree = _raised(case.raised)
    else:
        tree = damaged(base, case.damages, _weights(compressed=case.compressed))
    if case.forged or case.raised is not None:
        _make_hashes_fit(tree)
    with tempfile.TemporaryDirectory(prefix="roller-fuzz-") as folder:
        write(tree, Path(folder))
        report = check_run(Path(folder))
        findings = [*report.findings, *(item for sample in report.samples for item in sample.problems())]
        # Other white space in the manifest changes its hash, which the run knows: so nothing but the same bytes do.
        assert findings or tree == base, "changed, and nobody finds it"
        if case.raised is None and not case.forged:
            return "found" if findings else "valid, the same"
        alone = validate_published(Path(folder) / _ATTEMPT, deep=True)
        if case.raised is not None:
            assert alone or tree[_CALLS] == _run(compressed=False)[_CALLS], (
                "a member that raw/ proves was changed, and nobody finds it"
            )
        return f"hashes made to fit: {'found by the attempt itself' if alone else 'found by the run alone'}"


def _make_hashes_fit(tree: Tree) -> None:
    try:
        manifest = json.loads(_bytes(tree.get(_MANIFEST)))
        for name, info in manifest["files"].items():
            data = _bytes(tree.get(_ATTEMPT + name))
            info["sha256"], info["bytes"] = hashlib.sha256(data).hexdigest(), len(data)
    except (ValueError, LookupError, TypeError, AttributeError):
        return
    tree[_MANIFEST] = json_text.dumps_indented(manifest) + b"\n"


def _bytes(content: Any) -> bytes:
    return content if isinstance(content, bytes) else b""


_OTHERS: Final[tuple[Any, ...]] = (
    None, "completed", "complete", "resolved", "exportable", "partial", "failed", "agent", [], {"input_tokens": 1}, "x",
)  # fmt: skip


def _raised(number: int) -> Tree:
    tree: Tree = dict(_run(compressed=False))
    lines = _run(compressed=False)[_CALLS].splitlines(keepends=True)
    place, rest = number % len(lines), number // len(lines)
    name, value = _JUDGED[rest % len(_JUDGED)], _OTHERS[rest // len(_JUDGED) % len(_OTHERS)]
    head, mark, context = lines[place].rpartition(b',"context":')
    call = json_text.parse(head + b"}")
    if isinstance(call, dict) and call[name] != value:
        lines[place] = json_text.dumps({**call, name: value})[:-1] + mark + context
    tree[_CALLS] = b"".join(lines)
    return tree


TARGET: Final = Target(
    "published attempts",
    7,
    "every change is found by the run's books; with hashes made to fit, what raw/ proves is found by the attempt "
    "itself; nothing raises",
    _CASES,
    check,
)
