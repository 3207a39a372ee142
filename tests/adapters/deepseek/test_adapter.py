"""What is read, who is a participant, and what the capture claims of calls."""

from pathlib import Path

import pytest

from roller_capture.adapters.deepseek import read
from roller_capture.adapters.deepseek.identity import COMPACTION_HEADER, IDENTITY_FIELDS, SESSION_HEADER
from roller_capture.adapters.deepseek.version import SENDER_HEADER
from roller_capture.capture_protocol import AdapterInput
from roller_capture.harnesses import HARNESSES
from roller_capture.launchers.deepseek import LAUNCHER
from roller_capture.vocabulary import Purpose
from tests.adapters.deepseek.session_logs import (
    CHILD,
    OTHER,
    ROOT,
    SessionLogs,
    accepted,
    answer,
    child_log,
    event,
    gap_codes,
    header,
    launch,
    relation_types,
    settled,
    turn,
)


@pytest.fixture
def logs(tmp_path: Path) -> SessionLogs:
    return SessionLogs(tmp_path)


def _tools(*names: str) -> dict[str, object]:
    return event("request/header", header={"tools": [{"name": name} for name in names]})


def test_only_the_sessions_on_the_wire_and_their_descendants_are_read(logs: SessionLogs) -> None:
    """A home holds other people's sessions too."""
    logs.write([header(), *turn(*launch())])
    logs.write(child_log())
    logs.write([header(OTHER), *turn(answer("m-other"))])
    native = logs.read()
    assert [item.key for item in native.participants] == [ROOT, CHILD]
    assert [OTHER in source.source for source in native.sources] == [False, False]


@pytest.mark.parametrize("place", [".", "sessions/..", ".dsh"])
def test_the_native_root_is_a_home_or_the_harness_own_folder(tmp_path: Path, place: str) -> None:
    """The logs are found below either."""
    logs = SessionLogs(tmp_path)
    logs.write([header(), *turn(answer("m-1"))])
    if place == ".dsh":
        (logs.root / ".dsh").mkdir()
        (logs.root / "sessions").rename(logs.root / ".dsh" / "sessions")
    elif place != ".":
        logs.root = logs.root / "sessions"
        assert read(AdapterInput(logs.root, {"x-deepseek-harness-session-id": frozenset({ROOT})})).participants
        return
    assert [item.key for item in logs.read().participants] == [ROOT]


def test_a_root_that_the_launcher_names_is_read_without_any_header(logs: SessionLogs) -> None:
    """Chat Completions requests carry no identity."""
    logs.write([header(), *turn(answer("m-1", response_id="chatcmpl-1"))])
    launcher: dict[str, object] = {"root_native_id": ROOT}
    native = read(AdapterInput(logs.root, {}, launcher, logs.scratch))
    assert [(item.key, item.role.value) for item in native.participants] == [(ROOT, "root")]
    assert ("response_id", "chatcmpl-1", ROOT) in {
        (claim.field, claim.value, claim.participant_key) for claim in native.identity_claims
    }


@pytest.mark.parametrize(
    ("records", "key", "strength"),
    [
        ([accepted(0), answer("m-1"), accepted(2), answer("m-2")], "context:/dsh_session_log/throughSeq", "per_id"),
        ([answer("m-1", response_id="r-1"), answer("m-2", response_id="r-2")], "response_id", "per_id"),
        ([answer("m-1"), answer("m-2")], "header:x-deepseek-harness-session-id", "count"),
        ([accepted(0), answer("m-1"), answer("m-2")], "header:x-deepseek-harness-session-id", "count"),
        (
            [accepted(0), answer("m-1"), answer("m-2", response_id="r-2")],
            "header:x-deepseek-harness-session-id",
            "count",
        ),
    ],
    ids=["own-provider", "other-provider", "no-upload", "one-without", "both"],
)
def test_coverage_is_by_id_where_every_output_has_one(
    logs: SessionLogs, records: list[dict[str, object]], key: str, strength: str
) -> None:
    """Else the completed assistants are counted."""
    logs.write([header(), *turn(*records)])
    coverage = logs.read().coverage
    assert (coverage.field, coverage.strength.value, len(coverage.outputs or ())) == (key, strength, 2)
    assert coverage.protocol_count == {ROOT: 2}


def test_titles_and_compactions_count_as_outputs_of_their_session(logs: SessionLogs) -> None:
    """So that such a call cannot stand in for a lost one of the agent; the protocol's own count leaves them out."""
    title = event("session/title", title="T", source={"kind": "provider"})
    fallback = event("session/title", title="T", source={"kind": "fallback"})
    logs.write([header(), *turn(answer("m-1"), title, fallback, event("compaction/summary", turn=1))])
    coverage = logs.read().coverage
    assert (len(coverage.outputs or ()), coverage.protocol_count) == (3, {ROOT: 1})


def test_a_run_without_any_answer_has_nothing_to_compare(logs: SessionLogs) -> None:
    """And lacks nothing: each of its calls failed."""
    logs.write([header(), *turn(event("assistant/attempt", turn=1), reason="error")])
    coverage = logs.read().coverage
    assert (coverage.strength, coverage.outputs, coverage.protocol_count) == ("per_id", (), {ROOT: 0})


_TITLE_ASKED = event("session/title-llm-request", system="Title.")
_TITLE = event("session/title", title="T", source={"kind": "provider"})
_RESUMED = event("session/end-seed")
_NEXT = event("turn/start", turn=2)


@pytest.mark.parametrize(
    ("records", "numbers"),
    [
        ([accepted(0), answer("m-1"), accepted(3), answer("m-2")], ["0", "3"]),
        # A call that failed after the provider had taken it, and the next attempt.
        ([accepted(0), event("assistant/attempt", turn=1), accepted(3), answer("m-1")], ["3"]),
        # One that the provider refused leaves no acceptance.
        ([event("assistant/attempt", turn=1), accepted(2), answer("m-1")], ["2"]),
        # A title is asked for beside the first answer, with the same events or with others.
        ([_TITLE_ASKED, accepted(1), _TITLE, accepted(1), answer("m-1")], ["1", "1"]),
        ([_TITLE_ASKED, accepted(1), accepted(1), answer("m-1"), _TITLE], ["1", "1"]),
        ([_TITLE_ASKED, accepted(1), accepted(2), answer("m-1"), _TITLE], ["1", "2"]),
        ([_TITLE_ASKED, accepted(1), answer("m-1"), accepted(1), accepted(5), answer("m-2"), _TITLE], ["1", "1", "5"]),
        # An acceptance that is told twice.
        ([accepted(0), accepted(0), answer("m-1"), accepted(0), accepted(4), answer("m-2")], ["0", "4"]),
        ([accepted(0), event("assistant/attempt"), accepted(0), accepted(4), answer("m-2")], ["4"]),
        # A compaction, and one that failed.
        (
            [event("compaction/start"), accepted(1), event("compaction/summary"), accepted(4), answer("m-1")],
            ["1", "4"],
        ),
        ([event("compaction/start"), accepted(1), event("compaction/end"), accepted(4), answer("m-1")], ["4"]),
        # A call that ended with its process has no output, whatever the resumed session, or only a next turn, brings.
        ([accepted(0), _RESUMED, _NEXT, accepted(3), answer("m-1"), accepted(9), answer("m-2")], ["3", "9"]),
        ([accepted(0), _RESUMED, _NEXT, answer("m-1"), accepted(9), answer("m-2")], [None, None]),
        ([accepted(0), _RESUMED, _NEXT, answer("m-1")], [None]),
        ([accepted(0), _RESUMED, answer("m-1")], [None]),
        ([accepted(0), _NEXT, accepted(3), answer("m-1")], ["3"]),
        ([accepted(0), _NEXT, answer("m-1")], [None]),
        # What is not known is no number: two that were accepted, a parent's, and no number at all.
        ([accepted(0), accepted(2), answer("m-1")], [None]),
        ([accepted(0, OTHER), answer("m-1")], [None]),
        ([accepted(-1), answer("m-1")], [None]),
        ([_TITLE_ASKED, _TITLE, accepted(3), answer("m-1")], [None, None]),
    ],
)
def test_an_output_is_that_of_the_request_accepted_before_it(
    logs: SessionLogs, records: list[dict[str, object]], numbers: list[str | None]
) -> None:
    """The request's number in the body and the acceptance's in the log are the same."""
    logs.write([header(), *turn(*records)])
    outputs = logs.read().coverage.outputs or ()
    assert sorted(str(output.output_id) for output in outputs) == sorted(map(str, numbers))


def test_a_call_that_was_aborted_in_the_middle_is_no_output(logs: SessionLogs) -> None:
    """The harness keeps the text that had come, and marks it."""
    cut = answer("m-2")
    cut["data"]["interrupted"] = True
    logs.write([header(), *turn(answer("m-1"), cut, reason="aborted")])
    assert logs.read().coverage.protocol_count == {ROOT: 1}


def test_a_header_that_no_request_had_is_claimed_of_nobody(logs: SessionLogs) -> None:
    """Else calls of a protocol that lacks it would be held to have lost it."""
    logs.write([header(), *turn(answer("m-1"))])
    fields = {claim.field for claim in logs.read().identity_claims}
    assert "header:x-deepseek-harness-session-id" in fields
    assert "header:session_id" not in fields
    without = read(AdapterInput(logs.root, {}, {"root_native_id": ROOT}, logs.scratch))
    assert not any(claim.field.startswith("header:") for claim in without.identity_claims)


def test_a_responses_session_is_found_by_the_header_that_it_has(logs: SessionLogs) -> None:
    """Also in a user's home, where no launcher names it and other sessions are no business of ours."""
    logs.write([header(), *turn(answer("m-1", response_id="resp-1"))])
    logs.write([header(OTHER), *turn(answer("m-other"))])
    native = read(AdapterInput(logs.root, {"session_id": frozenset({ROOT})}, {}, logs.scratch))
    assert [item.key for item in native.participants] == [ROOT]
    assert ("header:session_id", ROOT) in {(claim.field, claim.value) for claim in native.identity_claims}


def test_the_recorder_stores_every_header_that_may_prove_something() -> None:
    """It stores values of those in the registry row only."""
    known = set(HARNESSES["deepseek"].identity_headers)
    assert {field.header for field in IDENTITY_FIELDS} | {COMPACTION_HEADER} | set(
        LAUNCHER.traits.session_headers
    ) <= known
    assert HARNESSES["deepseek"].version_header == SENDER_HEADER


def test_purposes_come_from_the_harness_own_records(logs: SessionLogs) -> None:
    """The system prompt of an agent, that of a title call, and the header of compaction calls."""
    system = event("system/message", message={"role": "system", "content": [{"type": "text", "text": "Agent."}]})
    logs.write([header(), *turn(system, event("session/title-llm-request", system="Title."), answer("m-1"))])
    claims = {(claim.field, claim.value): (claim.purpose, claim.side_call) for claim in logs.read().purpose_claims}
    assert claims["context:/system", "Agent."] == (Purpose.AGENT, False)
    assert claims["context:/system", "Title."] == (Purpose.TITLE, True)
    assert claims["header:x-deepseek-harness-compact", "1"] == (Purpose.COMPACTION, True)


def test_a_system_prompt_of_both_kinds_tells_nothing(logs: SessionLogs) -> None:
    """An agent whose prompt is that of title calls cannot be told from one."""
    system = event("system/message", message={"role": "system", "content": [{"type": "text", "text": "Same."}]})
    logs.write([header(), *turn(system, event("session/title-llm-request", system="Same."))])
    assert {claim.field for claim in logs.read().purpose_claims} == {"header:x-deepseek-harness-compact"}


@pytest.mark.parametrize(
    ("records", "support"),
    [
        ([_tools("bash", "read_image")], "not_available_in_bundled_profile"),
        ([_tools("bash", "subagent")], "supported"),
        ([_tools("bash"), _tools("bash", "workflow")], "supported"),
        ([], "unknown"),
    ],
    ids=["minimal", "full", "later", "untold"],
)
def test_what_the_profile_can_do_is_read_from_the_tools_it_offered(
    logs: SessionLogs, records: list[dict[str, object]], support: str
) -> None:
    """Never from the profile's name."""
    logs.write([header(), *turn(*records, answer("m-1"))])
    assert logs.read().subtasks.value == support


def test_a_forked_child_owns_what_follows_the_copy(logs: SessionLogs) -> None:
    """Its log begins with its parent's records; they are outputs and delegations of the parent alone."""
    copied = turn(*launch("tool-1"), settled())
    own = turn(answer("m-fork"))
    logs.write([header(), *copied, *turn(*launch("tool-2", OTHER)), *turn(settled(OTHER, message_id="n-2"))])
    logs.write([header(OTHER, ROOT, isSeeded=True), *copied, event("session/end-seed"), *own])
    logs.write(child_log())
    native = logs.read()
    owners = {item.evidence.locator: item.participant_key for item in native.coverage.outputs or ()}
    assert native.coverage.protocol_count == {ROOT: 2, OTHER: 1, CHILD: 1}
    assert len(owners) == 4
    assert relation_types(native) == {"spawn": 2, "launch_acknowledged": 2, "child_completed": 2, "result_delivered": 2}
    assert native.gaps == ()


def test_a_resumed_session_owns_what_precedes_the_mark(logs: SessionLogs) -> None:
    """The same mark, in a session that is no fork."""
    logs.write([header(), *turn(answer("m-1")), event("session/end-seed"), *turn(answer("m-2"))])
    assert logs.read().coverage.protocol_count == {ROOT: 2}


@pytest.mark.parametrize(
    ("records", "status"),
    [
        (turn(answer("m-1")), "completed"),
        (turn(answer("m-1"), reason="max-tokens"), "completed"),
        (turn(reason="error", code="SERVER"), "failed"),
        (turn(reason="aborted"), "interrupted"),
        (turn(answer("m-1"), reason=None), "interrupted"),
        (turn(reason="something-new"), "unknown"),
        ([], "unknown"),
    ],
    ids=["completed", "truncated", "failed", "aborted", "running", "new-word", "no-turn"],
)
def test_a_root_ended_as_its_last_turn_did(logs: SessionLogs, records: list[dict[str, object]], status: str) -> None:
    """One that never ended was interrupted."""
    logs.write([header(), *records])
    assert [item.execution_status.value for item in logs.read().participants] == [status]


def test_a_child_without_a_log_is_a_participant_all_the_same(logs: SessionLogs) -> None:
    """Its parent's record names its session, which is what its calls carry; nothing more is known of it."""
    logs.write([header(), *turn(*launch()), *turn(settled())])
    native = logs.read()
    assert {claim.value for claim in native.identity_claims if claim.participant_key == CHILD} == {CHILD}
    assert gap_codes(native) == {"participant_log_missing", "native_relation_unproven"}
    assert relation_types(native) == {"spawn": 1, "launch_acknowledged": 1}
    assert {item.key: item.lifecycle.value for item in native.participants}[CHILD] == "unknown"


@pytest.mark.parametrize(
    ("launcher", "roots", "codes"),
    [
        ({}, {ROOT, OTHER}, {"root_ambiguous"}),
        ({"root_native_id": ROOT}, {ROOT}, {"native_relation_unproven"}),
        ({"root_native_id": "session-unknown"}, {ROOT, OTHER}, {"root_ambiguous", "participant_log_missing"}),
    ],
    ids=["none-named", "one-named", "a-third-named"],
)
def test_two_sessions_without_a_parent(
    logs: SessionLogs, launcher: dict[str, object], roots: set[str], codes: set[str]
) -> None:
    """The one that the launcher started is the root; else it is not known, and said."""
    logs.write([header(), *turn(answer("m-1"))])
    logs.write([header(OTHER), *turn(answer("m-2"))])
    native = logs.read(ROOT, OTHER, launcher=launcher)
    assert {item.key for item in native.participants if item.role.value == "root"} == roots
    assert gap_codes(native) == codes


def test_two_logs_of_one_session_are_not_unique(logs: SessionLogs) -> None:
    """Its calls belong to nobody."""
    logs.write([header(), *turn(answer("m-1"))])
    logs.write([header(), *turn(answer("m-1"))], folder="--elsewhere--")
    native = logs.read()
    assert native.participants == ()
    assert gap_codes(native) == {"native_id_not_unique"}
    assert native.coverage.outputs is None


@pytest.mark.parametrize(
    ("version", "tested", "codes"), [("0.2.1rc2", True, set()), ("0.9.0", False, {"native_version_untested"})]
)
def test_the_version_is_the_launchers(logs: SessionLogs, version: str, tested: bool, codes: set[str]) -> None:
    """The logs do not tell it."""
    logs.write([header(), *turn(answer("m-1"))])
    native = logs.read(launcher={"root_native_id": ROOT, "harness_version": version})
    assert (native.harness_version, native.version_tested, gap_codes(native)) == (version, tested, codes)


@pytest.mark.parametrize(
    ("senders", "version", "tested", "codes"),
    [
        (["deepseek-harness/0.2.1-rc.2 (+https://github.com/deepseek-ai/deepseek-harness)"], "0.2.1rc2", True, set()),
        (["deepseek-harness/0.9.0 (+x)"], "0.9.0", False, {"native_version_untested"}),
        (["deepseek-harness/0.9.0-nightly"], "0.9.0-nightly", False, {"native_version_untested"}),
        (["deepseek-harness/0.2.1-rc.2", "deepseek-harness/0.3.0"], "0.3.0", False, {"native_version_untested"}),
        (
            ["OpenAI/JS 6.1.0", "xdeepseek-harness/0.9.0", "deepseek-harness/\x00", "deepseek-harness/"],
            None,
            False,
            set(),
        ),
    ],
    ids=repr,
)
def test_without_a_launcher_the_version_is_that_of_the_requests(
    logs: SessionLogs, senders: list[str], version: str | None, tested: bool, codes: set[str]
) -> None:
    """As the package writes it; one that was not tested is named."""
    logs.write([header(), *turn(answer("m-1"))])
    wire = {SESSION_HEADER: frozenset({ROOT}), SENDER_HEADER: frozenset(senders)}
    native = read(AdapterInput(logs.root, wire, {}, logs.scratch))
    assert (native.harness_version, native.version_tested, gap_codes(native)) == (version, tested, codes)


def test_what_the_launcher_knows_is_better(logs: SessionLogs) -> None:
    """Than what a request says of itself."""
    logs.write([header(), *turn(answer("m-1"))])
    wire = {SESSION_HEADER: frozenset({ROOT}), SENDER_HEADER: frozenset({"deepseek-harness/0.9.0"})}
    native = read(AdapterInput(logs.root, wire, {"harness_version": "0.2.1rc2"}, logs.scratch))
    assert (native.harness_version, native.version_tested, gap_codes(native)) == ("0.2.1rc2", True, set())


def test_another_log_format_is_read_and_said(logs: SessionLogs) -> None:
    """What can be read of it is."""
    logs.write([header(version=5), *turn(answer("m-1"))])
    native = logs.read()
    assert [item.key for item in native.participants] == [ROOT]
    assert gap_codes(native) == {"native_version_untested"}
