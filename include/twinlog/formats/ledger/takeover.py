"""Define the ledger records about a copy's content from before the flow was migrated from MirrorMaker 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twinlog.formats.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class TakenOver(LedgerEntry):
    """The part of a copy that is MirrorMaker 2's, in downstream offsets, if the copy keeps its topic's name.

    Records at [`compared`, `end`) were compared, and each is the source's.  Records at [`first`, `compared`) were not:
    they may be MirrorMaker 2's copies or the target's own.  `remote_topic_id` is the incarnation of the copy.
    """

    KIND: ClassVar[str] = "taken-over"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "remote_topic_id", "partition", "first")
    topic: str
    remote_topic_id: str
    partition: int
    first: int
    compared: int
    end: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class MapHole(LedgerEntry):
    """Upstream offsets [`start`, `end`) that the offset map leaves out on purpose: MirrorMaker 2 copied there."""

    KIND: ClassVar[str] = "map-hole"
    IDENTITY: ClassVar[tuple[str, ...]] = ("topic", "topic_id", "partition", "start")
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    at_ms: int
