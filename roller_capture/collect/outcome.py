"""What came of one sample of many, as the closing table tells it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roller_capture.runs.books import SampleState
from roller_capture.vocabulary import CaptureStatus

_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """`state` is `None` when nothing was published; then `error` says why. `reused`: it stood in the run before."""

    sample_id: str
    state: SampleState | None
    capture_status: CaptureStatus | None = None
    calls: int = 0
    size: int = 0
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()
    error: str | None = None
    place: Path | None = None
    reused: bool = False
    captured: bool = True

    @property
    def is_usable(self) -> bool:
        """Published, with at least one call; without a capture, it is enough that it ran."""
        return self.error is None and self.state is not None and (self.calls > 0 or not self.captured)

    @property
    def is_partial(self) -> bool:
        """Published, and something is missing."""
        return self.capture_status is CaptureStatus.PARTIAL

    @property
    def problem(self) -> str:
        """What is missing and why; empty when nothing is."""
        if self.error is not None:
            return self.error
        words = []
        if self.captured and not self.calls:
            words.append("no model request reached the proxy")
        if self.is_partial:
            more = len(self.reasons) - _MOST_REASONS
            listed = ", ".join(self.reasons[:_MOST_REASONS]) + (f" and {more} more" if more > 0 else "")
            words.append(f"capture partial: {listed}")
        return "; ".join(words)


def published_outcome(
    sample_id: str, manifest: dict[str, Any], place: Path, *, seconds: float = 0.0, reused: bool = False
) -> SampleOutcome:
    """What a published attempt's manifest says."""
    reasons = [f"{reason['code']} ({reason['count']})" for reason in manifest["status_reasons"]]
    return SampleOutcome(
        sample_id=sample_id,
        state=SampleState.of(manifest["execution_status"]),
        capture_status=CaptureStatus(manifest["capture_status"]),
        calls=manifest["counts"]["calls"],
        size=sum(info["bytes"] for info in manifest["files"].values()),
        seconds=seconds,
        reasons=tuple(reasons),
        place=place,
        reused=reused,
    )
