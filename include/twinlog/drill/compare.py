"""Say of every position what became of it: by the law of `judge`, and by the records of both clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twinlog.cluster.api import Clusters
from twinlog.cluster.prints import Fingerprint, key_digest
from twinlog.config.flow.settings import FlowSettings
from twinlog.drill.joining import First
from twinlog.drill.judge import judge
from twinlog.drill.places import View
from twinlog.drill.reading import READ_SECONDS
from twinlog.drill.report import DrilledPosition, Found
from twinlog.groups.report import GroupPartitionRow, SyncReason
from twinlog.groups.same_record import alike
from twinlog.groups.view import Offsets
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.topics.same_log import record_at
from twinlog.transforms.chain import Chain

FEW = 10

Firsts = Mapping[TopicPartition, First]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares what was read with what should have been.

    `before` is the view by which groups were placed; `now` was taken after they had read, so that its maps know every
    record that they can have met.  `met` is what the clones met, by group, `troubles` says why others could not be
    placed or could not read.  `stands` is where the groups stand on the source if they were placed by checkpoints,
    without a group of which nobody can say it.
    """

    flow: FlowSettings
    clusters: Clusters
    before: View
    now: View
    met: Mapping[str, Firsts]
    troubles: Mapping[str, str]
    stands: Mapping[str, Offsets] | None = None

    def judged(self, place: GroupPartitionRow) -> DrilledPosition:
        """Judge a position.  Raises errors of either cluster."""
        if place.downstream_offset is None:
            return _row(place, Found.NOT_PLACED, f"has no place there: {place.text}")
        if place.group in self.troubles:
            return _row(place, Found.NOT_PLACED, self.troubles[place.group])
        first = self.met.get(place.group, {}).get(place.remote)
        if first is None:
            return _row(
                place, Found.WRONG, f"met neither a record nor the end of the log in {READ_SECONDS:.0f} s"
            )
        if first.error:
            return _row(place, Found.WRONG, f"cannot be read from: {first.error}")
        if first.record is None:
            return self._nothing(place)
        return replace(self._read(place, first.record), seconds=first.seconds)

    def _nothing(self, place: GroupPartitionRow) -> DrilledPosition:
        """Judge a position behind which no record was met."""
        expected = self.before.known(place.remote).to_read(
            place.upstream_offset, place.downstream_offset or 0
        )
        if expected and not (self._by_source(place) and self._next(place) is None):
            return _row(
                place,
                Found.WRONG,
                f"met the end of the log, where {expected:,} records are to be read by the map",
            )
        return _row(place, Found.NOTHING_TO_READ, "nothing to read behind its place")

    def _read(self, place: GroupPartitionRow, record: ReadRecord) -> DrilledPosition:
        """Judge the first record."""
        onward = self._next(place) if self._by_source(place) else None
        verdict = judge(
            self.now.known(place.remote),
            place.upstream_offset,
            record.offset,
            onward.offset if onward is not None else None,
            read_there_to=(place.committed_there or 0) if place.reason is SyncReason.READ_ON_THERE else 0,
        )
        again, message = verdict.again, verdict.message
        if verdict.right and self.stands is not None:
            again = self._read_since(place, record.offset)
            many = "nobody knows how many" if again is None else f"{again:,}"
            message = f"{many} of the records behind it are read again" if again != 0 else ""
        # A map of an observed copy holds last copies alone: what else comes again, the place tells.
        sure = not self.flow.observed or (place.exact and place.expected_duplicates == 0)
        row = replace(
            _row(place, Found.RIGHT if verdict.right else Found.WRONG, message),
            read_offset=record.offset,
            read_upstream=verdict.upstream,
            again=again,
            skipped=verdict.skipped,
            exact=verdict.right and again == 0 and sure,
        )
        read_before = verdict.upstream is not None and verdict.upstream < place.upstream_offset
        if not verdict.right and place.ahead and read_before:
            message = f"it had read beyond the copy, and reads {verdict.again:,} records again"
            return replace(row, found=Found.NOTHING_TO_READ, message=message)
        if not verdict.right:
            return row
        there, here = record_at(self.clusters.target, place.remote, record.offset), None
        if self.now.positions is not None and verdict.upstream is not None:
            here = record_at(self.clusters.source, place.topic_partition, verdict.upstream)
        same, why = alike(here, there, may_differ=bool(self._chain(place))), ""
        if there is not None and (there.timestamp, there.key) != (record.timestamp, key_digest(record.key)):
            why = f"its consumer was given another record than the log has at {record.offset}"
        elif same is False:
            why = f"the record at {record.offset} differs from that of {verdict.upstream} on the source"
        if why:
            return replace(row, found=Found.WRONG, message=why, exact=False, compared=False)
        return replace(row, compared=same)

    def _read_since(self, place: GroupPartitionRow, first: int) -> int | None:
        """Count the records from `first` on that the group has read on the source, None if nobody knows."""
        at = (self.stands or {}).get(place.group, {}).get(place.topic_partition)
        if at is None:
            return None
        return sum(pair.read_from(at.offset, first) for pair in self.now.known(place.remote).pairs)

    def _by_source(self, place: GroupPartitionRow) -> bool:
        """Say whether the source tells what comes next.

        It does if it answers, all records of the copy are its own, and none of its records was dropped on its way.
        """
        dropped = self._chain(place).drops
        return self.now.positions is not None and self.now.only_copies(place.remote) and not dropped

    def _chain(self, place: GroupPartitionRow) -> Chain:
        return self.flow.transforms.of(place.remote_topic)

    def _next(self, place: GroupPartitionRow) -> Fingerprint | None:
        """Return the record that the group would read next on the source; None if there is none now."""
        start = place.upstream_offset
        while prints := self.clusters.source.record_prints(place.topic_partition, start, FEW):
            for fingerprint in prints:
                if not (fingerprint.aborted and self.flow.copy.read_committed):
                    return fingerprint
            start = prints[-1].offset + 1
        return None


def _row(place: GroupPartitionRow, found: Found, message: str) -> DrilledPosition:
    return DrilledPosition(
        place.group,
        place.topic,
        place.remote_topic,
        place.partition,
        place.upstream_offset,
        place.downstream_offset,
        found,
        message,
    )
