"""Takes everything out of Claude Code's native logs that is not structure, ids, numbers or our own words.

What a fixture may hold is an allow-list: strings without blanks (ids, names, types, paths), the string literals of our
scenarios, tags, ids and a few fixed markers of the harness that a reader of its logs has to know. All other text
becomes an ellipsis, and bulky records (prompt snapshots, request blobs, listings) keep their keys only.
"""

import ast
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from roller_capture.scripted_provider import claude_code_scenarios

WORKSPACE = "/workspace"
_GAP = "…"
_MARKERS = (
    "Async agent launched successfully",
    "[Subagent hand-back]",
    "[Request interrupted by user for tool use]",
    "[Request interrupted by user]",
    "(Bash completed with no output)",
    "Agent terminated early due to an API error",
    "No such tool available",
    "[SYSTEM NOTIFICATION",
    "Connection lost mid-response",
    "Connection closed mid-response",
    "Connection error",
    "scripted failure",
    "scripted overload",
    "API Error:",
    "Error:",
    "Exit code",
)
_KEPT = (
    r"</?[a-z][\w-]*>",  # tags
    r"agentId: \w+",
    r"\[?n0n[0-9a-f]{12}n\]?",
    r"\w*n0n[0-9a-f]{12}n\w*",
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    r"\ba[0-9a-f]{16}\b",
    r"/[\w./-]+",
    r"\b(?:subagent_tokens|tool_uses|duration_ms): \d+",
    r"(?<=>)[^<>\s]+(?=<)",  # one word alone in a tag
    r"\b[45]\d\d\b",
)
_TOP_LEVEL_BULK = {"api-request-shape": {"shape"}, "api-request-blob": {"message"}}
_STDOUT_KEPT = {"system", "result"}
_STDOUT_INIT = ("type", "subtype", "cwd", "session_id", "model", "permissionMode", "claude_code_version", "uuid")


@cache
def _allowed() -> re.Pattern[str]:
    tree = ast.parse(Path(claude_code_scenarios.__file__).read_text(encoding="utf-8"))
    own = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    phrases = {word.strip() for word in own if not word.strip().isidentifier() and len(word.strip()) > 3}
    words = sorted(phrases | set(_MARKERS), key=len, reverse=True)
    return re.compile("|".join([*_KEPT[:4], *(re.escape(word) for word in words), *_KEPT[4:]]))


def sanitised_text(text: str) -> str:
    """The text without foreign prose; line breaks stay."""
    if not re.search(r"\s", text.strip()):
        return text
    if text.startswith("{"):
        try:
            return json.dumps(sanitised(json.loads(text)), separators=(",", ":"), ensure_ascii=False)
        except ValueError:
            pass
    return "\n".join(_sanitised_line(line) for line in text.split("\n"))


def _sanitised_line(line: str) -> str:
    kept: list[str] = []
    end = 0
    for match in _allowed().finditer(line):
        kept += [_between(line[end : match.start()]), match.group()]
        end = match.end()
    return "".join([*kept, _between(line[end:])])


def _between(text: str) -> str:
    """Blanks and punctuation as they are; anything with a letter in it is gone."""
    if not re.search(r"[^\W\d]", text):
        return text
    return text[: len(text) - len(text.lstrip())] + _GAP + text[len(text.rstrip()) :]


def sanitised(value: Any) -> Any:
    """A JSON value with each of its strings sanitised."""
    if isinstance(value, str):
        return sanitised_text(value)
    if isinstance(value, list):
        return [sanitised(item) for item in value]
    if isinstance(value, dict):
        return {key: sanitised(item) for key, item in value.items()}
    return value


def sanitised_stdout(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """One line of the harness's output stream, or `None` for a line that repeats a native log."""
    if record.get("type") not in _STDOUT_KEPT:
        return None
    if record.get("subtype") == "init":
        return {key: record[key] for key in _STDOUT_INIT if key in record}
    return {key: sanitised(value) for key, value in record.items()}


def sanitised_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """One line of a native log."""
    kind = record.get("type")
    result = {key: sanitised(value) for key, value in record.items() if key not in _TOP_LEVEL_BULK.get(str(kind), ())}
    if kind == "api-request":
        result["params"] = {"model": record["params"]["model"]}
    attachment = record.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") != "queued_command":
        result["attachment"] = {"type": attachment.get("type")}
        result.pop("rendered", None)
    return result


class Neutral:
    """Replaces what names this machine: the run's folders and their slugs, and user ids in temporary paths."""

    def __init__(self, workspace: Path, home: Path) -> None:
        self.slug = slug(str(workspace))
        self._replacements = (
            (str(workspace), WORKSPACE),
            (str(home), "/home/user"),
            (self.slug, slug(WORKSPACE)),
        )

    def __call__(self, text: str) -> str:
        for old, new in self._replacements:
            text = text.replace(old, new)
        return re.sub(r"/tmp/claude-\d+/", "/tmp/claude-1000/", text)  # noqa: S108 - a path in a log


def slug(path: str) -> str:
    """The folder name that Claude Code makes of a working directory."""
    return re.sub(r"[^A-Za-z0-9]", "-", path)
