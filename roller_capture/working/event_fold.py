"""Folds events.jsonl into calls. Events may be torn, of wrong types or out of order; each damage is one named fault."""

import stat
from pathlib import Path
from typing import Any, Final

from roller_capture import json_text
from roller_capture.vocabulary import AttemptErrorCode, CallErrorCode, CutBy, HttpEnd, OtherRequestKind, Protocol
from roller_capture.working.files import event_lines
from roller_capture.working.recorded import AttemptFault, BodyFile, KeptBody, RecordedCall
from roller_capture.working.values import integer, mapping, member, number, pairs, text, texts

EVENTS: Final = "events.jsonl"


class EventLog:
    """Folds events.jsonl into calls."""

    def __init__(self, directory: Path, faults: list[AttemptFault]) -> None:
        self._directory = directory
        self._bodies = directory / "bodies"
        self._bodies_are_elsewhere = self._bodies.is_symlink()
        self._faults = faults
        self._sequences: set[int] = set()
        self._headers_before: dict[str, tuple[str, str]] = {}
        self._named: set[str] = set()
        self.calls: dict[str, RecordedCall] = {}
        self.other_requests: dict[OtherRequestKind, int] = {}
        self.kept_bodies: list[KeptBody] = []

    def read(self) -> None:
        path = self._directory / EVENTS
        if path.is_symlink() or not path.is_file():
            self._fault(AttemptErrorCode.EVENTS_MISSING, "events.jsonl is missing: no call can be told", None)
            return
        place = 0
        for place, line in event_lines(path):
            event = _parse_event(line)
            if event is None:
                self._fault(AttemptErrorCode.EVENT_UNREADABLE, "a line of events.jsonl is torn or damaged", place)
                continue
            try:
                self._apply(event, place)
            except _EventError as error:
                self._fault(AttemptErrorCode.EVENT_UNREADABLE, f"an event of events.jsonl is damaged: {error}", place)
        if place == 0:
            self._fault(AttemptErrorCode.EVENTS_MISSING, "events.jsonl is empty: no call can be told", None)
        for call in self.calls.values():
            self._find_bodies_by_name(call)

    def _fault(self, code: AttemptErrorCode, message: str, line: int | None) -> None:
        self._faults.append(AttemptFault(code, message, EVENTS, None if line is None else f"line:{line}"))

    def _apply(self, event: dict[str, Any], line: int) -> None:
        kind = text(event.get("type")) or ""
        if kind == "request_headers":
            self._begin(event, line)
        elif kind in _CALL_EVENTS:
            call = self.calls.get(_required_text(event, "flow"))
            if call is None:
                raise _EventError(f"{kind} of an unknown flow")
            _CALL_EVENTS[kind](self, call, event)
        elif kind == "other_request":
            self._count_other(event.get("kind"))
        elif kind == "unrecognised_model_request":
            self._keep_unrecognised(event, line)
        elif kind == "websocket_passed":
            self._fault(AttemptErrorCode.WEBSOCKET_PASSED, "model traffic went through a websocket unseen", line)
        elif kind == "recorder_error":
            self._recorder_error(event, line)
        elif kind == "import_gap":
            self._import_gap(event, line)
        elif kind not in ("recorder_started", "recorder_stopped"):
            raise _EventError(f"unknown type {kind[:60]!r}")

    def _begin(self, event: dict[str, Any], line: int) -> None:
        flow = _required_text(event, "flow")
        sequence = event.get("sequence")
        if flow in self.calls:
            raise _EventError("a second request_headers of one flow")
        if not isinstance(sequence, int) or isinstance(sequence, bool) or sequence < 1:
            raise _EventError("no sequence")
        if sequence in self._sequences:
            raise _EventError("a sequence number that was given before")
        protocol = member(Protocol, event.get("protocol"))
        if protocol is None:
            raise _EventError("no known protocol")
        wrong = [name for name, kinds in _MEMBER_TYPES.items() if not isinstance(event.get(name), kinds)]
        headers = self._headers(event.get("headers"))
        coding = text(event.get("content_encoding"))
        if coding is not None and all(name != "content-encoding" for name, _ in headers):
            wrong.append("content_encoding")  # it is taken from the header, so one of the two is not what it was
            coding = None
        if wrong:
            self._fault(AttemptErrorCode.EVENT_UNREADABLE, f"request_headers: damaged members {', '.join(wrong)}", line)
        self._sequences.add(sequence)
        self.calls[flow] = RecordedCall(
            flow=flow,
            sequence=sequence,
            protocol=protocol,
            method=text(event.get("method")) or "POST",
            scheme=text(event.get("scheme")) or "http",
            host=text(event.get("host")) or "",
            port=integer(event.get("port")),
            path=text(event.get("path")) or "",
            request_line=line,
            request_version=text(event.get("http_version")),
            headers=headers,
            other_headers=texts(event.get("other_headers")),
            roller_headers=pairs(event.get("roller_headers")),
            content_encoding=coding,
            foreign_credential=event.get("credential") == "foreign",
            imported=event.get("imported") is True,
            request_decoded=event.get("decoded") is True,
            request_start=None if event.get("imported") is True else number(event.get("at")),
        )

    def _headers(self, value: object) -> list[tuple[str, str]]:
        """The pairs; one that a call before had too is the same object, since thousands of calls repeat them."""
        found = []
        for pair in pairs(value):
            before = self._headers_before.get(pair[0])
            if before != pair:
                before = self._headers_before[pair[0]] = pair
            found.append(before)
        return found

    def _request(self, call: RecordedCall, event: dict[str, Any]) -> None:
        call.request_body = self._body(event.get("body"))
        call.request_complete = event.get("complete") is True
        call.request_start = number(event.get("started_at")) or call.request_start
        call.request_end = number(event.get("ended_at"))
        call.request_end_ns = None if call.imported else integer(event.get("mono_ns"))

    def _response_headers(self, call: RecordedCall, event: dict[str, Any]) -> None:
        call.status = integer(event.get("status"))
        call.response_version = text(event.get("http_version"))
        call.response_headers = self._headers(event.get("headers"))
        call.response_other_headers = texts(event.get("other_headers"))
        call.response_decoded = event.get("decoded") is True

    def _response(self, call: RecordedCall, event: dict[str, Any]) -> None:
        call.end = HttpEnd.COMPLETE
        self._end(call, event)

    def _failure(self, call: RecordedCall, event: dict[str, Any]) -> None:
        call.cut_by = member(CutBy, event.get("cut_by"))
        call.failure_message = text(event.get("message"))
        if event.get("unreachable") is True:
            call.end = HttpEnd.UNREACHABLE
        else:
            call.end = _END_OF_CUT[call.cut_by]
        self._end(call, event)

    def _end(self, call: RecordedCall, event: dict[str, Any]) -> None:
        call.response_body = self._body(event.get("body"))
        call.chunks = None if call.imported else max(0, integer(event.get("chunks")) or 0)
        call.first_byte_at = number(event.get("first_byte_at"))
        call.first_byte_ns = integer(event.get("first_byte_mono_ns"))
        call.ended_at = number(event.get("ended_at"))
        if not call.imported:
            call.ended_at = call.ended_at or number(event.get("at"))
            call.ended_ns = integer(event.get("mono_ns"))
        masked = event.get("masked")
        call.masked = masked if isinstance(masked, str | bool) else False

    def _recorder_error(self, event: dict[str, Any], line: int) -> None:
        message = f"{text(event.get('where')) or 'recorder'}: {text(event.get('message')) or 'unknown error'}"
        call = self.calls.get(text(event.get("flow")) or "")
        if call is not None:
            disk = event.get("code") == "disk_error"
            call.recorder_errors.append((CallErrorCode.DISK_ERROR if disk else CallErrorCode.RECORDER_ERROR, message))
        self._fault(AttemptErrorCode.RECORDER_ERROR, message, line)

    def _import_gap(self, event: dict[str, Any], line: int) -> None:
        """What an imported file does not prove, of the whole or of one call."""
        code = member(AttemptErrorCode, event.get("code"))
        if code is None or not code.startswith(_IMPORT_GAPS):
            raise _EventError("no known code")
        message = text(event.get("message")) or "not told"
        call = self.calls.get(text(event.get("flow")) or "")
        of_call = member(CallErrorCode, code)
        if call is not None and of_call is not None:
            call.recorder_errors.append((of_call, message))
        self._fault(code, message, line)

    def _count_other(self, value: object) -> None:
        kind = member(OtherRequestKind, value) or OtherRequestKind.OTHER
        self.other_requests[kind] = self.other_requests.get(kind, 0) + 1

    def _keep_unrecognised(self, event: dict[str, Any], line: int) -> None:
        where = f"{text(event.get('method'))} {text(event.get('host'))}{text(event.get('path'))}"
        self._fault(
            AttemptErrorCode.UNRECOGNISED_MODEL_REQUEST,
            f"{where} looks like a model request, on an endpoint that is not known",
            line,
        )
        for name in ("body", "response_body"):
            body = self._body(event.get(name))
            if body is not None and body.path is not None:
                self.kept_bodies.append(KeptBody("unrecognised", body.path.name, body.path))

    def _body(self, value: object) -> BodyFile | None:
        """The body file that an event names; a name that leaves `bodies/` is refused."""
        described = mapping(value)
        name = text(described.get("path"))
        if name is None:
            return None
        folder, _, rest = name.partition("/")
        expected = integer(described.get("bytes"))
        if folder != "bodies" or not rest or "/" in rest or rest in (".", ".."):
            raise _EventError("a body path that leaves bodies/")
        return self._body_file(rest, expected)

    def keep_orphans(self) -> None:
        """Keeps the bodies that no readable event names: after damage to the events they are all that is left."""
        folder = self._bodies
        is_ours = folder.is_dir() and not self._bodies_are_elsewhere
        names = {path.name for path in folder.iterdir()} if is_ours else set()
        for name in sorted(names - self._named):
            path = folder / name
            source = f"bodies/{name}"
            status = path.lstat()
            sequence = name.partition(".")[0]
            if status.st_size == 0 and sequence.isdecimal() and int(sequence) in self._sequences:
                continue  # of a call that its events tell of: nothing came, or none of it was to be stored
            if stat.S_ISREG(status.st_mode):
                self.kept_bodies.append(KeptBody("orphans", name, path))
                fault = AttemptFault(AttemptErrorCode.BODY_WITHOUT_EVENT, "no readable event names this body", source)
            else:
                fault = AttemptFault(AttemptErrorCode.FILE_REFUSED, "it is no regular file", source)
            self._faults.append(fault)

    def _body_file(self, name: str, expected: int | None) -> BodyFile:
        self._named.add(name)
        path = self._bodies / name
        try:
            status = path.lstat()
        except OSError:
            return BodyFile(None, expected, 0)
        if not stat.S_ISREG(status.st_mode) or self._bodies_are_elsewhere:
            return BodyFile(None, expected, 0)
        return BodyFile(path, expected, status.st_size)

    def _find_bodies_by_name(self, call: RecordedCall) -> None:
        """After a kill the end event that would name the response file is missing; the file is there all the same."""
        if call.response_body is None and call.end is HttpEnd.PROXY_KILLED:
            found = self._body_file(f"{call.sequence:06d}.response", None)
            call.response_body = found if found.path is not None else None
        if call.request_body is None:
            found = self._body_file(f"{call.sequence:06d}.request", None)
            call.request_body = found if found.path is not None else None


_IMPORT_GAPS: Final = "import_"

_MEMBER_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "recorder": (int,),
    "method": (str,),
    "scheme": (str,),
    "host": (str,),
    "port": (int, type(None)),
    "path": (str,),
    "http_version": (str, type(None)),
    "headers": (list,),
    "other_headers": (list,),
    "roller_headers": (list,),
    "content_encoding": (str, type(None)),
}

_CALL_EVENTS: Final = {
    "request": EventLog._request,  # noqa: SLF001
    "response_headers": EventLog._response_headers,  # noqa: SLF001
    "response": EventLog._response,  # noqa: SLF001
    "failure": EventLog._failure,  # noqa: SLF001
}

_END_OF_CUT: Final = {
    CutBy.CLIENT: HttpEnd.CUT_BY_CLIENT,
    CutBy.UPSTREAM: HttpEnd.CUT_BY_UPSTREAM,
    CutBy.PROXY: HttpEnd.PROXY_STOPPED,
    None: HttpEnd.CUT,
}


class _EventError(ValueError):
    """An event that is JSON but not of the form it should have."""


def _parse_event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json_text.parse(line)
    except json_text.JsonError:
        return None
    return event if isinstance(event, dict) else None


def _required_text(event: dict[str, Any], name: str) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise _EventError(f"no {name}")
    return value
