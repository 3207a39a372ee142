"""The reading half of the working files (docs/working-files.md); `roller_capture.recording` is the writing half."""
