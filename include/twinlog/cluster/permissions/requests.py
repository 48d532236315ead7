"""List the requests of Kafka's protocol that a flow sends, and what happens on a cluster that refuses one.  Pure.

Managed clusters forbid some of them, and old ones do not have them.  docs/refused-requests.md shows this table, and
tests try each row on real brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from twinlog.config.flow.settings import FlowSettings


class Cost(StrEnum):
    """Say what a cycle does without a request."""

    NOTHING = "nothing is copied"
    NEW_TOPICS = "topics without a copy wait; the others are copied"
    NEW_PARTITIONS = "new partitions wait; the others are copied"
    SYNCS_AND_BEATS = "MM2's offset syncs and heartbeats for the reverse flow are not written"
    GROUPS = "groups are not synced"
    SEEN_IF_SHORTER = (
        "such a loss is noticed only if a log is shorter; a partition whose leader changes in a copy stops"
    )
    STATE_ANEW = "state is read from its beginning each time"
    GUARDED = "nothing is missing: brokers themselves move no group that is in use"
    CONFIGS = "settings are not synced"
    ACLS = "ACLs are not synced"
    QUOTAS = "quotas are not synced"
    LANES = "lanes are assigned by offsets"
    DISKS = "the gate warns"
    OWNER = "its producer is not named"
    APPLICATION = "only its producer's id is named"

    @property
    def stops(self) -> bool:
        """Say whether a cycle fails, because it copies nothing, or not all that it should."""
        return self in STOPPING

    def matters(self, flow: FlowSettings) -> bool:
        """Say whether the flow does what would be missing."""
        return self not in DOES or DOES[self](flow)


STOPPING = frozenset({Cost.NOTHING, Cost.NEW_TOPICS, Cost.NEW_PARTITIONS})


DOES: Mapping[Cost, Callable[[FlowSettings], bool]] = {
    Cost.NEW_PARTITIONS: lambda flow: flow.refresh_topics,
    Cost.SYNCS_AND_BEATS: lambda flow: (
        (flow.emit_offset_syncs and flow.offset_syncs_topic_location == "source")
        or flow.reverse_heartbeats is not None
    ),
    Cost.GROUPS: lambda flow: flow.emit_checkpoints or flow.sync_group_offsets,
    Cost.CONFIGS: lambda flow: flow.sync_topic_configs,
    Cost.ACLS: lambda flow: flow.sync_topic_acls,
    Cost.QUOTAS: lambda flow: flow.metadata.quotas,
    Cost.GUARDED: lambda _: False,
}
"""Whether a flow does what would be missing; what is not listed, each flow does."""


@dataclass(frozen=True, slots=True)
class Use:
    """One request to one side of a flow: what it is needed to, and the cost of doing without.

    `only` says when it is sent, "" for every cycle.
    """

    key: int
    name: str
    side: str
    needed_to: str
    cost: Cost
    only: str = ""


SOURCE, TARGET = "source", "target"

_WRITE = "write MM2's offset syncs, and heartbeats for the reverse flow"
_POSITIONS = "read the positions of groups"
_PLACE = "sync the positions of groups"
_NEW_LEADER = "after a restart, or with a new leader"
_ELSEWHERE = "`status`, the gate"

USES: tuple[Use, ...] = (
    Use(0, "Produce", SOURCE, _WRITE, Cost.SYNCS_AND_BEATS),
    Use(1, "Fetch", SOURCE, "read records", Cost.NOTHING),
    Use(2, "ListOffsets", SOURCE, "know where logs begin and end", Cost.NOTHING),
    Use(3, "Metadata", SOURCE, "know topics and their leaders", Cost.NOTHING),
    Use(9, "OffsetFetch", SOURCE, _POSITIONS, Cost.GROUPS),
    Use(10, "FindCoordinator", SOURCE, _POSITIONS, Cost.GROUPS),
    Use(16, "ListGroups", SOURCE, "know the groups", Cost.GROUPS),
    Use(
        19,
        "CreateTopics",
        SOURCE,
        "create the topics of offset syncs and heartbeats",
        Cost.SYNCS_AND_BEATS,
        "until they exist",
    ),
    Use(22, "InitProducerId", SOURCE, _WRITE, Cost.SYNCS_AND_BEATS),
    Use(
        23,
        "OffsetForLeaderEpoch",
        SOURCE,
        "notice that the source lost records which were copied",
        Cost.SEEN_IF_SHORTER,
    ),
    Use(29, "DescribeAcls", SOURCE, "sync ACLs", Cost.ACLS),
    Use(
        32,
        "DescribeConfigs",
        SOURCE,
        "make copies with their topics' settings, and sync these",
        Cost.NEW_TOPICS,
    ),
    Use(35, "DescribeLogDirs", SOURCE, "assign lanes by the bytes of logs", Cost.LANES),
    Use(48, "DescribeClientQuotas", SOURCE, "sync client quotas", Cost.QUOTAS),
    Use(
        61,
        "DescribeProducers",
        SOURCE,
        "name the producer of a transaction that stays open",
        Cost.OWNER,
        _ELSEWHERE,
    ),
    Use(
        66,
        "ListTransactions",
        SOURCE,
        "name the application of a transaction that stays open",
        Cost.APPLICATION,
        _ELSEWHERE,
    ),
    Use(0, "Produce", TARGET, "write copies and state", Cost.NOTHING),
    Use(1, "Fetch", TARGET, "read state", Cost.NOTHING),
    Use(2, "ListOffsets", TARGET, "know where copies and state end", Cost.NOTHING),
    Use(3, "Metadata", TARGET, "know topics and their leaders", Cost.NOTHING),
    Use(8, "OffsetCommit", TARGET, _PLACE, Cost.GROUPS, "if a group moved"),
    Use(9, "OffsetFetch", TARGET, _PLACE, Cost.GROUPS),
    Use(10, "FindCoordinator", TARGET, f"write in transactions, {_PLACE}", Cost.NOTHING),
    Use(16, "ListGroups", TARGET, "see which groups are in use there", Cost.GUARDED),
    Use(19, "CreateTopics", TARGET, "create copies and twinlog's topics", Cost.NEW_TOPICS, "for new topics"),
    Use(22, "InitProducerId", TARGET, "write in transactions, and state", Cost.NOTHING),
    Use(
        23, "OffsetForLeaderEpoch", TARGET, "read only what is new of its state", Cost.STATE_ANEW, _NEW_LEADER
    ),
    Use(24, "AddPartitionsToTxn", TARGET, "write in transactions", Cost.NOTHING),
    Use(26, "EndTxn", TARGET, "write in transactions", Cost.NOTHING),
    Use(29, "DescribeAcls", TARGET, "sync ACLs", Cost.ACLS),
    Use(30, "CreateAcls", TARGET, "sync ACLs", Cost.ACLS, "for new ACLs"),
    Use(32, "DescribeConfigs", TARGET, "sync settings, and see that state is kept", Cost.CONFIGS),
    Use(35, "DescribeLogDirs", TARGET, "see how full disks are", Cost.DISKS, "the gate"),
    Use(
        37,
        "CreatePartitions",
        TARGET,
        "add partitions when the source does",
        Cost.NEW_PARTITIONS,
        "for new partitions",
    ),
    Use(44, "IncrementalAlterConfigs", TARGET, "sync settings", Cost.CONFIGS, "for other settings"),
    Use(48, "DescribeClientQuotas", TARGET, "sync client quotas", Cost.QUOTAS),
    Use(49, "AlterClientQuotas", TARGET, "sync client quotas", Cost.QUOTAS, "for other quotas"),
)
