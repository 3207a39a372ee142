"""One row for one call: in the provider's own form, or in the chat form."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import orjson

from roller_capture import json_text
from roller_capture.api import Attempt, Call, Relation
from roller_capture.export.chat import NoChatFormError, chat_call
from roller_capture.export.columns import CALL_ROW, CHAT_ROW, Column, Kind, columns_of
from roller_capture.export.request import Form
from roller_capture.export.tokens import logprobs, token_ids
from roller_capture.view.provider_words import finish_word
from roller_capture.vocabulary import Protocol, RelationType

Row = dict[str, Any]
"""Column → value. JSON columns hold the value that the text is made of."""

_MESSAGES = {Protocol.OPENAI_RESPONSES: "input"}
_SYSTEM = {Protocol.ANTHROPIC_MESSAGES: "system", Protocol.OPENAI_RESPONSES: "instructions"}


class NoRowError(Exception):
    """Why a call that was to be exported has no row: a reason to count by, and the place.

    `unreadable`: its record is not what it should be; else there is only no such row of it.
    """

    def __init__(self, reason: str, place: str = "", *, unreadable: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place
        self.unreadable = unreadable


class CallRows:
    """Makes the rows of one attempt. `manifest_path` is how the rows name its manifest."""

    def __init__(self, attempt: Attempt, manifest_path: str, form: Form) -> None:
        self._attempt = attempt
        self._form = form
        self._manifest_path = manifest_path
        self._by_call: defaultdict[str, list[Relation]] = defaultdict(list)
        self._launches: defaultdict[str, list[Relation]] = defaultdict(list)
        for relation in attempt.relations:
            for call_id in {relation.parent_call_id, relation.context_call_id} - {None}:
                self._by_call[str(call_id)].append(relation)
            if relation.type is RelationType.SPAWN:
                self._launches[relation.child_participant_id].append(relation)

    def row(self, call: Call) -> Row:
        """The call's row. Raises `NoRowError`."""
        try:
            context = call.context
        except json_text.JsonError as error:
            raise NoRowError("the request cannot be read", str(error), unreadable=True) from None
        if not isinstance(context, dict):
            raise NoRowError("the request is no JSON object")
        row = self._head(call)
        row |= self._chat(call, context) if self._form is Form.CHAT else self._native(call, context)
        row["parameters"] = context
        row["usage"] = call.record["usage"]
        row["token_ids"] = token_ids(call.output)
        row["logprobs"] = logprobs(call.output)
        row["context_sha256"] = call.record["context_sha256"] or ""
        _check_texts(row, columns_of(self._form))
        return row

    def _head(self, call: Call) -> Row:
        attempt, model = self._attempt, call.record["model"]
        owner = None if call.participant_id is None else attempt.participant(call.participant_id)
        return {
            "schema": CHAT_ROW if self._form is Form.CHAT else CALL_ROW,
            "sample_id": attempt.sample_id or "",
            "attempt": attempt.path.absolute().name,
            "capture_id": attempt.capture_id,
            "manifest_path": self._manifest_path,
            "manifest_sha256": attempt.manifest_sha256,
            "harness": attempt.harness,
            "harness_version": attempt.harness_version or "",
            "call_id": call.call_id,
            "sequence": call.sequence,
            "participant_id": call.participant_id or "",
            "parent_participant_id": (owner and owner.parent_participant_id) or "",
            "role": owner.role if owner else "",
            "relations": _told(self._by_call[call.call_id] + self._launches[call.participant_id or ""]),
            "protocol": call.protocol,
            "purpose": call.purpose,
            "model_requested": model["requested"] or "",
            "model_responded": model["responded"] or "",
            "finish": finish_word(call.protocol, call.output) or "",
            "export_blockers": list(call.blockers),
        }

    def _native(self, call: Call, context: dict[str, Any]) -> Row:
        system = _SYSTEM.get(call.protocol)
        return {
            "system": context.pop(system, None) if system else None,
            "tools": context.pop("tools", None),
            "messages": context.pop(_MESSAGES.get(call.protocol, "messages"), None),
            "output": call.output,
        }

    def _chat(self, call: Call, context: dict[str, Any]) -> Row:
        try:
            chat = chat_call(call.protocol, context, call.output)
        except NoChatFormError as error:
            raise NoRowError(f"no chat form: {error.what}", error.pointer) from None
        for name in ("tools", _MESSAGES.get(call.protocol, "messages"), _SYSTEM.get(call.protocol, "")):
            context.pop(name, None)
        return {
            "tools": chat.tools,
            "other_tools": chat.other_tools,
            "messages": chat.messages,
            "output": chat.output,
            "origins": chat.origins,
            "extra": chat.extra,
        }


def _told(relations: Iterable[Relation]) -> list[dict[str, Any]]:
    """The relations, each once, without their evidence: that is in relations.jsonl."""
    unique = {relation.relation_id: relation for relation in relations}
    return [
        {name: value for name, value in relation.record.items() if name != "evidence"} for relation in unique.values()
    ]


def _check_texts(row: Row, columns: Iterable[Column]) -> None:
    """Texts of tables are UTF-8, which has no lone surrogates; JSON text escapes them."""
    for column in columns:
        if column.kind not in (Kind.TEXT, Kind.CHAT):
            continue
        try:
            orjson.dumps(row[column.name])
        except orjson.JSONEncodeError:
            raise NoRowError("lone surrogate", f"column {column.name}") from None
