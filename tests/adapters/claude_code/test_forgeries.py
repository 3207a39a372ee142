"""Recorded runs whose logs were forged: no call gets a false owner, and no relation is invented.

The headers of the calls are the truth: the program sends them itself, and no agent can reach them.
"""

import dataclasses
import functools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from roller_capture.adapters.claude_code import read
from roller_capture.capture_protocol import AdapterInput, NativeCapture
from roller_capture.finalizer.identity import Attributor
from roller_capture.finalizer.survey import SurveyedCall
from roller_capture.vocabulary import IdentityStatus
from tests.adapters.claude_code.forgeries import FORGERIES, Forgery, Logs
from tests.adapters.claude_code.native_checks import assert_sound, recorded_run
from tests.support.surveyed import surveyed

_SHARED = Path(__file__).parents[2] / "fixtures" / "harness" / "claude-code"
_OWN = Path(__file__).parent / "recorded"
_RUNS = sorted(path.parent for root in (_SHARED, _OWN) for path in root.glob("*/*/calls.json"))
_ROOT = "root"

Tie = tuple[str | None, str, str | None]


@dataclasses.dataclass(frozen=True)
class _Untouched:
    """A run as it was: its input and calls, whose each call is, and what must hold of any forgery of it."""

    source: AdapterInput
    calls: list[SurveyedCall]
    owners: list[str]
    ties: set[Tie]
    outputs: set[str | None]


@functools.cache
def _untouched(run: Path) -> _Untouched:
    source, recorded = recorded_run(run)
    calls, owners = [], []
    for call in recorded:
        headers = call["headers"]
        assert isinstance(headers, dict)
        agent_id = headers.get("x-claude-code-agent-id")
        assert call.get("owner") is None or (call["owner"] == "root") is (agent_id is None)
        owners.append(agent_id or _ROOT)
        named = call.get("tools", [])
        assert isinstance(named, list)
        calls.append(
            surveyed(
                str(call["response_id"]) if call["response_id"] else None,
                agents=(agent_id,) if agent_id else (),
                session=headers["x-claude-code-session-id"],
                tools=tuple((tool_id, name) for name, tool_id in named),
            )
        )
    native = read(source)
    return _Untouched(source, calls, owners, _ties(native), {item.output_id for item in native.coverage.outputs or ()})


def _names(native: NativeCapture) -> dict[str | None, str]:
    """By participant key, the agent id or `root`."""
    return {item.key: item.native_ids.get("agent_id", (_ROOT,))[0] for item in native.participants if _known(item.key)}


def _known(key: str) -> bool:
    return not key.startswith("sidechain:")


def _ties(native: NativeCapture) -> set[Tie]:
    """(parent, child, tool id) of every relation, and of who was launched by whom."""
    names = _names(native)
    ties: set[Tie] = {
        (names.get(item.parent_key, item.parent_key), names.get(item.child_key, item.child_key), item.tool_call_id)
        for item in native.relations
    }
    return ties | {
        (names.get(item.parent_key, item.parent_key), names.get(item.key, item.key), None)
        for item in native.participants
        if item.parent_key is not None
    }


def _owners(native: NativeCapture, calls: list[SurveyedCall]) -> Iterator[str | None]:
    """Who each call is found to belong to; `None` where that is not known."""
    names = _names(native)
    attributor = Attributor(native, calls)
    for identity in (attributor.attribute(call) for call in calls):
        resolved = identity.status is IdentityStatus.RESOLVED
        yield names.get(identity.participant_key, identity.participant_key) if resolved else None


def _forged_runs(run: Path, forgery: Forgery, folder: Path) -> Iterator[tuple[_Untouched, NativeCapture]]:
    shutil.copytree(run / "native", folder)
    untouched = _untouched(run)
    source = dataclasses.replace(untouched.source, native_root=folder)
    original = Logs.load(run / "native")
    last = original
    for logs in forgery(original):
        logs.write(folder, last)
        last = logs
        native = read(source)
        assert_sound(native)
        yield untouched, native


@pytest.mark.parametrize("run", _RUNS, ids=lambda run: f"{run.parent.name}-{run.name}")
def test_every_call_of_an_untouched_run_has_its_true_owner(run: Path) -> None:
    """Else the table below would prove nothing."""
    untouched = _untouched(run)
    assert list(_owners(read(untouched.source), untouched.calls)) == untouched.owners


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.__name__)
@pytest.mark.parametrize("run", _RUNS, ids=lambda run: f"{run.parent.name}-{run.name}")
def test_a_forged_log_gives_no_call_a_false_owner_and_invents_no_relation(
    tmp_path: Path, run: Path, forgery: Forgery
) -> None:
    """A call is its true owner's or unknown; ties are those of the untouched run; what is expected no more is named."""
    for untouched, native in _forged_runs(run, forgery, tmp_path / "native"):
        for owner, truth in zip(_owners(native, untouched.calls), untouched.owners, strict=True):
            assert owner in (None, truth)
        assert _ties(native) <= untouched.ties | {(None, child, tool_id) for _, child, tool_id in untouched.ties}
        lost = untouched.outputs - {item.output_id for item in native.coverage.outputs or ()}
        assert native.gaps or not lost
