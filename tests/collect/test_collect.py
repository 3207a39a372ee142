"""`collect` as a process, with a program that plays the harness and a scripted provider: all of its ways to end."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect.private_folder import remove_private_folder
from roller_capture.collect.request import KeyVia
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.scripted_provider import Reply
from roller_capture.vocabulary import DebugRetention, ExecutionStatus
from tests.collect.rig import Result, Rig, read_json
from tests.support.capture import roller_capture
from tests.support.certificates import make_authority
from tests.support.collecting import REAL_KEY, alive, until
from tests.support.upstream import Exchange, upstream


def test_a_run_is_published_and_told(rig: Rig) -> None:
    """Exit code 0, one screen on stderr, nothing on stdout, and books that agree."""
    result = rig.collect("hello")
    assert (result.exit_code, result.out) == (0, "")
    assert result.manifest["capture_status"] == "complete"
    assert result.manifest["execution_status"] == "completed"
    assert result.manifest["counts"]["calls"] == len(rig.provider.truth.records) == 1
    for line in ("participants: 1 root, 0 children", "calls: 1, of which 1 exportable", "capture: complete"):
        assert line in result.err
    assert f"next: roller-capture view {result.attempt}" in result.err
    assert len(result.err.splitlines()) < 20
    assert result.sample["state"] == "completed"
    (entry,) = result.sample["attempts"]
    assert (entry["attempt"], entry["state"], entry["capture_status"]) == ("attempt-0001", "completed", "complete")
    assert len(entry["manifest_sha256"]) == 64
    assert "private_folder" not in entry
    assert read_json(result.run_dir / "run.json")["mode"] == "captured"
    assert result.launcher["execution_status"] == "completed"
    assert result.launcher["errors"] == []


def test_the_harness_gets_an_environment_of_its_own(rig: Rig, tmp_path: Path) -> None:
    """No variable of the user's but the allowed ones, no real key, a home that is taken away, nothing on stdin."""
    home = tmp_path / "user"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "settings.json").write_text("{}")
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*")}
    user = {
        "HOME": str(home),
        "ANTHROPIC_API_KEY": REAL_KEY,
        "ANTHROPIC_BASE_URL": "http://elsewhere.invalid",
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "HTTPS_PROXY": "http://elsewhere.invalid",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    result = rig.collect("hello", environment=user, model="the-model")
    (started,) = rig.started()
    environment = started["environment"]
    allowed = {"PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "USER", "LOGNAME", "SHELL"}
    assert set(environment) - allowed <= {
        "HOME",
        "TMPDIR",
        "IS_SANDBOX",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_MODEL",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_TMPDIR",
        "CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        "DISABLE_AUTOUPDATER",
        "DISABLE_TELEMETRY",
        "DISABLE_ERROR_REPORTING",
    }
    assert environment["TZ"] == "UTC"
    assert environment["ANTHROPIC_MODEL"] == "the-model"
    assert environment["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:")
    assert environment["ANTHROPIC_BASE_URL"] != rig.provider.url
    assert environment["CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"] == "600000"
    assert started["stdin"] == ""
    assert not Path(environment["HOME"]).parent.exists()
    assert {path: path.stat().st_mtime_ns for path in home.rglob("*")} == before
    assert result.exit_code == 0


def test_the_real_key_reaches_the_service_and_nothing_else(rig: Rig) -> None:
    """Not the harness, not a file, not the terminal; also not when the service echoes it in an error."""
    rig.replies["ECHO"] = Reply(
        status=401,
        error_body=f"bad key {REAL_KEY} {base64.b64encode(REAL_KEY.encode()).decode()}",
        error_content_type="text/plain",
    )
    good = rig.collect("PRINT-KEY hello", name="good")
    bad = rig.collect("ECHO hello", name="bad")
    assert {record.headers["x-api-key"] for record in rig.provider.truth.records} == {REAL_KEY}
    dummies = {started["environment"]["ANTHROPIC_API_KEY"] for started in rig.started()}
    assert len(dummies) == 2
    needles = [REAL_KEY.encode(), base64.b64encode(REAL_KEY.encode())[:-4]]
    files = [path for path in rig.directory.rglob("*") if path.is_file()]
    assert [path for path in files for needle in needles if needle in path.read_bytes()] == []
    assert REAL_KEY not in good.err + bad.err + json.dumps(rig.started())
    assert not any(dummy in good.err + bad.err for dummy in dummies)
    (call,) = _calls(bad.attempt)
    assert call["http"]["status"] == 401
    assert "credential_masked" in {error["code"] for error in call["errors"]}


def _echoing() -> Reply:
    return Reply(status=401, error_body=f"bad key {REAL_KEY}", error_content_type="text/plain")


def _with_the_real_key(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and REAL_KEY.encode() in path.read_bytes()]


def test_a_key_that_the_harness_wrote_down_is_masked(rig: Rig) -> None:
    """A service echoes the key that it refuses, and the harness puts that into log and output; lengths stay."""
    rig.replies["REFUSE-ME"] = _echoing()
    result = rig.collect("ECHO-KEY FAIL hello")
    assert result.exit_code == 0
    assert _with_the_real_key(rig.directory) == []
    session = result.launcher["root_native_id"]
    assert {Path(name).name for name in result.launcher["masked"]} == {f"{session}.jsonl", "stdout.jsonl"}
    stdout = (result.attempt / "raw" / "native" / "stdout.jsonl").read_text()
    assert f"bad key {'*' * len(REAL_KEY)}" in stdout
    assert REAL_KEY not in result.err
    assert "1 call failed: HTTP 401\n" in result.err


def test_what_the_harness_holds_itself_is_masked_in_its_logs(rig: Rig) -> None:
    """Also without a capture, where it goes to the service directly."""
    rig.replies["REFUSE-ME"] = _echoing()
    via = rig.collect("ECHO-KEY hello", name="via", key_via=KeyVia.HARNESS)
    bare = rig.collect("ECHO-KEY hello", name="bare", capture_calls=False)
    assert (via.exit_code, bare.exit_code) == (0, 0)
    assert _with_the_real_key(rig.directory / "via") == _with_the_real_key(rig.directory / "bare") == []


def test_everything_is_private_whatever_the_umask(rig: Rig) -> None:
    """But the agent works with the user's own."""
    before = os.umask(0o002)
    try:
        result = rig.collect("hello", run_dir=rig.directory / "deep" / "run")
        bare = rig.collect("hello", name="bare", capture_calls=False)
    finally:
        os.umask(before)
    assert rig.started()[0]["umask"] == 0o002
    for folder in (rig.directory / "deep", bare.run_dir):
        for path in (folder, *folder.rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
    assert result.exit_code == 0


def test_why_calls_failed_is_said(rig: Rig) -> None:
    """Grouped, the most frequent first; a service that cannot be reached is no incomplete record. Both are
    published, so the exit code is 0; that there is no connection is seen before the harness starts."""
    rig.replies["DENIED"] = Reply(status=401)
    denied = rig.collect("DENIED", name="denied")
    assert "1 call failed: HTTP 401 " in denied.err
    assert "warning: no connection" not in denied.err
    gone = rig.collect("hello", name="gone", api_base="http://127.0.0.1:1")
    why = "the model service could not be reached: [Errno 111] Connect call failed ('127.0.0.1', 1)"
    assert f"1 call failed: {why}\n" in gone.err
    assert "The model service could not be reached for 1 call: #1" in gone.err
    assert "not recorded completely" not in gone.err
    warning = "warning: no connection to http://127.0.0.1:1 can be made now: Connection refused\n"
    assert gone.err.index(warning) < gone.err.index("turn 1 of 1")
    assert (denied.exit_code, gone.exit_code) == (0, 0)
    for result in (denied, gone):
        assert result.err.endswith("warning: every model call failed, so there is nothing to train on\n")
        assert result.sample["state"] == "failed"
    (call,) = _calls(gone.attempt)
    assert call["errors"][0]["message"] == why


def test_what_the_harness_answers_itself_goes_around_no_proxy(rig: Rig) -> None:
    """A prompt that is a command of its own: that, and no other base URL, is why there is no call."""
    result = rig.collect("/help")
    assert result.exit_code == 1
    assert result.err.splitlines()[-1].startswith("error: nothing was captured: no model was asked: by its own output")
    assert "begins with a slash" in result.err
    assert result.launcher["errors"] == result.manifest["errors"] == []
    assert "base URL" not in result.err


def test_a_turn_without_a_model_request_is_told(rig: Rig) -> None:
    """Which one, also of many samples; and what the harness itself says of it."""
    said = "during turn 2 no model request came; by its own output the harness has answered a prompt itself"
    result = rig.collect("hello", "/help")
    assert result.exit_code == 0
    assert result.err.splitlines()[-1] == f"warning: {said}"
    line = {"id": "a", "turns": ["hello", "/help"], "workdir": str(rig.workdir)}
    many = rig.collect(samples=rig.samples(line), name="many")
    assert many.exit_code == 0
    assert f"  a  completed: {said}: " in many.err


def test_the_version_of_a_harness_that_wrote_no_log_is_published(rig: Rig) -> None:
    """The launcher has asked for it; that it was tested is no more than its log can say."""
    result = rig.collect("SILENT")
    assert result.manifest["harness"] == {"name": "claude-code", "version": "2.1.332", "tested": False}


def _calls(attempt: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (attempt / "calls.jsonl").read_bytes().splitlines()]


def test_a_request_with_another_key_is_told_apart(rig: Rig) -> None:
    """It is recorded and forwarded with its own key; the recorder notes that it is not the harness's."""
    result = rig.collect("FOREIGN hello")
    keys = {record.headers["x-api-key"] for record in rig.provider.truth.records}
    assert keys == {REAL_KEY, "sk-somebody-elses-key"}
    events = [json.loads(line) for line in (result.attempt / "raw" / "events.jsonl").read_bytes().splitlines()]
    marks = [event["credential"] for event in events if event["type"] == "request_headers"]
    assert marks == ["own", "foreign"]
    assert len(_calls(result.attempt)) == 2
    assert "missing: 1 call carried another key than the one that the harness was given, " in result.err
    assert "could not be attributed" not in result.err


def test_a_local_service_needs_no_key(rig: Rig) -> None:
    """The made-up key passes, and the run says so."""
    result = rig.collect("hello", environment={"PATH": os.environ["PATH"]})
    assert result.exit_code == 0
    assert "ANTHROPIC_API_KEY is not set: the service on this machine gets a made-up key" in result.err
    (record,) = rig.provider.truth.records
    assert record.headers["x-api-key"] == rig.started()[0]["environment"]["ANTHROPIC_API_KEY"]


def test_the_harness_can_hold_the_key_itself(rig: Rig) -> None:
    """On request only, and with a warning."""
    result = rig.collect("hello", key_via=KeyVia.HARNESS)
    assert result.exit_code == 0
    assert "warning: with --key-via harness" in result.err
    assert rig.started()[0]["environment"]["ANTHROPIC_API_KEY"] == REAL_KEY
    assert '"credential"' not in (result.attempt / "raw" / "events.jsonl").read_text()


def test_further_turns_resume_the_session_that_was_announced(rig: Rig) -> None:
    """One process a turn, one session, one root; extra arguments go to each."""
    result = rig.collect("-first", "second", harness_args=("--permission-mode", "plan"))
    first, second = (started["arguments"] for started in rig.started())
    session_id = result.launcher["root_native_id"]
    common = ["--output-format", "stream-json", "--verbose"]
    assert first == ["-p", *common, "--permission-mode", "plan"]
    assert second == ["-p", "second", *common, "--resume", session_id, "--permission-mode", "plan"]
    assert [started["stdin"] for started in rig.started()] == ["-first", ""]
    assert [call["context"]["messages"][0]["content"] for call in _calls(result.attempt)] == ["-first", "second"]
    assert result.launcher["exit_codes"] == [0, 0]
    assert result.manifest["counts"]["calls"] == 2
    assert result.manifest["counts"]["participants"] == 1
    assert result.sample["turns"] == ["-first", "second"]


def test_without_one_announced_session_no_further_turn_is_run(rig: Rig) -> None:
    """Resuming "the latest" could be another one; the run has failed, and is published."""
    result = rig.collect("OTHER-ID", "second")
    assert result.exit_code == 0
    assert len(rig.started()) == 1
    assert (result.launcher["execution_status"], result.launcher["turns_not_run"]) == ("failed", 1)
    assert [error["code"] for error in result.launcher["errors"]] == ["root_ambiguous"]
    assert "1 of the turns not run" in result.err


def test_a_harness_that_fails_is_published_all_the_same(rig: Rig) -> None:
    """Exit code 0; the summary shows its code and the end of its error output, without keys or escapes."""
    result = rig.collect("FAIL hello", "never run")
    assert result.exit_code == 0
    assert result.manifest["execution_status"] == result.sample["state"] == "failed"
    assert "failed after" in result.err
    assert "exit code 3" in result.err
    (line,) = [line for line in result.err.splitlines() if "something broke" in line]
    assert "\x1b" not in line
    assert "roller-dummy" not in line
    assert "roller-dummy" not in result.launcher["stderr_tail"]


def test_a_run_without_a_model_request_is_no_success(rig: Rig) -> None:
    """Whether the harness ended at once or answered without the proxy; the second is said loudly."""
    silent = rig.collect("SILENT", name="silent")
    bypassed = rig.collect("BYPASS", name="bypassed")
    assert (silent.exit_code, bypassed.exit_code) == (1, 1)
    assert "no model request reached the proxy" in silent.err
    assert "no_request_seen" not in silent.err
    assert "error: no_request_seen" in bypassed.err
    assert [error["code"] for error in bypassed.launcher["errors"]] == ["no_request_seen"]
    assert bypassed.manifest["counts"]["calls"] == 0


def test_strict_makes_a_partial_capture_fail(rig: Rig) -> None:
    """The attempt is published just the same."""
    rig.replies["CUT"] = Reply(text="long enough to be cut in the middle", status=200, close_early=True)
    result = rig.collect("CUT", strict=True)
    assert result.exit_code == 1
    assert result.manifest["capture_status"] == "partial"
    assert "missing: " in result.err
    assert result.err.splitlines()[-1].startswith("error: the capture is only partial")
    assert "--strict" in result.err


def test_what_leads_out_of_the_home_is_not_copied(rig: Rig) -> None:
    """A link among the session's logs is a named gap."""
    result = rig.collect("LINK-LOG hello")
    assert "file_refused" in {error["code"] for error in result.launcher["errors"]}
    copied = [path.name for path in (result.attempt / "raw").rglob("*") if "agent-" in path.name]
    assert copied == []


def test_nothing_of_the_harness_outlives_the_run(rig: Rig) -> None:
    """Also a process that its tools left in a session of its own."""
    result = rig.collect("DAEMON hello")
    assert result.exit_code == 0
    assert not alive(int((rig.workdir / "daemon.pid").read_text()))


def test_the_time_limit_ends_a_run(rig: Rig) -> None:
    """What was recorded until then is published, as interrupted."""
    result = rig.collect("HANG", timeout=4)
    assert result.exit_code == 0
    assert result.manifest["execution_status"] == result.sample["state"] == "interrupted"
    assert result.launcher["ended_by"] == "timeout"
    assert "stopped at its time limit" in result.err
    assert not alive(rig.harness_pid())


def test_a_drain_that_fails_leaves_a_successful_turn_successful(rig: Rig) -> None:
    """The root has answered when the limit comes: its subtasks get their own time, and then it is an error."""
    result = rig.collect("DRAIN", timeout=4, drain_timeout=0.5)
    assert result.manifest["execution_status"] == "completed"
    assert [error["code"] for error in result.launcher["errors"]] == ["drain_failed"]
    assert "error: drain_failed" in result.err
    assert rig.started()[0]["environment"]["CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS"] == "500"


def test_a_root_at_work_is_not_drained(rig: Rig) -> None:
    """It waits for a tool of its own when the limit comes: that is no answer."""
    result = rig.collect("HANG", timeout=4, drain_timeout=60)
    assert result.manifest["execution_status"] == "interrupted"
    assert result.launcher["ended_by"] == "timeout"


def test_no_turn_begins_after_the_time_limit(rig: Rig) -> None:
    """Though the turn before came to its own end in the time for its subtasks."""
    result = rig.collect("LATE", "never run", timeout=3, drain_timeout=60)
    assert len(rig.started()) == 1
    assert (result.launcher["exit_codes"], result.launcher["turns_not_run"]) == ([0], 1)
    assert (result.launcher["ended_by"], result.launcher["execution_status"]) == ("timeout", "interrupted")
    assert "no further turn is run" in result.err


def test_nothing_escapes(rig: Rig) -> None:
    """Neither what has cleared its environment and left the session, nor what has moved to another home."""
    result = rig.collect("ESCAPE hello")
    assert result.exit_code == 0
    for name in ("bare", "moved"):
        assert not alive(int((rig.workdir / f"{name}.pid").read_text()))


@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGINT, "stopped by you"), (signal.SIGTERM, "by SIGTERM"), (signal.SIGHUP, "by SIGHUP")],
)
def test_a_signal_ends_the_run_in_order(rig: Rig, number: signal.Signals, said: str) -> None:
    """Harness, proxy, publication; the exit code and the summary tell of the signal."""
    request = rig.request("DAEMON HANG")
    process = rig.start(request)
    until((rig.workdir / "hanging").exists, process)
    process.send_signal(number)
    out, err = process.communicate()
    result = Result(request.run_dir, process.returncode, out, err)
    assert result.exit_code == 128 + number
    assert "Traceback" not in err
    assert result.manifest["execution_status"] == result.sample["state"] == "interrupted"
    assert "recorder_not_closed" not in {reason["code"] for reason in result.manifest["status_reasons"]}
    assert result.launcher["ended_by"] == "signal"
    assert said in err
    assert "hook" not in err
    assert not alive(rig.harness_pid())
    assert not alive(int((rig.workdir / "daemon.pid").read_text()))


def test_a_second_signal_leaves_the_rest_to_the_watchdog(rig: Rig) -> None:
    """`collect` is gone at once; a harness that does not listen, and the proxy, are ended behind it."""
    request = rig.request("STUBBORN")
    process = rig.start(request)
    until((rig.workdir / "hanging").exists, process)
    process.send_signal(signal.SIGINT)
    until((rig.workdir / "told").exists, process)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 128 + signal.SIGINT
    _, err = process.communicate()
    assert "Traceback" not in err
    place = f"{request.run_dir}/samples/sample-0001/capture/attempt-0001"
    assert "broken off by SIGINT: 1 run: harness and proxy are ended behind this, and the logs saved. Go on with" in err
    assert err.splitlines()[-1] == f"to publish what was recorded: roller-capture finalize {place}"
    assert not alive(rig.harness_pid())
    assert not Path(rig.started()[0]["environment"]["HOME"]).parent.exists()
    result = Result(request.run_dir, 0, "", err)
    assert result.sample["state"] == result.sample["attempts"][0]["state"] == "interrupted"
    attempt = result.attempt
    outcome = finalize_attempt(attempt, FinalizeRequest())
    assert outcome.manifest["execution_status"] == "interrupted"
    assert outcome.manifest["counts"]["participants"] == 1
    assert "recorder_not_closed" not in {reason["code"] for reason in outcome.manifest["status_reasons"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("seen", ["model service", "turn 1 of 1", "interrupted after"])
def test_two_signals_at_once_leave_a_last_line_and_true_books(rig: Rig, seen: str, number: signal.Signals) -> None:
    """Before the harness starts, while it runs, and when it is published."""
    request = rig.request("HANG")
    process = rig.start(request)
    assert process.stderr is not None
    told = ""
    if seen == "interrupted after":
        until((rig.workdir / "hanging").exists, process)
        process.send_signal(number)
    while seen not in (line := process.stderr.readline()):
        assert line, told
        told += line
    process.send_signal(number)
    time.sleep(0.1)  # two that come at the same time are one
    process.send_signal(number)
    _, err = process.communicate()
    assert "Traceback" not in err
    result = Result(request.run_dir, process.returncode, "", err)
    assert result.sample["state"] == result.sample["attempts"][0]["state"] == "interrupted"
    assert result.exit_code in (128 + number, -number)
    last = err.splitlines()[-1]
    assert "--resume" in last or "roller-capture finalize " in last, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_open_call_is_cut_by_the_harness_and_not_by_the_proxy(rig: Rig, number: signal.Signals) -> None:
    """The proxy is stopped only after it has seen that its client is gone; so does the watchdog."""
    never = threading.Event()
    rig.replies["HELD"] = Reply(text="held " * 50, hold=never, hold_after=0)
    request = rig.request("HELD")
    process = rig.start(request)
    until(lambda: rig.provider.truth.records, process)
    until(lambda: list(request.run_dir.rglob("*.request")), process)
    process.send_signal(number)
    _, err = process.communicate()
    never.set()
    result = Result(request.run_dir, process.returncode, "", err)
    if number == signal.SIGKILL:
        finalize_attempt(result.attempt, FinalizeRequest(debug_retention=DebugRetention.FULL))
    (call,) = _calls(result.attempt)
    assert call["execution_status"] == "interrupted"
    assert {error["cut_by"] for error in call["errors"] if error.get("cut_by")} == {"client"}
    sentence = (
        "1 call was left by its client: #1; collect has stopped the harness: if it had a call open then, it is this one"
    )
    assert number == signal.SIGKILL or f"  missing: {sentence}\n" in err
    shown = roller_capture("view", str(result.attempt)).stdout
    assert f"  {sentence}.\n" in shown
    assert "response_cut (cut by client): the client left\n" in shown


def test_a_killed_collect_leaves_nothing_running_and_all_that_finalize_needs(rig: Rig) -> None:
    """The watchdog ends harness and proxy, and saves the logs; finalize then publishes a whole attempt."""
    temporary = rig.directory / "temporary"
    temporary.mkdir()
    rig.replies["REFUSE-ME"] = _echoing()
    request = rig.request("ECHO-KEY ESCAPE DAEMON HANG")
    process = rig.start(request, {"ANTHROPIC_API_KEY": REAL_KEY, "TMPDIR": str(temporary)})
    until((rig.workdir / "hanging").exists, process)
    assert len(list(temporary.iterdir())) == 2  # of the harness and of the proxy
    daemon = int((rig.workdir / "daemon.pid").read_text())
    process.kill()
    _, err = process.communicate()  # the watchdog holds stderr until it has finished
    result = Result(request.run_dir, process.returncode, "", err)
    assert result.exit_code == -signal.SIGKILL
    assert not alive(rig.harness_pid())
    assert not alive(daemon)
    assert not any(alive(int((rig.workdir / f"{name}.pid").read_text())) for name in ("bare", "moved"))
    assert list(temporary.iterdir()) == []
    assert f"roller-capture finalize {result.attempt}" in err
    (entry,) = result.sample["attempts"]
    assert result.sample["state"] == entry["state"] == "interrupted"
    assert entry["ended_at"] > entry["started_at"]
    assert "private_folder" not in entry
    assert _with_the_real_key(request.run_dir) == []
    outcome = finalize_attempt(result.attempt, FinalizeRequest(debug_retention=DebugRetention.FULL))
    assert outcome.manifest == result.manifest
    assert result.manifest["execution_status"] == "interrupted"
    assert result.manifest["counts"]["participants"] == 1
    assert [call["identity_status"] for call in _calls(result.attempt)] == ["resolved", "resolved"]
    assert result.launcher["ended_by"] == "collect"
    assert "stdout.jsonl" in result.launcher["masked"]
    assert _with_the_real_key(request.run_dir) == []


def test_a_run_directory_that_was_taken_away_stays_away(rig: Rig) -> None:
    """Neither `collect` nor the watchdog make it anew; both say so in one line."""
    for number, said in ((signal.SIGINT, "was taken away"), (signal.SIGKILL, "was taken away")):
        (rig.workdir / "hanging").unlink(missing_ok=True)
        request = rig.request("HANG", name=f"run-{number}")
        process = rig.start(request)
        until((rig.workdir / "hanging").exists, process)
        request.run_dir.rename(rig.directory / f"elsewhere-{number}")
        process.send_signal(number)
        _, err = process.communicate()
        assert said in err
        assert "Traceback" not in err
        assert not request.run_dir.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_logs_that_cannot_be_saved_stay_where_they_are(rig: Rig, number: signal.Signals) -> None:
    """One line with the command that finishes the job; the only good copy is not taken away, and holds no key."""
    rig.replies["REFUSE-ME"] = _echoing()
    request = rig.request("ECHO-KEY HANG")
    process = rig.start(request)
    until((rig.workdir / "hanging").exists, process)
    (native,) = request.run_dir.rglob("native")
    (native / "launcher.json" / "in the way").mkdir(parents=True)
    process.send_signal(number)
    _, err = process.communicate()
    result = Result(request.run_dir, process.returncode, "", err)
    assert result.exit_code == (1 if number is signal.SIGTERM else -number)
    home = Path(rig.started()[0]["environment"]["HOME"])
    try:
        (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
        assert f"roller-capture finalize {result.attempt} --native {home} --execution-status interrupted" in line
        assert "Traceback" not in err
        (entry,) = result.sample["attempts"]
        assert (entry["state"], entry["private_folder"]) == ("interrupted", str(home.parent))
        assert _with_the_real_key(home) == _with_the_real_key(request.run_dir) == []
        assert list(request.run_dir.rglob("*.tmp")) == []
        shutil.rmtree(native / "launcher.json")
        status = ExecutionStatus.INTERRUPTED
        outcome = finalize_attempt(result.attempt, FinalizeRequest(native=home, execution_status=status))
        assert outcome.manifest["counts"]["participants"] == 1
    finally:
        remove_private_folder(home.parent)


def test_books_tell_the_truth_when_publishing_fails(rig: Rig) -> None:
    """How it was executed stands there; exit code 1, and the working files are there for another try."""
    request = rig.request("HANG")
    process = rig.start(request)
    until((rig.workdir / "hanging").exists, process)
    (work,) = request.run_dir.rglob("work")
    (work.parent / "foreign").write_text("not of the attempt")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    result = Result(request.run_dir, process.returncode, "", err)
    assert result.exit_code == 1
    assert "Traceback" not in err
    (entry,) = result.sample["attempts"]
    assert (result.sample["state"], entry["state"], entry["capture_status"]) == ("interrupted", "interrupted", None)
    assert work.is_dir()


def test_a_collect_that_is_killed_while_the_proxy_starts_leaves_no_proxy(rig: Rig) -> None:
    """From the moment that it is there, the watchdog knows of it."""
    temporary = rig.directory / "temporary"
    temporary.mkdir()
    process = rig.start(rig.request("hello"), {"ANTHROPIC_API_KEY": REAL_KEY, "TMPDIR": str(temporary)})
    found: list[int] = []

    def has_come() -> bool:
        found.extend(_proxies_of(rig))
        return bool(found) and len(list(temporary.glob("roller-*"))) == 2

    until(has_come, process)
    process.kill()
    process.communicate()
    assert not any(map(alive, found))
    assert list(temporary.iterdir()) == []


def _proxies_of(rig: Rig) -> list[int]:
    """The proxies that record below the rig's directory."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if b"mitmdump" in command and f"roller_attempt={rig.directory}/".encode() in command:
                found.append(int(entry.name))
    return found


def test_a_killed_harness_is_an_interrupted_run(rig: Rig) -> None:
    """Somebody else ended it: that is no failure of its own."""
    request = rig.request("HANG")
    process = rig.start(request)
    until((rig.workdir / "hanging").exists, process)
    os.kill(rig.harness_pid(), signal.SIGKILL)
    _, err = process.communicate()
    result = Result(request.run_dir, process.returncode, "", err)
    assert result.exit_code == 0
    assert result.manifest["execution_status"] == "interrupted"
    assert result.launcher["exit_codes"] == [-9]


def test_a_killed_keeper_is_an_interrupted_run(rig: Rig) -> None:
    """What stood between `collect` and the harness is gone; the harness is found by its home and ended."""
    request = rig.request("DAEMON HANG")
    process = rig.start(request)
    until((rig.workdir / "hanging").exists, process)
    parent = int(Path(f"/proc/{rig.harness_pid()}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    _, err = process.communicate()
    result = Result(request.run_dir, process.returncode, "", err)
    assert result.exit_code == 0
    assert result.manifest["execution_status"] == "interrupted"
    assert not alive(rig.harness_pid())
    assert not alive(int((rig.workdir / "daemon.pid").read_text()))


def test_a_killed_proxy_ends_the_run(rig: Rig) -> None:
    """Without it the harness would only try in vain; what was recorded is published as not closed."""
    request = rig.request("HANG")
    process = rig.start(request)
    until((rig.workdir / "hanging").exists, process)
    (lock,) = request.run_dir.rglob("lock")
    os.kill(read_json(lock)["pid"], signal.SIGKILL)
    _, err = process.communicate()
    result = Result(request.run_dir, process.returncode, "", err)
    assert result.exit_code == 0
    assert "the recording proxy died" in err
    assert not alive(rig.harness_pid())
    assert result.manifest["execution_status"] == "interrupted"
    assert "recorder_not_closed" in {reason["code"] for reason in result.manifest["status_reasons"]}


def test_two_at_once_do_not_meet(rig: Rig) -> None:
    """Each has its own proxy, home, key and run directory."""
    requests = [rig.request("hello", name=name) for name in ("one", "two")]
    processes = [rig.start(request) for request in requests]
    errors = [process.communicate()[1] for process in processes]
    results = [Result(request.run_dir, 0, "", err) for request, err in zip(requests, errors, strict=True)]
    assert [process.returncode for process in processes] == [0, 0]
    assert [result.manifest["capture_status"] for result in results] == ["complete", "complete"]
    assert [result.manifest["counts"]["calls"] for result in results] == [1, 1]
    roots = {result.launcher["root_native_id"] for result in results}
    assert len(roots) == len({started["environment"]["ANTHROPIC_BASE_URL"] for started in rig.started()}) == 2


def test_without_capture_calls_nothing_is_captured_and_the_run_says_so(rig: Rig) -> None:
    """The harness talks to the service itself, with the real key; no attempt looks like a capture."""
    result = rig.collect("hello", capture_calls=False, wire_trace=False)
    assert result.exit_code == 0
    assert result.err.count("NOTHING IS CAPTURED: the harness runs without the proxy, and with the real key;") == 2
    assert read_json(result.run_dir / "run.json")["mode"] == "uncaptured"
    assert rig.started()[0]["environment"]["ANTHROPIC_BASE_URL"] == rig.provider.url
    assert not result.attempt.exists()
    uncaptured = result.run_dir / "samples" / "sample-0001" / "uncaptured" / "attempt-0001"
    assert {path.name for path in uncaptured.iterdir()} == {"stdout.jsonl", "launcher.json", "projects"}
    assert read_json(uncaptured / "launcher.json")["execution_status"] == "completed"
    assert REAL_KEY not in "".join(path.read_text() for path in uncaptured.rglob("*") if path.is_file())


def test_an_uncaptured_run_without_a_key_does_not_speak_of_one(rig: Rig) -> None:
    """A service on this machine needs none."""
    result = rig.collect("hello", capture_calls=False, environment={"PATH": os.environ["PATH"]})
    assert result.err.count("NOTHING IS CAPTURED: the harness runs without the proxy, and with a made-up key;") == 2


async def test_a_service_with_tls_and_a_path(rig: Rig, tmp_path: Path) -> None:
    """The proxy speaks TLS to it, trusts the authority in SSL_CERT_FILE, and keeps the base's path."""
    authority = make_authority(tmp_path)
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": "end_turn",
    }

    async def serve(exchange: Exchange) -> None:
        await exchange.answer(json.dumps(answer).encode())

    async with upstream(serve, tls=authority.server_context()) as service:
        base = f"https://localhost:{service.port}/gate/v1/"
        environment = {"ANTHROPIC_API_KEY": REAL_KEY, "SSL_CERT_FILE": str(authority.ca)}
        result = await asyncio.to_thread(rig.collect, "hello", api_base=base, environment=environment)
    assert result.exit_code == 0, result.err
    (seen,) = service.seen
    assert (seen.target, seen.values("x-api-key")) == ("/gate/v1/messages", [REAL_KEY])
    assert _calls(result.attempt)[0]["endpoint"]["path"] == "/gate/v1/messages"
    assert read_json(result.run_dir / "run.json")["api_base"] == f"https://localhost:{service.port}/gate"
