"""Which record counts of a flow that stands in the files more than once: it is one exchange, so it is one call.

A file that was saved while the proxy ran holds flows as they were then: without the answers that came later. So what
the records hold decides, not the order of the files. Only records that share their id are read for it, one at a time.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from roller_capture.importing.exchange import DamagedRecordError, ImportedExchange
from roller_capture.importing.sources import Place, Source
from roller_capture.vocabulary import AttemptErrorCode

Record = tuple[int, Place]
"""Position of the source, and the place in it."""


class LeftOut(StrEnum):
    """Why a record does not count, in words for people."""

    COPY = "copies of flows that stand before them"
    LESS = "other records of the same flows prove more"
    UNLIKE = "other records of the same flows prove as much, and differ"


class _Reading(NamedTuple):
    """What a record is worth (more is better), and a digest of all that an import reads of it."""

    worth: tuple[int, ...]
    digest: bytes


def each_flow_once(sources: Sequence[Source]) -> tuple[list[Record], Counter[tuple[int, LeftOut]]]:
    """The records that count, in the order in which their requests began; how many others each source has, and why.

    Records that cannot be read stay among those that count: the damage is told where they are imported.
    """
    counting: list[Record] = []
    left_out: Counter[tuple[int, LeftOut]] = Counter()
    by_flow: dict[bytes, list[Record]] = {}
    for number, source in enumerate(sources):
        for place in source.places():
            if place.identity is None:
                counting.append((number, place))
            else:
                by_flow.setdefault(place.identity, []).append((number, place))
    for records in by_flow.values():
        counting += records if len(records) == 1 else _chosen(sources, records, left_out)
    return sorted(counting, key=lambda record: (record[1].started_at, record)), left_out


def _chosen(
    sources: Sequence[Source], records: Sequence[Record], left_out: Counter[tuple[int, LeftOut]]
) -> list[Record]:
    """The best record of one flow, and those that cannot be read."""
    counting: list[Record] = []
    readings: list[tuple[Record, _Reading]] = []
    for record in records:
        number, place = record
        try:
            readings.append((record, _reading(sources[number].read(place))))
        except DamagedRecordError:
            counting.append(record)
    if readings:
        # Of equal ones the first; between unlike ones of the same worth the digest decides: no order of files does.
        best, kept = max(readings, key=lambda item: item[1])
        counting.append(best)
        others = ((record, reading) for record, reading in readings if record is not best)
        left_out.update((number, _why(reading, kept)) for (number, _), reading in others)
    return counting


def _why(reading: _Reading, kept: _Reading) -> LeftOut:
    if reading == kept:
        return LeftOut.COPY
    return LeftOut.LESS if reading.worth < kept.worth else LeftOut.UNLIKE


def _reading(exchange: ImportedExchange) -> _Reading:
    """An edited or replayed flow is not what passed, so it never stands for one that is; then the end counts."""
    failure = exchange.failure
    worth = (
        all(gap.code is not AttemptErrorCode.IMPORT_ALTERED for gap in exchange.gaps),
        failure is None,
        exchange.response is not None,
        exchange.request_complete,
        failure is None or failure.ended_at is not None,
        -len(exchange.gaps),
    )
    # Heads are bounded; bodies are not, so their hashes stand in for them.
    short = dataclasses.replace(
        exchange, request_body=_hash(exchange.request_body), response_body=_hash(exchange.response_body)
    )
    return _Reading(worth, hashlib.sha256(repr(dataclasses.astuple(short)).encode()).digest())


def _hash(body: bytes | None) -> bytes | None:
    return None if body is None else hashlib.sha256(body).digest()
