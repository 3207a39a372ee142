"""Records are compared with what `raw/` gives only where the same code has made both."""

import json
from pathlib import Path
from typing import Any

import pytest

from roller_capture import derivation as fingerprints
from roller_capture import json_text, replay
from roller_capture.replay import not_compared, validate_published
from roller_capture.validate_command import ValidateRequest, run_validate
from roller_capture.vocabulary import DebugRetention
from tests.support.publish import publish_family


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A published family with raw/, of which one answer says something else than its records."""
    publish_family(tmp_path / "attempt", monkeypatch, debug_retention=DebugRetention.FULL)
    return tmp_path / "attempt"


def manifest_of(attempt: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((attempt / "manifest.json").read_bytes())
    return document


def test_the_manifest_tells_which_code_derived_it(attempt: Path) -> None:
    """It is the code that runs here."""
    assert manifest_of(attempt)["tool"]["derivation"] == fingerprints.derivation()
    assert not_compared(manifest_of(attempt)) is None


@pytest.mark.parametrize("members", [{"derivation": "0" * 16}, {"derivation": None}, {"version": "0.0.1"}])
def test_records_of_another_state_are_not_compared(members: dict[str, Any], attempt: Path) -> None:
    """Whatever that state made out of the same bytes, it is no finding."""
    manifest = manifest_of(attempt)
    manifest["tool"] = {name: value for name, value in (manifest["tool"] | members).items() if value is not None}
    manifest["harness"]["version"] = "0.0.9"  # what the adapter of another state has found out
    text = json_text.dumps_indented(manifest) + b"\n"
    (attempt / "manifest.json").write_bytes(text)
    assert validate_published(attempt, deep=True) == []
    assert not_compared(manifest) is not None


def test_what_was_not_compared_is_told(
    attempt: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `validate --deep` alone: nothing is compared without it."""
    monkeypatch.setattr(replay, "derivation", lambda: "another")
    for deep in (True, False):
        assert run_validate(ValidateRequest((attempt,), deep=deep, as_json=True)) == 0
        (told,) = json.loads(capsys.readouterr().out)["attempts"]
        assert ("not compared with raw/" in told.get("note", "")) == deep
        assert run_validate(ValidateRequest((attempt,), deep=deep)) == 0
        assert ("not compared with raw/" in capsys.readouterr().err) == deep


def test_the_fingerprint_is_that_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any change of the modules that derive is another one; without sources there is none."""
    place = tmp_path / "derivation.py"
    monkeypatch.setattr(fingerprints, "__file__", str(place))
    assert fingerprints.derivation.__wrapped__() is None
    for name in fingerprints._MODULES:
        (tmp_path / name).write_text("")
    (tmp_path / "adapters" / "inner").mkdir(parents=True)
    seen = {fingerprints.derivation.__wrapped__()}
    (tmp_path / "adapters" / "inner" / "one.py").write_text("A = 1\n")
    seen.add(fingerprints.derivation.__wrapped__())
    (tmp_path / "adapters" / "inner" / "one.py").write_text("A = 2\n")
    seen.add(fingerprints.derivation.__wrapped__())
    assert len(seen) == 3
    assert all(one is not None and len(one) == 16 for one in seen)
