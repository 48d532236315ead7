"""Read the quarantine of a flow: what its ledger notes, and where the bytes are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from twinlog.batches.quarantine import Origin, Part, read_part
from twinlog.batches.record import Record, read_records
from twinlog.cluster.api import Clusters
from twinlog.cluster.values import NO_SUCH_TOPIC
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError, TransientError
from twinlog.formats.ledger.audit import Unproved
from twinlog.kafka_types import OfIncarnation, TopicPartition
from twinlog.logs.partition_reader import Lost, PartitionReader
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers
from twinlog.state.ledger import Ledger, read_ledger

FETCH_BYTES = 4 << 20


class Kept(StrEnum):
    """Say what is left of a record that was written aside.

    `held`: the quarantine topic holds it.  `gone`: only the ledger knows of it, the topic was emptied or deleted.
    `unlisted`: the topic holds it, and the ledger does not know of it any more, since the copy was rebuilt or deleted.
    """

    HELD = "held"
    GONE = "gone"
    UNLISTED = "unlisted"


@dataclass(frozen=True, slots=True)
class Aside:
    """A record that was written aside, in one part or several.

    It lies at `first_offset` to `last_offset` (downstream) of the quarantine topic.  `size` are the bytes of its key
    and value.
    """

    origin: Origin
    timestamp_ms: int
    reason: str
    size: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Quarantined(OfIncarnation):
    """A record of the source that the target cannot hold, and so is not in the copy.

    `offset` is upstream.  `place` names where its bytes are on the target, "" for nowhere.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    reason: str
    state: Kept
    place: str = ""
    size: int | None = None
    at_ms: int | None = None
    timestamp_ms: int | None = None


def listed(flow: FlowSettings, clusters: Clusters) -> tuple[Quarantined, ...]:
    """List what was written aside, by topic, partition and offset.

    Raises TransientError if the quarantine topic cannot be read to its end, FormatError for a record in it that is no
    record of the quarantine, and errors of the target.
    """
    before = read_ledger(flow, clusters.target)
    with Brokers(flow.target.connection) as brokers:
        held = list(read(flow, clusters, brokers))
    # The flow may write aside meanwhile: what is held is noted by now, and what was noted before was held by then.
    found = rows(flow.quarantine_topic, read_ledger(flow, clusters.target), held)
    known = {(*it.life, it.offset) for it in rows(flow.quarantine_topic, before, ())}
    return tuple(it for it in found if it.state is not Kept.GONE or (*it.life, it.offset) in known)


def rows(quarantine_topic: str, ledger: Ledger, held: Iterable[Aside]) -> tuple[Quarantined, ...]:
    """Put together what the ledger notes and what the topic holds.  Pure."""
    found: dict[Origin, Quarantined] = {}
    for note in ledger.quarantined:
        origin = Origin(*note.life, note.offset)
        found[origin] = Quarantined(*origin, note.reason, Kept.GONE, at_ms=note.at_ms)
    for aside in held:
        origin = aside.origin
        known = found.get(origin) or Quarantined(*origin, aside.reason, Kept.UNLISTED)
        found[origin] = replace(
            known,
            reason=aside.reason,
            state=Kept.UNLISTED if known.state is Kept.UNLISTED else Kept.HELD,
            place=f"{quarantine_topic}-0 at {_span(aside)}",
            size=aside.size,
            timestamp_ms=aside.timestamp_ms,
        )
    return tuple(found[origin] for origin in sorted(found))


def _span(aside: Aside) -> str:
    first, last = aside.first_offset, aside.last_offset
    return str(first) if first == last else f"{first} to {last}"


def read(flow: FlowSettings, clusters: Clusters, brokers: Brokers) -> Iterator[Aside]:
    """Yield the records of the quarantine topic, in order, each once; nothing while the topic does not exist.

    All that was written when this began is waited for.  Raises TransientError if a transaction there stays open
    (`unsettled`), or a part of the log cannot be read, and errors of the target.
    """
    described = clusters.target.describe_topics([flow.quarantine_topic])
    error = described.refused.get(flow.quarantine_topic)
    if error is not None and error.code == NO_SUCH_TOPIC:
        return
    described.require()
    at = TopicPartition(flow.quarantine_topic, 0)
    start, end = (
        brokers.offsets([at], EARLIEST)[at],
        brokers.offsets([at], LATEST)[at],
    )
    reader = PartitionReader(brokers, Unproved.TARGET_RETENTION, fetch_bytes=FETCH_BYTES)
    joining = Joining()
    for item in reader.read(*at, start, end):
        if isinstance(item, Lost):
            raise TransientError(
                f"{at.topic}-{at.partition} cannot be read from {item.start} to {item.end - 1}: {item.reason.value}",
                hint="see that its leader is up, and that its log is whole",
                code="quarantine",
            )
        for batch in item.batches():
            for record in read_records(*batch):
                yield from joining.take(record.offset, _part(at, record))


def _part(at: TopicPartition, record: Record) -> Part:
    try:
        return read_part(record.rest)
    except FormatError as error:
        place = f"offset {record.offset} of {at.topic}-{at.partition}"
        raise FormatError(
            f"{place}: {error.message}", hint=error.hint, code=error.code, record=place
        ) from None


class Joining:
    """Join the parts of records, which may lie between those of other lanes; a record that comes again is left out."""

    def __init__(self) -> None:
        self._waiting: dict[Origin, tuple[int, Aside]] = {}
        self._done: set[Origin] = set()

    def take(self, offset: int, part: Part) -> Iterator[Aside]:
        """Take the next record of the log; yield the one that it completes."""
        origin = part.origin
        if origin in self._done:
            return
        one = Aside(origin, part.timestamp_ms, part.reason, part.size, offset, offset)
        before, begun = self._waiting.pop(origin, (0, one))
        # A lane without transactions that died in the middle of a record has begun it anew.
        if part.number not in {1, before + 1}:
            return
        if part.number > 1:
            one = replace(begun, size=begun.size + part.size, last_offset=offset)
        if part.number < part.count:
            self._waiting[origin] = part.number, one
            return
        self._done.add(origin)
        yield one
