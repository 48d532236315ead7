"""Read the records of a log that the other side does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from twinlog.audit.comparison.record_fields import RawRecord, records_of
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.audit import Unproved
from twinlog.logs.partition_reader import Block, Lost, PartitionReader
from twinlog.offsets.spans import Spans
from twinlog.protocol.brokers import Brokers

FETCH_BYTES = 8 << 20


class Side(StrEnum):
    """Name the cluster of a flow that holds the records."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Offsets [start, end) of one partition, without the records that flows wrote there: `flows`."""

    side: Side
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    flows: tuple[Spans, ...] = ()

    @property
    def place(self) -> str:
        """Name the partition."""
        return f"{self.topic}-{self.partition}"

    def foreign(self, block: Block) -> Any:
        """Return a mask of the batches that no flow wrote: a batch has one writer."""
        ours = np.zeros(len(block), bool)
        for written in self.flows:
            ours |= written.touch(block.bases, block.nexts)
        return ~ours


Read = Callable[[Stretch, int], Iterator[RawRecord | Lost]]
"""Reads the records of a stretch from an offset on, and names what can no longer be read."""


@contextmanager
def opened_logs(flow: FlowSettings) -> Iterator[Read]:
    """Open the logs of both clusters.

    Reading raises TerminalError `recreated` if a topic is another one than was compared.
    """
    committed = flow.copy.read_committed
    with Brokers(flow.source.connection) as source, Brokers(flow.target.connection) as target:
        readers = {
            Side.SOURCE: PartitionReader(
                source, Unproved.SOURCE_RETENTION, fetch_bytes=FETCH_BYTES, read_committed=committed
            ),
            Side.TARGET: PartitionReader(target, Unproved.TARGET_RETENTION, fetch_bytes=FETCH_BYTES),
        }
        yield lambda stretch, start: _records(readers[stretch.side], stretch, start)


def _records(reader: PartitionReader, stretch: Stretch, start: int) -> Iterator[RawRecord | Lost]:
    for item in reader.read(stretch.topic, stretch.partition, start, stretch.end):
        if isinstance(item, Lost):
            if item.reason is Unproved.RECREATED:
                raise TerminalError(
                    f"{stretch.place} was deleted, created anew or cut while it was read",
                    "run it again",
                    code="recreated",
                    topic=stretch.topic,
                )
            yield item
            continue
        for batch in item.where(stretch.foreign(item)).batches():
            yield from (record for record in records_of(*batch) if start <= record.offset < stretch.end)
