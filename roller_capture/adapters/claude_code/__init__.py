"""The adapter of Claude Code: docs/harnesses/claude-code.md says what it reads and what each record proves."""

from roller_capture.adapters.claude_code.adapter import read

__all__ = ["read"]
