"""Puts the `x-roller-*` headers on model requests. They are read and taken off by the recording proxy.

An agent's own turns pass Hermes's `llm_request` middleware, which is told the session of the very instance that asks.
Calls beside the turns (title, compression, vision, the summary at the iteration limit) do not pass it. They are made in
the thread that wants them, so a context variable says for whom and for what, and the HTTP client reads it.
"""

import contextlib
import contextvars
import functools
import importlib
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

SESSION: Final = "x-roller-session"
REQUEST: Final = "x-roller-request"
TASK: Final = "x-roller-task"
TURN: Final = "turn"
"""The task of an agent's own turns. All others are Hermes's own words, save the next."""
SUMMARY: Final = "iteration_limit_summary"

_FOREGROUND: Final = frozenset({"foreground", "assistant_tool"})

_session: contextvars.ContextVar[str] = contextvars.ContextVar("roller_session", default="")
_task: contextvars.ContextVar[str] = contextvars.ContextVar("roller_task", default="")


def stamp_turn(request: Any = None, session_id: str = "", api_request_id: str = "", **_: Any) -> dict[str, Any] | None:
    """`llm_request` middleware: who asks, and which request this is. A retry has the same id."""
    if not isinstance(request, dict) or not session_id:
        return None
    headers = {SESSION: str(session_id), REQUEST: str(api_request_id), TASK: current_origin()}
    return {"request": {**request, "extra_headers": {**(request.get("extra_headers") or {}), **headers}}}


def current_origin() -> str:
    """`turn`, or Hermes's own word for an instance that works behind the user's back (`background_review`).

    Such an instance has the session id of the one that it reviews.
    """
    try:
        origin = str(importlib.import_module("tools.skill_provenance").get_current_write_origin())
    except Exception:  # noqa: BLE001
        return "unknown"
    return TURN if origin in _FOREGROUND else origin


@contextlib.contextmanager
def beside_turn(*, session_id: object = None, task: object = None) -> Iterator[None]:
    """Calls that are made inside, and pass no middleware, belong to this session and task."""
    tokens = [
        (variable, variable.set(value))
        for variable, value in ((_session, session_id), (_task, task))
        if isinstance(value, str) and value
    ]
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)


@contextlib.contextmanager
def of_nobody() -> Iterator[None]:
    """Calls that are made inside, and pass no middleware, belong to no session, unless they say themselves to which."""
    token = _session.set("")
    try:
        yield
    finally:
        _session.reset(token)


def install() -> list[str]:
    """Wraps the places where calls beside the turns begin, and the HTTP clients. Returns what could not be wrapped."""
    steps: Mapping[str, Callable[[], None]] = {
        "httpx.Client.send": _wrap_http_clients,
        "AIAgent._handle_max_iterations": _wrap_summary,
        "AIAgent._compress_context": _wrap_compression,
        "agent.title_generator.auto_title_session": _wrap_title,
        "agent.auxiliary_client.call_llm": _wrap_auxiliary_calls,
    }
    failed = []
    for name, step in steps.items():
        try:
            step()
        except Exception:  # noqa: BLE001 - calls of that kind then go out without headers
            failed.append(name)
    return failed


def _stamp_http(request: Any) -> None:
    task = _task.get()
    if not task or SESSION in request.headers or TASK in request.headers:
        return
    session_id = _session.get()
    if session_id:
        request.headers[SESSION] = session_id
        request.headers[REQUEST] = f"{session_id}:beside:{uuid.uuid4().hex[:8]}"
    request.headers[TASK] = task


def _wrap_http_clients() -> None:
    httpx = importlib.import_module("httpx")
    send, send_async = httpx.Client.send, httpx.AsyncClient.send

    @functools.wraps(send)
    def stamped(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            _stamp_http(request)
        return send(self, request, *args, **kwargs)

    @functools.wraps(send_async)
    async def stamped_async(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            _stamp_http(request)
        return await send_async(self, request, *args, **kwargs)

    httpx.Client.send = stamped
    httpx.AsyncClient.send = stamped_async


def _wrap_method(name: str, task: str | None) -> None:
    agent_class = importlib.import_module("run_agent").AIAgent
    original = getattr(agent_class, name)

    @functools.wraps(original)
    def inside(self: Any, *args: Any, **kwargs: Any) -> Any:
        with beside_turn(session_id=getattr(self, "session_id", None), task=task):
            return original(self, *args, **kwargs)

    setattr(agent_class, name, inside)


def _wrap_summary() -> None:
    _wrap_method("_handle_max_iterations", SUMMARY)


def _wrap_compression() -> None:
    _wrap_method("_compress_context", None)  # the auxiliary call inside says its task itself


def _wrap_title() -> None:
    title_generator = importlib.import_module("agent.title_generator")
    original = title_generator.auto_title_session

    @functools.wraps(original)
    def inside(session_db: Any, session_id: Any, *args: Any, **kwargs: Any) -> Any:
        with beside_turn(session_id=session_id):
            return original(session_db, session_id, *args, **kwargs)

    title_generator.auto_title_session = inside


def _wrap_auxiliary_calls() -> None:
    auxiliary_client = importlib.import_module("agent.auxiliary_client")
    call, call_async = auxiliary_client.call_llm, auxiliary_client.async_call_llm

    @functools.wraps(call)
    def inside(task: Any = None, **kwargs: Any) -> Any:
        with beside_turn(task=task or "auxiliary"):
            return call(task, **kwargs)

    @functools.wraps(call_async)
    async def inside_async(task: Any = None, **kwargs: Any) -> Any:
        with beside_turn(task=task or "auxiliary"):
            return await call_async(task, **kwargs)

    # Modules that are loaded already hold these functions under the same names.
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for name, old, new in (("call_llm", call, inside), ("async_call_llm", call_async, inside_async)):
            if names.get(name) is old:
                setattr(module, name, new)
