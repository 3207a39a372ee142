"""An attempt in which every text that can be chosen tries to become markup or script, or to deceive the eye."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.publish import publish_family
from tests.view.published import Record, forge

CANARY = "window.canary = 1"
ATTACKS = (
    f"</script><script>{CANARY}</script>",
    f"<!--<script>{CANARY}</script>-->",
    f"<img src=x onerror='{CANARY}'>",
    f"<svg onload='{CANARY}'>",
    f'"><iframe srcdoc="<script>parent.{CANARY}</script>">',
    f"javascript:{CANARY}",
    f"`${{{CANARY}}}` {{{{constructor.constructor('{CANARY}')()}}}}",
    "<style>*{display:none}</style><base href='http://evil.example/'><meta http-equiv=refresh content=0;url=http://evil.example/>",
    "\u2028\u2029 \u202ereversed\u202c \u2066isolated\u2069 \u200bzero\ufeff \x00\x07\x1b[31m red \x9b",
    "\ud800 a surrogate alone",
    "http://evil.example/picture.png <link rel=stylesheet href=http://evil.example/x.css>",
)
ALL = " ".join(ATTACKS)


def hostile_attempt(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Published, then forged: ids, names, models, errors, texts, tools, keys of objects."""
    publish_family(directory, monkeypatch)
    return forge(directory, manifest=_manifest, calls=_calls, relations=_relations)


def _manifest(whole: Record) -> None:
    whole["harness"] |= {"name": ALL, "version": ALL}
    for participant in whole["participants"]:
        participant["native_ids"] = {"session_id": [ALL, participant["participant_id"]], "agent_id": [ALL]}
    whole["capture_status"] = "partial"
    whole["status_reasons"] = [{"code": "errors", "count": 1, "call_ids": []}]
    whole["errors"] = [{"code": "recorder_error", "count": 1, "message": ALL, "source": ALL, "locator": ALL}]


def _calls(records: list[Record]) -> None:
    for call in records:
        call["model"] |= {"requested": ALL, "responded": ALL}
        call["endpoint"] |= {"path": ALL, "host": ALL}
        call["tool_refs"] = [{"tool_call_id": ALL, "item_id": ALL, "name": ALL}]
        call["errors"] = [{"code": "http_error", "message": ALL, "cut_by": None}]
        call["http"]["request_headers"] = {"x": [ALL]}
        call["output"] |= {
            "stop_reason": ALL,
            "content": [
                {"type": "text", "text": ALL},
                {"type": "thinking", "thinking": ALL},
                {"type": "tool_use", "id": ALL, "name": ALL, "input": {ALL: ALL, "__proto__": {"x": ALL}}},
                {"type": ALL, ALL: [ALL]},
            ],
        }
        call["context"] |= {
            "system": ALL,
            "tools": [{"name": ALL, "description": ALL, "input_schema": {ALL: ALL}}],
            ALL: ALL,
            "messages": [*call["context"]["messages"], *_messages()],
        }


def _messages() -> list[Any]:
    return [
        {"role": ALL, "content": ALL},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": ALL, "content": ALL}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": ALL}}]},
        [ALL],
        ALL,
        None,
        {"content": {"odd": ALL}},
    ]


def _relations(records: list[Record]) -> None:
    for relation in records:
        relation["tool_call_id"] = ALL
        for item in relation["evidence"]:
            item |= {"locator": ALL, "source": ALL}
        if relation["context_pointer"] is not None:
            relation["context_pointer"] = f"/{json.dumps(ALL)}"
