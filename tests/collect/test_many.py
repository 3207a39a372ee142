"""Many samples in one run, some at once: none stops the others, signals, kills, and how the run goes on."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect.request import CollectRequest, Redo
from roller_capture.recording.lock import acquire
from roller_capture.runs.check import AttemptStatus, check_run
from roller_capture.scripted_provider import Reply
from tests.collect.rig import Result, Rig, read_json
from tests.runs.made_run import edit
from tests.support.collecting import alive, until


def sample(rig: Rig, name: str, prompt: str = "hello", **members: Any) -> dict[str, Any]:
    """A line of the file; each sample works in a folder of its own."""
    folder = rig.directory / f"work-{name}"
    folder.mkdir(exist_ok=True)
    return {"id": name, "prompt": prompt, "workdir": str(folder), **members}


def ran(rig: Rig, name: str) -> int:
    """How often the harness was started for a sample."""
    return len(list((rig.directory / f"work-{name}").glob("started-*.json")))


def books(result: Result, name: str) -> dict[str, Any]:
    """A sample's sample.json."""
    return read_json(result.run_dir / "samples" / name / "sample.json")


def states(result: Result, name: str) -> list[str]:
    """How its attempts were executed; those that are published must be as the books say."""
    return [entry["state"] for entry in books(result, name)["attempts"]]


def check(result: Result) -> None:
    """Everything in the run is valid, and known to its books."""
    report = check_run(result.run_dir, deep=True)
    assert report.findings == []
    assert [problem for one in report.samples for problem in one.problems()] == []
    assert {attempt.status for one in report.samples for attempt in one.attempts} <= {AttemptStatus.VALID}


def finished(process: "subprocess.Popen[str]", request: CollectRequest) -> Result:
    """What a `collect` that has been started left behind."""
    out, err = process.communicate()
    assert "Traceback" not in err
    return Result(request.run_dir, process.returncode, out, err)


def stop(process: "subprocess.Popen[str]", first: signal.Signals = signal.SIGINT) -> None:
    """Sends two signals, the second one when the first has been answered."""
    assert process.stderr is not None
    process.send_signal(first)
    while "no more samples are begun" not in (line := process.stderr.readline()):
        assert line, "collect ended first"
    process.send_signal(signal.SIGINT)


def hanging(rig: Rig, *names: str) -> bool:
    return all((rig.directory / f"work-{name}" / "hanging").exists() for name in names)


def test_one_failing_sample_stops_no_other(rig: Rig) -> None:
    """Each has a proxy and a made-up key of its own; the table says what is missing, why, and where."""
    lines = [
        sample(rig, "good", model="other-model", harness_args=["--permission-mode", "plan"]),
        sample(rig, "fails", "FAIL"),
        sample(rig, "silent", "SILENT"),
        sample(rig, "itself", "/help"),
        {**sample(rig, "turns"), "turns": ["first", "second"]},
    ]
    del lines[4]["prompt"]
    result = rig.collect(samples=rig.samples(*lines), jobs=2, model="m", workdir=None)
    assert (result.exit_code, result.out) == (1, "")
    check(result)
    assert [states(result, name) for name in ("good", "fails", "silent", "itself", "turns")] == [
        ["completed"],
        ["failed"],
        ["failed"],
        ["completed"],
        ["completed"],
    ]
    for number in range(1, 6):
        assert sum(line.startswith(f"[{number}/5] ") for line in result.err.splitlines()) == 1
    assert "samples: 5\n" in result.err
    assert "  completed         3\n" in result.err
    assert result.err.count("no model was asked: by its own output the harness answered the prompt itself") == 2
    assert "  failed            2" in result.err
    for line in (line for line in result.err.splitlines() if "fails" in line):
        assert "its error output ends: something broke \\x1b[31m with " in line
        assert "roller-dummy" not in line
    assert sum("something broke" in line for line in result.err.splitlines()) == 2
    (told,) = [line for line in result.err.splitlines() if line.startswith("  silent")]
    assert "no model request reached the proxy" in told
    assert str(result.run_dir / "samples/silent/capture/attempt-0001") in told
    started = {
        name: read_json(next((rig.directory / f"work-{name}").glob("started-*.json"))) for name in ("good", "fails")
    }
    environments = [item["environment"] for item in started.values()]
    assert len({environment["ANTHROPIC_API_KEY"] for environment in environments}) == 2
    assert len({environment["ANTHROPIC_BASE_URL"] for environment in environments}) == 2
    assert [environment["ANTHROPIC_MODEL"] for environment in environments] == ["other-model", "m"]
    assert started["good"]["arguments"][-2:] == ["--permission-mode", "plan"]
    document = books(result, "turns")
    assert document["turns"] == ["first", "second"]
    assert document["attempts"][0]["manifest"] == "capture/attempt-0001/manifest.json"


def test_of_a_service_that_refuses_each_sample_says_why(rig: Rig) -> None:
    """All of it is published, so the exit code is 0."""
    file = rig.samples(sample(rig, "a"), sample(rig, "b"))
    result = rig.collect(samples=file, api_base="http://127.0.0.1:1")
    assert result.exit_code == 0
    for name in "ab":
        (line,) = [line for line in result.err.splitlines() if line.startswith(f"  {name} ")]
        assert "every call failed: the model service could not be reached: [Errno 111] Connect call failed" in line
    check(result)


def test_the_first_signal_finishes_what_runs_and_the_run_resumes(rig: Rig) -> None:
    """Nothing is begun after it; what was done is reused, and said so."""
    lines = [sample(rig, "a", "LATE"), sample(rig, "b"), sample(rig, "c")]
    request = rig.request(samples=rig.samples(*lines))
    process = rig.start(request)
    until(lambda: ran(rig, "a"), process)
    process.send_signal(signal.SIGINT)
    result = finished(process, request)
    assert result.exit_code == 128 + signal.SIGINT
    assert "SIGINT: no more samples are begun; what runs (1 sample) is finished" in result.err
    assert states(result, "a") == ["completed"]
    assert (ran(rig, "b"), ran(rig, "c")) == (0, 0)
    assert "  not begun         2\n" in result.err
    assert "go on with the same command and --resume" in result.err
    again = rig.collect(samples=request.samples, resume=True)
    assert again.exit_code == 0, again.err
    check(again)
    assert "a: reuse: samples/a/capture/attempt-0001/manifest.json: completed, capture complete" in again.err
    assert "b: new: " in again.err
    assert [ran(rig, name) for name in "abc"] == [1, 1, 1]
    assert "reused: 1 of the samples" in again.err


def test_the_second_signal_stops_what_runs(rig: Rig) -> None:
    """What was recorded is published, as interrupted."""
    request = rig.request(samples=rig.samples(*(sample(rig, name, "HANG") for name in "ab")), jobs=2)
    process = rig.start(request)
    until(lambda: hanging(rig, "a", "b"), process)
    stop(process, signal.SIGTERM)
    result = finished(process, request)
    assert result.exit_code == 128 + signal.SIGTERM
    assert "stopping what runs (2 samples)" in result.err
    check(result)
    assert [states(result, name) for name in "ab"] == [["interrupted"], ["interrupted"]]


def test_a_third_signal_leaves_the_rest_to_the_watchdog(rig: Rig) -> None:
    """`collect` is gone at once; harnesses that do not listen are ended behind it, and the books are right."""
    request = rig.request(samples=rig.samples(sample(rig, "a", "STUBBORN"), sample(rig, "b", "STUBBORN")), jobs=2)
    process = rig.start(request)
    until(lambda: hanging(rig, "a", "b"), process)
    stop(process)
    until(lambda: all((rig.directory / f"work-{name}" / "told").exists() for name in "ab"), process)
    process.send_signal(signal.SIGINT)
    result = finished(process, request)  # the watchdog holds stderr until it has finished
    assert result.exit_code == 128 + signal.SIGINT
    for name in "ab":
        (path,) = (rig.directory / f"work-{name}").glob("started-*.json")
        assert not alive(int(path.stem.removeprefix("started-")))
        assert states(result, name) == ["interrupted"]
        assert (result.run_dir / "samples" / name / "capture/attempt-0001/work/native/launcher.json").is_file()


def test_a_killed_run_is_put_in_order_and_goes_on(rig: Rig) -> None:
    """Resume waits for the watchdog, publishes what was cut off, and runs those samples again."""
    lines = [sample(rig, "a", "HANG-ONCE"), sample(rig, "b", "HANG-ONCE"), sample(rig, "c")]
    request = rig.request(samples=rig.samples(*lines), jobs=2)
    process = rig.start(request)
    until(lambda: hanging(rig, "a", "b"), process)
    process.kill()
    process.wait()
    again = rig.collect(samples=request.samples, jobs=2, resume=True)
    assert again.exit_code == 0, again.err
    process.communicate()
    for name in "ab":
        assert f"{name}: published what was left: samples/{name}/capture/attempt-0001" in again.err
        assert (
            f"{name}: redo: samples/{name}/capture/attempt-0001/manifest.json: interrupted: attempt-0002" in again.err
        )
        assert states(again, name) == ["interrupted", "completed"]
    assert states(again, "c") == ["completed"]
    check(again)


def test_two_at_once_on_one_run(rig: Rig) -> None:
    """One wins, the other says so in one line and changes nothing."""
    request = rig.request(samples=rig.samples(sample(rig, "a", "HANG")))
    process = rig.start(request)
    until(lambda: hanging(rig, "a"), process)
    other = rig.collect(samples=request.samples, resume=True)
    assert other.exit_code == 1
    assert other.err.startswith("error: ")
    assert "another collect is at work in this run directory" in other.err
    assert other.err.count("\n") == 1
    stop(process)
    assert finished(process, request).exit_code == 128 + signal.SIGINT


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_when_one_is_refused_nothing_is_changed_and_nothing_is_run(rig: Rig) -> None:
    """Not even what could be done with the others."""
    file = rig.samples(sample(rig, "a"), sample(rig, "b", "FAIL"))
    done = rig.collect(samples=file)
    calls = done.run_dir / "samples/a/capture/attempt-0001/calls.jsonl"
    good = calls.read_bytes()
    calls.write_bytes(good + b"\n")
    before = contents(done.run_dir)
    refused = rig.collect(samples=file, resume=True)
    assert refused.exit_code == 1
    assert contents(done.run_dir) == before
    assert "a: refuse: samples/a/capture/attempt-0001/calls.jsonl: " in refused.err
    assert "b: redo: " in refused.err
    assert refused.err.splitlines()[-1].endswith(
        "Resume refuses 1 of 2 samples: nothing was changed, and no model was run"
    )
    assert (ran(rig, "a"), ran(rig, "b")) == (1, 1)
    calls.write_bytes(good)
    other = rig.collect(samples=file, resume=True, capture_calls=False)
    assert other.exit_code == 1
    assert "refuse: " in other.err
    assert "captured and uncaptured samples cannot be mixed" in other.err
    model = rig.collect(samples=file, resume=True, model="another")
    assert "run.json: model is none, this call has another" in model.err
    assert contents(done.run_dir) == before | {str(calls): good}
    assert (ran(rig, "a"), ran(rig, "b")) == (1, 1)


def test_what_was_published_before_the_books_were_written_is_adopted(rig: Rig) -> None:
    """The intended hash stood there; no model is asked again."""
    file = rig.samples(sample(rig, "a"))
    done = rig.collect(samples=file)

    def forget(document: dict[str, Any]) -> None:
        document["state"] = "running"
        document["attempts"][0] |= {"state": "running", "ended_at": None, "capture_status": None, "manifest": None}

    before = books(done, "a")
    edit(done.run_dir / "samples/a/sample.json", forget)
    again = rig.collect(samples=file, resume=True)
    assert again.exit_code == 0
    assert "a: adopted: samples/a/capture/attempt-0001/manifest.json" in again.err
    assert ran(rig, "a") == 1
    after = books(again, "a")
    assert after["attempts"][0] | {"ended_at": 0} == before["attempts"][0] | {"ended_at": 0}
    check(again)


def test_a_partial_capture_can_be_redone(rig: Rig) -> None:
    """Only when asked for; `--strict` counts it as bad."""
    rig.replies["CUT"] = Reply(text="long enough to be cut in the middle", status=200, close_early=True)
    file = rig.samples(sample(rig, "a", "FOREIGN"))
    first = rig.collect(samples=file)
    assert first.exit_code == 0
    assert "capture partial: " in first.err
    strict = rig.collect(samples=file, resume=True, strict=True)
    assert strict.exit_code == 1
    assert strict.err.splitlines()[-1] == "error: 1 capture only partial, which --strict does not accept"
    assert ran(rig, "a") == 1
    redone = rig.collect(samples=file, resume=True, redo=Redo.PARTIAL, timeout=50)
    assert "a: redo: " in redone.err
    assert ran(rig, "a") == 2
    assert books(redone, "a")["attempts"][1]["settings"] == {"timeout": 50.0}
    check(redone)


def test_a_single_prompt_can_be_resumed(rig: Rig) -> None:
    """The first signal stops it, as ever; the next attempt stands beside the first."""
    request = rig.request("HANG-ONCE")
    process = rig.start(request)
    until((rig.workdir / "hanging").exists, process)
    process.send_signal(signal.SIGINT)
    assert finished(process, request).exit_code == 128 + signal.SIGINT
    again = rig.collect("HANG-ONCE", resume=True)
    assert again.exit_code == 0
    assert "participants: 1 root, 0 children" in again.err
    assert [entry["state"] for entry in again.sample["attempts"]] == ["interrupted", "completed"]
    check(again)
    reused = rig.collect("HANG-ONCE", resume=True)
    assert reused.exit_code == 0
    assert "sample-0001: reuse: " in reused.err
    changed = rig.collect("something else", resume=True)
    assert changed.exit_code == 1
    assert "the prompt is another one under this id" in changed.err
    assert len(rig.started()) == 2


def test_logs_that_were_left_in_a_private_folder_are_published_by_resume(rig: Rig) -> None:
    """What could not be saved when the run ended is found where the books say that it is."""
    file = rig.samples(sample(rig, "a", "HANG-ONCE"))
    request = rig.request(samples=file)
    process = rig.start(request)
    until(lambda: hanging(rig, "a"), process)
    (native,) = request.run_dir.rglob("native")
    (native / "launcher.json" / "in the way").mkdir(parents=True)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    (native / "launcher.json" / "in the way").rmdir()
    (native / "launcher.json").rmdir()
    private = Path(books(Result(request.run_dir, 0, "", ""), "a")["attempts"][0]["private_folder"])
    assert (private / "home").is_dir()
    again = rig.collect(samples=file, resume=True)
    assert again.exit_code == 0, again.err
    assert f"{private} can be removed" in again.err
    manifest = read_json(request.run_dir / "samples/a/capture/attempt-0001/manifest.json")
    assert manifest["counts"]["participants"] == 1
    assert manifest["execution_status"] == "interrupted"
    check(again)
    subprocess.run(["rm", "-r", private], check=True)


def test_what_collect_and_its_watchdog_leave_ends_by_itself(rig: Rig) -> None:
    """The harness first, with all that it has started, then the proxy, which closes in order; Resume finds the logs."""
    file = rig.samples(sample(rig, "a", "DAEMON ESCAPE HANG-ONCE"))
    request = rig.request(samples=file)
    process = rig.start(request)
    until(lambda: hanging(rig, "a"), process)
    (lock,) = request.run_dir.rglob("lock")
    proxy = read_json(lock)["pid"]
    notes = [rig.directory / "work-a" / f"{name}.pid" for name in ("daemon", "bare", "moved")]
    until(lambda: all(note.is_file() and note.read_text() for note in notes), process)
    left = [int(note.read_text()) for note in notes]
    os.kill(watchdog_of(process), signal.SIGKILL)
    process.kill()
    process.communicate()
    until(lambda: not any(map(alive, (proxy, *left))))
    attempt = request.run_dir / "samples/a/capture/attempt-0001"
    assert read_json(attempt / "work/attempt.json")["closed"] is True
    with acquired(attempt / "work"):
        refused = rig.collect(samples=file, resume=True)
    assert refused.exit_code == 1
    assert f"attempt-0001/work: is in use by a recorder (process {os.getpid()}): end that first" in refused.err
    again = rig.collect(samples=file, resume=True)
    assert again.exit_code == 0, again.err
    assert read_json(attempt / "manifest.json")["counts"]["participants"] == 1
    assert states(again, "a") == ["interrupted", "completed"]
    check(again)


def watchdog_of(process: "subprocess.Popen[str]") -> int:
    """The process id of the watchdog of a running `collect`."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    (found,) = [pid for pid in children if b"collect.watchdog" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return int(found)


@contextlib.contextmanager
def acquired(work: Path) -> Iterator[None]:
    """Here is somebody who records into this folder."""
    lock = acquire(work, "recorder")
    try:
        yield
    finally:
        lock.release()


def test_uncaptured_samples_are_run_and_resumed(rig: Rig) -> None:
    """Loudly; nothing in them looks like a capture."""
    file = rig.samples(sample(rig, "a"), sample(rig, "b"))
    first = rig.collect(samples=file, jobs=2, capture_calls=False)
    assert first.exit_code == 0
    assert "NOTHING IS CAPTURED" in first.err
    again = rig.collect(samples=file, capture_calls=False, resume=True)
    assert again.exit_code == 0
    assert again.err.count(": reuse: ") == 2
    mixed = rig.collect(samples=file, resume=True)
    assert mixed.exit_code == 1
    assert "cannot be mixed" in mixed.err
    assert (ran(rig, "a"), ran(rig, "b")) == (1, 1)


@pytest.mark.parametrize("times", [1, 2])
def test_a_finalizer_that_is_killed_costs_nothing_but_time(times: int, rig: Rig) -> None:
    """Once: it is tried once more, and that is said. Twice: the sample says so, the others go on, and Resume publishes
    it without asking a model again."""
    file = rig.samples(sample(rig, "a", "LATE"))
    request = rig.request(samples=file)
    process = rig.start(request)
    killed: set[str] = set()

    def kill_finalizers() -> bool:
        for entry in Path(f"/proc/{process.pid}/task").iterdir():
            for pid in set((entry / "children").read_text().split()) - killed:
                if b"pool.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)
                    killed.add(pid)
        return len(killed) == times

    until(kill_finalizers, process)
    result = finished(process, request)
    assert "was killed by SIGKILL: it is tried once more" in result.err
    if times == 1:
        assert result.exit_code == 0, result.err
    else:
        assert result.exit_code == 1
        assert "was killed by SIGKILL, twice" in result.err
        again = rig.collect(samples=file, resume=True)
        assert again.exit_code == 0, again.err
        result = again
    assert ran(rig, "a") == 1
    check(result)
