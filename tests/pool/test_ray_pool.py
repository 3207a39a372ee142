"""A Ray cluster as a pool: it does what the processes of this machine do, and the attempts come out the same."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from benchmarks.many import make_run
from roller_capture.errors import RollerError
from roller_capture.finalize_attempt import FinalizeOutcome, FinalizeRequest, finalize_attempt
from roller_capture.pool import Engine, Job, Pool, Task, Workers
from roller_capture.remote import Location
from roller_capture.remote.finalizing import RemoteAttempt, remote_finalize_job
from tests.pool import tasks
from tests.pool.test_commands import COUNT, attempts, command, tree
from tests.remote.s3_server import BUCKET, KEYS, S3Server
from tests.support.collecting import until

ray = pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where Ray keeps the token of the clusters that it starts; commands of these tests find it there too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_AUTH_MODE", "")
        patch.delenv("RAY_AUTH_MODE")  # Ray sets it, and it is to be as before afterwards
        yield


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    """A cluster of this machine, with two workers."""
    with Workers(2, Engine.RAY).pool() as opened:
        yield opened


def job(task: Task, name: str = "attempt-7", **more: object) -> Job[str]:
    return Job(name, task, name, **more)  # type: ignore[arg-type]


def test_results_come_in_the_order_of_the_jobs(pool: Pool) -> None:
    """Whichever ends first."""
    jobs = [Job(str(number), partial(tasks.slow_for_small, number), number) for number in range(6)]
    assert list(pool.each(jobs)) == [(number, number) for number in range(6)]


def test_a_question_is_answered_by_the_parent(pool: Pool) -> None:
    """Or refused: the parent's own error is then the result."""

    def no_room(_question: str) -> str:
        raise RollerError("sample.json: cannot be written")

    assert pool.run(job(partial(tasks.asking, "may I?"), answer=lambda words: f"{words} yes")) == "may I? may I? yes"
    with pytest.raises(RollerError, match=r"sample\.json: cannot be written"):
        pool.run(job(partial(tasks.asking, "may I?"), answer=no_room))
    assert pool.run(job(partial(tasks.asking, "again?"), answer=lambda _words: "yes")) == "again? yes"


@pytest.mark.parametrize(
    ("kind", "words", "code"), [("clear", "no such thing", 2), ("bug", "attempt-7: LookupError: a bug", 1)]
)
def test_an_error_is_the_result_of_its_job_alone(kind: str, words: str, code: int, pool: Pool) -> None:
    """A bug is named for the job."""
    (_, error), (_, after) = pool.each([job(partial(tasks.wrong, kind)), job(partial(tasks.double, 4))])
    assert isinstance(error, RollerError)
    assert (str(error), error.exit_code, after) == (words, code, 8)


def test_a_worker_that_dies_costs_one_more_try(pool: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Which is said; a job that kills every worker is named, and the others go on."""
    jobs = [Job(f"attempt-{number}", partial(tasks.double, number), number) for number in range(4)]
    jobs.insert(1, Job("attempt-x", partial(tasks.die, tmp_path / "once", 1), 98))
    jobs.insert(3, Job("attempt-y", partial(tasks.die, tmp_path / "always", 9), 99))
    results = dict(pool.each(jobs))
    error = results.pop(99)
    assert results == {0: 0, 98: "done", 1: 2, 2: 4, 3: 6}
    assert isinstance(error, RollerError)
    assert str(error) == "attempt-y: the process that worked on it was lost (WorkerCrashedError), twice"
    assert (tmp_path / "once").read_bytes() == (tmp_path / "always").read_bytes() == b"xx"
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: attempt-")]
    assert sorted(said) == [
        f"warning: {name}: the process that worked on it was lost (WorkerCrashedError): it is tried once more"
        for name in ("attempt-x", "attempt-y")
    ]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of 22 samples."""
    run = tmp_path_factory.mktemp("ray") / "run"
    make_run(run, COUNT)
    return run


@pytest.fixture
def cluster(pool: Pool) -> str:
    """The address of the cluster, for commands that join it."""
    assert pool.size == 2
    return str(ray.get_runtime_context().gcs_address)


@pytest.mark.parametrize("form", [(), ("--compress",)], ids=["plain", "compressed"])
def test_the_commands_do_the_same_on_a_cluster(
    recorded: Path, cluster: str, tmp_path: Path, form: tuple[str, ...]
) -> None:
    """Published files and books, findings, and rows: byte for byte."""
    engine = ("--engine", "ray", "--address", cluster, "--jobs", "2")
    results = []
    for options in ((), engine):
        run, output = tmp_path / "run", tmp_path / "rows.jsonl"
        shutil.copytree(recorded, run)
        (attempts(run)[5] / "foreign").write_text("")
        said = [command("finalize", run, *form, *options), command("validate", run, *options)]
        said.append(command("export", "calls", run, "--output", output, *options))
        assert output.exists(), said[-1].stderr
        results.append(([(one.returncode, one.stdout, one.stderr) for one in said], tree(run), output.read_bytes()))
        shutil.rmtree(run)
        output.with_name("rows.jsonl.card.md").unlink()
        output.with_name("rows.jsonl.schema.json").unlink()
        output.unlink()
    assert results[0] == results[1]
    assert f"finalize: published, capture complete: {COUNT - 1}; failed: 1" in results[0][0][0][2]


def test_attempts_in_a_bucket_come_out_the_same(recorded: Path, pool: Pool, tmp_path: Path) -> None:
    """Their copies lie with the workers, which find the keys where they are."""
    first = attempts(recorded)[0]
    shutil.copytree(first, tmp_path / "attempt")
    finalize_attempt(tmp_path / "attempt", FinalizeRequest())
    server = S3Server()
    try:
        server.put({f"{name}/{file}": body for name in ("a", "b") for file, body in tree(first).items()})
        environment = {**KEYS, "AWS_ENDPOINT_URL": server.url}
        jobs = []
        for name in ("a", "b"):
            attempt = RemoteAttempt(Location(f"s3://{BUCKET}/{name}"), tmp_path / "of another machine")
            plain = remote_finalize_job(attempt, FinalizeRequest())
            jobs.append(dataclasses.replace(plain, task=partial(tasks.with_environment, environment, plain.task)))
        assert [type(outcome) for _, outcome in pool.each(jobs)] == [FinalizeOutcome] * 2
        for name in ("a", "b"):
            assert server.objects(f"{name}/") == tree(tmp_path / "attempt")
    finally:
        server.stop()


def test_a_worker_that_is_killed_loses_nothing_and_doubles_nothing(
    recorded: Path, cluster: str, tmp_path: Path
) -> None:
    """In the middle of the run."""
    plain, run = tmp_path / "plain", tmp_path / "run"
    for place in (plain, run):
        shutil.copytree(recorded, place)
    assert command("finalize", plain, "--jobs", "2").returncode == 0
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "roller_capture",
            "finalize",
            run,
            "--engine",
            "ray",
            "--address",
            cluster,
            "--jobs",
            "2",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: len(list(run.glob("samples/*/capture/*/manifest.json"))) >= 3, process)
    os.kill(working(), signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert tree(run) == tree(plain)


def working() -> int:
    """The process id of a worker of this test's cluster that does a task of ours."""
    while True:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if path.read_bytes().startswith(b"ray::_work") and is_descendant(int(path.parent.name)):
                    return int(path.parent.name)
            except OSError:
                continue


def is_descendant(pid: int) -> bool:
    """Of this process, which has started the cluster."""
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid == os.getpid():
            return True
    return False


def test_a_cluster_that_is_not_there(tmp_path: Path) -> None:
    """One line and exit 2; so is an address without Ray."""
    make_run(tmp_path / "run", 2)
    done = command("finalize", tmp_path / "run", "--jobs", "2", "--address", "127.0.0.1:1")
    assert (done.returncode, "it goes with --engine ray" in done.stderr) == (2, True)
    done = command("finalize", tmp_path / "run", "--engine", "ray", "--address", "nonsense")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "--engine ray: nonsense cannot be used" in line
