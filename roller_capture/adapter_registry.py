"""Finds a harness's adapter. The registry row names it as text, so that the recorder never imports an adapter."""

import importlib
from collections.abc import Callable
from typing import Final

from roller_capture.capture_protocol import AdapterInput, Gap, NativeCapture, NativeCoverage
from roller_capture.harnesses import HARNESSES
from roller_capture.vocabulary import AttemptErrorCode, CoverageStrength, SubtaskSupport

Adapter = Callable[[AdapterInput], NativeCapture]

NO_ADAPTER_CAPTURE: Final = NativeCapture(
    harness_version=None,
    version_tested=False,
    participants=(),
    identity_fields=(),
    identity_claims=(),
    absent_header_claims=(),
    purpose_claims=(),
    relations=(),
    context_probes=(),
    coverage=NativeCoverage(
        field="response_id", strength=CoverageStrength.NONE, outputs=None, protocol_count_name="none"
    ),
    subtasks=SubtaskSupport.UNKNOWN,
    gaps=(Gap(AttemptErrorCode.NATIVE_LOGS_MISSING, "this version has no adapter for the harness"),),
)
"""What is known without an adapter: nothing. Every call is published, and none is attributed."""


def find_adapter(harness: str) -> Adapter | None:
    """The adapter of a known harness, or None where there is none yet."""
    place = HARNESSES[harness].adapter
    if place is None:
        return None
    module, _, function = place.partition(":")
    adapter: Adapter = getattr(importlib.import_module(module), function)
    return adapter
