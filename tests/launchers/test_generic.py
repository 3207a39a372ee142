"""What `collect` gives to a program of one's own, and the document's examples, run as they stand there."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roller_capture.collect.request import CollectRequest
from roller_capture.harnesses import HARNESSES
from roller_capture.launchers import LaunchSettings, find_launcher
from roller_capture.launchers.generic import LAUNCHER
from roller_capture.scripted_provider import AgentScript, Reply, Script, ScriptedProvider, ToolUse
from roller_capture.vocabulary import DebugRetention, Protocol
from tests.support.capture import Capture, read_lines, roller_capture
from tests.support.collecting import REAL_KEY, collecting
from tests.support.harness_run import check_attribution, read_json
from tests.support.truth_table import TruthTable as CommonTruthTable

_DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "harnesses" / "generic.md"
_SMALLEST, _FAMILY = re.findall(r"```python\n(.*?)```", _DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


class TruthTable(CommonTruthTable):
    """The example's own tool."""

    delegation_tools = ("delegate",)


def program(folder: Path, source: str, interpreter: str = f"{sys.executable} -I") -> Path:
    """A program that `collect` can start."""
    path = folder / "agent.py"
    path.write_text(f"#!{interpreter}\n{source}", encoding="utf-8")
    path.chmod(0o700)
    return path


def settings(tmp_path: Path, **changes: Any) -> LaunchSettings:
    """One attempt."""
    fields: dict[str, Any] = {
        "binary": Path("/opt/agent"),
        "home": tmp_path / "home",
        "temporary": tmp_path / "tmp",
        "workdir": tmp_path,
        "base_url": "http://127.0.0.1:1",
        "key_variable": "OPENAI_API_KEY",
        "key": "dummy-key",
        "model": "m",
        "protocol": Protocol.OPENAI_CHAT_COMPLETIONS,
        "profile": None,
        "drain_timeout": 1.5,
        "arguments": ("--fast",),
    }
    return LaunchSettings(**{**fields, **changes})


def run(directory: Path, source: str, provider: ScriptedProvider, *prompts: str, **options: Any) -> tuple[str, Capture]:
    """Runs a program through `collect`; stderr, and what was published beside the provider's own record."""
    directory.mkdir(exist_ok=True)
    request = CollectRequest(
        harness="generic",
        run_dir=directory / "run",
        prompts=prompts,
        api_base=provider.url,
        capture_calls=True,
        model="scripted-model",
        harness_bin=program(directory, source),
        capture_debug=DebugRetention.FULL,
        **options,
    )
    keys = dict.fromkeys(LAUNCHER.traits.key_variables, REAL_KEY)
    with provider, collecting(request, environment=keys) as process:
        _, err = process.communicate()
    assert process.returncode == 0, err
    assert provider.script_errors == []
    attempt = directory / "run" / "samples" / "sample-0001" / "capture" / "attempt-0001"
    return err, Capture(
        provider.truth.records,
        len(provider.truth.others),
        0,
        attempt,
        read_json(attempt / "manifest.json"),
        read_lines(attempt / "calls.jsonl"),
        read_lines(attempt / "relations.jsonl"),
        roller_capture("validate", "--deep", str(attempt)),
    )


def delegate(*markers: str) -> Reply:
    """An answer that gives a task to each child. Its tool ids hold no mark of the answer, since the children send them
    in a header, and an answer's mark must stand in no other call."""
    calls = [
        ToolUse("delegate", {"task": f"{marker}: do it."}, tool_id=f"toolu_{marker}_{number}")
        for number, marker in enumerate(markers)
    ]
    return Reply(text="Delegating.", tools=tuple(calls))


def test_the_smallest_example_of_the_document(tmp_path: Path) -> None:
    """Every call has its owner; without a log nothing is known of what came back."""
    provider = ScriptedProvider(Script([AgentScript(("root",), "ROOT-TASK", (Reply(text="Forty-two."),))]))
    told, capture = run(tmp_path, _SMALLEST, provider, "ROOT-TASK: what is it?")
    table = check_attribution(TruthTable(capture))
    assert table.participants == {"root": ("root", None, "unknown")}
    assert table.exportable == set(table.truth)
    assert capture.manifest["capabilities"]["native_output_coverage"]["status"] == "unknown"
    assert capture.manifest["lifecycle"]["status"] == "unknown"
    assert capture.manifest["errors"] == []
    configuration = read_json(tmp_path / "run" / "run.json")
    assert configuration["protocol"] is None
    assert "never tested" not in told
    assert "Forty-two." in (capture.attempt / "raw" / "native" / "stdout.jsonl").read_text()
    [sent] = [record.headers for record in capture.truth]
    assert [name for name in sent if name.startswith("x-roller-")] == []
    assert sent["authorization"] == f"Bearer {REAL_KEY}"
    output = tmp_path / "calls.jsonl"
    exported = roller_capture("export", "calls", str(capture.attempt), "--output", str(output))
    assert (exported.returncode, len(read_lines(output))) == (0, 1), exported.stderr


@pytest.mark.parametrize(
    ("turns", "children"),
    [
        ((delegate("CHILD-A"),), ("child-a",)),
        ((delegate("CHILD-A", "CHILD-B"),), ("child-a", "child-b")),
        ((delegate("CHILD-SAME", "CHILD-SAME"),), ("child-1", "child-2")),
        ((delegate("CHILD-A"), delegate("CHILD-B")), ("child-a", "child-b")),
    ],
    ids=["single", "parallel", "identical-prompts", "one after the other"],
)
def test_the_example_with_children(tmp_path: Path, turns: tuple[Reply, ...], children: tuple[str, ...]) -> None:
    """Owners, parents and every relation as the provider's own record has them; complete."""
    agents = [
        AgentScript(("root",), "ROOT-TASK", (*turns, Reply(text="All done."))),
        AgentScript(("child-a",), "CHILD-A", (Reply(text="Answer A."),)),
        AgentScript(("child-b",), "CHILD-B", (Reply(text="Answer B."),)),
        AgentScript(("child-1", "child-2"), "CHILD-SAME", (Reply(text="An answer."),)),
    ]
    options = {"protocol": Protocol.ANTHROPIC_MESSAGES}
    _, capture = run(tmp_path, _FAMILY, ScriptedProvider(Script(agents)), "ROOT-TASK: do it.", **options)
    table = check_attribution(TruthTable(capture))
    assert table.owned == table.true_owned
    assert table.participants == {
        "root": ("root", None, "completed"),
        **dict.fromkeys(children, ("child", "root", "completed")),
    }
    assert table.relations == table.true_relations(frozenset(), None)
    assert {call["purpose"] for call in capture.calls} == {"agent"}
    assert capture.manifest["lifecycle"]["status"] == "complete"
    assert capture.manifest["capture_status"] == "complete"


def test_a_grandchild(tmp_path: Path) -> None:
    """The example's agents are all alike, so that a child delegates as the root does."""
    agents = [
        AgentScript(("root",), "ROOT-TASK", (delegate("CHILD-N"), Reply(text="All done."))),
        AgentScript(("child-n",), "CHILD-N", (delegate("GRAND-G"), Reply(text="Child done."))),
        AgentScript(("grand-g",), "GRAND-G", (Reply(text="Grandchild done."),)),
    ]
    _, capture = run(tmp_path, _FAMILY, ScriptedProvider(Script(agents)), "ROOT-TASK: do it.")
    table = check_attribution(TruthTable(capture))
    assert table.participants["grand-g"] == ("child", "child-n", "completed")
    types = [(relation["type"], relation["parent_call_status"]) for relation in capture.relations]
    assert sorted(types) == sorted(
        (kind, "resolved")
        for kind in ("spawn", "result_delivered", "child_completed", "result_in_context")
        for _ in range(2)
    )
    assert capture.manifest["capture_status"] == "complete"


_BACKGROUND = """
import json, os, sys, threading
from openai import OpenAI

def log(**event):
    with open(os.environ["ROLLER_EVENTS"], "a") as stream:
        stream.write(json.dumps(event) + "\\n")

def ask(session, messages, **more):
    headers = {"x-roller-session": session}
    headers |= {"x-roller-" + name.replace("_", "-"): value for name, value in more.items()}
    model = os.environ["ROLLER_MODEL"]
    answer = OpenAI().chat.completions.create(model=model, messages=messages, extra_headers=headers)
    log(event="output", session=session, response_id=answer.id)
    return answer.choices[0].message

def child(call, found):
    task = json.loads(call.function.arguments)["task"]
    origin = {"parent_session": "root", "delegation_tool_id": call.id}
    found.append(ask("child", [{"role": "user", "content": task}], **origin).content)
    log(event="ended", session="child", status="completed")

found, messages = [], [{"role": "user", "content": sys.argv[-1]}]
first = ask("root", messages)
[call] = first.tool_calls
worker = threading.Thread(target=child, args=(call, found))
worker.start()
messages += [first, {"role": "tool", "tool_call_id": call.id, "content": "Launched."}]
messages.append(ask("root", messages))
log(event="acknowledged", session="child")
worker.join()
text = "Your agent has ended. It says: " + found[0]
log(event="delivered", session="child", run_id="announcement-1", text=text)
messages.append({"role": "user", "content": text})
messages.append(ask("root", messages, run_id="announcement-1"))
log(event="ended", session="root", status="completed")
"""


def test_a_child_in_the_background(tmp_path: Path) -> None:
    """Acknowledged by its tool call, delivered in a message that is bound by a run id; both found where they were."""
    agents = [
        AgentScript(("root",), "ROOT-TASK", (delegate("CHILD-A"), Reply(text="Meanwhile."), Reply(text="All done."))),
        AgentScript(("child-a",), "CHILD-A", (Reply(text="Answer A."),)),
    ]
    _, capture = run(tmp_path, _BACKGROUND, ScriptedProvider(Script(agents)), "ROOT-TASK: do it.")
    table = check_attribution(TruthTable(capture))
    assert table.participants == {"root": ("root", None, "completed"), "child-a": ("child", "root", "completed")}
    assert table.relations == table.true_relations(frozenset(), "child-a")
    assert [item["native_identity"].get("run_id") for item in capture.calls].count("announcement-1") == 1
    bound = {relation["type"]: (relation["delivery"] or {}).get("bound_by") for relation in capture.relations}
    assert bound["launch_ack_in_context"] == "tool_call_id"
    assert bound["result_in_context"] == "announcement_run_id"
    assert capture.manifest["capture_status"] == "complete"


_TWO_TURNS = """
import json, os, sys
from openai import OpenAI
session = os.environ.get("ROLLER_SESSION") or "mine-1"
print(json.dumps({"event": "session", "session": session}), flush=True)
client = OpenAI(default_headers={"x-roller-session": session})
client.responses.create(model=os.environ["ROLLER_MODEL"], input=sys.stdin.read())
"""


def test_two_turns_of_one_session_on_the_input(tmp_path: Path) -> None:
    """The second process is told the session that the first one announced, and prompts come as they are."""
    prompts = ("ROOT-TASK: @first 'one' $HOME\n", "-ROOT-TASK again")
    provider = ScriptedProvider(Script([AgentScript(("root",), "ROOT-TASK", (Reply(text="Yes."),))]))
    _, capture = run(tmp_path, _TWO_TURNS, provider, *prompts, profile="stdin", protocol=Protocol.OPENAI_RESPONSES)
    check_attribution(TruthTable(capture))
    assert [call["context"]["input"] for call in capture.calls] == list(prompts)
    [root] = capture.manifest["participants"]
    assert root["native_ids"] == {"session_id": ["mine-1"]}


_VERSIONED = """
import json, os, sys
from openai import OpenAI

def log(**event):
    with open(os.environ["ROLLER_EVENTS"], "a") as stream:
        stream.write(json.dumps(event) + "\\n")

log(event="log", agent_version=VERSION)
question = [{"role": "user", "content": sys.argv[-1]}]
client = OpenAI(default_headers={"x-roller-session": "root"})
answer = client.chat.completions.create(model=os.environ["ROLLER_MODEL"], messages=question)
log(event="output", session="root", response_id=answer.id)
log(event="ended", session="root", status="completed")
"""


@pytest.mark.parametrize("version", ["2.1.0-rc1", "two words \x1b[2J"])
def test_a_program_says_its_version(tmp_path: Path, version: str) -> None:
    """In its log; where it says none that is a word, its content stands for it, as it does in the books of the run. The
    run with its attempt is valid and exportable in either case."""
    provider = ScriptedProvider(Script([AgentScript(("root",), "ROOT-TASK", (Reply(text="Yes."),))]))
    source = _VERSIONED.replace("VERSION", repr(version))
    _, capture = run(tmp_path, source, provider, "ROOT-TASK: do it.")
    check_attribution(TruthTable(capture))
    fingerprint = read_json(tmp_path / "run" / "run.json")["harness"]["version"]
    assert re.fullmatch("sha256-[0-9a-f]{16}", fingerprint)
    assert capture.manifest["harness"]["name"] == "generic"
    assert capture.manifest["harness"]["version"] == ("2.1.0-rc1" if version == "2.1.0-rc1" else fingerprint)
    assert capture.manifest["capture_status"] == "complete"
    checked = roller_capture("validate", "--deep", str(tmp_path / "run"))
    assert checked.returncode == 0, checked.stderr
    output = tmp_path / "calls.jsonl"
    exported = roller_capture("export", "calls", str(tmp_path / "run"), "--output", str(output))
    assert (exported.returncode, len(read_lines(output))) == (0, 1), exported.stderr


def test_a_call_without_the_header_is_nobodys(tmp_path: Path) -> None:
    """And named; the others keep their owners."""
    provider = ScriptedProvider(Script([AgentScript(("root",), "ROOT-TASK", (Reply(text="Yes."),))]))
    source = _SMALLEST + "\nOpenAI().chat.completions.create(model=os.environ['ROLLER_MODEL'], messages=question)\n"
    _, capture = run(tmp_path, source, provider, "ROOT-TASK: twice.")
    table = check_attribution(TruthTable(capture), unattributed=1)
    assert [call["identity_status"] for call in capture.calls] == ["resolved", "unattributed"]
    assert [error["code"] for error in capture.manifest["errors"]] == ["hook_not_seen"]
    assert len(table.exportable) == 1


def test_the_command_of_a_turn(tmp_path: Path) -> None:
    """The user's arguments, then the prompt; on the input with the profile `stdin`."""
    turn = LAUNCHER.turn(settings(tmp_path), "-do it", None)
    assert turn.arguments == ("/opt/agent", "--fast", "-do it")
    piped = LAUNCHER.turn(settings(tmp_path, profile="stdin"), "-do it", None)
    assert (piped.arguments, piped.standard_input) == (("/opt/agent", "--fast"), "-do it")
    assert turn.standard_input is None


def test_the_environment_of_a_turn(tmp_path: Path) -> None:
    """What the official SDKs read, for either provider, and where the log belongs."""
    assert LAUNCHER.turn(settings(tmp_path), "x", "mine-1").environment == {
        "TMPDIR": str(tmp_path / "tmp"),
        "ROLLER_EVENTS": str(tmp_path / "home" / "roller-events.jsonl"),
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
        "OPENAI_API_KEY": "dummy-key",
        "ANTHROPIC_API_KEY": "dummy-key",
        "ROLLER_MODEL": "m",
        "ROLLER_SESSION": "mine-1",
    }
    bare = LAUNCHER.turn(settings(tmp_path, base_url=None, key=None, model=None), "x", None).environment
    assert bare.keys() == {"TMPDIR", "ROLLER_EVENTS"}


def test_the_version_is_the_programs_content(tmp_path: Path) -> None:
    """It is never run for it, and another content is another version."""
    path = program(tmp_path, "raise SystemExit('I was run')")
    said = []
    for _ in range(2):
        command = LAUNCHER.version_command(path, tmp_path)
        output = subprocess.run(command.arguments, capture_output=True, text=True, check=True).stdout
        said.append(LAUNCHER.version_in(output))
        path.write_text("another")
    assert all(version is not None and re.fullmatch("sha256-[0-9a-f]{16}", version) for version in said)
    assert said[0] != said[1]
    assert LAUNCHER.version_in("I was run") is None


@pytest.mark.parametrize(
    ("lines", "sessions", "answered", "ended"),
    [
        ([], [], False, False),
        (["Hello.", {"event": "session", "session": "a"}, {"event": "session", "session": "a"}], ["a"], False, False),
        ([{"event": "session", "session": "b", "parent": "a"}], [], False, False),
        ([{"event": "session", "session": ["a"]}, {"event": ["session"], "session": "a"}], [], False, False),
        ([{"event": "output", "session": "a"}, {"event": "ended", "session": "a"}], [], True, True),
    ],
)
def test_what_a_program_may_say_on_its_output(
    tmp_path: Path, lines: list[Any], sessions: list[str], answered: bool, ended: bool
) -> None:
    """Events in the form that they have in the log; any other output says nothing."""
    stdout = tmp_path / "stdout.jsonl"
    stdout.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    assert LAUNCHER.session_ids(stdout) == sessions
    assert LAUNCHER.has_answered(stdout) is answered
    assert LAUNCHER.turn_has_ended(stdout, 0) is ended
    assert not LAUNCHER.turn_has_ended(stdout, stdout.stat().st_size)


@pytest.mark.parametrize(
    ("ends", "failed"),
    [
        ([], False),
        ([("a", "completed")], False),
        ([("a", "failed")], True),
        ([("a", "failed"), ("child", "completed")], True),
        ([("a", "failed"), ("a", "completed")], False),
        ([("child", "failed")], False),
        ([("a", ["failed"]), (None, "failed")], False),
    ],
)
def test_a_program_may_say_that_its_turn_failed(tmp_path: Path, ends: list[Any], failed: bool) -> None:
    """Of its root, whose last word counts; a child that failed is no failure of the turn."""
    lines = [{"event": "session", "session": "a"}, {"event": "session", "session": "child", "parent": "a"}]
    lines += [{"event": "ended", "session": session, "status": status} for session, status in ends]
    stdout = tmp_path / "stdout.jsonl"
    stdout.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert LAUNCHER.turn_failed(stdout, 0) is failed
    assert not LAUNCHER.turn_failed(stdout, stdout.stat().st_size)


def test_only_the_log_is_copied(tmp_path: Path) -> None:
    """Nothing else of the home; a link is named and not followed."""
    home, target = tmp_path / "home", tmp_path / "native"
    home.mkdir()
    target.mkdir()
    for name in ("roller-events.jsonl", "notes.jsonl", ".netrc"):
        (home / name).write_text(name)
    for _ in range(2):  # again after a crash: the same
        assert LAUNCHER.copy_native(home, target, frozenset({"a"})) == []
    assert [(path.name, path.stat().st_mode & 0o777) for path in target.iterdir()] == [("roller-events.jsonl", 0o600)]
    (home / "roller-events.jsonl").unlink()
    assert LAUNCHER.copy_native(home, target, frozenset()) == []
    (home / "roller-events.jsonl").symlink_to("/etc/hostname")
    assert [gap.code for gap in LAUNCHER.copy_native(home, target, frozenset())] == ["file_refused"]
    assert [gap.code for gap in LAUNCHER.copy_native(tmp_path / "none", target, frozenset())] == ["native_logs_missing"]


def test_the_eighth_harness_is_a_row_and_two_files() -> None:
    """The proof that a further harness needs nothing else: no other module of the package names it."""
    row = HARNESSES["generic"]
    assert find_launcher("generic") is LAUNCHER
    assert (row.adapter, row.launcher) == (
        "roller_capture.adapters.generic:read",
        "roller_capture.launchers.generic:LAUNCHER",
    )
    package = Path(__file__).resolve().parents[2] / "roller_capture"
    own = {package / "adapters" / "generic.py", package / "launchers" / "generic.py", package / "harnesses.py"}
    naming = {path for path in package.rglob("*.py") if re.search(r"""["'.]generic["':]""", path.read_text())}
    assert naming <= own
