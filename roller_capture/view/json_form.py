"""The machine-readable form: one JSON document, agents nested as in the tree, calls without output and context."""

from collections.abc import Iterable, Sequence
from typing import Any

from roller_capture.paths import named
from roller_capture.view.attempt import Attempt, Call
from roller_capture.view.family import Agent, Family
from roller_capture.view.gaps import Gap
from roller_capture.view.provider_words import total
from roller_capture.view.run_end import RunEnd


def attempt_document(attempt: Attempt, family: Family, gaps: Sequence[Gap]) -> dict[str, Any]:
    """An attempt. `participants` are the roots and those without a parent; the others stand where they were spawned."""
    manifest = attempt.manifest
    members = ("capture_id", "harness", "started_at", "closed_at", "execution_status", "capture_status")
    return {
        "path": named(attempt.path),
        **{name: manifest[name] for name in members},
        "run_end": None if attempt.end is None else _run_end(attempt.end),
        "counts": manifest["counts"],
        "other_requests": manifest["other_requests"],
        "lifecycle": attempt.lifecycle,
        "wall_seconds": attempt.wall_seconds(),
        "tokens": _tokens(attempt.calls),
        "models": _models(attempt.calls),
        "gaps": [_gap(gap) for gap in gaps],
        "participants": [_agent(agent, family) for agent in family.top],
        "unowned_calls": [_call(call, None, family) for call in family.unowned],
        "findings": [{"file": name, "message": message} for name, message in attempt.findings],
    }


def _run_end(end: RunEnd) -> dict[str, Any]:
    return {"sentence": end.sentence, "reason": end.reason, "last_words": list(end.last_words)}


def _agent(agent: Agent, family: Family) -> dict[str, Any]:
    record = {key: value for key, value in agent.record.items() if key != "call_ids"}
    return {
        **record,
        "placed_at_top_because": family.strays.get(agent.participant_id),
        "tokens": _tokens(agent.calls),
        "relations": agent.relations,
        "calls": [_call(call, agent, family) for call in agent.calls],
        "children": [_agent(child, family) for child in agent.children],
    }


def _call(call: Call, owner: Agent | None, family: Family) -> dict[str, Any]:
    spawned = owner.spawned.get(call.call_id, []) if owner else []
    return {
        **call.record,
        "finish": call.finish,
        "tokens": _tokens([call]),
        "children": [_agent(child, family) for child in spawned],
    }


def _tokens(calls: Iterable[Call]) -> dict[str, int | None]:
    sums = total(call.tokens for call in calls)
    tokens = sums.tokens
    return {
        "input": tokens.input,
        "output": tokens.output,
        "cache_read": tokens.cache_read,
        "cache_creation": tokens.cache_creation,
        "calls_without_usage": sums.unreported,
    }


def _models(calls: Iterable[Call]) -> dict[str, int]:
    models: dict[str, int] = {}
    for call in calls:
        model = call.record["model"]["responded"] or call.record["model"]["requested"]
        if model is not None:
            models[model] = models.get(model, 0) + 1
    return models


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "code": gap.code,
        "sentence": gap.sentence,
        "next_step": gap.next_step,
        "call_ids": list(gap.call_ids),
        "participant_ids": list(gap.participant_ids),
    }
