"""Prove at the source that producers have stopped, and send a canary over the way that every record takes.

The ends of the source's logs stand still for a while if nobody produces.  Heartbeats do not count: MM2 and twinlog
write them whether producers run or not, and the canary is one: a heartbeat as the flow in the opposite direction would
write it (MM2 writes heartbeats for disabled flows too).  So it leaves nothing unusual on the source.  The gate does
not copy it: the running Dag or `twinlog run` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from twinlog import clock
from twinlog.cluster.api import Cluster, ClusterReader, Clusters
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TwinlogError
from twinlog.facts.heartbeats import own_heartbeats, parsed_beat, remote_heartbeats, tail_of
from twinlog.facts.undecided import producer_of
from twinlog.formats.mm2.records import Heartbeat
from twinlog.grouped import without_keys
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring.heartbeats import write
from twinlog.topics.snapshot import all_partitions, copied_names
from twinlog.visible import listed

Ends = Answers[TopicPartition, PartitionOffsets]

LATELY_SECONDS = 600.0
"""Ends that were watched before that are watched anew."""


@dataclass(frozen=True, slots=True)
class Moving:
    """Topics that did not stand still.

    `written` names the producer that holds a transaction open in a topic, "" if none is known.  `unseen` says why a
    topic cannot be watched: nobody knows whether it is written to.  `ends` were read last, of the topics with these
    `ids`, at the moment `at` (`time.monotonic`).
    """

    written: Mapping[str, str]
    unseen: Mapping[str, str]
    ids: Mapping[str, str] = field(default_factory=dict)
    ends: Ends | None = None
    at: float = 0.0

    @property
    def topics(self) -> frozenset[str]:
        """All of them."""
        return frozenset({*self.written, *self.unseen})

    @property
    def reasons(self) -> tuple[str, ...]:
        """Say who writes, as far as it is known, and why a topic cannot be watched."""
        return (*sorted(filter(None, self.written.values())), *self._hidden)

    @property
    def _hidden(self) -> list[str]:
        return [f"{topic} ({why})" for topic, why in sorted(self.unseen.items())]

    def told(self, alias: str) -> str:
        """Say which are written to, and which cannot be watched, each with what to do about it."""
        writers = sorted(who or topic for topic, who in self.written.items())
        parts = (
            (f"still written to on {alias}", writers, "stop the producers, or let their transactions end"),
            (f"cannot be watched on {alias}", self._hidden, "let it be seen again"),
        )
        return "; ".join(f"{what}: {listed(names)}; {todo}" for what, names, todo in parts if names)


def moving_topics(
    flow: FlowSettings,
    source: ClusterReader,
    known: Collection[str],
    *,
    sleep: Callable[[float], None] = time.sleep,
    watched: Moving | None = None,
) -> Moving:
    """Watch the flow's topics for the configured time; return those that are written to or could not be watched.

    If the same topics were `watched` lately, the time since counts: it is compared with the ends of then.

    `known` are topics copied before: one that the source does not list any more may be hidden, and be written to.
    Raises ClusterUnreachable, ClusterRefused.
    """
    described = source.describe_topics(produced_topics(flow, source, known))
    partitions = all_partitions(described.found.values())
    ids = {description.name: description.topic_id for description in described.found.values()}
    if watched and watched.ends and watched.ids == ids and time.monotonic() < watched.at + LATELY_SECONDS:
        before = watched.ends
    else:
        before = source.offsets(partitions)
        sleep(flow.gate.fence_seconds)
    after = source.offsets(partitions)
    hidden = without_keys(described.refused, described.absent)
    leaderless = {at.topic: error for at, error in (*before.refused.items(), *after.refused.items())}
    unseen = {topic: error.message for topic, error in {**leaderless, **hidden}.items()}
    moving = moved(partitions, before, after)
    writing = {at for at in moving if at not in before.refused and at not in after.refused}
    written = {**{at.topic: "" for at in sorted(writing)}, **_writers(source, writing)}
    return Moving(written, unseen, ids, after, time.monotonic())


def _writers(source: ClusterReader, partitions: Iterable[TopicPartition]) -> Mapping[str, str]:
    """Name the producers with an open transaction in the partitions (KIP-664); no name if the source tells none."""
    if not (asked := sorted(partitions)):
        return {}
    try:
        holders = source.open_transactions(asked)
    except TwinlogError:
        return {}
    return {at.topic: f"{at.topic}-{at.partition}: {producer_of(it)}" for at, it in holders.found.items()}


def produced_topics(
    flow: FlowSettings, source: ClusterReader, known: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the flow's topics, and those `known`, that producers write to: all but heartbeats."""
    names = sorted({*copied_names(flow, source), *known})
    heartbeat_topics = own_heartbeats(flow, source, names)
    return tuple(name for name in names if name not in heartbeat_topics)


def moved(partitions: Iterable[TopicPartition], before: Ends, after: Ends) -> frozenset[TopicPartition]:
    """Return the partitions whose ends differ or are unknown, or that have open transactions.  Pure."""

    def stood_still(at: TopicPartition) -> bool:
        first, second = before.found.get(at), after.found.get(at)
        return first is not None and second is not None and first.end == second.end == second.stable_end

    return frozenset(partition for partition in partitions if not stood_still(partition))


POLL_SECONDS = 0.2


def fly(flow: FlowSettings, clusters: Clusters, sleep: Callable[[float], None]) -> float | None:
    """Write a heartbeat to the source, wait for it on the target, and return the seconds it took.

    Returns None if it did not arrive.  Raises TerminalError `canary` if the flow does not copy heartbeats,
    ClusterUnreachable and ClusterRefused.
    """
    if not flow.heartbeats_replication:
        raise TerminalError(
            f"{flow.name} copies no heartbeats (heartbeats.replication.enabled=false): a canary would not arrive",
            "ask the gate without --canary",
            code="canary",
        )
    beat = Heartbeat(flow.target.alias, flow.source.alias, clock.now_ms())
    return arrival(flow, clusters.source, beat, clusters.target, remote_heartbeats(flow), sleep)


def arrival(
    flow: FlowSettings,
    into: Cluster,
    beat: Heartbeat,
    out_of: ClusterReader,
    topic: str,
    sleep: Callable[[float], None],
) -> float | None:
    """Write a heartbeat, wait for it in a topic, and return the seconds it took; None if it did not appear in time.

    Raises ClusterUnreachable and ClusterRefused.
    """
    began = time.monotonic()
    write(flow, into, beat)
    while time.monotonic() < began + flow.gate.canary_seconds:
        if any(parsed_beat(record) == beat for record in tail_of(out_of, topic)):
            return round(time.monotonic() - began, 3)
        sleep(POLL_SECONDS)
    return None
