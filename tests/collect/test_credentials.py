"""Who gets which key."""

import pytest

from roller_capture.collect.api_base import ApiBase, parse_api_base
from roller_capture.collect.credentials import DUMMY_KEY, UPSTREAM_KEY, choose_keys, dummy_key
from roller_capture.collect.request import KeyVia
from roller_capture.errors import RollerError

REMOTE = parse_api_base("https://api.example.com")
LOCAL = parse_api_base("http://127.0.0.1:8000")
REAL = "sk-real-0123456789"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", REAL)
    monkeypatch.delenv("NO_KEY", raising=False)


def test_the_proxy_alone_gets_the_real_key() -> None:
    """The harness has a made-up key; the proxy's options name variables, and only the environment has values."""
    keys = choose_keys("THE_KEY", KeyVia.PROXY, REMOTE, captured=True)
    assert keys.for_harness is not None
    assert REAL not in keys.for_harness
    assert keys.proxy_environment == {DUMMY_KEY: keys.for_harness, UPSTREAM_KEY: REAL}
    assert keys.proxy_options == [
        "--set",
        f"roller_dummy_key_env={DUMMY_KEY}",
        "--set",
        f"roller_upstream_key_env={UPSTREAM_KEY}",
    ]
    assert set(keys.secrets) == {keys.for_harness, REAL}
    assert keys.real == (REAL,)
    assert REAL not in repr(keys) + keys.note
    assert keys.for_harness not in repr(keys) + keys.note


@pytest.mark.parametrize(("via", "captured"), [(KeyVia.HARNESS, True), (KeyVia.PROXY, False)])
def test_the_harness_gets_the_real_key_when_asked_or_uncaptured(via: KeyVia, captured: bool) -> None:
    """Then the proxy replaces and marks nothing."""
    keys = choose_keys("THE_KEY", via, REMOTE, captured=captured)
    assert keys.for_harness == REAL
    assert keys.real == (REAL,)
    assert (keys.proxy_options, dict(keys.proxy_environment)) == ([], {})


def test_a_service_on_this_machine_needs_no_key() -> None:
    """The made-up key passes, and still tells whose requests they are."""
    keys = choose_keys("NO_KEY", KeyVia.PROXY, LOCAL, captured=True, named=False)
    assert keys.upstream is None
    assert keys.real == ()
    assert dict(keys.proxy_environment) == {DUMMY_KEY: keys.for_harness}
    assert keys.proxy_options == ["--set", f"roller_dummy_key_env={DUMMY_KEY}"]
    assert "NO_KEY is not set" in keys.note


@pytest.mark.parametrize("base", [REMOTE, LOCAL])
def test_a_variable_that_the_user_has_named_must_be_set(base: ApiBase) -> None:
    """A misspelt name is no wish to do without a key, also with a service on this machine."""
    with pytest.raises(RollerError, match="NO_KEY is not set") as caught:
        choose_keys("NO_KEY", KeyVia.PROXY, base, captured=True)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["", " ", "A=B", "A\0"])
def test_what_is_no_name_of_a_variable_is_refused(name: str) -> None:
    """Before it is looked for."""
    with pytest.raises(RollerError, match=r"--api-key-env .* is no name") as caught:
        choose_keys(name, KeyVia.PROXY, LOCAL, captured=True)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("base", [REMOTE, None])
def test_a_missing_key_is_refused(base: ApiBase | None) -> None:
    """The line names the variable."""
    with pytest.raises(RollerError, match="NO_KEY is not set") as caught:
        choose_keys("NO_KEY", KeyVia.PROXY, base, captured=base is not None)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("value", ["short", "sk-with a blank", "sk-with\nline", "sk-naïve-0123", "sk-\x1b[31m-0123"])
def test_what_can_be_no_header_value_is_no_key(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused here, and not repeated."""
    monkeypatch.setenv("THE_KEY", value)
    with pytest.raises(RollerError, match="THE_KEY holds no key") as caught:
        choose_keys("THE_KEY", KeyVia.PROXY, REMOTE, captured=True)
    assert value not in str(caught.value)


def test_each_attempt_has_a_made_up_key_of_its_own() -> None:
    """It tells attempts apart."""
    assert len({dummy_key() for _ in range(100)}) == 100
