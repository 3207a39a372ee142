"""A captured run of the shared acceptance, for tests."""

from roller_capture.acceptance.captured_run import Capture, read_lines, roller_capture

__all__ = ["Capture", "read_lines", "roller_capture"]
