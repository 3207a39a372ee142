"""roller-capture: who called the model, with what, and what came back.

`from roller_capture import open_attempt, iter_attempts` reads published attempts (docs/api.md).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roller_capture.api import (
        Agent,
        Attempt,
        Call,
        InvalidAttemptError,
        Participant,
        Relation,
        iter_attempts,
        open_attempt,
    )

__version__ = "0.2.0"

__all__ = [
    "Agent",
    "Attempt",
    "Call",
    "InvalidAttemptError",
    "Participant",
    "Relation",
    "__version__",
    "iter_attempts",
    "open_attempt",
]


def __getattr__(name: str) -> Any:
    """The API is imported when it is used: the proxy and the command line need not wait for it."""
    if name in __all__:
        return getattr(importlib.import_module("roller_capture.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
