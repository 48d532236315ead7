"""Ledger records about who writes for a flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twinlog.formats.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class LaneWriter(LedgerEntry):
    """Batches of `producer_id` on the target were written by the flow's lane `transactional_id`, since `since_ms`.

    Never forgotten: a cluster gives a producer id once, and compaction keeps it in the header of a batch.
    """

    KIND: ClassVar[str] = "lane-writer"
    IDENTITY: ClassVar[tuple[str, ...]] = ("producer_id",)
    producer_id: int
    transactional_id: str
    since_ms: int
