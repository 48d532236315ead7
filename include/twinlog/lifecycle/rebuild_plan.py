"""Plan what a rebuild of a topic would do, and say why it may not be begun; this only reads.

`twinlog.lifecycle.rebuild` does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError, UsageError
from twinlog.formats.ledger.topics import GroupPosition, Rebuild, RebuildPhase
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.lifecycle.reader_positions import carried_over, readers, upstream_positions
from twinlog.procedure import StepReport
from twinlog.state.ledger import Ledger
from twinlog.state.progress import read_maps
from twinlog.topics.discovery import DiscoveredTopic, Discovery, ProblemCode
from twinlog.topics.incarnations import differ
from twinlog.topics.other_writers import other_writers
from twinlog.topics.pauses import how_to_go_on

REFUSED = "rebuild-refused"
"""Code of the refusal to begin a rebuild."""

LIFE_CODES = frozenset({
    ProblemCode.RECREATED,
    ProblemCode.OTHER_LOG,
    ProblemCode.SOURCE_CHANGED,
    ProblemCode.COPY_DELETED,
    ProblemCode.COPY_RECREATED,
    ProblemCode.COPY_RENAMED,
})


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    """A plan to rebuild one topic.

    `copied_records` lie in the copy (as downstream offsets, an upper bound). `source_records` can be copied again.
    `begins` is the upstream offset at which the new copy begins, by partition. `groups` are positions on the copy;
    those without an upstream offset cannot be kept. If there are `active_groups` or `other_writers`, the rebuild is
    refused.
    """

    flow: str
    topic: str
    topic_id: str
    remote_topic: str
    remote_topic_id: str
    phase: str
    copied_records: int
    source_records: int
    begins: Mapping[int, int]
    groups: tuple[GroupPosition, ...]
    active_groups: tuple[str, ...]
    notes: tuple[str, ...]
    other_writers: tuple[str, ...]
    steps: tuple[StepReport, ...] = ()

    @property
    def cost(self) -> str:
        """Say in a clause what is lost, and what comes again."""
        return (
            f"{self.remote_topic} with {self.copied_records:,} records is deleted, {self.source_records:,} can be"
            " copied again"
        )


def stale(discovery: Discovery, topic: str) -> bool:
    """Say whether the topic or its copy is no longer the one that was rebuilt."""
    return any(problem.topic == topic and problem.code in LIFE_CODES for problem in discovery.problems)


def plan_of(
    flow: FlowSettings, clusters: Clusters, discovery: Discovery, ledger: Ledger, topic: str
) -> RebuildPlan:
    """Return what a rebuild would do, by the discovery and by a ledger that was read behind the fence."""
    found, before, known = (
        wanted(flow, discovery, topic),
        ledger.incarnations.get(topic),
        ledger.rebuilds.get(topic),
    )
    other_log = any(
        problem.topic == topic and problem.code is ProblemCode.OTHER_LOG for problem in discovery.problems
    )
    changed = before is not None and (other_log or differ(before.topic_id, found.topic_id))
    life = None if changed else before
    begun = known if known is not None and known.phase is RebuildPhase.DELETING else None
    remote = found.remote
    foreign = before is not None and remote is not None and differ(before.remote_topic_id, remote.topic_id)
    partitions = range(remote.partitions if remote is not None else 0)
    bounds = clusters.target.offsets(
        TopicPartition(found.remote_topic, partition) for partition in partitions
    ).found
    using = readers(clusters.target, found.remote_topic)
    mapped = () if life is None or foreign else partitions
    lives = {SourceIncarnation(topic, life.topic_id if life is not None else "", it) for it in mapped}
    groups = (
        begun.groups
        if begun is not None
        else (
            *upstream_positions(found, using, read_maps(flow, clusters.target, lives), life),
            *carried_over(known, found, using),
        )
    )
    writers = _writers(flow, clusters, found, begun)
    refused = [str(shared(flow, topic, found.remote_topic, writers))] if writers else []
    return RebuildPlan(
        flow=flow.name,
        topic=topic,
        topic_id=found.topic_id,
        remote_topic=found.remote_topic,
        remote_topic_id=remote.topic_id if remote is not None else "",
        phase=known.phase.value if known is not None else "",
        copied_records=sum(bound.stable_end - bound.log_start for bound in bounds.values()),
        source_records=sum(
            partition.source_end(flow) - partition.source.log_start for partition in found.partitions
        ),
        begins=found.log_starts,
        groups=groups,
        active_groups=tuple(sorted(name for name, it in using.items() if it.active)),
        notes=(*refused, *_notes(flow, topic, found.log_starts, groups, recreated=changed)),
        other_writers=writers,
    )


def _notes(
    flow: FlowSettings,
    topic: str,
    begins: Mapping[int, int],
    groups: Iterable[GroupPosition],
    *,
    recreated: bool,
) -> Iterator[str]:
    """Describe what a rebuild does not bring back."""
    if any(begins.values()):
        yield (
            f"the source begins at {', '.join(f'{p}:{o}' for p, o in begins.items() if o)}: earlier records that the"
            " copy has cannot be copied again"
        )
    if recreated:
        yield (
            f"{topic} was deleted and created again on {flow.source.alias}: records of the deleted topic are not"
            " copied again"
        )
    unknown = sorted({group.group for group in groups if group.upstream is None})
    if unknown:
        yield f"the map cannot tell where these groups stand, nothing is kept of them: {', '.join(unknown)}"


def _writers(
    flow: FlowSettings, clusters: Clusters, found: DiscoveredTopic, begun: Rebuild | None
) -> tuple[str, ...]:
    """Return the other writers of the copy that would be deleted.

    If a rebuild is `begun`, only the copy that it recorded would be deleted. For any other copy the result is empty.
    """
    remote = found.remote
    if remote is None or (begun is not None and begun.old_remote_topic_id != remote.topic_id):
        return ()
    return other_writers(flow, clusters, found.topic, found.remote_topic, remote.topic_id)


def wanted(flow: FlowSettings, discovery: Discovery, topic: str) -> DiscoveredTopic:
    """Return the topic, if all its partitions can be read.

    Raises TerminalError `rebuild-refused`, as UsageError if the flow has no such topic.
    """
    if discovery.stands_by:
        raise TerminalError(
            f"flow {flow.name} is {discovery.stands_by}",
            how_to_go_on(discovery.phase),
            code=REFUSED,
            flow=flow.name,
        )
    found = discovery.named(topic)
    if found is None:
        reason = next(
            (left_out.reason for left_out in discovery.left_out if left_out.topic == topic),
            "the source has no such topic",
        )
        raise UsageError(
            f"flow {flow.name} does not copy {topic}: {reason}",
            f"nothing was touched; its copy, if any, stays on {flow.target.alias}",
            code=REFUSED,
            flow=flow.name,
            topic=topic,
        )
    if len(found.partitions) < found.partition_count:
        raise TerminalError(
            f"some partitions of {topic} have no leader on {flow.source.alias}",
            "try again when the source can be read",
            code=REFUSED,
            topic=topic,
        )
    return found


def require_free(flow: FlowSettings, todo: RebuildPlan) -> None:
    """Raise TerminalError `rebuild-refused` if the copy has other writers, or while groups with members read it."""
    if todo.other_writers:
        raise shared(flow, todo.topic, todo.remote_topic, todo.other_writers)
    if todo.active_groups:
        raise TerminalError(
            f"{todo.remote_topic} is being read on {flow.target.alias} by {', '.join(todo.active_groups)}",
            "stop these groups first: their positions are kept, but a running reader would lose its place",
            code=REFUSED,
            topic=todo.topic,
            groups=list(todo.active_groups),
        )


def shared(flow: FlowSettings, topic: str, remote_topic: str, writers: tuple[str, ...]) -> TerminalError:
    """Make the error for a copy that holds records of other writers, which would be deleted with it."""
    return TerminalError(
        f"{remote_topic} on {flow.target.alias} is also written by {'; '.join(writers)}: their records would go, too",
        f"when they may go, stop who writes there and delete {remote_topic} by hand first",
        code=REFUSED,
        flow=flow.name,
        topic=topic,
        writers=list(writers),
    )


def overtaken(before: Rebuild | None, now: Rebuild, request: str) -> bool:
    """Say whether another run has done the request since; `now` is past `deleting`. Pure."""
    if before is not None and before.at_ms == now.at_ms:
        return before.phase is RebuildPhase.DELETING
    return serves(now, request)


def serves(now: Rebuild, request: str) -> bool:
    """Say whether a rebuild past `deleting` serves a request, so that none has to be begun. Pure.

    A cycle has no request, and continues any rebuild that is being copied. A new request means the copy as it is now:
    a rebuild that is being copied may have stopped, and would keep its groups waiting for ever.
    """
    return now.asked_by(request) or (not request and now.phase is RebuildPhase.COPYING)


def as_it_stands(ledger: Ledger, begun: Rebuild) -> Rebuild:
    """Return the ledger's present version of a rebuild: another run may have advanced it. Pure.

    Raises TransientError if another rebuild was begun since.
    """
    standing = ledger.rebuilds.get(begun.topic)
    if standing is None or (standing.phase is RebuildPhase.DELETING and standing.at_ms != begun.at_ms):
        raise TransientError(
            f"another rebuild of {begun.topic} was begun meanwhile",
            "the next cycle goes on with it",
            code="overtaken",
            topic=begun.topic,
        )
    return standing
