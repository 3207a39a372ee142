"""What came of one sample of many, as the closing table tells it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roller_capture.collect.attempt import AttemptResult
from roller_capture.collect.failures import NO_REQUEST, all_calls_failed, first_reason, silent_turns, why_no_call
from roller_capture.runs.books import SampleState
from roller_capture.vocabulary import CaptureStatus

_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class SampleOutcome:
    """`state` is `None` when nothing was published; then `error` says why. `reused`: it stood in the run before.
    `all_failed` is the reason when not one of the calls brought an answer; `said` is the last line of the harness's
    error output, when it did not end well; `no_call` is why there was none, and `silent` which turns had none, as far
    as this call of `collect` has seen.
    """

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
    all_failed: str | None = None
    said: str = ""
    no_call: str = ""
    silent: str = ""

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
            words.append(self.no_call or NO_REQUEST)
        elif self.silent:
            words.append(self.silent)
        if self.all_failed is not None:
            words.append(f"every call failed: {self.all_failed}")
        if self.is_partial:
            more = len(self.reasons) - _MOST_REASONS
            listed = ", ".join(self.reasons[:_MOST_REASONS]) + (f" and {more} more" if more > 0 else "")
            words.append(f"capture partial: {listed}")
        if self.said:
            words.append(f"its error output ends: {self.said}")
        return "; ".join(words)


def published_outcome(
    sample_id: str, manifest: dict[str, Any], place: Path, *, seconds: float = 0.0, result: AttemptResult | None = None
) -> SampleOutcome:
    """What a published attempt's manifest says, and what was seen of its run; without `result` it stood before."""
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
        reused=result is None,
        all_failed=first_reason(place) if all_calls_failed(manifest) else None,
        said="" if result is None else "".join(result.last_words[-1:]),
        no_call="" if result is None else why_no_call(result.outcome),
        silent="" if result is None else silent_turns(result.outcome),
    )
