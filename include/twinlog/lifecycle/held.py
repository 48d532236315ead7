"""Hold the copy of one partition still, so that a person may change how far it is.

The flow, or the topic, is paused meanwhile, so that no cycle begins to copy; the fence shuts out a lane that still
does.  What is decided is decided by what is read behind the fence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.topics import Gap, GapCause
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.spec import StateTopics
from twinlog.lifecycle.alter_plan import REFUSED, Standing, why_not_held
from twinlog.lifecycle.records import first_time, forgotten, newest_time
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic
from twinlog.topics.pauses import why_suspended
from twinlog.topics.snapshot import FlowSnapshot

NOT_PAUSED = "not-paused"
"""Code of the error for a flow that may copy while it is to be changed."""


def look(flow: FlowSettings, clusters: Clusters, topic: str, partition: int) -> tuple[FlowSnapshot, Standing]:
    """Read the flow's state, and where the copy of a partition stands, and change nothing.

    Raises TerminalError `phase` as `require_service`, what `standing` raises, and errors of clusters.
    """
    snapshot = FlowSnapshot(flow, clusters).read_state()
    require_service(flow, snapshot.ledger)
    return snapshot, standing(snapshot, snapshot.progress, topic, partition)


def hold(
    flow: FlowSettings, clusters: Clusters, topic: str, partition: int, why: str
) -> tuple[Ownership, FlowSnapshot, Standing]:
    """Take the flow, and read behind the fence what `look` reads.

    Raises as `look`, TerminalError `not-paused`, and FencedError if another driver takes the flow meanwhile.
    """
    owned = Ownership.taken(flow, clusters, why)
    snapshot = FlowSnapshot(flow, clusters).read_state()
    require_service(flow, snapshot.ledger)
    if before := why_not_held(snapshot.ledger, topic):
        refuse_unheld(flow, topic, before)
    return owned, snapshot, standing(snapshot, owned.progress, topic, partition)


def standing(
    snapshot: FlowSnapshot, progress: Mapping[TopicPartition, int], topic_name: str, number: int
) -> Standing:
    """Find where the copy of a partition stands, by `progress` (last copied upstream offsets).

    Raises UsageError for a topic or partition that the flow does not have, TerminalError `alter-refused` for one that
    has a problem or has not begun.
    """
    flow, ledger = snapshot.flow, snapshot.ledger
    topic, partition = _found(snapshot, topic_name, number)
    noted_life = ledger.incarnations.get(topic.topic)
    last = progress.get(topic.at_source(partition.partition))
    goes_on = partition.begins if last is None else last + 1
    if noted_life is None or goes_on is None:
        raise TerminalError(
            f"{topic.topic}-{partition.partition}: where its copy begins is not noted yet",
            hint="`twinlog.start` says where new topics begin; `twinlog run --once` notes it",
            code=REFUSED,
            topic=topic.topic,
        )
    return Standing(
        topic.topic,
        topic.topic_id,
        topic.remote_topic,
        partition.partition,
        goes_on,
        partition.source.log_start,
        partition.source.readable_end(read_committed=flow.copy.read_committed),
    )


def _found(snapshot: FlowSnapshot, name: str, number: int) -> tuple[DiscoveredTopic, DiscoveredPartition]:
    flow, discovery = snapshot.flow, snapshot.discovery
    topic = next((it for it in discovery.topics if it.topic == name), None)
    if topic is None:
        raise UsageError(
            f"--topic: {flow.name} replicates no topic {name}",
            hint="`twinlog offsets show` lists them",
        )
    problem = next((it for it in discovery.problems if it.topic == topic.topic and it.blocking), None)
    if problem is not None:
        raise TerminalError(problem.message, hint=problem.hint, code=REFUSED, topic=topic.topic)
    if not 0 <= number < topic.partition_count:
        raise UsageError(
            f"--partition: {topic.topic} has partitions 0 to {topic.partition_count - 1}, and no {number}"
        )
    found = next((it for it in topic.provisioned if it.partition == number), None)
    if found is None or found.target is None:
        raise TerminalError(
            f"{topic.topic}-{number}: one of the clusters did not say where its log begins and ends",
            hint="it needs a leader that answers on both sides; a cycle creates the copy's partitions",
            code=REFUSED,
            topic=topic.topic,
        )
    return topic, found


def require_service(flow: FlowSettings, ledger: Ledger) -> None:
    """Raise TerminalError `phase` for a flow that is failing over or promoted, or that MirrorMaker 2 copies now."""
    state = ledger.flow_state
    if state is not None and (state.state.out_of_service or state.handed_over):
        raise TerminalError(
            f"flow {flow.name} is {why_suspended(ledger)}",
            hint="`twinlog takeover` takes it back"
            if state.handed_over
            else "`twinlog recovery status` says what can be done",
            code="phase",
            flow=flow.name,
        )


def refuse_unheld(flow: FlowSettings, topic: str, before: str) -> NoReturn:
    """Raise TerminalError `not-paused`; `before` says what to do first."""
    raise TerminalError(
        f"{flow.name} may copy {topic} at any moment, so its offsets stay as they are",
        hint=before,
        code=NOT_PAUSED,
        flow=flow.name,
        topic=topic,
    )


def without_epoch(state: StateTopics, ledger: Ledger, at: Standing) -> Iterator[StateRecord]:
    """Forget the epoch of the last copied batch: it says nothing of the log right before the new place."""
    for it in ledger.leader_epochs:
        if it.life == at.life:
            yield forgotten(state, it)


def left_by_a_person(
    clusters: Clusters, at: Standing, first: int, end: int, cause: GapCause, now_ms: int
) -> Gap:
    """Describe the upstream offsets [`first`, `end`) that a person leaves without copies, for a `cause`."""
    return Gap(
        at.topic,
        at.partition,
        first,
        end - 1,
        cause,
        now_ms,
        end - first,
        at.topic_id,
        first_ms=newest_time(clusters.target, TopicPartition(at.remote_topic, at.partition)),
        last_ms=first_time(clusters.source, at.topic_partition, end),
        copied_past=True,
    )
