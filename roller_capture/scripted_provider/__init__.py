"""A scripted model provider on loopback, for the demo, the acceptance runs and the tests.

It speaks the three protocols, answers each model request with what a script decides, and keeps its own record of truth
(`TruthRecord`): what was answered to whom, and how much of it went out. It knows nothing of recorder, adapters or
finalizer, so what they say can be checked against it.
"""

from roller_capture.scripted_provider.reply import ErrorEvent, Reply, ToolUse
from roller_capture.scripted_provider.request import ModelRequest, ToolResult
from roller_capture.scripted_provider.script import AgentScript, Script
from roller_capture.scripted_provider.server import Decide, ScriptedProvider
from roller_capture.scripted_provider.truth import Delivered, OtherRequest, TruthLog, TruthRecord

__all__ = [
    "AgentScript",
    "Decide",
    "Delivered",
    "ErrorEvent",
    "ModelRequest",
    "OtherRequest",
    "Reply",
    "Script",
    "ScriptedProvider",
    "ToolResult",
    "ToolUse",
    "TruthLog",
    "TruthRecord",
]
