"""Finds the first model output that descends from a notification, along `parentUuid`.

This is the id that ties a notification to a call (protocol, "Relation semantics"): the response of the request that
carried it. Linear in the number of records, whatever tree they form; a cycle cannot be followed, since a parent must
stand before its child in the file.
"""

from dataclasses import dataclass

from roller_capture.adapters.claude_code.facts import Notification, Output, Place


@dataclass(slots=True)
class _Waiting:
    """A notification without an answer yet, and those before it on the same branch."""

    notification: Notification
    before: "_Waiting | None"
    answered: bool = False


class Descent:
    """Fed with every record that has a uuid, in file order."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    def record(self, uuid: str | None, parent: str | None, notification: Notification | None = None) -> None:
        """A record that is no model output, perhaps a notification."""
        waiting = self._of(parent)
        if notification is not None:
            waiting = _Waiting(notification, waiting)
        self._remember(uuid, waiting)

    def output(self, uuid: str | None, parent: str | None, identifier: str, output: Output, place: Place) -> None:
        """A record of a model output; `output` is its first record's, `place` this record's.

        A later block of an output that had begun before the notification came is no answer to it: its request was
        sent before.
        """
        waiting = self._of(parent)
        while waiting is not None and not waiting.answered and output.place.line > waiting.notification.place.line:
            waiting.answered = True
            waiting.notification.first_response = identifier
            waiting.notification.response_place = place
            waiting = waiting.before
        self._remember(uuid, waiting)

    def _of(self, parent: str | None) -> _Waiting | None:
        return self._waiting.get(parent) if parent is not None else None

    def _remember(self, uuid: str | None, waiting: _Waiting | None) -> None:
        if uuid is not None and waiting is not None and not waiting.answered:
            self._waiting[uuid] = waiting
