"""`roller-capture demo --serve`: a first `collect` without a key."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roller_capture.vocabulary import Protocol
from tests.support.collecting import REPOSITORY, fake_claude

PATHS = {
    Protocol.ANTHROPIC_MESSAGES: "/v1/messages",
    Protocol.OPENAI_CHAT_COMPLETIONS: "/v1/chat/completions",
    Protocol.OPENAI_RESPONSES: "/v1/responses",
}


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "roller_capture", "demo", *arguments]


@contextmanager
def _service(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        _command("--serve", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().rstrip("\n"), process
    finally:
        process.kill()
        process.communicate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("protocol", Protocol)
def test_every_protocol_is_answered_and_ctrl_c_is_a_good_end(protocol: Protocol) -> None:
    """On the port that was asked for; the address alone is on stdout."""
    port = _free_port()
    with _service("--port", str(port)) as (url, process):
        assert url == f"http://127.0.0.1:{port}"
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], "input": "hi"}).encode()
        request = urllib.request.Request(url + PATHS[protocol], body, {"content-type": "application/json"})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as response:
            assert "Hello from the scripted model" in response.read().decode()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "")
    assert err.endswith("stopped; it had answered 1 model request\n")
    assert "Traceback" not in err


def test_what_it_says_to_type_next_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without any key, captured completely."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    harness = fake_claude(tmp_path / "bin")
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    with _service() as (url, process):
        assert process.stderr is not None
        printed = ""
        while "roller-capture view" not in printed:
            line = process.stderr.readline()
            assert line, printed
            printed += line
        assert url in printed
        typed = "".join(re.findall(r"^  (.*\n)", printed, re.MULTILINE)).replace("\\\n", "")
        collect, view = map(shlex.split, typed.splitlines())
        for program, *arguments in ([*collect, "--harness-bin", str(harness)], view):
            command = [sys.executable, "-m", "roller_capture", *arguments]
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert (program, done.returncode) == ("roller-capture", 0), done.stderr
    assert re.search(r"completed +complete +1 of 1 call ", done.stdout)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--port", "1"), "--port goes with --serve"),
        (("--serve", "folder"), "leave the directory away"),
        (("--serve", "--port", "70000"), "--port"),
        (("--serve", "--port", "{taken}"), "name another one with --port"),
    ],
)
def test_wrong_calls(arguments: tuple[str, ...], text: str) -> None:
    """One line, exit code 2."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        filled = [argument.format(taken=taken.getsockname()[1]) for argument in arguments]
        done = subprocess.run(_command(*filled), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert done.stderr.count("\n") == 1
