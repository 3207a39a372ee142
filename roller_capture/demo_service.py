"""`roller-capture demo --serve`: the scripted model service on its own, so that a first `collect` needs no key.

It speaks every protocol that is recorded, and answers every request with the same words: no tools, no subagents.
"""

import threading
from typing import Final

from roller_capture.clean_stop import stops_cleanly
from roller_capture.errors import RollerError
from roller_capture.scripted_provider import ModelRequest, Reply, ScriptedProvider
from roller_capture.terminal import answer, say
from roller_capture.view.words import count

MODEL: Final = "scripted-model"
_WORDS: Final = "Hello from the scripted model: it says this to everybody."


def serve(port: int) -> int:
    """Serves on loopback until Ctrl-C (then 0 is returned); the address is on stdout. `port` 0: one that is free.

    Raises `RollerError` (exit 2) when the port cannot be had.
    """
    try:
        provider = ScriptedProvider(_reply, port=port)
    except OSError as error:
        reason = f"cannot be listened on ({error.strerror})"
        raise RollerError(f"port {port} of 127.0.0.1: {reason}: name another one with --port", exit_code=2) from None
    with stops_cleanly(), provider:
        try:
            answer(provider.url)
            for line in _what_to_type(provider.url):
                say(line)
            threading.Event().wait()
        except KeyboardInterrupt:
            say(f"stopped; it had answered {count(len(provider.truth.records), 'model request')}")
    return 0


def _reply(_request: ModelRequest) -> Reply:
    return Reply(text=_WORDS)


def _what_to_type(url: str) -> tuple[str, ...]:
    return (
        "a scripted model service is there until Ctrl-C: it speaks every protocol and wants no key",
        "in another terminal, with any harness that is there (make harness-NAME), and a --run-dir for each:",
        f"  roller-capture collect --harness claude-code --capture-calls --api-base {url} --model {MODEL} \\",
        "    --run-dir first-run --prompt 'Say hello'",
        "  roller-capture view first-run",
    )
