"""Tell a recreated topic from the one that was copied on a source without topic ids: by records that both sides hold.

Kafka before 2.8 gives topics no ids (KIP-516), and a topic that is deleted, created again and filled beyond progress
answers as if nothing had happened.  So two records are compared with their copies: the oldest and the newest copied
one that the source may still have.  A recreated topic has other records there, in every partition; one partition that
shows it, or shows the contrary, is enough.

    upstream   0 . . . . 40 ........................ 90 | progress      log start: 40
                         ^ oldest copied             ^ newest copied

The newest one is missing if it was compacted away; the oldest one also shows a topic that was recreated and copied on
before anybody looked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.prints import Fingerprint
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger
from twinlog.state.progress import PackedMaps
from twinlog.topics.discovery import SourceState, TargetState

_PARTITIONS = 4
"""Partitions of a topic that are looked at until one tells."""


class Witness(NamedTuple):
    """A copied record by its partition and both offsets."""

    partition: int
    upstream: int
    downstream: int


def unidentified(source: SourceState, ledger: Ledger) -> frozenset[str]:
    """Return the copied topics whose ids do not tell whether they were recreated.  Pure."""
    return frozenset(
        name
        for name, it in source.topics.found.items()
        if name in ledger.incarnations and not (it.topic_id and ledger.incarnations[name].topic_id)
    )


def other_logs(
    flow: FlowSettings,
    clusters: Clusters,
    source: SourceState,
    target: TargetState,
    ledger: Ledger,
    maps: PackedMaps,
) -> Mapping[str, Witness]:
    """Return the topics without an id whose log is not the one that was copied, each with the record that differs.

    Costs two or four small reads a topic.  A record that cannot be read shows nothing.
    """
    found = {}
    for topic in unidentified(source, ledger):
        copied = ledger.incarnations[topic]
        changed = bool(flow.transforms.of(flow.remote_name(topic)))
        lives = sorted(life for life in maps if (life.topic, life.topic_id) == (topic, copied.topic_id))
        for life in lives[:_PARTITIONS]:
            at, copy = life.topic_partition, TopicPartition(copied.remote_topic, life.partition)
            known = _open(maps, life)
            if known is None or at not in source.offsets.found or copy not in target.offsets.found:
                continue
            seen = {
                witness: same_record(
                    _seen_at(clusters.source, at, witness.upstream),
                    _seen_at(clusters.target, copy, witness.downstream),
                    changed=changed,
                )
                for witness in witnesses(known, life.partition, source.offsets.found[at].log_start)
            }
            differing = next((it for it, same in seen.items() if same is False), None)
            if differing is not None:
                found[topic] = differing
            if any(same is not None for same in seen.values()):
                break
    return found


def witnesses(known: OffsetMap, partition: int, log_start: int) -> tuple[Witness, ...]:
    """Return the oldest and the newest copied record at or behind the source's log start, if there are any.  Pure."""
    first = known.first_at(log_start)
    if first is None:
        return ()
    last = int(known.length[-1]) - 1
    newest = Witness(partition, int(known.upstream[-1]) + last, int(known.downstream[-1]) + last)
    return tuple(dict.fromkeys((Witness(partition, *first), newest)))


def same_record(ours: Fingerprint | None, theirs: Fingerprint | None, *, changed: bool) -> bool | None:
    """Say whether a record of the source is the one that was copied; None if that cannot be told.  Pure.

    A copy under LogAppendTime has a later time than its record.  `changed`: transforms may have changed all but the
    time.
    """
    if ours is None or theirs is None:
        return None
    if ours.timestamp == theirs.timestamp:
        return True if ours.content == theirs.content else None if changed else False
    if changed:
        return None
    return None if ours.content == theirs.content and theirs.timestamp > ours.timestamp else False


def _open(maps: PackedMaps, life: SourceIncarnation) -> OffsetMap | None:
    try:
        return maps[life].open()
    except UnreadableMap:  # other checks say so
        return None


def record_at(cluster: ClusterReader, at: TopicPartition, offset: int) -> Fingerprint | None:
    """Fingerprint the record at exactly this offset; None if there is none."""
    found = cluster.record_prints(at, offset, 1)
    return found[0] if found and found[0].offset == offset else None


def _seen_at(cluster: ClusterReader, at: TopicPartition, offset: int) -> Fingerprint | None:
    try:
        return record_at(cluster, at, offset)
    except TwinlogError:
        # No leader at this moment, no right to read the copy, a damaged batch: others say so.
        return None
