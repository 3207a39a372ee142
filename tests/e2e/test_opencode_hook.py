"""Our hook for OpenCode, run by the harness's own JavaScript runtime: what it sends, and that it never throws."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.launchers.opencode_hook import check_hook
from roller_capture.shipped import shipped_path
from tests.support.harness_run import binary

pytestmark = pytest.mark.e2e

_DRIVER = """
import { RollerHeaders } from %(hook)s
const hooks = await RollerHeaders()
const sent = []
for (const [name, input, output] of %(calls)s) {
  await hooks[name](input, output)
  if (name === "chat.headers") sent.push(output?.headers ?? null)
}
console.log(JSON.stringify(sent))
"""
Calls = list[list[Any]]


def sent_by(tmp_path: Path, calls: Calls) -> list[Any]:
    """The headers that each call of `chat.headers` filled in."""
    hook = shipped_path("hooks", "opencode", "roller-headers.js")
    driver = tmp_path / "driver.mjs"
    driver.write_text(_DRIVER % {"hook": json.dumps(str(hook)), "calls": json.dumps(calls)})
    process = subprocess.run(
        [binary("opencode", "1.18.33"), "run", str(driver)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "BUN_BE_BUN": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    found: list[Any] = json.loads(process.stdout)
    return found


def updated(session: str, message: str, *, role: str = "assistant", completed: int | None = None) -> list[Any]:
    """OpenCode's event of a message that was written."""
    info = {"role": role, "sessionID": session, "id": message, "time": {"completed": completed}}
    return ["event", {"event": {"type": "message.updated", "properties": {"info": info}}}, None]


def asked(session: str, user: str, agent: str = "build") -> list[Any]:
    """A model call about to be made."""
    return ["chat.headers", {"sessionID": session, "agent": agent, "message": {"id": user}}, {"headers": {}}]


def assembled(session: str, *messages: tuple[str, str]) -> list[Any]:
    """The messages that a call will hold, as (role, id)."""
    infos = [{"info": {"role": role, "id": identifier, "sessionID": session}} for role, identifier in messages]
    return ["experimental.chat.messages.transform", {}, {"messages": infos}]


def test_parallel_sessions_get_their_own_ids(tmp_path: Path) -> None:
    """Each call has the ids of its own session, in whatever order the sessions ask."""
    calls = [updated("s1", "a1"), updated("s2", "a2"), updated("s1", "u9", role="user")]
    calls += [asked("s2", "u2"), asked("s1", "u1"), updated("s1", "a1", completed=1), asked("s1", "u3")]
    found = [(item["x-roller-session-id"], item.get("x-roller-message-id")) for item in sent_by(tmp_path, calls)]
    assert found == [("s2", "a2"), ("s1", "a1"), ("s1", None)]


def test_a_title_has_no_message_of_its_own(tmp_path: Path) -> None:
    """It is asked for while the root's first answer is open, and must not be taken for it."""
    [headers] = sent_by(tmp_path, [updated("s", "a"), asked("s", "u", "title")])
    assert headers == {"x-roller-session-id": "s", "x-roller-agent": "title", "x-roller-user-message-id": "u"}


def test_messages_that_one_call_answers_are_all_named(tmp_path: Path) -> None:
    """Those behind the last answer, each in a header of its own; earlier ones were answered before."""
    order = assembled("s", ("user", "u0"), ("assistant", "a0"), ("user", "u1"), ("user", "u2"))
    [headers] = sent_by(tmp_path, [order, asked("s", "u2")])
    named = {name: value for name, value in headers.items() if "user-message" in name}
    assert named == {"x-roller-user-message-id": "u2", "x-roller-user-message-id-2": "u1"}


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, {"event": None}, {"messages": [None]}, {"headers": 1}], ids=repr)
def test_odd_input_never_throws(tmp_path: Path, odd: object) -> None:
    """What a hook throws ends the turn: so nothing is sent instead."""
    names = ("event", "chat.headers", "experimental.chat.messages.transform")
    sent_by(tmp_path, [[name, one, other] for name in names for one, other in ((odd, odd), (odd, None), (None, odd))])


@pytest.mark.parametrize("value", ["line\nbreak", "blank blank", "größe", "x" * 201, 7, None])
def test_a_value_that_no_header_can_hold_is_left_out(tmp_path: Path, value: object) -> None:
    """It would make the request itself fail."""
    call = ["chat.headers", {"sessionID": "s", "agent": value, "message": {"id": value}}, {"headers": {}}]
    assert sent_by(tmp_path, [call]) == [{"x-roller-session-id": "s"}]


@pytest.mark.parametrize("hook", ["chat.headers", "experimental.chat.messages.transform"])
def test_a_program_without_a_hook_is_told_from_one_with_it(tmp_path: Path, hook: str) -> None:
    """The pinned program fits; the same with another name in place of a hook's does not, and says which."""
    fitting = Path(binary("opencode", "1.18.33"))
    check_hook(fitting, tmp_path, {})
    other = tmp_path / "opencode"
    other.write_bytes(fitting.read_bytes().replace(hook.encode(), hook[:-1].encode() + b"_"))
    other.chmod(0o700)
    with pytest.raises(RollerError, match=f"no hook {hook}"):
        check_hook(other, tmp_path, {})
