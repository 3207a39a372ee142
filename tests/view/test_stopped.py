"""Calls of a harness that `collect` has stopped: the same words in every view."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roller_capture.publication import MANIFEST
from roller_capture.view.attempt import load_attempt
from roller_capture.view.command import view
from roller_capture.view.family import family_of
from roller_capture.view.gaps import gaps_of
from roller_capture.view.html.command import PageRequest, write_html
from roller_capture.view.stopped import stopped_by_collect
from tests.support.publish import publish_family
from tests.view.html.page_data import PageData
from tests.view.published import forge

_ONE = "collect has stopped the harness: if it had a call open then, it is this one"
_MANY = "collect has stopped the harness: if it had calls open then, they are among these"
_LAUNCHER = "raw/native/launcher.json"
_CUT = {"code": "response_cut", "message": "the client left", "cut_by": "client"}

_LEFT = {
    "execution_status": "interrupted",
    "response_capture_status": "partial",
    "capture_status": "partial",
    "export_status": "blocked",
    "export_blockers": ["response_incomplete"],
    "errors": [_CUT],
}

Stopped = Callable[[str], Path]


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stopped:
    """Two calls that the client left, in a run that ended so."""
    publish_family(tmp_path / "attempt", monkeypatch)
    return lambda ended_by: _ended(tmp_path / "attempt", ended_by)


def _ended(attempt: Path, ended_by: str) -> Path:

    def cut(calls: list[dict[str, Any]]) -> None:
        for call in calls[1:]:
            call.update(_LEFT)

    def note(manifest: dict[str, Any]) -> None:
        ids = [call["call_id"] for call in _calls(attempt)[1:]]
        manifest["status_reasons"] = [{"code": "call_incomplete", "count": 2, "call_ids": ids}]
        manifest["files"][_LAUNCHER] = manifest["files"]["calls.jsonl"]

    (attempt / _LAUNCHER).parent.mkdir(parents=True, exist_ok=True)
    (attempt / _LAUNCHER).write_text(json.dumps({"ended_by": ended_by}))
    return forge(attempt, calls=cut, manifest=note)


def _calls(attempt: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (attempt / "calls.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("ended_by", ["signal", "timeout", "drain_timeout", "collect"])
def test_every_view_says_who_stopped_them(
    stopped: Stopped, tmp_path: Path, ended_by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gap on the terminal, on the page, and in the machine-readable form; a call's own line says what was seen."""
    attempt = stopped(ended_by)
    sentence = f"2 calls were left by their client: #2-#3; {_MANY}"
    view(attempt)
    shown = capsys.readouterr().out
    assert f"  {sentence}.\n" in shown
    assert shown.count("response_cut (cut by client): the client left\n") == 2
    assert shown.count("collect has stopped") == 1
    view(attempt, json_output=True)
    assert [gap["sentence"] for gap in json.loads(capsys.readouterr().out)["gaps"]] == [sentence]
    page = tmp_path / "page.html"
    write_html(PageRequest(attempt, page))
    index = PageData(page).attempt()
    assert [gap["sentence"] for gap in index["gaps"]] == [sentence]
    assert [error["message"] for call in index["calls"] for error in call["errors"]] == ["the client left"] * 2


def test_a_call_that_was_left_before_the_stop_is_not_said_to_have_ended_by_it(
    stopped: Stopped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The harness left the second call by itself, and the third was answered; of neither is a cause claimed."""
    attempt = stopped("signal")
    whole = {**{name: _calls(attempt)[0][name] for name in _LEFT}, "errors": []}
    forge(attempt, calls=lambda calls: calls[2].update(whole), manifest=_only_the_second(attempt))
    sentence = f"1 call was left by its client: #2; {_ONE}"
    view(attempt)
    shown = capsys.readouterr().out
    assert f"  {sentence}.\n" in shown
    assert "response_cut (cut by client): the client left\n" in shown
    assert "and with it" not in shown
    view(attempt, json_output=True)
    document = json.loads(capsys.readouterr().out)
    assert [gap["sentence"] for gap in document["gaps"]] == [sentence]
    page = tmp_path / "page.html"
    write_html(PageRequest(attempt, page))
    index = PageData(page).attempt()
    assert [gap["sentence"] for gap in index["gaps"]] == [sentence]
    assert [call["errors"] for call in index["calls"]] == [[], [_CUT], []]


def _only_the_second(attempt: Path) -> Callable[[dict[str, Any]], None]:
    ids = [_calls(attempt)[1]["call_id"]]
    return lambda manifest: manifest.update(status_reasons=[{"code": "call_incomplete", "count": 1, "call_ids": ids}])


@pytest.mark.parametrize("ended_by", ["harness", "proxy", "nonsense"])
def test_otherwise_the_client_left_by_itself(
    stopped: Stopped, ended_by: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As far as the proxy saw."""
    attempt = stopped(ended_by)
    view(attempt)
    shown = capsys.readouterr().out
    assert "2 calls were not recorded completely: #2-#3.\n" in shown
    assert shown.count("response_cut (cut by client): the client left\n") == 2
    assert "collect has stopped" not in shown


def test_other_cuts_of_a_stopped_run_are_told_as_they_were(stopped: Stopped) -> None:
    """One by the service is no call that the harness left."""
    attempt = stopped("timeout")
    forge(attempt, calls=lambda calls: calls[2].update(errors=[{**_CUT, "cut_by": "upstream"}]))
    read = load_attempt(attempt)
    assert [gap.sentence for gap in gaps_of(read, family_of(read))] == [
        f"1 call was left by its client: #2; {_ONE}",
        "1 call was not recorded completely: #3",
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"ended_by": ["signal"]}', '{"ended_by": null}', "\x00", '"signal"', "{}"]
)
def test_a_note_of_any_form_says_nothing(stopped: Stopped, text: str) -> None:
    """It is no fact about the run then; neither is a link, nor a file that the manifest does not list."""
    attempt = stopped("signal")
    manifest = json.loads((attempt / MANIFEST).read_bytes())
    assert stopped_by_collect(attempt, manifest)
    assert not stopped_by_collect(attempt, {"files": {}})
    path = attempt / _LAUNCHER
    path.write_text(text)
    assert not stopped_by_collect(attempt, manifest)
    path.unlink()
    assert not stopped_by_collect(attempt, manifest)
    (attempt / "elsewhere.json").write_text('{"ended_by": "signal"}')
    path.symlink_to(attempt / "elsewhere.json")
    assert not stopped_by_collect(attempt, manifest)
