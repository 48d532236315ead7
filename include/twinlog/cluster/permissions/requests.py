"""List the requests of Kafka's protocol that a flow sends, and what happens on a cluster that refuses one.  Pure.

Managed clusters forbid some of them, and old ones do not have them.  docs/refused-requests.md shows this table, and
tests try each row on real brokers.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """One request to one side of a flow: what it is needed to, and what a cycle does `without` it.

    `stops` says that a cycle that needs it copies nothing, or not all.  `line` is in what a cycle says without it, ""
    if it says nothing.  `in_every_cycle` is False for a request that only some cycles, or other commands, send.
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

NOTHING = "nothing is copied"

USES: tuple[Use, ...] = (
    Use(
        0,
        "Produce",
        SOURCE,
        "write MM2's offset syncs, and beat for the way back",
        "both are left out",
        line="A",
    ),
    Use(1, "Fetch", SOURCE, "read records", NOTHING, True),
    Use(2, "ListOffsets", SOURCE, "know where logs begin and end", NOTHING, True),
    Use(3, "Metadata", SOURCE, "know topics and their leaders", NOTHING, True),
    Use(9, "OffsetFetch", SOURCE, "read the positions of groups", "groups are not synced"),
    Use(10, "FindCoordinator", SOURCE, "read the positions of groups", "groups are not synced"),
    Use(16, "ListGroups", SOURCE, "know the groups", "groups are not synced"),
    Use(
        19,
        "CreateTopics",
        SOURCE,
        "create the topics of offset syncs and heartbeats",
        "create them by hand",
        in_every_cycle=False,
    ),
    Use(
        22,
        "InitProducerId",
        SOURCE,
        "write MM2's offset syncs, and beat for the way back",
        "both are left out",
    ),
    Use(
        23,
        "OffsetForLeaderEpoch",
        SOURCE,
        "notice that the source lost records which were copied",
        "it is noticed only if the log is shorter; a partition whose leader changes while it is copied stops",
    ),
    Use(29, "DescribeAcls", SOURCE, "sync ACLs", "ACLs are not synced"),
    Use(
        32,
        "DescribeConfigs",
        SOURCE,
        "make copies with their topics' settings, and sync these",
        "settings are not synced, and a new topic waits until its copy was made by hand; the others are copied",
        True,
    ),
    Use(35, "DescribeLogDirs", SOURCE, "assign lanes by the bytes of logs", "lanes are assigned by offsets"),
    Use(48, "DescribeClientQuotas", SOURCE, "sync client quotas", "quotas are not synced"),
    Use(
        61,
        "DescribeProducers",
        SOURCE,
        "name the producer of a transaction that stays open",
        "it is not named",
        in_every_cycle=False,
    ),
    Use(
        66,
        "ListTransactions",
        SOURCE,
        "name the application of a transaction that stays open",
        "only its producer id is named",
        in_every_cycle=False,
    ),
    Use(0, "Produce", TARGET, "write copies and state", NOTHING, True),
    Use(1, "Fetch", TARGET, "read state", NOTHING, True),
    Use(2, "ListOffsets", TARGET, "know where copies and state end", NOTHING, True),
    Use(3, "Metadata", TARGET, "know topics and their leaders", NOTHING, True),
    Use(
        8,
        "OffsetCommit",
        TARGET,
        "sync the positions of groups",
        "groups are not synced",
        in_every_cycle=False,
    ),
    Use(9, "OffsetFetch", TARGET, "sync the positions of groups", "groups are not synced"),
    Use(10, "FindCoordinator", TARGET, "write in transactions, sync the positions of groups", NOTHING, True),
    Use(15, "DescribeGroups", TARGET, "see that a group is not active", "", in_every_cycle=False),
    Use(16, "ListGroups", TARGET, "know the groups", "groups are not synced"),
    Use(
        19,
        "CreateTopics",
        TARGET,
        "create copies and twinlog's topics",
        "topics without a copy wait; the others are copied",
        True,
        in_every_cycle=False,
    ),
    Use(22, "InitProducerId", TARGET, "write in transactions", NOTHING, True),
    Use(24, "AddPartitionsToTxn", TARGET, "write in transactions", NOTHING, True),
    Use(26, "EndTxn", TARGET, "write in transactions", NOTHING, True),
    Use(29, "DescribeAcls", TARGET, "sync ACLs", "ACLs are not synced"),
    Use(
        32, "DescribeConfigs", TARGET, "sync settings, and see that state is kept", "settings are not synced"
    ),
    Use(35, "DescribeLogDirs", TARGET, "see how full disks are", "the gate warns", in_every_cycle=False),
    Use(48, "DescribeClientQuotas", TARGET, "sync client quotas", "quotas are not synced"),
)


def table() -> str:
    """Return the table of docs/refused-requests.md."""
    head = ["| cluster | request | needed to | without it |", "|---|---|---|---|"]
    rows = [f"| {it.side} | {it.name} | {it.needed_to} | {it.without} |" for it in USES]
    return "\n".join([*head, *rows, ""])
