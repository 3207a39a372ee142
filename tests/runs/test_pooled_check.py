"""Samples that are checked in other processes are judged as in this one."""

from pathlib import Path

import pytest

from roller_capture.collect import resume
from roller_capture.pool import ProcessPool
from roller_capture.runs.check import SampleChecks, check_run
from roller_capture.runs.pooled_check import pooled_checks
from tests.runs.made_run import MadeRun


@pytest.fixture
def damaged(run: MadeRun) -> Path:
    """A run with three samples: one is good, one was changed, one has no books."""
    for name in ("a", "b", "c"):
        run.done(name)
    with (run.attempt("b") / "calls.jsonl").open("ab") as stream:
        stream.write(b"\n")
    (run.folder("c") / "sample.json").unlink()
    return run.directory


def told(run_dir: Path, checks: SampleChecks | None = None) -> list[tuple[str, list[str]]]:
    """What is wrong with each sample."""
    report = check_run(run_dir, checks=checks)
    return [(sample.folder.name, [text for _, text in sample.problems()]) for sample in report.samples]


def test_in_several_processes_the_same_is_found(damaged: Path) -> None:
    """In the same order."""
    alone = told(damaged)
    assert [(name, bool(problems)) for name, problems in alone] == [("a", False), ("b", True), ("c", True)]
    with ProcessPool(2) as pool:
        assert told(damaged, pooled_checks(pool)) == alone


@pytest.mark.parametrize(("many", "started"), [(1, 1), (1000, 0)])
def test_resume_starts_processes_only_for_many_samples(
    many: int, started: int, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And finds the same either way."""
    pools: list[int] = []

    def counted(size: int) -> ProcessPool:
        pools.append(size)
        return ProcessPool(size)

    monkeypatch.setattr(resume, "_MANY", many)
    monkeypatch.setattr(resume, "ProcessPool", counted)
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0, 1})
    assert told(damaged, resume._on_all_cores) == told(damaged)
    assert len(pools) == started
