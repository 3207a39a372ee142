"""Times of our records as numbers. Records of earlier layouts may hold anything in their place."""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def nanoseconds(timestamp: Any) -> int | None:
    """Unix nanoseconds of an ISO 8601 time with its offset (ours: UTC, microseconds); `None` for anything else."""
    try:
        moment = datetime.fromisoformat(timestamp)
        return (moment - _EPOCH) // _MICROSECOND * 1000
    except (TypeError, ValueError, OverflowError):  # no text, no time, or a time without offset
        return None
