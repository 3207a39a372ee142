"""The recording proxy listens on this machine only, and gives the real key to nobody who has not the made-up one."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from roller_capture.proxy_process import ProxyProcess
from roller_capture.shipped import shipped_path
from tests.support.canaries import canary, leaks
from tests.support.proxy import reverse, running_proxy
from tests.support.upstream import Client, Exchange, call, upstream

REAL = canary(1)
DUMMY = "roller-dummy-0123456789"
REQUEST = b'{"model": "m", "messages": []}'
OPTIONS = {"roller_dummy_key_env": "TEST_DUMMY", "roller_upstream_key_env": "TEST_KEY"}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DUMMY", DUMMY)
    monkeypatch.setenv("TEST_KEY", REAL)


async def answer(exchange: Exchange) -> None:
    """A plain answer."""
    await exchange.answer(b"{}")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--mode", "reverse:http://127.0.0.1:9"],
        ["--mode", "reverse:http://127.0.0.1:9@0.0.0.0:0"],
        ["--mode", "reverse:http://127.0.0.1:9@[::]:0"],
        ["--mode", "reverse:http://127.0.0.1:9@0:0"],
        ["--mode", "reverse:http://127.0.0.1:9@192.0.2.1:0"],
        ["--mode", "reverse:http://127.0.0.1:9@localhost.attacker.test:0"],
        ["--mode", "regular", "--listen-host", "0.0.0.0"],
        ["--mode", "socks5@0.0.0.0:0"],
        ["--mode", "regular@127.0.0.1:0", "--mode", "regular@0.0.0.0:0"],
    ],
    ids=" ".join,
)
def test_no_other_listener_comes_up(tmp_path: Path, arguments: list[str]) -> None:
    """It says how to allow it, and records nothing."""
    command = [sys.executable, "-W", "ignore", "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()", "-q"]
    command += ["-s", str(shipped_path("addons", "capture.py")), "--set", f"confdir={tmp_path / 'conf'}"]
    command += ["--set", f"roller_attempt={tmp_path / 'a'}", "--set", "roller_harness=generic", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == 1
    # Of an address that this machine does not have, the kernel says so first.
    assert "roller_allow_remote" in process.stderr or "Error logged during startup" in process.stderr
    assert not (tmp_path / "a").exists()


def test_the_proxy_of_a_run_listens_on_loopback_alone(tmp_path: Path) -> None:
    """The socket itself, as the kernel has it: 127.0.0.1 and no other address."""
    with ProxyProcess(tmp_path / "a", "generic", "http://127.0.0.1:9") as proxy:
        inodes = {path.readlink().name for path in Path(f"/proc/{proxy.pid}/fd").iterdir() if path.is_symlink()}
        listening = [
            fields[1].partition(":")[0]
            for table in ("tcp", "tcp6")
            for fields in map(str.split, Path(f"/proc/{proxy.pid}/net/{table}").read_text().splitlines()[1:])
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes
        ]
    assert listening == [socket.inet_aton("127.0.0.1")[::-1].hex().upper()]


STRANGERS: dict[str, dict[str, str]] = {
    "another user of the machine": {},
    "with a key of its own": {"x-api-key": "sk-somebody-elses-0123456789"},
    "with a guess": {"x-api-key": "roller-dummy-0123456788"},
    "with the beginning": {"x-api-key": DUMMY[:-1]},
    "with more than it": {"x-api-key": f"{DUMMY}0"},
    "in another case": {"x-api-key": DUMMY.upper()},
    "in a header that is none for keys": {"x-other": DUMMY},
    "a page whose name leads here (DNS rebinding)": {"Origin": "http://evil.test", "Referer": "http://evil.test/"},
}


@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("host", ["evil.test", "127.0.0.1", "localhost:80"])
async def test_a_stranger_gets_no_key(tmp_path: Path, stranger: str, host: str) -> None:
    """Its request passes as it is, is recorded as foreign, and is nobody's call."""
    async with upstream(answer) as service, running_proxy(tmp_path / "a", reverse(service.port), **OPTIONS) as proxy:
        client = await Client.connect(proxy.port)
        head = f"POST http://{host}/v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(REQUEST)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in STRANGERS[stranger].items())
        await client.send_raw(head.encode() + b"\r\n" + REQUEST)
        await client.reader.read(1 << 16)
        client.close()
    (seen,) = service.seen
    assert REAL not in str(seen.headers)
    assert proxy.one("request_headers")["credential"] == "foreign"
    assert leaks(tmp_path / "a", [REAL, DUMMY]) == []


async def test_a_key_never_goes_to_a_host_that_the_client_names(tmp_path: Path) -> None:
    """Not by the target, not by Host, not by CONNECT."""
    async with (
        upstream(answer) as service,
        upstream(answer) as elsewhere,
        running_proxy(tmp_path / "a", reverse(service.port), **OPTIONS) as proxy,
    ):
        place = f"127.0.0.1:{elsewhere.port}"
        await call(
            proxy.port, REQUEST, target=f"http://{place}/v1/messages", headers={"x-api-key": DUMMY, "Host": place}
        )
        client = await Client.connect(proxy.port)
        await client.send_raw(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\nx-api-key: {DUMMY}\r\n\r\n".encode())
        await client.reader.read(1 << 16)
        client.close()
    assert elsewhere.seen == []
