"""Copy a lane's ranges: the work of one Spark task.

    receive a fetch answer -> cut it into batches -> ask for the next -> relabel and send -> ... -> commit

A transaction holds the data, the progress and the offset map of every partition that it advanced: they commit together
or not at all.  An error of one partition (poison, a lost range, a deleted topic) ends that partition and not the
others.  An error of the lane (fenced, a lost answer) ends the lane, and the driver fences again.

Invariant M: the memory of an answer, and of the batches made from it, is reused by the answer after the next.  By then
the answer in between has been taken, and taking it waits until the first answer's batches are sent
(docs/decisions/0018).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator

from twinlog.batches.build import Arena
from twinlog.batches.header import OLD_MAGIC
from twinlog.batches.loopback import LaneWriters, LoopbackRecords
from twinlog.batches.markers import AbortedTransactions
from twinlog.errors import FencedError, TerminalError, TwinlogError
from twinlog.formats.lane_counts import UNKNOWN
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy import loops, range_errors
from twinlog.lane.copy.copy_transaction import CopyTransaction, Queues
from twinlog.lane.copy.fence_watch import FenceWatch
from twinlog.lane.copy.fetch_order import FetchOrder
from twinlog.lane.copy.pace import Pace
from twinlog.lane.copy.range_errors import SOURCE_LOST, RangeError, SourceError
from twinlog.lane.copy.range_state import RangeCopy
from twinlog.lane.producer import Lane
from twinlog.lane.spec import LaneOutcome, LaneReport, LaneSpec
from twinlog.lane.transaction import Writer
from twinlog.logs.reverse_ledgers import ReverseLedgers
from twinlog.protocol.brokers import EARLIEST, Brokers
from twinlog.protocol.errors import OTHER_INCARNATION, Code, Request, repeats
from twinlog.protocol.fetch_backoff import FetchBackoff
from twinlog.protocol.fetcher import MAX_WAIT_MS, Fetcher
from twinlog.protocol.leader_epochs import ReadUpTo, diverged_at, epoch_ends
from twinlog.protocol.legacy import as_batches
from twinlog.protocol.wire import Fetched

log = logging.getLogger(__name__)

LINE_SECONDS = 10.0
"""How often a lane writes its counters to the log while it copies."""

_SOURCE_LOST = frozenset({SOURCE_LOST, "stalled"})


def other_history(source: Brokers, copy: RangeCopy) -> RangeError | None:
    """Check, under a new leader, whether the source's log still holds what was copied (KIP-320).

    A log that an unclean election truncated, and that has grown again, answers fetches as if nothing had happened.
    """
    try:
        ends = epoch_ends(source, {copy.source: ReadUpTo(copy.epoch, copy.sent)})
    except TwinlogError as error:
        return range_errors.stopped_at(copy.name, copy.sent, error.message)
    if copy.source not in ends:
        return range_errors.stopped_at(
            copy.name, copy.sent, "its leader is moving, or does not answer OffsetForLeaderEpoch"
        )
    at = diverged_at(copy.epoch, ends[copy.source], copy.sent)
    return range_errors.diverged(copy.name, at) if at is not None else None


def recreated_ranges(source: Brokers, progressed: Iterable[RangeCopy]) -> list[RangeCopy]:
    """Return the ranges whose topic has another id by now: their fetched records may belong to the recreated topic.

    Ids never come back: if the id is the same now, it was the same at every earlier fetch.  If the source is lost, no
    range is returned, and the records that it gave are kept.
    """
    known = [
        copy
        for copy in progressed
        if copy.spec.topic_id and (copy.error is None or copy.error.code not in _SOURCE_LOST)
    ]
    try:
        found = source.metadata({copy.spec.topic for copy in known})
    except TwinlogError:
        return []
    ids = {name: topic.topic_id for name, topic in found.items() if topic.topic_id}
    return [copy for copy in known if ids.get(copy.spec.topic, copy.spec.topic_id) != copy.spec.topic_id]


def other_incarnation(source: Brokers, copy: RangeCopy) -> RangeError | None:
    """Check whether a topic whose id a leader does not know is gone or recreated; None if the leader only lags."""
    try:
        found = source.metadata([copy.spec.topic])[copy.spec.topic]
    except TwinlogError as error:
        return range_errors.stopped_at(copy.name, copy.sent, error.message)
    if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return range_errors.topic_deleted(copy.name)
    return range_errors.recreated(copy.name) if found.topic_id != copy.spec.topic_id else None


def out_of_range(source: Brokers, copy: RangeCopy) -> RangeError:
    """Ask where the log begins; the broker's answer to the fetch does not say."""
    try:
        begin = source.offsets([copy.source], EARLIEST)[copy.source]
    except TwinlogError as error:
        return range_errors.stopped_at(copy.name, copy.sent, error.message)
    return range_errors.out_of_range(copy.name, copy.sent, begin)


def copy_lane(spec: LaneSpec) -> LaneReport:
    """Copy the ranges of one lane (task, once per lane).

    Never raises for errors of clusters: the report names them.
    """
    with Brokers(spec.source) as source, Brokers(spec.target) as target:
        return LaneCopy(spec, source, target).run()


class LaneCopy:
    """The copy of one lane, from its spec to its report."""

    def __init__(self, spec: LaneSpec, source: Brokers, target: Brokers) -> None:
        self._spec = spec
        self._lane = Lane(
            target,
            Writer(spec.transactional_id, spec.producer_id, spec.producer_epoch),
            sequences={
                TopicPartition(topic, partition): number for topic, partition, number in spec.sequences
            },
        )
        self._pace = Pace(_fetch_size(spec, spec.fetch_bytes))
        sizes = {
            "max_bytes": self._pace.most,
            "partition_max_bytes": _fetch_size(spec, spec.partition_fetch_bytes),
        }
        # In a cycle brokers take partitions in turn by themselves, and nothing is live.
        ordered = spec.follow is not None or len({item.rpo_seconds for item in spec.ranges}) > 1
        self._order = FetchOrder(**sizes) if ordered else None
        self._fetcher = Fetcher(
            source,
            **sizes,
            read_committed=spec.read_committed,
            max_wait_ms=MAX_WAIT_MS if spec.follow is None else round(loops.IDLE_WAIT_SECONDS * 1000),
            topic_ids={item.topic: item.topic_id for item in spec.ranges},
            backoff=FetchBackoff(),
            buffers=2,  # batches of the last answer may still be on their way to the target
            choice=self._order.choose if self._order is not None else None,
        )
        self._source = source
        self._next_line = time.monotonic() + LINE_SECONDS
        self._arena = Arena()
        # The first request is for all of them, and its answer may have room for the first few.
        ranges = [
            RangeCopy.begin(item, quarantine=spec.quarantine_poison, arena=self._arena, codec=spec.codec)
            for item in sorted(spec.ranges, key=lambda it: it.rpo_seconds)
        ]
        if spec.reverse_ledger:
            # Over connections of its own: answers to the fetcher are in flight on the lane's.
            ledgers = ReverseLedgers(spec.source, spec.target.alias, spec.state.target_cluster_id)
            writers = LaneWriters(ledgers.latest)
            for item in ranges:
                if item.spec.both_ways or item.spec.remote_topic == item.spec.topic:
                    item.cutter.loopback = LoopbackRecords.of(writers, item.spec.loopback)
        for item in ranges:
            item.cutter.overwrites = True  # an answer is read before it is cut, and never again
        self._by_source = {item.source: item for item in ranges}
        by_target = {item.target: item for item in ranges}
        self.transaction = CopyTransaction(
            spec, self._lane, by_target, self._recreated_ranges, self._standing
        )
        self._ends = sum(item.end for item in ranges)
        self._untold = sum(item.end < 0 for item in ranges)

    def run(self) -> LaneReport:
        """Copy until every range is finished or has an error; report what was committed."""
        started = time.process_time()
        error = ""
        spec = self._spec
        log.info("%s lane %d begins with %d partitions", spec.flow, spec.lane, len(spec.ranges))
        try:
            self._check_copies(self._lane.begin([copy.target for copy in self._by_source.values()]))
            rate, follow = self._spec.bytes_per_second, self._spec.follow
            throttle = loops.Throttle(rate, time.monotonic()) if rate else None
            if follow is None:
                loops.drain(self, throttle)
            else:
                with FenceWatch(self._spec.target, self._spec.state.ledger_topic, follow.fence) as watch:
                    loops.follow(self, follow, throttle, watch.heard)
            self._lane.await_markers()
            state = LaneOutcome.FAILED if self.has_errors else LaneOutcome.DONE
        except FencedError as fenced:
            state, error = LaneOutcome.FENCED, str(fenced)
        except TerminalError as refused:
            state, error = LaneOutcome.REFUSED, str(refused)
        except TwinlogError as doubt:
            state, error = LaneOutcome.FENCE_AGAIN, str(doubt)
        log.info("%s lane %d ended as %s: %s %s", spec.flow, spec.lane, state.value, self.counters(), error)
        return LaneReport(
            lane=spec.lane,
            state=state,
            ranges=tuple(copy.report() for copy in self._by_source.values()),
            transactions=self.transaction.count,
            cpu_seconds=time.process_time() - started,
            error=error,
            retries=self.transaction.retries,
            throttled_ms=self._standing()[0],
        )

    def counters(self) -> str:
        """Say how far the lane is, for a log."""
        counts = self.transaction.counts((), 0)
        return (
            f"records={counts.records} bytes={counts.bytes} commits={counts.commits}"
            f" retries={counts.retries} throttled_ms={counts.throttled_ms}"
            f" offsets_behind={'unknown' if counts.behind == UNKNOWN else counts.behind}"
        )

    def _standing(self) -> tuple[int, int | None]:
        """Return for how long quotas have held the lane up (ms), and the sum of its ranges' ends, None if unknown."""
        return self.throttled_ms + self._lane.throttled_ms, None if self._untold else self._ends

    # --- the operations of a copy loop -----------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, int]:
        """Return the upstream offsets to fetch next, for the partitions that are still wanted and not set aside."""
        wanted = [copy for copy in self._by_source.values() if copy.wanted]
        return {copy.source: copy.sent for copy in self.transaction.choose(wanted)}

    @property
    def throttled_ms(self) -> int:
        """Return for how long brokers of the source gave nothing because of a quota, by their answers."""
        return self._fetcher.throttled_ms

    @property
    def has_errors(self) -> bool:
        """Say whether a range has ended with an error."""
        return any(copy.error for copy in self._by_source.values())

    @property
    def is_behind(self) -> bool:
        """Say whether the source has told of records that are not sent yet."""
        return any(copy.sent < copy.end for copy in self._by_source.values() if copy.wanted)

    @property
    def is_far(self) -> bool:
        """Say whether the source has never answered within a commit tick."""
        return self._fetcher.quickest_seconds > loops.TICK_SECONDS

    def ask(self) -> None:
        """Send the next fetches; end the ranges whose topic is gone, or whose partition has no leader."""
        if time.monotonic() >= self._next_line:  # also while nothing comes
            self._next_line = time.monotonic() + LINE_SECONDS
            log.info("%s lane %d: %s", self._spec.flow, self._spec.lane, self.counters())
        if self._fetcher.max_bytes != self._pace.bytes:
            self._fetcher.max_bytes = self._pace.bytes
            if self._order is not None:
                self._order.limit(self._pace.bytes)
        try:
            refused = self._fetcher.request(self.positions())
        except TwinlogError as error:
            raise SourceError(error.message) from None
        for source, why in refused.items():
            self._by_source[source].error = range_errors.not_readable(self._by_source[source].name, why)

    def answers(self, within: float | None = None) -> Iterator[list[Fetched]]:
        """Read the answers in flight; with `within` (seconds) only those that come in time."""
        try:
            yield from self._fetcher.answers(within)
        except TwinlogError as error:
            raise SourceError(error.message) from None

    def take(self, answer: list[Fetched], *, ahead: bool) -> int:
        """Cut one answer, send its batches, and commit if the transaction is full or old; return bytes sent.

        `ahead` asks for the next answer before sending.  On return, this answer's batches may still be on their way to
        the target; those of earlier answers are not.
        """
        queues: Queues = {}
        self._arena.reset()
        for fetched in answer:
            copy = self._by_source[fetched.topic_partition]
            if fetched.error:
                self._fetch_refused(copy, fetched)
                continue
            start = copy.sent
            if copy.wanted and len(fetched.block) and fetched.asked_offset == start:
                self._cut(copy, fetched, queues)
                self.transaction.begin()
            before = copy.end
            copy.source_end = max(copy.sent, fetched.readable_end(read_committed=self._spec.read_committed))
            self._ends += copy.end - before
            self._untold -= before < 0
            if self._order is not None:
                end = min(copy.spec.end, copy.source_end)
                read, left = copy.sent - start, end - copy.sent
                rpo = copy.spec.rpo_seconds
                self._order.answered(copy.source, rpo, size=len(fetched.block), read=read, left=left)
        size = sum(len(outgoing.buffer) for queue in queues.values() for outgoing in queue)
        try:
            if ahead:
                self.ask()
        finally:  # cut batches count as sent, so they are sent even if the source cannot be asked any more
            self._lane.flush()  # the last answer's memory is reused for the next answer
            kept = not queues or self._send(queues, size, answer)
        if kept:
            self.transaction.commit_if_due()
        return size

    def _send(self, queues: Queues, size: int, answer: list[Fetched]) -> bool:
        """Send batches; return False if the transaction ended.  A slow target gets a transaction for each answer."""
        began, throttled_ms = time.monotonic(), self._lane.throttled_ms
        kept = self.transaction.send(queues, size)
        if kept and (self._pace.is_tried_by(answer) or self._lane.throttled_ms != throttled_ms):
            self._lane.drain()
            if self._pace.took(time.monotonic() - began + self._lane.muted_seconds):
                self.transaction.commit()
                return False
        return kept

    # --- one answer ----------------------------------------------------------------------------------------

    def _cut(self, copy: RangeCopy, fetched: Fetched, queues: Queues) -> None:
        """Cut one partition's block.

        Only an answer to a fetch from `copy.sent` may be cut.  A fetch sent before an abort asked from further on; if
        its answer were cut, the records in between would look compacted away.
        """
        aborted = AbortedTransactions.of(fetched.aborted) if self._spec.read_committed else None
        try:
            cut = copy.cutter.cut(as_batches(fetched.block), copy.sent, aborted)
        except TwinlogError as error:
            copy.error = range_errors.unreadable(copy.name, error)
            return
        if cut.leader_epoch not in {copy.epoch, -1}:
            if copy.epoch >= 0:
                copy.error = other_history(self._source, copy)
            if copy.error is not None:
                return
            copy.epoch = cut.leader_epoch
        copy.reach(cut.next_upstream)
        # Old messages behind batches come again: the next fetch begins with them.
        if cut.poison is not None and cut.poison.code != OLD_MAGIC:
            copy.error = range_errors.poison(copy.name, cut.poison)
        if cut.outgoing:
            queues[copy.target] = cut.outgoing

    def _check_copies(self, topic_ids: dict[str, str]) -> None:
        """End the ranges whose copy was recreated after they were resolved; refuse to write to a copy that is short.

        A copy that is recreated later answers with offsets from before this lane began (invariant O of the lane).
        Raises the error of `doubt` if a copy ends before its `copy_end`: the driver has seen it longer.
        """
        reached = self._lane.transaction.ends.reached
        for copy in self._by_source.values():
            wanted, found = copy.spec.remote_topic_id, topic_ids.get(copy.spec.remote_topic, "")
            if wanted and found and wanted != found:
                copy.error = range_errors.copy_recreated(copy.name, copy.spec.remote_topic)
            elif copy.copy_end is not None and reached.get(copy.target, copy.copy_end) < copy.copy_end:
                raise self._lane.transaction.doubt(
                    f"{copy.spec.remote_topic}-{copy.spec.partition} ends before offset {copy.copy_end}, up to which it"
                    " was copied"
                )

    def _recreated_ranges(self, progressed: Collection[RangeCopy]) -> list[RangeCopy]:
        """Return the ranges whose topic was recreated; needed only if older brokers were asked by name, not by id."""
        return recreated_ranges(self._source, progressed) if self._fetcher.asked_by_name else []

    # --- errors --------------------------------------------------------------------------------------------

    def _fetch_refused(self, copy: RangeCopy, fetched: Fetched) -> None:
        if fetched.error in OTHER_INCARNATION:
            copy.error = other_incarnation(self._source, copy)
        elif repeats(Request.FETCH, fetched.error):
            return  # the fetcher asks again later
        elif fetched.error == Code.OFFSET_OUT_OF_RANGE:
            copy.error = out_of_range(self._source, copy)
        else:
            copy.error = range_errors.source_refused(copy.name, fetched.error)

    def end_all(self, code: str, why: str) -> None:
        """End every range that is still wanted."""
        for copy in self._by_source.values():
            if copy.wanted:
                copy.error = range_errors.stopped_at(copy.name, copy.sent, why, code)


def _fetch_size(spec: LaneSpec, size: int) -> int:
    """Return the fetch size; under a throttle, at most what it passes at once (brokers give at least one batch)."""
    return (
        size
        if spec.bytes_per_second is None
        else min(size, round(spec.bytes_per_second * loops.BURST_SECONDS) + 1)
    )
