"""A look at the model service before the harness starts."""

import socket
import threading

import pytest

from roller_capture.collect.api_base import parse_api_base
from roller_capture.collect.reachable import service_problem


def test_a_service_that_listens_is_no_problem() -> None:
    """Whatever it would answer; also by IPv6."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.create_server((host, 0), family=family) as server:
            named = f"[{host}]" if ":" in host else host
            assert service_problem(parse_api_base(f"http://{named}:{server.getsockname()[1]}")) is None


def test_why_there_is_no_connection_is_said() -> None:
    """In the system's words."""
    assert service_problem(parse_api_base("http://127.0.0.1:1")) == "Connection refused"


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
def test_a_name_that_is_none(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """No resolver is asked here."""

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("socket.create_connection", fails)
    assert service_problem(parse_api_base("https://model.invalid")) in ("Name or service not known", "label too long")


def test_nobody_waits_for_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resolver can take much longer than a connection may."""
    told = threading.Event()

    def slow(*_: object) -> None:
        told.wait()
        raise OSError

    monkeypatch.setattr("socket.create_connection", slow)
    try:
        assert service_problem(parse_api_base("https://model.invalid"), 0.05) == "no answer within 0.05 s"
    finally:
        told.set()
