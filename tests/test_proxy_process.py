"""`mitmdump -s addons/capture.py` as a process of its own: start, refusal to start, signals, kill, full disk."""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from roller_capture.proxy_process import ProxyProcess
from roller_capture.recording import lock
from roller_capture.shipped import shipped_path
from tests.support.recording import Recording
from tests.support.upstream import Client, Exchange, call, eventually, upstream

REPOSITORY = Path(__file__).parent.parent
MITMDUMP = [sys.executable, "-c", "import sys; from mitmproxy.tools.main import mitmdump; sys.exit(mitmdump())"]
REQUEST = b'{"model": "m", "messages": []}'
EVENT = b"event: ping\ndata: {}\n\n"


def environment(**extra: str) -> dict[str, str]:
    """The test's own environment, without what the recorder reads from it, with the package importable."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("ROLLER_")}
    return {**inherited, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore", **extra}


def command(confdir: Path, *arguments: str, script: Path | None = None) -> list[str]:
    """A quiet mitmdump with the shipped addon."""
    path = script or shipped_path("addons", "capture.py")
    return [*MITMDUMP, "-q", "-s", str(path), "--set", f"confdir={confdir}", *arguments]


@pytest.fixture(scope="session")
def confdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One certificate authority for all processes."""
    return tmp_path_factory.mktemp("confdir")


@dataclass(slots=True)
class Process(Recording):
    """A running mitmdump."""

    process: asyncio.subprocess.Process
    port: int = 0

    async def said(self) -> str:
        """All that it printed; it must have ended."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        return (await self.process.stdout.read() + await self.process.stderr.read()).decode()

    async def end(self, number: signal.Signals) -> int:
        """Signals the process and waits for its exit code."""
        self.process.send_signal(number)
        return await self.process.wait()


@contextlib.asynccontextmanager
async def mitmdump(
    confdir: Path,
    attempt: Path,
    upstream_port: int,
    *,
    prepare: Callable[[], None] | None = None,
    script: Path | None = None,
    by_environment: bool = False,
    stderr: int | None = None,
) -> AsyncIterator[Process]:
    """A mitmdump that records into `attempt`, once it is ready."""
    options = ["--mode", f"reverse:http://127.0.0.1:{upstream_port}@127.0.0.1:0"]
    variables = {}
    if by_environment:
        variables = {"ROLLER_ATTEMPT": str(attempt), "ROLLER_HARNESS": "generic"}
    else:
        options += ["--set", f"roller_attempt={attempt}", "--set", "roller_harness=generic"]
    process = await asyncio.create_subprocess_exec(
        *command(confdir, *options, script=script),
        env=environment(**variables),
        preexec_fn=prepare,
        stdout=stderr,
        stderr=stderr,
    )
    running = Process(attempt, process)
    try:
        ready = running.work / "attempt.json"
        await eventually(lambda: ready.exists() or process.returncode is not None)
        assert process.returncode is None
        running.port = int(running.info()["options"]["listeners"][0].rpartition(":")[2])
        yield running
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


# --- refusing to start ---

LOOPBACK = ("--mode", "reverse:http://127.0.0.1:9@127.0.0.1:0")


def _options(attempt: str = "{attempt}", harness: str = "pi") -> tuple[str, ...]:
    return (*LOOPBACK, "--set", f"roller_attempt={attempt}", "--set", f"roller_harness={harness}")


def _publish(attempt: Path) -> None:
    attempt.mkdir()
    (attempt / "manifest.json").write_text("{}")


def _newer_format(attempt: Path) -> None:
    (attempt / "work").mkdir(parents=True)
    (attempt / "work" / "attempt.json").write_text('{"format": "roller.work/v2"}')


def _other_harness(attempt: Path) -> None:
    (attempt / "work").mkdir(parents=True)
    info = {"capture_id": "cap_a", "harness": "codex", "started_at": 1, "recorders": 1, "error_count": 0}
    (attempt / "work" / "attempt.json").write_text(json.dumps({"format": "roller.work/v1", **info}))


def _linked_work(attempt: Path) -> None:
    attempt.mkdir()
    (attempt.parent / "elsewhere").mkdir()
    (attempt / "work").symlink_to(attempt.parent / "elsewhere")


@pytest.mark.parametrize(
    ("arguments", "prepare", "said"),
    [
        (LOOPBACK, None, "roller_attempt is not set"),
        ((*LOOPBACK, "--set", "roller_attempt="), None, "roller_attempt is not set"),
        ((*LOOPBACK, "--set", "roller_attempt={attempt}"), None, "roller_harness is not set"),
        (_options(harness="claude"), None, "'claude' is no known harness"),
        ((*_options(), "--set", "roller_dri=x"), None, "no option 'roller_dri'"),
        ((*_options(), "--set", "Roller-Attempt=x"), None, "no option 'Roller-Attempt'"),
        ((*_options(), "--set", "roller_attempt=x"), None, "multiple values"),
        ((*_options(), "--set", "roller_allow_remote=maybe"), None, "roller_allow_remote"),
        (_options(attempt="/proc/none/here"), None, "cannot be made"),
        (_options(), lambda attempt: attempt.write_text("a file"), "attempt: is a file, not a folder"),
        (_options(), _publish, "already published"),
        (_options(), _newer_format, "roller.work/v2"),
        (_options(), _other_harness, "'codex'"),
        (_options(), _linked_work, "work: is a symbolic link, not a folder"),
        (("-p", "0", *_options()[2:]), None, "all addresses"),
        (("--listen-host", "0.0.0.0", "-p", "0", *_options()[2:]), None, "0.0.0.0"),
        (("--mode", "reverse:http://h:1@:0", *_options()[2:]), None, "listens on all addresses"),
    ],
)
def test_start_is_refused_with_one_line(
    tmp_path: Path, confdir: Path, arguments: tuple[str, ...], prepare: Callable[[Path], object] | None, said: str
) -> None:
    """Exit code 1 and one clear line: a proxy that would record nothing, or into the wrong place, must not run."""
    attempt = tmp_path / "attempt"
    if prepare is not None:
        prepare(attempt)
    before = sorted(tmp_path.rglob("*"))
    filled = [argument.replace("{attempt}", str(attempt)) for argument in arguments]
    process = subprocess.run(command(confdir, *filled), env=environment(), capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stdout == ""
    (line,) = process.stderr.splitlines()
    assert line.startswith("roller-capture: ")
    assert said in line
    written = set(tmp_path.rglob("*")) - set(before)
    assert all(path.name in ("work", "bodies", "lock") or path == attempt for path in written)


async def test_a_second_recorder_is_refused(tmp_path: Path, confdir: Path) -> None:
    """The line names who holds the folder."""
    work = tmp_path / "attempt" / "work"
    work.mkdir(parents=True)
    held = lock.acquire(work, "finalizer")
    process = await asyncio.create_subprocess_exec(
        *command(confdir, *(part.replace("{attempt}", str(tmp_path / "attempt")) for part in _options())),
        env=environment(),
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    held.release()
    assert process.returncode == 1
    (line,) = err.decode().splitlines()
    assert f"a finalizer (process {os.getpid()})" in line


# --- running ---


async def test_files_are_private_whatever_the_umask(tmp_path: Path, confdir: Path) -> None:
    """Folders 0700, files 0600, also when everything is read from the environment."""

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(b"{}")

    async with (
        upstream(answer) as service,
        mitmdump(
            confdir, tmp_path / "a", service.port, prepare=lambda: (os.umask(0), None)[1], by_environment=True
        ) as proxy,
    ):
        assert (await call(proxy.port, REQUEST)).whole
        assert await proxy.end(signal.SIGTERM) == 0
    paths = [proxy.attempt, *proxy.attempt.rglob("*")]
    modes = {str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777 for path in paths}
    expected = {str(path.relative_to(tmp_path)): 0o700 if path.is_dir() else 0o600 for path in paths}
    assert modes == expected
    assert len(paths) == 8


class Endless:
    """A service that streams events until it is told to stop."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.start_stream()
        with contextlib.suppress(ConnectionError):
            while not self.stopped.is_set():
                await exchange.chunk(EVENT)
                await asyncio.sleep(0.001)


async def test_a_kill_loses_nothing_that_the_client_has(tmp_path: Path, confdir: Path) -> None:
    """After SIGKILL in mid-stream the disk holds at least what the client got, and no end mark (fact 10)."""
    service_loop = Endless()
    async with upstream(service_loop) as service, mitmdump(confdir, tmp_path / "a", service.port) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", "/v1/messages", {}, REQUEST)
        await client.read_until(lambda reply: len(reply.body) > 20 * len(EVENT))
        assert await proxy.end(signal.SIGKILL) == -signal.SIGKILL
        got = (await client.read()).body
        service_loop.stopped.set()
    stored = (proxy.work / "bodies/000001.response").read_bytes()
    assert len(stored) >= len(got) > 20 * len(EVENT)
    assert stored.startswith(got)
    assert proxy.body(proxy.one("request")["body"]) == REQUEST
    assert [event["type"] for event in proxy.events()][-1] == "response_headers"
    assert (proxy.info()["closed"], proxy.info()["closed_at"]) == (False, None)
    # Free and not closed: that is how a reader knows of the kill.
    lock.acquire(proxy.work, "finalizer").release()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_closes_the_attempt(tmp_path: Path, confdir: Path, number: signal.Signals) -> None:
    """Open calls end as cut by the proxy, exactly once, and all of their bytes are there (fact 4)."""
    service_loop = Endless()
    async with (
        upstream(service_loop) as service,
        mitmdump(confdir, tmp_path / "a", service.port, stderr=subprocess.PIPE) as proxy,
    ):
        clients = [await Client.connect(proxy.port) for _ in range(3)]
        for client in clients:
            await client.send("POST", "/v1/messages", {}, REQUEST)
            await client.read_until(lambda reply: bool(reply.body))
        assert await proxy.end(number) == 0
        replies = [await client.read() for client in clients]
        service_loop.stopped.set()
        # No traceback for the connections that were open.
        assert await proxy.said() == ""
    failures = proxy.events("failure")
    assert len(failures) == 3
    assert {(failure["cut_by"], failure["phase"]) for failure in failures} == {("proxy", "response")}
    stored = sorted(len(proxy.body(failure["body"])) for failure in failures)
    assert all(disk >= got for disk, got in zip(stored, sorted(len(reply.body) for reply in replies), strict=True))
    assert not any(reply.whole for reply in replies)
    stopped = proxy.one("recorder_stopped")
    assert sorted(stopped["open_flows"]) == sorted(failure["flow"] for failure in failures)
    assert proxy.info()["closed"] is True
    assert proxy.info()["closed_at"] >= proxy.info()["started_at"]


async def test_a_full_disk_disturbs_no_traffic(tmp_path: Path, confdir: Path) -> None:
    """With a limit on file sizes, bodies and events cannot grow: all bytes pass, and the errors are counted."""
    limit = 8_192

    async def large(exchange: Exchange) -> None:
        await exchange.answer(b"z" * 5 * limit)

    def tiny_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    # The authority's files may be larger than the limit, so they are made before.
    async with upstream(large) as service:
        async with mitmdump(confdir, tmp_path / "made", service.port) as first:
            assert await first.end(signal.SIGTERM) == 0
        async with mitmdump(confdir, tmp_path / "a", service.port, prepare=tiny_files, stderr=subprocess.PIPE) as proxy:
            for _ in range(12):
                reply = await call(proxy.port, REQUEST)
                assert (reply.status, len(reply.body), reply.whole) == (200, 5 * limit, True)
            assert await proxy.end(signal.SIGTERM) == 0
            said = await proxy.said()
    assert said.count("\n") == 1
    assert said.startswith(f"roller-capture: recording failed in {tmp_path / 'a'} (File too large): traffic goes on")
    lines = (proxy.work / "events.jsonl").read_bytes().split(b"\n")
    events = [json.loads(line) for line in lines[:-1]]
    error = next(event for event in events if event["type"] == "recorder_error")
    assert (error["code"], error["message"]) == ("disk_error", "File too large")
    assert proxy.info()["error_count"] > 1
    assert proxy.info()["unrecorded_events"] > 1
    # Events are missing, so this was no clean end.
    assert proxy.info()["closed"] is False


async def test_a_reload_of_the_script_goes_on_with_the_same_recorder(tmp_path: Path, confdir: Path) -> None:
    """mitmproxy reloads a script that changes; the attempt must not be opened twice or closed in between."""
    script = tmp_path / "capture.py"
    shutil.copy(shipped_path("addons", "capture.py"), script)
    go_on = asyncio.Event()

    async def patient(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(EVENT)
        await go_on.wait()
        await exchange.end_stream()

    async with upstream(patient) as service, mitmdump(confdir, tmp_path / "a", service.port, script=script) as proxy:
        client = await Client.connect(proxy.port)
        await client.send("POST", "/v1/messages", {}, REQUEST)
        await client.read_until(lambda reply: bool(reply.body))
        reloaded = tmp_path / "reloaded"
        script.write_text(script.read_text() + f"\nopen({str(reloaded)!r}, 'w').close()\n")
        os.utime(script, (2**31, 2**31))
        await eventually(reloaded.exists)
        go_on.set()
        assert (await client.read()).whole
        assert (await call(proxy.port, REQUEST)).whole
        client.close()
        assert await proxy.end(signal.SIGTERM) == 0
    assert len(proxy.events("recorder_started")) == len(proxy.events("recorder_stopped")) == 1
    assert [event["sequence"] for event in proxy.events("request_headers")] == [1, 2]
    assert len(proxy.events("response")) == 2
    assert (proxy.info()["recorders"], proxy.info()["closed"]) == (1, True)


async def test_a_removed_script_ends_the_proxy(tmp_path: Path, confdir: Path) -> None:
    """Without the addon traffic would go on unrecorded."""
    script = tmp_path / "capture.py"
    shutil.copy(shipped_path("addons", "capture.py"), script)

    async def answer(exchange: Exchange) -> None:
        await exchange.answer(b"{}")

    async with upstream(answer) as service, mitmdump(confdir, tmp_path / "a", service.port, script=script) as proxy:
        assert (await call(proxy.port, REQUEST)).whole
        script.unlink()
        await proxy.process.wait()
    assert len(proxy.events("recorder_stopped")) == 1
    assert proxy.info()["closed"] is True


def test_a_module_in_the_working_directory_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `json.py` there must not stand in for Python's; the package is found without a path from outside."""
    for name in ("json", "asyncio", "mitmproxy", "roller_capture"):
        (tmp_path / f"{name}.py").write_text(f"open('imported-{name}', 'w').close()\nraise SystemExit('wrong {name}')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with ProxyProcess(tmp_path / "a", "generic", "http://127.0.0.1:9") as proxy:
        assert proxy.url.startswith("http://127.0.0.1:")
    assert list(tmp_path.glob("imported-*")) == []
    assert Recording(tmp_path / "a").info()["closed"] is True
