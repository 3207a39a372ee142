"""The key that the proxy puts in, and whose request it is."""

import dataclasses
from pathlib import Path

import pytest

from roller_capture.errors import RollerError
from roller_capture.recording.attempt_recorder import AttemptRecorder
from roller_capture.recording.credentials import HeaderField
from roller_capture.recording.exchange import BodyTimes
from roller_capture.recording.upstream_key import CredentialMark, UpstreamKey, read_upstream_key
from roller_capture.vocabulary import Protocol
from tests.support.recording import request_head, response_head

KEY = UpstreamKey(b"dummy-0123456789", b"sk-real")
OWN, FOREIGN = CredentialMark.OWN, CredentialMark.FOREIGN


@pytest.mark.parametrize(
    ("fields", "mark", "forwarded"),
    [
        ([(b"X-Api-Key", b"dummy-0123456789")], OWN, [(b"X-Api-Key", b"sk-real")]),
        ([(b"Authorization", b"Bearer dummy-0123456789")], OWN, [(b"Authorization", b"Bearer sk-real")]),
        ([(b"authorization", b"bearer  dummy-0123456789")], OWN, [(b"authorization", b"bearer  sk-real")]),
        ([(b"api-key", b"dummy-0123456789")], OWN, [(b"api-key", b"sk-real")]),
        ([(b"x-api-key", b"sk-other")], FOREIGN, [(b"x-api-key", b"sk-other")]),
        ([(b"x-api-key", b"dummy-01234567890")], FOREIGN, [(b"x-api-key", b"dummy-01234567890")]),
        ([(b"x-api-key", b"xdummy-0123456789")], FOREIGN, [(b"x-api-key", b"xdummy-0123456789")]),
        ([(b"x-api-key", b"")], FOREIGN, [(b"x-api-key", b"")]),
        ([], FOREIGN, []),
        # Elsewhere the key proves nothing, and the real one must not be put there.
        ([(b"user-agent", b"dummy-0123456789")], FOREIGN, [(b"user-agent", b"dummy-0123456789")]),
        (
            [(b"a", b"1"), (b"x-api-key", b"dummy-0123456789"), (b"authorization", b"Bearer other"), (b"a", b"2")],
            OWN,
            [(b"a", b"1"), (b"x-api-key", b"sk-real"), (b"authorization", b"Bearer other"), (b"a", b"2")],
        ),
    ],
)
def test_headers(fields: list[HeaderField], mark: CredentialMark, forwarded: list[HeaderField]) -> None:
    """Only the made-up key, as a whole, in a header that carries credentials; all else stays, in its order."""
    assert KEY.mark(fields) is mark
    assert list(KEY.put_into(fields)) == forwarded


def test_without_a_real_key_the_made_up_one_passes() -> None:
    """It marks requests all the same."""
    key = UpstreamKey(b"dummy-0123456789", None)
    fields = [(b"x-api-key", b"dummy-0123456789")]
    assert key.mark(fields) is OWN
    assert list(key.put_into(fields)) == fields
    assert key.secrets == (b"dummy-0123456789",)


def test_keys_come_from_the_named_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are secrets."""
    monkeypatch.setenv("A_DUMMY", "dummy-0123456789")
    monkeypatch.setenv("A_KEY", "sk-real")
    key = read_upstream_key("A_DUMMY", "A_KEY")
    assert key is not None
    assert set(key.secrets) == {b"dummy-0123456789", b"sk-real"}
    assert read_upstream_key("", "") is None


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("", "A_KEY"), "needs roller_dummy_key_env"),
        (("NONE", ""), "NONE holds no key"),
        (("A_KEY", "NONE"), "NONE holds no key"),
        (("A_KEY", "SHORT"), "SHORT holds no key"),
        (("A_KEY", "SPACED"), "SPACED holds no key"),
        (("A_KEY", "CONTROL"), "CONTROL holds no key"),
    ],
)
def test_a_variable_without_a_key_is_refused(
    names: tuple[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that forwards the wrong key, or none, must not run."""
    values = {"A_KEY": "sk-real-0123", "SHORT": "sk", "SPACED": "sk real 0123", "CONTROL": "sk-real\n0123"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NONE", raising=False)
    with pytest.raises(RollerError, match=said) as caught:
        read_upstream_key(*names)
    assert not any(value in str(caught.value) for value in values.values())


@pytest.mark.parametrize("kind", ["call", "other"])
def test_keys_are_masked_also_where_the_request_did_not_carry_them(
    recorder: AttemptRecorder, tmp_path: Path, kind: str
) -> None:
    """A gateway can name the key that it knows in the answer to a request with another one."""
    keys = (b"sk-real123", b"dummy-0123456789")
    head = dataclasses.replace(request_head("/v1/messages"), credential=FOREIGN, keys=keys)
    body = b'{"error": "use sk-real123 or dummy-0123456789"}'
    if kind == "call":
        call = recorder.begin_call("f", head, Protocol.ANTHROPIC_MESSAGES)
        call.end_request(BodyTimes(), complete=True)
        call.begin_response(response_head(401))
        call.response_chunk(body)
        call.end_response(None)
    else:
        other = recorder.begin_other("f", dataclasses.replace(head, path="/unknown"), None)
        other.judge(b'{"model": "m", "messages": []}')
        other.begin_response(response_head(401))
        other.response_chunk(body)
        other.end()
    (stored,) = tmp_path.rglob("*.response")
    assert stored.read_bytes() == b'{"error": "use ********** or ****************"}'
    on_disk = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert (b'"credential":"foreign"' in on_disk) is (kind == "call")
