"""Rollouts made by hand, and what the adapter makes of them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from roller_capture.adapters.codex import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture, WireCall
from tests.adapters.claude_code.native_checks import assert_sound

VERSION = "0.171.0"
ROOT, CHILD, OTHER = (f"0000000{number}-0000-7000-8000-000000000000" for number in (1, 2, 3))
SPAWN, WAIT = "call_spawn", "call_wait"
ANSWER = "An answer."

Record = dict[str, Any]

FIRST_AGENT = "/root"
"""What Codex calls the first agent, on every machine: others have their place below it."""


def record(kind: str, **payload: Any) -> Record:
    """One line of a rollout."""
    return {"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}


def event(kind: str, **payload: Any) -> Record:
    """An `event_msg`."""
    return record("event_msg", type=kind, **payload)


def meta(thread: str, parent: str | None = None, **more: Any) -> Record:
    """The first line: of a root, or of a child that a tool call launched."""
    payload: Record = {"id": thread, "session_id": ROOT, "cli_version": VERSION, "source": "exec"}
    if parent is not None:
        payload["parent_thread_id"] = parent
        payload["source"] = {"subagent": {"thread_spawn": {"parent_thread_id": parent, "depth": 1}}}
    return record("session_meta", **{**payload, **more})


def started(turn: str) -> Record:
    """A turn begins."""
    return event("task_started", turn_id=turn)


def ended(turn: str, answer: str | None = ANSWER, **more: Any) -> Record:
    """A turn ends; `error={"message": …}` makes it fail."""
    return event("task_complete", turn_id=turn, last_agent_message=answer, **more)


def usage(thread: str, response: str) -> Record:
    """A response has ended."""
    return record("token_usage_record", thread_id=thread, response_id=response, usage={})


def count(total: int | None) -> Record:
    """An update of the token count."""
    return event("token_count", info=None if total is None else {"total_token_usage": {"total_tokens": total}})


def call(call_id: str, name: str = "spawn_agent", namespace: str | None = "multi_agent_v1", **arguments: Any) -> Record:
    """A tool call of the model."""
    item = {"type": "function_call", "id": f"fc_{call_id}", "name": name, "call_id": call_id, "namespace": namespace}
    return record("response_item", **item, arguments=json.dumps(arguments))


def output(call_id: str, value: object) -> Record:
    """What a tool call returned."""
    text = value if isinstance(value, str) else json.dumps(value)
    return record("response_item", type="function_call_output", id=f"fco_{call_id}", call_id=call_id, output=text)


def collab(call_id: str, tool: str, receivers: Iterable[str], states: Mapping[str, Any], sender: str = ROOT) -> Record:
    """The harness's own record of a multi-agent tool call (v1)."""
    item: Record = {"type": "CollabAgentToolCall", "id": call_id, "tool": tool, "status": "completed"}
    item |= {"sender_thread_id": sender, "receiver_thread_ids": list(receivers), "agents_states": dict(states)}
    return event("item_completed", thread_id=sender, item=item)


def activity(call_id: str, kind: str, thread: str, path: str, of: str = ROOT) -> Record:
    """The harness's own record of what happened to a child (v2)."""
    item = {"type": "SubAgentActivity", "id": call_id, "kind": kind, "agent_thread_id": thread, "agent_path": path}
    return event("item_completed", thread_id=of, item=item)


def notification(thread: str, status: object, item_id: str = "msg_note", *, marked: bool = True) -> Record:
    """The message that tells of a child (v1)."""
    inner = json.dumps({"agent_path": thread, "status": status})
    kinds = ["multi_agent.subagent_notification"] if marked else ["user.text"]
    text = f"<subagent_notification>\n{inner}\n</subagent_notification>"
    passed = {"content_item_kinds": kinds}
    return _message("message", item_id, text, role="user", internal_chat_message_metadata_passthrough=passed)


def final_answer(author: str, payload: str = ANSWER, recipient: str = "/root", item_id: str = "amsg_1") -> Record:
    """The message that brings a result (v2)."""
    text = f"Message Type: FINAL_ANSWER\nTask name: {recipient}\nSender: {author}\nPayload:\n{payload}"
    return _message("agent_message", item_id, text, author=author, recipient=recipient)


def new_task(turn: str, item_id: str, author: str = "/root", recipient: str = f"{FIRST_AGENT}/task") -> Record:
    """The message that gives a task to an agent (v2), in the turn that it began or joined."""
    text = f"Message Type: NEW_TASK\nTask name: {recipient}\nSender: {author}\nPayload:\n"
    passed = {"turn_id": turn}
    more: Record = {"author": author, "recipient": recipient, "internal_chat_message_metadata_passthrough": passed}
    return _message("agent_message", item_id, text, **more)


def _message(kind: str, item_id: str, text: str, **more: Any) -> Record:
    return record("response_item", type=kind, id=item_id, content=[{"type": "input_text", "text": text}], **more)


def root_v1() -> list[Record]:
    """A root that launches a child, waits for it, and is notified too."""
    return [
        meta(ROOT),
        started("t-root"),
        call(SPAWN),
        usage(ROOT, "resp_1"),
        collab(SPAWN, "spawn_agent", [CHILD], {CHILD: "pending_init"}),
        output(SPAWN, {"agent_id": CHILD, "nickname": "N"}),
        call(WAIT, "wait_agent"),
        usage(ROOT, "resp_2"),
        collab(WAIT, "wait", [CHILD], {CHILD: {"completed": ANSWER}}),
        output(WAIT, {"status": {CHILD: {"completed": ANSWER}}, "timed_out": False}),
        notification(CHILD, {"completed": ANSWER}),
        usage(ROOT, "resp_3"),
        ended("t-root", "All done."),
    ]


def child() -> list[Record]:
    """A child that answers."""
    return [meta(CHILD, ROOT), started("t-child"), usage(CHILD, "resp_c"), ended("t-child")]


def write(home: Path, **threads: list[Record] | bytes) -> Path:
    """Rollouts by names `root`, `child`, `other`; bytes stand as they are."""
    ids = {"root": ROOT, "child": CHILD, "other": OTHER}
    folder = home / "sessions" / "2026" / "01" / "01"
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in threads.items():
        data = lines if isinstance(lines, bytes) else b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        (folder / f"rollout-2026-01-01T00-00-00-{ids[name]}.jsonl").write_bytes(data)
    return home


def read_home(
    home: Path,
    *seen: str,
    launcher: Mapping[str, object] | None = None,
    calls: tuple[WireCall, ...] = (),
    **headers: frozenset[str],
) -> NativeCapture:
    """What the adapter makes of a home; `seen` are the thread ids on the wire (by default root and child)."""
    wire = {"thread-id": frozenset(seen or (ROOT, CHILD)), **{k.replace("_", "-"): v for k, v in headers.items()}}
    named = launcher if launcher is not None else {"root_native_id": ROOT}
    native = read(AdapterInput(home, wire, named, None, calls))
    assert_sound(native)
    return native


def read_rollouts(home: Path, *seen: str, **threads: list[Record] | bytes) -> NativeCapture:
    """Both in one."""
    return read_home(write(home, **threads), *seen)


def types(native: NativeCapture) -> list[str]:
    """The types of the relations, sorted."""
    return sorted(relation.type.value for relation in native.relations)


def codes(native: NativeCapture) -> set[str]:
    """The codes of the gaps."""
    return {gap.code.value for gap in native.gaps}


def owners(native: NativeCapture, field: str = "response_id") -> dict[str, set[str]]:
    """Who is claimed to own a value, by value."""
    found: dict[str, set[str]] = {}
    for claim in native.identity_claims:
        if claim.field == field:
            found.setdefault(claim.value, set()).add(claim.participant_key)
    return found
