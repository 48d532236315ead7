"""The kinds of topics that the benchmark copies, and how much of each.

Volumes differ between MM2 and twinlog because their rates do: the comparison is of records per CPU-second.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.batches import codec

LARGE = 256 * 1024
"""Bytes of records in a large batch, uncompressed, as a busy producer with a large batch.size writes."""


BROKER = {
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
}
"""Settings of both brokers: topics are compacted, and deleted data is gone, before the next copy begins."""

TARGET = BROKER | {"log.cleaner.backoff.ms": "86400000"}
"""Settings of a target whose copies are counted: nothing is compacted there meanwhile."""


@dataclass(frozen=True)
class Kind:
    """One kind of topic.

    `records_per_batch` 0 fills batches to LARGE.  With `json` values are JSON documents.  `headers` are the names
    of each record's headers.  `goal` is the required multiple of MM2's records per CPU-second, 0 if there is none.
    """

    name: str
    record_bytes: int
    records_per_batch: int = 0
    codec: int = codec.NONE
    partitions: int = 4
    compacted: bool = False
    skewed: bool = False
    headers: tuple[str, ...] = ()
    json: bool = False
    mm2_records: int = 200_000
    twinlog_records: int = 1_000_000
    goal: int = 0

    @property
    def slug(self) -> str:
        """Return the name as part of a topic's name."""
        return self.name.replace(" ", "-").replace(",", "").lower()

    @property
    def batch(self) -> int:
        """Return the records in a batch."""
        return self.records_per_batch or max(1, LARGE // (self.record_bytes + 16))


WALL_GOAL = 5
"""The required multiple of MM2's records per second."""

BOUND_GOAL = 0.6
"""The required share of a plain byte relay's bytes per CPU-second, for the relay in large uncompressed batches."""

KINDS = (
    Kind("1 KB", 1000, goal=20),
    Kind("100 B", 100, mm2_records=800_000, twinlog_records=8_000_000, goal=80),
    Kind("10 KB", 10_000, mm2_records=40_000, twinlog_records=150_000, goal=15),
    Kind("1 KB lz4", 1000, codec=codec.LZ4, twinlog_records=2_000_000, goal=40),
    Kind("1 KB zstd", 1000, codec=codec.ZSTD, twinlog_records=2_000_000),
    Kind("1 KB, 16 a batch", 1000, 16, mm2_records=150_000, twinlog_records=800_000, goal=10),
    Kind("1 KB, 1 a batch", 1000, 1, mm2_records=100_000, twinlog_records=400_000, goal=10),
    Kind("1 KB compacted", 1000, compacted=True, mm2_records=150_000, twinlog_records=600_000),
    Kind("200 partitions", 1000, partitions=200, skewed=True, mm2_records=150_000, twinlog_records=600_000),
)

MANY_PARTITIONS = Kind("1,000 partitions", 1000, 16, partitions=1000, twinlog_records=640_000)
"""Only for `bench.lane`: the cost of a thousand partitions in one lane."""
