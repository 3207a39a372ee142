"""A look at the model service before the harness starts: most that keeps it from being reached shows at once.

It is no more than a warning. The service may come up later, and only the proxy's own connections count.
"""

import queue
import socket
import threading
from typing import Final

from roller_capture.collect.api_base import ApiBase

_SECONDS: Final = 3.0
"""A service that is there answers sooner; whoever looks up its name may take longer, and nobody waits for that."""


def service_problem(base: ApiBase, seconds: float = _SECONDS) -> str | None:
    """Why no connection could be made to the model service, in the system's words; `None` when one was made."""
    told: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def look() -> None:
        try:
            socket.create_connection((base.host.strip("[]"), base.port), seconds).close()
            told.put(None)
        except (OSError, ValueError) as error:  # a name that no resolver takes is a `ValueError`
            told.put(getattr(error, "strerror", None) or str(error) or type(error).__name__)

    threading.Thread(target=look, daemon=True).start()
    try:
        return told.get(timeout=seconds)
    except queue.Empty:
        return f"no answer within {seconds:g} s"
