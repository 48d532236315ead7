"""Find the flows from a flow's target to its source, by cluster id, and their state (logs/reverse_ledgers.py).

Their state is on the source. State written by an older release may not say from which cluster it was copied. Such a
ledger counts as a reverse flow's if it has the target's name. Every other such ledger is warned of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FormatError
from twinlog.formats.ledger.writers import ReverseFlow, source_ids
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.kafka_types import TopicPartition
from twinlog.logs.reverse_ledgers import SourceLedger, sort_ledger
from twinlog.policy.state_topics import comes_home, ledger_topic, offset_map_topic, source_of_ledger
from twinlog.state.ledger import Ledger, latest_records_or_empty, ledger_from, ledger_in
from twinlog.state.progress import PackedMaps, maps_in
from twinlog.topics.incarnations import differ


@dataclass(frozen=True, slots=True)
class ReverseState:
    """The state that one reverse flow keeps on the source."""

    alias: str
    maps: PackedMaps
    ledger: Ledger
    ledger_topic_id: str = ""

    @property
    def ledger_topic(self) -> str:
        """The topic of its ledger, on the source."""
        return ledger_topic(self.alias)

    def writes_to(self, topics: Collection[str]) -> bool:
        """Say whether the reverse flow copies, or copied, into one of these topics of the source."""
        return any(life.remote_topic in topics for life in self.ledger.every_incarnation)

    def may_write_to(self, topics: Collection[str]) -> bool:
        """Say whether the reverse flow writes to them, or has not yet recorded what it copies."""
        return self.writes_to(topics) or not self.ledger.every_incarnation

    def concerns(self, topic: str, remote: str, remote_id: str = "") -> bool:
        """Say whether records that it took out of the copy `remote` may lie in this topic of the source.

        If both have one name, that is so before it has recorded what it copies.  Records that came home from a copy of
        another name are of that copy alone: one that was made anew since lacks them.
        """
        if topic == remote:
            return self.may_write_to({topic})
        return any(
            (incarnation.topic, incarnation.remote_topic) == (remote, topic)
            and not differ(incarnation.topic_id, remote_id)
            for incarnation in self.ledger.every_incarnation
        )


def reverse_ledger(flow: FlowSettings) -> str:
    """Return the ledger topic, on the source, of a reverse flow that calls the target by the same name."""
    return ledger_topic(flow.target.alias)


def reverse_ledgers(flow: FlowSettings, clusters: Clusters) -> tuple[SourceLedger, ...]:
    """Return the ledgers of all flows from this target to this source.

    A ledger of another name that this user may not read is skipped (`unknown_ledgers`). Raises FormatError for a
    damaged ledger, unless it is another flow's, and errors of the clusters.
    """
    return tuple(ledger for ledger in source_ledgers(flow, clusters) if ledger.reverse)


def source_ledgers(flow: FlowSettings, clusters: Clusters) -> Iterator[SourceLedger]:
    """Yield each ledger on the source, with whether it is a reverse flow's.

    Empty ledgers are left out, except that of the target's name. Raises as `reverse_ledgers`.
    """
    own, target_id = reverse_ledger(flow), clusters.target.cluster_id()
    seen = (name for name in clusters.source.topic_names() if source_of_ledger(name) is not None)
    for name in sorted({own, *seen}):
        alias = source_of_ledger(name) or ""
        try:
            found = _sorted(flow, clusters, alias, target_id)
        except ClusterRefused as error:
            if name == own:
                raise
            yield SourceLedger(alias, refused=error.message)
            continue
        if found.records or name == own:
            yield found


def _sorted(flow: FlowSettings, clusters: Clusters, alias: str, target_id: str) -> SourceLedger:
    found = latest_records_or_empty(clusters.source, ledger_topic(alias))
    return sort_ledger(alias, found, target_alias=flow.target.alias, target_cluster_id=target_id)


def reverse_aliases(flow: FlowSettings, clusters: Clusters, aliases: Collection[str]) -> frozenset[str]:
    """Return which aliases, first parts of names of topics on the source, are the target's by cluster id.

    MM2's rule against cycles goes by the target's own alias. A ledger that cannot be read is ignored here. Raises
    errors of the clusters.
    """
    found: set[str] = set()
    target_id = clusters.target.cluster_id() if aliases else ""
    for alias in aliases:
        with suppress(ClusterRefused, FormatError):
            ledger = _sorted(flow, clusters, alias, target_id)
            if ledger.reverse and ledger.known:
                found.add(alias)
    return frozenset(found)


def unknown_ledgers(flow: FlowSettings, clusters: Clusters) -> tuple[str, ...]:
    """Describe the ledgers on the source that may or may not be reverse flows'.

    Raises as `reverse_ledgers`.
    """
    here, there = flow.source.alias, flow.target.alias
    return tuple(
        f"{ledger.ledger_topic} on {here} {reason}: if {there} is what it calls {ledger.alias}, and topics keep their"
        f" names, records of {there} come back as new ones; {advice}"
        for ledger in source_ledgers(flow, clusters)
        if not ledger.reverse and not ledger.known
        for reason, advice in [
            (f"may not be read ({ledger.refused})", f"grant READ on topic {ledger.ledger_topic}")
            if ledger.refused
            else ("does not say which cluster that is", "one cycle of that flow with this release notes it")
        ]
    )


def read_reverse_states(
    flow: FlowSettings, clusters: Clusters, copies: Mapping[str, str]
) -> tuple[ReverseState, ...]:
    """Read map and then ledger of each reverse flow.

    `copies` are the topic ids its copies have on the source now, by name. A map of a copy that was made anew since is
    left out: it is about other records than lie there now. Raises as `reverse_ledgers`.
    """
    maps = {
        reverse.alias: maps_in(clusters.source, offset_map_topic(reverse.alias))
        for reverse in reverse_ledgers(flow, clusters)
    }
    # Read the ledgers again after the maps, so that every incarnation that has a map is known.
    found = [reverse for reverse in reverse_ledgers(flow, clusters) if reverse.alias in maps]
    kept = [
        reverse for reverse in found if reverse.records or maps[reverse.alias] or maps[reverse.alias].broken
    ]
    described = clusters.source.describe_topics([reverse.ledger_topic for reverse in kept]).found
    ids = {name: it.topic_id for name, it in described.items()}
    return tuple(
        ReverseState(
            reverse.alias,
            _current(maps[reverse.alias], ledger := ledger_from(reverse.records), copies),
            ledger,
            ids.get(reverse.ledger_topic, ""),
        )
        for reverse in kept
    )


def read_reverse_state(
    flow: FlowSettings, clusters: Clusters, copies: Mapping[str, str]
) -> ReverseState | None:
    """Read all reverse flows that write to `copies` as one; None without any.

    Nearly always there is only one. Raises as `read_reverse_states`.
    """
    ways = tuple(state for state in read_reverse_states(flow, clusters, copies) if state.may_write_to(copies))
    if len(ways) < 2:
        return ways[0] if ways else None
    aliases = {state.alias for state in ways}
    records = [
        record
        for ledger in reverse_ledgers(flow, clusters)
        if ledger.alias in aliases
        for record in ledger.records
    ]
    maps = PackedMaps({}, {})
    for way in ways:
        maps = PackedMaps({**maps, **way.maps}, {**maps.broken, **way.maps.broken})
    return ReverseState(ways[0].alias, maps, ledger_from(records))


def copy_names(ledger: Ledger) -> dict[tuple[str, str], str]:
    """Return the copy of every incarnation, by its topic and topic id."""
    return {(life.topic, life.topic_id): life.remote_topic for life in ledger.every_incarnation}


def maps_home(
    flow: FlowSettings, clusters: Clusters, copies: Mapping[str, str]
) -> Mapping[tuple[TopicPartition, str], PackedMap | UnreadableMap]:
    """Return the maps by which records of copies came home into the target's own topics.

    `copies` are topics of the source by name, with their ids; the result is by partition and the topic's name on the
    target.  Raises FormatError for a damaged ledger, and errors of the target.
    """
    found: dict[tuple[TopicPartition, str], PackedMap | UnreadableMap] = {}
    source_id = clusters.source.cluster_id()
    for name in clusters.target.topic_names():
        alias = source_of_ledger(name)
        if alias is None or name == flow.ledger_topic or not comes_home(name):
            continue
        ledger = ledger_in(clusters.target, name)
        lives = {
            (topic, topic_id): copy
            for (topic, topic_id), copy in copy_names(ledger).items()
            if topic in copies and not differ(topic_id, copies[topic])
        }
        if not lives or source_id not in source_ids((*ledger.claims, *ledger.every_incarnation)):
            continue
        maps = maps_in(clusters.target, offset_map_topic(alias))
        for life in (*maps, *maps.broken):
            remote = lives.get((life.topic, life.topic_id))
            packed = maps.seen(life)
            if remote is not None and packed is not None:
                found[life.topic_partition, remote] = packed
    return found


def _current(maps: PackedMaps, ledger: Ledger, copies: Mapping[str, str]) -> PackedMaps:
    outlived = {
        (incarnation.topic, incarnation.topic_id)
        for incarnation in ledger.every_incarnation
        if differ(incarnation.remote_topic_id, copies.get(incarnation.remote_topic, ""))
    }
    return PackedMaps(
        {life: packed for life, packed in maps.items() if (life.topic, life.topic_id) not in outlived},
        {life: why for life, why in maps.broken.items() if (life.topic, life.topic_id) not in outlived},
    )


def gone_reverse_flows(clusters: Clusters, noted: Iterable[ReverseFlow]) -> tuple[ReverseFlow, ...]:
    """Return the recorded reverse flows whose ledger on the source is gone, or is another topic now."""
    wanted = tuple(noted)
    if not wanted:
        return ()
    found = clusters.source.describe_topics({flow.ledger_topic for flow in wanted}).existing()
    ids = {name: it.topic_id for name, it in found.items()}
    return tuple(flow for flow in wanted if ids.get(flow.ledger_topic) != flow.ledger_topic_id)
