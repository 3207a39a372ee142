"""A program that plays Claude Code for the tests of `collect`: same options, output, requests and logs, no model.

It stands alone (standard library only), since it is started like a harness, with nothing of the test's environment.
Words in the prompt make it behave (see `_BEHAVIOURS`). What it was started with goes to `started-PID.json` in its
working directory.
"""

import argparse
import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.parse
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

VERSION = "2.1.332"


class Session:
    """One process: a session log, an output, a service."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        slug = "".join(character if character.isalnum() else "-" for character in str(Path.cwd()))
        self._log = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / slug / f"{session_id}.jsonl"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._last: str | None = None

    def say(self, record: Mapping[str, Any]) -> None:
        """A line of the output stream."""
        sys.stdout.write(json.dumps({**record, "session_id": self.session_id}) + "\n")
        sys.stdout.flush()

    def log(self, record: Mapping[str, Any]) -> None:
        """A line of the session log."""
        own = str(uuid.uuid4())
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        chain = {"parentUuid": self._last, "uuid": own, "isSidechain": False, "sessionId": self.session_id}
        with self._log.open("a") as stream:
            stream.write(json.dumps({**record, **chain, "timestamp": stamp, "version": VERSION}) + "\n")
        self._last = own

    def ask(self, prompt: str, key: str | None = None) -> int:
        """One model call; its answer is logged and said. The HTTP status."""
        status, message = request(prompt, self.session_id, key or os.environ["ANTHROPIC_API_KEY"])
        if status == http.HTTPStatus.OK:
            self.log({"type": "user", "message": {"role": "user", "content": prompt}})
            self.log({"type": "assistant", "message": message, "requestId": "req_x"})
            self.say({"type": "assistant", "message": message, "parent_tool_use_id": None})
        return status


def request(prompt: str, session_id: str, key: str) -> tuple[int, dict[str, Any]]:
    """Asks the model service, which answers without streaming; `HELD` asks for a stream, and never comes to read it."""
    base = urllib.parse.urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    connection = http.client.HTTPConnection(base.hostname or "", base.port, timeout=60)
    body = {"model": os.environ.get("ANTHROPIC_MODEL", "m"), "messages": [{"role": "user", "content": prompt}]}
    body["stream"] = "HELD" in prompt
    headers = {"content-type": "application/json", "x-api-key": key, "x-claude-code-session-id": session_id}
    connection.request("POST", f"{base.path}/v1/messages", json.dumps(body), headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text) if response.status == http.HTTPStatus.OK else {"error": text.decode()}


def _hang(session: Session) -> None:
    """The root waits for a tool of its own, and has not answered yet."""
    content = [{"type": "tool_use", "id": "toolu_r", "name": "Bash", "input": {}}]
    message = {"id": "msg_r", "model": "m", "role": "assistant", "content": content}
    session.say({"type": "assistant", "message": message, "parent_tool_use_id": None})
    _wait()


def _hang_once(session: Session) -> None:
    """Hangs, but not a second time in the same folder."""
    if not Path("hanging").exists():
        _hang(session)


def _wait() -> None:
    Path("hanging").write_text("")
    time.sleep(1000)


def _stubborn(_session: Session) -> None:
    """Notes that it was told to stop, and goes on."""
    signal.signal(signal.SIGTERM, lambda *_: Path("told").touch())
    Path("hanging").touch()
    while True:
        time.sleep(1000)


def _daemon(_session: Session) -> None:
    """What a shell tool does: a process in a session of its own, which outlives this one."""
    daemon = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL)
    Path("daemon.pid").write_text(str(daemon.pid))


def _fail(_session: Session) -> None:
    sys.stderr.write(f"something broke \x1b[31m with {os.environ['ANTHROPIC_API_KEY']}\n")
    sys.exit(3)


def _foreign(session: Session) -> None:
    request("from somebody else", session.session_id, "sk-somebody-elses-key")


def _print_key(session: Session) -> None:
    session.say({"type": "system", "subtype": "note", "text": os.environ["ANTHROPIC_API_KEY"]})


def _drain(session: Session) -> None:
    """The root has answered and a background child works: the `result` record comes only when that has ended."""
    content = [{"type": "tool_use", "id": "toolu_c", "name": "Bash", "input": {}}]
    message = {"id": "msg_c", "model": "m", "role": "assistant", "content": content}
    session.say({"type": "assistant", "message": message, "parent_tool_use_id": "toolu_child"})
    _wait()


def _escape(_session: Session) -> None:
    """What a tool can leave behind: in a session of its own, with another environment, its parent gone."""
    for name, environment in (("bare", {}), ("moved", {"HOME": "/root"})):
        script = f"echo $$ > {name}.pid; exec sleep 1000"
        command = ["setsid", "-f", "sh", "-c", script]
        subprocess.run(command, env={"PATH": os.environ["PATH"], **environment}, check=True, stdout=subprocess.DEVNULL)


def _late(_session: Session) -> None:
    """An answer that comes after the time limit."""
    time.sleep(4)


def _echo_key(session: Session) -> None:
    """The words of an error that repeats the key, as the harness logs and says them; the key is no longer there."""
    status, answer = request("REFUSE-ME", session.session_id, os.environ["ANTHROPIC_API_KEY"])
    del status
    session.log({"type": "assistant", "error": answer["error"]})
    session.say({"type": "system", "subtype": "api_error", "error": answer["error"]})
    sys.stderr.write(f"{answer['error']}\n")


def _link_log(session: Session) -> None:
    """A log of its own session that leads out of the home."""
    agents = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / "p" / session.session_id / "subagents"
    agents.mkdir(parents=True)
    (agents / "agent-a0123456789abcdef.jsonl").symlink_to("/etc/hostname")


_BEHAVIOURS: Mapping[str, Callable[[Session], None]] = {
    "DAEMON": _daemon,
    "ESCAPE": _escape,
    "ECHO-KEY": _echo_key,
    "HANG": _hang,
    "HANG-ONCE": _hang_once,
    "STUBBORN": _stubborn,
    "FAIL": _fail,
    "FOREIGN": _foreign,
    "PRINT-KEY": _print_key,
    "DRAIN": _drain,
    "LATE": _late,
    "LINK-LOG": _link_log,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("-p", action="store_true")
    parser.add_argument("--output-format", default="text")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--dangerously-skip-permissions", action="store_true")
    parser.add_argument("--permission-mode")
    parser.add_argument("--resume")
    parser.add_argument("prompt", nargs="?")
    return parser.parse_args()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _command(session: Session, name: str) -> None:
    """A prompt that is a command of the program's own: no model is asked (measured with 2.1.332)."""
    content = [{"type": "text", "text": f"{name} isn't available in this environment."}]
    message = {"id": "own", "model": "<synthetic>", "role": "assistant", "content": content}
    session.log({"type": "assistant", "message": message})
    session.say({"type": "assistant", "message": message, "parent_tool_use_id": None})
    session.say({"type": "result", "subtype": "success", "is_error": False, "num_turns": 0})


def main() -> None:
    """One turn. Like the real one it takes the prompt from its first value, or from stdin."""
    options = _options()
    if options.version:
        sys.stdout.write(f"{VERSION} (Claude Code)\n")
        return
    typed = sys.stdin.read()
    started = {"arguments": sys.argv[1:], "environment": dict(os.environ), "stdin": typed, "umask": _umask()}
    Path(f"started-{os.getpid()}.json").write_text(json.dumps(started))
    options.prompt = options.prompt or typed
    if "SILENT" in options.prompt:
        sys.exit(1)
    session = Session(options.resume or str(uuid.uuid4()))
    session.say({"type": "system", "subtype": "init", "cwd": str(Path.cwd())})
    if options.prompt.startswith("/help"):
        _command(session, options.prompt)
        return
    if "OTHER-ID" in options.prompt:
        session.say({"type": "system", "subtype": "init"} | {"session_id": "x"})
        session.session_id = str(uuid.uuid4())
        session.say({"type": "system", "subtype": "init"})
    if "BYPASS" in options.prompt:
        session.say({"type": "assistant", "message": {"model": "m", "content": []}})
    else:
        status = session.ask(options.prompt)
        if status != http.HTTPStatus.OK:
            session.say({"type": "result", "subtype": "error", "is_error": True})
            sys.exit(1)
    for word, behave in _BEHAVIOURS.items():
        if word in options.prompt.split():
            behave(session)
    session.say({"type": "result", "subtype": "success", "is_error": False})


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
