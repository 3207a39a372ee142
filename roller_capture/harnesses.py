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
    is_users_own: bool = False
    """A program of the user's, which says itself who calls: it has no hook of ours, nobody has tested it, and which
    protocol it speaks is known only where the user names it."""
    logs: str = ""
    """What the adapter looks for below the native root, in words for a message; capitals stand for what varies."""
    version_header: str | None = None
    """The request header, of those that are stored of any harness, in which it says its version; for one whose logs do
    not hold it."""


_ROWS: Final = (
    Harness(
        "claude-code",
        ("x-claude-code-session-id", "x-claude-code-agent-id", "x-claude-code-parent-agent-id"),
        adapter="roller_capture.adapters.claude_code:read",
        launcher="roller_capture.launchers.claude_code:LAUNCHER",
        logs="projects/FOLDER/SESSION.jsonl",
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
        adapter="roller_capture.adapters.opencode:read",
        launcher="roller_capture.launchers.opencode:LAUNCHER",
        logs="opencode.db",
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
        adapter="roller_capture.adapters.codex:read",
        launcher="roller_capture.launchers.codex:LAUNCHER",
        logs="sessions/YYYY/MM/DD/rollout-TIME-THREAD.jsonl",
    ),
    Harness(
        "hermes",
        (),
        adapter="roller_capture.adapters.hermes:read",
        launcher="roller_capture.launchers.hermes:LAUNCHER",
        logs="state.db",
    ),
    Harness(
        "openclaw",
        ("traceparent",),
        adapter="roller_capture.adapters.openclaw:read",
        launcher="roller_capture.launchers.openclaw:LAUNCHER",
        logs="agents/AGENT/agent/openclaw-agent.sqlite",
    ),
    Harness(
        "pi",
        ("session_id", "session-id", "x-session-id", "x-session-affinity", "x-client-request-id"),
        adapter="roller_capture.adapters.pi:read",
        launcher="roller_capture.launchers.pi:LAUNCHER",
        logs="sessions/FOLDER/TIME_SESSION.jsonl",
    ),
    Harness(
        "deepseek",
        (
            "x-deepseek-harness-session-id",
            "x-deepseek-harness-user-id",
            "x-deepseek-harness-compact",
            # Sent instead of these with Responses requests, through the harness's other providers.
            "session_id",
        ),
        adapter="roller_capture.adapters.deepseek:read",
        launcher="roller_capture.launchers.deepseek:LAUNCHER",
        logs="sessions/FOLDER/SESSION/session.v4.jsonl",
        version_header="user-agent",
    ),
)

# People's own agents are often built on one of the seven, so `generic` keeps what any of them may send.
_GENERIC: Final = Harness(
    "generic",
    tuple(sorted({name for row in _ROWS for name in row.identity_headers})),
    adapter="roller_capture.adapters.generic:read",
    launcher="roller_capture.launchers.generic:LAUNCHER",
    is_users_own=True,
    logs="roller-events.jsonl",
)

HARNESSES: Final[dict[str, Harness]] = {row.name: row for row in (*_ROWS, _GENERIC)}
