"""A real run, seen by our recorder and by a bare mitmdump before it: the same calls, apart from what is named."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture.demo import scripted_agents
from roller_capture.demo_client import run_client
from roller_capture.finalize_attempt import FinalizeRequest, finalize_attempt
from roller_capture.importing.command import ImportRequest, import_attempt
from roller_capture.importing.native_logs import copy_logs
from roller_capture.integrity import validate_attempt
from roller_capture.proxy_process import ProxyProcess
from roller_capture.replay import replay_findings
from roller_capture.scripted_provider import ScriptedProvider
from roller_capture.vocabulary import DebugRetention, ExecutionStatus
from tests.support.bare_mitmdump import bare_mitmdump


def _keeps_streamed() -> bool:
    """Whether this mitmproxy has the option; its module is not imported for that, since it imports the world."""
    found = importlib.util.find_spec("mitmproxy")
    assert found is not None
    assert found.origin is not None
    return "store_streamed_bodies" in (Path(found.origin).parent / "addons" / "proxyserver.py").read_text()


# What a flow does not tell, or what differs since the two recorders stand at different places of the way.
_OF_THE_PLACE = ("call_id", "participant_id", "identity_candidates", "endpoint", "timing", "response_path")


class Run:
    """The demo's agent behind a bare mitmdump behind our recorder; each writes its own files below `folder`."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.flows, self.har, self.home = folder / "flows.mitm", folder / "run.har", folder / "home"
        self.attempt = folder / "recorded"
        self.home.mkdir()
        with (
            ScriptedProvider(scripted_agents()) as provider,
            ProxyProcess(self.attempt, "claude-code", provider.url) as proxy,
            bare_mitmdump(proxy.url, self.flows, "--set", f"hardump={self.har}", *options) as url,
        ):
            run_client(url, self.home, "ROOT: go")

    def published(self, attempt: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
        """Manifest, calls and relations; the attempt validates, and its raw/ gives the same records again."""
        status, keep = ExecutionStatus.COMPLETED, DebugRetention.FULL
        if attempt == self.attempt:
            copy_logs(attempt, "claude-code", self.home, ())
        finalize_attempt(attempt, FinalizeRequest(debug_retention=keep, execution_status=status))
        assert validate_attempt(attempt, deep=True) == []
        assert replay_findings(attempt) == []
        manifest = json.loads((attempt / "manifest.json").read_bytes())
        return manifest, _lines(attempt / "calls.jsonl"), _lines(attempt / "relations.jsonl")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with whole bodies in the flows."""
    return Run(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def recorded(run: Run) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """What our recorder saw."""
    return run.published(run.attempt)


def test_flows_give_the_same_calls(run: Run, recorded: Any, tmp_path: Path) -> None:
    """Contexts, outputs, statuses, hashes, identities and relations; only times of pieces are not there."""
    outcome = import_attempt(ImportRequest((run.flows,), tmp_path / "imported", "claude-code", run.home))
    assert (outcome.calls, outcome.native_files) == (4, 3)
    manifest, calls, relations = run.published(tmp_path / "imported")
    for ours, theirs in zip(recorded[1], calls, strict=True):
        assert _comparable(ours) == _comparable(theirs)
        timing = theirs["timing"]
        assert [timing[name] for name in ("first_byte", "first_byte_ms", "duration_ms", "chunks")] == [None] * 4
        assert timing["request_start"] < timing["request_end"] <= timing["end"]
    assert [item["type"] for item in relations] == [item["type"] for item in recorded[2]]
    assert [_native_evidence(item) for item in relations] == [_native_evidence(item) for item in recorded[2]]
    assert manifest["capture_status"] == "partial"
    assert {error["code"] for error in manifest["errors"]} == {"import_calls_unproven", "import_timing_unknown"}
    assert {reason["code"] for reason in manifest["status_reasons"]} == {"errors"}
    assert recorded[0]["capture_status"] == "complete"


def _comparable(call: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in call.items() if name not in _OF_THE_PLACE}
    # The second proxy asks another host, and has headers of its own for that.
    http = {name: value for name, value in rest["http"].items() if not name.startswith("request_other")}
    return {**rest, "http": http}


def _native_evidence(relation: dict[str, Any]) -> list[tuple[str, str]]:
    """Places in the harness's logs; those in the calls hold the ids of the capture."""
    return [(item["source"], item["locator"]) for item in relation["evidence"] if "projects" in item["source"]]


def test_a_har_gives_the_same_texts_but_no_proof_of_bytes(run: Run, recorded: Any, tmp_path: Path) -> None:
    """Contexts and outputs are the same; every call is barred until somebody allows it, and says why."""
    import_attempt(ImportRequest((run.har,), tmp_path / "imported", "claude-code", run.home))
    manifest, calls, relations = run.published(tmp_path / "imported")
    for ours, theirs in zip(recorded[1], calls, strict=True):
        for name in ("context", "context_sha256", "output", "usage", "response_id", "execution_status", "protocol"):
            assert ours[name] == theirs[name], name
        assert theirs["request_sha256"] is None
        assert theirs["export_blockers"] == ["capture_error"]
        assert "import_bytes_unproven" in {error["code"] for error in theirs["errors"]}
        assert theirs["capture_status"] == "partial"
    assert len(relations) == len(recorded[2])
    assert {reason["code"] for reason in manifest["status_reasons"]} == {"call_incomplete", "errors"}


def test_streamed_bodies_are_missing_and_named(tmp_path: Path) -> None:
    """What `stream_large_bodies` let past is in no flow: no call of it is ever exportable, and none is lost."""
    run = Run(tmp_path, "--set", "stream_large_bodies=1")
    import_attempt(ImportRequest((run.flows,), tmp_path / "imported", "claude-code", run.home))
    _, calls, _ = run.published(tmp_path / "imported")
    assert len(calls) == 4
    for call in calls:
        assert {"request_incomplete", "capture_error", "response_incomplete"} <= set(call["export_blockers"])
        codes = [error["code"] for error in call["errors"]]
        assert "import_body_missing" in codes
        assert "terminal_marker_missing" not in codes
        assert (call["output"], call["context"], call["request_sha256"]) == (None, None, None)


@pytest.mark.skipif(not _keeps_streamed(), reason="this mitmproxy cannot keep bodies that it streams")
def test_streamed_bodies_that_mitmproxy_kept_are_whole(tmp_path: Path) -> None:
    """`store_streamed_bodies` of mitmproxy 12."""
    run = Run(tmp_path, "--set", "stream_large_bodies=1", "--set", "store_streamed_bodies=true")
    import_attempt(ImportRequest((run.flows,), tmp_path / "imported", "claude-code", run.home))
    _, calls, _ = run.published(tmp_path / "imported")
    assert [call["export_status"] for call in calls] == ["exportable"] * 4
