"""A pool of processes: order, questions, errors, and what becomes of a job whose process dies."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.pool import Job, ProcessPool, Task
from tests.pool import tasks
from tests.support.collecting import alive, until


def job(task: Task, name: str = "attempt-7", **more: Any) -> Job[str]:
    return Job(name, task, name, **more)


def test_results_come_in_the_order_of_the_jobs() -> None:
    """Whichever ends first; what a task prints is nothing of them."""
    with ProcessPool(2) as pool:
        jobs = [Job(str(number), partial(tasks.slow_for_small, number), number) for number in range(6)]
        assert list(pool.each(jobs)) == [(number, number) for number in range(6)]
        assert pool.run(job(partial(tasks.double, 21))) == 42


def test_jobs_are_taken_as_they_are_needed() -> None:
    """Of a hundred thousand, a few dozen are in hand at once."""
    taken: list[int] = []

    def source() -> Iterator[Job[int]]:
        for number in range(100_000):
            taken.append(number)
            yield Job(str(number), partial(tasks.double, number), number)

    with ProcessPool(1) as pool:
        results = pool.each(source())
        assert next(results) == (0, 0)
        assert len(taken) <= 17
        results.close()  # type: ignore[attr-defined]


def test_no_more_processes_than_there_are_jobs_or_places() -> None:
    """One job after the other needs one; two at once have two."""
    with ProcessPool(2) as pool:
        assert len({pool.run(job(tasks.process_id)) for _ in range(5)}) == 1
        jobs = [Job("", partial(tasks.slow_for_small, number), number) for number in range(8)]
        assert [item for item, _ in pool.each(jobs)] == list(range(8))
        assert len(pool._workers) == 2
    assert not any(worker.is_alive for worker in pool._workers)


def test_a_question_is_answered_by_the_parent() -> None:
    """Or refused: the parent's own error is then the result, and the process works on."""

    def no_room(_question: str) -> str:
        raise RollerError("sample.json: cannot be written")

    with ProcessPool(1) as pool:
        assert (
            pool.run(job(partial(tasks.asking, "may I?"), answer=lambda words: f"{words} yes")) == "may I? may I? yes"
        )
        with pytest.raises(RollerError, match=r"sample\.json: cannot be written"):
            pool.run(job(partial(tasks.asking, "may I?"), answer=no_room))
        assert pool.run(job(tasks.process_id)) == pool.run(job(tasks.process_id))


@pytest.mark.parametrize(
    ("kind", "words", "code"), [("clear", "no such thing", 2), ("bug", "attempt-7: LookupError: a bug", 1)]
)
def test_an_error_is_the_result_of_its_job_alone(kind: str, words: str, code: int) -> None:
    """A bug is named for the job; the others go on in the same process."""
    with ProcessPool(1) as pool:
        (_, error), (_, after) = pool.each([job(partial(tasks.wrong, kind)), job(partial(tasks.double, 4))])
        assert isinstance(error, RollerError)
        assert (str(error), error.exit_code, after) == (words, code, 8)


def test_a_process_that_is_killed_costs_one_more_try(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which is said, with the name of the job; the jobs beside it know nothing of it."""
    with ProcessPool(2) as pool:
        jobs = [Job(f"attempt-{number}", partial(tasks.double, number), number) for number in range(6)]
        jobs.insert(3, Job("attempt-x", partial(tasks.die, tmp_path / "mark", 1), 99))
        results = list(pool.each(jobs))
    assert results == [(0, 0), (1, 2), (2, 4), (99, "done"), (3, 6), (4, 8), (5, 10)]
    assert capsys.readouterr().err.splitlines() == [
        "warning: attempt-x: the process that worked on it was killed by SIGKILL: it is tried once more"
    ]
    assert (tmp_path / "mark").read_bytes() == b"xx"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (lambda mark: partial(tasks.die, mark, 9), "was killed by SIGKILL, twice"),
        (lambda _mark: partial(tasks.leave, 3), "ended with exit code 3, twice"),
    ],
)
def test_a_job_that_kills_every_process_is_named_and_the_others_go_on(task: Any, words: str, tmp_path: Path) -> None:
    """It is tried twice, and not for ever."""
    with ProcessPool(1) as pool:
        first, (_, error), last = pool.each(
            [job(partial(tasks.double, 1)), job(task(tmp_path / "mark")), job(partial(tasks.double, 3))]
        )
    assert (first[1], last[1]) == (2, 6)
    assert isinstance(error, RollerError)
    assert str(error) == f"attempt-7: the process that worked on it {words}"


def test_whoever_stops_listening_waits_for_nothing(tmp_path: Path) -> None:
    """The processes are ended at once, also in the middle of a job."""
    jobs = [job(partial(tasks.double, 1)), job(partial(tasks.wait_for_ever, tmp_path / "pid"))]
    with ProcessPool(1) as pool:
        results = pool.each(jobs)
        assert next(results)[1] == 2
        until((tmp_path / "pid").exists)
        results.close()  # type: ignore[attr-defined]
        assert not alive(int((tmp_path / "pid").read_text()))


def test_a_process_ends_with_its_parent() -> None:
    """Which was killed: nobody is left to work for. Its session is its own, so a Ctrl-C does not reach it."""
    with ProcessPool(1) as pool:
        assert len(set(pool.run(job(tasks.session)))) == 1
    program = (
        "import sys, time; from functools import partial; from roller_capture.pool import Job, ProcessPool;"
        "from tests.pool import tasks; pool = ProcessPool(1);"
        "print(pool.run(Job('', tasks.process_id, '')), flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert alive(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: not alive(child))


def test_descriptors_are_held_open(tmp_path: Path) -> None:
    """Those that were named: a run stays locked while a process works."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        with ProcessPool(1, held=(descriptor,)) as pool:
            assert pool.run(job(partial(tasks.descriptor_is_open, descriptor))) is True
        with ProcessPool(1) as pool:
            assert pool.run(job(partial(tasks.descriptor_is_open, descriptor))) is False
    finally:
        os.close(descriptor)


def test_an_idle_process_that_is_killed_is_replaced() -> None:
    """Without a word: no job was lost."""
    with ProcessPool(1) as pool:
        first = pool.run(job(tasks.process_id))
        os.kill(first, signal.SIGKILL)
        until(lambda: not alive(first))
        assert pool.run(job(tasks.process_id)) != first


def test_many_threads_may_ask_at_once() -> None:
    """As `collect` does."""
    found: list[int] = []
    with ProcessPool(2) as pool:
        threads = [
            threading.Thread(target=lambda number=number: found.append(pool.run(job(partial(tasks.double, number)))))
            for number in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == [2 * number for number in range(20)]
