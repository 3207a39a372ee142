"""The common finalizer: from working files and a `NativeCapture` to the published records."""

from roller_capture.finalizer.finalize import FinalizeOptions, finalize_capture

__all__ = ["FinalizeOptions", "finalize_capture"]
