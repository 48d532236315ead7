"""Apply what a cycle does about recreated and deleted topics and gaps before it copies: part of `sync_topics`.

`twinlog.lifecycle.plan` decides; this module does it. Changes to the meaning of progress are planned a second time
behind the fence, from what is read there, and written in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.records import Gap
from twinlog.formats.ledger.topics import DeletedTopic, TopicPause
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lifecycle import rebuild
from twinlog.lifecycle.forget import KnownTopic
from twinlog.lifecycle.plan import LifecyclePlan, epochs_of, plan_lifecycle, told
from twinlog.lifecycle.rebuild_plan import REFUSED, shared
from twinlog.lifecycle.records import adoption, crossing, describe, rewinding
from twinlog.protocol.leader_epochs import ReadUpTo
from twinlog.state.changes import Entries, change
from twinlog.state.ledger import Ledger, read_behind_fence, read_ledger
from twinlog.state.progress import PackedMaps, read_packed, read_progress
from twinlog.topics.discovery import Discovery
from twinlog.topics.incarnations import differ
from twinlog.topics.other_writers import other_writers
from twinlog.topics.plan import Refusal
from twinlog.topics.snapshot import FlowSnapshot, with_later_ends
from twinlog.visible import and_more

SHARED = "copy-shared"
"""Code of the refusal to delete a copy that has other writers."""


@dataclass(frozen=True, slots=True)
class LifecycleResult:
    """The changes made (in a dry run: that would be made), source topics by name.

    `appended` are copied on after their earlier incarnation. `rebuilt` are copied anew. `deleted_copies` (names on the
    target) outlived their source topic for long enough. `gaps` were recorded in this cycle.
    """

    appended: tuple[str, ...] = ()
    rebuilt: tuple[str, ...] = ()
    deleted_copies: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    refused: tuple[Refusal, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: LifecycleResult) -> LifecycleResult:
        """Return what both say."""
        return LifecycleResult(
            *(getattr(self, field.name) + getattr(other, field.name) for field in fields(self))
        )

    @property
    def changed(self) -> bool:
        """Say whether the topics that are copied, or their copies, changed."""
        return bool(
            self.appended or self.rebuilt or self.deleted_copies or any(g.copied_past for g in self.gaps)
        )


def run(snapshot: FlowSnapshot, *, dry_run: bool = False, run_id: str | None = None) -> LifecycleResult:
    """Update the flow's records about its topics, and do what its policies say.

    Changes that need the fence take it. If the caller is a driver that holds the fence itself, they take it as the
    caller's `run_id`. The driver's lanes then end with an indeterminate outcome and fence again. Raises FencedError if
    another twinlog takes the flow meanwhile, and errors of clusters.
    """
    flow, clusters, discovery = snapshot.flow, snapshot.clusters, snapshot.discovery
    progress = read_progress(flow, clusters.target)
    ledger = read_ledger(flow, clusters.target)  # again: after progress, as `make_plan` says
    if not ledger.incarnations and not ledger.beginnings:
        return LifecycleResult()
    todo = make_plan(flow, clusters, discovery, ledger, progress)
    if todo.empty or dry_run:
        return _promise(flow, clusters, todo, ledger)
    # Gaps at which a partition stops need no fence, since the copy does not go on.
    gaps = [describe(clusters, lost, ledger, clock.now_ms()) for lost in todo.lost if not lost.past]
    change(flow, clusters.target, lambda now: _standing(todo, gaps, now))
    done = LifecycleResult(gaps=tuple(gaps))
    done += (
        _behind_the_fence(flow, clusters, run_id)
        if todo.fenced
        else LifecycleResult(notes=_notes(flow, todo))
    )
    for deleted_topic in todo.due:
        done += _delete(
            flow, clusters, deleted_topic, ledger.incarnations[deleted_topic.topic].remote_topic_id, run_id
        )
    for topic in todo.rebuilt:
        done += _rebuild(flow, clusters, topic, run_id)
    return done


def _standing(todo: LifecyclePlan, gaps: Sequence[Gap], now: Ledger) -> Entries:
    """Return what is noted without the fence, as far as the ledger has it as it was planned for.  Pure."""
    gone = [topic for topic in todo.gone if topic.topic not in now.deleted]
    return Entries([*gone, *gaps], [topic for topic in todo.back if now.deleted.get(topic.topic) == topic])


def make_plan(
    flow: FlowSettings,
    clusters: Clusters,
    discovery: Discovery,
    ledger: Ledger,
    progress: Positions,
) -> LifecyclePlan:
    """Read what planning needs besides the arguments, and plan.

    A copy may go on meanwhile, and must not look like a source that lost records. So the order of reading is: log
    starts (in the discovery), progress, the ledger with the leader epochs of what was copied, log ends.
    """
    topics = with_later_ends(clusters.source, discovery.topics, progress)
    noted = {epoch.topic_partition: epoch.epoch for epoch in epochs_of(discovery, ledger)}
    read = {it: ReadUpTo(epoch, progress[it] + 1) for it, epoch in noted.items() if it in progress}
    ends = clusters.source.epoch_ends(read)
    todo = plan_lifecycle(flow, replace(discovery, topics=topics), ledger, progress, ends, clock.now_ms())
    return replace(todo, unproven=tuple(it for it in read if it not in ends))


def _promise(flow: FlowSettings, clusters: Clusters, todo: LifecyclePlan, ledger: Ledger) -> LifecycleResult:
    """Return what doing the plan would change."""
    kept = [
        refusal
        for topic in todo.due
        if (refusal := _kept(flow, clusters, topic, ledger.incarnations[topic.topic].remote_topic_id))
    ]
    names = {refusal.name for refusal in kept}
    return LifecycleResult(
        appended=tuple(topic.topic for topic in todo.adopted),
        rebuilt=todo.rebuilt,
        deleted_copies=tuple(topic.remote_topic for topic in todo.due if topic.remote_topic not in names),
        gaps=tuple(describe(clusters, lost, ledger, clock.now_ms()) for lost in todo.lost),
        refused=tuple(kept),
        notes=_notes(flow, todo),
    )


def _behind_the_fence(flow: FlowSettings, clusters: Clusters, run_id: str | None) -> LifecycleResult:
    """Adopt incarnations and cross gaps, by the state read once no other writer is left."""
    owned = Ownership.taken(flow, clusters, "lifecycle", run_id)
    ledger = read_behind_fence(flow, clusters.target)
    discovery = FlowSnapshot(flow, clusters).discovery
    todo = make_plan(flow, clusters, discovery, ledger, owned.progress)
    now, records = clock.now_ms(), list[StateRecord]()
    for topic in todo.adopted:
        records += adoption(owned.state, topic, ledger, owned.progress, discovery.source_cluster_id, now)
    past = [it for it in todo.lost if it.past]
    maps = read_packed(flow, clusters.target) if any(it.truncated for it in past) else PackedMaps({}, {})
    gaps: list[Gap] = []
    refused: list[Refusal] = []
    for lost in past:
        gap = describe(clusters, lost, ledger, now)
        try:
            records += (
                [*rewinding(owned.state, lost, gap, maps, ledger)]
                if lost.truncated
                else [*crossing(owned.state, gap)]
            )
            gaps.append(gap)
        except UnreadableMap as error:
            refused.append(Refusal.of(lost.topic, error))
    owned.write(records)
    return LifecycleResult(
        appended=tuple(discovered_topic.topic for discovered_topic in todo.adopted),
        gaps=tuple(gaps),
        refused=tuple(refused),
        notes=_notes(flow, todo),
    )


def _notes(flow: FlowSettings, todo: LifecyclePlan) -> tuple[str, ...]:
    return (
        *(
            f"{topic.topic} was deleted and created again on {flow.source.alias}: its records are appended to"
            f" those of the deleted topic in {topic.remote_topic}"
            for topic in todo.adopted
        ),
        *(f"{told(lost)}; the copy goes on behind them" for lost in todo.lost if lost.past),
        *_unproven(flow, todo.unproven),
    )


def _unproven(flow: FlowSettings, partitions: Sequence[TopicPartition]) -> Iterator[str]:
    """Yield one line if the source does not tell for every partition whether it still holds what was copied."""
    if partitions:
        first, more = partitions[0], and_more(len(partitions), form=" (and {} partitions more)")
        yield (
            f"{flow.source.alias} does not answer OffsetForLeaderEpoch for {first.topic}-{first.partition}{more}:"
            " records that it lost after they were copied are noticed only if its log is shorter now"
        )


def _delete(
    flow: FlowSettings, clusters: Clusters, due: DeletedTopic, known: str, run_id: str | None
) -> LifecycleResult:
    """Delete a copy that outlived its source topic, if it is still the one the flow wrote (`known`, its id)."""
    name = due.remote_topic
    found = clusters.target.describe_topics([name]).found.get(name)
    if found is not None and not differ(known, found.topic_id):
        if refusal := _kept(flow, clusters, due, found.topic_id):
            return LifecycleResult(refused=(refusal,))
        if error := clusters.target.delete_topics([name]).refused.get(name):
            return LifecycleResult(refused=(Refusal.of(name, error),))
    owned = Ownership.taken(flow, clusters, "delete", run_id)
    known_topic = KnownTopic(owned.state, due.topic, [name], owned.progress)
    # A person's pause outlives the topic, which may come back.
    owned.write([record for kind, record in known_topic.read(flow, clusters) if kind != TopicPause.KIND])
    note = f"{name} is deleted: {due.topic} has been gone for long enough"
    return LifecycleResult(deleted_copies=(name,), notes=(note,))


def _kept(flow: FlowSettings, clusters: Clusters, due: DeletedTopic, remote_topic_id: str) -> Refusal | None:
    """Return why a copy that is due stays: records of other writers in it have not lost their source."""
    writers = other_writers(flow, clusters, due.topic, due.remote_topic, remote_topic_id)
    if not writers:
        return None
    error = shared(flow, due.topic, due.remote_topic, writers)
    return Refusal(due.remote_topic, SHARED, error.message, error.hint)


def _rebuild(flow: FlowSettings, clusters: Clusters, topic: str, run_id: str | None) -> LifecycleResult:
    """Begin the rebuild that policy asks for, or continue the one that was begun."""
    reason = "twinlog.on.recreated=new-incarnation"
    try:
        result = rebuild.run(flow, clusters, topic, by="twinlog", reason=reason, run_id=run_id)
    except TwinlogError as error:
        if error.code != REFUSED:
            raise
        return LifecycleResult(refused=(Refusal.of(topic, error),))
    return LifecycleResult(rebuilt=(topic,), notes=result.notes) if result.deleted else LifecycleResult()
