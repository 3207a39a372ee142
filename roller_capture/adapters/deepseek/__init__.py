"""The adapter of DeepSeek Harness: docs/harnesses/deepseek.md says what it reads and what each record proves."""

from roller_capture.adapters.deepseek.adapter import read

__all__ = ["read"]
