"""The registry row of every harness that can be named with `roller_harness`.

The recorder imports this module, so it holds plain data only; adapters are named as text and imported
by `roller_capture.adapter_registry`.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Harness:
    """A harness by its public name.

    `identity_headers` are the request headers, in lower case, that the harness itself sends and that hold native ids
    or its own marks. The recorder stores their values and forwards them untouched; what each of them may prove is the
    adapter's business.
    """

    name: str
    identity_headers: tuple[str, ...]
    adapter: str | None = None
    """`module:function` of the adapter, as text, so that naming a harness imports none."""
    launcher: str | None = None
    """`module:object` of the launcher that `collect` uses, in the same way."""


_ROWS: Final = (
    Harness(
        "claude-code",
        ("x-claude-code-session-id", "x-claude-code-agent-id", "x-claude-code-parent-agent-id"),
        adapter="roller_capture.adapters.claude_code:read",
        launcher="roller_capture.launchers.claude_code:LAUNCHER",
    ),
    Harness(
        "opencode",
        (
            "x-session-id",
            "x-session-affinity",
            "x-parent-session-id",
            # Sent instead of the three above for provider ids that begin with "opencode".
            "x-opencode-session",
            "x-opencode-request",
            "x-opencode-project",
            "x-opencode-client",
        ),
    ),
    Harness(
        "codex",
        (
            "thread-id",
            "session-id",
            "x-client-request-id",
            "x-codex-window-id",
            "x-codex-parent-thread-id",
            "x-codex-turn-metadata",
            "x-openai-subagent",
            "x-openai-memgen-request",
            "x-openai-internal-codex-responses-lite",
        ),
    ),
    Harness("hermes", ()),
    Harness("openclaw", ("traceparent",)),
    Harness("pi", ("session_id", "session-id", "x-session-id", "x-session-affinity", "x-client-request-id")),
    Harness(
        "deepseek",
        ("x-deepseek-harness-session-id", "x-deepseek-harness-user-id", "x-deepseek-harness-compact"),
    ),
)

# People's own agents are often built on one of the seven, so `generic` keeps what any of them may send.
_GENERIC: Final = Harness("generic", tuple(sorted({name for row in _ROWS for name in row.identity_headers})))

HARNESSES: Final[dict[str, Harness]] = {row.name: row for row in (*_ROWS, _GENERIC)}
