"""Turn positions of groups on the source into questions for the translator: now, at a time, or by checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from twinlog.client.pairs import Ask
from twinlog.cluster.admin.groups import GroupState
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, UsageError
from twinlog.grouped import grouped
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import read_ledger
from twinlog.state.mm2_topics import DatedCheckpoint, read_checkpoint_history
from twinlog.topics.incarnations import about_source_incarnation, sources_of_copies
from twinlog.topics.snapshot import all_partitions
from twinlog.visible import listed


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups meant: by name, or by a Java regex that matches the whole name, as in MM2's `groups`."""

    names: tuple[str, ...] = ()
    pattern: str = ""

    def accepts(self, name: str) -> bool:
        """Say whether the group is meant."""
        return name in self.names or (bool(self.pattern) and NameFilter((self.pattern,)).accepts(name))

    def __bool__(self) -> bool:
        return bool(self.names or self.pattern)


@dataclass(frozen=True, slots=True)
class Standing:
    """Questions, and what to know about them.

    `as_of_ms` says for each question when the group stood there (None: now).  `back` says that the offsets are the
    target's.  `notes` are lines for people: which groups were left out, and why.
    """

    asks: tuple[Ask, ...]
    notes: tuple[str, ...] = ()
    as_of_ms: tuple[int | None, ...] = ()
    back: bool = False


def standing_now(flow: FlowSettings, clusters: Clusters, groups: Groups) -> Standing:
    """Read what groups have committed on the source; if the source is gone, what their checkpoints say.

    Raises UsageError if a named group does not exist, a pattern matches none, or none has a position in the flow.
    """
    try:
        return _committed(flow, clusters, groups)
    except ClusterUnreachable as error:
        if error.cluster != flow.source.alias:
            raise
    found = _last(read_checkpoint_history(flow, clusters.target), groups)
    note = f"{flow.source.alias} is out of reach: groups stand where their last checkpoints say"
    return _from_checkpoints(flow, clusters, found, groups, note)


def standing_at(flow: FlowSettings, clusters: Clusters, groups: Groups, at_ms: int) -> Standing:
    """Find the last checkpoint at or before a time: the group stood there or further on.

    Kafka keeps no history of committed offsets; the checkpoints topic keeps what compaction has left of it.
    Checkpoints of an earlier incarnation of a topic are left out, with a note, because the map covers the present one.
    Raises UsageError if nothing is left of any of the groups.
    """
    history = (
        checkpoint
        for checkpoint in read_checkpoint_history(flow, clusters.target)
        if checkpoint.at_ms <= at_ms
    )
    note = "the last checkpoints left from before that time: groups stood there or further on"
    return _from_checkpoints(flow, clusters, _last(history, groups), groups, note)


def records_at(
    flow: FlowSettings, clusters: Clusters, at_ms: int, topics: Collection[str] | None
) -> Standing:
    """Find the first record at or after a time (ms) in every partition: the position of a reader of all before it.

    Looks on the source, or on the copies if the source is gone.
    """
    try:
        return _records_at(flow, clusters, at_ms, topics)
    except ClusterUnreachable as error:
        if error.cluster != flow.source.alias:
            raise
    source_of = sources_of_copies(flow, read_ledger(flow, clusters.target))
    sources = {
        name: source
        for name in clusters.target.topic_names()
        if not flow.policy.is_internal_topic(name) and (source := source_of(name)) is not None
    }
    copies = [name for name, source in sources.items() if topics is None or source in topics]
    missing = sorted(set(topics or ()) - set(sources.values()))
    if missing or not copies:
        raise UsageError(
            f"{flow.target.alias} has no copy of {missing[0] if missing else 'any topic of flow ' + flow.name}",
            hint="--topic takes source topics",
        )
    note = f"{flow.source.alias} is out of reach: times are those of the copies"
    return Standing(_firsts(clusters.target, copies, at_ms), (note,), back=True)


def _records_at(
    flow: FlowSettings, clusters: Clusters, at_ms: int, topics: Collection[str] | None
) -> Standing:
    names = [
        name
        for name in clusters.source.topic_names()
        if flow.why_left_out(name) is None and (topics is None or name in topics)
    ]
    unknown = sorted(set(topics or ()) - set(names))
    if unknown:
        raise UsageError(
            f"flow {flow.name} does not replicate topic {unknown[0]}", hint="--topic takes source topics"
        )
    return Standing(_firsts(clusters.source, names, at_ms))


def _firsts(cluster: ClusterReader, topics: Iterable[str], at_ms: int) -> tuple[Ask, ...]:
    """Return the first record at or after a time in every partition, its end if there is none."""
    partitions = all_partitions(cluster.describe_topics(topics).require().values())
    found, ends = cluster.offsets_at(partitions, at_ms).require(), cluster.offsets(partitions).require()
    first = {
        partition: ends[partition].stable_end if (at := found[partition]) is None else at
        for partition in partitions
    }
    return tuple(Ask(*it, offset) for it, offset in first.items())


def _committed(flow: FlowSettings, clusters: Clusters, groups: Groups) -> Standing:
    notes: list[str] = []
    not_replicated: set[tuple[str, str]] = set()
    names = list(groups.names)
    for listing in clusters.source.groups() if groups.pattern else ():
        if groups.accepts(listing.group) and listing.group not in names:
            if listing.type.commits_offsets:
                names.append(listing.group)
            else:
                notes.append(
                    f"{listing.group} is a {listing.type.value} group: it has no offsets to translate"
                )
    if not names:
        raise UsageError(
            f"{flow.source.alias} has no consumer group that matches {groups.pattern!r}",
            hint="the pattern is a Java regex and must match the whole name",
        )
    committed = clusters.source.committed_offsets(names).require()
    _require_known(flow, clusters, [name for name in groups.names if not committed[name]])
    asks = []
    for name in sorted(names):
        for at, position in sorted(committed[name].items()):
            if flow.why_left_out(at.topic) is not None:
                not_replicated.add((name, at.topic))
            else:
                asks.append(Ask(at.topic, at.partition, position.offset, name))
    known = {ask.group for ask in asks}
    missing = [name for name in groups.names if name not in known]
    if missing or not known:
        others = sorted(topic for group, topic in not_replicated if group in (missing or names))
        only = f", only in {listed(others)}" if others else ""
        raise UsageError(
            f"{listed(missing or sorted(names))}: no position in a topic that {flow.name} replicates{only}",
            hint="`twinlog plan --explain` says why topics are left out",
        )
    for group, topics in grouped(sorted(not_replicated)).items():
        notes.append(f"{group} also reads what {flow.name} does not replicate: {', '.join(topics)}")
    return Standing(tuple(asks), tuple(notes))


def _require_known(flow: FlowSettings, clusters: Clusters, names: Sequence[str]) -> None:
    described = clusters.source.describe_groups(names).require() if names else {}
    for name in names:
        gone = described[name].state is GroupState.DEAD
        raise UsageError(
            f"{flow.source.alias} has no group {name}" if gone else f"group {name} has committed no offset",
            hint="names are taken as they are; --groups takes a regex",
            group=name,
        )


def _last(history: Iterable[DatedCheckpoint], groups: Groups) -> dict[tuple[str, str, int], DatedCheckpoint]:
    last: dict[tuple[str, str, int], DatedCheckpoint] = {}
    for checkpoint in history:
        known = checkpoint.checkpoint
        if groups.accepts(known.group):
            last[known.group, known.topic, known.partition] = checkpoint
    return last


def _from_checkpoints(
    flow: FlowSettings,
    clusters: Clusters,
    found: dict[tuple[str, str, int], DatedCheckpoint],
    groups: Groups,
    note: str,
) -> Standing:
    ledger = read_ledger(flow, clusters.target)
    source_of = sources_of_copies(flow, ledger)
    asks: list[Ask] = []
    times: list[int] = []
    left_out: dict[str, None] = {}
    for (group, topic, partition), it in sorted(found.items()):
        source = source_of(topic)
        if source is None:
            # This copy came from the target; the offsets in question are the original's.
            text = (
                f"{group}: its checkpoints of {topic} are about no copy of {flow.source.alias}, and left out"
            )
            left_out[text] = None
        elif about_source_incarnation(it.at_ms, source, ledger):
            asks.append(Ask(source, partition, it.checkpoint.upstream_offset, group))
            times.append(it.at_ms)
        else:
            text = f"{group}: its checkpoints of {source} are about the topic before it was made anew, and left out"
            left_out[text] = None
    known = {ask.group for ask in asks}
    missing = [name for name in groups.names if name not in known]
    if missing or not known:
        raise UsageError(
            f"{flow.target.alias} has no checkpoint of {', '.join(missing) or 'any such group'} in"
            f" {flow.policy.checkpoints_topic(flow.source.alias)}",
            hint="; ".join((*left_out, "nothing else is left of where it stood")),
        )
    return Standing(tuple(asks), (note, *left_out), tuple(times))
