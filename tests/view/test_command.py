"""`view` as a person and a program meet it: the tree, the folder, JSON, damage, hostile text."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roller_capture.errors import RollerError
from roller_capture.view.command import view
from roller_capture.view.html.command import PageRequest, write_html
from roller_capture.view.overview import HEADER
from tests.runs.made_run import MadeRun
from tests.support.forbidden import forbid
from tests.support.publish import family_attempt, publish_family
from tests.support.redone import redone_run
from tests.view.busy_attempt import busy_attempt
from tests.view.html.page_data import PageData
from tests.view.published import Record, forge

BUSY = """\
ATTEMPT
  claude-code 2.1.332 (tested version); capture partial; execution completed
  12 calls (9 exportable; blocked by identity_unresolved 2, execution_not_completed 1), 6 agents, 23 relations
  tokens: 31 in, 52 out, cache 5,000 read, 70 written (1 call reported none)
  3.0 s from the first request to the last response
  models fake-model (12)

what is missing
  1 call has evidence for more than one agent, so none is chosen: #12.
  1 call could not be attributed to an agent: #11.
  1 model output in the native logs has no recorded call: msg_gone.
    Check that nothing in the harness goes around the proxy: another base URL, a second provider.
  1 subtask did not end, or no result was delivered: child dddd000000000005.
    Let the harness wait for its subtasks: a longer timeout or wait ceiling.

root  completed  5 calls, 12 in, 20 out, 10 ms
  #1   fake-model  3 in  5 out  2 ms  completed, end_turn  purpose title
  #2   fake-model  3 in  5 out  2 ms  completed, tool_use  calls Agent x4
    child aaaa000000000001  completed  2 calls, 4 in, 7 out, cache 5,000 read, 70 written, 4 ms
      spawned by Agent toolu_a in #2
      end recorded: completed
      result delivered to root by tool result, bound by tool_call_id toolu_a
      result in the context of root: #7 at /messages/1/content/0, then #8, #10
      #4   fake-model  3 in  5 out  2 ms  completed, tool_use  calls Task
        child bbbb000000000003  completed  1 call, 3 in, 5 out, 2 ms
          spawned by Task toolu_g in #4
          result delivered to child aaaa000000000001 by tool result, bound by tool_call_id toolu_g
          result in the context of child aaaa000000000001: #6 at /messages/1/content/0
          #5   fake-model  3 in  5 out  2 ms  completed, end_turn
      #6   fake-model  1 in  2 out  2 ms  completed, end_turn  cache 5,000 read, 70 written
    child aaaa000000000002  failed  1 call, 3 in, 5 out, 2 ms
      spawned by Agent toolu_b in #2
      end recorded: failed, outcome timed out
      result delivered to root by tool result, bound by tool_call_id toolu_b
      result in the context of root: #7 at /messages/2/content/0, then #8, #10
      #3   fake-model  3 in  5 out  2 ms  completed, end_turn
    child cccc000000000004  completed  1 call, 3 in, 5 out, 2 ms
      spawned by Agent toolu_s in #2
      launch acknowledged to root by tool result, bound by tool_call_id toolu_s
      acknowledgement in the context of root: #8 at /messages/3/content/0, then #10
      end recorded: completed
      result delivered to root by notification, bound by response_id msg_8
      result in the context of root: #10 at /messages/4/content/0
      #9   fake-model  3 in  5 out  2 ms  completed, end_turn
  #7   fake-model               2 ms  failed, HTTP 529  purpose unknown
    http_error: HTTP 529: overloaded_error: Overloaded
    not exportable: execution_not_completed
  #8   fake-model  3 in  5 out  2 ms  completed, end_turn
  #10  fake-model  3 in  5 out  2 ms  completed, end_turn
  child dddd000000000005  interrupted  0 calls
    spawned by tool call toolu_elsewhere in a call that is not known
    pending: no record of its end, or of the delivery of its result

2 calls of no agent
  #11  fake-model  3 in  5 out  2 ms  completed, end_turn
    unattributed, it carries no id that names an agent
    not exportable: identity_unresolved
  #12  fake-model  3 in  5 out  2 ms  completed, end_turn
    ambiguous, evidence names child aaaa000000000001, child aaaa000000000002
    identity_conflict: the response id is not unique in this attempt
    not exportable: identity_unresolved
"""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The attempt with every shape; not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        path: Path = tmp_path_factory.mktemp("busy") / "attempt"
        return busy_attempt(path, patch)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """As a terminal does."""
        return True


def shown(path: Path, stream: io.StringIO | None = None, **options: Any) -> tuple[int, str]:
    """(exit code, standard output)."""
    stream = stream or io.StringIO()
    return view(path, stream=stream, **options), stream.getvalue()


def test_the_tree_of_a_busy_attempt(busy: Path) -> None:
    """Plain in a pipe: parallel twins, grandchild, background child, failure, calls of nobody, gaps."""
    code, text = shown(busy)
    assert text.replace(str(busy), "ATTEMPT") == BUSY
    assert code == 0


def test_without_calls_only_the_agents_are_shown(busy: Path) -> None:
    """In the same places."""
    _, text = shown(busy, calls=False)
    agents = [line for line in text.splitlines() if re.match(r" *(root|child) ", line)]
    assert [(len(line) - len(line.lstrip())) // 2 for line in agents] == [0, 1, 2, 1, 1, 1]
    assert "fake-model  3 in" not in text
    assert "2 calls of no agent\n  #11-#12\n" in text


def test_evidence_names_source_and_place_of_every_proof(busy: Path) -> None:
    """Of relations, each by itself, and of owners; and whether it was kept."""
    _, text = shown(busy, evidence=True)
    relations = [json.loads(line) for line in (busy / "relations.jsonl").read_bytes().splitlines()]
    for relation in relations:
        for item in relation["evidence"]:
            assert f"evidence: {item['kind']} {item['locator']} in {item['source']} (kept)" in text
    assert text.count("result in the context of root: ") == 7
    assert "evidence: response_id response_id msg_3 in projects/p/root.jsonl" in text
    assert "agent_id aaaa000000000001" in text


def _call_lines(attempt: Path, number: int, change: Record) -> list[str]:
    """The lines about one call after some of its members were changed."""
    _, text = shown(forge(attempt, calls=lambda calls: calls[number - 1].update(change)))
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.strip().startswith(f"#{number} "))
    depth = len(lines[start]) - len(lines[start].lstrip())
    after = [index for index in range(start + 1, len(lines)) if not lines[index].startswith(" " * (depth + 1))]
    return [line.strip() for line in lines[start : after[0] if after else None]]


RESPONSES_USAGE = {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 4}}
BLOCKED = {"participant_id": None, "export_status": "blocked", "export_blockers": ["identity_unresolved"]}
NOT_OWNED = {"identity_status": "unattributed", **BLOCKED}


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({}, ["#3  fake-model  3 in  5 out  2 ms  completed, end_turn"]),
        (
            {"model": {"requested": "a", "responded": "b", "match": "mismatch"}, "purpose": "compaction"},
            ["#3  a answered by b  3 in  5 out  2 ms  completed, end_turn  purpose compaction"],
        ),
        (
            {
                "execution_status": "interrupted",
                "response_capture_status": "partial",
                "capture_status": "partial",
                "export_status": "blocked",
                "export_blockers": ["response_incomplete"],
                "errors": [{"code": "response_cut", "message": "reset", "cut_by": "upstream"}],
                "output": {"stop_reason": None},
                "usage": None,
            },
            [
                "#3  fake-model               2 ms  interrupted, response partial",
                "response_cut (cut by upstream): reset",
                "not exportable: response_incomplete",
            ],
        ),
        (
            {
                "protocol": "openai-responses",
                "usage": RESPONSES_USAGE,
                "output": {"status": "completed"},
                "output_warnings": [{"code": "unknown_event", "detail": "x"}] * 2,
                "tool_refs": [{"tool_call_id": None, "item_id": None, "name": name} for name in ("A", None, "A")],
            },
            [
                "#3  fake-model  9 in  2 out  2 ms  completed  calls A x2, (no name)  cache 4 read",
                "oddities in the response: unknown_event",
            ],
        ),
        (
            {"identity_status": "unattributed", **BLOCKED, "native_identity": {"evidence": []}},
            ["#3  fake-model  3 in  5 out  2 ms  completed, end_turn", "not exportable: identity_unresolved"],
        ),
        ({"participant_id": "p_gone"}, ["#3  fake-model  3 in  5 out  2 ms  completed, end_turn"]),
    ],
)
def test_the_line_of_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Record, lines: list[str]) -> None:
    """Model, purpose, tokens, cache, duration, status, finish, tools; below it errors, blockers, oddities."""
    publish_family(tmp_path, monkeypatch)
    assert _call_lines(tmp_path, 3, {"purpose": "agent", **change}) == lines


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({**NOT_OWNED, "native_identity": {"evidence": []}}, "unattributed, it carries no id that names an agent"),
        (
            {
                **NOT_OWNED,
                "native_identity": {
                    "evidence": [{"kind": "native_header", "name": "header:x", "value": "s9", "source": None}]
                },
            },
            "unattributed, no native log knows header:x s9",
        ),
        (
            {
                **NOT_OWNED,
                "native_identity": {
                    "evidence": [{"kind": "native_header", "name": "header:x", "value": "s1", "source": "a.jsonl"}]
                },
            },
            "unattributed, what it carries proves no single agent: header:x",
        ),
        ({"participant_id": "p_gone"}, "its owner p_gone is not in the manifest"),
    ],
)
def test_a_call_of_nobody_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Record, reason: str
) -> None:
    """A reason that all share is said once."""
    publish_family(tmp_path, monkeypatch)
    _, text = shown(forge(tmp_path, calls=lambda calls: [call.update(change) for call in calls[1:]]))
    assert f"2 calls of no agent: {reason}\n" in text
    assert text.count(reason) == 1


def test_an_attempt_of_two_protocols_has_a_token_total_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They count input differently."""
    publish_family(tmp_path, monkeypatch)
    change = {"protocol": "openai-responses", "usage": RESPONSES_USAGE}
    _, text = shown(forge(tmp_path, calls=lambda calls: calls[2].update(change)))
    assert "tokens of anthropic-messages: 6 in, 10 out\n" in text
    assert "tokens of openai-responses: 9 in, 2 out, cache 4 read\n" in text


def test_a_child_with_a_second_task_is_named_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands at its first spawn; its relations are told per delegation."""
    publish_family(tmp_path, monkeypatch)

    def resume(relations: list[Record]) -> None:
        third = relations[0]["parent_call_id"][:-1] + "3"
        more = {"delegation": 2, "tool_call_id": "toolu_2", "parent_call_id": third, "relation_id": "rel_x"}
        relations.append({**relations[0], **more})

    _, text = shown(forge(tmp_path, relations=resume))
    lines = [line.strip() for line in text.splitlines()]
    assert "delegation 1: spawned by Agent toolu_1 in #1" in lines
    assert "delegation 2: given a new task by tool call toolu_2 in #3" in lines
    assert lines[-1] == "child a0123456 again, delegation 2: shown where it was spawned"


@pytest.mark.parametrize("color", [True, False])
def test_on_a_terminal_it_is_a_tree_and_colour_only_repeats_words(busy: Path, color: bool) -> None:
    """Every line of the plain text is there; without colour no colour code is."""
    _, text = shown(busy, Terminal(), width=150, color=color)
    assert ("\x1b[32m" in text) == color
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", text) or color
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "├── #2   fake-model" in bare
    for line in BUSY.splitlines()[1:]:
        assert line.strip() in bare


def test_who_wants_no_colours_gets_no_control_codes(busy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor bold or dim type: by the option, and by NO_COLOR unless it is empty (no-color.org)."""
    assert "\x1b" not in shown(busy, Terminal(), width=150, color=False)[1]
    for value, plain in (("1", True), ("", False)):
        monkeypatch.setenv("NO_COLOR", value)
        assert ("\x1b" not in shown(busy, Terminal(), width=150)[1]) == plain


def test_a_width_in_which_no_words_have_room_is_told(busy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is shown all the same, in as many columns as it takes."""
    _, text = shown(busy, Terminal(), width=20, color=False)
    widest = max(map(len, text.splitlines()))
    told = capsys.readouterr().err
    assert told == f"--width 20: shown in {told.split()[4]} columns, in fewer there is no room for words\n"
    assert 20 < widest <= int(told.split()[4])
    shown(busy, Terminal(), width=150)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("width", [70, 80, 110])
def test_a_narrow_terminal_folds_and_loses_nothing(busy: Path, width: int) -> None:
    """No line is wider, every word is there."""
    _, text = shown(busy, Terminal(), width=width, color=False)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= width
    squeezed = re.sub(r"[\s│├└─]", "", "".join(lines))
    for line in BUSY.splitlines()[1:]:
        assert re.sub(r"\s", "", line) in squeezed


def test_deep_nesting_is_not_squeezed_out_of_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty generations in 60 columns: the lines get wider than the terminal, and keep their words."""
    publish_family(tmp_path, monkeypatch)

    def nest(manifest: Record) -> None:
        last = manifest["participants"][1]
        for number in range(30):
            parent, name = manifest["participants"][-1]["participant_id"], f"p{number}"
            own = {"participant_id": name, "parent_participant_id": parent, "call_ids": []}
            manifest["participants"].append({**last, **own, "native_ids": {"agent_id": [f"generation{number}"]}})

    forge(tmp_path, manifest=nest)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", shown(tmp_path, Terminal(), width=60)[1])
    assert "child generation29  completed  0 calls" in bare


def test_json_holds_participants_nested_calls_relations_and_gaps(busy: Path) -> None:
    """One document on one ASCII line; calls without output and context."""
    code, text = shown(busy, json_output=True)
    document = json.loads(text)
    assert (code, text.count("\n"), text.isascii()) == (0, 1, True)
    assert document["tokens"] == {
        "input": 31, "output": 52, "cache_read": 5000, "cache_creation": 70, "calls_without_usage": 1
    }  # fmt: skip
    assert [gap["code"] for gap in document["gaps"]] == [
        "identity_ambiguous", "identity_unattributed", "coverage_incomplete", "lifecycle_pending"
    ]  # fmt: skip
    assert [call["sequence"] for call in document["unowned_calls"]] == [11, 12]
    (root,) = document["participants"]
    assert [call["sequence"] for call in root["calls"]] == [1, 2, 7, 8, 10]
    assert [child["execution_status"] for child in root["calls"][1]["children"]] == ["completed", "failed", "completed"]
    assert [child["execution_status"] for child in root["children"]] == ["interrupted"]
    twin = root["calls"][1]["children"][0]
    assert twin["calls"][0]["children"][0]["native_ids"]["agent_id"] == ["bbbb000000000003"]
    assert [relation["type"] for relation in twin["relations"]] == [
        "spawn", "child_completed", "result_delivered", *["result_in_context"] * 3
    ]  # fmt: skip
    assert not {"output", "context", "context_raw"} & set(root["calls"][0])
    assert (root["calls"][0]["finish"], root["calls"][2]["finish"]) == ("end_turn", None)
    assert document["findings"] == []


def test_a_folder_is_a_table_with_a_line_for_each_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for those that cannot be shown; the exit code is the highest."""
    busy_attempt(tmp_path / "run/samples/a/capture/attempt-0001", monkeypatch)
    publish_family(tmp_path / "run/samples/b/capture/attempt-0001", monkeypatch)
    code, text = shown(tmp_path / "run")
    rows = [re.split(r"  +", line) for line in text.splitlines()]
    assert code == 0
    assert rows[0] == list(HEADER)
    assert rows[1][:8] == [
        "samples/a/capture/attempt-0001", "claude-code 2.1.332", "completed", "partial", "9 of 12 calls", "6",
        "31 in, 52 out", "3.0 s",
    ]  # fmt: skip
    assert rows[1][8].startswith("identity_ambiguous 1, ")
    assert rows[2][:5] == [
        "samples/b/capture/attempt-0001", "claude-code 2.1.332", "unknown", rows[2][3], "3 of 3 calls"
    ]  # fmt: skip
    assert capsys.readouterr().err == ""
    family_attempt(tmp_path / "run/samples/c/capture/attempt-0001").build()
    (tmp_path / "run/samples/b/capture/attempt-0001/manifest.json").write_text("{")
    code, text = shown(tmp_path / "run")
    lines = text.splitlines()
    assert (code, len(lines)) == (1, 4)
    assert "is no JSON" in lines[2]
    assert lines[3].endswith("is not published")
    assert [line.startswith("error: ") for line in capsys.readouterr().err.splitlines()] == [True, True]
    document = json.loads(shown(tmp_path / "run", json_output=True)[1])
    assert [sorted(row)[:2] for row in document["attempts"]] == [
        ["calls", "capture_id"], ["error", "path"], ["error", "path"]
    ]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeRun:
    """One sample that was made again, one that was not."""
    made = redone_run(tmp_path / "run", monkeypatch)
    made.done("once")
    return made


@pytest.mark.parametrize("width", [40, 80, 200, 300])
def test_the_table_is_as_wide_as_the_terminal(run: MadeRun, width: int) -> None:
    """Rows become blocks where there is no room for columns; not a word is lost."""
    (run.attempt("once") / "manifest.json").write_text("{")
    _, plain = shown(run.directory)
    code, text = shown(run.directory, Terminal(), width=width, color=False)
    lines = text.splitlines()
    assert code == 1
    assert max(map(len, lines)) <= width
    assert any(line.startswith("attempt  ") for line in lines) == (width >= 200)
    squeezed = re.sub(r"\s", "", text)
    for row in plain.splitlines()[1:]:
        assert all(re.sub(r"\s", "", cell) in squeezed for cell in re.split(r"  +", row))


def test_an_attempt_that_was_made_again_is_marked(run: MadeRun, tmp_path: Path) -> None:
    """In the table, its document, and the page."""
    remarks = [re.split(r"  +", line)[-1] for line in shown(run.directory)[1].splitlines()[1:]]
    assert ["superseded" in remark for remark in remarks] == [True, False, False]
    rows = json.loads(shown(run.directory, json_output=True)[1])["attempts"]
    assert [row["superseded"] for row in rows] == [True, False, False]
    assert write_html(PageRequest(run.directory, tmp_path / "page.html")) == 0
    assert [row["superseded"] for row in PageData(tmp_path / "page.html").about["attempts"]] == [True, False, False]


def test_books_that_do_not_say_which_attempt_counts_are_named(
    run: MadeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And all attempts are shown, none marked."""
    (run.folder("again") / "sample.json").write_text("{")
    code, text = shown(run.directory)
    assert (code, len(text.splitlines()), "superseded" in text) == (1, 4, False)
    assert write_html(PageRequest(run.directory, tmp_path / "page.html")) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"error: {run.folder('again') / 'sample.json'}: is no JSON")
        assert line.endswith(": so it is not known which attempt of the sample counts: restore it from a copy")


@pytest.mark.parametrize("closed", ["samples/once", "samples/once/capture/attempt-0001", "samples"])
def test_a_folder_that_cannot_be_looked_into_is_no_folder_without_attempts(
    run: MadeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], closed: str
) -> None:
    """It is named, in a row of its own too, and the exit code is 1; what can be read is shown."""
    forbid(run.directory / closed, monkeypatch)
    others = 0 if closed == "samples" else 2
    told = f"{run.directory / closed}: cannot be looked into (Permission denied): give yourself the right to read it"
    code, text = shown(run.directory)
    assert (code, len(text.splitlines())) == (1, 2 + others)
    assert re.split(r"  +", text.splitlines()[-1]) == [closed, "cannot be looked into (Permission denied)"]
    document = json.loads(shown(run.directory, json_output=True)[1])
    assert document["attempts"][-1] == {"path": str(run.directory / closed), "error": told}
    assert write_html(PageRequest(run.directory, tmp_path / "page.html")) == 1
    rows = PageData(tmp_path / "page.html").about["attempts"]
    assert (len(rows), rows[-1]) == (1 + others, {"name": closed, "number": None, "error": told})
    assert capsys.readouterr().err.splitlines() == [f"error: {told}"] * 3


@pytest.mark.parametrize("as_page", [False, True])
def test_progress_counts_attempts(
    run: MadeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_page: bool
) -> None:
    monkeypatch.setattr("roller_capture.terminal._SHOW_PROGRESS_FROM", 0)
    monkeypatch.setattr("roller_capture.view.command._SHOW_PROGRESS_FROM", 0)
    code = write_html(PageRequest(run.directory, tmp_path / "page.html")) if as_page else shown(run.directory)[0]
    assert code == 0
    told = capsys.readouterr().err.splitlines()
    assert told == [f"view {run.directory}: {done} of 3 attempts" for done in (1, 2)]


@pytest.mark.parametrize(
    ("path", "exit_code"), [("none", 2), ("file", 2), ("x" * 5000, 2), ("empty", 1), ("open", 1), ("a\x00b", 2)]
)
def test_a_path_without_a_published_attempt_is_refused(tmp_path: Path, path: str, exit_code: int) -> None:
    """One clear line: 2 for a path that is none, 1 for data that is not good."""
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    family_attempt(tmp_path / "open").build()
    with pytest.raises(RollerError) as caught:
        view(tmp_path / path)
    assert caught.value.exit_code == exit_code
    assert ("run roller-capture finalize" in str(caught.value)) == (path == "open")


def test_damage_is_told_on_stderr_and_the_rest_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1; a flood of findings is cut."""
    publish_family(tmp_path, monkeypatch)
    with (tmp_path / "calls.jsonl").open("ab") as stream:
        stream.write(b"\x1b[2J\n" * 30)
    code, text = shown(tmp_path)
    err = capsys.readouterr().err
    assert code == 1
    assert "#3" in text
    assert "\x1b" not in err
    assert len(err.splitlines()) == 11
    assert err.splitlines()[-1] == "error: and 21 more of this attempt"
    assert len(json.loads(shown(tmp_path, json_output=True)[1])["findings"]) == 31


HOSTILE = "\x1b[2J\x9b31m[red]x[/red]\u202eevil\u2028\nroot  completed\r\t\x07:smile: \ud800" + "long" * 500


def _hostile(attempt: Path) -> Path:
    def calls(records: list[Record]) -> None:
        for record in records:
            record["model"] = {"requested": HOSTILE, "responded": "[/]", "match": "mismatch"}
            record["tool_refs"] = [{"tool_call_id": "t", "item_id": None, "name": HOSTILE}]
            record["errors"] = [{"code": "provider_error", "message": HOSTILE}]
            record["output"]["stop_reason"] = HOSTILE

    def relations(records: list[Record]) -> None:
        for record in records:
            record["tool_call_id"] = record["outcome"] = HOSTILE
            record["evidence"][0]["source"] = record["evidence"][0]["locator"] = HOSTILE

    def manifest(record: Record) -> None:
        record["harness"]["name"] = record["harness"]["version"] = HOSTILE
        record["participants"][1]["native_ids"] = {HOSTILE: [HOSTILE], "agent_id": [HOSTILE]}
        record["status_reasons"] = [{"code": "errors", "count": 1, "call_ids": []}]
        record["errors"] = [
            {"code": "adapter_failed", "message": HOSTILE, "source": HOSTILE, "locator": HOSTILE, "count": 1}
        ]

    return forge(attempt, manifest=manifest, calls=calls, relations=relations)


@pytest.mark.parametrize("options", [{}, {"evidence": True}, {"calls": False}, {"json_output": True}], ids=str)
@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_text_from_data_drives_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], stream: Callable[[], io.StringIO]
) -> None:
    """Escapes, markup, bidirectional overrides, line breaks and endless names, in every place that is shown."""
    publish_family(tmp_path / "[bold]\u202e a", monkeypatch)
    code, text = shown(_hostile(tmp_path / "[bold]\u202e a"), stream(), width=100, **options)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", text) if stream is Terminal else text
    assert code == 0
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028\ud800]", bare)
    assert "[red]" in bare
    assert ":smile:" in re.sub(r"[\s│├└─]", "", bare)
    if options.get("json_output"):
        assert HOSTILE in json.loads(text)["harness"]["name"]
    elif not options.get("evidence"):
        assert max(map(len, bare.splitlines())) < 2000
        assert "…" in bare


def test_a_stream_that_cannot_write_a_character_gets_an_escape(busy: Path) -> None:
    """A pipe in ASCII."""

    class Ascii(Terminal):
        encoding = "ascii"  # type: ignore[assignment]

    assert shown(busy, Ascii(), width=100)[1].isascii()


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in items for place in _places(item, (*at, key)))]


def _with(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = _with(value[place[0]], place[1:], new)
    return copy


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_of_a_wrong_type_is_a_clear_line_and_never_a_crash(
    busy: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """One member anywhere in manifest, calls or relations replaced by something else."""
    for name in ("manifest.json", "calls.jsonl", "relations.jsonl"):
        (tmp_path / name).write_bytes((busy / name).read_bytes())
    name = data.draw(st.sampled_from(["manifest.json", "calls.jsonl", "relations.jsonl"]))
    lines = (busy / name).read_bytes().splitlines() if name != "manifest.json" else [(busy / name).read_bytes()]
    index = data.draw(st.integers(0, len(lines) - 1))
    record = json.loads(lines[index])
    place = data.draw(st.sampled_from(_places(record)))
    new = data.draw(st.sampled_from([None, "x", "", -1, 10**400, 1.5, True, [], {}, [None], {"a": 1}, "\ud800"]))
    lines[index] = json.dumps(_with(record, place, new)).encode()
    (tmp_path / name).write_bytes(b"\n".join(lines) + b"\n")
    for options in ({"evidence": True}, {"json_output": True}):
        assert _told(tmp_path, options) in (None, name)


def _told(attempt: Path, options: dict[str, Any]) -> str | None:
    """Shows the attempt; the name of the file that an error is about, or None where something was shown."""
    try:
        view(attempt, stream=io.StringIO(), **options)
    except RollerError as error:
        return Path(str(error).split(": ")[0]).name
    return None


@pytest.mark.parametrize("options", ["", "--json"])
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, redirection: str
) -> None:
    """Exit code 1: nobody has seen it."""
    publish_family(tmp_path / "attempt", monkeypatch)
    done = subprocess.run(
        ["bash", "-c", f'"$PY" -m roller_capture view {options} attempt {redirection}'],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PY": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output could not be written")
    assert done.stderr.count("\n") == 1
