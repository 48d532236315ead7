"""Forget a topic that both clusters have lost, as a person asks for (`twinlog topics forget`).

    1. plan      both sides are asked by name; refused while either has the topic, or cannot say, and while the
                 flow is not active: a failover may need what is known
    2. forget    behind the fence, checked once more, in one transaction: progress, map and ledger records of the
                 topic

A topic of the same name is then treated as never seen.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership, state_topics
from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.accepted import every_form
from twinlog.formats.ledger.entry import LEDGER_PARTITION
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.kafka_types import Positions
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.spec import StateTopics
from twinlog.lifecycle.records import Stored, forgotten, piece, progress
from twinlog.state.ledger import Ledger, latest_or_empty, read_behind_fence, read_ledger
from twinlog.state.progress import read_progress, stored_segments
from twinlog.topics.incarnations import differ
from twinlog.topics.pauses import how_to_go_on, why_suspended

_NOT_YET = "delete it there first; to copy it no more, name it in topics.exclude: then its state stays"

REFUSED = "forget-refused"
"""Code of the refusal to forget a topic."""

_KINDS = {
    kind.KIND: kind.IDENTITY[0]
    for kind in get_args(LedgerRecord)
    if kind.IDENTITY and kind.IDENTITY[0] in {"topic", "remote_topic"}
}
"""Kinds of ledger records that are about a topic, and by which of its names."""


OF_A_COPY = frozenset({
    *("progress", "map", "beginning", "leader-epoch", "map-hole", "gap", "gap-acknowledged"),
    *("quarantine", "offsets-altered", "audit", "deleted-topic"),
})
"""Kinds of records that are about the records of a copy, and go with it."""


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """The records forgotten of a source topic (in a dry run: to be forgotten), counted by kind.

    `dropped` counts records of `progress` and `map`, and those of the ledger by their kind.
    """

    flow: str
    topic: str
    remote_topics: tuple[str, ...]
    dry_run: bool
    dropped: Mapping[str, int]


def run(flow: FlowSettings, clusters: Clusters, topic: str, *, dry_run: bool = False) -> ForgetResult:
    """Forget all that the flow knows of a source topic.

    Raises UsageError for a topic the flow does not know, TerminalError `forget-refused` while either cluster has the
    topic or its state may be needed, FencedError, and errors of clusters. Nothing is changed then.
    """
    ledger = read_ledger(flow, clusters.target)
    remotes = _require_gone(flow, clusters, ledger, topic)
    if dry_run:
        stored = read_progress(flow, clusters.target)
        known = KnownTopic(state_topics(flow, clusters), topic, remotes, stored)
        return ForgetResult(flow.name, topic, remotes, True, _by_kind(known.read(flow, clusters)))
    owned = Ownership.taken(flow, clusters, "forget")
    ledger = read_behind_fence(flow, clusters.target)
    remotes = _require_gone(flow, clusters, ledger, topic)
    records = KnownTopic(owned.state, topic, remotes, owned.progress).read(flow, clusters)
    owned.write([record for _, record in records])
    return ForgetResult(flow.name, topic, remotes, False, _by_kind(records))


def told(done: ForgetResult) -> str:
    """Return a line that says what was forgotten. Pure."""
    what = ", ".join(f"{count} of {kind}" for kind, count in done.dropped.items())
    return f"{done.topic} {'would be' if done.dry_run else 'is'} forgotten ({what})"


def _require_gone(flow: FlowSettings, clusters: Clusters, ledger: Ledger, topic: str) -> tuple[str, ...]:
    """Check that both clusters have lost the topic and that its state is not needed.

    Return the names of its copies. Raises as `run`.
    """
    incarnations = [incarnation for incarnation in ledger.every_incarnation if incarnation.topic == topic]
    copied = any(it.topic == topic for it in read_progress(flow, clusters.target))
    if not incarnations and not copied:
        raise UsageError(
            f"flow {flow.name} knows nothing of topic {topic}",
            "--topic takes the name of a source topic; `twinlog status` lists those that were copied",
            flow=flow.name,
            topic=topic,
        )
    suspended = why_suspended(ledger)
    if suspended:
        raise _refused(flow, topic, f"the flow is {suspended}", how_to_go_on(ledger.phase))
    known = incarnations[-1].source_cluster_id if incarnations else ""
    seen = clusters.source.cluster_id()
    if differ(known, seen):
        why = (
            f"{flow.source.alias} is another cluster than the one it was copied from, and has deleted nothing"
        )
        raise _refused(flow, topic, why, f"check {flow.source.alias}.bootstrap.servers")
    # If only progress knows a topic, as MM2's, its copy has the name that the policy gives.
    remotes = tuple(dict.fromkeys(incarnation.remote_topic for incarnation in incarnations)) or (
        flow.remote_name(topic),
    )
    if topic not in _missing(clusters.source, [topic]):
        raise _refused(flow, topic, f"{flow.source.alias} has it", _NOT_YET)
    if there := sorted(set(remotes) - _missing(clusters.target, remotes)):
        hint = "delete it there when nobody needs it, or set twinlog.on.deleted"
        raise _refused(flow, topic, f"{flow.target.alias} has {', '.join(there)}", hint)
    return remotes


def _missing(cluster: ClusterReader, names: Collection[str]) -> frozenset[str]:
    """Return the topics that a cluster says do not exist.

    Raises any other refusal: the cluster does not say then whether the topic exists.
    """
    answers = cluster.describe_topics(names)
    answers.existing()
    return answers.absent


def _refused(flow: FlowSettings, topic: str, why: str, hint: str) -> TerminalError:
    return TerminalError(
        f"{flow.name} does not forget topic {topic}: {why}", hint, code=REFUSED, flow=flow.name, topic=topic
    )


@dataclass(frozen=True, slots=True)
class KnownTopic:
    """A source topic that is to be forgotten, with its copies; `stored` is the flow's progress."""

    state: StateTopics
    topic: str
    remotes: Collection[str]
    stored: Positions

    def read(self, flow: FlowSettings, clusters: Clusters) -> list[tuple[str, StateRecord]]:
        """Read all stored records about the topic, and make their tombstones, each with its kind."""
        pieces = stored_segments(flow, clusters.target)
        return [*self.tombstones(pieces, latest_or_empty(clusters.target, flow.ledger_topic))]

    def of_the_copy(self, flow: FlowSettings, clusters: Clusters, ledger: Ledger) -> Iterator[StateRecord]:
        """Yield the records that forget what is about the copy; a map that cannot be read goes like any other."""
        yield from (record for kind, record in self.read(flow, clusters) if kind in OF_A_COPY)
        for accepted in ledger.accepted:
            if accepted.topic == self.topic:
                yield from (forgotten(self.state, record) for record in every_form(accepted))

    def tombstones(self, pieces: Stored, ledger: Collection[bytes]) -> Iterator[tuple[str, StateRecord]]:
        """Yield, with its kind, a tombstone for each record about it, of any of its incarnations. Pure."""
        for partition in sorted(self.stored):
            if partition.topic == self.topic:
                yield "progress", progress(self.state, partition, None)
        for incarnation, firsts in pieces.items():
            if incarnation.topic == self.topic:
                yield from (("map", piece(self.state, incarnation, first, None)) for first in firsts)
        names = {"topic": {self.topic}, "remote_topic": set(self.remotes)}
        for key in ledger:
            kind, *identity = json.loads(key)
            if kind in _KINDS and identity[0] in names[_KINDS[kind]]:
                yield kind, StateRecord(self.state.ledger_topic, LEDGER_PARTITION, key, None)


def _by_kind(records: Iterable[tuple[str, StateRecord]]) -> dict[str, int]:
    return dict(Counter(kind for kind, _ in records))
