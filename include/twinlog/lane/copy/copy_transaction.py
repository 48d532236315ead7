"""Hold a lane's open transaction: the records sent since the last commit, until it is committed or aborted.

A transaction ends with progress, map and the quarantined records, committed together.  If the target
refuses something, it ends with an abort: every range goes back to the committed position, and continues without the
refused records.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from twinlog import clock
from twinlog.batches import quarantine
from twinlog.batches.outgoing import Outgoing
from twinlog.errors import FormatError, TransientError, TwinlogError
from twinlog.formats.lane_counts import UNKNOWN, LaneCounts
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy import loops, range_errors, state_records
from twinlog.lane.copy.pace import OF_TIMEOUT
from twinlog.lane.copy.range_errors import RangeError, culprits
from twinlog.lane.copy.range_state import Counts, RangeCopy
from twinlog.lane.in_flight import Refused, Written
from twinlog.lane.producer import Lane
from twinlog.lane.spec import LaneSpec
from twinlog.protocol.errors import REFUSED_RECORDS, TOO_LARGE, Code

log = logging.getLogger(__name__)

_NO_LEADER_SECONDS = 30.0
"""How long partitions of the target may lack a leader before they are left to the next cycle."""

_ASIDE_SECONDS = 2.0
"""How long a lane's other partitions wait for such a partition, behind the first write's own wait for an election."""

_AGAIN_SECONDS = 1.0, 3.0
"""How soon a partition set aside is tried again: not all at once, as one may hold up others."""

_LONGEST_PAUSE_SECONDS = 0.5

QUARANTINE_PARTITION = 0

_FULL_STRETCHES = 200_000
"""The number of stretches of offsets (Outgoing.stretches) at which a transaction is full, whatever its bytes.

Each stretch becomes an extent of the map, 24 bytes or more until it is written.  Of tiny records with every second one
compacted away, each record is a stretch.
"""

Queues = dict[TopicPartition, list[Outgoing]]
"""Batches to send, by target partition."""


class CopyTransaction:
    """The transactions of one lane's copy, one after the other.

    `count` is the number of committed transactions, `retries` that of those refused.
    `recreated_ranges` returns the ranges that have read another incarnation of their topic than they were resolved for,
    `standing` for how long quotas have held the lane up (ms), and the sum of the ranges' ends, None if unknown.
    """

    def __init__(
        self,
        spec: LaneSpec,
        lane: Lane,
        ranges: Mapping[TopicPartition, RangeCopy],
        recreated_ranges: Callable[[Collection[RangeCopy]], Sequence[RangeCopy]],
        standing: Callable[[], tuple[int, int | None]],
    ) -> None:
        self._spec = spec
        self._lane = lane
        self._by_target = ranges
        self._quarantining = [*ranges.values()] if spec.quarantine_poison else []
        self._recreated_ranges = recreated_ranges
        self._standing = standing
        self._open_bytes = self._open_stretches = 0
        self._opened_at: float | None = None
        self._leaderless_since: dict[TopicPartition, float] = {}
        self._aside_until: dict[TopicPartition, float] = {}
        self._predicts = True
        self._last_targets: frozenset[TopicPartition] = frozenset()
        self._streaming: frozenset[TopicPartition] = frozenset()
        self.count = self.retries = 0
        self._copied = Counts()
        self._committed = sum(copy.committed for copy in ranges.values())

    def begin(self) -> None:
        """Note that records were read: from now on the transaction grows old, also while there is nothing to send.

        A long stretch of aborted records, markers, or loopback records is progress, too.  A target that takes nothing
        now is waited for before.
        """
        if self._opened_at is None:
            time.sleep(self._lane.muted_seconds)
            self._opened_at = time.monotonic()
            self._lane.deadline = self._opened_at + OF_TIMEOUT * self._spec.transaction_timeout_ms / 1000

    def commit_if_due(self) -> None:
        """Commit if the transaction is full or old."""
        held = self._open_bytes + sum(copy.captured_bytes for copy in self._quarantining)
        full = held >= self._spec.transaction_bytes or self._open_stretches >= _FULL_STRETCHES
        if full or self.age_ms() >= self._spec.transaction_ms:
            self.commit()

    def choose(self, wanted: Sequence[RangeCopy]) -> Sequence[RangeCopy]:
        """Return the ranges to copy now: those not set aside, as their copy lacks a leader.

        If no other is left, they are, but not before the others' records are committed.
        """
        if not self._aside_until:
            return wanted
        now = time.monotonic()
        for target in [it for it, again in self._aside_until.items() if again <= now]:
            # One that lacked a leader for too long is tried, too: what refuses it then ends it.
            waited = now - self._leaderless_since[target]
            if waited > _NO_LEADER_SECONDS or self._is_led(target):
                del self._aside_until[target]
            else:
                self._set_aside(target)
        others = [copy for copy in wanted if copy.target not in self._aside_until]
        return others if others or self._opened_at is not None else wanted

    def age_ms(self) -> float:
        """Return how long the transaction has been open (ms); 0 if none is open."""
        return (time.monotonic() - self._opened_at) * 1000 if self._opened_at is not None else 0.0

    def send(self, queues: Queues, size: int) -> bool:
        """Send cut batches, `size` bytes; return False if some were refused, and the transaction was aborted."""
        # The partitions for their state are added in the same request, which saves one.
        places = state_records.places(self._spec.state, [self._by_target[target] for target in queues])
        refused = self._lane.add([*queues, *places])
        if refused:
            self._require_state(refused)
            self._give_up(refused)
            return False
        self._lane.send(queues)
        self._open_bytes += size
        self._open_stretches += sum(
            len(outgoing.stretches) for queue in queues.values() for outgoing in queue
        )
        self._note_written()
        if self._lane.refused:
            self._lane.drain()
            self._give_up(self._lane.take_refused())
            return False
        return True

    def _note_written(self) -> None:
        for written in self._lane.take_written():
            copy = self._by_target.get(written.partition)
            if copy is not None:
                copy.written(written.outgoing, written.base_offset)

    def commit(self) -> bool:
        """Write progress and map behind the data, and commit; return False if the transaction was aborted instead.

        If the data's answers can be predicted, the commit does not wait for them first.
        """
        progressed = [copy for copy in self._by_target.values() if copy.sent > copy.committed]
        predicted = self._predicted_batches(progressed)
        if predicted is None:
            self._lane.drain()
        self._note_written()
        if self._lane.refused:
            self._lane.drain()
            self._give_up(self._lane.take_refused())
            return False
        recreated = self._recreated_ranges(progressed)
        if recreated:
            self._abort()
            for copy in recreated:
                copy.error = range_errors.recreated(copy.name)
            return False
        if progressed:
            if not self._write_state(progressed, predicted or []):
                return False
            self._lane.commit()
            self.count += 1
            log.debug(
                "%s lane %d committed %d partitions, %d bytes",
                *(self._spec.flow, self._spec.lane, len(progressed), self._open_bytes),
            )
            self._note_taken(copy.target for copy in progressed)
            now_ms = clock.now_ms()
            for copy in progressed:
                self._copied.add_all(copy.open_counts)
                self._committed += copy.sent - copy.committed
                copy.confirm(now_ms)
        else:
            self._lane.abort()  # it was begun ahead, and no record came
        before, self._last_targets = self._last_targets, frozenset(copy.target for copy in progressed)
        self._streaming = self._last_targets & before
        self._closed()
        return True

    def open_ahead(self) -> None:
        """Begin the next transaction with the partitions that advanced in each of the last two.

        A partition without records this time gets a marker in vain, so partitions that advance only now and then are
        left out.
        """
        ranges = [self._by_target[target] for target in self._streaming]
        if ranges and not self._lane.muted_seconds:
            self._lane.add([*self._streaming, *state_records.places(self._spec.state, ranges)])

    def _predicted_batches(self, progressed: Collection[RangeCopy]) -> list[Written] | None:
        """Return batches in flight that may count as written until the commit; None if their answers must be awaited.

        Quarantined records have to go first.
        """
        if not self._predicts or any(copy.newly_quarantined() for copy in progressed):
            return None
        return self._lane.predicted()

    def _write_state(self, progressed: Collection[RangeCopy], predicted: Sequence[Written]) -> bool:
        """Write progress, map and the records aside; return False if the transaction was aborted instead.

        Batches in `predicted` are in the map before their answers come; the answers are compared with it here
        (invariant F of lane/in_flight.py).
        """
        for batch in predicted:
            self._by_target[batch.partition].written(batch.outgoing, batch.base_offset)
        now, state = clock.now_ms(), self._spec.state
        records = state_records.of_ranges(state, progressed, now, self.counts(progressed, now))
        queues = state_records.batches(records, now)
        for copy in progressed:
            try:
                held = [*quarantine.batches(copy.captured(), state.quarantine_max_bytes, now)]
            except FormatError as error:
                self._abort()
                copy.stop_at(error.data["offset"], RangeError("poison-record", error.message))
                return False
            if held:
                queues.setdefault(TopicPartition(state.quarantine_topic, QUARANTINE_PARTITION), []).extend(
                    held
                )
        refused = self._lane.write_state(queues)
        self._require_state(refused)
        if refused:
            self._give_up(refused)
            return False
        written = [it for it in self._lane.take_written() if it.partition in self._by_target]
        # Brokers answer for a request's partitions in any order.
        if sorted(map(_where, written)) != sorted(map(_where, predicted)):
            self._predicts = False  # another producer writes to the copy
            self._abort()
            return False
        return True

    def counts(self, progressed: Collection[RangeCopy], at_ms: int) -> LaneCounts:
        """Count what the lane has committed at `at_ms`, with the open transaction of the ranges that `progressed`."""
        throttled_ms, ends = self._standing()
        reached = self._committed + sum(copy.sent - copy.committed for copy in progressed)
        return LaneCounts(
            fence_ms=self._spec.fence_ms,
            lane=self._spec.lane,
            at_ms=at_ms,
            commits=self.count + bool(progressed),
            retries=self.retries,
            throttled_ms=throttled_ms,
            behind=UNKNOWN if ends is None else ends - reached,
            records=self._copied.records + sum(copy.open_counts.records for copy in progressed),
            bytes=self._copied.bytes + sum(copy.open_counts.bytes for copy in progressed),
            partition_records=0,
            partition_bytes=0,
        )

    def _require_state(self, refused: Collection[Refused]) -> None:
        """Raise if twinlog's own topics finally refuse a record: without them nothing can be committed."""
        final = [it for it in refused if not it.resend and it.partition not in self._by_target]
        if final:
            topic, partition = final[0].partition
            raise TransientError(
                f"state topic {topic}-{partition} refused progress or map: {final[0].message}",
                hint="see what `twinlog check` says of permissions; a cycle creates what is missing",
                code="fence-again",
            )

    def _give_up(self, refused: list[Refused]) -> None:
        """Abort after a refusal: go back to the committed positions, and end or repair the refused ranges."""
        self._abort()
        self.retries += 1
        for refusal in refused:
            if not refusal.resend and refusal.partition in self._by_target:
                self._refuse(self._by_target[refusal.partition], refusal)
        to_resend = [refusal for refusal in refused if refusal.resend]
        # A leader that expects another sequence was found, so there is nothing to wait for.
        if any(refusal.code != Code.OUT_OF_ORDER_SEQUENCE_NUMBER for refusal in to_resend):
            self._wait_for_leaders(to_resend)

    def _wait_for_leaders(self, to_resend: list[Refused]) -> None:
        """Look up leaders again and pause.

        Partitions that lack a leader for a while are set aside, so that the others can commit; after too long they are
        left to the next cycle.
        """
        self._lane.brokers.forget_leaders()
        now = time.monotonic()
        waited = 0.0
        for refusal in to_resend:
            target = refusal.partition
            waited = now - self._leaderless_since.setdefault(target, now)
            copy = self._by_target.get(target)
            if waited > _NO_LEADER_SECONDS:
                if copy is None:
                    raise self._lane.transaction.doubt(f"{target[0]}: {refusal.message}")
                copy.error = range_errors.no_leader(copy.name, target[0], refusal, waited)
            elif waited > _ASIDE_SECONDS and copy is not None:
                self._set_aside(target)
        time.sleep(random.uniform(0, min(_LONGEST_PAUSE_SECONDS, loops.PAUSE_SECONDS + waited)))

    def _set_aside(self, target: TopicPartition) -> None:
        self._aside_until[target] = time.monotonic() + random.uniform(*_AGAIN_SECONDS)
        self._last_targets -= {target}
        self._streaming -= {target}

    def _is_led(self, target: TopicPartition) -> bool:
        try:
            found = self._lane.brokers.metadata([target.topic])[target.topic]
        except TwinlogError:
            return False
        return found.is_led(target.partition)

    def _note_taken(self, committed: Iterable[TopicPartition]) -> None:
        """Forget that partitions lacked a leader: those committed just now, and twinlog's own, which took the state."""
        over = {*committed, *(self._leaderless_since.keys() - self._by_target.keys())}
        for target in over & self._leaderless_since.keys():
            del self._leaderless_since[target]
            self._aside_until.pop(target, None)

    def _abort(self) -> None:
        self._lane.drain()
        self._note_written()
        self._lane.take_refused()
        self._lane.abort()
        for copy in self._by_target.values():
            copy.take_back()
        self._closed()

    def _closed(self) -> None:
        self._open_bytes = self._open_stretches = 0
        self._opened_at = None

    def _refuse(self, copy: RangeCopy, refusal: Refused) -> None:
        offsets = culprits(refusal)
        if refusal.code in TOO_LARGE and refusal.outgoing is not None and not offsets:
            # No record is at fault: the target compresses differently, or has another limit than it reported.
            copy.cutter.split_smaller_than(len(refusal.outgoing.buffer))
            return
        if refusal.code in REFUSED_RECORDS and self._spec.quarantine_poison and offsets:
            copy.cutter.excluded.update(dict.fromkeys(offsets, refusal.message))
            return
        why = range_errors.target_refused(copy.name, copy.spec.remote_topic, refusal, offsets)
        batch_at_fault = refusal.code in REFUSED_RECORDS or refusal.code == Code.CORRUPT_MESSAGE
        if refusal.outgoing is None or not batch_at_fault:
            copy.error = why
        else:
            copy.stop_at(min(offsets, default=refusal.outgoing.stretches.first), why)


def _where(written: Written) -> tuple[TopicPartition, int]:
    return written.partition, written.base_offset
