"""The adapter of OpenCode: docs/harnesses/opencode.md says what it reads and what each record proves."""

from roller_capture.adapters.opencode.adapter import read

__all__ = ["read"]
