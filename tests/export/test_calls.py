"""`export calls`: which calls get a row, what stands in it, what is said of the others, what never stays behind."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from roller_capture import json_text
from roller_capture.cli import app
from roller_capture.export import calls as export_module
from roller_capture.export.columns import CALL_COLUMNS, CHAT_COLUMNS
from roller_capture.vocabulary import DebugRetention, ExecutionStatus, Purpose
from tests.export.published import CHAT_RESPONSE, RESPONSES_REQUEST, publish_calls, three_protocols
from tests.support.attempts import message_body, request_body
from tests.support.old_attempts import by_participant
from tests.support.publish import lines, publish_family


def export(*arguments: str | Path) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of `export calls`."""
    result = CliRunner().invoke(app, ["export", "calls", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One call of each protocol, in a run directory."""
    place = tmp_path / "run" / "samples" / "s-1" / "capture" / "attempt-0001"
    return publish_calls(place, monkeypatch, three_protocols())


@pytest.fixture
def output(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "calls.jsonl"


def test_a_row_says_where_it_is_from_and_what_was_said(attempt: Path, output: Path, tmp_path: Path) -> None:
    """Every column of its type; provider objects are the JSON text of what was sent."""
    code, out, err = export(tmp_path / "run", "--output", output)
    assert (code, out) == (0, "")
    messages, chat, responses = lines(output)
    calls = lines(attempt / "calls.jsonl")
    for row, call in zip((messages, chat, responses), calls, strict=True):
        assert list(row) == [column.name for column in CALL_COLUMNS]
        assert row["sample_id"] == "s-1"
        assert row["attempt"] == "attempt-0001"
        assert row["manifest_path"] == "run/samples/s-1/capture/attempt-0001/manifest.json"
        assert row["call_id"] == call["call_id"]
        assert row["role"] == "root"
        assert row["context_sha256"] == call["context_sha256"]
        assert json.loads(row["output"]) == call["output"]
        assert json.loads(row["usage"]) == call["usage"]
    assert json.loads(messages["messages"]) == [{"role": "user", "content": "ask"}]
    assert json.loads(messages["parameters"]) == {"model": "fake-model", "max_tokens": 100}
    assert json.loads(responses["system"]) == "be brief"
    assert json.loads(responses["messages"]) == RESPONSES_REQUEST["input"]
    assert json.loads(responses["tools"]) == RESPONSES_REQUEST["tools"]
    assert json.loads(chat["token_ids"]) == {"/prompt_token_ids": [1, 2], "/choices/0/token_ids": [7, 8]}
    assert json.loads(chat["logprobs"]) == {"/choices/0/logprobs": CHAT_RESPONSE["choices"][0]["logprobs"]}  # type: ignore[index]
    assert "exported 3 calls, of 1 attempt read" in err
    assert "left out 0 calls" in err


@pytest.mark.parametrize("form", ["native", "chat"])
@pytest.mark.parametrize("nested", [False, True])
def test_rows_are_as_the_schema_beside_them_says(tmp_path: Path, attempt: Path, form: str, nested: bool) -> None:
    """And the card names every column."""
    del attempt
    output = tmp_path / "rows.jsonl"
    assert export(tmp_path / "run", "--output", output, "--as", form, *["--nested"] * nested)[0] == 0
    schema = json.loads((tmp_path / "rows.jsonl.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    assert [list(Draft202012Validator(schema).iter_errors(row)) for row in lines(output)] == [[], [], []]
    card = (tmp_path / "rows.jsonl.card.md").read_text()
    columns = CHAT_COLUMNS if form == "chat" else CALL_COLUMNS
    assert [column.name for column in columns if f"| `{column.name}` |" not in card] == []


def test_relations_of_a_call_are_in_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The delegation it made, the result it holds, the launch of its agent."""
    publish_family(tmp_path / "a", monkeypatch, execution_status=ExecutionStatus.COMPLETED)
    assert export(tmp_path / "a", "--output", tmp_path / "o.jsonl", "--purpose", "unknown", "--nested")[0] == 0
    first, child, last = lines(tmp_path / "o.jsonl")
    assert {item["type"] for item in first["relations"]} >= {"spawn", "child_completed", "result_delivered"}
    assert [item["type"] for item in child["relations"]] == ["spawn"]
    assert [item["type"] for item in last["relations"]] == ["result_in_context"]
    assert child["parent_participant_id"] == first["participant_id"]
    assert (first["role"], child["role"]) == ("root", "child")


def test_other_purposes_and_blocked_calls_are_left_out_and_counted(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each for one reason; `--purpose` and `--allow` let them in."""
    answer = json.loads(message_body("msg_cut"))
    answer["stop_reason"] = "max_tokens"
    ask = json.loads(request_body({"role": "user", "content": "x"}))
    exchanges = [
        ("anthropic-messages", ask, json.loads(message_body("msg_1"))),
        ("anthropic-messages", ask, json.loads(message_body("msg_title"))),
        ("anthropic-messages", ask, answer),
    ]
    publish_calls(tmp_path / "a", monkeypatch, exchanges, purposes={"msg_title": Purpose.TITLE})
    code, _, err = export(tmp_path / "a", "--output", output)
    assert code == 0
    assert len(lines(output)) == 1
    assert "left out 2 calls:" in err
    assert "1  purpose title" in err
    assert "1  output_truncated" in err
    options = ("--purpose", "agent", "--purpose", "title", "--allow", "output_truncated", "--overwrite")
    assert export(tmp_path / "a", "--output", output, *options)[0] == 0
    assert [json.loads(row["export_blockers"]) for row in lines(output)] == [[], [], ["output_truncated"]]


def test_an_attempt_that_does_not_validate_is_never_exported(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named with the reason, the others go on, exit 1."""
    for name in ("good", "bad", "unfinished"):
        publish_calls(tmp_path / "run" / name, monkeypatch, three_protocols(), capture_id=f"cap_{name:x>20}")
    calls = tmp_path / "run" / "bad" / "calls.jsonl"
    calls.write_bytes(calls.read_bytes().replace(b"be brief", b"be loud!"))
    (tmp_path / "run" / "unfinished" / "manifest.json").unlink()
    (tmp_path / "run" / "unfinished" / "work").mkdir()
    code, out, err = export(tmp_path / "run", "--output", output, "--json")
    assert code == 1
    assert {row["attempt"] for row in lines(output)} == {"good"}
    assert "bad: does not validate: calls.jsonl: " in err
    assert "unfinished: is not published" in err
    assert "not exported: 2 attempts" in err
    document = json.loads(out)
    assert (document["calls"], document["attempts"], len(document["attempts_refused"])) == (3, 1, 2)


def test_where_there_is_nothing_no_file_is_written(attempt: Path, output: Path) -> None:
    """An empty file cannot be loaded; exit 1."""
    code, _, err = export(attempt, "--output", output, "--purpose", "review")
    assert code == 1
    assert "no file was written" in err
    assert list(output.parent.iterdir()) == []


@pytest.mark.parametrize("there", ["calls.jsonl", "calls.jsonl.card.md", "calls.jsonl.schema.json"])
def test_what_is_there_is_replaced_only_on_purpose(attempt: Path, output: Path, there: str) -> None:
    """Exit 2, and the file stays as it is."""
    (output.parent / there).write_text("mine")
    code, _, err = export(attempt, "--output", output)
    assert code == 2
    assert "is there already" in err
    assert (output.parent / there).read_text() == "mine"
    assert export(attempt, "--output", output, "--overwrite")[0] == 0
    assert len(lines(output)) == 3


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_interrupted_export_leaves_what_was_there(
    attempt: Path, output: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    """No half file, no leftover, and the old file untouched."""
    if overwrite:
        output.write_text("old")
    added: list[Any] = []

    def interrupt(_self: Any, row: Any) -> None:
        added.append(row)
        if len(added) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(export_module.Tally, "add", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_module.export_calls(
            export_module.CallExport(paths=(attempt,), output=output, overwrite=overwrite),
        )
    assert [path.name for path in output.parent.iterdir()] == ["calls.jsonl"] * overwrite
    assert not overwrite or output.read_text() == "old"


def test_a_file_in_an_attempt_would_make_it_invalid(attempt: Path) -> None:
    """So it is refused, also through a link."""
    link = attempt.parent / "link"
    link.symlink_to(attempt)
    for folder in (attempt, link):
        code, _, err = export(attempt, "--output", folder / "calls.jsonl")
        assert code == 2
        assert "files belong elsewhere" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--output", "nowhere/x.jsonl"], "no such folder"),
        (["--output", "x.jsonl", "--allow", "context_not_json"], "no messages"),
        (["--output", "x.parquet", "--format", "parquet", "--nested"], "--nested is for"),
    ],
)
def test_what_cannot_be_done_as_asked_is_refused_first(
    attempt: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    """Exit 2, one line."""
    monkeypatch.chdir(tmp_path)
    code, _, err = export(attempt, *options)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(("name", "said"), [("2026-01-02", True), ("2026-01-02-a", False)])
def test_texts_that_readers_take_for_dates_are_told(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: bool
) -> None:
    """`datasets` makes dates of a column of JSON lines in which all texts look like one, whatever it is told."""
    publish_calls(tmp_path / "run" / "samples" / name / "capture" / "attempt-0001", monkeypatch, three_protocols())
    _, _, err = export(tmp_path / "run", "--output", output)
    assert ("every sample_id looks like a date" in err) is said
    _, _, err = export(tmp_path / "run", "--output", output.with_suffix(".parquet"), "--format", "parquet")
    assert "looks like a date" not in err


def test_an_attempt_is_exported_once_however_it_is_named(attempt: Path, output: Path, tmp_path: Path) -> None:
    """By path, and by capture where there is a copy."""
    shutil.copytree(attempt, tmp_path / "copy")
    code, _, err = export(attempt, tmp_path / "run", tmp_path / "copy", "--output", output)
    assert code == 0
    assert len(lines(output)) == 3
    assert "not exported a second time:" in err


def test_lone_surrogates_stay_escaped_in_json_text(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a column is a text of its own, the row is left out, counted and named."""
    ask = b'{"model":"fake-model","max_tokens":1,"messages":[{"role":"user","content":"\\ud83d!"}]}'
    exchanges = [("anthropic-messages", ask, json.loads(message_body("msg_1"))), *three_protocols()[1:]]
    publish_calls(tmp_path / "a", monkeypatch, exchanges)
    assert export(tmp_path / "a", "--output", output)[0] == 0
    assert json.loads(json.loads(output.read_bytes().splitlines()[0])["messages"])[0]["content"] == "\ud83d!"
    code, _, err = export(tmp_path / "a", "--output", output, "--as", "chat", "--overwrite")
    assert code == 0
    assert [row["sequence"] for row in lines(output)] == [2, 3]
    assert "1  lone surrogate" in err
    assert "_000001 (column messages)" in err


def test_numbers_and_depth_that_readers_cannot_hold_are_text(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is rounded."""
    rest = '"seed":123456789012345678901234567890,"top":1e400}'
    ask = f'{{"model":"fake-model","messages":[{{"role":"user","content":"x"}}],{rest}'.encode()
    publish_calls(tmp_path / "a", monkeypatch, [("anthropic-messages", ask, json.loads(message_body("msg_1")))])
    assert export(tmp_path / "a", "--output", output)[0] == 0
    (row,) = lines(output)
    assert row["parameters"] == '{"model":"fake-model",' + rest


def test_old_layouts_are_exported_too(tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if they had today's."""
    publish_family(
        tmp_path / "a",
        monkeypatch,
        debug_retention=DebugRetention.FULL,
        execution_status=ExecutionStatus.COMPLETED,
    )
    by_participant(tmp_path / "a")
    assert export(tmp_path / "a", "--output", output, "--purpose", "unknown", "--purpose", "agent")[0] == 0
    assert len(lines(output)) == 3


def test_a_file_that_changes_while_it_is_read_ends_the_export(
    attempt: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows must come from what was validated; nothing is written."""
    real = export_module.Tally.add

    def touch(self: Any, row: Any) -> None:
        os.utime(attempt / "calls.jsonl", ns=(1, 1))
        real(self, row)

    monkeypatch.setattr(export_module.Tally, "add", touch)
    code, _, err = export(attempt, "--output", output)
    assert code == 1
    assert "has changed since" in err
    assert list(output.parent.iterdir()) == []


def test_requests_that_are_no_objects_have_no_row(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are named."""
    exchanges = [*three_protocols(), ("anthropic-messages", b"[1]", json.loads(message_body("msg_4")))]
    publish_calls(tmp_path / "a", monkeypatch, exchanges)
    code, _, err = export(
        tmp_path / "a", "--output", output, "--allow", "model_mismatch", "--allow", "identity_unresolved"
    )
    assert code == 0
    assert len(lines(output)) == 3
    assert "1  the request is no JSON object" in err


def test_names_of_services_cannot_write_into_card_or_terminal(
    tmp_path: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model's name is data."""
    evil = "m\x1b[31m|`<script>\n---\nx: y"
    ask = json_text.dumps({"model": evil, "messages": [{"role": "user", "content": "x"}]})
    publish_calls(
        tmp_path / "a", monkeypatch, [("anthropic-messages", ask, json.loads(message_body("msg_1", model=evil)))]
    )
    code, _, err = export(tmp_path / "a", "--output", output)
    assert code == 0
    assert "\x1b" not in err
    card = (output.parent / "calls.jsonl.card.md").read_text()
    assert "\x1b" not in card
    assert "<script>" not in card
    assert "\nx: y" not in card
