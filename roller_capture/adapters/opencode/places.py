"""Where records stand: the source and the locator of evidence and of gaps."""

from dataclasses import dataclass

from roller_capture.adapters.gap_log import GapLog
from roller_capture.adapters.native_values import is_locatable
from roller_capture.capture_protocol import Evidence
from roller_capture.vocabulary import AttemptErrorCode, EvidenceKind


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record stands: `line:N` of an extract, `json:POINTER` of an exported session."""

    source: str
    locator: str

    def evidence(self, label: str, identifier: str | None, kind: EvidenceKind = EvidenceKind.NATIVE_RECORD) -> Evidence:
        """Evidence that this record holds `identifier`, an id of the sort that `label` names."""
        locator = self.locator
        if identifier is not None and locator.startswith("line:") and is_locatable(identifier):
            locator += f" {label}:{identifier}"
        return Evidence(kind, self.source, locator)

    def note(self, gaps: GapLog, code: AttemptErrorCode, reason: str) -> None:
        """Notes a gap at this record."""
        kind, _, number = self.locator.partition(":")
        gaps.add(code, reason, source=self.source, line=int(number) if kind == "line" else None)
