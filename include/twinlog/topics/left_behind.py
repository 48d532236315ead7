"""Find topics that the file leaves out now though records of them were never copied.  Only reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import Orphan, OrphanKind, Problem, ProblemCode
from twinlog.topics.discovery_rules import begins


def left_behind(
    flow: FlowSettings,
    source: ClusterReader,
    ledger: Ledger,
    progress: Mapping[TopicPartition, int],
    orphans: Iterable[Orphan],
) -> tuple[Problem, ...]:
    """Report each with what its copy lacks; heartbeats never end, and do not count.

    A flow that only brings home chooses its topics anew for each way home.
    """
    left = [it for it in orphans if it.kind is OrphanKind.LEFT_OUT and flow.homes is None]
    found = [it for it in left if not flow.policy.is_heartbeats_topic(it.topic)]
    lacking = ((it, _lacks(flow, source, ledger, progress, it.topic)) for it in found)
    return tuple(
        Problem(
            ProblemCode.LEFT_BEHIND,
            it.topic,
            f"{it.topic} is left out ({it.reason}): {lacks} of it on {flow.source.alias} are not in"
            f" {it.remote_topic}",
            f"select {it.topic} again, or delete {it.remote_topic} on {flow.target.alias} if nobody needs it",
        )
        for it, lacks in lacking
        if lacks
    )


def _lacks(
    flow: FlowSettings,
    source: ClusterReader,
    ledger: Ledger,
    progress: Mapping[TopicPartition, int],
    topic: str,
) -> str:
    """Say how many records a copy lacks, counted from the first of each partition; "" if it lacks none."""
    committed = flow.copy.read_committed
    try:
        described = source.describe_topics([topic]).require()[topic]
        places = [TopicPartition(topic, it.partition) for it in described.partitions]
        offsets = source.offsets(places).require()
        ends = {at: it.readable_end(read_committed=committed) for at, it in offsets.items()}
        starts = {}
        for at, bounds in offsets.items():
            known = progress.get(at)
            begun = begins(ledger, topic, described.topic_id, at.partition) if known is None else known + 1
            starts[at] = max(bounds.log_start, begun or 0)
        waiting = {at: start for at, start in starts.items() if start < ends[at]}
        first = source.read_records(waiting, 1, read_committed=committed)
    except TwinlogError as error:
        return f"nobody knows how many records ({error.message})"
    count = sum(ends[at] - records[0].offset for at, records in first.items() if records)
    return f"{count:,} records" if count else ""
