"""Cut fetched blocks into batches to send, by the table in `twinlog.batches.outgoing`.

What is plain at the beginning of a block is taken in the fewest steps (`twinlog.batches.plain`): most blocks hold
nothing else. Batches that have to be read are read in runs: as many at once as follow one another and share a codec.
That makes rewriting cheap enough to prefer it to sending small batches one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinlog.batches.build import LARGEST_PREFIX, Arena, build_batches, pieces
from twinlog.batches.codec import NONE, compress, decompress
from twinlog.batches.columns import Columns, Int64s, headers, read_columns
from twinlog.batches.header import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    BatchHeader,
    epoch_at,
    require_crc,
    require_possible,
    starts,
    walk_headers,
    write_crc,
)
from twinlog.batches.loopback import LoopbackRecords
from twinlog.batches.markers import AbortedTransactions
from twinlog.batches.merge import (
    BATCH_COST,
    Run,
    SmallBatches,
    many_small,
    merge_cost,
    merge_small,
    single_record_batch,
    uncompressed,
)
from twinlog.batches.outgoing import Cut, Outgoing, Poison, Stretches
from twinlog.batches.plain.call import Limits
from twinlog.batches.plain.library import LIBRARY
from twinlog.batches.plain.take import as_it_is, is_hiding, take_plain
from twinlog.batches.transform.apply import Transform
from twinlog.errors import FormatError


def recompressed(found: Outgoing, codec: int) -> Outgoing:
    """Return the batch in this codec, or as it is if it has that codec already, or would not become smaller.

    For a line between lanes and target that is thinner than their CPU is dear.  By default batches keep the codec that
    their producers chose and are never unpacked (decision 3).  With another codec each batch is unpacked and packed
    once, records are not read, and the offsets, times and order of all stay.

    Raises FormatError for a batch that cannot be unpacked, or does not fit its checksum: a new one would hide that.
    """
    header = found.header
    if header.codec == codec:
        return found
    require_crc(header, found.buffer)
    body = compress(codec, bytes(decompress(header.codec, found.buffer[HEADER_BYTES:])))
    size = HEADER_BYTES + len(body)
    if size >= header.size:
        return found
    batch = memoryview(bytearray(size))
    batch[HEADER_BYTES:] = body
    attributes = header.attributes & ~CODEC_MASK | codec
    HEADER.pack_into(batch, 0, *header._replace(batch_length=size - LOG_OVERHEAD, attributes=attributes))
    write_crc(batch)
    return Outgoing.built(batch, found.stretches, rewritten=True)


REWRITTEN_BYTES = 512 * 1024
"""The most bytes of records gathered for one rewritten batch, uncompressed; it keeps the memory of a merge small."""


@dataclass(slots=True)
class Cutter:
    """Cut the blocks of one partition, up to its range's end and within the target's limit.

    `excluded` maps upstream offsets that are left out to the reason; with `quarantine` the cutter adds to them.
    `captured` maps the upstream offsets of records that the cutter left out to their timestamps (ms) and ends.
    `loopback` tells loopback records, which came from the target and are not sent back.  `transform` is what is made of
    each record before it is sent.  `codec` is what all batches are compressed with, None: what each has.  `most_bytes`
    limits a batch of several records; the limit is less than `max_message_bytes` once the target has refused a batch
    within that limit, because the target compresses differently.  With `overwrites` small batches are merged within the
    block itself: nobody may read it once it has been cut.
    """

    end: int
    max_message_bytes: int
    quarantine: bool = False
    excluded: dict[int, str] = field(default_factory=dict)
    captured: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    arena: Arena = field(default_factory=Arena)
    loopback: LoopbackRecords | None = None
    transform: Transform | None = None
    codec: int | None = None
    overwrites: bool = False
    most_bytes: int = field(init=False)
    _asks: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        self.most_bytes = self.max_message_bytes

    @property
    def _sends_all(self) -> bool:
        """Say whether every record is sent as it is."""
        return not self.excluded and self.loopback is None and self.transform is None

    @property
    def rewritten_bytes(self) -> int:
        """Return the most bytes of records in one rewritten batch, uncompressed."""
        return max(min(REWRITTEN_BYTES, self.most_bytes - HEADER_BYTES), 1)

    def split_smaller_than(self, size: int) -> None:
        """Keep later batches of several records well below `size`, the size of a batch that the target has refused."""
        self.most_bytes = min(self.most_bytes, size // 2)

    def cut(self, block: memoryview, position: int, aborted: AbortedTransactions | None) -> Cut:
        """Turn one fetched block into outgoing batches, from upstream offset `position` on.

        `aborted` None means read_uncommitted: aborted records are copied like any other, but markers never are.
        """
        done = Cut([], position)
        limits = Limits(self.end, self.rewritten_bytes, self.most_bytes, self.max_message_bytes, BATCH_COST)
        keep = not self.overwrites or self.codec is not None
        at: int | None = 0
        rest, next_offset = block, 0
        while at is not None:
            rest = rest[at:]
            if self._sends_all:
                at, next_offset = take_plain(rest, limits, aborted, done, self.arena, next_offset, keep=keep)
                rest = rest[at:]
            reached, epoch, began = done.next_upstream, done.leader_epoch, next_offset
            at, next_offset = self._cut(rest, next_offset, aborted, done)
        if self.codec is not None:
            _recompress(done, self.codec)
            rest, reached, began, epoch = block, position, 0, -1
        if done.poison is not None:  # in a run; batches behind the poison were read too
            done.leader_epoch = epoch_at(rest, reached, done.next_upstream, began, epoch)
        return done

    def _cut(
        self, block: memoryview, next_offset: int, aborted: AbortedTransactions | None, done: Cut
    ) -> tuple[int | None, int]:
        """Cut what needs more than `take_plain` can do, up to the end of an aborted transaction.

        Returns where the rest begins, None if nothing is left to do, and the least upstream offset of its first batch.
        """
        position, run = done.next_upstream, Run()
        rest: int | None = None
        failure: FormatError | None = None
        try:
            for step in self._steps(block, position, aborted):
                if isinstance(step, SmallBatches):
                    next_offset = following = step.next_offset
                    done.leader_epoch = int(step.heads["leader_epoch"][-1])
                    whole = self._join_small(step, run, block, done)
                else:
                    header, start = step
                    if header.base_offset >= self.end:
                        if position < self.end:  # this batch shows that nothing lies between
                            position, done.leader_epoch = self.end, header.leader_epoch
                        break
                    require_possible(header, next_offset)
                    next_offset = header.next_offset
                    done.leader_epoch = header.leader_epoch
                    hiding = aborted is not None and bool(aborted.active)
                    hidden = self._hidden(header, block, start, aborted) or self._came_back(header)
                    following = max(min(header.next_offset, self.end), position)
                    # No broker sends a batch that ends before the requested offset, but a damaged batch may claim so.
                    skipped = hidden or not header.record_count or header.last_offset < position
                    if skipped:
                        require_crc(header, block[start : start + header.size])
                    whole = skipped or self._join(header, start, position, run, block, done)
                    if hiding and aborted is not None and not aborted.active and self._sends_all:
                        rest = start + header.size
                if not whole:
                    return None, next_offset
                position = following
                if rest is not None:
                    break
        except FormatError as error:
            failure = error
        if self._flush(run, block, done):
            done.next_upstream = position
            if failure is not None:
                done.poison = Poison(position, failure.message, failure.code)
        return (None if done.poison is not None else rest), next_offset

    def _join_small(self, small: SmallBatches, run: Run, block: memoryview, done: Cut) -> bool:
        """Add small batches to the run; return False if an earlier run met poison."""
        if not run.takes(NONE) and not self._flush(run, block, done):
            return False
        run.extend(small)
        return True

    def _join(
        self, header: BatchHeader, start: int, position: int, run: Run, block: memoryview, done: Cut
    ) -> bool:
        """Pass a batch on or add it to the run; return False if an earlier run met poison."""
        if not run.takes(header.codec) and not self._flush(run, block, done):
            return False
        clean = self._clean(header, position)
        small = merge_cost(header.codec, header.record_count, header.size) < BATCH_COST
        if clean and self.transform is not None:
            clean = not small and self._left_alone(block, start)
        if not clean or small:
            run.add(header, start, position, clean=clean)
        elif not self._flush(run, block, done):
            return False
        else:
            done.outgoing.append(as_it_is(block, start, header))
        return True

    def _steps(
        self, block: memoryview, position: int, aborted: AbortedTransactions | None
    ) -> Iterator[SmallBatches | tuple[BatchHeader, int]]:
        """Walk the block: yield small batches worth merging many at once, and the others one by one."""
        # What an aborted transaction leaves is soon taken by the kernel again: nothing is gone through until then.
        soon = LIBRARY is not None and self._sends_all and is_hiding(aborted)
        begins, at = starts(block) if not soon and many_small(block) else ([], 0)
        if begins:
            heads = headers(block, begins)
            small = self._small(heads, position, hiding=is_hiding(aborted))
            edges = (np.flatnonzero(np.diff(small)) + 1).tolist()
            for first, stop in itertools.pairwise([0, *edges, len(begins)]):
                if small[first]:
                    yield SmallBatches(begins[first:stop], heads[first:stop])
                    continue
                for start in begins[first:stop]:
                    yield BatchHeader.read(block, start), start
        for header, start in walk_headers(block[at:]):
            yield header, at + start

    def _small(self, heads: Any, position: int, *, hiding: bool) -> Any:
        """Return a mask of the batches that are clean, uncompressed and worth merging."""
        bases, sizes = heads["base_offset"].astype(np.int64), heads["batch_length"] + LOG_OVERHEAD
        ends = bases + heads["last_offset_delta"] + 1
        if not self._sends_all or (bases[1:] < ends[:-1]).any():
            return np.zeros(len(heads), bool)
        harmless = 0 if hiding else TRANSACTIONAL
        return (
            (heads["attributes"] & ~harmless == NONE)
            & (heads["record_count"] == heads["last_offset_delta"] + 1)
            & (bases >= position)
            & (ends <= self.end)
            & (sizes <= self.most_bytes)
            & (merge_cost(NONE, heads["record_count"], sizes) < BATCH_COST)
        )

    def _hidden(
        self, header: BatchHeader, block: memoryview, start: int, aborted: AbortedTransactions | None
    ) -> bool:
        if aborted is None or not header.attributes & (TRANSACTIONAL | CONTROL):
            return header.control
        return aborted.hides(header, block[start : start + header.size])

    def _came_back(self, header: BatchHeader) -> bool:
        return self.loopback is not None and self.loopback.whole(header)

    def _clean(self, header: BatchHeader, position: int) -> bool:
        return (
            not header.attributes & (LOG_APPEND_TIME | DELETE_HORIZON)
            and header.dense
            and header.base_offset >= position
            and header.next_offset <= self.end
            and header.size <= (self.most_bytes if header.record_count > 1 else self.max_message_bytes)
            and not (self.loopback is not None and self.loopback.some(header))
            and not (
                self.excluded
                and any(header.base_offset <= offset <= header.last_offset for offset in self.excluded)
            )
        )

    def _left_alone(self, block: memoryview, start: int) -> bool:
        """Say whether the transforms change nothing in a batch, which then need not be built anew.

        It is not asked behind a batch in which they changed something, until one that was built shows none.
        """
        if self.transform is None or not self._asks:
            return False
        with suppress(FormatError):  # who builds it anew says what is wrong with it
            self._transformed(read_columns(block, [start]), self.transform)
            return self._asks
        return False

    def _transformed(self, records: Columns, transform: Transform) -> Columns:
        made = transform.columns(records)
        self._asks = made is records
        return made

    def _flush(self, run: Run, block: memoryview, done: Cut) -> bool:
        """Send the batches of the run, and empty it; return False on poison, which ends the cut."""
        begins, run.begins = run.begins, []
        positions, run.positions = run.positions, []
        single, run.single, run.bytes = run.single, None, 0
        if single is not None and len(begins) == 1:
            done.outgoing.append(as_it_is(block, begins[0], single))
            return True
        if not begins:
            return True
        if self._sends_all:
            merged = merge_small(block, begins, positions[0], self.end, self.rewritten_bytes)
            if merged is not None and len(merged.buffer) <= self.max_message_bytes:
                done.outgoing.append(merged)
                return True
        while begins:
            try:
                records = self._chosen(read_columns(block, begins), positions[0])
                if self.transform is not None:
                    records = self._transformed(records, self.transform)
            except FormatError as error:
                return self._up_to_the_bad_one(run, begins, positions, block, done, error)
            poison = self._rewrite(records, run.codec, done, block, begins)
            if poison is not None:
                done.next_upstream, done.poison = poison.offset, poison
                return False
            begins, positions = begins[records.batches :], positions[records.batches :]
            del records  # frees its memory for the next ones
        return True

    def _up_to_the_bad_one(
        self,
        run: Run,
        begins: list[int],
        positions: list[int],
        block: memoryview,
        done: Cut,
        error: FormatError,
    ) -> bool:
        """Send the batches before the faulty one of a run that cannot be read, each whole or not at all."""
        if len(begins) == 1:
            done.next_upstream, done.poison = positions[0], Poison(positions[0], error.message, error.code)
            return False
        for index in range(len(begins)):
            run.begins, run.positions = begins[index : index + 1], positions[index : index + 1]
            if not self._flush(run, block, done):
                return False
        return True

    def _chosen(self, records: Columns, position: int) -> Columns:
        """Return the records of the range from `position` on, without loopback records."""
        chosen = (records.offsets >= position) & (records.offsets < self.end)
        if self.loopback is not None:
            chosen &= ~self.loopback.among(records.offsets)
        return records if chosen.all() else records.where(chosen)

    def _rewrite(
        self, records: Columns, codec: int, done: Cut, block: memoryview, begins: list[int]
    ) -> Poison | None:
        """Rewrite records, read from the batches at `begins`; stop before one that is too large."""
        if self.excluded:
            left_out = np.isin(records.offsets, list(self.excluded))
            self._capture(records, np.flatnonzero(left_out))
            records = records if not left_out.any() else records.where(~left_out)
        large = records.sizes > self.max_message_bytes - HEADER_BYTES - LARGEST_PREFIX
        after = 0
        for index in np.flatnonzero(large).tolist():
            self._build(records.where(slice(after, index)), codec, done)
            after = index + 1
            single = records.where(slice(index, after))
            came_in = begins if self.transform is None else ()
            batch = single_record_batch(single, codec, self.max_message_bytes, block, came_in)
            offset = int(records.offsets[index])
            if len(batch) <= self.max_message_bytes:
                done.outgoing.append(Outgoing.built(batch, Stretches(offset, [0, 0, 1]), rewritten=True))
                continue
            reason = (
                f"a batch of this record alone has {len(batch)} bytes,"
                f" more than the target's max.message.bytes={self.max_message_bytes}"
            )
            if not self.quarantine:
                return Poison(offset, reason)
            self.excluded[offset] = reason
            self._capture(records, [index])
        self._build(records.where(slice(after, None)) if after else records, codec, done)
        return None

    def _build(self, records: Columns, codec: int, done: Cut) -> None:
        for group, firsts in pieces(records, self.rewritten_bytes):
            done.outgoing += self._fitting(group, firsts, codec)

    def _capture(self, records: Columns, indices: Iterable[int]) -> None:
        for index in indices:
            rest = bytes(records.data[records.starts[index] : records.ends[index]])
            self.captured[int(records.offsets[index])] = int(records.timestamps[index]), rest

    def _fitting(self, records: Columns, firsts: Int64s, codec: int) -> Iterator[Outgoing]:
        """Build a batch of each piece; if compression did not make a batch small enough, halve its piece.

        A single record always fits uncompressed here: `large` records do not come this way.
        """
        built = build_batches(records, firsts, codec, self.arena)
        edges = itertools.pairwise([*firsts.tolist(), len(records)])
        for (first, end), batch, stretches in zip(edges, built, records.stretches(firsts), strict=True):
            if len(batch) <= self.max_message_bytes:
                yield Outgoing.built(batch, stretches, rewritten=True)
            elif end - first > 1:
                halves = np.array([0, (end - first) // 2])
                yield from self._fitting(records.where(slice(first, end)), halves, codec)
            else:
                yield Outgoing.built(
                    uncompressed(records.where(slice(first, end))), stretches, rewritten=True
                )


def _recompress(done: Cut, codec: int) -> None:
    """Compress the batches to send with this codec; the first that cannot be unpacked is poison."""
    for number, batch in enumerate(done.outgoing):
        try:
            done.outgoing[number] = recompressed(batch, codec)
        except FormatError as error:
            first = batch.stretches.first
            del done.outgoing[number:]
            done.next_upstream = first
            done.poison = Poison(first, error.message, error.code)
            return
