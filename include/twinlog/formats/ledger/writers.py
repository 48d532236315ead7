"""Define the ledger records about the writers of a flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twinlog.formats.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class LaneWriter(LedgerEntry):
    """The flow's lane `transactional_id` wrote the batches of `producer_id` on the target, since `since_ms`.

    Never forgotten: a cluster gives out a producer id only once, and compaction keeps it in the header of a batch.
    """

    KIND: ClassVar[str] = "lane-writer"
    IDENTITY: ClassVar[tuple[str, ...]] = ("producer_id",)
    producer_id: int
    transactional_id: str
    since_ms: int
