"""Follows the turns of one executor through its log: is it running, did its turn end, did it fail?

Only the executor's own file can tell: the status that the parent's log gives says `completed` also for a child whose
calls ended in an API error.
"""

from collections.abc import Mapping
from typing import Any

from roller_capture.adapters.claude_code import record_shapes
from roller_capture.adapters.claude_code.facts import EndState, Place, TurnEnd
from roller_capture.adapters.native_values import as_id, as_mapping, as_word

_GOES_ON = frozenset({"tool_use", "pause_turn"})
_LOCAL_COMMAND_PREFIXES = ("<command-name>", "<command-message>", "<local-command-", "<bash-")


class TurnTracker:
    """Fed with the assistant and user records of one executor in file order."""

    def __init__(self) -> None:
        self._ends: list[TurnEnd] = []
        self._current: TurnEnd | None = None
        self._message_id: str | None = None
        self._message_uses_tools = False

    def assistant(self, record: Mapping[str, Any], message: Mapping[str, Any], place: Place) -> None:
        """A record of the assistant. Those that the harness wrote itself count only as API errors."""
        if record.get("isApiErrorMessage") is True:
            status = record.get("apiErrorStatus")
            known = isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599
            word = f"api_error_{status}" if known else "api_error"
            self._current = TurnEnd(EndState.FAILED, place, as_id(record.get("uuid")), word)
            return
        if message.get("model") == record_shapes.SYNTHETIC_MODEL:
            return
        identifier = as_id(message.get("id"))
        if identifier is None or identifier != self._message_id:
            self._message_id, self._message_uses_tools = identifier, False
        if any(block.get("type") == "tool_use" for block in record_shapes.blocks(message)):
            self._message_uses_tools = True
        stop_reason = as_word(message.get("stop_reason"))
        goes_on = self._message_uses_tools or stop_reason in _GOES_ON
        state = EndState.RUNNING if goes_on else EndState.ENDED
        self._current = TurnEnd(state, place, identifier, stop_reason)

    def user(self, record: Mapping[str, Any], message: Mapping[str, Any], place: Place) -> None:
        """A record of the user side: a tool result, a notification, a prompt, or the harness's own remark."""
        origin = as_mapping(record.get("origin")).get("kind")
        if any(block.get("type") == "tool_result" for block in record_shapes.blocks(message)):
            self._run(place)
        elif origin == "task-notification":
            # The same turn goes on: an agent that waits for its own background children is woken by them.
            self._run(place)
        elif _is_prompt(record, message, origin):
            self._close()
            self._run(place)

    def finish(self) -> list[TurnEnd]:
        """All turns, the last one as the file leaves it. Empty when nothing was fed."""
        return [*self._ends, self._current] if self._current is not None else self._ends

    def _run(self, place: Place) -> None:
        self._current = TurnEnd(EndState.RUNNING, place, None, None)

    def _close(self) -> None:
        """Ends the turn, however it stands: one that was stopped in the middle was a turn too."""
        if self._current is not None:
            self._ends.append(self._current)


def _is_prompt(record: Mapping[str, Any], message: Mapping[str, Any], origin: object) -> bool:
    if record.get("isCompactSummary") is True or record.get("isVisibleInTranscriptOnly") is True:
        return False
    if record.get("isMeta") is True and origin != "coordinator":
        return False
    text = record_shapes.first_text(message)
    if text is None:
        return bool(record_shapes.blocks(message))
    return not text.startswith((record_shapes.INTERRUPTED_TEXT, *_LOCAL_COMMAND_PREFIXES))
