"""Notes which tool call made which child: Hermes's database names the parent of a child, and not the tool call.

The hook `subagent_start` fires while the tool call is being carried out, in its thread, before the child's first
request; so a context variable set around the tool call says which one it is. One call may make several children.
"""

import contextlib
import contextvars
import importlib
import os
from typing import Any, Final

from .event_log import note
from .stamps import beside_turn, of_nobody

TOOL: Final = "delegate_task"
FINITE: Final = "ROLLER_HERMES_FINITE"

_call: contextvars.ContextVar[str] = contextvars.ContextVar("roller_delegation", default="")


def carry_out_tool(
    tool_name: str = "", args: Any = None, next_call: Any = None, tool_call_id: str = "", session_id: str = "", **_: Any
) -> Any:
    """`tool_execution` middleware: remembers the tool call, and for whom auxiliary calls inside it are made.

    Children may run in the thread of the tool call that made them; what they ask beside their turns is not their
    parent's, and so nobody's unless they say themselves whose it is.
    """
    if tool_name != TOOL:
        with beside_turn(session_id=session_id):
            return next_call(args)
    if os.environ.get(FINITE) == "1":
        _wait_for_children()
    token = _call.set(str(tool_call_id))
    try:
        with of_nobody():
            return next_call(args)
    finally:
        _call.reset(token)


def _wait_for_children() -> None:
    """What `hermes -z` does by itself: tells Hermes that no later turn could receive a result."""
    with contextlib.suppress(Exception):
        importlib.import_module("gateway.session_context").declare_stateless_channel()


def child_started(
    child_session_id: Any = None, parent_session_id: Any = None, child_subagent_id: Any = None, **_: Any
) -> None:
    """Hook `subagent_start`."""
    note(
        "child",
        session_id=child_session_id,
        parent_session_id=parent_session_id,
        subagent_id=child_subagent_id,
        tool_call_id=_call.get(),
    )


def child_stopped(
    child_session_id: Any = None, parent_session_id: Any = None, child_status: Any = None, **_: Any
) -> None:
    """Hook `subagent_stop`."""
    note("child_end", session_id=child_session_id, parent_session_id=parent_session_id, status=child_status)
