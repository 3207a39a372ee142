"""Says whether the plugin beside it fits the installed Hermes: run by Hermes's own Python, prints one line of JSON.

`{"problems": [], "version": "…"}` when it fits. Only names are looked up: the parts of Hermes that take a second to
load are read as text.
"""

import importlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_HOOKS: Final = (
    "pre_llm_call",
    "pre_api_request",
    "post_api_request",
    "api_request_error",
    "subagent_start",
    "subagent_stop",
    "on_session_end",
)
_MIDDLEWARE: Final = ("llm_request", "llm_execution", "tool_execution")
_IN_SOURCE: Final = {
    "run_agent": ("def _handle_max_iterations(", "def _compress_context("),
    "agent.auxiliary_client": ("def call_llm(", "async def async_call_llm("),
    "agent.title_generator": ("def auto_title_session(",),
    "gateway.session_context": ("def declare_stateless_channel(",),
    "agent.conversation_loop": ("apply_llm_request_middleware(", "api_request_id=api_request_id"),
    "tools.delegate_tool": ('"subagent_start"', "child_session_id="),
    "tools.skill_provenance": ("def get_current_write_origin(",),
}


def problems() -> Iterator[str]:
    """What the plugin needs and this Hermes has not."""
    try:
        middleware = importlib.import_module("hermes_cli.middleware").VALID_MIDDLEWARE
        hooks = importlib.import_module("hermes_cli.plugins").VALID_HOOKS
    except Exception as error:  # noqa: BLE001 - whatever an unknown version raises
        yield f"no plugin interface ({type(error).__name__})"
        return
    yield from (f"no hook {name}" for name in _HOOKS if name not in hooks)
    yield from (f"no middleware {name}" for name in _MIDDLEWARE if name not in middleware)
    for module, needed in _IN_SOURCE.items():
        text = _source(module)
        yield from (f"no {piece!r} in {module}" for piece in needed if piece not in text)


def version() -> str | None:
    """The installed version, or `None`."""
    try:
        return importlib.metadata.version("hermes-agent")
    except importlib.metadata.PackageNotFoundError:
        return None


def _source(module: str) -> str:
    try:
        spec = importlib.util.find_spec(module)
        return Path(spec.origin).read_text(encoding="utf-8") if spec is not None and spec.origin else ""
    except (ImportError, OSError, UnicodeDecodeError, AttributeError):
        return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"problems": list(problems()), "version": version()}) + "\n")
