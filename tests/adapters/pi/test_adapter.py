"""What is claimed, and what is left unknown, for logs that the recorded runs do not show."""

from pathlib import Path
from typing import Any

import pytest

from roller_capture.adapters.pi import read
from roller_capture.capture_protocol import AdapterInput
from roller_capture.vocabulary import CoverageStrength, LifecycleStatus, Purpose, Role, SubtaskSupport
from tests.adapters.claude_code.native_checks import assert_sound
from tests.adapters.pi.session_logs import (
    BUNDLED,
    GOOD,
    OTHER,
    SESSION,
    answer,
    capture,
    claims,
    compaction,
    gap_codes,
    header,
    message,
    offered,
    write_log,
)


@pytest.mark.parametrize(
    "base", [".pi/agent/sessions", "agent/sessions", "sessions", "."], ids=["home", "pi", "agent", "sessions"]
)
def test_the_log_is_found_below_the_home_or_the_harness_folder(tmp_path: Path, base: str) -> None:
    """`--native` may name any of them."""
    write_log(tmp_path, *GOOD, base=base)
    native = capture(tmp_path, SESSION)
    assert_sound(native)
    assert claims(native) == {"resp-1": SESSION}
    assert native.gaps == ()


def test_a_log_lies_in_an_own_session_directory(tmp_path: Path) -> None:
    """With `--session-dir` there is no folder for the working directory."""
    write_log(tmp_path, *GOOD, base="sessions", cwd=".")
    assert claims(capture(tmp_path, SESSION)) == {"resp-1": SESSION}


def test_sessions_that_made_no_request_are_not_read(tmp_path: Path) -> None:
    """They are somebody else's: neither claimed nor kept."""
    write_log(tmp_path, *GOOD)
    write_log(tmp_path, header(OTHER), answer(2), session_id=OTHER)
    native = capture(tmp_path, SESSION)
    assert claims(native) == {"resp-1": SESSION}
    assert [SESSION in source.source for source in native.sources] == [True]


def test_an_id_with_an_underscore_is_told_from_the_end_of_another(tmp_path: Path) -> None:
    """`…_b.jsonl` may be session `b` or session `a_b`: the header says which."""
    write_log(tmp_path, header("a_b"), answer(1), session_id="a_b")
    write_log(tmp_path, header("b"), answer(2), session_id="b")
    assert claims(capture(tmp_path, "b")) == {"resp-2": "b"}
    assert claims(capture(tmp_path, "a_b")) == {"resp-1": "a_b"}


@pytest.mark.parametrize(
    ("last", "status"),
    [
        ([answer(1)], "completed"),
        ([answer(1, stopReason="length")], "completed"),
        ([answer(1, stopReason="toolUse")], "interrupted"),
        ([answer(1, stopReason="aborted")], "interrupted"),
        ([answer(1, stopReason="error")], "failed"),
        ([answer(1, stopReason="new")], "unknown"),
        ([answer(1), message("u-2", "a-1", "user")], "interrupted"),
        ([answer(1, stopReason="toolUse"), message("t", "a-1", "toolResult")], "interrupted"),
        ([answer(1), compaction("c", "a-1")], "completed"),
        ([], "interrupted"),
    ],
)
def test_how_a_session_ended_is_told_by_its_last_message(tmp_path: Path, last: list[Any], status: str) -> None:
    """One that just stops, or waits for tools or an answer, was interrupted."""
    write_log(tmp_path, *GOOD[:3], *last)
    [root] = capture(tmp_path, SESSION).participants
    assert root.execution_status == status


@pytest.mark.parametrize(
    ("entries", "support"),
    [
        (GOOD, SubtaskSupport.NOT_AVAILABLE),
        ((header(), offered(*BUNDLED, "grep", "find", "ls"), answer(1)), SubtaskSupport.NOT_AVAILABLE),
        ((header(), offered(*BUNDLED, "subagent"), answer(1)), SubtaskSupport.UNKNOWN),
        ((*GOOD, message("s", "a-1", "system", toolsAdded=[{"name": "task"}])), SubtaskSupport.UNKNOWN),
        ((header(), offered(*BUNDLED, None), answer(1)), SubtaskSupport.UNKNOWN),
        ((header(), answer(1)), SubtaskSupport.UNKNOWN),
        ((), SubtaskSupport.UNKNOWN),
    ],
)
def test_delegation_is_excluded_only_where_all_tools_are_known(
    tmp_path: Path, entries: tuple[Any, ...], support: SubtaskSupport
) -> None:
    """Extensions, and forks of Pi with the same log format, bring delegation tools of their own."""
    write_log(tmp_path, *entries)
    assert capture(tmp_path, SESSION).subtasks is support


@pytest.mark.parametrize(
    ("entries", "leaves"),
    [
        ((compaction("c", "a-1"),), {"a-1"}),
        ((compaction("c", "a-1", fromHook=True),), set()),
        ((compaction("c", "a-1"), answer(2, "a-1")), set()),
        ((compaction("c", "a-1"), answer(2, "c"), compaction("d", "a-2")), {"a-1", "a-2"}),
        (({**compaction("c", "a-1"), "parentId": None},), set()),
    ],
    ids=["plain", "by an extension", "an answer at the same entry", "twice", "at no entry"],
)
def test_a_compaction_is_told_by_the_entry_it_was_appended_to(
    tmp_path: Path, entries: tuple[Any, ...], leaves: set[str]
) -> None:
    """Only where nothing else was appended there; else the purpose stays unknown."""
    write_log(tmp_path, *GOOD, *entries)
    native = capture(tmp_path, SESSION)
    found = {item.value for item in native.purpose_claims if item.field == "header:x-roller-leaf"}
    assert found == leaves
    assert {item.purpose for item in native.purpose_claims if item.field == "response_id"} == {Purpose.AGENT}


def test_an_entry_id_of_two_sessions_tells_nothing(tmp_path: Path) -> None:
    """Entry ids are eight digits, and unique only within a log."""
    write_log(tmp_path, *GOOD, compaction("c", "a-1"))
    write_log(tmp_path, header(OTHER), answer(2), compaction("c", "a-1"), session_id=OTHER)
    native = capture(tmp_path, SESSION, OTHER)
    assert [item for item in native.purpose_claims if item.purpose is Purpose.COMPACTION] == []


@pytest.mark.parametrize(
    ("entries", "wire", "field", "outputs"),
    [
        ((answer(2, stopReason="error"),), {}, "response_id", ["resp-1", "resp-2"]),
        ((answer(2, stopReason="error", responseId=None),), {}, "response_id", ["resp-1"]),
        ((answer(2, responseId=None),), {}, "response_id", ["resp-1", None]),
        ((answer(2, responseId=None),), {"x_roller_leaf": "u-1"}, "header:x-roller-leaf", ["u-1", "u-2"]),
        (
            (answer(2, responseId=None), answer(3, stopReason="error")),
            {"x_roller_leaf": "u-1"},
            "header:x-roller-leaf",
            ["u-1", "u-2"],
        ),
    ],
    ids=["failed with an id", "failed without a body", "no id, no hook", "no id", "no id, and one failed"],
)
def test_which_outputs_need_a_call(
    tmp_path: Path, entries: tuple[Any, ...], wire: dict[str, str], field: str, outputs: list[str | None]
) -> None:
    """By the provider's id; where it gives none, by the entry that the hook named, for completed answers."""
    write_log(tmp_path, *GOOD, *entries)
    coverage = capture(tmp_path, SESSION, **wire).coverage
    assert (coverage.field, coverage.strength) == (field, CoverageStrength.PER_ID)
    assert [item.output_id for item in coverage.outputs or ()] == outputs


def test_one_response_id_twice_is_a_gap(tmp_path: Path) -> None:
    """One call would satisfy both."""
    write_log(tmp_path, *GOOD, answer(2, responseId="resp-1"))
    assert gap_codes(capture(tmp_path, SESSION)) == ["native_id_not_unique"]


def test_two_logs_of_one_session_belong_to_nobody(tmp_path: Path) -> None:
    """A copy or a forgery: which one is the session's own is not known."""
    write_log(tmp_path, *GOOD)
    write_log(tmp_path, *GOOD[:3], answer(9), cwd="--other--")
    native = capture(tmp_path, SESSION)
    assert (native.participants, native.identity_claims) == ((), ())
    assert gap_codes(native) == ["native_id_not_unique"]
    assert native.lifecycle is LifecycleStatus.UNKNOWN


def test_a_session_without_a_log_is_named(tmp_path: Path) -> None:
    """Such as a child process of an extension, which keeps none."""
    write_log(tmp_path, *GOOD)
    native = capture(tmp_path, SESSION, OTHER)
    assert gap_codes(native) == ["participant_log_missing"]
    assert native.lifecycle is LifecycleStatus.UNKNOWN
    assert claims(native) == {"resp-1": SESSION}


@pytest.mark.parametrize(
    ("named", "roles", "codes"),
    [
        (SESSION, {SESSION: Role.ROOT, OTHER: Role.CHILD}, ["native_relation_unproven"]),
        (None, {SESSION: Role.ROOT, OTHER: Role.ROOT}, ["root_ambiguous"]),
    ],
)
def test_of_two_sessions_the_launcher_names_the_root(
    tmp_path: Path, named: str | None, roles: dict[str, Role], codes: list[str]
) -> None:
    """Without it none is: a gap."""
    write_log(tmp_path, *GOOD)
    write_log(tmp_path, header(OTHER), offered(*BUNDLED), answer(2), session_id=OTHER)
    launcher: dict[str, object] = {"root_native_id": named} if named else {}
    native = capture(tmp_path, SESSION, OTHER, launcher=launcher)
    assert {item.key: item.role for item in native.participants} == roles
    assert gap_codes(native) == codes


@pytest.mark.parametrize(
    ("wire", "launcher", "version", "codes"),
    [
        ("1.6.0", {}, "1.6.0", []),
        ("9.9.9", {}, "9.9.9", ["native_version_untested"]),
        (None, {"harness_version": "1.6.0"}, "1.6.0", []),
        (None, {"harness_version": ["1.6.0"]}, None, ["native_version_untested"]),
        (None, {}, None, ["native_version_untested"]),
        ("no word at all\n", {}, None, ["native_version_untested"]),
    ],
)
def test_the_version_comes_from_the_hook_or_the_launcher(
    tmp_path: Path, wire: str | None, launcher: dict[str, object], version: str | None, codes: list[str]
) -> None:
    """Pi's logs do not hold it."""
    write_log(tmp_path, *GOOD)
    headers = {"x-roller-session": frozenset({SESSION})}
    headers |= {"x-roller-harness-version": frozenset({wire})} if wire else {}
    native = read(AdapterInput(tmp_path, headers, launcher))
    assert (native.harness_version, native.version_tested) == (version, not codes)
    assert gap_codes(native) == codes


def test_without_any_id_the_only_session_of_the_runs_own_copy_is_read(tmp_path: Path) -> None:
    """Chat Completions without the hook and without `sendSessionAffinityHeaders`: answers are known by their ids."""
    native_root = tmp_path / "work" / "native"
    write_log(native_root, *GOOD, base="sessions")
    found = capture(native_root)
    assert claims(found) == {"resp-1": SESSION}
    assert [item for item in found.identity_claims if item.field != "response_id"] == []
    assert found.hook_header is None
    write_log(native_root, header(OTHER), session_id=OTHER, base="sessions")
    found = capture(native_root)
    assert gap_codes(found) == ["native_logs_missing"]
    assert found.gaps[0].message.endswith("the run's own logs hold 2")


def test_a_users_home_is_not_searched_for_sessions(tmp_path: Path) -> None:
    """There only the sessions that were seen count."""
    write_log(tmp_path, *GOOD)
    native = capture(tmp_path)
    assert (native.participants, gap_codes(native)) == ((), ["native_logs_missing"])
    assert native.coverage.outputs is None


@pytest.mark.parametrize(
    ("sessions", "launcher", "expected"),
    [((SESSION,), {}, "x-roller-session"), ((), {"root_native_id": SESSION}, "x-roller-session"), ((), {}, None)],
)
def test_the_hook_is_asked_for_where_it_should_have_been(
    tmp_path: Path, sessions: tuple[str, ...], launcher: dict[str, object], expected: str | None
) -> None:
    """By `collect` always; in a run by hand only if some call shows it."""
    write_log(tmp_path, *GOOD)
    native = capture(tmp_path, *sessions, launcher=launcher, x_session_affinity=SESSION)
    assert native.hook_header == expected


def test_native_headers_are_claimed_where_they_were_seen(tmp_path: Path) -> None:
    """`x-client-request-id` holds the same value and is no evidence."""
    write_log(tmp_path, *GOOD)
    headers = ("session_id", "session-id", "x-session-id", "x-session-affinity", "x-client-request-id")
    native = read(AdapterInput(tmp_path, dict.fromkeys(headers, frozenset({SESSION}))))
    claimed = {item.field for item in native.identity_claims}
    assert claimed == {"response_id", *(f"header:{name}" for name in headers[:4])}
