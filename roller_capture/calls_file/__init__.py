"""The file of calls as bytes: plain (`calls.jsonl`), or compressed in frames that open on their own (`.zst`).

Every reader goes through `open_calls` or `line_texts`, and sees the same bytes of either. `seekable` is the layout of
the compressed form, `writer` makes it; nothing here knows what a call is.
"""

from roller_capture.calls_file.opening import CallsBytes, line_texts, open_calls
from roller_capture.calls_file.seekable import DamagedFileError, FrameCache
from roller_capture.calls_file.writer import CompressingWriter

__all__ = ["CallsBytes", "CompressingWriter", "DamagedFileError", "FrameCache", "line_texts", "open_calls"]
