"""Plan what `sync_topics` changes on the target: a list of changes in the order they are made, and refusals. Pure.

The rules are MM2's (MirrorSourceConnector): new remote topics get the source's partition count and its configuration;
existing ones grow to the source's count and never shrink. One rule is twinlog's own: replication factors are clamped
to the number of brokers, with a note, instead of failing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from twinlog.cluster.values import NO_SUCH_TOPIC, Answers, Configs, ConfigSource, NewTopic
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.grouped import grouped
from twinlog.policy.selection import NameFilter
from twinlog.state.internal_topics import InternalTopic, internal_topics
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import DiscoveredTopic, Discovery
from twinlog.topics.own_topic_rules import InternalState, check_cleanup, lacking, unchecked
from twinlog.visible import and_more, singular


@dataclass(frozen=True, slots=True)
class Refusal:
    """A topic or other item on the target that could not be, or was not, changed as it should be."""

    name: str
    code: str
    message: str
    hint: str = ""

    @classmethod
    def of(cls, name: str, error: TwinlogError) -> Self:
        """Make the refusal of `name` from an error."""
        return cls(name, error.code, error.message, error.hint)


MISSPELT = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")


class ChangeKind(StrEnum):
    """The kinds of change on the target."""

    CREATE_INTERNAL = "create-internal"
    CONFIGURE_INTERNAL = "configure-internal"
    CREATE = "create"
    GROW = "grow"


@dataclass(frozen=True, slots=True)
class Change:
    """A topic to create, grow to `partitions`, or set `configs` of; `topic` is the source's, "" if internal.

    `replication_factor` is clamped to the brokers that are seen; `wanted_factor` is asked for first.
    """

    kind: ChangeKind
    name: str
    partitions: int
    replication_factor: int = 0
    configs: Mapping[str, str] | None = None
    topic: str = ""
    vital: bool = False
    wanted_factor: int = 0

    @property
    def new_topic(self) -> NewTopic:
        """The topic creation that this change asks for."""
        wanted, configs = self.wanted_factor or self.replication_factor, dict(self.configs or {})
        return NewTopic(self.name, self.partitions, wanted, configs, self.replication_factor)


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Changes in order, refusals known before trying, topics of which the ledger lacks the incarnation, and lines.

    `first_seen` are topics that the ledger does not know as they are, or not the incarnation of their copy.
    """

    flow: str
    changes: tuple[Change, ...] = ()
    refused: tuple[Refusal, ...] = ()
    first_seen: tuple[DiscoveredTopic, ...] = ()
    notes: tuple[str, ...] = ()


def plan(
    flow: FlowSettings,
    discovery: Discovery,
    configs: Answers[str, Configs],
    internal: InternalState,
    ledger: Ledger,
) -> TopicPlan:
    """List what to change; `configs` are those of the source topics that have no copy yet.

    Raises TerminalError `cleanup-policy` if a vital internal topic would lose its records.
    """
    internal_changes, internal_notes = plan_internal(flow, discovery.target_brokers, internal)
    # MM2 looks for new topics and partitions at its start, whatever `refresh.topics` says.  The cycle in which no topic
    # is recorded yet counts as the start of its connector.
    looks = flow.refresh_topics or not ledger.incarnations
    free = discovery.unblocked
    # A topic whose copy exists is copied, no matter who created the copy, so its incarnation is recorded.
    unheeded = {
        topic.topic: topic
        for topic in free
        if not looks and topic.remote is None and topic.topic not in ledger.incarnations
    }
    wanted = [topic for topic in free if topic.topic not in unheeded]
    missing = [topic for topic in wanted if topic.remote is None]
    known = [topic for topic in missing if topic.topic in configs.found]
    factor = clamped(flow.replication_factor, discovery.target_brokers)
    return TopicPlan(
        flow=flow.name,
        changes=(
            *internal_changes,
            *(_creation(flow, topic, factor, configs.found[topic.topic]) for topic in known),
            *(
                Change(ChangeKind.GROW, topic.remote_topic, topic.partition_count, topic=topic.topic)
                for topic in wanted
                if looks and topic.remote is not None and topic.remote.partitions < topic.partition_count
            ),
        ),
        refused=tuple(
            _without_settings(flow, topic.remote_topic, error)
            for topic in missing
            if (error := configs.refused.get(topic.topic)) is not None
        ),
        first_seen=tuple(
            topic
            for topic in wanted
            if (seen := ledger.incarnations.get(topic.topic)) is None or not seen.remote_topic_id
        ),
        notes=(
            *internal_notes,
            *_no_ids_note(flow, discovery),
            *_clamp_note([topic.remote_topic for topic in known], flow.replication_factor, factor, flow),
            *_unheeded_note([*unheeded.values()]),
        ),
    )


def _without_settings(flow: FlowSettings, remote_topic: str, error: TwinlogError) -> Refusal:
    """Refuse to make a copy with other settings than its source's; a copy that is there needs them no more."""
    by_hand = f"create {remote_topic} on {flow.target.alias} by hand, with the settings it should have"
    return Refusal(
        remote_topic, error.code, error.message, f"{error.hint}; or {by_hand}" if error.hint else by_hand
    )


def plan_internal(
    flow: FlowSettings, brokers: int, state: InternalState
) -> tuple[tuple[Change, ...], tuple[str, ...]]:
    """Return the internal topics to create, with notes about those that are not as they should be.

    Raises TerminalError `cleanup-policy` for a vital one, and the error with which the target refuses to describe it.
    """
    changes: list[Change] = []
    topics = internal_topics(flow)
    notes = [
        *unchecked(
            [internal_topic for internal_topic in topics if internal_topic.name in state.topics.found], state
        )
    ]
    for topic in topics:
        error = state.topics.refused.get(topic.name)
        if topic.name in state.topics.found:
            notes.extend(check_cleanup(flow, topic, state.configs))
            changes.extend(_configuration(topic, state))
        elif error is None or error.code == NO_SUCH_TOPIC:
            changes.append(_internal_creation(topic, brokers))
        elif topic.vital:
            raise error
        else:
            notes.append(str(error))
    created = (change for change in changes if change.kind is ChangeKind.CREATE_INTERNAL)
    by_factor = grouped(
        ((change.wanted_factor, change.replication_factor), change.name) for change in created
    )
    for (wanted, given), names in by_factor.items():
        notes += _clamp_note(names, wanted, given, flow)
    return tuple(changes), tuple(notes)


def creation_configs(flow: FlowSettings, entries: Configs) -> dict[str, str]:
    """Choose what a new copy inherits: MM2's creation rule (MirrorSourceConnector).

    Left out are read-only and sensitive values, those of a broker's own properties file, names that
    `config.properties.exclude` matches, and defaults unless `use.defaults.from=source`.
    """
    excluded = excluded_configs(flow)
    return {
        entry.name: entry.value
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if entry.value is not None
        and not entry.read_only
        and not entry.sensitive
        and entry.source != ConfigSource.STATIC_BROKER
        and (flow.use_defaults_from == "source" or entry.source != ConfigSource.DEFAULT)
        and not excluded.excludes(entry.name)
    }


def excluded_configs(flow: FlowSettings) -> NameFilter:
    """Return `config.properties.exclude`, with two names of MM2's default corrected.

    MM2 spells `message.timestamp.{before,after}.max.ms` as the broker's configs are spelled, `log.message...`, which
    matches no topic's config. Profile `mm2` keeps MM2's spelling.
    """
    excluded = flow.config_properties_exclude
    if flow.metadata.profile is Profile.MM2:
        return excluded
    meant = tuple(name for name in MISSPELT if excluded.excludes(f"log.{name}"))
    return replace(excluded, exclude=(*excluded.exclude, *meant))


def clamped(replication_factor: int, brokers: int) -> int:
    """Lower a replication factor to what the cluster can hold; -1 stays the broker's own default."""
    return min(replication_factor, brokers) if brokers > 0 else replication_factor


def _creation(flow: FlowSettings, topic: DiscoveredTopic, factor: int, entries: Configs) -> Change:
    return Change(
        ChangeKind.CREATE,
        topic.remote_topic,
        topic.partition_count,
        factor,
        creation_configs(flow, entries),
        topic=topic.topic,
        wanted_factor=flow.replication_factor,
    )


def _unheeded_note(topics: Sequence[DiscoveredTopic]) -> Iterable[str]:
    if topics:
        names = ", ".join(topic.topic for topic in topics[:3]) + (", ..." if len(topics) > 3 else "")
        yield f"{len(topics)} new topic(s) are not picked up ({names}): refresh.topics is switched off"


def _no_ids_note(flow: FlowSettings, discovery: Discovery) -> Iterable[str]:
    nameless = [topic.topic for topic in discovery.topics if not topic.topic_id]
    if nameless:
        yield (
            f"{flow.source.alias} gives topics no ids, as Kafka before 2.8: whether {nameless[0]}"
            f"{and_more(len(nameless))} was deleted and created again is told by its records"
        )


def _internal_creation(topic: InternalTopic, brokers: int) -> Change:
    factor = clamped(topic.replication_factor, brokers)
    new = topic.creation(factor)
    return Change(
        ChangeKind.CREATE_INTERNAL,
        new.name,
        new.partitions,
        factor,
        new.configs,
        vital=topic.vital,
        wanted_factor=topic.replication_factor,
    )


def _configuration(topic: InternalTopic, state: InternalState) -> Iterable[Change]:
    configs = lacking(topic, state)
    count = len(state.topics.found[topic.name].partitions)
    return (Change(ChangeKind.CONFIGURE_INTERNAL, topic.name, count, configs=configs),) if configs else ()


def _clamp_note(names: Sequence[str], wanted: int, given: int, flow: FlowSettings) -> Iterable[str]:
    """Return one note for all these topics together: a first cycle may create a thousand."""
    if names and given != wanted:
        yield singular(
            f"{flow.target.alias} has {given:,} brokers: replication factor {given} instead of {wanted} for"
            f" {names[0]}{and_more(len(names))}"
        )
