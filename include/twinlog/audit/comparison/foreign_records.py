"""Leave out records of a shared topic that the audited flow did not write, batch by batch, and count them.  Pure.

A batch has one writer, so either all of it is the flow's or none of it.  The flow's own batches on the target are
those that the map knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from twinlog.audit.comparison.compaction import LastOffsets
from twinlog.audit.comparison.record_fields import records_of
from twinlog.audit.comparison.values import Scope
from twinlog.logs.partition_reader import Block, Item, Lost
from twinlog.offsets.spans import Spans


class WithoutForeignRecords:
    """One side without the batches that `are_foreign` marks; `records` counts the records left out.

    `last` are their keys, of a compacted topic.
    """

    def __init__(
        self, items: Iterable[Item], are_foreign: Callable[[Block], Any], *, compacted: bool
    ) -> None:
        self._items = items
        self._are_foreign = are_foreign
        self._compacted = compacted
        self.records = 0
        self.last = LastOffsets()

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            if isinstance(item, Lost):
                yield item
                continue
            strange = self._are_foreign(item)
            if strange.any():
                self._leave_out(item.where(strange))
            if not strange.all():
                yield item.where(~strange)

    def _leave_out(self, block: Block) -> None:
        self.records += int(block.heads["record_count"].sum())
        for batch in block.batches() if self._compacted else ():
            for record in records_of(*batch):
                self.last.note(record)


def on_source(scope: Scope, items: Iterable[Item]) -> WithoutForeignRecords:
    """Leave out loopback records: the reverse flow wrote them, so they came from the target."""

    def loopback(block: Block) -> Any:
        return scope.loopback.hold(block.bases, block.nexts)

    return WithoutForeignRecords(items, loopback, compacted=scope.compacted)


def on_target(scope: Scope, items: Iterable[Item]) -> WithoutForeignRecords:
    """Leave out what other flows wrote, and all that the map does not know if the target's producers write there."""
    if scope.beyond:
        items = _compared(scope, items)
    known = Spans.downstream_of([scope.offset_map])

    def others(block: Block) -> Any:
        bases, nexts = block.bases, block.nexts
        ours = known.touch(bases, nexts)
        return ~ours if scope.shared else ~ours & scope.others.touch(bases, nexts)

    return WithoutForeignRecords(items, others, compacted=scope.compacted)


def _compared(scope: Scope, items: Iterable[Item]) -> Iterator[Item]:
    """Leave out the flow's own batches that cannot be compared with anything; they count as foreign records."""
    for item in items:
        if isinstance(item, Lost):
            yield item
            continue
        kept = ~scope.beyond.hold(item.bases, item.nexts)
        if kept.any():
            yield item.where(kept)
