"""The strict reader reads what mitmproxy writes, and nothing that keeps it busy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitmproxy.io import tnetstring

from roller_capture.importing import netstrings

_PLAIN = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats(allow_nan=False)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    _PLAIN | st.binary() | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_mitmproxy_writes_is_read(value: object) -> None:
    """Every value that it can write."""
    assert netstrings.loads(tnetstring.dumps(value)) == value  # type: ignore[arg-type]


@given(st.binary(max_size=60))
def test_anything_else_is_refused(data: bytes) -> None:
    """By one exception."""
    try:
        netstrings.loads(data)
    except netstrings.NetstringError:
        return


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"5:abc,",
        b"-1:a,",
        b"1_0:aaaaaaaaaa,",
        b" 1:a,",
        b"3:abc?",
        b"1:x#",
        b"3:1:a]",
        b"4:1:a,}",
        b"8:1:1#1:a,}",
        b"1:a,1:b,",
        b"50:" + b"9" * 50 + b"#",
        b"999999999999:a,",
    ],
)
def test_what_is_none_is_refused(data: bytes) -> None:
    """Lengths of other spellings, values that end too early or too late, wrong types."""
    with pytest.raises(netstrings.NetstringError):
        netstrings.loads(data)


def test_lists_in_lists_are_refused_below_a_depth() -> None:
    """Before the stack ends; the deepest that is allowed is read."""
    deepest: object = []
    for _ in range(netstrings.DEEPEST - 1):
        deepest = [deepest]
    assert netstrings.loads(tnetstring.dumps(deepest)) == deepest  # type: ignore[arg-type]
    data = b""
    for _ in range(3000):
        data = b"%d:%s]" % (len(data), data)
    with pytest.raises(netstrings.NetstringError, match="too deep"):
        netstrings.loads(data)


def test_lengths_that_read_the_same_bytes_again_cost_nothing() -> None:
    """mitmproxy's own reader never comes back from this one."""
    inner = b"-1:" * 30 + b"]]"
    with pytest.raises(netstrings.NetstringError):
        netstrings.loads(b"%d:%s]" % (len(inner), inner))
