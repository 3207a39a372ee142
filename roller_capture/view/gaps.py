"""What is missing in a capture, one plain sentence each, and what to do where there is something to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from roller_capture.harnesses import HARNESSES
from roller_capture.view.attempt import Attempt, Call
from roller_capture.view.family import Family
from roller_capture.view.stopped import left_sentence, was_left
from roller_capture.view.words import LONGEST_TEXT, call_numbers, count, cut, listing
from roller_capture.vocabulary import AttemptErrorCode, CallErrorCode, ExecutionStatus, StatusReason

NextStep = str | None


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that is missing. `code` is the status reason or error code that says so."""

    code: str
    sentence: str
    next_step: NextStep = None
    call_ids: tuple[str, ...] = ()
    participant_ids: tuple[str, ...] = ()


_NATIVE_LOGS: Final = "Next time give finalize the harness's own logs: --native HOME_OF_THE_RUN"
_STOP_PROXY: Final = "Stop the proxy with Ctrl-C or SIGTERM when the harness has ended"
_OWN_PROXY: Final = "Give every attempt a proxy and a home of its own"
_HOOK: Final = "Install it again and check that the harness loads it"
_LONGER_DRAIN: Final = "Capture again with a longer drain timeout"
_BASE_URL: Final = "Check that the harness's base URL is the proxy's address"
_LONGER_WAIT: Final = "Let the harness wait for its subtasks: a longer timeout or wait ceiling"
_OTHER_KEY: Final = "Look for a key in the project's settings and in the harness's arguments"
_RECORD: Final = "Record with the addon of this project"
_REPORT: Final = "Please report it with the harness's version and the file named here"

ERROR_WORDS: Final[Mapping[AttemptErrorCode, tuple[str, NextStep]]] = {
    AttemptErrorCode.UNRECOGNISED_MODEL_REQUEST: (
        "A request that looks like a model call went to an endpoint that is not known, so it is no call here",
        "See raw/unrecognised/, and point the harness at a supported endpoint",
    ),
    AttemptErrorCode.WEBSOCKET_PASSED: (
        "A websocket passed on a model endpoint, and what it carried was not recorded",
        "Make the harness use plain HTTP",
    ),
    AttemptErrorCode.RECORDER_ERROR: ("The recorder met an error", None),
    AttemptErrorCode.RECORDER_NOT_CLOSED: (
        "The recorder was killed before it could close, so calls that were open then have no end",
        _STOP_PROXY,
    ),
    AttemptErrorCode.EVENTS_MISSING: ("The recorder's events are missing", None),
    AttemptErrorCode.BODY_WITHOUT_EVENT: ("A recorded body is named by no readable event", "look into raw/orphans/"),
    AttemptErrorCode.EVENT_UNREADABLE: ("An event of the recorder cannot be read", None),
    AttemptErrorCode.ATTEMPT_FILE_UNREADABLE: ("The recorder's attempt.json cannot be read", None),
    AttemptErrorCode.NATIVE_LOGS_MISSING: ("The harness's own logs were not there", _NATIVE_LOGS),
    AttemptErrorCode.NATIVE_LOG_UNREADABLE: ("A native log cannot be read", None),
    AttemptErrorCode.NATIVE_LINE_UNREADABLE: ("A line of a native log cannot be read", None),
    AttemptErrorCode.NATIVE_SHAPE_UNKNOWN: ("A native record has a shape that is not known", _REPORT),
    AttemptErrorCode.NATIVE_ID_NOT_UNIQUE: ("A native id stands for more than one thing, so it proves nothing", None),
    AttemptErrorCode.NATIVE_VERSION_UNTESTED: (
        "This version of the harness was never tested",
        "Use a tested version (see the README), or check the capture with validate --deep",
    ),
    AttemptErrorCode.NATIVE_RELATION_UNPROVEN: ("A relation in the native logs could not be tied to the calls", None),
    AttemptErrorCode.PARTICIPANT_LOG_MISSING: ("An agent has no native log of its own", _NATIVE_LOGS),
    AttemptErrorCode.ROOT_AMBIGUOUS: (
        "It is not certain which session is the root",
        _OWN_PROXY,
    ),
    AttemptErrorCode.HOOK_NOT_SEEN: (
        "The harness's correlation hook sent nothing",
        _HOOK,
    ),
    AttemptErrorCode.DRAIN_FAILED: ("Waiting for what ran in the background failed", _LONGER_DRAIN),
    AttemptErrorCode.NO_REQUEST_SEEN: (
        "No model request reached the proxy",
        _BASE_URL,
    ),
    AttemptErrorCode.ADAPTER_FAILED: ("The native logs could not be interpreted", _REPORT),
    AttemptErrorCode.FILE_REFUSED: ("A file was refused: a link, a device, or a path that leaves its folder", None),
    AttemptErrorCode.IMPORT_CALLS_UNPROVEN: ("Calls may be missing in what was imported", _RECORD),
    AttemptErrorCode.IMPORT_TIMING_UNKNOWN: ("It is not known when and in how many pieces responses came", _RECORD),
    AttemptErrorCode.IMPORT_SOURCE_DAMAGED: ("A record of the imported file cannot be read", None),
    AttemptErrorCode.IMPORT_CUT_SIDE_UNKNOWN: ("It is not known who broke an exchange", _RECORD),
    AttemptErrorCode.IMPORT_BYTES_UNPROVEN: (
        "The bodies of a call are texts, not the bytes of the wire",
        "Import what mitmdump -w wrote instead of a HAR, where there is such a file",
    ),
    AttemptErrorCode.IMPORT_BODY_MISSING: (
        "A body of a call was not in the imported file",
        "Let mitmdump keep the bodies: no stream_large_bodies, or store_streamed_bodies with it",
    ),
    AttemptErrorCode.IMPORT_CREDENTIALS_UNKNOWN: (
        "An answer may echo a key that the imported file does not name",
        "Look for your key in the attempt",
    ),
    AttemptErrorCode.IMPORT_ALTERED: ("A call was edited or replayed before it was saved", None),
}
"""Every error of an attempt in words, and the next step."""

_STEPS_WITH_COLLECT: Final[Mapping[NextStep, NextStep]] = {
    _NATIVE_LOGS: "collect found none in the harness's home: see what the harness said in raw/native/",
    _STOP_PROXY: "Find out what killed the proxy, such as a lack of memory, and capture again",
    _OWN_PROXY: "Start no further sessions of the harness from within the run",
    _HOOK: "Check that no argument and no setting of the project keeps the harness from loading it",
    _LONGER_DRAIN: "Capture again with a longer --drain-timeout",
    _BASE_URL: "Look for another base URL in the project's settings and in the harness's arguments",
    _LONGER_WAIT: "Capture again with a longer --timeout or --drain-timeout",
}
"""What to do instead where `collect` made the attempt, and so did what a user does by hand."""

_OWN_WORDS: Final = {AttemptErrorCode.HOOK_NOT_SEEN: "Calls do not say which agent makes them"}
_STEPS_WITH_OWN_PROGRAM: Final[Mapping[NextStep, NextStep]] = {
    _NATIVE_LOGS: "Have the program keep the log of docs/harnesses/generic.md, in the file that ROLLER_EVENTS names",
    _HOOK: "Send x-roller-session with every model request (docs/harnesses/generic.md)",
    _OWN_PROXY: (
        "Send x-roller-parent-session in the calls of every agent but the root, and print the root's session line "
        "(docs/harnesses/generic.md)"
    ),
}
"""What to do instead with a program of one's own, which has no hook of ours and no logs but the one it keeps for us."""

_RAW: Final = "raw/"
_NO_RAW: Final = "Capture again with --capture-debug full: raw/, where more would be said, was not kept"
_ABOUT_CALLS: Final = frozenset((_NATIVE_LOGS, _HOOK, _BASE_URL))
"""What is idle where the run was stopped, or failed, before there was a call."""

_FAILED_FIRST: Final = "Find out first why the run failed before it made a call"


def gaps_of(attempt: Attempt, family: Family) -> list[Gap]:
    """Everything that keeps the capture from being complete, in the manifest's order."""
    gaps: list[Gap] = []
    for reason in attempt.manifest["status_reasons"]:
        if reason["code"] == StatusReason.ERRORS:
            gaps += _errors(attempt)
        elif reason["code"] == StatusReason.CALL_INCOMPLETE:
            gaps += _calls_incomplete(attempt, reason)
        elif reason["code"] == StatusReason.IDENTITY_UNATTRIBUTED:
            gaps += _unattributed(attempt, reason)
        elif reason["code"] in _REASONS:
            gaps.append(_REASONS[reason["code"]](attempt, family, reason))
    return [replace(gap, next_step=_fitting_step(attempt, gap.next_step)) for gap in gaps]


def _fitting_step(attempt: Attempt, step: NextStep) -> NextStep:
    """The advice that can be followed for this attempt."""
    if step in _ABOUT_CALLS and not attempt.calls:
        if attempt.manifest["execution_status"] == ExecutionStatus.INTERRUPTED:
            return None
        if attempt.manifest["execution_status"] == ExecutionStatus.FAILED:
            return _FAILED_FIRST
    if _is_own_program(attempt):
        step = _STEPS_WITH_OWN_PROGRAM.get(step, step)
    if _made_by_collect(attempt):
        step = _STEPS_WITH_COLLECT.get(step, step)
    return _NO_RAW if step is not None and _RAW in step and not attempt.manifest.get("raw_retained", True) else step


def _is_own_program(attempt: Attempt) -> bool:
    row = HARNESSES.get(attempt.manifest["harness"]["name"])
    return row is not None and row.is_users_own


def _made_by_collect(attempt: Attempt) -> bool:
    """Told by where it lies: SAMPLE/capture/attempt-0001 beside SAMPLE/sample.json."""
    folder = attempt.path.absolute().parent
    return folder.name == "capture" and (folder.parent / "sample.json").is_file()


def _numbers(attempt: Attempt, call_ids: list[str]) -> str:
    wanted = set(call_ids)
    return call_numbers(call.number for call in attempt.calls if call.call_id in wanted) or "(none of them readable)"


def _calls_incomplete(attempt: Attempt, reason: dict[str, Any]) -> Iterator[Gap]:
    """Of a service that could not be reached there was nothing to record: that is another thing than a loss. Calls
    that the client left stand apart in a run that `collect` has stopped: they may have ended by that."""
    unreachable = {call.call_id for call in attempt.calls if _has_error(call, CallErrorCode.UPSTREAM_UNREACHABLE)}
    never = [call_id for call_id in reason["call_ids"] if call_id in unreachable]
    if never:
        sentence = f"The model service could not be reached for {count(len(never), 'call')}: {_numbers(attempt, never)}"
        yield Gap(reason["code"], sentence, "Check its address and the network", tuple(never))
    left = {call.call_id: call.number for call in attempt.calls if attempt.stopped and _was_left(call)}
    gone = [call_id for call_id in reason["call_ids"] if call_id in left]
    if gone:
        yield Gap(reason["code"], left_sentence([left[call_id] for call_id in gone]), None, tuple(gone))
    ids = [call_id for call_id in reason["call_ids"] if call_id not in unreachable and call_id not in left]
    if ids or not (never or gone):
        verb = "was" if len(ids) == 1 else "were"
        sentence = f"{count(len(ids), 'call')} {verb} not recorded completely: {_numbers(attempt, ids)}"
        yield Gap(reason["code"], sentence, None, tuple(ids))


def _has_error(call: Call, code: CallErrorCode) -> bool:
    return any(error["code"] == code for error in call.record["errors"])


def _was_left(call: Call) -> bool:
    return any(map(was_left, call.record["errors"]))


def _ambiguous(attempt: Attempt, _family: Family, reason: dict[str, Any]) -> Gap:
    ids = reason["call_ids"]
    verb = "has" if len(ids) == 1 else "have"
    numbers = _numbers(attempt, ids)
    sentence = f"{count(len(ids), 'call')} {verb} evidence for more than one agent, so none is chosen: {numbers}"
    return Gap(reason["code"], sentence, None, tuple(ids))


def _unattributed(attempt: Attempt, reason: dict[str, Any]) -> Iterator[Gap]:
    """Calls with another key than the harness was given stand apart: what to look for is known."""
    foreign = {call.call_id for call in attempt.calls if _has_error(call, CallErrorCode.FOREIGN_CREDENTIAL)}
    other = [call_id for call_id in reason["call_ids"] if call_id in foreign]
    if other:
        sentence = (
            f"{count(len(other), 'call')} carried another key than the one that the harness was given, so nothing "
            f"shows whose {'it is' if len(other) == 1 else 'they are'}: {_numbers(attempt, other)}"
        )
        yield Gap(reason["code"], sentence, _OTHER_KEY, tuple(other))
    ids = [call_id for call_id in reason["call_ids"] if call_id not in foreign]
    if ids or not other:
        sentence = f"{count(len(ids), 'call')} could not be attributed to an agent: {_numbers(attempt, ids)}"
        no_logs = attempt.manifest["capabilities"]["native_output_coverage"]["status"] == "unknown"
        yield Gap(reason["code"], sentence, _NATIVE_LOGS if no_logs else None, tuple(ids))


def _coverage_incomplete(attempt: Attempt, _family: Family, reason: dict[str, Any]) -> Gap:
    missing = attempt.manifest["capabilities"]["native_output_coverage"]["missing"]
    has = "has" if reason["count"] == 1 else "have"
    sentence = f"{count(reason['count'], 'model output')} in the native logs {has} no recorded call"
    step = "Check that nothing in the harness goes around the proxy: another base URL, a second provider"
    return Gap(reason["code"], f"{sentence}: {listing(missing)}" if missing else sentence, step)


def _coverage_unknown(attempt: Attempt, _family: Family, reason: dict[str, Any]) -> Gap:
    coverage = attempt.manifest["capabilities"]["native_output_coverage"]
    if coverage["expected"]:
        sentence = "Some model outputs in the native logs have no id, so it is not known whether each has its call"
        return Gap(reason["code"], sentence)
    if coverage.get("protocol_count") is not None:
        return Gap(reason["code"], "The native logs do not tell whether every model call was recorded")
    sentence = "No native log was read, so it is not known whether every model call was recorded"
    return Gap(reason["code"], sentence, _NATIVE_LOGS)


def _lifecycle_pending(attempt: Attempt, family: Family, reason: dict[str, Any]) -> Gap:
    ids = (attempt.lifecycle or {}).get("pending_participant_ids", [])
    sentence = f"{count(len(ids), 'subtask')} did not end, or no result was delivered"
    if ids:
        sentence = f"{sentence}: {listing([family.name(item) for item in ids])}"
    return Gap(reason["code"], sentence, _LONGER_WAIT, participant_ids=tuple(ids))


def _lifecycle_unknown(_attempt: Attempt, _family: Family, reason: dict[str, Any]) -> Gap:
    return Gap(reason["code"], "It is not known whether all subtasks ended: no native record says so")


def _not_closed(_attempt: Attempt, _family: Family, reason: dict[str, Any]) -> Gap:
    sentence, step = ERROR_WORDS[AttemptErrorCode.RECORDER_NOT_CLOSED]
    return Gap(reason["code"], sentence, step)


_REASONS: Final = {
    StatusReason.IDENTITY_AMBIGUOUS: _ambiguous,
    StatusReason.COVERAGE_INCOMPLETE: _coverage_incomplete,
    StatusReason.COVERAGE_UNKNOWN: _coverage_unknown,
    StatusReason.LIFECYCLE_PENDING: _lifecycle_pending,
    StatusReason.LIFECYCLE_UNKNOWN: _lifecycle_unknown,
    StatusReason.RECORDER_NOT_CLOSED: _not_closed,
}


def _errors(attempt: Attempt) -> Iterator[Gap]:
    """One gap for each error of the attempt; that the recorder was killed has a reason of its own."""
    reasons = {reason["code"] for reason in attempt.manifest["status_reasons"]}
    for error in attempt.manifest["errors"]:
        if error["code"] == AttemptErrorCode.RECORDER_NOT_CLOSED and StatusReason.RECORDER_NOT_CLOSED in reasons:
            continue
        words, step = ERROR_WORDS[error["code"]]
        if _is_own_program(attempt):
            words = _OWN_WORDS.get(error["code"], words)
        times = f" ({error['count']:,} times)" if error["count"] > 1 else ""
        place = " ".join(cut(item, LONGEST_TEXT) for item in (error["source"], error["locator"]) if item)
        where = f" [{place}]" if place else ""
        yield Gap(error["code"], f"{words}{times}: {cut(error['message'], LONGEST_TEXT)}{where}", step)
