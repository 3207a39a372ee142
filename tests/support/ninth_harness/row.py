"""A made-up harness, in the three pieces that a further one needs: this row, an adapter and a launcher."""

from roller_capture.harnesses import Harness

ROW = Harness(
    "ninth",
    ("x-ninth-session",),
    adapter="tests.support.ninth_harness.adapter:read",
    launcher="tests.support.ninth_harness.launcher:LAUNCHER",
    logs="ninth.jsonl",
)
