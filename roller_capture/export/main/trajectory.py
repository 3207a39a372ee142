"""ACTF rows of an attempt: one for each segment of its main trajectory (schemas/roller.actf.v1.json)."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from roller_capture import json_text
from roller_capture.api import Attempt, Call, Participant, Relation
from roller_capture.export.chat import ChatCall, NoChatFormError, chat_call
from roller_capture.export.main.chain import NO_ROOT, UNKNOWN_PURPOSE, Chain, NoTrajectoryError, Segment, head_length
from roller_capture.view.provider_words import finish_word
from roller_capture.vocabulary import DeliveryKind, Purpose, RelationType

ACTF: Final = "roller.actf/v1"
Row = dict[str, Any]

_NOT_PARAMETERS: Final = ("messages", "input", "system", "instructions", "tools")
_IN_CONTEXT: Final = (RelationType.RESULT_IN_CONTEXT, RelationType.LAUNCH_ACK_IN_CONTEXT)
_BY_ITSELF: Final = (DeliveryKind.NOTIFICATION, DeliveryKind.MESSAGE)


def trajectory_rows(attempt: Attempt, manifest_path: str) -> list[Row]:
    """The rows in order. Raises `NoTrajectoryError` where there is none, or where it would be a guess."""
    if len(attempt.roots) != 1:
        raise NoTrajectoryError(NO_ROOT if not attempt.roots else "several roots")
    root = attempt.roots[0]
    refuse_unbound(attempt, root)
    builder = _Builder(attempt, root)
    for call in attempt.calls(root):
        builder.add(call)
    rows = builder.finish()
    if not rows:
        raise NoTrajectoryError(why_no_turns(builder.left_out))
    for number, row in enumerate(rows, 1):
        row["segment"] |= {"number": number, "of": len(rows)}
    return [{"schema": ACTF, **_origin(attempt, manifest_path, root), **row} for row in rows]


def why_no_turns(left_out: Sequence[Row]) -> str:
    """Of an agent all of whose calls were left out: nothing bars those that only nobody knows the purpose of."""
    if any(told["purpose"] == Purpose.UNKNOWN and not told["blockers"] for told in left_out):
        return f"nothing tells that its exportable calls were made for an agent's turn ({UNKNOWN_PURPOSE})"
    return "there is no exportable call of an agent's turn"


def refuse_unbound(attempt: Attempt, root: Participant) -> None:
    """OpenClaw: a result that a participant got without a tool call has to be found in its input (protocol)."""
    if attempt.harness != "openclaw":
        return
    held = {_delegation(item) for item in attempt.relations if item.type is RelationType.RESULT_IN_CONTEXT}
    for item in attempt.relations:
        announced = item.type is RelationType.RESULT_DELIVERED and item.record["delivery"]["kind"] in _BY_ITSELF
        if announced and item.receiver_participant_id == root.participant_id and _delegation(item) not in held:
            raise NoTrajectoryError("a notification cannot be bound to the input")


def _delegation(relation: Relation) -> tuple[str, Any, str | None]:
    return relation.child_participant_id, relation.record["delegation"], relation.receiver_participant_id


def _origin(attempt: Attempt, manifest_path: str, root: Participant) -> Row:
    return {
        "sample_id": attempt.sample_id,
        "attempt": attempt.path.absolute().name,
        "capture_id": attempt.capture_id,
        "manifest_path": manifest_path,
        "manifest_sha256": attempt.manifest_sha256,
        "harness": {"name": attempt.harness, "version": attempt.harness_version},
        "execution_status": attempt.execution_status,
        "capture_status": attempt.capture_status,
        "participant_id": root.participant_id,
    }


def notifications_of(attempt: Attempt, receiver: Participant) -> dict[str, list[Relation]]:
    """What came to a participant by itself, by the call whose request holds it."""
    marks: dict[str, list[Relation]] = {}
    for relation in attempt.relations:
        mine = relation.receiver_participant_id == receiver.participant_id
        if mine and relation.type in _IN_CONTEXT and relation.record["delivery"]["kind"] in _BY_ITSELF:
            marks.setdefault(str(relation.context_call_id), []).append(relation)
    return marks


class _Builder:
    """Goes through the root's calls; of each segment only its last call is in memory."""

    def __init__(self, attempt: Attempt, root: Participant) -> None:
        self._chain = Chain()
        self._rows: list[Row] = []
        self._last: tuple[Call, Row] | None = None
        self.left_out: list[Row] = []
        self._marks = notifications_of(attempt, root)

    def add(self, call: Call) -> None:
        """The root's next call. Only exportable agent calls are turns of the conversation; a call of which nobody
        knows what it was made for may have been one, so it is named."""
        if call.purpose is Purpose.COMPACTION:
            self._chain.compacted(call.call_id)
        if call.purpose not in (Purpose.AGENT, Purpose.UNKNOWN):
            return
        if not call.exportable or call.purpose is Purpose.UNKNOWN:
            told = {"call_id": call.call_id, "purpose": call.purpose, "blockers": list(call.blockers)}
            self.left_out.append(told)
            return
        chat, parameters = chat_of(call, agent_messages=True)
        over = self._chain.add(call.call_id, chat)
        if over is not None:
            self._close(over)
        self._last = call, parameters

    def finish(self) -> list[Row]:
        """The rows of all segments."""
        if self._chain.segments:
            self._close(self._chain.segments[-1])
        return self._rows

    def _close(self, segment: Segment) -> None:
        assert self._last is not None
        call, parameters = self._last
        messages = told_messages(segment, self._marks.get(call.call_id, []))
        chat = segment.last
        self._rows.append(
            {
                "segment": {"number": 0, "of": 0, "cut_by": segment.cut_by},
                "protocol": call.protocol,
                "model": dict(call.record["model"]),
                "call_ids": [link.call_id for link in segment.links],
                "abandoned_call_ids": segment.abandoned,
                "left_out_calls": self.left_out,
                "finish": finish_word(call.protocol, call.output),
                "parameters": parameters,
                "tools": chat.tools,
                "other_tools": chat.other_tools,
                "tools_changed_at": segment.changes("tools"),
                "system_changed_at": segment.changes("head"),
                "messages": messages,
                "extra": chat.extra,
            }
        )
        self.left_out = []
        segment.last = chat._replace(messages=[], output=[], origins={}, extra={})  # its rows are made


def chat_of(call: Call, *, agent_messages: bool = False, images: bool = False) -> tuple[ChatCall, Row]:
    """The call in the chat form, and the rest of its request. Raises `NoTrajectoryError`."""
    try:
        context = call.context
    except json_text.JsonError:
        raise NoTrajectoryError("a request cannot be read", call.call_id) from None
    if not isinstance(context, dict):
        raise NoTrajectoryError("a request is no JSON object", call.call_id)
    try:
        chat = chat_call(call.protocol, context, call.output, agent_messages=agent_messages, images=images)
    except NoChatFormError as error:
        raise NoTrajectoryError(f"no chat form: {error.what}", call.call_id) from None
    return chat, {name: value for name, value in context.items() if name not in _NOT_PARAMETERS}


def told_messages(segment: Segment, marks: Iterable[Relation]) -> list[Row]:
    """What the last request held and its answer, each with where it is from and what is known of it."""
    chat = segment.last
    length = head_length(chat.messages)
    makers = {length + place: link.call_id for link in segment.links for place in range(link.start, link.end)}
    places = [*chat.origins["context"], *chat.origins["output"]]
    said_by = ["context"] * len(chat.messages) + ["output"] * len(chat.output)
    rows = []
    for place, message in enumerate([*chat.messages, *chat.output]):
        origin = places[place]
        row = {**message, "origin": {"in": said_by[place], **origin}, "call_id": makers.get(place)}
        rows.append({**row, "notifications": []})
    for relation in marks:
        row = _marked(rows, str(relation.context_pointer))
        row["notifications"].append(
            {
                "relation_id": relation.relation_id,
                "type": relation.type,
                "child_participant_id": relation.child_participant_id,
                "pointer": relation.context_pointer,
                **relation.record["delivery"],
            }
        )
    return rows


def _marked(rows: list[Row], pointer: str) -> Row:
    """The message that a pointer leads into: the one whose own pointer is the longest way to it."""
    found = [
        row for row in rows if row["origin"]["in"] == "context" and f"{pointer}/".startswith(f"{row['origin']['at']}/")
    ]
    if not found:
        raise NoTrajectoryError("a notification cannot be found in the input")
    return max(found, key=lambda row: len(row["origin"]["at"]))
