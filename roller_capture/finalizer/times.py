"""Times in published form: UTC with microseconds, and durations in milliseconds."""

import datetime


def milliseconds(start: int | None, end: int | None) -> float | None:
    """Milliseconds between two readings of a monotonic clock in nanoseconds; None where that makes no sense."""
    return None if start is None or end is None or end < start else round((end - start) / 1e6, 3)


def timestamp(seconds: float | None) -> str | None:
    """Seconds since 1970 as an RFC 3339 text."""
    if seconds is None:
        return None
    moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds") + "Z"
