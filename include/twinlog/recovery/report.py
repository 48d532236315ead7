"""The result of a failover, as people and programs see it, and as evidence; and how each step comes to its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from twinlog import clock
from twinlog.errors import ExitCode
from twinlog.fact import Total, Unknown, if_known
from twinlog.facts.flow import FlowFacts
from twinlog.facts.topic import TopicFacts
from twinlog.formats.ledger.accepted import Amount
from twinlog.formats.ledger.recovery import RecoveryRun, StepState, TailExported
from twinlog.grouped import grouped, without_keys
from twinlog.groups.report import GroupPartitionRow, SyncReason
from twinlog.jsonable import Json, to_json
from twinlog.judge.check import Mode
from twinlog.procedure import Outcome, StepReport
from twinlog.recovery.one_sided.divergence import TopicDivergence
from twinlog.recovery.one_sided.files import WrittenFile
from twinlog.visible import listed, singular


class State(StrEnum):
    """Name where the flow stands at the end of a command."""

    FOLLOWING = "following"
    WAITING = "waiting"
    REFUSED = "refused"
    FAILED = "failed"
    PROMOTED = "promoted"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class PartitionAtRisk:
    """One partition: its end on the source, that of its copy, and what is, or would be, lost.

    `upstream_end` is as last seen if the source is lost, None if it was never seen.  `known` records are known not to
    be on the target; `at_risk_records` are all of them, None if there may be more.  `estimated_records` adds what may
    have been written after the source was last seen, by the rate of the last minute before; None if nothing is to be
    estimated.  `unseen`: it could not be looked at; if the source is lost, the last
    cycle could not.
    """

    partition: int
    upstream_end: int | None
    downstream_end: int | None
    known: int
    estimated_records: int | None = None
    at_risk_records: int | None = None
    unseen: bool = False


@dataclass(frozen=True, slots=True)
class TopicAtRisk:
    """The partitions of one topic; it has none if the topic could not even be described."""

    topic: str
    remote_topic: str
    partitions: tuple[PartitionAtRisk, ...]


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """A group's position on both sides.

    `again` is how many records it would read again, `skipped` how many it would not read that it has not read on the
    source either; None if that is unknown.  Without the source it is at most so many.  `exact` says that it goes on at
    the very record: a share group never does, for what it was given out of order is in no offset.
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int | None
    again: int | None
    skipped: int | None = None
    exact: bool = False


def placed(rows: Iterable[GroupPartitionRow]) -> tuple[PlacedGroup, ...]:
    """Return the positions of groups as the report has them.  Pure."""
    return tuple(
        PlacedGroup(
            row.group,
            row.topic,
            row.partition,
            row.upstream_offset,
            row.goes_on_at,
            row.expected_duplicates,
            None
            if row.downstream_offset is None or row.reason is SyncReason.ACTIVE_THERE
            else row.records_skipped,
            row.exact,
        )
        for row in rows
    )


def skips(groups: Iterable[PlacedGroup]) -> str:
    """Say in a clause which groups skip records, how many and where; "" if none is known to.  Pure."""
    return listed([
        f"group {group.group} skips {group.skipped:,} records of {group.topic}-{group.partition}"
        for group in groups
        if group.skipped
    ])


def become(groups: Iterable[PlacedGroup]) -> str:
    """Say in a clause how many groups skip records, read some again, or go on exactly; "" without groups.  Pure."""
    of_each = list(grouped((group.group, group) for group in groups).values())
    counts = [(_sum(group.skipped for group in of), _sum(it.again for it in of)) for of in of_each]
    still = [of for of, count in zip(of_each, counts, strict=True) if count == (0, 0)]
    exact = sum(all(group.exact for group in of) for of in still)
    skip = [skipped for skipped, _ in counts if skipped]
    again = [read for skipped, read in counts if read and not skipped]
    told = (
        (len(skip), f"{len(skip):,} groups would skip {sum(skip):,} records"),
        (len(again), f"{len(again):,} groups would read {sum(again):,} records again"),
        (exact, f"{exact:,} groups exact"),
        (len(still) - exact, f"{len(still) - exact:,} groups would skip and repeat nothing that is known"),
        (counts.count((0, None)), f"{counts.count((0, None)):,} groups would skip nothing"),
        (known := sum(skipped is None for skipped, _ in counts), f"not known of {known:,} groups"),
    )
    return ", ".join(text for count, text in told if count)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Add up; None if one is not known, unless the others are something already."""
    every = list(counts)
    least = sum(it or 0 for it in every)
    return None if None in every and not least else least


class Documented:
    """A report whose JSON document says nothing of how the process ends."""

    __slots__ = ()
    transient: bool

    @property
    def document(self) -> Json:
        """Return the JSON document that other programs rely on."""
        found: Json = to_json(self)
        return without_keys(found, {"exit_code", "transient"})

    @property
    def told(self) -> Json:
        """Return what an application tells of it; a scheduler asks whether to try again."""
        return {**self.document, "transient": self.transient}


@dataclass(frozen=True, slots=True)
class RecoveryReport(Documented):
    """Tell what was done, in which state the flow is, and what it cost.

    `rto_seconds` is the time from the start to the last step, `rpo_seconds` how much of the past is
    lost: 0 if it was proved that nothing is, None if that is unknown or nothing was promoted.  `cost` is what a yes
    costs, "" if nobody was asked.
    """

    flow: str
    run: str
    mode: str
    state: State
    dry_run: bool
    steps: tuple[StepReport, ...]
    topics: tuple[TopicAtRisk, ...] | tuple[TopicDivergence, ...] = ()
    groups: tuple[PlacedGroup, ...] = ()
    rto_seconds: float | None = None
    rpo_seconds: float | None = None
    evidence: str = ""
    by: str = ""
    next: str = ""
    cost: str = ""
    exit_code: ExitCode = ExitCode.DONE
    transient: bool = False
    """Running it again may be all that is needed; not in the document."""

    @property
    def headline(self) -> str:
        """Return what a person has to know first: the verdict, the records that are lost or missing, and groups."""
        dry = "dry run, nothing was changed" if self.dry_run else ""
        return singular(
            "; ".join(filter(None, [self.state.value.upper(), dry, self.missing, become(self.groups)]))
        )

    @property
    def missing(self) -> str:
        """Return, as a clause, what one side alone has."""
        return ""


@dataclass(frozen=True, slots=True)
class FailoverReport(RecoveryReport):
    """The contract of docs/failover.md.

    `estimate` says what `estimated_records` rest on.  `accept` is what a dry run found to be accepted, `seen` its name,
    by which all that it showed can be.
    """

    mode: Mode
    topics: tuple[TopicAtRisk, ...] = ()
    estimate: str = ""
    seen: str = ""
    accept: tuple[Amount, ...] = ()

    @property
    def missing(self) -> str:
        """Return, as a clause, what the gate would refuse, and what is not on the target."""
        refused = listed(sorted({amount.check for amount in self.accept}), 3)
        no = f"THE GATE WOULD SAY NO: {refused}; " if refused else ""
        lost = at_risk(self.topics)
        known, doubt = (" known to be", f"; {lost.doubt}") if lost.doubt else ("", "")
        told = f"{lost.least:,} records are{known} missing on the target{doubt}"
        return f"{no}{told}" if self.topics else no.rstrip("; ")


@dataclass(frozen=True, slots=True)
class FailbackReport(RecoveryReport):
    """The contract of docs/failback.md: what is on one side alone, and where it was saved.

    `only_on_source` and `only_on_target` count records; `strayed` are those of the target that no flow brings home.
    They are None if not everything could be looked at: then `topics` have what is known.
    """

    topics: tuple[TopicDivergence, ...] = ()
    failover: str = ""
    only_on_source: int | None = None
    only_on_target: int | None = None
    strayed: int | None = None
    exported: tuple[TailExported, ...] = ()
    tail_topics: tuple[str, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """Return, as a clause, what each side alone has, as far as everything was looked at."""
        if self.only_on_source is None or self.only_on_target is None:
            return "what each side alone has is not fully known" if self.topics else ""
        if self.state is State.FOLLOWING:
            return f"{self.only_on_target - (self.strayed or 0):,} records of the target came home, and what came since"
        return f"{self.only_on_source:,} records on the source alone, {self.only_on_target:,} on the target alone"


def partitions_at_risk(facts: FlowFacts) -> tuple[TopicAtRisk, ...]:
    """Return every partition with what of it is not on the target; heartbeats, which go on for ever, are left out."""
    return tuple(
        TopicAtRisk(topic.topic, topic.remote_topic, tuple(_parts(topic, live=facts.live)))
        for topic in sorted(facts.topics, key=lambda it: it.topic)
        if not topic.heartbeats
    )


def _parts(topic: TopicFacts, *, live: bool) -> Iterator[PartitionAtRisk]:
    rows = {row.partition: row for row in topic.partitions}
    for number in sorted({*rows, *range(topic.partition_count)}):
        row = rows.get(number)
        if row is None:
            yield PartitionAtRisk(number, None, None, 0, unseen=True)
            continue
        missing = row.missing_records
        unseen = isinstance(missing, Unknown) or (live and row.copy_unseen)
        yield PartitionAtRisk(
            number,
            if_known(row.source_end),
            row.target_stable_end,
            row.missing.least,
            at_risk_records=None if unseen or not live else if_known(missing),
            unseen=unseen,
        )


def at_risk(topics: Iterable[TopicAtRisk]) -> Total:
    """Add up the records at risk; a topic that could not be described counts as one partition.  Pure."""
    every = list(topics)
    parts = [part for topic in every for part in topic.partitions]
    unseen = {
        topic.topic: count
        for topic in every
        if (count := sum(part.unseen for part in topic.partitions) if topic.partitions else 1)
    }
    count = sum(unseen.values())
    doubt = "what came later nobody knows" if any(part.at_risk_records is None for part in parts) else ""
    if count:
        many = "one partition" if count == 1 else f"{count:,} partitions"
        doubt = f"{many} of {listed(sorted(unseen))} could not be looked at"
    return Total(sum(part.known for part in parts), doubt)


def estimated(topics: tuple[TopicAtRisk, ...]) -> int | None:
    """Add up the estimates; None if there is none."""
    known = [partition.estimated_records for topic in topics for partition in topic.partitions]
    found = [it for it in known if it is not None]
    return sum(found) if found else None


def stopped_in(stopped: Outcome | None) -> State:
    """Say where a procedure stands before its promotion: a step has ended it, or more are to come.  Pure."""
    if stopped is None or stopped.state is StepState.WAITING:
        return State.WAITING
    return State.REFUSED if stopped.refused else State.FAILED


def seconds_of(run: RecoveryRun, now_ms: int) -> float:
    """Return how long a run took, or has taken until now.  Pure."""
    return clock.seconds_between(run.started_ms, run.ended_ms if run.ended_ms is not None else now_ms)
