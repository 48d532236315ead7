"""Prepare what a lane generation needs to know of the clusters, and report on the run while it goes on.

A cycle is reported at its end. A run in follow mode may go on for days. If the source is lost in the middle of it, the
last report, which the gate, `status` and metrics read, must not be as old as that.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import StoppedPartition, choose, message_limits
from twinlog.errors import FencedError, TransientError
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.formats.lane_counts import LaneCounts, newest_of_lanes
from twinlog.jsonable import to_json
from twinlog.judge import validate
from twinlog.judge.check import Severity, in_lines
from twinlog.kafka_types import Positions, SourceIncarnation, TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.monitoring import publish, samples
from twinlog.monitoring.cycle_report import FlowReport
from twinlog.monitoring.exporter import Board
from twinlog.state.progress import copied_from, lane_counts_in
from twinlog.topics.discovery import DiscoveredTopic, Discovery
from twinlog.topics.plan import Refusal
from twinlog.topics.snapshot import FlowSnapshot

OnReport = Callable[[FlowReport], None]


@dataclass(frozen=True, slots=True)
class LaneGeneration:
    """One lane generation, for people who watch: what it copied, what it could not copy, and why it ended early.

    `taken` says that another driver took the flow; then there is no next lane generation.
    """

    flow: str
    number: int
    partitions: int
    records: int
    bytes: int
    seconds: float
    stopped: tuple[StoppedPartition, ...] = ()
    failure: TransientError | None = None
    taken: FencedError | None = None

    @property
    def line(self) -> str:
        """The line for a log."""
        reason = self.taken or self.failure
        ended = f"; {reason}" if reason is not None else ""
        stopped = f"; {len(self.stopped)} partitions stopped" if self.stopped else ""
        return (
            f"{self.flow}: lane generation {self.number}: {self.records:,} records, {self.bytes:,} bytes"
            f" of {self.partitions:,} partitions in {self.seconds:,.1f} s{stopped}{ended}"
        )


@dataclass(slots=True)
class RunState:
    """The state of a run, which its driver keeps up to date for the reporter.

    Another thread reads it, so each field is replaced as a whole. `started_ms` is when the run began (epoch ms).
    `stopped` are partitions that the open lane generation does not copy. `errors` are, by source partition, errors
    that ended its copy in an earlier lane generation and are not over. `starts` are the upstream offsets at which the
    run began to copy each partition. `ended` is what lanes that have ended copied, None before the first were opened.
    """

    run_id: str
    started_ms: int
    stopped: tuple[StoppedPartition, ...] = ()
    errors: Mapping[TopicPartition, str] = field(default_factory=dict)
    starts: Positions = field(default_factory=dict)
    ended: EndedLanes | None = None


@dataclass(frozen=True, slots=True)
class EndedLanes:
    """Hold what lanes know that have ended: records and bytes by source partition, and transactions.

    `latency_ms` is of the newest lane generation that ended, by the partitions of which it copied something: how old
    their newest record was when it was on the target.  What the lanes that are open now have committed comes on top
    of all that; the ledger has their fence of `open_ms` (epoch ms, 0 if none are open).
    """

    records: Mapping[TopicPartition, int] = field(default_factory=dict)
    bytes: Mapping[TopicPartition, int] = field(default_factory=dict)
    transactions: int = 0
    retries: int = 0
    throttled_ms: int = 0
    latency_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    open_ms: int = 0


@dataclass(slots=True)
class Reporter:
    """Judges and reports a run as it stands; one for each run.

    `reached` is how far the map had each partition at the last report (upstream offset). `copied` counts the records
    that came since the run began to copy, or since the first report where that is not known. `board` gets the numbers.
    """

    run_state: RunState
    on_report: OnReport = lambda report: None
    reached: dict[TopicPartition, int] = field(default_factory=dict)
    copied: Counter[TopicPartition] = field(default_factory=Counter)
    board: Board | None = None

    def report(self, flow: FlowSettings, clusters: Clusters) -> None:
        """Judge the copy as `validate` does after a cycle, and report it as `publish` does.

        Raises TransientError `validation` for critical checks that failed; warnings wait for the end of the run.
        """
        facts = observe(FlowSnapshot(flow, clusters))
        board = self.board or Board(flow)
        outcome, run = self.outcome(facts), self.run_state
        judged = validate.judge(flow, facts)
        if run.ended is not None:
            board.tell("copy", samples.of_latency(run.ended.latency_ms))
        board.tell("checks", samples.of_checks(judged.checks))
        self.on_report(
            publish.run(flow, clusters, run.run_id, outcome, run.started_ms, facts, board=board, tells=True)
        )
        failed = [result for result in judged.failed if result.severity is Severity.CRITICAL]
        if failed:
            raise TransientError(
                "; ".join(in_lines(failed)),
                code="validation",
                checks=[result.name for result in failed],
            )

    def outcome(self, facts: FlowFacts) -> Mapping[str, Any]:
        """Return the copy's outcome so far, like a CopyResult at its end; bytes are 0: only lanes know them."""
        self._count(facts)
        stopped, errors = self.run_state.stopped, self.run_state.errors
        records = self.copied.total()
        return {
            "state": "failed" if stopped or errors else "done" if records else "nothing",
            "records": records,
            "bytes": 0,
            "partitions": [
                {
                    "topic": row.topic,
                    "partition": row.partition,
                    "copied_records": self.copied[row.topic_partition],
                    "error": errors.get(row.topic_partition, ""),
                }
                for row in facts.partitions
            ],
            "stopped": to_json(stopped),
        }

    def _count(self, facts: FlowFacts) -> None:
        """Count the records that the map has gained since the last report, or since the run began to copy."""
        ids = {topic.topic: topic.topic_id for topic in facts.topics}
        for row in facts.partitions:
            it = row.topic_partition
            since = self.reached.get(it, self.run_state.starts.get(it))
            if since is not None:
                incarnation = SourceIncarnation(row.topic, ids[row.topic], row.partition)
                self.copied[it] += copied_from(facts.maps, incarnation, since)
            self.reached[it] = max(row.mapped.upstream_end or 0, self.reached.get(it, 0))


@dataclass(slots=True)
class LaneTeller:
    """Tells a board what the lanes of a run have committed, those that are open included; one for each run.

    `before` are records and bytes when it was told last, and when that was (monotonic seconds).  `counts` are those
    found so far, `since` says up to where progress was read.
    """

    run_state: RunState
    board: Board
    counts: dict[TopicPartition, LaneCounts] = field(default_factory=dict)
    since: Mapping[int, int] = field(default_factory=dict)
    before: tuple[Counter[TopicPartition], Counter[TopicPartition], float] | None = None

    def tell(self, flow: FlowSettings, clusters: Clusters) -> None:
        """Read what the open lanes have committed by now, and tell it."""
        ended = self.run_state.ended
        if ended is None:
            return
        gained, self.since = clusters.target.gained_records(flow.offsets_topic, self.since)
        self.counts.update(lane_counts_in(flow, gained))
        counts = {place: it for place, it in self.counts.items() if it.fence_ms == ended.open_ms}
        if self.run_state.ended is not ended:
            return  # lanes of another fence may have stored their own counts over these
        records, size, now = Counter(ended.records), Counter(ended.bytes), time.monotonic()
        records.update({place: it.partition_records for place, it in counts.items()})
        size.update({place: it.partition_bytes for place, it in counts.items()})
        fewer, smaller, since = self.before or (records, size, now)
        self.before = records, size, now
        lanes = newest_of_lanes(counts.values())
        told = (
            *samples.of_records(records, fewer, now - since),
            *samples.of_bytes(size, smaller, now - since),
            *samples.of_lanes(ended.transactions, ended.retries, ended.throttled_ms, lanes),
        )
        self.board.tell("lanes", told)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The topics to follow, how large their records may be, and what could not be provisioned on the target.

    `notes` are for people.
    """

    discovery: Discovery
    topics: tuple[DiscoveredTopic, ...]
    max_bytes: Mapping[str, int]
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()

    def asks_for_lanes_unlike(self, other: Prepared) -> bool:
        """Say whether lanes opened for `other` would do something else. Pure.

        A topic, an incarnation, a provisioned partition or a size limit may differ. The start and end of logs do not
        matter to open lanes.
        """
        return _shape(self) != _shape(other)


def _shape(prepared: Prepared) -> object:
    topics = [
        (topic.topic, topic.topic_id, topic.remote, [partition.partition for partition in topic.provisioned])
        for topic in prepared.topics
    ]
    return prepared.discovery.stands_by, topics, dict(prepared.max_bytes)


def prepare(flow: FlowSettings, clusters: Clusters, topics: Collection[str] | None, run_id: str) -> Prepared:
    """Create what is missing on the target, and read both sides.

    Raises as the steps sync_topics and discover.
    """
    snapshot = FlowSnapshot(flow, clusters)
    synced = sync_topics.run(flow, clusters, run_id=run_id, snapshot=snapshot)
    discovery = sync_topics.as_left(snapshot, synced).discovery
    chosen = choose(discovery, topics)
    limits = message_limits(clusters.target, [topic.remote_topic for topic in chosen])
    return Prepared(discovery, chosen, limits, synced.refused, synced.notes)
