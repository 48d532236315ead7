"""Look up offsets and ranges of one side of an offset map on the other, quickly for offsets in order.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Column


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


class Places:
    """The offset map, asked from either side."""

    def __init__(self, offset_map: OffsetMap) -> None:
        self._map = offset_map
        self._downstream = _Lookup(offset_map.upstream, offset_map.downstream, offset_map.length)
        self._upstream = _Lookup(offset_map.downstream, offset_map.upstream, offset_map.length)

    def downstream(self, upstream: int) -> int | None:
        """Return the downstream offset of the copy of an upstream offset, None if it has no copy."""
        return self._downstream.find(upstream)

    def upstream(self, downstream: int) -> int | None:
        """Return the upstream offset a record was copied from, None if the map does not know it."""
        return self._upstream.find(downstream)

    def knows_upstream(self, upstream: int) -> bool:
        """Say whether the map knows what became of this offset; a lost map segment leaves an offset gap."""
        stretch = int(np.searchsorted(self._map.covered_from, upstream, side="right")) - 1
        return stretch >= 0 and upstream < int(self._map.covered_to[stretch])

    def knows_downstream(self, downstream: int) -> bool:
        """Say whether the map knows all that this flow may have written at this offset: it is in no gap of the map."""
        after = int(np.searchsorted(self._map.downstream, downstream, side="right"))
        if after in {0, len(self._map.length)}:
            return True
        behind = int(self._map.upstream[after - 1] + self._map.length[after - 1])
        stretch = int(np.searchsorted(self._map.covered_from, behind, side="right")) - 1
        return stretch >= 0 and int(self._map.upstream[after]) < int(self._map.covered_to[stretch])

    def downstream_of_all(self, upstream: int, count: int) -> int | None:
        """Return where `count` records from `upstream` on stand, if they stand in one stretch, else None."""
        place = self._downstream.find(upstream)
        return place if place is not None and upstream + count <= self._downstream.end else None


class _Lookup:
    """One direction of the map; `[begin, end)` is the extent that was asked for last."""

    def __init__(self, froms: Column, tos: Column, length: Column) -> None:
        self._froms, self._tos, self._length = froms, tos, length
        self.begin = self.end = self._shift = 0

    def find(self, offset: int) -> int | None:
        if not self.begin <= offset < self.end:
            index = int(np.searchsorted(self._froms, offset, side="right")) - 1
            if index < 0 or offset >= self._froms[index] + self._length[index]:
                return None
            self.begin = int(self._froms[index])
            self.end = self.begin + int(self._length[index])
            self._shift = int(self._tos[index]) - self.begin
        return offset + self._shift
