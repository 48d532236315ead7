"""Plan which configs of the copies the metadata sync changes.  Pure.

Profile `mm2` is MirrorSourceConnector's incremental sync: every entry that the source sets is set, every entry that is
default there is removed.  The other profiles compare three ways: an entry on the target that twinlog did not set is
kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.values import Answers, Configs, ConfigSource, ConfigValue, TopicDescription
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.metadata import TopicConfigsSet
from twinlog.metadata.values import ChangeKind, ConfigChange, Drift, Part, ThreeWay, three_way
from twinlog.policy.selection import NameFilter
from twinlog.topics.plan import Refusal, clamped, creation_configs, excluded_configs
from twinlog.visible import singular


@dataclass(frozen=True, slots=True)
class TopicConfigState:
    """The flow's topics that have a copy: the copies under their topics' names, and the configs of both."""

    copies: Mapping[str, TopicDescription]
    source: Answers[str, Configs]
    target: Answers[str, Configs]
    target_brokers: int


def plan_topic_configs(
    flow: FlowSettings, state: TopicConfigState, memory: Iterable[TopicConfigsSet]
) -> Part:
    """Compare every topic with its copy."""
    remembered = {record.remote_topic: record.configs for record in memory}
    judged: list[_Judged] = []
    refused: list[Refusal] = []
    for topic, copy in state.copies.items():
        error = state.source.refused.get(topic) or state.target.refused.get(copy.name)
        if error is not None:
            refused.append(Refusal.of(f"configs of {copy.name}", error))
            continue
        there = state.target.found[copy.name]
        wanted = wanted_configs(flow, state.source.found[topic], there)
        one = _Topic(flow, copy.name, wanted, there, remembered.get(copy.name, {}))
        judged.extend(_judge(one))
    refused += [it for it in judged if isinstance(it, Refusal)]
    settings = [it for it in judged if isinstance(it, ConfigChange)]
    return Part(
        changes=tuple(it for it in settings if it.before != it.after),
        drift=(
            *(it for it in judged if isinstance(it, Drift)),
            *_replication(flow, state.copies.values(), state.target_brokers),
        ),
        refused=tuple(refused),
        agreed=tuple(it for it in settings if it.before == it.after),
        notes=tuple(_clamped(flow, state)),
        unknown=(ChangeKind.TOPIC_CONFIG,) if refused else (),
    )


def wanted_configs(flow: FlowSettings, source: Configs, target: Configs) -> dict[str, str | None]:
    """Return the copy's wanted entries; None means "not set on the topic", and other entries are left alone."""
    excluded = excluded_configs(flow)
    wanted: dict[str, str | None] = {}
    if flow.metadata.profile is Profile.MM2:
        wanted |= {entry.name: None for entry in source.values() if _is_default(entry, excluded)}
    else:
        # Also entries that the source has from a broker's file: such a value is not for another cluster.
        own = {entry.name for entry in target.values() if entry.source is ConfigSource.TOPIC}
        wanted |= {name: None for name in own if not excluded.excludes(name)}
    return wanted | creation_configs(flow, source)


def _is_default(entry: ConfigValue, excluded: NameFilter) -> bool:
    return (
        entry.source is ConfigSource.DEFAULT
        and not entry.read_only
        and not entry.sensitive
        and not excluded.excludes(entry.name)
    )


@dataclass(frozen=True, slots=True)
class _Topic:
    """One copy: its wanted entries, its present ones, and those that twinlog gave it."""

    flow: FlowSettings
    name: str
    wanted: Mapping[str, str | None]
    there: Configs
    remembered: Mapping[str, str]


_Judged = ConfigChange | Drift | Refusal


def _judge(topic: _Topic) -> Iterator[_Judged]:
    mm2 = topic.flow.metadata.profile is Profile.MM2
    forgotten = topic.remembered.keys() - topic.wanted.keys()
    for name in sorted({*topic.wanted, *forgotten}):
        wanted, remembered = topic.wanted.get(name), topic.remembered.get(name)
        if name not in topic.there:
            if wanted is not None:
                yield _unknown(topic, name)
            continue
        entry = topic.there[name]
        there = entry.value if entry.source is ConfigSource.TOPIC else None
        match three_way(wanted, there, remembered):
            case ThreeWay.AGREED:
                if remembered != wanted:
                    yield ConfigChange(topic.name, name, there, wanted)
            case ThreeWay.KEEP if not mm2:
                yield _kept(topic, name, there, remembered)
            case _ if name not in forgotten:
                yield ConfigChange(topic.name, name, there, wanted)


def _unknown(topic: _Topic, name: str) -> Refusal:
    return Refusal(
        f"topic {topic.name}: {name}",
        "unknown-config",
        f"{topic.flow.target.alias} knows no topic config {name}",
        "add it to config.properties.exclude",
    )


def _kept(topic: _Topic, name: str, there: str | None, remembered: str | None) -> Drift:
    alias = topic.flow.target.alias
    why = f"changed on {alias} since twinlog set it" if remembered is not None else f"set on {alias}"
    return Drift(
        ChangeKind.TOPIC_CONFIG,
        f"topic {topic.name}",
        name,
        topic.wanted.get(name),
        there,
        f"{why}: kept; delete it there to follow {topic.flow.source.alias} again",
    )


def _clamped(flow: FlowSettings, state: TopicConfigState) -> Iterator[str]:
    factor = clamped(flow.replication_factor, state.target_brokers)
    if state.copies and factor != flow.replication_factor:
        yield singular(
            f"replication.factor is {flow.replication_factor}; copies get {factor}:"
            f" {flow.target.alias} has {state.target_brokers} brokers"
        )


def _replication(flow: FlowSettings, copies: Iterable[TopicDescription], brokers: int) -> Iterator[Drift]:
    """Report copies whose replicas differ from `replication.factor`, as far as the cluster can hold so many."""
    if flow.replication_factor < 1:
        return
    wanted = clamped(flow.replication_factor, brokers)
    for copy in copies:
        if copy.replication_factor != wanted:
            yield Drift(
                ChangeKind.REPLICATION_FACTOR,
                f"topic {copy.name}",
                "replication factor",
                str(wanted),
                str(copy.replication_factor),
                f"replication.factor asks for {wanted}; reassign its partitions on {flow.target.alias}",
            )
