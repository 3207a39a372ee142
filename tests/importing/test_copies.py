"""What is in two of the imported files is no two calls."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mitmproxy import http
from mitmproxy.flow import Error
from typer.testing import CliRunner

from roller_capture.cli import app
from roller_capture.errors import RollerError
from roller_capture.importing.command import ImportRequest, import_attempt, outcome_lines
from roller_capture.importing.repeated import LeftOut
from roller_capture.vocabulary import AttemptErrorCode
from roller_capture.working_files import read_working_files
from tests.importing.recorded import ANSWER, data_of, flow, har_entry, write_flows, write_har

Change = Callable[[http.HTTPFlow], None]


def _said(*sources: Path, attempt: Path) -> tuple[int, list[str]]:
    """How many calls were imported, and what was said."""
    request = ImportRequest(sources, attempt, "generic")
    outcome = import_attempt(request)
    return outcome.calls, list(outcome_lines(request, outcome))


@pytest.mark.parametrize("kind", ["named twice", "copied", "linked", "HAR"])
def test_the_same_file_twice_is_refused(tmp_path: Path, kind: str) -> None:
    """By its content, whatever it is called; one line, exit 2, nothing is there."""
    first = write_flows(tmp_path / "f", flow()) if kind != "HAR" else write_har(tmp_path / "f", har_entry())
    second = tmp_path / "g"
    if kind == "named twice":
        second = first
    elif kind == "linked":
        second.symlink_to(first)
    else:
        second.write_bytes(first.read_bytes())
    arguments = ["import", str(first), str(second), "--attempt", str(tmp_path / "attempt"), "--harness", "generic"]
    result = CliRunner().invoke(app, arguments)
    what = "named twice" if kind == "named twice" else f"the same file as {first}"
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {second}: is {what}: name each file once, or its calls would count twice\n",
    )
    assert not (tmp_path / "attempt").exists()


def test_empty_files_are_told_as_such(tmp_path: Path) -> None:
    """They are the same by their content, too."""
    for name in ("f", "g"):
        (tmp_path / name).touch()
    with pytest.raises(RollerError, match="is empty"):
        import_attempt(ImportRequest((tmp_path / "f", tmp_path / "g"), tmp_path / "attempt", "generic"))


def test_a_flow_in_two_files_counts_once_and_is_named(tmp_path: Path) -> None:
    """A copy that was made while mitmdump went on, and its whole file; wherever they stand."""
    one, two, three = (flow(started_at=moment) for moment in (1.0, 2.0, 3.0))
    part = write_flows(tmp_path / "part", two)
    whole = write_flows(tmp_path / "whole", one, two, three, three)
    calls, said = _said(part, whole, attempt=tmp_path / "attempt")
    assert calls == 3
    assert f"warning: {whole}: 2 records left out: copies of flows that stand before them" in said
    attempt = read_working_files(tmp_path / "attempt")
    assert [call.flow for call in attempt.calls] == ["2:1", "1:1", "2:3"]
    (fault,) = (fault for fault in attempt.faults if fault.code is AttemptErrorCode.IMPORT_SOURCE_DAMAGED)
    assert fault.message == "2 records of file 2 left out: copies of flows that stand before them"


def _again(made: http.HTTPFlow) -> http.HTTPFlow:
    """A flow with the same id, to be changed."""
    again = http.HTTPFlow.from_state(made.get_state())
    assert isinstance(again, http.HTTPFlow)
    return again


def _unanswered(made: http.HTTPFlow) -> None:
    made.response = None


def _unended(made: http.HTTPFlow) -> None:
    made.response = None
    made.request.timestamp_end = None


def _answer_not_over(made: http.HTTPFlow) -> None:
    assert made.response is not None
    made.response.timestamp_end = None


def _without_body(made: http.HTTPFlow) -> None:
    assert made.response is not None
    made.response.raw_content = None


def _edited(made: http.HTTPFlow) -> None:
    made.backup()
    assert made.response is not None
    made.response.content = b"edited"


def _replayed(made: http.HTTPFlow) -> None:
    made.is_replay = "request"


def _damaged(made: http.HTTPFlow) -> None:
    made.request.data.headers = http.Headers(((b"a", b"x" * (1 << 21)),))


@pytest.mark.parametrize("whole_first", [False, True])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_unanswered, "1 record of file {} left out: other records of the same flows prove more"),
        (_unended, "1 record of file {} left out: other records of the same flows prove more"),
        (_answer_not_over, "1 record of file {} left out: other records of the same flows prove more"),
        (_without_body, "1 record of file {} left out: other records of the same flows prove more"),
        (_edited, "1 record of file {} left out: other records of the same flows prove more"),
        (_replayed, "1 record of file {} left out: other records of the same flows prove more"),
        (_damaged, "file {}: record 1 cannot be read: its head is larger than any that a server takes"),
    ],
)
def test_the_record_that_proves_most_counts(tmp_path: Path, change: Change, words: str, whole_first: bool) -> None:
    """Whatever the order; the other one is no copy, and that is said."""
    made = flow()
    early = _again(made)
    change(early)
    paths = [write_flows(tmp_path / "early", early), write_flows(tmp_path / "whole", made)]
    if whole_first:
        paths.reverse()
    calls, said = _said(*paths, attempt=tmp_path / "attempt")
    attempt = read_working_files(tmp_path / "attempt")
    (call,) = attempt.calls
    assert (calls, call.flow, call.status) == (1, "1:1" if whole_first else "2:1", 200)
    assert data_of(call.response_body) == ANSWER
    (fault,) = (fault for fault in attempt.faults if fault.code is AttemptErrorCode.IMPORT_SOURCE_DAMAGED)
    assert fault.message == words.format(2 if whole_first else 1)
    assert not any("copies" in line for line in said)
    told = f"warning: {tmp_path / 'early'}: 1 record left out: other records of the same flows prove more"
    assert (told in said) == (change is not _damaged)


def _killed(made: http.HTTPFlow) -> None:
    made.error = Error(Error.KILLED_MESSAGE, 5.0)


def _broken(made: http.HTTPFlow) -> None:
    made.error = Error("broken", 5.0)


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        ((_edited,), (_unanswered,)),
        ((_replayed,), (_unanswered,)),
        ((_killed,), (_without_body,)),
        ((_unanswered, _killed), (_answer_not_over,)),
        ((_unended, _killed), (_unanswered, _broken)),
        ((_unanswered,), (_unanswered, _broken)),
        ((_unanswered, _broken), (_unanswered, _killed)),
    ],
    ids=["as it passed", "not a replay", "ended", "answered", "sent whole", "its end is known", "fewer gaps"],
)
@pytest.mark.parametrize("better_first", [False, True])
def test_what_makes_one_record_prove_more(
    tmp_path: Path, worse: tuple[Change, ...], better: tuple[Change, ...], better_first: bool
) -> None:
    """In this order: the first thing in which two records differ decides. A copy of the better one is a copy still."""
    made = flow()
    less, more = _again(made), _again(made)
    for record, changes in ((less, worse), (more, better)):
        for change in changes:
            change(record)
    first, second = write_flows(tmp_path / "f", less), write_flows(tmp_path / "g", more, more)
    sources = (second, first) if better_first else (first, second)
    calls, said = _said(*sources, attempt=tmp_path / "attempt")
    flows = [call.flow for call in read_working_files(tmp_path / "attempt").calls]
    assert (calls, flows) == (1, ["1:1" if better_first else "2:1"])
    assert f"warning: {first}: 1 record left out: {LeftOut.LESS}" in said
    assert f"warning: {second}: 1 record left out: {LeftOut.COPY}" in said


@pytest.mark.parametrize("message", ["request", "response"])
def test_whole_records_that_differ_are_no_copies(tmp_path: Path, message: str) -> None:
    """Nothing tells which of them is right: the same one counts in each order, and it is said that they differ."""
    one = flow()
    other = _again(one)
    getattr(other, message).raw_content = b"{}"
    paths = [write_flows(tmp_path / "f", one), write_flows(tmp_path / "g", other)]
    kept = []
    for name, sources in (("a", paths), ("b", paths[::-1])):
        calls, said = _said(*sources, attempt=tmp_path / name)
        assert calls == 1
        assert [line.partition("left out: ")[2] for line in said if "left out" in line] == [LeftOut.UNLIKE]
        (call,) = read_working_files(tmp_path / name).calls
        kept.append((data_of(call.request_body), data_of(call.response_body)))
    assert kept[0] == kept[1]


def test_what_an_import_does_not_read_makes_no_difference(tmp_path: Path) -> None:
    """A mark of mitmproxy's user, or the end of the connection, is nothing of the exchange."""
    made = flow()
    marked = _again(made)
    marked.marked, marked.client_conn.timestamp_end = ":x:", 9.0
    calls, said = _said(
        write_flows(tmp_path / "f", made), write_flows(tmp_path / "g", marked), attempt=tmp_path / "attempt"
    )
    assert calls == 1
    assert f"warning: {tmp_path / 'g'}: 1 record left out: {LeftOut.COPY}" in said


def test_equal_flows_with_ids_of_their_own_are_two_calls(tmp_path: Path) -> None:
    """Nothing but the id counts."""
    calls, said = _said(
        write_flows(tmp_path / "f", flow(), flow()), write_flows(tmp_path / "g", flow()), attempt=tmp_path / "attempt"
    )
    assert calls == 3
    assert not any("left out" in line for line in said)


def test_a_har_beside_other_files_may_hold_their_calls(tmp_path: Path) -> None:
    """It has no ids: said, and in the attempt. Alone there is nothing to share."""
    flows, har = write_flows(tmp_path / "f", flow()), write_har(tmp_path / "h.har", har_entry())
    words = "a HAR has no ids"
    _, said = _said(flows, har, attempt=tmp_path / "two")
    assert [line for line in said if words in line] == [
        f"warning: {har}: a HAR has no ids: what the other files hold of it, too, was imported twice"
    ]
    assert any(words in fault.message for fault in read_working_files(tmp_path / "two").faults)
    _, said = _said(har, attempt=tmp_path / "one")
    assert not any(words in line for line in said)
    assert not any(words in fault.message for fault in read_working_files(tmp_path / "one").faults)


@pytest.mark.parametrize(
    ("harness", "native", "option"),
    [("claude-code", False, " --native HOME"), ("claude-code", True, " --native HOME"), ("generic", False, "")],
)
def test_the_next_command_keeps_the_attribution(tmp_path: Path, harness: str, native: bool, option: str) -> None:
    """Without the logs it would be lost for good; an agent of one's own may have none."""
    (tmp_path / "home").mkdir()
    path = write_flows(tmp_path / "f", flow())
    request = ImportRequest((path,), tmp_path / "attempt", harness, tmp_path / "home" if native else None)
    *before, last = outcome_lines(request, import_attempt(request))
    assert last.startswith(f"now: roller-capture finalize {tmp_path / 'attempt'}{option} --execution-status completed")
    assert "what is published is final" in before[-1]
    assert "--native" in before[-1]


def test_with_the_logs_there_the_next_command_needs_none(tmp_path: Path) -> None:
    """They are below work/native then."""
    session = "11111111-2222-4333-8444-555555555555"
    log = tmp_path / "home" / ".claude" / "projects" / "p" / f"{session}.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps({"sessionId": session, "type": "user"}) + "\n")
    path = write_flows(tmp_path / "f", flow("/v1/messages", (b"x-claude-code-session-id", session.encode())))
    request = ImportRequest((path,), tmp_path / "attempt", "claude-code", tmp_path / "home")
    assert not any("--native" in line for line in outcome_lines(request, import_attempt(request)))
