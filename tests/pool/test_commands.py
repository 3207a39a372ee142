"""`finalize --jobs` and `validate --jobs` over runs: the same outcome as one after the other, and nothing lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.many import make_run
from roller_capture.cli import app
from roller_capture.integrity import validate_attempt
from roller_capture.many_attempts import MANY, Tally
from roller_capture.runs.books import read_sample
from roller_capture.runs.check import AttemptStatus, check_run
from roller_capture.runs.configuration import RunMode
from tests.runs.made_run import MadeRun
from tests.support.collecting import until

COUNT = MANY + 2
Tree = dict[str, bytes]


def tree(directory: Path) -> Tree:
    """Every file but the locks of attempts that were not published, which name a process, and what a killed command
    was about to call sample.json."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock" and not path.name.startswith(".sample.json.")
    }


def attempts(run: Path) -> list[Path]:
    return sorted(run.glob("samples/*/capture/attempt-*"))


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`roller-capture` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "roller_capture", *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run of 22 samples."""
    run = tmp_path_factory.mktemp("many") / "run"
    make_run(run, COUNT)
    return run


@pytest.fixture
def recorded(template: Path, tmp_path: Path) -> Path:
    shutil.copytree(template, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture(scope="module")
def published_template(template: Path) -> Path:
    """The same, published by one process."""
    copy = template.with_name("published")
    shutil.copytree(template, copy)
    done = command("finalize", copy)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1] == f"finalize: published, capture complete: {COUNT}"
    return copy


@pytest.fixture
def published(published_template: Path, tmp_path: Path) -> Path:
    shutil.copytree(published_template, tmp_path / "run")
    return tmp_path / "run"


def test_several_processes_publish_the_same_bytes(recorded: Path, published_template: Path) -> None:
    """Files, books, and what is said: in the order of the attempts. A second time nothing changes."""
    done = command("finalize", recorded, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stderr.splitlines()[:-1]] == [str(path) for path in attempts(recorded)]
    assert done.stderr.splitlines()[-1] == f"finalize: published, capture complete: {COUNT}"
    assert tree(recorded) == tree(published_template)
    again = command("finalize", recorded, "--jobs", "2")
    assert again.returncode == 0
    assert again.stderr.splitlines()[-1] == f"finalize: published before: {COUNT}"
    assert tree(recorded) == tree(published_template)


def spoil(recorded: Path) -> tuple[Path, Path]:
    """One attempt of a format of tomorrow, one with a foreign file."""
    first, second = attempts(recorded)[4], attempts(recorded)[9]
    info = json.loads((first / "work" / "attempt.json").read_bytes())
    (first / "work" / "attempt.json").write_text(json.dumps({**info, "format": "roller.work/v9"}))
    (second / "foreign").write_text("")
    return first, second


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_what_failed_is_named_at_the_end_and_stops_no_other(jobs: str, recorded: Path) -> None:
    """Once more when it has been mended, the rest is done."""
    first, second = spoil(recorded)
    done = command("finalize", recorded, "--jobs", jobs)
    assert done.returncode == 1
    *_, summary, one, two = done.stderr.splitlines()
    assert summary == f"finalize: published, capture complete: {COUNT - 2}; failed: 2"
    assert one.startswith(f"  {first}")
    assert "roller.work/v9" in one
    assert "foreign" in two
    (second / "foreign").unlink()
    info = json.loads((first / "work" / "attempt.json").read_bytes())
    (first / "work" / "attempt.json").write_text(json.dumps({**info, "format": "roller.work/v1"}))
    again = command("finalize", recorded, "--jobs", jobs)
    assert again.returncode == 0, again.stderr
    assert again.stderr.splitlines()[-1] == f"finalize: published before: {COUNT - 2}; published, capture complete: 2"


def workers_of(process: "subprocess.Popen[str]") -> list[int]:
    children = [
        pid for task in Path(f"/proc/{process.pid}/task").iterdir() for pid in (task / "children").read_text().split()
    ]
    return [int(pid) for pid in children if b"pool.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def started(run: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "roller_capture", "finalize", str(run), "--jobs", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def some(run: Path) -> Callable[[], bool]:
    """Are a few of them published?"""
    return lambda: len(list(run.glob("samples/*/capture/*/manifest.json"))) >= 3


def test_a_process_that_is_killed_loses_nothing_and_doubles_nothing(recorded: Path, published_template: Path) -> None:
    """Its attempt is tried once more, which is said with its name."""
    process = started(recorded)
    until(some(recorded), process)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 0, err
    warnings = [line for line in err.splitlines() if line.startswith("warning: ")]
    assert len(warnings) <= 1  # none where it was killed between two attempts
    assert all("was killed by SIGKILL: it is tried once more" in line for line in warnings)
    assert tree(recorded) == tree(published_template)


def test_a_command_that_is_killed_is_simply_run_again(recorded: Path, published_template: Path) -> None:
    """Its processes end with it. Each attempt is published as a whole, or not at all."""
    process = started(recorded)
    until(some(recorded), process)
    workers = workers_of(process)
    process.kill()
    process.communicate()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    for path in attempts(recorded):
        whole = (path / "manifest.json").exists()
        assert validate_attempt(path) == [] if whole else (path / "work" / "attempt.json").exists()
    assert command("finalize", recorded, "--jobs", "2").returncode == 0
    assert tree(recorded) == tree(published_template)


def test_ctrl_c_ends_it_at_once(recorded: Path) -> None:
    """Its processes too, and the rest is done when it is run again."""
    process = started(recorded)
    until(some(recorded), process)
    workers = workers_of(process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "warning" not in err
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)
    assert not all((path / "manifest.json").exists() for path in attempts(recorded))
    assert command("finalize", recorded).returncode == 0


def test_attempts_of_one_sample_share_their_books(template: Path, tmp_path: Path) -> None:
    """Both are noted, whichever is published first."""
    shutil.copytree(template / "samples" / "sample-00001", tmp_path / "sample-00001")
    sample = read_sample(tmp_path / "sample-00001", RunMode.CAPTURED)
    for other in attempts(template)[1:7]:
        entry, place = sample.begin_attempt()
        shutil.copytree(other, place)
        sample.end_attempt(entry, sample.attempts[0].state)
    done = command("finalize", sample.attempts_folder.parent, "--jobs", "2")
    assert done.returncode == 0, done.stderr
    after = read_sample(sample.folder, RunMode.CAPTURED)
    assert [entry.manifest_sha256 is not None for entry in after.attempts] == [True] * 7


@pytest.mark.parametrize("options", [(), ("--json",), ("--deep",)])
def test_validate_says_the_same_with_several_processes(options: tuple[str, ...], published: Path) -> None:
    """Of good ones, damaged ones, damaged books, and a copy of another sample's attempt; in the same order."""
    (attempts(published)[3] / "calls.jsonl").write_text("damaged\n")
    (published / "samples" / "sample-00006" / "sample.json").write_text("{")
    shutil.rmtree(attempts(published)[7])
    shutil.copytree(attempts(published)[1], published / "samples" / "sample-00008" / "capture" / "attempt-0001")
    one = command("validate", published, *options)
    two = command("validate", published, *options, "--jobs", "2")
    assert (one.returncode, one.stdout, one.stderr) == (two.returncode, two.stdout, two.stderr)
    assert one.returncode == 1
    summary = one.stderr.splitlines()
    place = next(number for number, line in enumerate(summary) if line.startswith("validate: "))
    assert summary[place] == f"validate: attempts valid: {COUNT - 2}; attempts invalid: 2; samples invalid: 1"
    assert "samples/sample-00004/capture/attempt-0001: calls.jsonl: " in summary[place + 1]
    assert len(summary) == place + 4


def test_validate_of_a_folder_of_attempts(published: Path) -> None:
    """Without books of a run."""
    folder = published.with_name("folder")
    for number, path in enumerate(attempts(published)):
        shutil.copytree(path, folder / f"attempt-{number}")
    (folder / "attempt-3" / "new").write_text("")
    one, two = command("validate", folder), command("validate", folder, "--jobs", "2")
    assert (one.returncode, one.stderr) == (two.returncode, two.stderr)
    assert one.returncode == 1
    assert f"validate: attempts valid: {COUNT - 1}; attempts invalid: 1" in one.stderr


def test_export_writes_the_same_rows_with_several_processes(published: Path) -> None:
    """In the same order, and refuses the same attempts."""
    (attempts(published)[3] / "calls.jsonl").write_text("damaged\n")
    results = []
    for kind in ("calls", "main"):
        for jobs in ("1", "2"):
            output = published.with_name(f"{kind}-{jobs}.jsonl")
            done = command("export", kind, published, "--output", output, "--jobs", jobs)
            results.append((done.returncode, done.stderr.replace(output.name, "OUTPUT"), output.read_bytes()))
    assert results[0] == results[1]
    assert results[2] == results[3]
    assert [code for code, _, _ in results] == [1] * 4
    assert [len(rows.splitlines()) for _, _, rows in results[1:3]] == [6 * (COUNT - 1), COUNT - 1]


def test_a_report_that_is_not_kept_is_not_in_memory(published: Path) -> None:
    """Each sample is told and forgotten."""
    told = []
    report = check_run(published, on_sample=lambda sample: told.append(sample.attempts[0].status), keep=False)
    assert told == [AttemptStatus.VALID] * COUNT
    assert report.samples == []


def test_a_summary_names_twenty_and_counts_the_others() -> None:
    """However many there were."""
    tally = Tally("finalize")
    for number in range(50):
        tally.fail("failed", Path(f"/run/{number}"), f"/run/{number}: is no attempt")
    tally.count("published")
    lines = tally.lines()
    assert lines[0] == "finalize: failed: 50; published: 1"
    assert lines[1] == "  /run/0: is no attempt"
    assert lines[-1] == "  and 30 more"
    assert len(lines) == 22
    assert Tally("finalize").lines() == []


@pytest.mark.parametrize("below", ["", "samples"])
def test_a_sample_called_work_is_no_folder_of_working_files(
    below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its books would be published as an attempt, and removed."""
    made = MadeRun(tmp_path / "run", monkeypatch)
    made.begin()
    made.add("work")
    before = tree(made.directory)
    for command_line in (
        ("finalize", str(made.directory / below), "--harness", "claude-code"),
        ("view", str(made.directory / below)),
        ("export", "har", str(made.directory / below), "--output", str(tmp_path / "a.har")),
    ):
        result = CliRunner().invoke(app, command_line)
        assert result.exit_code != 0
    assert tree(made.directory) == before
