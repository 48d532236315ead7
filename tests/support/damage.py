"""A cluster that serves a log with damage in it: the broker finds the batch, and sends other bytes."""

from __future__ import annotations

from typing import Any, Self

from fakes import FakeSource

from twinlog.batches.header import BatchHeader
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.brokers import EARLIEST, TopicMetadata

TOPIC = "ledger"


class DamagingBrokers(FakeSource):
    """One topic of one partition; `served` are the bytes that are sent instead of a batch, by its index."""

    def __init__(self, batches: list[bytes]) -> None:
        super().__init__({(TOPIC, 0): batches})
        self.served: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def metadata(self, topics: Any) -> dict[str, TopicMetadata]:
        return {name: TopicMetadata(name, 0, {0: 1}, self.topic_id) for name in topics}

    def offsets(self, partitions: Any, timestamp: int) -> dict[TopicPartition, int]:
        end = BatchHeader.read(self.logs[TOPIC, 0][-1]).next_offset
        return dict.fromkeys(partitions, 0 if timestamp == EARLIEST else end)

    def _block(self, item: TopicPartition, offset: int) -> bytes:
        return b"".join(
            self.served.get(index, raw)
            for index, raw in enumerate(self.logs[item])
            if BatchHeader.read(raw).last_offset >= offset
        )


def flipped(batch: bytes, bit: int) -> bytes:
    """One bit of a batch changed."""
    out = bytearray(batch)
    out[bit >> 3] ^= 1 << (bit & 7)
    return bytes(out)
