"""The proxy's own key, with real sockets: what the model service gets, and what is on disk."""

import subprocess
import sys
from pathlib import Path

import pytest
from mitmproxy import http

from roller_capture.shipped import shipped_path
from tests.support.proxy import Proxy, reverse, running_proxy
from tests.support.upstream import Client, Exchange, call, upstream

DUMMY = "roller-dummy-0123456789"
REAL = "sk-real-canary-0123456789"
REQUEST = b'{"model": "m", "messages": []}'
OPTIONS = {"roller_dummy_key_env": "TEST_DUMMY", "roller_upstream_key_env": "TEST_KEY"}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DUMMY", DUMMY)
    monkeypatch.setenv("TEST_KEY", REAL)


async def answer(exchange: Exchange) -> None:
    """A plain answer."""
    await exchange.answer(b"{}")


async def echo(exchange: Exchange) -> None:
    """An error that repeats the key."""
    (key,) = exchange.request.values("x-api-key")
    await exchange.answer(f'{{"error": "bad key {key}"}}'.encode(), status=401)


def on_disk(proxy: Proxy) -> bytes:
    """Everything that was written."""
    return b"".join(path.read_bytes() for path in proxy.attempt.rglob("*") if path.is_file())


async def test_the_key_is_put_in_and_requests_are_marked(tmp_path: Path) -> None:
    """Own and foreign requests, model calls and others; no key reaches the disk."""
    async with (
        upstream(answer) as service,
        running_proxy(tmp_path / "a", reverse(service.port), **OPTIONS) as proxy,
    ):
        await call(proxy.port, REQUEST, headers={"x-api-key": DUMMY})
        await call(proxy.port, REQUEST, headers={"Authorization": f"Bearer {DUMMY}"})
        await call(proxy.port, REQUEST, headers={"x-api-key": "sk-somebody-else"})
        await call(proxy.port, REQUEST)
        await call(proxy.port, b"{}", target="/v1/messages/count_tokens", headers={"x-api-key": DUMMY})
    keys = [seen.values("x-api-key") for seen in service.seen]
    assert keys == [[REAL], [], ["sk-somebody-else"], [], [REAL]]
    assert service.seen[1].values("authorization") == [f"Bearer {REAL}"]
    assert [event["credential"] for event in proxy.events("request_headers")] == ["own", "own", "foreign", "foreign"]
    assert REAL.encode() not in on_disk(proxy)
    assert DUMMY.encode() not in on_disk(proxy)
    assert b"TEST_KEY" not in on_disk(proxy)


async def test_an_echoed_key_is_masked(tmp_path: Path) -> None:
    """The client sees the service's own bytes, the disk does not; the harness never sent this key itself."""
    async with upstream(echo) as service, running_proxy(tmp_path / "a", reverse(service.port), **OPTIONS) as proxy:
        reply = await call(proxy.port, REQUEST, headers={"x-api-key": DUMMY})
    assert REAL.encode() in reply.body
    assert proxy.one("response")["masked"] is True
    assert REAL.encode() not in on_disk(proxy)


async def test_the_key_goes_to_the_upstream_whatever_the_request_names(tmp_path: Path) -> None:
    """A client cannot send it elsewhere by an absolute target or a Host header."""
    async with upstream(answer) as service, running_proxy(tmp_path / "a", reverse(service.port), **OPTIONS) as proxy:
        for target in ("/v1/messages", "http://elsewhere.invalid/v1/messages"):
            client = await Client.connect(proxy.port)
            await client.send("POST", target, {"x-api-key": DUMMY, "Host": "elsewhere.invalid"}, REQUEST)
            await client.read()
            client.close()
    hosts = {event["host"] for event in proxy.events("request_headers")}
    assert hosts == {"127.0.0.1"}
    assert [seen.values("x-api-key") for seen in service.seen] == [[REAL], [REAL]]


async def test_without_a_key_nothing_is_marked_or_changed(tmp_path: Path) -> None:
    """By hand, the harness's own header passes through."""
    async with upstream(answer) as service, running_proxy(tmp_path / "a", reverse(service.port)) as proxy:
        await call(proxy.port, REQUEST, headers={"x-api-key": DUMMY})
    assert service.seen[0].values("x-api-key") == [DUMMY]
    assert "credential" not in proxy.one("request_headers")


async def test_the_key_cannot_be_changed_while_recording(tmp_path: Path) -> None:
    """Nor switched off: then the harness's made-up key would go out."""
    async with upstream(answer) as service, running_proxy(tmp_path / "a", reverse(service.port), **OPTIONS) as proxy:
        assert proxy.master is not None
        with pytest.raises(Exception, match="cannot be changed"):
            proxy.master.options.update(roller_dummy_key_env="")
        await call(proxy.port, REQUEST, headers={"x-api-key": DUMMY})
    assert service.seen[0].values("x-api-key") == [REAL]


class Redirect:
    """Another addon, which sends requests somewhere else."""

    def __init__(self, port: int) -> None:
        self._port = port

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Before the recorder sees them."""
        flow.request.port = self._port


async def test_a_request_that_goes_elsewhere_gets_no_key(tmp_path: Path) -> None:
    """The real key is for the upstream that the user named, and for no other place."""
    async with (
        upstream(answer) as service,
        upstream(answer) as elsewhere,
        running_proxy(tmp_path / "a", reverse(service.port), addons=(Redirect(elsewhere.port),), **OPTIONS) as proxy,
    ):
        await call(proxy.port, REQUEST, headers={"x-api-key": DUMMY})
    assert service.seen == []
    assert elsewhere.seen[0].values("x-api-key") == [DUMMY]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen-host", "127.0.0.1", "--listen-port", "0", "--set", "roller_dummy_key_env=TEST_DUMMY"), "--mode"),
        (
            ("--mode", "reverse:http://127.0.0.1:9@127.0.0.1:0", "--set", "roller_dummy_key_env=NONE"),
            "NONE holds no key",
        ),
        (("--mode", "reverse:http://127.0.0.1:9@127.0.0.1:0", "--set", "roller_upstream_key_env=TEST_KEY"), "needs"),
    ],
)
def test_a_proxy_that_could_not_keep_its_word_does_not_start(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """A regular proxy has no one place to send the key to; a variable without a key replaces nothing."""
    command = [sys.executable, "-W", "ignore", "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()", "-q"]
    command += ["-s", str(shipped_path("addons", "capture.py")), "--set", f"confdir={tmp_path / 'conf'}"]
    command += ["--set", f"roller_attempt={tmp_path / 'a'}", "--set", "roller_harness=generic", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    (line,) = process.stderr.splitlines()
    assert said in line
    assert REAL not in line
