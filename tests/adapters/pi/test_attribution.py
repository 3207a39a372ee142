"""What the common finalizer makes of the adapter's claims: all that a call carries must agree."""

from pathlib import Path

import pytest

from roller_capture.adapters.pi import read
from roller_capture.capture_protocol import AdapterInput
from roller_capture.finalizer.identity import Attributor
from tests.adapters.pi.session_logs import GOOD, OTHER, SESSION, write_log
from tests.support.surveyed import surveyed

Headers = tuple[tuple[str, str], ...]

HOOK = ("x-roller-session", SESSION)
NATIVE = ("session_id", SESSION)
AFFINITY = ("x-session-affinity", SESSION)
STRANGE = ("x-roller-session", OTHER)


@pytest.mark.parametrize(
    ("response_id", "sent", "others", "status"),
    [
        ("resp-1", (HOOK, NATIVE, AFFINITY), (), "resolved"),
        ("resp-1", (), (), "resolved"),
        (None, (HOOK,), (), "resolved"),
        (None, (NATIVE,), (), "resolved"),
        (None, (), (), "unattributed"),
        (None, (("x-client-request-id", SESSION),), (), "unattributed"),
        ("resp-9", (HOOK,), (), "resolved"),
        ("resp-1", (STRANGE,), (), "ambiguous"),
        (None, (STRANGE, NATIVE), (), "ambiguous"),
        (None, (STRANGE,), (), "unattributed"),
        ("resp-1", (("session_id", OTHER),), (), "ambiguous"),
        ("resp-1", (HOOK, ("x-roller-session", OTHER)), (), "ambiguous"),
        ("resp-1", (NATIVE,), (HOOK,), "ambiguous"),
    ],
    ids=[
        "everything",
        "response id alone",
        "a call that compacts",
        "failed, without the hook",
        "failed or compacting, without any id",
        "an id that is no evidence",
        "an answer that is in no log",
        "another session in the hook's header",
        "another session in the hook's header, against a native one",
        "a session without a log",
        "another session in a native header",
        "two values",
        "without the hook, where other calls have it",
    ],
)
def test_who_made_a_call(tmp_path: Path, response_id: str | None, sent: Headers, others: Headers, status: str) -> None:
    """Resolved by one proof without a contradiction; never by nothing."""
    write_log(tmp_path, *GOOD)
    wire: dict[str, frozenset[str]] = {}
    for name, value in (*sent, *others):
        wire[name] = wire.get(name, frozenset()) | {value}
    native = read(AdapterInput(tmp_path, wire, {"root_native_id": SESSION}))
    calls = [
        surveyed(identifier, session=None, recorded={"roller_headers": list(headers)})
        for identifier, headers in ((response_id, sent), (None, others))
    ]
    identity = Attributor(native, calls).attribute(calls[0])
    assert (identity.status, identity.participant_key) == (status, SESSION if status == "resolved" else None)
