"""`view --html` as a command: what is in the file, what is refused, and that nothing half-written stays."""

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roller_capture.errors import RollerError
from roller_capture.view.html import command
from roller_capture.view.html.command import PageRequest, folder_of, write_html
from tests.support.publish import lines, publish_family
from tests.view.html.hostile import ALL, hostile_attempt
from tests.view.html.page_data import Markup, PageData
from tests.view.html.sessions import long_attempt
from tests.view.published import forge


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    publish_family(tmp_path / "attempt", monkeypatch)
    return tmp_path / "attempt"


def written(path: Path, output: Path, **more: Any) -> PageData:
    assert write_html(PageRequest(path, output, **more)) == 0
    return PageData(output)


def test_a_page_holds_all_that_was_said(attempt: Path, tmp_path: Path) -> None:
    """Requests, responses, records and native records come out of the page as they stand in the attempt."""
    page = written(attempt, tmp_path / "page.html")
    index = page.attempt()
    records = lines(attempt / "calls.jsonl")
    for place, record in enumerate(records):
        content = index["calls"][place]["content"]
        assert page.messages(index, place) == record["context"]["messages"]
        assert page.pieces[content["output"]] == record["output"]
        assert page.pieces[content["record"]]["request_sha256"] == record["request_sha256"]
        assert page.pieces[content["parts"]["parameters"]] == {"model": "fake-model", "max_tokens": 100}
    natives = {item["record"] for relation in index["relations"] for item in relation["evidence"]}
    assert {json.dumps(page.pieces[place]) for place in natives if place is not None} == {
        '{"line": 1, "tool": "toolu_1"}'
    }
    assert [agent["name"] for agent in index["agents"]] == ["root", "child a0123456"]


def test_the_file_is_private_and_appears_whole(attempt: Path, tmp_path: Path) -> None:
    output = tmp_path / "page.html"
    written(attempt, output)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert sorted(item.name for item in tmp_path.iterdir()) == ["attempt", "page.html"]


def test_markup_of_a_hostile_attempt_is_that_of_any_other(
    attempt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in the data, the elements are the same but for the blocks, and no byte of it is readable."""
    written(attempt, tmp_path / "friendly.html")
    page = written(hostile_attempt(tmp_path / "hostile", monkeypatch), tmp_path / "hostile.html")
    assert {"role": ALL, "content": ALL} in page.pieces
    friendly, hostile = (
        [item for item in Markup(tmp_path / name).elements if item[1].get("type") != "text/plain"]
        for name in ("friendly.html", "hostile.html")
    )
    assert hostile == friendly
    text = (tmp_path / "hostile.html").read_bytes()
    assert b"canary" not in text
    assert b"evil" not in text


def test_the_page_allows_its_own_script_and_nothing_else(attempt: Path, tmp_path: Path) -> None:
    written(attempt, tmp_path / "page.html")
    elements = Markup(tmp_path / "page.html").elements
    (policy,) = [attrs["content"] for tag, attrs in elements if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].startswith("'sha256-")
    assert rules["style-src"].startswith("'sha256-")
    assert " " not in rules["script-src"] + rules["style-src"]
    assert rules["trusted-types"] == "'none'"
    assert not [
        name for _, attrs in elements for name in attrs if name.startswith("on") or name in ("src", "href", "style")
    ]
    assert [attrs for tag, attrs in elements if tag == "script" and "type" not in attrs] == [{}]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("there.html", "is there already"),
        ("none/page.html", "there is no such folder"),
        ("attempt/page.html", "lies in the attempt"),
        ("attempt/raw/page.html", "lies in the attempt"),
    ],
)
def test_places_that_are_refused(attempt: Path, tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "there.html").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RollerError, match=problem) as refused:
        write_html(PageRequest(attempt, tmp_path / name))
    assert refused.value.exit_code == 2
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "there.html").read_text() == "mine"


def test_overwrite_replaces_the_file(attempt: Path, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("old")
    written(attempt, tmp_path / "page.html", overwrite=True)


def test_a_price_table_that_is_wrong_is_refused_before_anything_is_written(attempt: Path, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text("{}")
    with pytest.raises(RollerError, match="names no models"):
        write_html(PageRequest(attempt, tmp_path / "page.html", prices=tmp_path / "prices.json"))
    assert not (tmp_path / "page.html").exists()


def test_an_attempt_that_is_not_published_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a" / "work").mkdir(parents=True)
    with pytest.raises(RollerError, match="is not published") as refused:
        write_html(PageRequest(tmp_path / "a", tmp_path / "page.html"))
    assert refused.value.exit_code == 1
    assert [item.name for item in tmp_path.iterdir()] == ["a"]


def test_a_damaged_attempt_is_shown_as_far_as_it_goes(
    attempt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, the finding in the page and on stderr, and the calls before the damage with their texts."""
    path = attempt / "calls.jsonl"
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole[0] + whole[1] + whole[2][:200])
    assert write_html(PageRequest(attempt, tmp_path / "page.html")) == 1
    index = PageData(tmp_path / "page.html").attempt()
    assert [call["content"] is not None for call in index["calls"]] == [True, True]
    assert any("it was changed" in finding for finding in index["findings"])
    assert any("cannot all be read" in finding for finding in index["findings"])
    assert "it was changed" in capsys.readouterr().err


def test_a_run_of_few_attempts_is_one_page_and_of_many_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In both the same rows; an attempt that cannot be shown is a row too, and makes the exit code 1."""
    run = tmp_path / "run"
    for name in ("a", "b"):
        publish_family(run / "samples" / name / "capture" / "attempt-0001", monkeypatch)
    (run / "samples" / "c" / "capture" / "attempt-0001" / "work").mkdir(parents=True)
    assert write_html(PageRequest(run, tmp_path / "one.html")) == 1
    monkeypatch.setattr(command, "MOST_ATTEMPTS", 2)
    assert write_html(PageRequest(run, tmp_path / "many.html")) == 1
    one, many = PageData(tmp_path / "one.html").about, PageData(tmp_path / "many.html").about
    assert [row["name"] for row in one["attempts"]] == [f"samples/{name}/capture/attempt-0001" for name in "abc"]
    assert "is not published" in one["attempts"][2]["error"]
    links = [row.pop("link") for row in many["attempts"]]
    assert links == ["./many-attempts/000001.html", "./many-attempts/000002.html", None]
    assert [{**row, "number": None} for row in one["attempts"]] == many["attempts"]
    assert PageData(tmp_path / links[0]).attempt()["capture_id"] == many["attempts"][0]["capture_id"]
    assert "is not published" in capsys.readouterr().err
    assert sorted(item.name for item in (tmp_path / "many-attempts").iterdir()) == ["000001.html", "000002.html"]
    assert stat.S_IMODE((tmp_path / links[0]).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "many-attempts").stat().st_mode) == 0o700
    (tmp_path / "many.html").unlink()
    with pytest.raises(RollerError, match="many-attempts: is there already"):
        write_html(PageRequest(run, tmp_path / "many.html"))
    assert not (tmp_path / "many.html").exists()


def test_pages_of_many_attempts_are_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, output = tmp_path / "run", tmp_path / "page.html"
    for name in ("a", "b"):
        publish_family(run / name, monkeypatch)
    monkeypatch.setattr(command, "MOST_BYTES", 1)
    assert write_html(PageRequest(run, output)) == 0
    (folder_of(output) / "old").write_text("old")
    assert write_html(PageRequest(run, output, overwrite=True)) == 0
    assert sorted(item.name for item in folder_of(output).iterdir()) == ["000001.html", "000002.html"]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["page-attempts", "page.html", "run"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, output = tmp_path / "run", tmp_path / "page.html"
    for name in ("a", "b"):
        publish_family(run / name, monkeypatch)

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    for limit in (1, 1 << 30):
        monkeypatch.setattr(command, "MOST_BYTES", limit)
        with monkeypatch.context() as patch:
            patch.setattr(command, "attempt_index", fail)
            with pytest.raises(RollerError, match="no space left"):
                write_html(PageRequest(run, output))
        assert [item.name for item in tmp_path.iterdir()] == ["run"]


def test_repeated_contexts_cost_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conversation that is sent again with every call is in the page once: a tenth of what it takes on disk."""
    attempt = long_attempt(tmp_path / "long", monkeypatch, agents=3, calls_each=60)
    page = written(attempt, tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < (attempt / "calls.jsonl").stat().st_size / 10
    records = lines(attempt / "calls.jsonl")
    index = page.attempt()
    for place in (0, 100, len(records) - 1):
        assert page.messages(index, place) == records[place]["context"]["messages"]


def test_records_that_evidence_cannot_reach_are_left_out(attempt: Path, tmp_path: Path) -> None:
    """Sources that leave the attempt, links, and lines that are not there: the proof is shown without its record."""
    (tmp_path / "secret").write_text('{"secret":1}\n')
    sources = attempt / "raw" / "sources.json"
    known = json.loads(sources.read_bytes())
    for name, entry in known.items():
        entry["path"] = "raw/native/../../../secret"
        known[name] = entry
    sources.write_text(json.dumps(known))
    forge(
        attempt,
        manifest=lambda whole: whole["files"].update({"raw/native/../../../secret": {"sha256": "0" * 64, "bytes": 13}}),
    )
    assert write_html(PageRequest(attempt, tmp_path / "page.html")) in (0, 1)
    index = PageData(tmp_path / "page.html").attempt()
    assert {item["record"] for relation in index["relations"] for item in relation["evidence"]} == {None}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--overwrite"], "--overwrite and --prices go with --html FILE"),
        (["--html", "x.html", "--json"], "exclude each other"),
        (["--html", "x.html", "--live"], "exclude each other"),
        (["--live", "--evidence"], "do not go with"),
    ],
)
def test_options_that_do_not_go_together(attempt: Path, options: list[str], problem: str) -> None:
    line = [sys.executable, "-m", "roller_capture", "view", str(attempt), *options]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=attempt.parent)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_command_writes_the_page_and_says_nothing(attempt: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "roller_capture", "view", str(attempt), "--html", str(tmp_path / "page.html")]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert PageData(tmp_path / "page.html").about["path"] == "attempt"


def test_compressed_calls_are_shown_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same page, but for the way to the attempt."""
    publish_family(tmp_path / "plain", monkeypatch)
    publish_family(tmp_path / "packed", monkeypatch, compress=True)
    plain = written(tmp_path / "plain", tmp_path / "plain.html")
    packed = written(tmp_path / "packed", tmp_path / "packed.html")
    assert packed.pieces == plain.pieces
    assert len(packed.attempt()["calls"]) == 3
