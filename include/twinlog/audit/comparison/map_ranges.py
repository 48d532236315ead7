"""Convert ranges of one side of an offset map into offsets of the other.  Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence

import numpy as np

from twinlog.offsets.offset_map import OffsetMap

SAMPLE_OFFSETS = 5_000
"""Upstream offsets in one stretch of a sample."""


def first_upstream_at(offset_map: OffsetMap, downstream: int) -> int:
    """Return the first upstream offset whose copy is at or after `downstream`; the map's end if there is none."""
    ends = offset_map.downstream + offset_map.length
    index = int(np.searchsorted(ends, downstream, side="right"))
    if index == len(ends):
        return offset_map.end_upstream
    into = max(0, downstream - int(offset_map.downstream[index]))
    first = int(offset_map.upstream[index]) + into
    return first if index or into else offset_map.first_upstream


def downstream_range(offset_map: OffsetMap, start: int, end: int) -> tuple[int, int]:
    """Return where the copies of upstream [start, end) begin and end; the map's end twice if there are none."""
    upstream_ends = offset_map.upstream + offset_map.length
    first = int(np.searchsorted(upstream_ends, start, side="right"))
    behind = int(np.searchsorted(offset_map.upstream, end, side="left"))
    if first >= behind:
        return offset_map.end_downstream, offset_map.end_downstream
    low = int(offset_map.downstream[first]) + max(0, start - int(offset_map.upstream[first]))
    last = behind - 1
    length = min(end, int(upstream_ends[last])) - int(offset_map.upstream[last])
    return low, int(offset_map.downstream[last]) + length


def mapped_into(
    offset_map: OffsetMap, start: int, end: int, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield, per downstream range, the first upstream offset and the number of records of [start, end) copied into it.

    Works extent by extent; the ranges must be in order and must not overlap.
    """
    shift = offset_map.downstream - offset_map.upstream
    for begin, behind in ranges:
        low = np.maximum(np.maximum(offset_map.upstream, start), begin - shift)
        high = np.minimum(np.minimum(offset_map.upstream + offset_map.length, end), behind - shift)
        for index in np.flatnonzero(high > low).tolist():
            yield int(low[index]), int(high[index] - low[index])


def sample(start: int, end: int, share: float, seed: str) -> list[tuple[int, int]]:
    """Choose `share` of the offsets [start, end) in stretches, at least one; the same seed chooses the same."""
    pieces = [(low, min(low + SAMPLE_OFFSETS, end)) for low in range(start, end, SAMPLE_OFFSETS)]
    wanted = max(1, math.ceil(share * len(pieces)))  # rounded up: the last stretch may be nearly empty
    return sorted(random.Random(seed).sample(pieces, min(wanted, len(pieces))))
