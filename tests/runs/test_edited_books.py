"""Books and configuration that somebody has edited into what no run says of itself are found by `check_run`."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture import json_text
from roller_capture.runs.check import check_run
from tests.runs.made_run import MadeRun, edit


def problems(run: MadeRun) -> list[str]:
    """All that is said of the run, by the file."""
    report = check_run(run.directory)
    found = [f"{finding.file}: {finding.message}" for finding in report.findings]
    for sample in report.samples:
        found += [f"{path.relative_to(run.directory)}: {text}" for path, text in sample.problems()]
    return found


@pytest.mark.parametrize(
    ("name", "first", "said"),
    [
        ("run.json", '{"mode": "uncaptured",', "run.json: is no JSON ('mode' is there twice)"),
        ("samples/a/sample.json", '{"state": "failed",', "samples/a/sample.json: is no JSON ('state' is there twice)"),
    ],
)
def test_a_member_that_is_there_twice(name: str, first: str, said: str, run: MadeRun) -> None:
    """One reader takes the first one, another the last."""
    run.done("a")
    path = run.directory / name
    path.write_text(path.read_text().replace("{", first, 1))
    assert problems(run) == [said]


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"api_base": None}, "mode is captured, without an api_base"),
        ({"network": "bridge"}, "mode is captured, with network bridge"),
        ({"wire_trace": False}, "mode is captured, without wire_trace"),
    ],
)
def test_a_captured_run_without_what_capturing_needs(members: dict[str, Any], said: str, run: MadeRun) -> None:
    """The protocol, "Enabling"."""
    run.done("a")
    edit(run.directory / "run.json", lambda document: document.update(members))
    assert problems(run) == [f"run.json: {said}"]


def test_a_version_that_only_the_logs_tell_is_no_contradiction(run: MadeRun) -> None:
    """An agent of one's own words it as it likes; what was started is in the run's configuration."""
    sample = run.done("a")
    manifest = run.attempt("a") / "manifest.json"
    document = json_text.parse(manifest.read_bytes())
    document["harness"]["version"] = "0.0.1"
    manifest.write_bytes(json_text.dumps_indented(document) + b"\n")
    edit(sample.file, lambda document: document["attempts"][0].update(manifest_sha256=_sha256(manifest)))
    assert problems(run) == []


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("change", [lambda text: text + b" ", lambda text: text.replace(b'"tested": ', b'"tested":  ')])
def test_the_books_are_the_first_to_speak(change: Callable[[bytes], bytes], run: MadeRun) -> None:
    """Whatever else is wrong with a manifest, its hash is not the one that was recorded."""
    run.done("a")
    manifest = run.attempt("a") / "manifest.json"
    manifest.write_bytes(change(manifest.read_bytes()))
    assert "its sha256 is not the one that sample.json has recorded" in problems(run)[0]
