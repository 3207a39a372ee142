"""The adapter of OpenClaw: docs/harnesses/openclaw.md says what it reads and what each record proves."""

from roller_capture.adapters.openclaw.adapter import TESTED_VERSIONS, read

__all__ = ["TESTED_VERSIONS", "read"]
