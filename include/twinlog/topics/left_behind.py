"""Find topics that the file leaves out now though records of them were never copied.  Only reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import Orphan, OrphanKind, Problem, ProblemCode
from twinlog.topics.discovery_rules import begins
from twinlog.topics.starts import first_records


def left_behind(
    flow: FlowSettings,
    source: ClusterReader,
    ledger: Ledger,
    progress: Positions,
    orphans: Iterable[Orphan],
) -> tuple[Problem, ...]:
    """Report each with what its copy lacks; heartbeats never end, and do not count.

    A flow that only brings home chooses its topics anew for each way home.
    """
    left = {
        orphan.topic: orphan
        for orphan in orphans
        if orphan.kind is OrphanKind.LEFT_OUT and not flow.policy.is_heartbeats_topic(orphan.topic)
    }
    if not left or flow.homes is not None:
        return ()
    lacking = _lacking(flow, source, ledger, progress, left)
    return tuple(
        Problem(
            ProblemCode.LEFT_BEHIND,
            topic,
            f"{topic} is left out ({it.reason}): {lacking[topic]} of it on {flow.source.alias} are not in"
            f" {it.remote_topic}",
            f"select {topic} again, or delete {it.remote_topic} on {flow.target.alias} if nobody needs it",
        )
        for topic, it in left.items()
        if topic in lacking
    )


def _lacking(
    flow: FlowSettings,
    source: ClusterReader,
    ledger: Ledger,
    progress: Positions,
    topics: Collection[str],
) -> Mapping[str, str]:
    """Say how many records copies lack, counted from the first of each partition; asks once for all topics."""
    committed = flow.copy.read_committed
    try:
        described = source.describe_topics(topics)
        ids = {
            TopicPartition(name, part.partition): it.topic_id
            for name, it in described.found.items()
            for part in it.partitions
        }
        offsets = source.offsets(ids)
        ends = {at: it.readable_end(read_committed=committed) for at, it in offsets.found.items()}
        starts = {}
        for at, bounds in offsets.found.items():
            known = progress.get(at)
            begun = begins(ledger, at.topic, ids[at], at.partition) if known is None else known + 1
            starts[at] = max(bounds.log_start, begun or 0)
        waiting = {at: start for at, start in starts.items() if start < ends[at]}
        first = first_records(source, waiting, read_committed=committed)
    except TwinlogError as error:
        return dict.fromkeys(topics, _unknown(error))
    counts = Counter[str]()
    for at, record in first.found.items():
        counts[at.topic] += ends[at] - record.offset
    refused = {at.topic: error for at, error in (*offsets.refused.items(), *first.refused.items())}
    return {
        **{topic: f"{count:,} records" for topic, count in counts.items()},
        **{topic: _unknown(error) for topic, error in {**refused, **described.refused}.items()},
    }


def _unknown(error: TwinlogError) -> str:
    return f"nobody knows how many records ({error.message})"
