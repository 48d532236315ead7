"""Copy a lane's ranges: the loop a Spark task runs.

    receive a fetch answer -> cut it into batches -> ask for the next -> relabel and send -> ... -> commit

A transaction holds the data, the progress and the offset map of every partition it moved: they commit together
or not at all.  Trouble of one partition (poison, a gap, a deleted topic) ends that partition and not the others;
trouble of the lane (fenced, a lost answer) ends the lane, and the driver fences again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Collection, Iterator, Sequence

from twinlog.errors import FencedError, FormatError, TerminalError, TransientError, TwinlogError
from twinlog.relay import inquiry, quarantine, rhythm, state_records, trouble
from twinlog.relay.arena import Arena
from twinlog.relay.batch import OLD_MAGIC
from twinlog.relay.brokers import Brokers, TopicPartition
from twinlog.relay.echoes import Echoes, LaneWriters
from twinlog.relay.error_codes import ANOTHER_LIFE, REFUSED_RECORDS, Code, code_name
from twinlog.relay.fetcher import MAX_WAIT_MS, Fetcher
from twinlog.relay.lane import Lane, Refused, Written
from twinlog.relay.log_reader import StateReader
from twinlog.relay.old_format import as_batches, is_old
from twinlog.relay.patience import Patience
from twinlog.relay.range_copy import RangeCopy
from twinlog.relay.recall import Recall
from twinlog.relay.remedies import Remedy, Request, remedy
from twinlog.relay.spec import LaneReport, LaneSpec
from twinlog.relay.throttle import BURST_SECONDS, Throttle
from twinlog.relay.transaction import Writer
from twinlog.relay.transform import AbortedTransactions, Outgoing
from twinlog.relay.trouble import SourceTroubleError, Trouble, culprits
from twinlog.relay.wire import Fetched

_NO_LEADER_SECONDS = 30.0
"""How long partitions of the target may be without a leader before they are left to the next cycle."""

_LONGEST_PAUSE_SECONDS = 0.5

Queues = dict[TopicPartition, list[Outgoing]]


def copy_lane(spec: LaneSpec) -> LaneReport:
    """Copy the ranges of one lane (task, once per lane).

    Never raises for trouble with clusters: the report says "failed" with the ranges' errors, "fence-again" or
    "fenced".
    """
    with Brokers(spec.source) as source, Brokers(spec.target) as target:
        return LaneCopy(spec, source, target).run()


class LaneCopy:
    """The copy of one lane, from its spec to its report."""

    def __init__(self, spec: LaneSpec, source: Brokers, target: Brokers) -> None:
        self._spec = spec
        transactional_id = spec.transactional_id if spec.exactly_once else None
        self._lane = Lane(
            target,
            Writer(transactional_id, spec.producer_id, spec.producer_epoch),
            sequences={(topic, partition): number for topic, partition, number in spec.sequences},
        )
        self._fetcher = Fetcher(
            source,
            max_bytes=_fetch_size(spec, spec.fetch_bytes),
            partition_max_bytes=_fetch_size(spec, spec.partition_fetch_bytes),
            read_committed=spec.read_committed,
            max_wait_ms=MAX_WAIT_MS if spec.follow is None else round(rhythm.IDLE_WAIT_SECONDS * 1000),
            topic_ids={item.topic: item.topic_id for item in spec.ranges},
            patience=Patience(),
        )
        self._source = source
        self._target = target
        self._arena = Arena()
        ranges = [
            RangeCopy.begin(item, quarantine=spec.quarantine_poison, arena=self._arena)
            for item in spec.ranges
        ]
        if spec.way_back_ledger:
            # Over connections of its own: answers to the fetcher are under way on the lane's.
            reader = StateReader(spec.source)
            writers = LaneWriters(lambda: reader.latest(spec.way_back_ledger))
            for item in ranges:
                if item.spec.remote_topic == item.spec.topic:
                    item.cutter.echoes = Echoes.of(writers, item.spec.echoes)
        self._by_source = {item.source: item for item in ranges}
        self._by_target = {item.target: item for item in ranges}
        self._open_bytes = 0
        self._opened_at: float | None = None
        self._moving_since: float | None = None
        self._transactions = 0
        self._foresees = True
        self._moved: frozenset[TopicPartition] = frozenset()
        self._streaming: frozenset[TopicPartition] = frozenset()

    def run(self) -> LaneReport:
        """Copy until every range is finished or in trouble; report what was committed."""
        started, cpu = time.monotonic(), time.process_time()
        error = ""
        try:
            self._leave_other_copies(self._lane.begin(self._by_target))
            self._keep_rhythm()
            self._lane.settle()
            state = "failed" if self.troubled else "done"
        except FencedError as fenced:
            state, error = "fenced", str(fenced)
        except TerminalError as refused:
            state, error = "refused", str(refused)
        except TwinlogError as doubt:
            state, error = "fence-again", str(doubt)
        return LaneReport(
            lane=self._spec.lane,
            state=state,
            ranges=tuple(item.report() for item in self._by_source.values()),
            transactions=self._transactions,
            seconds=time.monotonic() - started,
            cpu_seconds=time.process_time() - cpu,
            error=error,
        )

    def _keep_rhythm(self) -> None:
        rate = self._spec.bytes_per_second
        throttle = Throttle(rate, time.monotonic()) if rate else None
        follow = self._spec.follow
        if follow is None:
            rhythm.drain(self, throttle)
        elif follow.fence is None:
            rhythm.follow(self, follow, throttle, threading.Event())
        else:
            with Recall(self._spec.target, self._spec.state.ledger_topic, follow.fence) as recall:
                rhythm.follow(self, follow, throttle, recall.heard)

    # --- what a rhythm is made of ----------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, int]:
        """Upstream offsets to fetch next, of the partitions that are still wanted."""
        return {item.source: item.sent for item in self._by_source.values() if item.wanted}

    @property
    def troubled(self) -> bool:
        """Whether a range has ended in trouble."""
        return any(item.trouble for item in self._by_source.values())

    def ask(self) -> None:
        """Send the next fetches; end the ranges whose topic has gone, or that nobody leads."""
        try:
            refused = self._fetcher.request(self.positions())
        except TwinlogError as error:
            raise SourceTroubleError(error.message) from None
        for source, why in refused.items():
            self._by_source[source].trouble = trouble.not_readable(self._by_source[source].name, why)

    def answers(self, within: float | None = None) -> Iterator[list[Fetched]]:
        """Read the answers on the way; with `within` (seconds) only those that come in time."""
        try:
            yield from self._fetcher.answers(within)
        except TwinlogError as error:
            raise SourceTroubleError(error.message) from None

    def take(self, answer: list[Fetched], *, ahead: bool) -> int:
        """Cut one answer, send what was cut, and commit when the transaction is full or old; return bytes sent.

        `ahead` asks for the next answer before sending.
        """
        queues: Queues = {}
        self._arena.reset()  # of the last answer everything was sent, or taken back
        for fetched in answer:
            item = self._by_source[fetched.topic, fetched.partition]
            if fetched.error:
                self._fetch_refused(item, fetched)
            elif item.wanted and len(fetched.block) and fetched.asked_offset == item.sent:
                self._cut(item, fetched, queues)
        size = sum(len(outgoing.buffer) for queue in queues.values() for outgoing in queue)
        try:
            if ahead:
                self.ask()
        finally:  # what was cut counts as sent, so it goes out even if the source can be asked no more
            kept = not queues or self._send(queues)
        if kept:
            self.commit_if_due()
        return size

    def commit_if_due(self) -> None:
        """Commit when the transaction is full or old."""
        if self.age_ms() >= self._spec.transaction_ms or self._open_bytes >= self._spec.transaction_bytes:
            self.commit()

    def age_ms(self) -> float:
        """For how long the transaction has been open; 0 when none is."""
        return (time.monotonic() - self._opened_at) * 1000 if self._opened_at is not None else 0.0

    # --- one answer ----------------------------------------------------------------------------------------

    def _cut(self, item: RangeCopy, fetched: Fetched, queues: Queues) -> None:
        """Cut one partition's block.

        Only an answer to a question asked at `item.sent` may be cut: one asked before an abort begins further
        on, and would make the records between look compacted away.
        """
        aborted = AbortedTransactions.of(fetched.aborted) if self._spec.read_committed else None
        try:
            block = as_batches(fetched.block) if is_old(fetched.block) else fetched.block
            cut = item.cutter.cut(block, item.sent, aborted)
        except TwinlogError as error:
            item.trouble = Trouble(error.code, f"{item.name}: {error}")
            return
        if cut.leader_epoch not in {item.epoch, -1}:
            item.trouble = inquiry.other_history(self._source, item)
            if item.trouble is not None:
                return
            item.epoch = cut.leader_epoch
        item.reach(cut.next_upstream)
        # Old messages behind batches are met again: by the next fetch, which begins with them.
        if cut.poison is not None and cut.poison.code != OLD_MAGIC:
            item.trouble = trouble.poison(item.name, cut.poison)
        if cut.outgoing:
            queues[item.target] = cut.outgoing

    def _leave_other_copies(self, topic_ids: dict[str, str]) -> None:
        """End the ranges whose copy was deleted and created again since they were settled.

        One that is swapped later answers with offsets from before this lane began (invariant O of the lane).
        """
        for item in self._by_source.values():
            wanted, found = item.spec.remote_topic_id, topic_ids.get(item.spec.remote_topic, "")
            if wanted and found and wanted != found:
                item.trouble = trouble.copy_recreated(item.name, item.spec.remote_topic)

    def _send(self, queues: Queues) -> bool:
        """Send what was cut; return False if the target refused something, and the transaction was given up."""
        # Where their state will be written is added with them: it needs no question of its own.
        places = state_records.places(self._spec.state, [self._by_target[target] for target in queues])
        refused = self._lane.add([*queues, *places])
        if refused:
            self._require_state(refused)
            self._give_up(refused)
            return False
        if self._opened_at is None:
            self._opened_at = time.monotonic()
        for batches in _rounds(queues):
            self._lane.send(batches)
            self._open_bytes += sum(len(outgoing.buffer) for outgoing in batches.values())
            self._note_written()
            if self._lane.refused:
                self._lane.drain()
                self._give_up(self._lane.take_refused())
                return False
        return True

    def _note_written(self) -> None:
        for written in self._lane.take_written():
            item = self._by_target.get(written.partition)
            if item is not None:
                item.written(written.outgoing, written.base_offset)

    # --- the end of a transaction --------------------------------------------------------------------------

    def commit(self) -> bool:
        """Write progress and map behind the data, and commit; return False if it was given up instead.

        Without waiting for the data's answers first where it can be foreseen what they will say.
        """
        moved = [item for item in self._by_source.values() if item.sent > item.committed]
        foreseen = self._foreseen(moved)
        if foreseen is None:
            self._lane.drain()
        self._note_written()
        if self._lane.refused:
            self._lane.drain()
            self._give_up(self._lane.take_refused())
            return False
        # A fetch by id cannot be answered by another life of the topic; with older brokers fetches go by name.
        strangers = inquiry.strangers(self._source, moved) if self._fetcher.asked_by_name else []
        if strangers:
            self._abort()
            for item in strangers:
                item.trouble = trouble.recreated(item.name)
            return False
        if moved:
            if not self._write_state(moved, foreseen or []):
                return False
            self._lane.commit()
            self._transactions += 1
            self._moving_since = None
            for item in moved:
                item.confirm()
        else:
            self._lane.abort()  # it was opened ahead, and nothing came
        before, self._moved = self._moved, frozenset(item.source for item in moved)
        self._streaming = self._moved & before
        self._open_bytes, self._opened_at = 0, None
        return True

    def open_ahead(self) -> None:
        """Begin the next transaction with the partitions that moved in each of the last two.

        One that has nothing this time gets a marker for nothing, so not with those that move now and then.
        """
        ranges = [self._by_source[source] for source in self._streaming]
        if ranges:
            self._lane.add([*(it.target for it in ranges), *state_records.places(self._spec.state, ranges)])

    def _foreseen(self, moved: Collection[RangeCopy]) -> list[Written] | None:
        """What is on its way and may be taken for written until the commit; None when it has to be waited for.

        Without transactions, progress may only follow what was acknowledged; and what is set aside goes first.
        """
        if not self._foresees or not self._spec.exactly_once or any(it.newly_quarantined() for it in moved):
            return None
        return self._lane.foreseen()

    def _write_state(self, moved: Collection[RangeCopy], foreseen: Sequence[Written]) -> bool:
        """Write what is set aside, progress and map; return False if the transaction was given up instead.

        Batches that are `foreseen` are in the map already when their answers come, which are compared with it here
        (invariant F of relay/foresight.py).
        """
        for batch in foreseen:
            self._by_target[batch.partition].written(batch.outgoing, batch.base_offset)
        now, state = int(time.time() * 1000), self._spec.state
        writes = [state_records.batches(state_records.of_ranges(state, moved, now), now)]
        for item in moved:
            try:
                aside = list(quarantine.batches(item.captured(), state.quarantine_max_bytes, now))
            except FormatError as error:
                self._abort()
                item.stop_at(error.data["offset"], Trouble("poison-record", error.message))
                return False
            writes = [*({(state.quarantine_topic, 0): batch} for batch in aside), *writes]
        refused: list[Refused] = []
        for batches in writes:
            refused = refused or self._lane.write_state(batches)
        self._require_state(refused)
        if refused:
            self._give_up(refused)
            return False
        written = [it for it in self._lane.take_written() if it.partition in self._by_target]
        if [_where(it) for it in written] != [_where(it) for it in foreseen]:
            self._foresees = False  # somebody else writes to the copy
            self._abort()
            return False
        return True

    def _require_state(self, refused: Collection[Refused]) -> None:
        """Raise for a refusal that is final and of twinlog's own topics: without them nothing can be committed."""
        final = [it for it in refused if not it.resend and it.partition not in self._by_target]
        if final:
            topic, partition = final[0].partition
            raise TransientError(
                f"state topic {topic}-{partition} refused progress or map: {final[0].message}",
                hint="run sync_topics, and `twinlog check` for permissions",
                code="fence-again",
            )

    def _give_up(self, refused: list[Refused]) -> None:
        """The target refused something: abort, go back to what is committed, and end or repair what was refused."""
        self._abort()
        for refusal in refused:
            if not refusal.resend:
                self._refuse(self._by_target[refusal.partition], refusal)
        moved = [refusal for refusal in refused if refusal.resend]
        if moved:
            self._wait_for_leaders(moved)

    def _wait_for_leaders(self, moved: list[Refused]) -> None:
        """Find leaders anew and pause; leave partitions to the next cycle that have been without one for too long."""
        self._target.forget_leaders()
        now = time.monotonic()
        if self._moving_since is None:
            self._moving_since = now
        waited = now - self._moving_since
        if waited > _NO_LEADER_SECONDS:
            for refusal in moved:
                item = self._by_target.get(refusal.partition)
                if item is None:
                    raise self._lane.transaction.doubt(f"{refusal.partition[0]}: {refusal.message}")
                item.trouble = trouble.no_leader(item.name, item.spec.remote_topic, refusal, waited)
            self._moving_since = None
        time.sleep(random.uniform(0, min(_LONGEST_PAUSE_SECONDS, rhythm.PAUSE_SECONDS + waited)))

    def _abort(self) -> None:
        self._lane.drain()
        self._note_written()
        self._lane.take_refused()
        self._lane.abort()
        for item in self._by_source.values():
            item.take_back()
        self._open_bytes, self._opened_at = 0, None

    # --- trouble -------------------------------------------------------------------------------------------

    def _refuse(self, item: RangeCopy, refusal: Refused) -> None:
        offsets = culprits(refusal)
        if refusal.code in REFUSED_RECORDS and self._spec.quarantine_poison and offsets:
            item.cutter.excluded.update(dict.fromkeys(offsets, refusal.message))
            return
        why = trouble.target_refused(item.name, item.spec.remote_topic, refusal, offsets)
        batch_at_fault = refusal.code in REFUSED_RECORDS or refusal.code == Code.CORRUPT_MESSAGE
        if refusal.outgoing is None or not batch_at_fault:
            item.trouble = why
        else:
            item.stop_at(min(offsets, default=refusal.outgoing.stretches[0][0]), why)

    def _fetch_refused(self, item: RangeCopy, fetched: Fetched) -> None:
        what = remedy(Request.FETCH, fetched.error)
        if fetched.error in ANOTHER_LIFE:
            item.trouble = inquiry.another_life(self._source, item)
        elif what is Remedy.REPEAT:
            self._source.forget_leaders()
        elif fetched.error == Code.OFFSET_OUT_OF_RANGE:
            item.trouble = inquiry.out_of_range(self._source, item)
        else:
            answer = f"the source answered {code_name(fetched.error)}"
            item.trouble = Trouble("source-refused", f"{item.name}: {answer}")

    def end_all(self, code: str, why: str) -> None:
        """End every range that is still wanted."""
        for item in self._by_source.values():
            if item.wanted:
                item.trouble = Trouble(code, f"{item.name} at upstream offset {item.sent}: {why}")


def _fetch_size(spec: LaneSpec, size: int) -> int:
    """Under a throttle, fetch no more than it lets through at once; brokers give a whole batch at least."""
    return (
        size if spec.bytes_per_second is None else min(size, round(spec.bytes_per_second * BURST_SECONDS) + 1)
    )


def _rounds(queues: Queues) -> Iterator[dict[TopicPartition, Outgoing]]:
    """The first batch of every partition, then the second, ...: one batch a partition in each request."""
    depth = max(len(queue) for queue in queues.values())
    for index in range(depth):
        yield {target: queue[index] for target, queue in queues.items() if index < len(queue)}


def _where(written: Written) -> tuple[TopicPartition, int]:
    return written.partition, written.base_offset
