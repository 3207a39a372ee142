"""`validate` of runs: the same check as Resume's, as text, JSON, JUnit XML and GitHub annotations."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from roller_capture.errors import RollerError
from roller_capture.integrity.findings import Finding
from roller_capture.reports import Checked, annotation_lines, write_junit
from roller_capture.runs.books import SampleState
from roller_capture.validate_command import ValidateRequest, run_validate
from tests.runs.made_run import MadeRun, edit
from tests.support.forbidden import forbid


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeRun:
    """Two samples, published."""
    made = MadeRun(tmp_path / "run", monkeypatch)
    made.begin()
    made.done("a")
    made.done("b", state=SampleState.FAILED)
    return made


def as_json(capsys: pytest.CaptureFixture[str], *paths: Path, **options: Any) -> tuple[int, dict[str, Any]]:
    """Exit code and document."""
    code = run_validate(ValidateRequest(paths, as_json=True, **options))
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def test_a_run_that_is_as_it_was_left(run: MadeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each attempt; in JSON each names its sample and its manifest."""
    assert run_validate(ValidateRequest((run.directory,), deep=True)) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"{run.attempt('a')}: valid (capture complete)",
        f"{run.attempt('b')}: valid (capture complete)",
    ]
    code, document = as_json(capsys, run.directory)
    assert (code, document["valid"]) == (0, True)
    assert document["attempts"][0] == {
        "path": str(run.attempt("a")),
        "status": "valid",
        "capture_status": "complete",
        "manifest": str(run.attempt("a") / "manifest.json"),
        "sample": "a",
        "findings": [],
    }
    assert [item["status"] for item in (*document["samples"], *document["runs"])] == ["valid"] * 3


@pytest.mark.parametrize("what", ["run", "attempt"])
def test_a_manifest_that_was_edited_to_match_is_found(
    what: str, run: MadeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the hash in the books, also where only the attempt is named."""
    edit(run.attempt("a") / "manifest.json", lambda manifest: manifest["tool"].update(version="9.9.9"))
    code, document = as_json(capsys, run.directory if what == "run" else run.attempt("a"))
    assert code == 1
    finding = document["attempts"][0]["findings"][0]
    assert finding["file"] == "manifest.json"
    assert "sample.json has recorded" in finding["message"]


def test_books_and_configuration_are_part_of_it(run: MadeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Damaged books do not hide the attempts."""
    (run.folder("a") / "sample.json").write_text("{")
    code, document = as_json(capsys, run.directory)
    assert code == 1
    assert [item["status"] for item in document["samples"]] == ["invalid", "valid"]
    assert [item["status"] for item in document["attempts"]] == ["valid", "valid"]
    (run.directory / "run.json").write_text("{}")
    code, document = as_json(capsys, run.directory)
    assert (code, document["attempts"]) == (1, [])
    assert document["runs"][0]["findings"][0]["file"] == "run.json"
    edit_back = MadeRun(run.directory.with_name("other"), run.monkeypatch)
    edit_back.begin()
    code, document = as_json(capsys, edit_back.directory)
    assert code == 1
    assert document["runs"][0]["findings"][0]["message"] == "the run holds no sample yet"


def test_what_is_not_finished(run: MadeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 unless it is allowed: working files, and a sample of which nothing was recorded."""
    run.record(run.add("c"), SampleState.INTERRUPTED)
    run.add("d").begin_attempt()
    code, document = as_json(capsys, run.directory)
    assert code == 1
    assert [item["status"] for item in document["attempts"]] == ["valid", "valid", "unfinished"]
    assert [item["status"] for item in document["samples"]] == ["valid", "valid", "valid", "unfinished"]
    assert as_json(capsys, run.directory, allow_unfinished=True)[0] == 0


def test_annotations_of_github(run: MadeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, one for each finding; nothing for what is good."""
    assert run_validate(ValidateRequest((run.directory,), github=True)) == 0
    assert capsys.readouterr().out == ""
    (run.attempt("b") / "added").write_text("")
    assert run_validate(ValidateRequest((run.directory,), github=True)) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line == f"::error file={run.attempt('b')}/added,title=roller-capture validate::is not in the manifest"
    with pytest.raises(RollerError, match="give one of them") as caught:
        run_validate(ValidateRequest((run.directory,), github=True, as_json=True))
    assert caught.value.exit_code == 2


HOSTILE = "a%b:c,d\r\n::error::x\x1b[31m\u202e\ud800\ufffe]]><&\"'"


def test_nothing_in_a_name_or_message_ends_an_annotation() -> None:
    """Percent, line breaks, colons and commas are escaped as the runner reads them; a line number is a property."""
    checked = Checked("attempt", Path("/r/x"), "invalid", (Finding("calls.jsonl:12", HOSTILE), Finding(HOSTILE, "m")))
    first, second = annotation_lines(checked)
    place, _, message = first.partition("::a%25b")
    assert place == "::error file=/r/x/calls.jsonl,line=12,title=roller-capture validate"
    assert message.startswith(":c,d\\r\\n::error::x\\x1b[31m")
    assert second.count("::") == 2
    assert "%3A" in second
    assert "%2C" in second
    for line in (first, second):
        assert line.replace("\ufffe", "").isprintable()
    allowed = Checked("attempt", Path("/r/x"), "unfinished-allowed", (Finding("x", "m"),))
    assert next(annotation_lines(allowed)).startswith("::warning file=/r/x,")


def test_junit_xml(run: MadeRun, tmp_path: Path) -> None:
    """A test case for each thing that was checked, a failure with all findings for each that is not good."""
    (run.attempt("b") / "added").write_text("")
    target = tmp_path / "report.xml"
    assert run_validate(ValidateRequest((run.directory, tmp_path / "none"), junit=target)) == 2
    suites = ElementTree.fromstring(target.read_bytes())
    assert (suites.attrib["tests"], suites.attrib["failures"]) == ("6", "2")
    cases = {case.attrib["name"]: case for case in suites.iter("testcase")}
    assert cases[str(run.attempt("a"))].attrib["classname"] == "attempt.a"
    assert list(cases[str(run.attempt("a"))]) == []
    (failure,) = cases[str(run.attempt("b"))]
    assert (failure.attrib["type"], failure.text) == ("invalid", "added: is not in the manifest")
    assert cases[str(tmp_path / "none")][0].attrib["type"] == "error"


def test_a_report_that_has_no_folder_is_refused_before_anything_is_checked(
    run: MadeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Checking may take hours."""
    run.done("a")
    with pytest.raises(RollerError, match="there is no such folder: make it first") as caught:
        run_validate(ValidateRequest((run.directory,), junit=tmp_path / "none" / "report.xml"))
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err == ""


def test_junit_holds_whatever_is_in_a_name(tmp_path: Path) -> None:
    """What XML cannot hold is replaced; a file that cannot be written is one line."""
    target = tmp_path / "report.xml"
    write_junit(target, [Checked("attempt", Path(HOSTILE), "invalid", (Finding(HOSTILE, HOSTILE),), sample=HOSTILE)])
    (case,) = ElementTree.fromstring(target.read_bytes()).iter("testcase")
    assert "]]><&\"'" in case.attrib["name"]
    assert "\\x1b[31m" in str(case[0].text)
    assert [path.name for path in tmp_path.iterdir()] == ["report.xml"]
    for place in (tmp_path, tmp_path / "none" / "x.xml", tmp_path / ("x" * 300)):
        with pytest.raises(RollerError, match=r"--junit .*cannot be written") as caught:
            write_junit(place, [])
        assert caught.value.exit_code == 2


@pytest.mark.parametrize("place", ["samples", "samples/a", "samples/a/capture", "samples/a/capture/attempt-0001"])
def test_a_folder_that_this_user_must_not_look_into_is_named(
    place: str, run: MadeRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other samples are checked all the same."""
    run.done("a")
    run.done("b")
    forbid(run.directory / place, monkeypatch)
    assert run_validate(ValidateRequest((run.directory,))) == 1
    err = capsys.readouterr().err
    assert "cannot be read (Permission denied)" in err
    assert ("b/capture/attempt-0001: valid" in err) is (place != "samples")
