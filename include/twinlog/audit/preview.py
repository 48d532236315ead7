"""Show what a flow's transforms make of the newest records of a topic; only the source is read, nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.audit.comparison.record_fields import RawRecord, excerpt
from twinlog.audit.comparison.values import Excerpt
from twinlog.batches.columns import Columns, read_columns
from twinlog.batches.transform.apply import Transform
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError, UsageError
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import TopicPartition
from twinlog.logs.partition_reader import Item, Lost, PartitionReader
from twinlog.protocol.brokers import Brokers
from twinlog.transforms.chain import Chain

SHOWN_BYTES = 4000
"""The most bytes shown of a key, a value or a header."""

FETCH_BYTES = 4 << 20


class Fate(StrEnum):
    """Name what becomes of a record."""

    SAME = "same"
    CHANGED = "changed"
    DROPPED = "dropped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PreviewedRecord:
    """One record of the source: what it is, and what its copy would be.

    `after` is None for one that is dropped, and for one that cannot be transformed, of which `error` says why.
    """

    partition: int
    offset: int
    fate: Fate
    before: Excerpt
    after: Excerpt | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Preview:
    """Tell what transforms make of some records of a topic.

    `chain` is the print that the ledger would note, "" if no transform concerns the topic.  `unread` are partitions
    with records that could not be read, and why.
    """

    flow: str
    topic: str
    remote_topic: str
    chain: str
    records: tuple[PreviewedRecord, ...]
    unread: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        """Say whether every record of the sample was read and can be transformed."""
        return not self.unread and all(it.fate is not Fate.FAILED for it in self.records)


def run(flow: FlowSettings, source: ClusterReader, topic: str, sample: int) -> Preview:
    """Read the newest `sample` offsets of each partition, and transform their records.

    Raises UsageError for a topic that the source does not have, and errors of the cluster.
    """
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    chain = flow.chain_of(topic, remote)
    records: list[PreviewedRecord] = []
    unread: list[str] = []
    for place, within, item in _read(flow, source, topic, sample):
        if isinstance(item, Lost):
            unread.append(f"{topic}-{place.partition}, offsets {item.start} to {item.end}: {item.reason}")
            continue
        for _, batch in item.batches():
            records += previewed(batch, chain, place, within.start, within.stop)
    return Preview(flow.name, topic, remote, chain.print, tuple(records), tuple(unread))


def _read(
    flow: FlowSettings, source: ClusterReader, topic: str, sample: int
) -> Iterator[tuple[TopicPartition, range, Item]]:
    """Yield a topic's blocks, with partition and offsets asked for: the newest `sample` of each partition."""
    committed = flow.copy.read_committed
    described = source.describe_topics([topic]).found.get(topic)
    if described is None:
        raise UsageError(
            f"{flow.source.alias} has no topic {topic}, or does not show it",
            hint="name a topic of the source",
            topic=topic,
        )
    places = [TopicPartition(topic, it.partition) for it in described.partitions]
    offsets = source.offsets(places).require()
    with Brokers(flow.source.connection) as brokers:
        reader = PartitionReader(
            brokers, Unproved.SOURCE_RETENTION, fetch_bytes=FETCH_BYTES, read_committed=committed
        )
        for place in places:
            end, first = offsets[place].readable_end(read_committed=committed), offsets[place].log_start
            within = range(max(first, end - sample), end)
            for item in reader.read(*place, within.start, within.stop):
                yield place, within, item


def previewed(
    batch: memoryview, chain: Chain, place: TopicPartition, start: int, end: int
) -> Iterator[PreviewedRecord]:
    """Yield the records of a batch at offsets [start, end), before and after.  Pure."""
    read = read_columns(batch, [0], checked=True)
    within = read.where((read.offsets >= start) & (read.offsets < end))
    made = _made(within, chain, place)
    for before in _raw(within):
        after = made.left.get(before.offset)
        error = made.errors.get(before.offset, "")
        if error:
            fate = Fate.FAILED
        elif after is None:
            fate = Fate.DROPPED
        else:
            fate = Fate.SAME if after.rest == before.rest else Fate.CHANGED
        yield PreviewedRecord(
            place.partition,
            before.offset,
            fate,
            excerpt(before, SHOWN_BYTES),
            None if after is None else excerpt(after, SHOWN_BYTES),
            error,
        )


@dataclass(slots=True)
class _Made:
    """Tell what a chain makes of records, by their offsets: those that stay, and errors."""

    left: dict[int, RawRecord] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)

    def add(self, records: Columns, chain: Chain, place: TopicPartition) -> None:
        """Apply the chain to records.  Raises FormatError if it cannot be applied to one."""
        self.left |= {it.offset: it for it in _raw(Transform(chain, place).columns(records))}


def _made(records: Columns, chain: Chain, place: TopicPartition) -> _Made:
    """Return what the chain makes of records, and why it cannot be applied to some.

    An error may be of all records together, such as that of a function that is not deterministic.
    """
    made = _Made()
    try:
        made.add(records, chain, place)
    except FormatError as error:
        together = error
    else:
        return made
    for row, offset in enumerate(records.offsets.tolist()):
        try:
            made.add(records.where(slice(row, row + 1)), chain, place)
        except FormatError as error:
            made.errors[offset] = error.message
    if not made.errors:
        at = together.data.get("offset", int(records.offsets[0]))
        made.errors[at] = together.message
        made.left.pop(at, None)
    return made


def _raw(records: Columns) -> Iterator[RawRecord]:
    for offset, timestamp, rest in records.one_by_one():
        yield RawRecord(offset, timestamp, bytes(rest))
