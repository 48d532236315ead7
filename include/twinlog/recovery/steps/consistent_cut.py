"""Find the consistent cut of a failover whose source is lost, and save what lies behind it (cut/plan.py).

A log's end cannot be taken off, so the records behind the cut stay in the copies: they are counted, named by their
offsets and written to files.  Groups go on before them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from twinlog.checks.data_docs import reports_folder
from twinlog.clock import iso
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.cut.plan import NoCut
from twinlog.cut.read import read
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.groups.translate import never_copied, positions
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.recovery.one_sided import files
from twinlog.recovery.one_sided.files import WrittenFile
from twinlog.recovery.one_sided.read import Side, Stretch, opened_logs
from twinlog.recovery.report import CutReport, Outcome, PartitionAtRisk, TopicAtRisk, done, waiting
from twinlog.recovery.steps.scene import Scene
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.progress import read_packed
from twinlog.topics.incarnations import differ
from twinlog.visible import and_more

OPTION = "--consistent-cut"


@dataclass(frozen=True, slots=True)
class PlaceOfCut:
    """The cut in one partition, upstream and in its copy, which ends at `end`; `records` of the flow lie behind it."""

    source: TopicPartition
    remote: TopicPartition
    remote_topic_id: str
    upstream: int
    downstream: int
    end: int
    records: int


@dataclass(frozen=True, slots=True)
class FoundCut:
    """The cut of a flow; `left_out` are transactions of the source of which something lies behind it."""

    places: tuple[PlaceOfCut, ...]
    as_of_ms: int
    left_out: int

    @property
    def limits(self) -> Mapping[TopicPartition, int]:
        """The downstream offset of each copy behind which no group is placed."""
        return {it.remote: it.downstream for it in self.places}

    @property
    def records(self) -> int:
        """Count what lies behind the cut."""
        return sum(it.records for it in self.places)

    def report(self, written: Sequence[WrittenFile] = ()) -> CutReport:
        """Return the cut as the report has it."""
        return CutReport(self.as_of_ms, self.left_out, self.records, tuple(written))

    def shown_in(self, topics: Sequence[TopicAtRisk]) -> tuple[TopicAtRisk, ...]:
        """Return the topics of the report with the cut of each partition."""
        at = {it.source: it for it in self.places}

        def with_cut(topic: TopicAtRisk, part: PartitionAtRisk) -> PartitionAtRisk:
            it = at.get(TopicPartition(topic.topic, part.partition))
            if it is None:
                return part
            return replace(
                part, cut_upstream=it.upstream, cut_downstream=it.downstream, behind_cut=it.records
            )

        return tuple(
            replace(topic, partitions=tuple(with_cut(topic, part) for part in topic.partitions))
            for topic in topics
        )

    def told(self) -> str:
        """Say in a line what lies behind it."""
        partitions = sum(it.records > 0 for it in self.places)
        return (
            f"as of {iso(self.as_of_ms)}, {self.records:,} records of {partitions:,} partitions lie behind the cut,"
            f" with what was copied of {self.left_out:,} transactions that are not known to be whole"
        )


def read_cut(flow: FlowSettings, target: ClusterReader, ledger: Ledger) -> FoundCut | NoCut:
    """Find the cut, and its places in the copies.  Raises errors of the target, and as `cut.read.read`.

    A copy that is gone has no place, nor has one that was still to be made.  If a copy is gone whose topic the flow
    still copied, and the source has, there is no cut: transactions that wrote there are not whole any more.
    """
    cut = read(flow, target, ledger)
    if isinstance(cut, NoCut):
        return cut
    lives = {
        topic: it for topic, it in ledger.incarnations.items() if topic in {at.topic for at in cut.offsets}
    }
    copies = _copies(target, lives.values())
    wanted = (lives.keys() & cut.topics) - ledger.deleted.keys()
    if lost := sorted(topic for topic in wanted if topic not in copies):
        return NoCut(
            f"{lives[lost[0]].remote_topic}, the copy of {lost[0]}, was deleted, or created again{and_more(len(lost))}"
        )
    remote = {
        it: TopicPartition(copy.name, it.partition)
        for it in cut.offsets
        if (copy := copies.get(it.topic)) is not None and it.partition < len(copy.partitions)
    }
    ends = target.offsets(remote.values()).require()
    maps, gaps = read_packed(flow, target), never_copied(ledger)
    places: list[PlaceOfCut] = []
    for source in sorted(remote):
        upstream = cut.offsets[source]
        known = SourceIncarnation(source.topic, lives[source.topic].topic_id, source.partition)
        packed, log = maps.seen(known), ends[remote[source]]
        if isinstance(packed, UnreadableMap):
            return NoCut(packed.message)
        found = positions(packed, [upstream], log, gaps.get(known, ()))[0]
        if found is None:
            return NoCut(
                f"the offset map does not tell where offset {upstream} of {source.topic}-{source.partition} is in its"
                " copy"
            )
        at = min(max(found.offset, log.log_start), log.end)
        behind = packed.records_between(at, log.end) if packed is not None else 0
        topic_id = copies[source.topic].topic_id
        places.append(PlaceOfCut(source, remote[source], topic_id, upstream, at, log.end, behind))
    return FoundCut(tuple(places), cut.as_of_ms, cut.left_out)


def _copies(target: ClusterReader, lives: Collection[Incarnation]) -> Mapping[str, TopicDescription]:
    """Return the copies that are still there, by source topic.  Raises errors of the target."""
    found = target.describe_topics({it.remote_topic for it in lives}).existing()
    return {
        it.topic: copy
        for it in lives
        if (copy := found.get(it.remote_topic)) is not None and not differ(it.remote_topic_id, copy.topic_id)
    }


def find_cut(scene: Scene) -> Outcome:
    """Find the cut, and write what lies behind it to files."""
    flow, target = scene.flow, scene.clusters.target
    found = read_cut(flow, target, read_ledger(flow, target))
    if isinstance(found, NoCut):
        return waiting(f"no consistent cut: {found.reason}; --no-consistent-cut goes on without one")
    written = tuple(_write(scene, found))
    scene.limits = found.limits
    scene.topics = found.shown_in(scene.topics)
    scene.cut = found.report(written)
    where = f"; {len(written):,} files below {_folder(scene)}" if written else ""
    return done(f"{found.told()}{where}")


def _write(scene: Scene, found: FoundCut) -> Iterator[WrittenFile]:
    with opened_logs(scene.flow) as records:
        for it in found.places:
            if not it.records:
                continue
            stretch = Stretch(
                Side.TARGET, it.remote.topic, it.remote_topic_id, it.remote.partition, it.downstream, it.end
            )
            written = files.write(_folder(scene), stretch, records(stretch, it.downstream), None)
            assert written is not None  # no count was expected
            yield written


def _folder(scene: Scene) -> Path:
    return reports_folder(scene.flow, "behind-cut") / scene.run
