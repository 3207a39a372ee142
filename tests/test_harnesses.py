"""The registry rows."""

from roller_capture.harnesses import HARNESSES
from roller_capture.recording.credentials import Credentials
from roller_capture.recording.headers import ROLLER_PREFIX, select


def test_the_eight_names() -> None:
    """Seven harnesses, and `generic` for people's own agents."""
    names = ["claude-code", "opencode", "codex", "hermes", "openclaw", "pi", "deepseek", "generic"]
    assert list(HARNESSES) == names
    assert [row.name for row in HARNESSES.values()] == names


def test_identity_headers_are_native() -> None:
    """Lower case, and never one of ours, which would be taken off."""
    for row in HARNESSES.values():
        for header in row.identity_headers:
            assert header == header.lower()
            assert not header.startswith(ROLLER_PREFIX)


def test_a_version_is_read_from_a_header_that_is_stored_of_any_harness() -> None:
    """It is no native id: what it holds is masked like any other value."""
    for row in HARNESSES.values():
        if row.version_header is not None:
            stored = select([(row.version_header.encode(), b"x/1")], frozenset(), Credentials([], ""))
            assert stored.headers == [(row.version_header, "x/1")]
            assert row.version_header not in row.identity_headers


def test_generic_knows_them_all() -> None:
    """Own agents may be built on any of the seven."""
    everything = {header for row in HARNESSES.values() for header in row.identity_headers}
    assert set(HARNESSES["generic"].identity_headers) == everything
