"""Pi: reads session logs and returns a `NativeCapture`. One task per module."""

from roller_capture.adapters.pi.adapter import TESTED_VERSIONS, read

__all__ = ["TESTED_VERSIONS", "read"]
