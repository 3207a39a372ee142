"""The configuration of a made run, from which tests depart by `dataclasses.replace`."""

from typing import Final

from roller_capture.runs.configuration import RunConfiguration, RunMode

CAPTURED_RUN: Final = RunConfiguration(
    harness="claude-code",
    harness_version="2.1.332",
    protocol="anthropic-messages",
    model=None,
    api_base="https://api.example.com",
    mode=RunMode.CAPTURED,
    profile=None,
    network="host",
    wire_trace=True,
    capture_debug="on-error",
    key_via="proxy",
    timeout=60,
    drain_timeout=30,
    harness_args=(),
)
