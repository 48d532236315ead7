"""Read the consistent cut of a flow from its target alone: by what lanes and drivers noted, and by the progress."""

from __future__ import annotations

from collections.abc import Iterator

from twinlog.batches.record import key_value_headers, read_records
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import NO_SUCH_TOPIC, PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.cut.history import History, history
from twinlog.cut.plan import Cut, NoCut, find
from twinlog.formats.ledger.audit import Unproved
from twinlog.formats.transactions import PARTITION, Look, Seen, parse
from twinlog.kafka_types import TopicPartition
from twinlog.logs.partition_reader import PartitionReader, require_whole
from twinlog.protocol.brokers import Brokers
from twinlog.state.ledger import Ledger
from twinlog.state.progress import read_progress

WINDOW_MS = 10 * 60_000
"""How much is read at first: the cut is some seconds old, unless a partition is behind."""

FETCH_BYTES = 8 << 20
NEWEST = 200
"""Records at the end of the topic that are read to find out when it was written to last."""


def read(flow: FlowSettings, target: ClusterReader, ledger: Ledger) -> Cut | NoCut:
    """Return the cut of what is copied by now.

    Raises TransientError `unsettled` while a transaction of a lane has no end in the topic, FormatError for a record in
    it that is not twinlog's, and errors of the target.
    """
    if not flow.copy.consistent_cut:
        return NoCut(f"twinlog.consistent.cut is off for {flow.name}")
    # Progress first: what it counts was noted in the same transactions, whose ends are waited for below.
    progress = read_progress(flow, target)
    lives = {topic: it.topic_id for topic, it in ledger.incarnations.items()}
    copied = {place: last + 1 for place, last in progress.items() if place.topic in lives}
    place = TopicPartition(flow.transactions_topic, PARTITION)
    described = target.describe_topics([place.topic])
    missing = (why := described.refused.get(place.topic)) is not None and why.code == NO_SUCH_TOPIC
    if missing or not ledger.recording:
        return NoCut("no run of the flow has noted transactions")
    described.require()
    log = target.offsets([place]).require()[place]
    for start in _starts(target, place, log):
        whole = start == log.log_start == 0
        known = history(_records(flow, place, start, log.end), ledger.recording, lives, whole=whole)
        found = find(known, copied, ledger.deleted)
        if isinstance(found, Cut):
            return found
        none = _with_recreated(found, known)
    return none


def _with_recreated(none: NoCut, known: History) -> NoCut:
    """Say also which topic kept the newest looks from counting."""
    if not known.recreated:
        return none
    return NoCut(
        f"the newest looks at the source saw another topic {known.recreated[0]} than the one that is copied, so they do"
        f" not count; of those before: {none.reason}"
    )


def _starts(target: ClusterReader, place: TopicPartition, log: PartitionOffsets) -> Iterator[int]:
    """Yield from where to read the topic: the newest part of it, and if that does not tell, all of it."""
    newest = target.read_records({place: max(log.log_start, log.end - NEWEST)}, NEWEST).get(place, ())
    if newest:
        recent = target.offsets_at([place], newest[-1].timestamp - WINDOW_MS).require()[place]
        if recent is not None and recent > log.log_start:
            yield recent
    yield log.log_start


def _records(flow: FlowSettings, place: TopicPartition, start: int, end: int) -> Iterator[Seen | Look]:
    """Yield the committed records in [start, end), and wait for their ends."""
    with Brokers(flow.target.connection) as brokers:
        reader = PartitionReader(brokers, Unproved.TARGET_RETENTION, fetch_bytes=FETCH_BYTES)
        # What has expired was older than anything that is needed.
        for batch in require_whole(reader.read(*place, start, end), place, "unsettled", expires=True):
            for record in read_records(*batch):
                key, value, _ = key_value_headers(record.rest)
                yield parse(key, value)
