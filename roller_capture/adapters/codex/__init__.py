"""The adapter of Codex: docs/harnesses/codex.md says what it reads and what each record proves."""

from roller_capture.adapters.codex.adapter import read

__all__ = ["read"]
