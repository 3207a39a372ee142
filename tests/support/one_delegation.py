"""A published capture of one delegation beside the provider's record of it, as plain values."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roller_capture.acceptance.captured_run import Capture
from roller_capture.scripted_provider import TruthRecord
from roller_capture.vocabulary import Protocol

TOOL_ID = "toolu_a"


def mark(number: int) -> str:
    """The nonce of an answer."""
    return f"n0n{number:012x}n"


def record(
    number: int,
    owner: str,
    tools: tuple[tuple[str, str], ...] = (),
    results: Mapping[str, frozenset[str]] | None = None,
) -> TruthRecord:
    """One request and its whole answer."""
    return TruthRecord(
        number=number,
        protocol=Protocol.ANTHROPIC_MESSAGES,
        path="/v1/messages",
        owner=owner,
        nonce=mark(number),
        response_id=f"msg_{mark(number)}",
        tools=tools,
        model="m",
        finish=None,
        status=200,
        streamed=True,
        request_sha256="",
        request_bytes=0,
        nonces_seen=frozenset().union(*(results or {}).values()),
        results_seen=results or {},
        headers={},
        terminal_sent=True,
    )


TRUTH = (
    record(1, "root", (("Agent", TOOL_ID),)),
    record(2, "child-a"),
    record(3, "root", results={TOOL_ID: frozenset({mark(2)})}),
)


def call(number: int, owner: str) -> dict[str, Any]:
    """A published call."""
    return {
        "call_id": f"c{number}",
        "participant_id": owner,
        "export_status": "exportable",
        "purpose": "agent",
        "response_id": f"msg_{mark(number)}",
        "context": {"messages": ["prompt", {"tool_use_id": TOOL_ID}]},
    }


def relation(kind: str, context_call: str | None = None) -> dict[str, Any]:
    """A published relation of the one delegation."""
    return {
        "type": kind,
        "parent_participant_id": "p1",
        "child_participant_id": "p2",
        "tool_call_id": TOOL_ID,
        "parent_call_id": "c1",
        "context_call_id": context_call,
        "context_pointer": "/messages/1" if context_call else None,
    }


def participant(identifier: str, role: str, parent: str | None) -> dict[str, Any]:
    """A published participant."""
    return {
        "participant_id": identifier,
        "role": role,
        "parent_participant_id": parent,
        "execution_status": "completed",
    }


def good() -> dict[str, Any]:
    """A capture that is as it must be: the root delegates once."""
    return {
        "calls": [call(1, "p1"), call(2, "p2"), call(3, "p1")],
        "relations": [
            relation("spawn"),
            relation("child_completed"),
            relation("result_delivered"),
            relation("result_in_context", "c3"),
        ],
        "manifest": {
            "participants": [
                {
                    "participant_id": "p1",
                    "role": "root",
                    "parent_participant_id": None,
                    "execution_status": "completed",
                },
                {
                    "participant_id": "p2",
                    "role": "child",
                    "parent_participant_id": "p1",
                    "execution_status": "completed",
                },
            ],
            "lifecycle": {"status": "complete", "pending_participant_ids": []},
            "status_reasons": [],
            "errors": [],
            "capture_status": "complete",
            "execution_status": "completed",
            "capabilities": {
                "native_output_coverage": {
                    "strength": "per_id",
                    "status": "complete",
                    "expected": 3,
                    "surplus_calls": 0,
                }
            },
        },
        "code": 0,
    }


def captured(published: Mapping[str, Any]) -> Capture:
    """The capture beside the truth of the one delegation."""
    return Capture(
        TRUTH,
        0,
        0,
        Path("attempt"),
        published["manifest"],
        tuple(published["calls"]),
        tuple(published["relations"]),
        subprocess.CompletedProcess([], published["code"], "", "a finding"),
    )
