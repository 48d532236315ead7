"""Hold what is known of a flow as one frozen value, from which every verdict, number and sentence about it comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twinlog.cluster.values import PartitionOffsets
from twinlog.fact import NOT_ASKED, Total, Unknown
from twinlog.facts.gaps import GapReport
from twinlog.facts.partition import PartitionFacts
from twinlog.facts.topic import TopicFacts
from twinlog.facts.undecided import UndecidedPartition
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.progress import PackedMaps
from twinlog.topics.discovery import Orphan, Problem


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """A flow as of `at_ms`: `facts.observe` asks both clusters, `facts.recall` the target alone.

    If they are not `live`, the source's facts are those of the last cycle, and what was written since nobody knows.
    `rpo_seconds` is the age of the oldest record that is not on the target, None if unknown; without the source it is
    the most that can be missing.  `unseen` counts partitions that could not be looked at.

    `copies` are the offsets of the copies, `copy_ids` their topic ids by source topic.  `heartbeat_ms` is the time of
    the newest heartbeat that was copied, None if there is none.
    """

    at_ms: int
    live: bool
    ledger: Ledger
    progress: Positions
    maps: PackedMaps
    topics: tuple[TopicFacts, ...]
    problems: tuple[Problem, ...]
    gaps: tuple[GapReport, ...]
    rpo_seconds: float | None
    lag: Total
    undecided_records: Total
    unseen: int
    copies: Mapping[TopicPartition, PartitionOffsets]
    copy_ids: Mapping[str, str]
    target_brokers: int
    heartbeat_ms: int | Unknown | None = NOT_ASKED
    undecided: tuple[UndecidedPartition, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    paused_topics: int = 0
    source_cluster_id: str = ""

    @property
    def partitions(self) -> tuple[PartitionFacts, ...]:
        """Return every partition that could be looked at."""
        return tuple(partition for topic in self.topics for partition in topic.partitions)

    @property
    def judged(self) -> tuple[TopicFacts, ...]:
        """Return the topics of which more can be said than why they are not copied."""
        return tuple(topic for topic in self.topics if not topic.blocked and not topic.left_out)
