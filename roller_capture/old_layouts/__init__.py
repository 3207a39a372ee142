"""Attempts of earlier layouts, read as if they had today's (protocol, "Files and boundaries").

Known are `compact/v1`, the layout before it with `participants/*/calls.jsonl`, and manifests without `lifecycle`. What
an old record does not hold is filled in by a closed table, by the truth table of the design, or as unknown; nothing is
guessed.
"""

from roller_capture.old_layouts.layout import Layout, layout_of
from roller_capture.old_layouts.reading import OldAttempt, OldLine, call_files, read_old_attempt

__all__ = ["Layout", "OldAttempt", "OldLine", "call_files", "layout_of", "read_old_attempt"]
