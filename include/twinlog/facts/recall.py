"""Recall a flow: what the target alone knows of it, by ledger, checkpoints, map and copies.  Only reads.

A source that is lost cannot be asked: its facts are those that the last cycle saw, less what was copied since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.clock import seconds_since
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable
from twinlog.fact import Count, Total, Unknown, known, total
from twinlog.facts.copies import copied, with_configs
from twinlog.facts.flow import FlowFacts
from twinlog.facts.gaps import copy_of, read_gaps
from twinlog.facts.heartbeats import copied_heartbeats
from twinlog.facts.observe import not_looked_at, observe
from twinlog.facts.partition import PartitionFacts
from twinlog.facts.topic import Side, TopicFacts, TopicSide
from twinlog.formats.ledger.audit import Unproved
from twinlog.formats.ledger.gate import KnownTopic
from twinlog.formats.ledger.topics import RebuildPhase
from twinlog.grouped import grouped
from twinlog.groups.recall import known_life
from twinlog.jsonable import Json
from twinlog.kafka_types import Positions, SourceIncarnation, TopicPartition
from twinlog.state.ledger import Ledger, require_own
from twinlog.state.progress import PackedMaps, reported_progress
from twinlog.topics.discovery import Problem, ProblemCode
from twinlog.topics.incarnations import no_longer_copied, problems_of_copies
from twinlog.topics.snapshot import FlowSnapshot, all_partitions

NO_REPORT = Unknown("no cycle has reported")
NOT_SEEN = Unknown("the last cycle could not look at it")


@dataclass(frozen=True, slots=True)
class Recalled:
    """Tell what the target knows: its state, and the copies by their own names; one that is not there has no side.

    `heartbeats` are the source topics that hold heartbeats.
    """

    ledger: Ledger
    progress: Positions
    maps: PackedMaps
    sides: Mapping[str, Side]
    offsets: Mapping[TopicPartition, PartitionOffsets]
    heartbeats: frozenset[str] = frozenset()


def observe_or_recall(snapshot: FlowSnapshot) -> FlowFacts:
    """Observe a flow without its configs; if its source does not answer, recall it.  Raises as both do."""
    try:
        return observe(snapshot, configs=False)
    except ClusterUnreachable as error:
        if error.cluster != snapshot.flow.source.alias:
            raise
        return recall(snapshot)


def recall(snapshot: FlowSnapshot) -> FlowFacts:
    """Return the facts of a flow without its source.

    Raises ClusterUnreachable, ClusterRefused, FormatError, and TerminalError if the state belongs to another flow.
    """
    flow, target, ledger = snapshot.flow, snapshot.clusters.target, snapshot.read_state().ledger
    require_own(flow, ledger, "", target.cluster_id())
    names, now_ms = known_topics(ledger, snapshot.progress), clock.now_ms()
    answers = target.describe_topics(sorted({copy_of(flow, ledger, name) for name in names}))
    hidden = Unknown("the copy cannot be described")
    recalled = Recalled(
        ledger,
        snapshot.progress,
        snapshot.maps,
        {
            **dict.fromkeys(answers.refused.keys() - answers.absent, hidden),
            **with_configs(target, answers.found),
        },
        target.offsets(all_partitions(answers.found.values())).found,
        copied_heartbeats(flow, target, names),
    )
    said = ledger.last_report.summary if ledger.last_report is not None else {}
    unseen = said.get("unseen_partitions", 0)
    lives = ledger.incarnations.values()
    topics = tuple(recalled_topics(flow, names, recalled))
    return FlowFacts(
        at_ms=now_ms,
        live=False,
        ledger=ledger,
        progress=snapshot.progress,
        maps=snapshot.maps,
        topics=topics,
        problems=(*problems_of_copies(flow, answers, ledger), *left_behind(flow, topics, ledger)),
        gaps=read_gaps(flow, target, ledger, now_ms),
        rpo_seconds=_most_missing(ledger, now_ms),
        lag=_reported(said, "lag_records", unseen),
        undecided_records=_reported(said, "undecided_records", unseen),
        unseen=unseen,
        copies=recalled.offsets,
        copy_ids={
            life.topic: answers.found[life.remote_topic].topic_id
            for life in lives
            if life.remote_topic in answers.found
        },
        target_brokers=target.broker_count(),
    )


def left_behind(flow: FlowSettings, topics: Iterable[TopicFacts], ledger: Ledger) -> Iterator[Problem]:
    """Report topics left out whose copies lacked records when the last cycle looked, or may lack some.  Pure."""
    seen, report = ledger.known_source, ledger.last_report
    looked = seen.left_behind if seen is not None else None
    noted = {behind.topic: behind.message for behind in looked or ()}
    reported = report.summary.get("next_upstream", {}) if report is not None else {}
    for topic in topics:
        lacks = (
            topic.missing != Total() if topic.topic in reported else topic.topic in noted or looked is None
        )
        if (
            topic.left_out
            and lacks
            and topic.copy is not None
            and not topic.heartbeats
            and flow.homes is None
        ):
            missing = topic.missing.told(f"of it are not in {topic.remote_topic}")
            told = noted.get(topic.topic, f"{topic.topic} is left out: {missing}")
            yield Problem(
                ProblemCode.LEFT_BEHIND,
                topic.topic,
                f"when the last cycle looked: {told}",
                f"delete {topic.remote_topic} on {flow.target.alias} if nobody needs it,"
                " or go on without these records",
            )


def known_topics(ledger: Ledger, progress: Collection[TopicPartition]) -> tuple[str, ...]:
    """Return the source topics that the target knows of, but those that were deleted.  Pure.

    They include topics in which the last cycle saw records at risk: their copies may never have been made.
    """
    seen, report = ledger.known_source, ledger.last_report
    names = {*ledger.incarnations, *(it.topic for it in progress)}
    names |= {topic.topic for topic in seen.topics} if seen is not None else set()
    if report is not None:
        names |= {*report.summary.get("next_upstream", ()), *report.summary.get("ends", ())}
    return tuple(sorted(names - ledger.deleted.keys()))


@dataclass(frozen=True, slots=True)
class _Past:
    """Tell what the last cycle and audits noted, by topic; `said` is None if no cycle has reported.

    `numbers` are the partitions of which something was reported or copied, `early` counts what was deleted early.
    """

    said: Json | None
    pictures: Mapping[str, KnownTopic]
    reported: Positions
    numbers: Mapping[str, Collection[int]]
    early: Mapping[SourceIncarnation, int]


def _past(ledger: Ledger, progress: Collection[TopicPartition]) -> _Past:
    seen, report = ledger.known_source, ledger.last_report
    said = report.summary if report is not None else None
    told = (
        (topic, int(number))
        for key in ("next_upstream", "ends")
        for topic, numbers in (said or {}).get(key, {}).items()
        for number in numbers
    )
    return _Past(
        said=said,
        pictures={topic.topic: topic for topic in seen.topics} if seen is not None else {},
        reported=reported_progress(ledger),
        numbers=grouped((*told, *progress)),
        early={
            audit.life: sum(span.records for span in audit.unproved if span.reason is Unproved.DELETED_EARLY)
            for audit in ledger.audits
        },
    )


def still_copied(flow: FlowSettings, ledger: Ledger, progress: Collection[TopicPartition]) -> tuple[str, ...]:
    """Return those of the known topics that the flow still selects.  Pure."""
    return tuple(
        topic for topic in known_topics(ledger, progress) if not no_longer_copied(flow, ledger, topic)
    )


def recalled_topics(flow: FlowSettings, names: Collection[str], known_now: Recalled) -> Iterator[TopicFacts]:
    """Make the facts of each topic from the target alone.  Pure."""
    past = _past(known_now.ledger, known_now.progress)
    return (_topic(flow, name, known_now, past) for name in names)


def _topic(flow: FlowSettings, name: str, now: Recalled, past: _Past) -> TopicFacts:
    ledger, copy = now.ledger, copy_of(flow, now.ledger, name)
    seen, life, side = ledger.known_source, ledger.incarnations.get(name), now.sides.get(copy)
    picture = past.pictures.get(name, KnownTopic(name, 0, 0, None, None))
    there = len(side.description.partitions) if isinstance(side, TopicSide) else 0
    told = past.numbers.get(name, ())
    partition_count = max(picture.partitions, *(number + 1 for number in told), 0)
    numbers = {*told, *(range(there) if life is not None else ())}
    copy_partitions = side if isinstance(side, Unknown) else there
    partitions = tuple(
        _partition(
            flow, TopicPartition(name, number), TopicPartition(copy, number), copy_partitions, now, past
        )
        for number in sorted(numbers)
    )
    unseen = not picture.unread and any(row.lag_records == NOT_SEEN for row in partitions)
    blind = _blind(ledger, name) or (NOT_SEEN.why if unseen else "")
    doubt = blind or ("a partition could not be read" if picture.unread else "")
    waited: float | None = None  # when the source was last seen
    held: float | None = None
    if seen is not None:
        at_risk = picture.records_at_risk or picture.unread
        waited = seconds_since(picture.oldest_ms, seen.at_ms) if at_risk else 0.0
        if seen.undecided_seen:
            held = seconds_since(picture.undecided_ms, seen.at_ms) if picture.undecided else 0.0
    return TopicFacts(
        topic=name,
        remote_topic=copy,
        partition_count=partition_count,
        missing=total((row.missing for row in partitions), doubt),
        age_seconds=Unknown(blind) if blind else known(waited, "the oldest record has no time"),
        undecided_seconds=Unknown(blind) if blind else known(held, "nothing tells when a transaction began"),
        partitions=partitions,
        unseen=picture.unread if seen is not None else max(1, partition_count),
        topic_id=life.topic_id if life is not None else "",
        copy_partitions=copy_partitions,
        copy=side,
        drift=picture.drift if seen is not None else Unknown(NO_PICTURE),
        bytes=Unknown(blind) if blind else known(picture.bytes_at_risk, "the last cycle did not know"),
        held_by=picture.held_by,
        heartbeats=name in now.heartbeats,
        left_out=no_longer_copied(flow, ledger, name),
    )


def _partition(
    flow: FlowSettings, at: TopicPartition, remote: TopicPartition, copies: Count, now: Recalled, past: _Past
) -> PartitionFacts:
    picture, source_life = past.pictures.get(at.topic), known_life(now.ledger, at.topic, at.partition)
    unread = picture is not None and picture.unread > 0
    waits = waiting_then(at, past.said, now.progress.get(at), unread=unread)
    log = now.offsets.get(remote)
    return replace(
        copied(
            now.ledger,
            now.maps,
            now.progress,
            source_life,
            remote.topic,
            past.reported,
            log,
            observed=flow.observed,
        ),
        source_end=waits.end,
        lag_records=waits.lag,
        target_partitions=copies,
        undecided_records=waits.undecided,
        deleted_early=_early_then(at, past.said, waits.lag)
        if flow.observed
        else past.early.get(source_life, 0),
    )


def _early_then(at: TopicPartition, said: Json | None, lag: Count) -> Count:
    """Count what was deleted early of a copy that another engine makes: no audit looks for it, cycles do.  Pure."""
    early = (said or {}).get("deleted_early")
    return NOT_SEEN if early is None or lag == NOT_SEEN else early.get(at.topic, {}).get(str(at.partition), 0)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Tell where the source ended, and what of it was not copied: as the last cycle saw, less what came since."""

    end: Count
    lag: Count
    undecided: Count


def waiting_then(at: TopicPartition, said: Json | None, last: int | None, *, unread: bool = False) -> Waiting:
    """Compute what of a partition was not copied; `last` is its last copied upstream offset.  Pure.

    `said` is the last report, `unread` that the cycle could not look at all partitions of the topic then.

    seen by the report:    next_upstream ...... waited: lag and undecided ...... end |  written since: unknown
    copied since:          ------------> last
                                             |<------- known at risk ------->|
    """

    def seen(key: str) -> int | None:
        found: int | None = (said or {}).get(key, {}).get(at.topic, {}).get(str(at.partition))
        return found

    begins, end = seen("next_upstream"), seen("ends")
    end = begins if end is None else end
    if last is not None:
        end = max(end or 0, last + 1)
    told = known(end, "nobody has seen it")
    if said is None:
        return Waiting(told, NO_REPORT, NO_REPORT)
    if begins is None and seen("ends") is None and (unread or at.topic not in said.get("next_upstream", {})):
        return Waiting(told, NOT_SEEN, NOT_SEEN)
    undecided = seen("undecided") or 0
    waited = (seen("lag") or 0) + undecided
    if last is not None and last + 1 > (begins or 0):
        waited = min(waited, max(0, (end or 0) - (last + 1)))
    return Waiting(told, waited - min(waited, undecided), min(waited, undecided))


NO_PICTURE = "no cycle noted what it saw of the source"


def _blind(ledger: Ledger, topic: str) -> str:
    """Say why the last picture of the source tells nothing of the copy that exists now; "" if it does.

    A copy that was begun or emptied since then lacks more than the picture says.  Of a copy that is being emptied the
    picture says nothing.
    """
    seen, life, rebuild = ledger.known_source, ledger.incarnations.get(topic), ledger.rebuilds.get(topic)
    if seen is None:
        return NO_PICTURE
    emptying = rebuild is not None and rebuild.phase is RebuildPhase.DELETING
    if emptying or (life is not None and life.since_ms > seen.at_ms):
        return "its copy was begun or emptied since the last cycle looked"
    return ""


def _most_missing(ledger: Ledger, now_ms: int) -> float | None:
    """Return how much of the past can be missing: what waited at the last report, and all the time since."""
    report = ledger.last_report
    # An older twinlog did not look behind open transactions: how long those records wait is unknown.
    if report is None or "undecided_records" not in report.summary:
        return None
    waited, age = report.summary.get("rpo_seconds"), seconds_since(report.at_ms, now_ms)
    return None if waited is None or age is None else round(waited + age, 3)


def _reported(said: Json, key: str, unseen: int) -> Total:
    """Return a number of the last report, in which partitions that it could not look at are not counted."""
    records = said.get(key)
    return Total(0, NO_REPORT.why) if records is None else Total(records, not_looked_at(unseen))
