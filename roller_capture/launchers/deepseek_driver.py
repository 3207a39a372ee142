"""Runs one turn of a DeepSeek Harness session over its JSON-RPC profiles (`sdk-minimal`, `sdk`), as a program.

Those profiles read requests from standard input, so each turn needs somebody who writes them: this file, run by its
path with nothing but the standard library. It starts `dsh`, begins or resumes the session, sends the prompt, waits
until the root is idle and every subagent has ended and been answered, and shuts the runtime down so that it writes its
logs (measured: leaving at once aborts running children, and can lose the log of a short run).

Standard output is JSON Lines: {"type": "session"|"status"|"subagent"|"notice"|"answer"|"turn"|"drain", …}. Exit code 0:
the root's turn completed; 1: it ended in another way; 3: the runtime ended or refused a request.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

_SHUTDOWN_SECONDS: Final = 20.0
_START_SECONDS: Final = 120.0
_QUIET_SECONDS: Final = 1.0
"""How long everything must stay idle: a child that has ended wakes its parent a moment later."""


class RuntimeEndedError(Exception):
    """The runtime ended, or refused what it was asked; the message says what it said."""


class Runtime:
    """A `dsh` process that speaks JSON-RPC, a message a line."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._messages: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        self._numbers = 0
        threading.Thread(target=self._read, daemon=True).start()

    def ask(self, method: str, params: Mapping[str, Any] | None, watch: "Watch", seconds: float) -> Mapping[str, Any]:
        """Sends a request and returns its result; what comes in between goes to `watch`."""
        self._numbers += 1
        request: dict[str, Any] = {"jsonrpc": "2.0", "id": f"roller-{self._numbers}", "method": method}
        self._send(request if params is None else {**request, "params": params})
        deadline = time.monotonic() + seconds
        while True:
            message = self.next(deadline - time.monotonic())
            if message is None:
                raise RuntimeEndedError(f"no answer to {method} within {seconds:g} s")
            if message.get("id") == request["id"] and "method" not in message:
                if "error" in message:
                    raise RuntimeEndedError(f"{method} was refused: {message['error']}")
                result = message.get("result")
                return result if isinstance(result, dict) else {}
            self.handle(message, watch)

    def next(self, seconds: float) -> Mapping[str, Any] | None:
        """The next message, or `None` when none comes in time."""
        try:
            message = self._messages.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return None
        if message is None:
            raise RuntimeEndedError(f"the runtime ended with exit code {self._process.wait()}")
        return message

    def handle(self, message: Mapping[str, Any], watch: "Watch") -> None:
        """A notification is looked at; a request to us, such as for an approval, is refused, for nobody is there."""
        if "method" in message and "id" in message:
            error = {"code": -32601, "message": "nobody is there to answer"}
            self._send({"jsonrpc": "2.0", "id": message["id"], "error": error})
        elif "method" in message:
            params = message.get("params")
            watch.notified(str(message["method"]), params if isinstance(params, dict) else {})

    def close(self, watch: "Watch") -> None:
        """Shuts down and waits, so that the logs are whole."""
        try:
            self.ask("shutdown", None, watch, _SHUTDOWN_SECONDS)
        except RuntimeEndedError:
            pass
        finally:
            self._end()

    def _end(self) -> None:
        stdin = self._process.stdin
        try:
            if stdin is not None:
                stdin.close()
        except OSError:
            pass
        try:
            self._process.wait(_SHUTDOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: Mapping[str, Any]) -> None:
        stdin: IO[bytes] | None = self._process.stdin
        try:
            if stdin is not None:
                stdin.write(json.dumps(message).encode() + b"\n")
                stdin.flush()
        except OSError as error:
            raise RuntimeEndedError(f"the runtime does not listen: {error}") from None

    def _read(self) -> None:
        stdout = self._process.stdout
        for line in stdout if stdout is not None else ():
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                self._messages.put(message)
        self._messages.put(None)


class Watch:
    """Follows the notifications of one root session and its descendants, and tells on standard output what it saw."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._busy: set[str] = set()
        self._running: set[str] = set()
        self._finished_unanswered: set[str] = set()
        self.received: set[str] = set()
        self.last_turn: str | None = None

    @property
    def root_is_idle(self) -> bool:
        """Whether the root waits for input."""
        return self._root not in self._busy

    @property
    def is_settled(self) -> bool:
        """Whether nobody works and no child is still to end."""
        return not self._busy and not self._running

    def notified(self, method: str, params: Mapping[str, Any]) -> None:
        """Takes one notification in."""
        session = params.get("sessionId")
        if method == "session.status" and isinstance(session, str):
            status = params.get("status")
            (self._busy.discard if status == "idle" else self._busy.add)(session)
            tell(type="status", sessionId=session, status=status)
        elif method in ("subagent.started", "subagent.finished"):
            child = params.get("childSessionId")
            if isinstance(child, str):
                (self._running.add if method == "subagent.started" else self._running.discard)(child)
            known = ("parentSessionId", "childSessionId", "reason", "status", "outcome")
            tell(type="subagent", event=method, **{name: params[name] for name in known if name in params})
        elif method == "session.event":
            event = params.get("event")
            self._event(session, event if isinstance(event, dict) else {})

    def _event(self, session: object, event: Mapping[str, Any]) -> None:
        data = event.get("data")
        data = data if isinstance(data, dict) else {}
        kind = event.get("type")
        if kind == "agent/inbox/spliced" and session == self._root:
            inserted = data.get("inserted")
            for message in inserted if isinstance(inserted, list) else ():
                if isinstance(message, dict) and isinstance(message.get("id"), str):
                    self.received.add(message["id"])
        elif kind == "assistant/message":
            tell(type="answer", sessionId=session, seq=event.get("seq"))
        elif kind == "turn/end":
            reason = data.get("reason")
            word = reason.get("kind") if isinstance(reason, dict) else None
            if session == self._root:
                self.last_turn = word if isinstance(word, str) else None
            tell(type="turn", sessionId=session, root=session == self._root, reason=word)


def tell(**record: object) -> None:
    """One line on standard output."""
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Runs the turn that the arguments describe."""
    given = _arguments()
    patches = [part for patch in given.patch for part in ("--patch", patch)]
    root = given.resume or f"session-{uuid.uuid4()}"
    watch = Watch(root)
    runtime = Runtime([given.dsh, "--profile", given.profile, *patches])
    try:
        _start(runtime, watch, given, root)
        _run(runtime, watch, root, given.prompt)
        _drain(runtime, watch, given.drain)
    except RuntimeEndedError as error:
        sys.stderr.write(f"dsh: {error}\n")
        return 3
    finally:
        runtime.close(watch)
    return 0 if watch.last_turn == "completed" else 1


def _start(runtime: Runtime, watch: Watch, given: argparse.Namespace, root: str) -> None:
    settings = {"cwd": given.cwd, "provider": given.provider, "model": given.model}
    if given.max_tokens is not None:
        settings["maxTokens"] = given.max_tokens
    runtime.ask("initialize", settings, watch, _START_SECONDS)
    if given.resume is not None:
        runtime.ask("session/resume", {"sessionId": root}, watch, _START_SECONDS)
    tell(type="session", sessionId=root, resumed=given.resume is not None)


def _run(runtime: Runtime, watch: Watch, root: str, prompt: str) -> None:
    """Sends the prompt and waits until the root has taken it in, and is idle again."""
    blocks = [{"type": "text", "text": prompt}]
    answer = runtime.ask("session/prompt", {"sessionId": root, "contentBlocks": blocks}, watch, _START_SECONDS)
    while not (answer.get("messageId") in watch.received and watch.root_is_idle and watch.last_turn is not None):
        message = runtime.next(3600.0)
        if message is not None:
            runtime.handle(message, watch)


def _drain(runtime: Runtime, watch: Watch, seconds: float) -> None:
    """Waits until everybody has been idle for a moment, at most `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        message = runtime.next(min(_QUIET_SECONDS, left))
        if message is not None:
            runtime.handle(message, watch)
        elif watch.is_settled:
            break
        elif left <= _QUIET_SECONDS:
            tell(type="drain", settled=False)
            return


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("--dsh", "--profile", "--cwd", "--provider", "--model"):
        parser.add_argument(name, required=True)
    parser.add_argument("--patch", action="append", default=[])
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--resume")
    parser.add_argument("--drain", type=float, required=True)
    parser.add_argument("prompt")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
