"""The facts of one replicated topic: replicas, retention and what is at risk, on both sides.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twinlog.cluster.values import Configs, TopicDescription
from twinlog.fact import NOT_ASKED, Count, Total, Unknown, known, total
from twinlog.facts.partition import PartitionFacts

FOREVER = 2**53
"""The value of "no limit", such as of -1 in retention.ms and retention.bytes; exact as a float."""

SINCE_3_9 = "remote.log.delete.on.disable"
"""A config of topics that only brokers from 3.9 on know (KIP-950): they do not tell their version to clients."""


@dataclass(frozen=True, slots=True)
class TopicSide:
    """A topic on one of the two clusters: its layout, and the configuration entries that the cluster tells, by name."""

    description: TopicDescription
    configs: Configs

    def entry(self, name: str) -> str | Unknown:
        """Read an entry as it is written."""
        found = self.configs.get(name)
        what = name if self.configs else "any configuration of the topic"
        return known(found.value if found is not None else None, f"the cluster does not tell {what}")

    def number(self, name: str) -> int | Unknown:
        """Read an integer."""
        value = self.entry(name)
        return value if isinstance(value, Unknown) else int(value)

    def limit(self, name: str) -> int | Unknown:
        """Read a number; -1 means no limit."""
        number = self.number(name)
        return FOREVER if number == -1 else number

    @property
    def needed_in_sync(self) -> int | Unknown:
        """Return how many replicas in sync a producer with acks=all needs.

        Brokers from 3.7 on ask for no more than the topic has (KAFKA-15583); older ones then refuse every record.
        """
        wanted = self.number("min.insync.replicas")
        if isinstance(wanted, Unknown) or SINCE_3_9 not in self.configs:
            return wanted
        return min(wanted, self.description.replication_factor)

    @property
    def cleanup(self) -> frozenset[str] | Unknown:
        """Return the set of cleanup policies: their order means nothing."""
        value = self.entry("cleanup.policy")
        if isinstance(value, Unknown):
            return value
        return frozenset(part.strip() for part in value.split(","))


Side = TopicSide | Unknown | None
"""A topic on one cluster, that it cannot be described, or None: it is not there."""

Number = Count | None


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic of the flow as both clusters show it, or as the last cycle saw it and the target shows its copy.

    `partition_count` is what is known of the source.  `partitions` are those that could be looked at; `unseen` counts
    the others, and 1 for a topic that could not even be described.  `blocked` says that a problem stops it, `left_out`
    that the flow copies nothing of it any more.

    `missing` records are not on the target.  The oldest of them has waited for `age_seconds`, the oldest transaction is
    open for `undecided_seconds`; both are 0 if there is none.  `bytes` is an estimate.  `held_by` tells of the producer
    that holds the oldest transaction open, `drift` of the config entries that differ.
    """

    topic: str
    remote_topic: str
    partition_count: int
    missing: Total
    age_seconds: float | Unknown
    undecided_seconds: float | Unknown
    partitions: tuple[PartitionFacts, ...] = ()
    unseen: int = 0
    topic_id: str = ""
    copy_partitions: Count = 0
    source: Side = NOT_ASKED
    copy: Side = NOT_ASKED
    drift: tuple[str, ...] | Unknown = NOT_ASKED
    bytes: Count = NOT_ASKED
    held_by: str = ""
    heartbeats: bool = False
    blocked: bool = False
    left_out: bool = False

    @property
    def undecided(self) -> Total:
        """Count the records behind open transactions."""
        return total((partition.undecided_records for partition in self.partitions), self.missing.doubt)

    @property
    def lag(self) -> Total:
        """Count the records that can be copied, and are not."""
        return total((partition.uncopied for partition in self.partitions), self.missing.doubt)

    def lag_since(self, ms: int) -> Total:
        """Count them as a look at `ms` (epoch ms) or later saw them, in copies of others that were written to since."""
        doubt = self.missing.doubt if self.unseen else ""
        return total((partition.uncopied_since(ms) for partition in self.partitions), doubt)


_KEPT = {
    "retention_ms": lambda it: it.limit("retention.ms"),
    "retention_bytes": lambda it: it.limit("retention.bytes"),
    "max_message_bytes": lambda it: it.number("max.message.bytes"),
}
"""Read what each side keeps and takes, by the end of its columns' names."""


def topic_columns(source: Side, target: Side, target_brokers: int) -> Mapping[str, Number]:
    """Compare a topic with its copy.

    A copy cannot have more replicas than the target has brokers, nor more in-sync replicas.
    """
    replicas = _of(target, lambda it: it.description.replication_factor)
    wanted = _least(_of(source, lambda it: it.description.replication_factor), target_brokers)
    return {
        "target_replicas": replicas,
        "wanted_replicas": wanted,
        "target_min_insync": _of(target, lambda it: it.number("min.insync.replicas")),
        "wanted_min_insync": _least(_of(source, lambda it: it.number("min.insync.replicas")), replicas),
        "leaderless_partitions": _of(
            target, lambda it: sum(one.leader < 0 for one in it.description.partitions)
        ),
        "needed_in_sync": _of(target, lambda it: it.needed_in_sync),
        "fewest_in_sync": _of(target, _fewest_in_sync),
        **{
            f"{where}_{column}": _of(side, number)
            for where, side in (("source", source), ("target", target))
            for column, number in _KEPT.items()
        },
        "cleanup_differs": _differs(source, target),
    }


def drift_of(row: Mapping[str, Number]) -> tuple[str, ...]:
    """Return the entries in which the copy falls behind its source, and those that a side does not tell."""
    pairs = (
        ("retention.ms", "source_retention_ms", "target_retention_ms"),
        ("retention.bytes", "source_retention_bytes", "target_retention_bytes"),
        ("max.message.bytes", "source_max_message_bytes", "target_max_message_bytes"),
        ("min.insync.replicas", "wanted_min_insync", "target_min_insync"),
        ("replication factor", "wanted_replicas", "target_replicas"),
    )
    found = [
        f"{entry}: {_shown(wanted)} on the source, {_shown(has)} on the target"
        for entry, left, right in pairs
        if (wanted := row[left]) is not None and (has := row[right]) is not None and _behind(has, wanted)
    ]
    differs = row["cleanup_differs"]
    if isinstance(differs, Unknown):
        return (*found, f"cleanup.policy: not known ({differs.why})")
    return (*found, "cleanup.policy differs") if differs else tuple(found)


def _behind(has: Number, wanted: Number) -> bool:
    return not (isinstance(has, int) and isinstance(wanted, int)) or has < wanted


def _shown(number: Number) -> str:
    if isinstance(number, Unknown):
        return f"not known ({number.why})"
    return "no limit" if number == FOREVER else str(number)


def _of(side: Side, number: Callable[[TopicSide], int | Unknown]) -> Number:
    return number(side) if isinstance(side, TopicSide) else side


def _least(wanted: Number, possible: Number) -> Number:
    if isinstance(wanted, int) and isinstance(possible, int):
        return min(wanted, possible)
    return None if wanted is None or possible is None else wanted if isinstance(wanted, Unknown) else possible


def _fewest_in_sync(side: TopicSide) -> int | Unknown:
    counts = [len(partition.in_sync) for partition in side.description.partitions]
    return min(counts) if counts else Unknown("the copy has no partition")


def _differs(source: Side, target: Side) -> Number:
    if source is None or target is None:
        return None
    ours = source.cleanup if isinstance(source, TopicSide) else source
    theirs = target.cleanup if isinstance(target, TopicSide) else target
    if isinstance(ours, Unknown):
        return ours
    return theirs if isinstance(theirs, Unknown) else int(ours != theirs)
