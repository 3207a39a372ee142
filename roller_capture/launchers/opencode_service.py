"""OpenCode's server (`opencode serve`): keeps children in the background alive between and after the turns.

Measured with 1.18.33: it prints its address; `GET /session/status` names the sessions at work; a child that has ended
is told to its parent by an automatic message, which begins a new turn of the parent. There is a moment in which the
child is idle and the parent not yet at work, so idleness alone says nothing: every launch must have its message, and
every message an answer.

Whoever reaches the server can have it run commands, and other users of the machine reach loopback too: so it wants a
password (`OPENCODE_SERVER_PASSWORD`, HTTP basic authentication), which is made for each attempt, and which the attached
turns find in the same variable.
"""

import base64
import json
import os
import re
import secrets
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from roller_capture.adapters.native_values import as_id, as_list, as_mapping
from roller_capture.adapters.opencode.facts import Result
from roller_capture.adapters.opencode.places import Place
from roller_capture.adapters.opencode.record_shapes import DELEGATION_TOOLS, notice_of_text, tool_call_of
from roller_capture.errors import RollerError
from roller_capture.launchers import HarnessCommand

_ADDRESS: Final = re.compile(rb"listening on (http://127\.0\.0\.1:\d{1,5})\b")
_ADDRESS_FILE: Final = "roller-server-address"
_KEPT_IN: Final = "roller-server-password"
_VARIABLE: Final = "OPENCODE_SERVER_PASSWORD"
_USER: Final = "opencode"
"""Whom the server expects where no other name is configured."""

_SECONDS: Final = 10.0
_NOWHERE: Final = Place("server", "json:")


def attached_url(home: Path) -> str:
    """The address of the server that works for this home. Raises `RollerError` when there is none."""
    try:
        return (home / _ADDRESS_FILE).read_text(encoding="ascii")
    except OSError:
        raise RollerError("the server of opencode has not told its address", exit_code=1) from None


def server_environment(home: Path) -> dict[str, str]:
    """What server and attached turns of this home need in their environment: the password, made when first asked for.

    Raises `RollerError` when it cannot be kept.
    """
    path = home / _KEPT_IN
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as stream:
            stream.write(secrets.token_urlsafe())
    except FileExistsError:
        pass
    except OSError as error:
        raise RollerError(f"{path}: cannot be written ({error.strerror}): make room") from None
    return {_VARIABLE: _password(home)}


def _password(home: Path) -> str:
    try:
        return (home / _KEPT_IN).read_text(encoding="ascii")
    except OSError:
        raise RollerError("the password of opencode's server is gone", exit_code=1) from None


class OpenCodeService:
    """See `roller_capture.launchers.HarnessService`. It listens on loopback, behind the password of its home.

    `environment` holds that of `server_environment`.
    """

    def __init__(self, binary: Path, home: Path, environment: Mapping[str, str]) -> None:
        self._home = home
        arguments = (str(binary), "serve", "--hostname", "127.0.0.1", "--port", "0")
        self._command = HarnessCommand(arguments, environment)

    @property
    def command(self) -> HarnessCommand:
        return self._command

    def is_ready(self, output: Path) -> bool:
        try:
            match = _ADDRESS.search(output.read_bytes())
            if match is None:
                return False
            (self._home / _ADDRESS_FILE).write_bytes(match[1])
        except OSError:
            return False
        return True

    def is_settled(self) -> bool:
        try:
            return self._is_settled()
        except (OSError, ValueError, RollerError):
            return False

    def _is_settled(self) -> bool:
        if self._get("/session/status") != {}:
            return False
        sessions = [as_id(as_mapping(item).get("id")) for item in as_list(self._get("/session"))]
        return all(
            is_answered(as_list(self._get(f"/session/{session_id}/message")))
            for session_id in sessions
            if session_id is not None
        )

    def _get(self, path: str) -> Any:
        # Without a proxy of the user's: the address is on loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        credentials = base64.b64encode(f"{_USER}:{_password(self._home)}".encode()).decode()
        opener.addheaders = [("Authorization", f"Basic {credentials}")]
        with opener.open(attached_url(self._home) + path, timeout=_SECONDS) as response:
            return json.load(response)


def is_answered(messages: Sequence[Any]) -> bool:
    """Whether each child that a session launched in the background has ended, was told of, and was answered."""
    launched: Counter[str] = Counter()
    told: Counter[str] = Counter()
    waiting = False
    for item in messages:
        info = as_mapping(as_mapping(item).get("info"))
        for part in map(as_mapping, as_list(as_mapping(item).get("parts"))):
            call = tool_call_of(part, _NOWHERE) if part.get("type") == "tool" else None
            notice = notice_of_text(part, _NOWHERE) if info.get("role") == "user" else None
            if call is not None and call.name in DELEGATION_TOOLS and call.result is Result.LAUNCHED and call.child_id:
                launched[call.child_id] += 1
            if notice is not None:
                told[notice.child_id] += 1
                waiting = True
        if info.get("role") == "assistant" and as_mapping(info.get("time")).get("completed") is not None:
            waiting = waiting and info.get("finish") == "tool-calls"
    return not waiting and all(told[child_id] >= count for child_id, count in launched.items())
