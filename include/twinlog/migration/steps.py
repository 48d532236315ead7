"""Migrate a flow step by step: what a take-over and a hand-over share.

A dry run does the `look` of each step: of those that change nothing, that is the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import Positions, SourceIncarnation, TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.migration.alignment import Alignment
from twinlog.migration.continuation import Continuation
from twinlog.migration.copier import Copier, Traces, require_stopped
from twinlog.migration.places import discover_all, places
from twinlog.migration.proof import Place, prove
from twinlog.migration.takeover_report import PartitionProof, ProofState, TakeoverReport
from twinlog.procedure import Outcome, Step, StepName, Told, but_errors, done, failed, silent, skipped, walk
from twinlog.state.ledger import read_ledger
from twinlog.topics.discovery import Discovery

DEPTH = 10_000
"""Records compared before the position. Must be more than MM2 copies of one partition between two flushes (60 s)."""

PARTITIONS_AT_ONCE = 4

Known = Mapping[SourceIncarnation, PackedMap]
Continued = Mapping[Place, Continuation]
"""How the map of each partition goes on."""


@dataclass(frozen=True, slots=True)
class Proved:
    """A place and the result of its comparison."""

    place: Place
    found: Alignment


@dataclass(slots=True)
class Migration:
    """One migration, and what it has found so far.

    `read` gives the last upstream offsets copied, by who copied until now.  `topics` are all that is migrated, None for
    all of the flow's.  `maps` says how the map of each partition goes on that can be read (`known`).
    """

    flow: FlowSettings
    clusters: Clusters
    copier: Copier
    read: Callable[[], Positions]
    run_id: str
    depth: int = DEPTH
    topics: Collection[str] | None = None
    dry_run: bool = False
    watch_seconds: float | None = None
    told: Told = silent
    positions: Positions = field(init=False)
    discovery: Discovery = field(init=False)
    wanted: Sequence[Place] = field(init=False)
    refused: Sequence[PartitionProof] = field(init=False)
    seen: Traces = field(init=False)
    owned: Ownership = field(init=False)
    proved: Sequence[Proved] = ()
    rows: tuple[PartitionProof, ...] = ()
    known: Known = field(default_factory=dict)
    maps: Continued = field(default_factory=dict)
    written: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def copies(self) -> list[TopicPartition]:
        """Every copy partition that exists."""
        return [
            topic.at_target(partition.partition)
            for topic in self.discovery.topics
            for partition in topic.partitions
            if partition.target is not None
        ]

    def look(self) -> None:
        """Read positions, and what both clusters have."""
        self.positions = self.read()
        self.discovery = discover_all(self.flow, self.clusters, self.positions)

    def choose(self) -> None:
        """Sort the partitions into those to prove and those refused."""
        began = self.copier.began_at_start(self.flow)
        self.wanted, self.refused = places(
            self.flow, self.clusters, self.discovery, self.positions, self.topics, began_at_start=began
        )

    def prove(self) -> None:
        """Prove each place, a few at a time."""
        with ThreadPoolExecutor(PARTITIONS_AT_ONCE) as pool:
            found = pool.map(lambda place: prove(self.clusters, place, self.depth), self.wanted)
            self.proved = [Proved(*it) for it in zip(self.wanted, found, strict=True)]

    def judged(self, rows: Iterable[PartitionProof]) -> Outcome:
        """Keep what was found of each partition; one that is refused ends the migration."""
        self.rows = tuple(sorted((*rows, *self.refused), key=lambda it: it.topic_partition))
        if refused := [row for row in self.rows if row.state is ProofState.REFUSED]:
            first = refused[0]
            return failed(
                f"{len(refused):,} partition(s) refused, such as {first.topic}-{first.partition}",
                refused=True,
            )
        return done(
            f"{sum(row.compared for row in self.rows):,} records of {len(self.rows):,} partition(s) compared"
        )


def run(work: Migration, direction: str, steps: Iterable[Step[Migration]]) -> TakeoverReport:
    """Do the steps, in a dry run what they do without a change.

    Raises the error that ends one: nothing is written then.
    """
    work.flow.require_copied("a migration")
    flow, copier = work.flow, work.copier
    phase = read_ledger(flow, work.clusters.target).phase
    if phase not in {FlowPhase.ACTIVE, FlowPhase.PAUSED}:
        raise TerminalError(
            f"flow {flow.name} is {phase.value}",
            "`twinlog recovery status` says what can be done",
            code="phase",
        )
    if work.dry_run:
        steps = [step.looking(flow.source.alias, flow.target.alias) for step in steps]
    walked = walk(steps, work, but_errors(work.told)).raised()
    return TakeoverReport(
        flow=flow.name,
        direction=direction,
        state="refused" if walked.stopped else "dry-run" if work.dry_run else "done",
        run_id=work.run_id,
        connector=copier.connector,
        offsets_topic=copier.offsets_topic,
        source_group=copier.source_group,
        steps=walked.rows,
        partitions=work.rows,
        positions_written=work.written,
        records_mapped=sum(row.mapped for row in work.rows),
        duplicates=sum(row.duplicates for row in work.rows),
        beyond=sum(row.beyond for row in work.rows),
        notes=tuple(work.notes),
    )


def _watch(work: Migration) -> Outcome:
    work.look()
    work.seen = require_stopped(work.flow, work.clusters, work.copier, work.copies, work.watch_seconds)
    work.choose()
    return done(f"nothing moves in {len(work.copies):,} partition(s)")


def _take(work: Migration) -> Outcome:
    """Make sure that the flow's own topics exist, and take the flow: another driver of twinlog stops here."""
    flow, clusters = work.flow, work.clusters
    if work.refused:
        return skipped("a partition is refused")
    if read_ledger(flow, clusters.target).phase is FlowPhase.ACTIVE:
        sync_topics.run(flow, clusters)
    work.owned = Ownership.taken(flow, clusters, "migration", work.run_id)
    work.look()  # copies of new topics exist now
    work.choose()
    return done(f"{flow.name} is taken")


STOPPED = Step(
    StepName.STOPPED,
    "makes sure that nobody copies: no process is there, and neither records, positions nor heartbeats move",
    "nothing moves",
    "`mm2-running`: stop who copies, wait until its session has ended, and run it again",
    _watch,
    _watch,
)
BEGIN = Step(
    StepName.BEGIN,
    "takes the flow's fence: a cycle or follow run that still copies stops",
    "the flow is taken",
    "another twinlog takes it at the same time: stop that one",
    _take,
    lambda _: "",
)


def comparison(expected: str, compare: Callable[[Migration], Outcome]) -> Step[Migration]:
    """Return the step that proves where copies end; a dry run does it, too."""
    return Step(
        StepName.COMPARE,
        "compares the ends of both logs, record by record",
        expected,
        "each partition that is refused says why, and what to do; then nothing is written",
        compare,
        compare,
    )
