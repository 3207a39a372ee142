"""What single records of a rollout say. Any member may hold anything: what has not its known shape says nothing.

Shapes were measured with 0.171.0: both generations of multi-agent tools, forks, reviews, compaction. Older versions
lack many records (before 0.142.5 there is neither `token_usage_record` nor `item_completed`).
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from roller_capture import json_text
from roller_capture.adapters.codex.facts import (
    Activity,
    AgentState,
    CollabCall,
    Message,
    Place,
    SessionMeta,
    Side,
    ToolCall,
    ToolOutput,
    digest,
)
from roller_capture.adapters.native_values import as_id, as_list, as_mapping, as_text, as_word

SPAWN_TOOLS: Final = frozenset({"spawn_agent"})
FOLLOW_UP_TOOLS: Final = frozenset({"send_input", "followup_task"})
"""Tools that give a further task to a child: v1 and v2. `send_message` of v2 gives none."""
WAIT_TOOLS: Final = frozenset({"wait_agent", "wait"})
STOP_TOOLS: Final = frozenset({"close_agent", "interrupt_agent"})
DELEGATION_TOOLS: Final = SPAWN_TOOLS | FOLLOW_UP_TOOLS | {"resume_agent"}

NOTIFICATION_KIND: Final = "multi_agent.subagent_notification"
"""The harness's own mark on a message that tells of a child (v1)."""

_NAMESPACES: Final = (None, "multi_agent_v1", "collaboration")
_MULTI_AGENT_TOOLS: Final = DELEGATION_TOOLS | WAIT_TOOLS | STOP_TOOLS
_OPEN_TAG: Final = "<subagent_notification>"
_CLOSE_TAG: Final = "</subagent_notification>"
_FINAL_ANSWER: Final = "Message Type: FINAL_ANSWER\n"
_NEW_TASK: Final = "Message Type: NEW_TASK\n"
_COMPLETED: Final = "subagent-completed-"
_PAYLOAD: Final = "\nPayload:\n"
_AGENT_ERROR: Final = "Agent errored: "
_ERROR_NOTE: Final = "\n\nThis agent's turn failed."
"""What the harness adds behind an error that it tells of (v2). Without it the error's end is not known."""
_LONGEST_OUTPUT: Final = 1 << 24


def session_meta(record: Mapping[str, Any]) -> SessionMeta | None:
    """A `session_meta` record that names its thread."""
    payload = as_mapping(record.get("payload"))
    thread_id = as_id(payload.get("id"))
    if record.get("type") != "session_meta" or thread_id is None:
        return None
    source = as_mapping(payload.get("source"))
    spawn = as_mapping(as_mapping(source.get("subagent")).get("thread_spawn"))
    parents = {as_id(payload.get("parent_thread_id")), as_id(spawn.get("parent_thread_id"))} - {None}
    history_start = payload.get("subagent_history_start_ordinal")
    is_number = isinstance(history_start, int) and not isinstance(history_start, bool)
    return SessionMeta(
        thread_id=thread_id,
        parent_id=parents.pop() if len(parents) == 1 else None,
        session_id=as_id(payload.get("session_id")),
        forked_from_id=as_id(payload.get("forked_from_id")),
        is_subagent="subagent" in source or bool(parents),
        side=None if spawn or "subagent" not in source else _side(source["subagent"]),
        agent_path=as_id(payload.get("agent_path")) or as_id(spawn.get("agent_path")),
        version=as_word(payload.get("cli_version")),
        history_start=history_start if is_number else None,
    )


def _side(subagent: object) -> Side:
    word = as_mapping(subagent).get("other") if isinstance(subagent, dict) else subagent
    return next((side for side in Side if side.value == word), Side.OTHER)


def is_damaged(item: Mapping[str, Any]) -> bool:
    """Whether an item of the conversation lacks what every version gives one of its kind."""
    kind = as_text(item.get("type"))
    if kind in ("function_call", "function_call_output"):
        named = kind == "function_call_output" or as_text(item.get("name")) is not None
        namespace = item.get("namespace")
        return as_id(item.get("call_id")) is None or not named or (namespace is not None and as_word(namespace) is None)
    if kind != "message":
        return kind is None
    content = item.get("content")
    return as_word(item.get("role")) is None or not isinstance(content, list) or not all(map(_is_block, content))


def _is_block(block: object) -> bool:
    kind = as_text(as_mapping(block).get("type"))
    is_text = kind in ("input_text", "output_text")
    return kind is not None and (not is_text or as_text(as_mapping(block).get("text")) is not None)


def tool_call(item: Mapping[str, Any], place: Place) -> ToolCall | None:
    """A call of a multi-agent tool."""
    name, call_id = as_word(item.get("name")), as_id(item.get("call_id"))
    known = item.get("namespace") in _NAMESPACES and name in _MULTI_AGENT_TOOLS
    if item.get("type") != "function_call" or name is None or call_id is None or not known:
        return None
    return ToolCall(call_id, name, place)


def tool_output(item: Mapping[str, Any], place: Place) -> ToolOutput | None:
    """What a tool call returned."""
    call_id = as_id(item.get("call_id"))
    if item.get("type") != "function_call_output" or call_id is None:
        return None
    return ToolOutput(call_id, _object(as_text(item.get("output"))), place)


def _object(text: str | None) -> Mapping[str, Any]:
    if text is None or not text.startswith("{") or len(text) > _LONGEST_OUTPUT:
        return {}
    try:
        return as_mapping(json_text.parse(text.encode()))
    except (json_text.JsonError, UnicodeEncodeError):
        return {}


def agent_states(value: object) -> dict[str, AgentState]:
    """States by thread id, as waits and the harness's records of them give them."""
    return {thread_id: state for thread_id, one in as_mapping(value).items() if (state := agent_state(one)) is not None}


def agent_state(value: object) -> AgentState | None:
    """`"running"`, or `{"completed": TEXT}`."""
    if isinstance(value, str):
        return AgentState(value, None) if as_word(value) else None
    pairs = list(as_mapping(value).items())
    if len(pairs) != 1 or as_word(pairs[0][0]) is None:
        return None
    text = as_text(pairs[0][1])
    return AgentState(pairs[0][0], None if text is None else digest(text))


def collab_call(item: Mapping[str, Any], place: Place) -> CollabCall | None:
    """The harness's own record of a multi-agent tool call."""
    call_id, tool = as_id(item.get("id")), as_word(item.get("tool"))
    if item.get("type") != "CollabAgentToolCall" or call_id is None or tool is None:
        return None
    receivers = tuple(one for one in map(as_id, as_list(item.get("receiver_thread_ids"))) if one is not None)
    return CollabCall(
        call_id,
        tool,
        item.get("status") == "completed",
        as_id(item.get("sender_thread_id")),
        receivers,
        agent_states(item.get("agents_states")),
        place,
    )


def activity(item: Mapping[str, Any], place: Place) -> Activity | None:
    """The harness's own record of what happened to a child."""
    call_id, kind, thread_id = as_id(item.get("id")), as_word(item.get("kind")), as_id(item.get("agent_thread_id"))
    if item.get("type") != "SubAgentActivity" or call_id is None or kind is None or thread_id is None:
        return None
    return Activity(call_id, kind, thread_id, as_id(item.get("agent_path")), place)


def notification(item: Mapping[str, Any], place: Place) -> Message | None:
    """A message that the harness put into the conversation to tell of a child (v1): marked as such by itself, and of
    the one form that such messages have."""
    text, item_id = _first_text(item), as_id(item.get("id"))
    if not is_marked_notification(item) or text is None or item_id is None:
        return None
    inner = text.strip()
    if not inner.startswith(_OPEN_TAG) or not inner.endswith(_CLOSE_TAG):
        return None
    value = _object(inner.removeprefix(_OPEN_TAG).removesuffix(_CLOSE_TAG).strip())
    about, state = as_id(value.get("agent_path")), agent_state(value.get("status"))
    return Message(item_id, about, state, text, place) if about is not None and state is not None else None


def is_marked_notification(item: Mapping[str, Any]) -> bool:
    """Whether the harness marked a message as a notification."""
    passed = as_mapping(item.get("internal_chat_message_metadata_passthrough"))
    return passed.get("content_item_kinds") == [NOTIFICATION_KIND]


def looks_like_notification(item: Mapping[str, Any]) -> bool:
    """Whether a user's message has the form of a notification, be it marked or not."""
    text = _first_text(item)
    return item.get("role") == "user" and text is not None and text.lstrip().startswith(_OPEN_TAG)


def final_answer(item: Mapping[str, Any], place: Place) -> tuple[Message, str | None] | None:
    """A final answer that one agent sent to another (v2), and the path of the receiver.

    The header stands at the beginning of the first part, which the harness writes; a payload may quote one.
    """
    text, item_id, author = _first_text(item), as_id(item.get("id")), as_id(item.get("author"))
    if text is None or item_id is None or author is None or not text.startswith(_FINAL_ANSWER):
        return None
    header, found, payload = text.partition(_PAYLOAD)
    if not found or f"\nSender: {author}" not in f"{header}\n":
        return None
    return Message(item_id, author, _told_state(payload), text, place), as_id(item.get("recipient"))


def new_task(item: Mapping[str, Any]) -> tuple[str, str] | None:
    """The turn that a message with a task stands in, and the path of who sent it (v2)."""
    text, author = _first_text(item), as_id(item.get("author"))
    turn_id = as_id(as_mapping(item.get("internal_chat_message_metadata_passthrough")).get("turn_id"))
    if text is None or author is None or turn_id is None or not text.startswith(_NEW_TASK):
        return None
    return turn_id, author


def completed_turn(activity_id: str) -> str | None:
    """The turn of a child that the harness's record of its end names (v2)."""
    return activity_id.removeprefix(_COMPLETED) if activity_id.startswith(_COMPLETED) else None


def _told_state(payload: str) -> AgentState:
    if not payload.startswith(_AGENT_ERROR):
        return AgentState("completed", digest(payload))
    error, noted, _ = payload.removeprefix(_AGENT_ERROR).rpartition(_ERROR_NOTE)
    return AgentState("errored", digest(error) if noted else None)


def _first_text(item: Mapping[str, Any]) -> str | None:
    blocks = as_list(item.get("content"))
    return as_text(as_mapping(blocks[0]).get("text")) if blocks else None


def error_of(payload: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Why a turn failed: a word, and the digest of the message; `None` when it did not."""
    error = payload.get("error")
    if error is None:
        return None
    info = as_mapping(error).get("codex_error_info")
    word = as_word(info) or next((key for key in as_mapping(info) if as_word(key)), None) or "error"
    message = as_text(as_mapping(error).get("message"))
    return word, None if message is None else digest(message)


def token_total(payload: Mapping[str, Any]) -> str | None:
    """The whole usage of a thread so far, as a value that can be compared; `None` in an update without one."""
    total = as_mapping(as_mapping(payload.get("info")).get("total_token_usage"))
    return json.dumps(total, sort_keys=True, default=str) if total else None


def turn_ids(record: Mapping[str, Any]) -> Iterator[str]:
    """The id of the turn that a record begins."""
    payload = as_mapping(record.get("payload"))
    begins = record.get("type") == "turn_context" or payload.get("type") == "task_started"
    turn_id = as_id(payload.get("turn_id"))
    if begins and turn_id is not None:
        yield turn_id


def settings_of(record: Mapping[str, Any]) -> str | None:
    """The thread whose settings a record applies: the first of them is the first record of a fork's own."""
    payload = as_mapping(record.get("payload"))
    return as_id(payload.get("thread_id")) if payload.get("type") == "thread_settings_applied" else None
