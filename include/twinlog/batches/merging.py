"""Decide which batches are cheaper to merge than to send one by one, and hold them until they are merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from twinlog.batches.codec import GZIP, LZ4, NONE, SNAPPY, ZSTD
from twinlog.batches.header import HEADER_BYTES, BatchHeader

BATCH_COST: Final = 25.0
"""Microseconds of CPU that each further batch costs: relabelling, its share of a request, its answer."""

_COST: Final = {
    NONE: (0.2, 0.0006),
    GZIP: (0.7, 0.03),
    SNAPPY: (0.7, 0.01),
    LZ4: (0.7, 0.01),
    ZSTD: (0.7, 0.02),
}
"""By codec: microseconds of CPU per record and per byte to read a batch and write it again."""

_COMPRESSED_RUN_BYTES: Final = 128 * 1024
"""The most bytes of compressed batches rewritten together: all are decompressed in memory at the same time."""

_MANY: Final = 16


@dataclass(frozen=True, slots=True)
class SmallBatches:
    """Hold small uncompressed batches that follow one another in a block: positions, and headers as an array."""

    begins: list[int]
    heads: Any

    @property
    def next_offset(self) -> int:
        """Return the upstream offset behind the last batch."""
        return int(self.heads["base_offset"][-1]) + int(self.heads["last_offset_delta"][-1]) + 1


@dataclass(slots=True)
class Run:
    """Hold batches of one codec that wait to be rewritten together.

    `begins` are their positions in the block; `positions` are the upstream offsets that the copy had reached before
    each.  `lone` is the header of the first batch, as long as that batch could still be passed on unchanged.
    """

    begins: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    lone: BatchHeader | None = None
    codec: int = 0
    bytes: int = 0

    def takes(self, codec: int) -> bool:
        """Say whether a batch of this codec may join."""
        fits = self.codec == codec and (not codec or self.bytes < _COMPRESSED_RUN_BYTES)
        return fits or not self.begins

    def add(self, header: BatchHeader, start: int, position: int, *, clean: bool) -> None:
        """Add a batch that begins at `start` in the block, with the copy at upstream offset `position`."""
        self.lone = header if clean and not self.begins else None
        self.codec = header.codec
        self.bytes += header.size
        self.begins.append(start)
        self.positions.append(position)

    def extend(self, small: SmallBatches) -> None:
        """Add small batches that are clean and uncompressed."""
        self.lone = None
        if not self.begins and len(small.begins) == 1:
            self.lone = BatchHeader._make(small.heads[0].tolist())
        self.codec = NONE
        self.begins += small.begins
        self.positions += small.heads["base_offset"].tolist()


def merge_cost(codec: int, records: Any, size: Any) -> Any:
    """Return the microseconds that it costs to read a batch, or each batch of an array, and write it again.

    Measured; see docs/performance.md.
    """
    per_record, per_byte = _COST.get(codec, (BATCH_COST, 0.0))
    return records * per_record + size * per_byte


def many_small(block: memoryview) -> bool:
    """Say whether a block looks like many small batches, judged by its first batch."""
    if len(block) < HEADER_BYTES:
        return False
    first = BatchHeader.read(block)
    cost = merge_cost(NONE, first.record_count, first.size)
    return bool(first.size * _MANY <= len(block) and cost < BATCH_COST)
