"""The plugin of Hermes Agent by which roller-capture knows who makes a model request.

It changes nothing that Hermes does: requests get `x-roller-*` headers, which the recording proxy takes off, and ids go
into a log of its own (event_log.py). Nothing in it may raise or wait.
"""

import importlib.metadata
import re
from typing import Any, Final

from . import responses, stamps
from .delegations import carry_out_tool, child_started, child_stopped
from .event_log import note

_NOTIFICATION: Final = re.compile(r"\[ASYNC DELEGATION (?:BATCH )?COMPLETE — (deleg_[0-9a-f]+)\]")


def register(ctx: Any) -> None:
    """Called by Hermes once per process."""
    failed = stamps.install() + responses.install()
    ctx.register_middleware("llm_request", stamps.stamp_turn)
    ctx.register_middleware("llm_execution", responses.note_message_id)
    ctx.register_middleware("tool_execution", carry_out_tool)
    ctx.register_hook("pre_llm_call", turn_started)
    ctx.register_hook("pre_api_request", request_made)
    ctx.register_hook("post_api_request", request_answered)
    ctx.register_hook("api_request_error", request_failed)
    ctx.register_hook("subagent_start", child_started)
    ctx.register_hook("subagent_stop", child_stopped)
    ctx.register_hook("on_session_end", turn_ended)
    note("hook", hook_version=1, harness_version=_version(), failed=",".join(failed))


def _version() -> str | None:
    try:
        return importlib.metadata.version("hermes-agent")
    except importlib.metadata.PackageNotFoundError:
        return None


def turn_started(session_id: Any = None, turn_id: Any = None, user_message: Any = None, **_: Any) -> None:
    """A turn begins; one that a finished background delegation began is told by its message."""
    match = _NOTIFICATION.match(user_message) if isinstance(user_message, str) else None
    delegation_id = match[1] if match else None
    origin = stamps.current_origin()
    note("turn", session_id=session_id, turn_id=turn_id, delegation_id=delegation_id, origin=origin)


def request_made(session_id: Any = None, turn_id: Any = None, api_request_id: Any = None, **_: Any) -> None:
    """A model request is about to be sent; its retries have the same id."""
    origin = stamps.current_origin()
    note("request", session_id=session_id, turn_id=turn_id, request_id=api_request_id, origin=origin)


def request_answered(session_id: Any = None, api_request_id: Any = None, finish_reason: Any = None, **_: Any) -> None:
    """Hermes has taken an answer in."""
    origin = stamps.current_origin()
    note("output", session_id=session_id, request_id=api_request_id, finish=finish_reason, origin=origin)


def request_failed(
    session_id: Any = None,
    api_request_id: Any = None,
    status_code: Any = None,
    retry_count: Any = None,
    reason: Any = None,
    **_: Any,
) -> None:
    """One attempt at a request failed."""
    note(
        "error",
        session_id=session_id,
        request_id=api_request_id,
        status=status_code,
        retry=retry_count,
        reason=str(reason or ""),
    )


def turn_ended(
    session_id: Any = None, turn_id: Any = None, completed: Any = None, interrupted: Any = None, **_: Any
) -> None:
    """A turn is over."""
    note(
        "turn_end",
        session_id=session_id,
        turn_id=turn_id,
        completed=bool(completed),
        interrupted=bool(interrupted),
        origin=stamps.current_origin(),
    )
