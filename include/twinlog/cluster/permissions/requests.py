"""List the requests of Kafka's protocol that a flow sends, and what happens on a cluster that refuses one.  Pure.

Managed clusters forbid some of them, and old ones do not have them.  docs/refused-requests.md shows this table, and
tests try each row on real brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from twinlog.config.flow.copying import Guarantee
from twinlog.config.flow.settings import FlowSettings


class Cost(StrEnum):
    """Say what a cycle does without a request."""

    NOTHING = "nothing is copied"
    NO_TRANSACTIONS = "nothing is copied; `twinlog.guarantee = at_least_once` does without"
    NEW_TOPICS = "topics without a copy wait; the others are copied"
    NEW_PARTITIONS = "new partitions wait; the others are copied"
    SYNCS_AND_BEATS = "MM2's offset syncs and heartbeats of the way back are not written"
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


NOTHING_AT_ALL = frozenset({Cost.NOTHING, Cost.NO_TRANSACTIONS})
STOPPING = NOTHING_AT_ALL | {Cost.NEW_TOPICS, Cost.NEW_PARTITIONS}


def _writes_syncs_there(flow: FlowSettings) -> bool:
    return flow.emit_offset_syncs and flow.offset_syncs_topic_location == "source"


DOES: Mapping[Cost, Callable[[FlowSettings], bool]] = {
    Cost.NO_TRANSACTIONS: lambda flow: flow.copy.guarantee is Guarantee.EXACTLY_ONCE,
    Cost.NEW_PARTITIONS: lambda flow: flow.refresh_topics,
    Cost.SYNCS_AND_BEATS: lambda flow: _writes_syncs_there(flow) or flow.reverse_heartbeats is not None,
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

    `says` are words of a line about it that does not name it.  `only` says when it is sent, "" for every cycle.
    """

    key: int
    name: str
    side: str
    needed_to: str
    cost: Cost
    says: tuple[str, ...] = ()
    only: str = ""


SOURCE, TARGET = "source", "target"


def _uses(side: str, rows: str) -> Iterator[Use]:
    """Read the rows of a table: key | name | needed to | cost | says | only."""
    for row in rows.strip().splitlines():
        key, name, needed_to, cost, says, only, *_ = [*map(str.strip, row.split("|")), "", ""]
        yield Use(int(key), name, side, needed_to, Cost[cost], (says,) * bool(says), only)


_OF_SOURCE = """
    0 | Produce | write MM2's offset syncs, and beat for the way back | SYNCS_AND_BEATS | no offset syncs on
    1 | Fetch | read records | NOTHING | to read topic
    2 | ListOffsets | know where logs begin and end | NOTHING
    3 | Metadata | know topics and their leaders | NOTHING | to describe topic
    9 | OffsetFetch | read the positions of groups | GROUPS | positions of group
    10 | FindCoordinator | read the positions of groups | GROUPS | positions of group
    16 | ListGroups | know the groups | GROUPS
    19 | CreateTopics | create the topics of offset syncs and heartbeats | SYNCS_AND_BEATS | no offset syncs on \
       | until they exist
    22 | InitProducerId | write MM2's offset syncs, and beat for the way back | SYNCS_AND_BEATS | no offset syncs on
    23 | OffsetForLeaderEpoch | notice that the source lost records which were copied | SEEN_IF_SHORTER
    29 | DescribeAcls | sync ACLs | ACLS | ACLs of
    32 | DescribeConfigs | make copies with their topics' settings, and sync these | NEW_TOPICS \
       | read the configuration of topic
    35 | DescribeLogDirs | assign lanes by the bytes of logs | LANES
    48 | DescribeClientQuotas | sync client quotas | QUOTAS | quotas of
    61 | DescribeProducers | name the producer of a transaction that stays open | OWNER |  | `status`, the gate
    66 | ListTransactions | name the application of a transaction that stays open | APPLICATION |  | `status`, the gate
"""

_OF_TARGET = """
    0 | Produce | write copies and state | NOTHING | to records of
    1 | Fetch | read state | NOTHING | to read topic
    2 | ListOffsets | know where copies and state end | NOTHING | the question for offsets
    3 | Metadata | know topics and their leaders | NOTHING | to see topic
    8 | OffsetCommit | sync the positions of groups | GROUPS | commit offsets of | if a group moved
    9 | OffsetFetch | sync the positions of groups | GROUPS | the offsets of
    10 | FindCoordinator | write in transactions, sync the positions of groups | NOTHING | who coordinates
    16 | ListGroups | see which groups are in use there | GUARDED
    19 | CreateTopics | create copies and twinlog's topics | NEW_TOPICS | to create topic | for new topics
    22 | InitProducerId | write in transactions, and state | NOTHING | to write to topic
    23 | OffsetForLeaderEpoch | read only what is new of its state | STATE_ANEW | \
       | after a restart, or with a new leader
    24 | AddPartitionsToTxn | write in transactions | NO_TRANSACTIONS
    26 | EndTxn | write in transactions | NO_TRANSACTIONS
    29 | DescribeAcls | sync ACLs | ACLS | ACLs of
    30 | CreateAcls | sync ACLs | ACLS | to create the ACL | for new ACLs
    32 | DescribeConfigs | sync settings, and see that state is kept | CONFIGS | the configuration of topic
    35 | DescribeLogDirs | see how full disks are | DISKS |  | the gate
    37 | CreatePartitions | add partitions when the source does | NEW_PARTITIONS | to add partitions \
       | for new partitions
    44 | IncrementalAlterConfigs | sync settings | CONFIGS | topic_configs: | for other settings
    48 | DescribeClientQuotas | sync client quotas | QUOTAS | quotas of
    49 | AlterClientQuotas | sync client quotas | QUOTAS | quotas: | for other quotas
"""

USES: tuple[Use, ...] = (*_uses(SOURCE, _OF_SOURCE), *_uses(TARGET, _OF_TARGET))


def table() -> str:
    """Return the table of docs/refused-requests.md."""
    head = ["| cluster | request | sent | needed to | without it |", "|---|---|---|---|---|"]
    rows = [
        f"| {it.side} | {it.name} | {it.only or 'in every cycle'} | {it.needed_to} | {it.cost.value} |"
        for it in USES
    ]
    return "\n".join([*head, *rows, ""])
