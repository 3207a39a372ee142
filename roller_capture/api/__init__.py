"""Published attempts from Python: `open_attempt` and `iter_attempts` (docs/api.md). Read only, and no judgement.

What stands in the records is handed over as it stands; a few members that everybody needs have a name of their own.
"""

from roller_capture.api.attempt import Attempt, InvalidAttemptError, iter_attempts, open_attempt
from roller_capture.api.calls import Call
from roller_capture.api.participants import Participant, Relation
from roller_capture.api.tree import Agent
from roller_capture.token_usage import Usage

__all__ = [
    "Agent",
    "Attempt",
    "Call",
    "InvalidAttemptError",
    "Participant",
    "Relation",
    "Usage",
    "iter_attempts",
    "open_attempt",
]
