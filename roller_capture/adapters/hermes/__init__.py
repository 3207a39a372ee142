"""The adapter of Hermes Agent: docs/harnesses/hermes.md says what it reads and what each record proves."""

from roller_capture.adapters.hermes.adapter import read

__all__ = ["read"]
