"""The program that runs one turn over JSON-RPC, against a stand-in for the harness that does what it is told."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from roller_capture.launchers import deepseek_driver

ROOT = "session-1"
CHILD = "child-1"
Messages = list[dict[str, Any]]

_STAND_IN = """\
#!{python}
import json, sys, time
script = json.load(open({script!r}))
seen = open({seen!r}, "a")
def send(message):
    if "sleep" in message:
        time.sleep(message["sleep"])
    else:
        sys.stdout.write(json.dumps(message) + "\\n"); sys.stdout.flush()
print("not JSON")
seen.write(json.dumps({{"argv": sys.argv[1:]}}) + "\\n"); seen.flush()
for line in sys.stdin:
    request = json.loads(line)
    seen.write(line); seen.flush()
    if "error" in request:
        continue
    told = script.get(request["method"], {{}})
    if told.get("die"):
        sys.exit(7)
    for message in told.get("before", []):
        send(message)
    answer = {{"error": told["error"]}} if "error" in told else {{"result": told.get("result", {{}})}}
    send({{"jsonrpc": "2.0", "id": request["id"], **answer}})
    for message in told.get("after", []):
        send(message)
    if request["method"] == "shutdown":
        break
"""


def _status(status: str, session: str = ROOT) -> dict[str, Any]:
    return {"method": "session.status", "params": {"sessionId": session, "status": status}}


def _event(kind: str, session: str = ROOT, **data: Any) -> dict[str, Any]:
    return {"method": "session.event", "params": {"sessionId": session, "event": {"type": kind, "data": data}}}


def _subagent(what: str) -> dict[str, Any]:
    params = {"parentSessionId": ROOT, "childSessionId": CHILD}
    return {"method": f"subagent.{what}", "params": params}


def _turn(reason: str = "completed") -> Messages:
    return [_event("assistant/message"), _event("turn/end", reason={"kind": reason})]


_TAKEN = [_status("running"), _event("agent/inbox/spliced", inserted=[{"id": "m-1"}])]


class StandIn:
    """Runs the driver with a stand-in whose answers are given by method."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen = directory / "seen.jsonl"

    def run(self, after_prompt: Messages, *more: str, **told: Any) -> tuple[int, Messages]:
        """Exit code and output records."""
        script = {"session/prompt": {"result": {"messageId": "m-1"}, "after": after_prompt}, **told}
        (self._directory / "script.json").write_text(json.dumps(script))
        program = self._directory / "dsh"
        names = {"script": str(self._directory / "script.json"), "seen": str(self._seen)}
        program.write_text(textwrap.dedent(_STAND_IN).format(python=sys.executable, **names))
        program.chmod(0o755)
        options = ("--profile", "sdk", "--cwd", "/w", "--provider", "p", "--model", "m", "--drain", "1.5", *more)
        if not any(item.startswith("--resume") for item in more):
            options = (*options, f"--resume={ROOT}")
        command = (sys.executable, "-I", deepseek_driver.__file__, "--dsh", str(program), *options, "--", "-a prompt")
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in process.stderr
        return process.returncode, [json.loads(line) for line in process.stdout.splitlines()]

    @property
    def requests(self) -> Messages:
        """What the stand-in was asked."""
        return [json.loads(line) for line in self._seen.read_text().splitlines()]


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


@pytest.mark.parametrize(("reason", "code"), [("completed", 0), ("error", 1), ("aborted", 1)])
def test_the_exit_code_is_how_the_roots_turn_ended(stand_in: StandIn, reason: str, code: int) -> None:
    """A turn that failed is a failed run."""
    returned, told = stand_in.run([*_TAKEN, *_turn(reason), _status("idle")])
    assert returned == code
    assert [record["type"] for record in told] == ["session", "status", "answer", "turn", "status"]


def test_the_session_is_announced_before_its_turn_begins(stand_in: StandIn) -> None:
    """So that its logs are found whatever happens then."""
    _, told = stand_in.run([*_TAKEN, *_turn(), _status("idle")])
    assert told[0] == {"type": "session", "sessionId": ROOT, "resumed": True}


def test_the_requests_in_order(stand_in: StandIn) -> None:
    """A resumed session is resumed, the prompt is sent as it is, and the harness is shut down."""
    stand_in.run([*_TAKEN, *_turn(), _status("idle")], "--max-tokens", "20", "--patch", "a.yml")
    first, *requests = stand_in.requests
    assert first == {"argv": ["--profile", "sdk", "--patch", "a.yml"]}
    assert [request["method"] for request in requests] == ["initialize", "session/resume", "session/prompt", "shutdown"]
    assert requests[0]["params"] == {"cwd": "/w", "provider": "p", "model": "m", "maxTokens": 20}
    assert requests[2]["params"]["contentBlocks"] == [{"type": "text", "text": "-a prompt"}]


def test_it_waits_for_a_child_and_for_the_answer_to_its_notice(stand_in: StandIn) -> None:
    """The root was idle in between, and the child took longer than a moment."""
    child = [{"sleep": 1.3}, _subagent("finished"), _status("running"), *_turn(), _status("idle")]
    code, told = stand_in.run([*_TAKEN, _subagent("started"), *_turn(), _status("idle"), *child])
    assert code == 0
    assert [record["type"] for record in told].count("turn") == 2


def test_it_waits_no_longer_than_it_may(stand_in: StandIn) -> None:
    """And says so; the run itself has ended well."""
    code, told = stand_in.run([*_TAKEN, _subagent("started"), *_turn(), _status("idle")])
    assert code == 0
    assert told[-1] == {"type": "drain", "settled": False}
    assert stand_in.requests[-1]["method"] == "shutdown"


def test_a_request_to_us_is_refused(stand_in: StandIn) -> None:
    """Nobody is there to approve, and the harness must not wait for an answer."""
    question = {"id": "q-1", "method": "approval/request", "params": {}}
    code, _ = stand_in.run([*_TAKEN, question, *_turn(), _status("idle")])
    assert code == 0
    [refusal] = [request for request in stand_in.requests if "error" in request]
    assert refusal["id"] == "q-1"


@pytest.mark.parametrize(
    "told",
    [{"initialize": {"die": True}}, {"session/prompt": {"die": True}}, {"session/resume": {"error": {"code": 1}}}],
    ids=["at-start", "in-the-turn", "refused"],
)
def test_a_runtime_that_ends_or_refuses_is_an_exit_code_of_its_own(stand_in: StandIn, told: dict[str, Any]) -> None:
    """Never a traceback."""
    code, _ = stand_in.run([], **told)
    assert code == 3


def test_odd_notifications_are_passed_over(stand_in: StandIn) -> None:
    """Whatever they hold."""
    odd: Messages = [
        {"method": "session.status", "params": {"sessionId": 7}},
        {"method": "session.event", "params": {"sessionId": ROOT, "event": "x"}},
        {"method": "session.event", "params": []},
        {"method": "subagent.started", "params": {}},
        {"id": 99},
    ]
    code, _ = stand_in.run([*odd, *_TAKEN, *_turn(), _status("idle")])
    assert code == 0
