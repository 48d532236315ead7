"""Apply the flow's transforms to the source's side, as the copy did, before both sides are compared.  Pure.

A batch that the transforms leave alone stays as it lies, so that it can be compared as bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twinlog.audit.comparison.compaction import MOST_AWAITED
from twinlog.audit.comparison.record_fields import key_of, records_of
from twinlog.audit.comparison.values import Scope
from twinlog.batches.header import BatchHeader
from twinlog.batches.transform.apply import Transform
from twinlog.logs.partition_reader import Block, Item, Lost


class Transformed:
    """The source's side as its transforms leave it.

    For a compacted topic `latest` holds the last offset of each key of a dropped record: it may have superseded a
    record whose copy the target still has.  `all_kept` is false if there were more keys than are remembered.
    """

    def __init__(self, items: Iterable[Item], scope: Scope) -> None:
        self._items = items
        self._transform = Transform(scope.chain, scope.source)
        self._start, self._end = scope.start, scope.end
        self._all = not scope.chain.reads_contents  # else records elsewhere were left out
        self._compacted = scope.compacted
        self.latest: dict[bytes, int] = {}
        self.all_kept = True

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            made = item if isinstance(item, Lost) else self._made(item)
            if isinstance(made, Lost) or len(made):
                yield made

    def _made(self, block: Block) -> Block:
        parts: list[memoryview] = []
        changed = False
        for header, data in block.batches():
            batches = self._transform.batch(header, data, self._start, self._end)
            if batches is None:
                parts.append(data)
                continue
            changed = True
            parts += batches
            if self._compacted:
                self._note_dropped(header, data, batches)
        return Block.of(memoryview(b"".join(parts))) if changed else block

    def _note_dropped(self, header: BatchHeader, data: memoryview, made: Iterable[memoryview]) -> None:
        kept = {it.offset for batch in made for it in records_of(BatchHeader.read(batch), batch)}
        for record in records_of(header, data):
            if record.offset not in kept and (self._all or self._start <= record.offset < self._end):
                key = key_of(record.rest) or b""
                self.all_kept &= len(self.latest) < MOST_AWAITED or key in self.latest
                if self.all_kept:
                    self.latest[key] = record.offset
