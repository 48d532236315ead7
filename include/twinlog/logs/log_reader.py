"""Read a compacted topic's latest committed value per key, resolving transactions by their markers.

A `StateLog` that is read again continues where it stopped, so a driver that fences every minute, and steps that read
every few seconds, pay only for new records.

The reader is not a read_committed consumer. Such a consumer stops at the last stable offset, so a foreign open
transaction in the same partition would hide our own committed record behind it. Instead everything up to the high
watermark taken at the start is read, and a transactional batch counts if its producer's next marker says COMMIT:

    our batch | foreign batch | our COMMIT | our batch | our COMMIT | ...   high watermark
              ^ last stable offset, while the foreign transaction is open; read_committed consumers stop here

A transaction without a marker is not committed. After a fence no transaction of ours lacks its marker, unless the
target lost the marker (lane/fence/fence.py).
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from twinlog.errors import ClusterRefused, FormatError, TerminalError, TransientError, TwinlogError
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.logs import cache
from twinlog.logs.log_state import LogState, Resolver, state_of
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers, TopicMetadata
from twinlog.protocol.errors import AUTHORIZATION, Code, Request, error_for, repeats
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.kept_brokers import KeptBrokers
from twinlog.protocol.leader_epochs import ReadUpTo, diverged_at, epoch_ends
from twinlog.protocol.legacy import naming
from twinlog.protocol.wire import Fetched

log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 30.0

_PAUSE_SECONDS = 0.05


def read_while(
    brokers: Brokers,
    fetcher: Fetcher,
    positions: dict[TopicPartition, int],
    unfinished: Callable[[TopicPartition], bool],
    take: Callable[[Fetched], int],
    gone: Callable[[TopicPartition, TwinlogError], object] = lambda partition, error: None,
) -> None:
    """Fetch partitions from `positions` on, and move these, as long as they are `unfinished`.

    `take` receives each answer with a block, and returns the position behind it.  `gone` receives partitions that no
    longer exist or may not be seen, with the reason.  Raises TransientError (`unsettled`) if no partition advances for
    half a minute, the errors of a cluster that cannot be reached or refuses, and the errors that `take` raises.
    """
    moved_at = time.monotonic()
    while wanted := {item: at for item, at in positions.items() if unfinished(item)}:
        for partition, error in fetcher.request(wanted).items():
            gone(partition, error)
        moved = False
        for answer in fetcher.answers():
            for fetched in answer:
                moved |= _advance(brokers, fetched, positions, take)
        if moved:
            moved_at = time.monotonic()
            continue
        time.sleep(random.uniform(0, _PAUSE_SECONDS))
        if time.monotonic() - moved_at > _PATIENCE_SECONDS:
            raise TransientError(
                f"cluster {brokers.settings.alias} does not serve {next(iter(wanted))[0]} to its end",
                code="unsettled",
                cluster=brokers.settings.alias,
            )


def refuse(_: TopicPartition, error: TwinlogError) -> NoReturn:
    """Raise why a partition cannot be read."""
    raise error


def _advance(
    brokers: Brokers,
    fetched: Fetched,
    positions: dict[TopicPartition, int],
    take: Callable[[Fetched], int],
) -> bool:
    """Move the position of a partition behind an answer, or behind records that were deleted; say whether it moved."""
    item = fetched.topic_partition
    if item not in positions:
        return False
    before = following = positions[item]
    if not fetched.error:
        following = take(fetched)
    elif repeats(Request.FETCH, fetched.error):
        brokers.forget_leaders()
    elif fetched.error in AUTHORIZATION:
        raise _not_allowed(brokers, "read", "READ", fetched.topic)
    else:
        if fetched.error == Code.OFFSET_OUT_OF_RANGE:
            following = brokers.offsets([item], EARLIEST)[item]
        if following <= before:
            doing = f"a fetch of {fetched.topic}-{fetched.partition}"
            raise error_for(fetched.error, doing, brokers.settings.alias)
    positions[item] = following
    return following > before


COSTLY_RECORDS = 50_000
"""As many records read at once are worth a cache: reading them takes about a quarter of a second."""

_FETCH_BYTES = 8 << 20


class StateLog:
    """One compacted topic that is read again and again.  Single-threaded.

    Invariant: `read` returns the same as reading from the beginning would.  Reading starts from the beginning for

    - a topic that was deleted and recreated in between (another topic id, or another cluster),
    - a partition whose log was truncated since, even if it has grown beyond that again (told by leader epochs),
    - the whole topic, if the last reading is so long ago that tombstones may have come and gone.

    With `cached`, a large topic is kept on this machine for the next process (logs/cache.py).  `overshadowed` is then
    empty.
    """

    def __init__(self, topic: str, *, cached: bool = False) -> None:
        self._topic = topic
        self._cached = cached
        self._incarnation = ("", "")
        self._led: dict[int, int] = {}
        self._read_at = 0.0
        self._resolvers: dict[TopicPartition, Resolver] = {}
        self._positions: dict[TopicPartition, int] = {}

    def read(self, brokers: Brokers) -> LogState:
        """Read up to the current high watermarks, and return the resulting state.

        Raises TerminalError if the topic does not exist, FormatError if it is damaged, TransientError if the cluster
        does not serve it.
        """
        self.catch_up(brokers)
        return state_of(self._resolvers.values())

    def catch_up(self, brokers: Brokers) -> None:
        """Read as `read` does, for callers that use only `records`."""
        self._follow_topic(brokers, _described(brokers, self._topic))
        before = sum(self._positions.values())
        _read_to_the_end(brokers, self._positions, self._resolvers)
        read = sum(self._positions.values()) - before
        log.debug("%s was read on by %d offsets", self._topic, read)
        if self._cached and read >= COSTLY_RECORDS:
            self._save()
        for resolver in self._resolvers.values():
            resolver.forget_deleted()

    @property
    def records(self) -> dict[bytes, ReadRecord]:
        """Return the records found by the last reading, with offsets and times; tombstoned keys are left out."""
        return {
            key: record
            for resolver in self._resolvers.values()
            for key, record in resolver.committed.items()
            if record.value is not None
        }

    def gained(self, since: Mapping[int, int]) -> tuple[dict[bytes, ReadRecord], dict[int, int]]:
        """Return the records found at or behind `since`, by partition, and where to go on from.

        Going on from there finds every record that is committed later, those with an open transaction now included,
        and some once more.  A partition that was read anew from before `since` is found whole.
        """
        found: dict[bytes, ReadRecord] = {}
        reached: dict[int, int] = {}
        for (_, number), resolver in self._resolvers.items():
            open_offsets = (record.offset for records in resolver.undecided.values() for _, record in records)
            position = self.position(number)
            reached[number] = min(open_offsets, default=position)
            first = since.get(number, 0)
            first = first if first <= position else 0
            found |= {
                key: record
                for key, record in resolver.committed.items()
                if record.offset >= first and record.value is not None
            }
        return found, reached

    def position(self, partition: int) -> int:
        """Return the offset up to which the last reading has read a partition."""
        return self._positions[TopicPartition(self._topic, partition)]

    def _follow_topic(self, brokers: Brokers, metadata: TopicMetadata) -> None:
        incarnation, now = (metadata.cluster_id, metadata.topic_id), time.time()
        slept = not 0 <= now - self._read_at < cache.MAX_AGE_SECONDS
        if incarnation != self._incarnation or slept:
            self._resolvers, self._positions, self._led, self._incarnation = {}, {}, {}, incarnation
            if self._cached and all(incarnation):
                self._load()
        self._read_at = now
        for number in sorted(metadata.leaders):
            self._resolvers.setdefault(
                TopicPartition(self._topic, number), Resolver(number, sees_all=not self._cached)
            )
            self._positions.setdefault(TopicPartition(self._topic, number), 0)
        self._forget_what_was_cut(brokers, metadata)

    def _forget_what_was_cut(self, brokers: Brokers, metadata: TopicMetadata) -> None:
        """Ask whether logs still hold what was read; if not, or if there is no answer, read the partition again.

        Only a new leader truncates a log.  So the question is asked for partitions that have a new leader, or whose
        records were read by another process.
        """
        asked = {
            item: ReadUpTo(self._resolvers[item].epoch, position)
            for item, position in self._positions.items()
            if position and self._led.get(item[1]) != metadata.epochs.get(item[1], -1)
        }
        known = {item: read for item, read in asked.items() if read.epoch >= 0}
        ends = epoch_ends(brokers, known) if known else {}
        for item, read in asked.items():
            if item not in ends or diverged_at(read.epoch, ends[item], read.next_offset) is not None:
                self._resolvers[item].forget()
                self._positions[item] = 0
        self._led = {number: metadata.epochs.get(number, -1) for number in metadata.leaders}

    def _load(self) -> None:
        for number, it in (cache.load(self._cache_file()) or {}).items():
            kept = {
                key: ReadRecord(offset, timestamp, key, value, number)
                for key, (offset, value, timestamp) in it.records.items()
            }
            self._resolvers[TopicPartition(self._topic, number)] = Resolver(
                number, committed=kept, sees_all=False, epoch=it.epoch
            )
            self._positions[TopicPartition(self._topic, number)] = it.position

    def _cache_file(self) -> Path:
        cluster_id, topic_id = self._incarnation
        return cache.cache_file(cluster_id, self._topic, topic_id)

    def _save(self) -> None:
        """Save the decided records; a partition with an open transaction is read from the beginning next time."""
        partitions = {
            number: cache.CachedPartition(
                self._positions[TopicPartition(topic, number)],
                {
                    key: (it.offset, it.value, it.timestamp)
                    for key, it in resolver.committed.items()
                    if it.value is not None
                },
                resolver.epoch,
            )
            for (topic, number), resolver in self._resolvers.items()
            if not resolver.undecided
        }
        if all(self._incarnation):
            cache.clear(cache.folder())
            cache.save(self._cache_file(), partitions)


def read_state(brokers: Brokers, topic: str) -> LogState:
    """Read `topic` once, up to the current high watermarks.  Raises as `StateLog.read`."""
    return StateLog(topic).read(brokers)


def _described(brokers: Brokers, topic: str) -> TopicMetadata:
    metadata = brokers.metadata([topic])[topic]
    if metadata.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
        raise TerminalError(
            f"topic {topic} does not exist on cluster {brokers.settings.alias}",
            hint="run a cycle first, which creates twinlog's topics",
            code="no-internal-topic",
            topic=topic,
        )
    if metadata.error in AUTHORIZATION:
        raise _not_allowed(brokers, "see", "DESCRIBE", topic)
    if metadata.error:
        raise error_for(metadata.error, f"metadata of {topic}", brokers.settings.alias)
    return metadata


def _not_allowed(brokers: Brokers, doing: str, right: str, topic: str) -> ClusterRefused:
    alias = brokers.settings.alias
    return ClusterRefused(
        f"{alias} does not allow this user to {doing} topic {topic}",
        hint=f"grant {right} on topic {topic}",
        code="unauthorised",
        cluster=alias,
        topic=topic,
    )


class StateReader:
    """Read the state topics of one cluster, each from where its last reading stopped.  Single-threaded."""

    def __init__(self, brokers: KeptBrokers) -> None:
        self._brokers = brokers
        self._logs: dict[str, StateLog] = {}

    def latest(self, topic: str) -> dict[bytes, bytes | None]:
        """Return the latest committed value per key, without tombstoned keys.  Raises as `StateLog.read`."""
        return {key: record.value for key, record in self.latest_records(topic).items()}

    def latest_records(self, topic: str) -> dict[bytes, ReadRecord]:
        """Return the latest committed record per key, without tombstoned keys.  Raises as `StateLog.read`."""
        log = self.log(topic)
        with self._brokers.lent() as brokers:
            log.catch_up(brokers)
        return log.records

    def gained(self, topic: str, since: Mapping[int, int]) -> tuple[dict[bytes, ReadRecord], dict[int, int]]:
        """Read on, and return what `StateLog.gained` does.  Raises as `StateLog.read`."""
        log = self.log(topic)
        with self._brokers.lent() as brokers:
            log.catch_up(brokers)
        return log.gained(since)

    def log(self, topic: str) -> StateLog:
        """Return a topic as it was last read."""
        return self._logs.setdefault(topic, StateLog(topic, cached=True))


def _read_to_the_end(
    brokers: Brokers, positions: dict[TopicPartition, int], resolvers: Mapping[TopicPartition, Resolver]
) -> None:
    starts = brokers.offsets(positions, EARLIEST)
    ends = brokers.offsets(positions, LATEST)
    for item, start in starts.items():
        if (
            ends[item] < positions[item]
        ):  # an unclean election cut the log: what we know of it is not true any more
            resolvers[item].forget()
            positions[item] = 0
        resolvers[item].forget_before(start)
        positions[item] = max(start, positions[item])
    fetcher = Fetcher(brokers, max_bytes=_FETCH_BYTES, partition_max_bytes=_FETCH_BYTES, read_committed=False)

    def take(fetched: Fetched) -> int:
        item = fetched.topic_partition
        try:
            with naming(fetched, brokers.settings.alias):
                return resolvers[item].add(fetched.block, positions[item])
        except FormatError:
            # Part of the block was taken, and reading it again would decide some of its transactions twice.
            resolvers[item].forget()
            positions[item] = 0
            raise

    read_while(brokers, fetcher, positions, lambda item: positions[item] < ends[item], take)
