"""Hold the state of one range: its sent and committed positions, and what the open transaction added.

Invariants.

- `spec.start <= committed <= sent <= spec.end`:

      spec.start     committed              sent               spec.end
      |--- copied ---|-- open transaction --|-- not read yet --|

- `extents` hold, ascending, exactly the records that were sent in the open transaction and acknowledged (or predicted,
  while it commits): three numbers for each extent, as the map writes them, behind those of `piece`.  `upstream` and
  `downstream` are the ends of the last one.
- `piece` holds the extents committed since that map segment was begun; `draft` holds the segment with the open
  transaction's extents.
- `source_end` is the end of what the source has to copy, -1 before it has told.
- `copy_end` is the downstream offset behind the last committed record, by any lane; None if unknown.
- Between transactions `sent == committed`, and `extents` is empty.
- `epoch` is the source's leader epoch of the last batch sent, -1 unknown; `committed_epoch` is that of the last
  batch committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from twinlog.batches.build import Arena
from twinlog.batches.cutter import Cutter
from twinlog.batches.outgoing import Outgoing
from twinlog.batches.quarantine import Captured
from twinlog.batches.transform.apply import Transform
from twinlog.formats.map.offset_map import SegmentDraft
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.range_errors import RangeError
from twinlog.lane.spec import NO_END, RangeReport, RangeSpec

PIECE_RUNS = 128
"""The number of extents from which on a new map segment is begun.

Until then each commit writes the segment again under the same key, and compaction keeps the last.  Otherwise a lane
that commits thirty times a second would leave one key in the map for each commit.
"""

LARGEST_PIECE_RUNS = 16_384
"""The most extents of one segment: 48 KB of small ones, 450 KB of the largest possible, so that it fits a message.

A transaction's 64 MiB of tiny records, with every second one compacted away, are a million extents.
"""


@dataclass(slots=True)
class Counts:
    """The amount copied: records, bytes on the wire, and rewritten batches.

    `newest_ms` is the latest timestamp of its records, -1 if none has one.
    """

    records: int = 0
    bytes: int = 0
    rewritten: int = 0
    newest_ms: int = -1

    def add(self, outgoing: Outgoing) -> None:
        """Count a batch."""
        self.records += outgoing.header.record_count
        self.bytes += len(outgoing.buffer)
        self.rewritten += outgoing.rewritten
        self.newest_ms = max(self.newest_ms, outgoing.header.max_timestamp)

    def add_all(self, other: Counts) -> None:
        """Add other counts."""
        self.records += other.records
        self.bytes += other.bytes
        self.rewritten += other.rewritten
        self.newest_ms = max(self.newest_ms, other.newest_ms)


@dataclass(slots=True)
class RangeCopy:
    """The state of one range in a lane's copy."""

    spec: RangeSpec
    cutter: Cutter
    sent: int
    committed: int
    piece: SegmentDraft
    draft: SegmentDraft | None = None
    error: RangeError | None = None
    barrier: tuple[int, RangeError] | None = None
    extents: list[int] = field(default_factory=list)
    upstream: int = 0
    downstream: int = 0
    open_counts: Counts = field(default_factory=Counts)
    counts: Counts = field(default_factory=Counts)
    quarantined: list[int] = field(default_factory=list)
    copy_end: int | None = None
    epoch: int = -1
    committed_epoch: int = -1
    latency_ms: int | None = None
    notes_chain: bool = False
    source_end: int = -1

    @classmethod
    def begin(cls, spec: RangeSpec, *, quarantine: bool, arena: Arena, codec: int | None = None) -> RangeCopy:
        """Start at the range's first offset; the batches that it builds lie in the lane's `arena`."""
        cutter = Cutter(spec.end, spec.max_message_bytes, quarantine, arena=arena, codec=codec)
        if spec.chain:
            cutter.transform = Transform(spec.chain)
        epoch = spec.leader_epoch
        piece = SegmentDraft.begin(spec.start)
        return cls(
            spec,
            cutter,
            spec.start,
            spec.start,
            piece,
            copy_end=spec.copy_end,
            epoch=epoch,
            committed_epoch=epoch,
            notes_chain=spec.notes_chain,
            upstream=piece.upstream,
            downstream=piece.downstream,
        )

    @property
    def source(self) -> TopicPartition:
        """Return the partition copied from."""
        return self.spec.topic_partition

    @property
    def target(self) -> TopicPartition:
        """Return the partition copied to."""
        return self.spec.remote

    @property
    def name(self) -> str:
        """Return `topic-partition` on the source, for messages."""
        return f"{self.spec.topic}-{self.spec.partition}"

    @property
    def wanted(self) -> bool:
        """Say whether there is more to fetch."""
        return self.error is None and self.sent < self.spec.end

    @property
    def end(self) -> int:
        """Return the upstream offset up to which there is something to copy now; -1 before the source has told."""
        return self.source_end if self.spec.end == NO_END else self.spec.end

    @property
    def sent_end(self) -> int | None:
        """Return the end of the copy (downstream) with the records of the open transaction."""
        return self.downstream if self.extents else self.copy_end

    def stop_at(self, offset: int, why: RangeError) -> None:
        """End the range right before upstream `offset`, which the target refuses; earlier records are still copied."""
        self.barrier = offset, why
        self.cutter.end = offset
        self.reach(self.sent)

    def reach(self, position: int) -> None:
        """Note that everything below upstream offset `position` was sent."""
        self.sent = position
        if self.barrier is not None and position >= self.barrier[0] and self.error is None:
            self.error = self.barrier[1]

    def written(self, outgoing: Outgoing, downstream: int) -> None:
        """Note that a batch is in the target's log, with its first record at offset `downstream`."""
        stretches = outgoing.stretches
        skipped, jumped = stretches.first - self.upstream, downstream - self.downstream
        if self.extents and not skipped and not jumped:
            self.extents[-1] += stretches.numbers[2]
            self.extents += stretches.numbers[3:]
        else:
            self.extents += (skipped, jumped, *stretches.numbers[2:])
        self.upstream, self.downstream = stretches.end, downstream + outgoing.header.record_count
        self.open_counts.add(outgoing)

    def map_pieces(self) -> list[tuple[int, bytes]]:
        """Return first upstream offset and value of each map segment that the open transaction writes, without gaps.

        The last one is `draft`, which may still grow; those before it are final.
        """
        drafts, step = [self.piece], 3 * LARGEST_PIECE_RUNS
        for first in range(0, len(self.extents), step):
            numbers = self.extents[first : first + step]
            if first:
                numbers[1] += drafts[-1].downstream
                drafts.append(SegmentDraft.begin(drafts[-1].upstream))
            drafts[-1] = drafts[-1].extended(numbers)
        self.draft = drafts[-1]
        ends = [*(following.first_upstream for following in drafts[1:]), self.sent]
        return [(it.first_upstream, it.value(end)) for it, end in zip(drafts, ends, strict=True)]

    def newly_quarantined(self) -> list[tuple[int, str]]:
        """Return the upstream offsets left out in the open transaction, and why.

        An offset that the source compacted away before it was read again is not included: there was nothing to leave
        out.
        """
        captured = self.cutter.captured
        return [
            item
            for item in sorted(self.cutter.excluded.items())
            if item[0] < self.sent and item[0] in captured
        ]

    @property
    def captured_bytes(self) -> int:
        """Return the bytes of the records left out in the open transaction: they stay in memory until it commits."""
        return sum(len(rest) for _, rest in self.cutter.captured.values())

    def captured(self) -> Iterator[Captured]:
        """Yield the records left out in the open transaction."""
        for offset, reason in self.newly_quarantined():
            timestamp_ms, rest = self.cutter.captured[offset]
            spec = self.spec
            yield Captured(spec.topic, spec.topic_id, spec.partition, offset, timestamp_ms, rest, reason)

    def confirm(self, at_ms: int) -> None:
        """Note that the transaction was committed, at `at_ms` (epoch ms): what was sent is copied."""
        for offset, _ in self.newly_quarantined():
            del self.cutter.excluded[offset], self.cutter.captured[offset]
            self.quarantined.append(offset)
        self.copy_end = self.sent_end
        self.committed = self.sent
        self.committed_epoch = self.epoch
        self.notes_chain = False
        assert self.draft is not None, "committed without its map"
        self.piece = SegmentDraft.begin(self.committed) if self.draft.count >= PIECE_RUNS else self.draft
        self.counts.add_all(self.open_counts)
        if self.open_counts.newest_ms >= 0:
            self.latency_ms = at_ms - self.open_counts.newest_ms
        self._begin()

    def take_back(self) -> None:
        """Go back to the committed position, after the transaction was aborted.

        An error met in the part taken back will be met again, and is forgotten until then, so that the abort does not
        hold up records before it.
        """
        if self.sent > self.committed:
            self.error = None
        self.epoch = self.committed_epoch
        self._begin()
        self.reach(self.committed)

    def report(self) -> RangeReport:
        """Return the result of the range, as committed."""
        error = self.error or RangeError("", "")
        copied = self.counts.records + len(self.quarantined)
        return RangeReport(
            topic=self.spec.topic,
            remote_topic=self.spec.remote_topic,
            partition=self.spec.partition,
            records=self.counts.records,
            bytes=self.counts.bytes,
            next_upstream=self.committed,
            skipped=self.committed - self.spec.start - copied,
            rewritten_batches=self.counts.rewritten,
            quarantined=tuple(self.quarantined),
            error_code=error.code,
            error=error.message,
            latency_ms=self.latency_ms,
        )

    def _begin(self) -> None:
        self.draft = None
        self.extents, self.upstream, self.downstream = [], self.piece.upstream, self.piece.downstream
        self.open_counts = Counts()
