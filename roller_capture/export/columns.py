"""The columns of exported calls: what stands in them, and of which type they are in every file format.

Every column of every row has a value of its type. Readers of tables take a column's type from its first rows; so an
absent text is the empty text, never null, and an absent provider object is the JSON text `null`. What a provider or a
harness said is JSON text: two tools never have the same arguments, and a reader that made one type of them would fill
each row with the members of all others.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from roller_capture.export.request import Form

CALL_ROW: Final = "roller.export.call/v1"
CHAT_ROW: Final = "roller.export.chat/v1"


class Kind(StrEnum):
    """The type of a column."""

    TEXT = "text"
    INTEGER = "integer"
    JSON = "json"
    """JSON text; `--nested` writes the value itself."""
    CHAT = "chat"
    """Messages in the chat form, not as text."""
    TURNS = "turns"
    """The same with arguments that are objects, as chat templates take them."""
    VALUE = "value"
    """A JSON value, not as text; in Parquet text of the type `arrow.json`: `datasets` makes the value of it."""
    TEXTS = "texts"
    INTEGERS = "integers"


class Column(NamedTuple):
    """One column."""

    name: str
    kind: Kind
    meaning: str


_HEAD: Final = (
    Column("schema", Kind.TEXT, "the form of the row"),
    Column("sample_id", Kind.TEXT, "the sample of a run directory that the attempt belongs to"),
    Column("attempt", Kind.TEXT, "the attempt's folder name"),
    Column("capture_id", Kind.TEXT, "the attempt's random id"),
    Column("manifest_path", Kind.TEXT, "the attempt's manifest, from the folder that was exported on"),
    Column("manifest_sha256", Kind.TEXT, "its hash: which publication of the attempt this is"),
    Column("harness", Kind.TEXT, "what made the call"),
    Column("harness_version", Kind.TEXT, "its version"),
    Column("call_id", Kind.TEXT, "the call in calls.jsonl"),
    Column("sequence", Kind.INTEGER, "order of arrival at the proxy: for reading, never evidence"),
    Column("participant_id", Kind.TEXT, "the agent that made the call; empty where that is not proven"),
    Column("parent_participant_id", Kind.TEXT, "the agent that launched that agent"),
    Column("role", Kind.TEXT, "`root` or `child`"),
    Column(
        "relations", Kind.JSON, "relations that this call made, or whose result it holds, or that launched its agent"
    ),
    Column("protocol", Kind.TEXT, "the wire format of what the provider said"),
    Column("purpose", Kind.TEXT, "what the call was made for"),
    Column("model_requested", Kind.TEXT, "the model that was asked"),
    Column("model_responded", Kind.TEXT, "the model that the response names"),
    Column("finish", Kind.TEXT, "the provider's own word for how the response ended"),
    Column("export_blockers", Kind.JSON, "blockers that were allowed on purpose; an empty list otherwise"),
)
_TAIL: Final = (
    Column("parameters", Kind.JSON, "all other members of the request body"),
    Column("usage", Kind.JSON, "token counts as the provider reported them"),
    Column("token_ids", Kind.JSON, "token ids that the response carried, by JSON Pointer into it"),
    Column("logprobs", Kind.JSON, "log probabilities that the response carried, by JSON Pointer into it"),
    Column("context_sha256", Kind.TEXT, "hash of the request body"),
)

CALL_COLUMNS: Final = (
    *_HEAD,
    Column("system", Kind.JSON, "`system` or `instructions` of the request body"),
    Column("tools", Kind.JSON, "`tools` of the request body"),
    Column("messages", Kind.JSON, "`messages` or `input` of the request body"),
    Column("output", Kind.JSON, "the response in the shape it has without streaming"),
    *_TAIL,
)
CHAT_COLUMNS: Final = (
    *_HEAD,
    Column("tools", Kind.JSON, "function and custom tools, as Chat Completions defines them"),
    Column("other_tools", Kind.JSON, "tools that are none of these, as they were sent"),
    Column("messages", Kind.CHAT, "what was sent, the system prompt included"),
    Column("output", Kind.CHAT, "what came back: one message, or several where the order needs it"),
    Column("origins", Kind.JSON, "for each message where it comes from, and the lengths of its texts if not one"),
    Column("extra", Kind.JSON, "what has no place in the messages, by JSON Pointer into request body and response"),
    *_TAIL,
)


def columns_of(form: Form) -> tuple[Column, ...]:
    """The columns of such rows."""
    return CHAT_COLUMNS if form is Form.CHAT else CALL_COLUMNS
