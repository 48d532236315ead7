"""Read the quarantine of a flow: what its ledger notes, and where the bytes are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from twinlog.batches.quarantine import Origin, Part, read_part
from twinlog.batches.record import Record, read_records
from twinlog.cluster.open import Clusters
from twinlog.cluster.values import NO_SUCH_TOPIC
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FormatError
from twinlog.formats.ledger.audit import Unproved
from twinlog.formats.ledger.records import Gap, GapCause, Quarantine, QuarantineReplayed
from twinlog.kafka_types import OfPartition, TopicPartition
from twinlog.logs.partition_reader import PartitionReader, require_whole
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
    """A record that was written aside, as the quarantine topic holds it: whole, joined of its parts.

    It lies at `first_offset` to `last_offset` (downstream) of the quarantine topic.
    """

    part: Part
    first_offset: int
    last_offset: int

    @property
    def origin(self) -> Origin:
        """Where the record comes from."""
        return self.part.origin

    @property
    def size(self) -> int:
        """The bytes of its key and value."""
        return len(self.part.key or b"") + len(self.part.value or b"")


@dataclass(frozen=True, slots=True)
class Quarantined(OfPartition):
    """A record of the source that the target cannot hold, or a damaged batch, and so is not in the copy.

    `offset` is upstream; `last_offset` is a batch's last one, None for a record.  `place` names where its bytes are on
    the target, "" for nowhere.  `replayed_to` are topics of the target that `twinlog quarantine replay` wrote it to.
    """

    topic: str
    topic_id: str
    partition: int
    offset: int
    reason: str
    state: Kept
    last_offset: int | None = None
    place: str = ""
    size: int | None = None
    at_ms: int | None = None
    timestamp_ms: int | None = None
    replayed_to: tuple[str, ...] = ()

    @property
    def origin(self) -> Origin:
        """Where it comes from."""
        return Origin(self.topic, self.topic_id, self.partition, self.offset)


def listed(flow: FlowSettings, clusters: Clusters) -> tuple[Quarantined, ...]:
    """List what was written aside, by topic, partition and offset.

    Raises TransientError if the quarantine topic cannot be read to its end, FormatError for a record in it that is no
    record of the quarantine, and errors of the target.
    """
    before = read_ledger(flow, clusters.target)
    with Brokers(flow.target.connection) as brokers:
        held = [_bare(it) for it in read(flow, clusters, brokers)]
    # The flow may write aside meanwhile: what is held is noted by now, and what was noted before was held by then.
    found = rows(flow.quarantine_topic, read_ledger(flow, clusters.target), held)
    known = {it.origin for it in rows(flow.quarantine_topic, before, ())}
    return tuple(it for it in found if it.state is not Kept.GONE or it.origin in known)


def _bare(aside: Aside) -> tuple[Aside, int]:
    """Return a record without its contents, and its size: a list needs no more memory than its lines."""
    bare = replace(aside.part, key=None, value=None, headers=())
    return replace(aside, part=bare), aside.size


def rows(quarantine_topic: str, ledger: Ledger, held: Iterable[tuple[Aside, int]]) -> tuple[Quarantined, ...]:
    """Put together what the ledger notes and what the topic holds.  Pure."""
    replayed: defaultdict[Origin, list[str]] = defaultdict(list)
    for it in ledger.replayed:
        replayed[noted_at(it)].append(it.to_topic)
    found: dict[Origin, Quarantined] = {}
    for note in ledger.quarantined:
        origin = noted_at(note)
        found[origin] = Quarantined(
            *origin, note.reason, Kept.GONE, at_ms=note.at_ms, replayed_to=tuple(replayed[origin])
        )
    for gap in ledger.gaps:
        if gap.cause is GapCause.QUARANTINE:
            origin = damaged_at(gap)
            found[origin] = Quarantined(
                *origin,
                "damaged",
                Kept.GONE,
                last_offset=gap.last_offset,
                at_ms=gap.at_ms,
                replayed_to=tuple(replayed[origin]),
            )
    for aside, size in held:
        origin = aside.origin
        known = found.get(origin) or Quarantined(
            *origin, aside.part.reason, Kept.UNLISTED, replayed_to=tuple(replayed[origin])
        )
        found[origin] = replace(
            known,
            reason=aside.part.reason,
            state=Kept.UNLISTED if known.state is Kept.UNLISTED else Kept.HELD,
            place=f"{quarantine_topic}-0 at {_span(aside)}",
            size=size,
            timestamp_ms=aside.part.timestamp_ms,
        )
    return tuple(found[origin] for origin in sorted(found))


def noted_at(it: Quarantine | QuarantineReplayed) -> Origin:
    """Return where that of which the ledger has a note comes from."""
    return Origin(it.topic, it.topic_id, it.partition, it.offset)


def damaged_at(gap: Gap) -> Origin:
    """Return where a damaged batch that was skipped begins."""
    return Origin(gap.topic, gap.topic_id, gap.partition, gap.first_offset)


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
    for batch in require_whole(reader.read(*at, start, end), at, "quarantine-unreadable"):
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
        self._waiting: dict[Origin, list[tuple[int, Part]]] = {}
        self._done: set[Origin] = set()

    def take(self, offset: int, part: Part) -> Iterator[Aside]:
        """Take the next record of the log; yield the one that it completes."""
        origin = part.origin
        if origin in self._done:
            return
        before = self._waiting.get(origin, [])
        if part.number != len(before) + 1:
            # A lane without transactions died in the middle of a record, and it was begun anew.
            before = []
        if part.number != len(before) + 1:
            self._waiting.pop(origin, None)
            return
        parts = [*before, (offset, part)]
        if part.number < part.count:
            self._waiting[origin] = parts
            return
        self._waiting.pop(origin, None)
        self._done.add(origin)
        first = parts[0][1]
        value = first.value if part.count == 1 else b"".join(it.value or b"" for _, it in parts)
        yield Aside(replace(first, number=1, count=1, value=value), parts[0][0], offset)
