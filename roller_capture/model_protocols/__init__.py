"""Decoding of model responses, and reading of model requests, for the three wire protocols.

Layers that do not know each other: `content_coding` (bytes), `sse` (events), one fold per protocol (the output),
`verdict` (the truth table), `response` (their order). `request` reads request bodies.
"""

from roller_capture.model_protocols.content_coding import DECODED_LIMIT, DecodedBody, decode_body
from roller_capture.model_protocols.request import iter_messages_text, iter_tool_results
from roller_capture.model_protocols.response import decode_response
from roller_capture.model_protocols.types import DecodedResponse, DecodeError, OutputWarning, ToolRef

__all__ = [
    "DECODED_LIMIT",
    "DecodeError",
    "DecodedBody",
    "DecodedResponse",
    "OutputWarning",
    "ToolRef",
    "decode_body",
    "decode_response",
    "iter_messages_text",
    "iter_tool_results",
]
