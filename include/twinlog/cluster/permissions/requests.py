"""List the requests of Kafka's protocol that a flow sends, and what happens on a cluster that refuses one.  Pure.

Managed clusters forbid some of them, and old ones do not have them.  docs/refused-requests.md shows this table, and
tests try each row on real brokers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """One request to one side of a flow: what it is needed to, and what a cycle does `without` it.

    `stops` says that a cycle which needs it copies nothing, or not all; otherwise `line` is in what the cycle says, ""
    if it says nothing.  `in_every_cycle` is False for a request that only some cycles send.
    """

    key: int
    name: str
    side: str
    needed_to: str
    without: str
    stops: bool = False
    line: str = ""
    in_every_cycle: bool = True


SOURCE, TARGET = "source", "target"

USES: tuple[Use, ...] = (
    Use(0, "Produce", SOURCE, "write offset syncs, and beat for the way back", "", line="x"),
    Use(1, "Fetch", SOURCE, "read the records", "", True),
    Use(2, "ListOffsets", SOURCE, "learn where logs begin and end", "", True),
    Use(3, "Metadata", SOURCE, "know topics and leaders", "", True),
    Use(9, "OffsetFetch", SOURCE, "read committed offsets of groups", ""),
    Use(10, "FindCoordinator", SOURCE, "read committed offsets of groups", ""),
    Use(15, "DescribeGroups", SOURCE, "", "", in_every_cycle=False),
    Use(16, "ListGroups", SOURCE, "know the groups", ""),
    Use(
        19,
        "CreateTopics",
        SOURCE,
        "create the topics of offset syncs and heartbeats",
        "",
        in_every_cycle=False,
    ),
    Use(22, "InitProducerId", SOURCE, "write offset syncs, and beat for the way back", ""),
    Use(23, "OffsetForLeaderEpoch", SOURCE, "notice that the source lost records", ""),
    Use(29, "DescribeAcls", SOURCE, "sync ACLs", ""),
    Use(32, "DescribeConfigs", SOURCE, "make copies with the topics' settings, and keep these in sync", ""),
    Use(35, "DescribeLogDirs", SOURCE, "assign lanes by bytes", ""),
    Use(48, "DescribeClientQuotas", SOURCE, "sync quotas", ""),
    Use(50, "DescribeUserScramCredentials", SOURCE, "", "", in_every_cycle=False),
    Use(61, "DescribeProducers", SOURCE, "", "", in_every_cycle=False),
    Use(65, "DescribeTransactions", SOURCE, "", "", in_every_cycle=False),
    Use(66, "ListTransactions", SOURCE, "", "", in_every_cycle=False),
    Use(0, "Produce", TARGET, "write", "", True),
    Use(1, "Fetch", TARGET, "read state", "", True),
    Use(2, "ListOffsets", TARGET, "", "", True),
    Use(3, "Metadata", TARGET, "", "", True),
    Use(8, "OffsetCommit", TARGET, "", ""),
    Use(9, "OffsetFetch", TARGET, "", ""),
    Use(10, "FindCoordinator", TARGET, "", "", True),
    Use(15, "DescribeGroups", TARGET, "", "", in_every_cycle=False),
    Use(16, "ListGroups", TARGET, "", ""),
    Use(19, "CreateTopics", TARGET, "", "", True),
    Use(20, "DeleteTopics", TARGET, "", "", in_every_cycle=False),
    Use(21, "DeleteRecords", TARGET, "", "", in_every_cycle=False),
    Use(22, "InitProducerId", TARGET, "", "", True),
    Use(23, "OffsetForLeaderEpoch", TARGET, "", "", in_every_cycle=False),
    Use(24, "AddPartitionsToTxn", TARGET, "", "", True),
    Use(26, "EndTxn", TARGET, "", "", True),
    Use(29, "DescribeAcls", TARGET, "", ""),
    Use(30, "CreateAcls", TARGET, "", "", in_every_cycle=False),
    Use(31, "DeleteAcls", TARGET, "", "", in_every_cycle=False),
    Use(32, "DescribeConfigs", TARGET, "", ""),
    Use(35, "DescribeLogDirs", TARGET, "", "", in_every_cycle=False),
    Use(37, "CreatePartitions", TARGET, "", "", in_every_cycle=False),
    Use(44, "IncrementalAlterConfigs", TARGET, "", "", in_every_cycle=False),
    Use(48, "DescribeClientQuotas", TARGET, "", ""),
    Use(49, "AlterClientQuotas", TARGET, "", "", in_every_cycle=False),
    Use(61, "DescribeProducers", TARGET, "", "", in_every_cycle=False),
    Use(69, "ConsumerGroupDescribe", TARGET, "", "", in_every_cycle=False),
)
