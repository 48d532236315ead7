"""Save what a failover left behind, once the source answers again, and say what differs: the way home begins here.

The flow stays promoted: neither side's records are changed.  Running it again goes on, and exports what came since.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial

from twinlog import clock
from twinlog.cluster.api import Clusters, awaited
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode, TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import StepState, TailExported
from twinlog.gate.evidence import Seal
from twinlog.gate.record import keep_run
from twinlog.judge.data_docs import reports_folder
from twinlog.procedure import Outcome, Step, StepName, StepReport, Told, done, failed, skipped, timed
from twinlog.recovery import abort, transitions
from twinlog.recovery.failback import export, homes, rights
from twinlog.recovery.failback.divergence import Divergence, TopicDivergence, compare
from twinlog.recovery.one_sided import files
from twinlog.recovery.one_sided.files import WrittenFile
from twinlog.recovery.one_sided.read import Read
from twinlog.recovery.report import Documented, PlacedGroup, State
from twinlog.recovery.reverse import as_noted
from twinlog.recovery.steps import ending
from twinlog.state.ledger import Ledger, read_ledger, require_own
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import and_more


@dataclass(frozen=True, slots=True)
class Request:
    """Tell who asks, and what for; with `dry_run` nothing is changed.

    `reverse` is the enabled flow from the target to the source, if the file has one.
    """

    by: str
    seal: Seal
    dry_run: bool = False
    reverse: FlowSettings | None = None
    told: Told = lambda _name, _outcome: None


@dataclass(frozen=True, slots=True)
class FailbackReport(Documented):
    """The contract of docs/failback.md: what is on one side alone, and where it was saved.

    `only_on_source` and `only_on_target` count records; `strayed` are those of the target that no flow brings home.
    They are None if not everything could be looked at: then `topics` have what is known.  `cost` as of a failover.
    """

    flow: str
    run: str
    mode: str
    state: State
    dry_run: bool
    steps: tuple[StepReport, ...]
    topics: tuple[TopicDivergence, ...] = ()
    groups: tuple[PlacedGroup, ...] = ()
    rto_seconds: float | None = None
    rpo_seconds: float | None = None
    evidence: str = ""
    by: str = ""
    next: str = ""
    cost: str = ""
    failover: str = ""
    only_on_source: int | None = None
    only_on_target: int | None = None
    strayed: int | None = None
    exported: tuple[TailExported, ...] = ()
    tail_topics: tuple[str, ...] = ()
    files: tuple[WrittenFile, ...] = ()
    notes: tuple[str, ...] = ()
    exit_code: ExitCode = ExitCode.DONE
    transient: bool = False
    """Running it again may be all that is needed; not in the document."""


@dataclass(slots=True)
class Work:
    """One process's failback: what it was given, and what it has found so far."""

    flow: FlowSettings
    clusters: Clusters
    request: Request
    read: Read
    failover: str
    name: str
    found: Divergence | None = None
    exported: tuple[TailExported, ...] = ()
    files: list[WrittenFile] = field(default_factory=list)
    evidence: str = ""
    steps: list[StepReport] = field(default_factory=list)
    exit_code: ExitCode = ExitCode.DONE
    lasting: bool = False
    """A step has failed for a reason that will not go away by itself."""


def run(flow: FlowSettings, clusters: Clusters, request: Request, read: Read) -> FailbackReport:
    """Compare, export, and write the evidence; a step that fails is in the report.

    Raises TerminalError `not-promoted` for a flow that was not failed over, the refusal of a source that is another
    cluster, ClusterRefused `unauthorised` if a right is missing, and ClusterUnreachable while the source does not
    answer.
    """
    flow = as_noted(flow, clusters.target)
    ledger = read_ledger(flow, clusters.target)
    if ledger.phase is FlowPhase.FAILING_BACK:
        raise transitions.on_its_way_home(flow.name, ledger)
    failover = export.require_promoted(flow, ledger)
    require_both(flow, clusters, ledger)
    if flow.homes is None:
        abort.require_clients_there(flow, clusters)
    else:
        flow = _told(flow, clusters, request)
    saved = homes.saved_topics(FlowSnapshot(flow, clusters))
    rights.require_to_save(flow, clusters, [it.topic for it in saved])
    work = Work(flow, clusters, request, read, failover, clock.new_run_name("failback"))
    for step in SAVE:
        if request.dry_run and step is not COMPARE:
            does = step.does_for(flow.source.alias, flow.target.alias)
            work.steps.append(StepReport(step.name, StepState.PLANNED, 0.0, does))
            continue
        _do(work, step)
        if work.found is None:
            break
    return report_of(work)


def _told(flow: FlowSettings, clusters: Clusters, request: Request) -> FlowSettings:
    """Return a flow home that knows where the copies end; a way home has told it.

    Raises TerminalError `no-way-home` if that is not known: what is on one side alone could only be guessed.
    """
    known = as_noted(replace(flow, homes={}), clusters.target)
    if known.homes:
        return known
    raise TerminalError(
        f"what {flow.source.alias} alone has is not known: no ledger there says how far the copies go",
        hint=f"`twinlog recovery status` says where {request.reverse.name if request.reverse else 'the flow'} stands;"
        " `twinlog audit` calls such records extra",
        code="no-way-home",
        flow=flow.name,
    )


def require_both(flow: FlowSettings, clusters: Clusters, ledger: Ledger) -> None:
    """Raise unless both clusters answer and are those of the flow: ClusterUnreachable, TerminalError."""
    with source_awaited(flow):
        require_own(flow, ledger, clusters.source.cluster_id(), clusters.target.cluster_id())


def source_awaited(flow: FlowSettings) -> AbstractContextManager[None]:
    """Tell a person whose source does not answer to wait for it."""
    return awaited(flow.source.alias, f"run it again once {flow.source.alias} is back")


def _do(work: Work, step: Step[Work]) -> None:
    assert step.do is not None
    outcome, row = timed(step.name, partial(step.do, work), work.request.told)
    if outcome.ends:
        work.exit_code = max(work.exit_code, outcome.exit_code)
        work.lasting = work.lasting or not outcome.transient
    work.steps.append(row)


def compare_sides(work: Work) -> Outcome:
    """Count what each side alone has; say no if something could not be looked at."""
    flow = work.flow
    work.found = found = compare(flow, work.clusters, work.read, work.request.reverse)
    text = (
        f"{found.least}{found.only_on_source:,} records are on {flow.source.alias} alone,"
        f" {found.least}{found.only_on_target:,} on {flow.target.alias} alone"
    )
    if found.strayed:
        text += f"; {found.strayed:,} of those do not come home by themselves"
    text = "; ".join([text, *found.notes])
    if not found.unseen:
        return done(text)
    return failed(f"{text}; not in full: {found.unseen[0]}{and_more(len(found.unseen))}")


def export_tails(work: Work) -> Outcome:
    """Write what the source alone has to topics on the target, once."""
    assert work.found is not None
    flow, found = work.flow, work.found
    if not found.tails:
        return skipped(f"nothing was found on {flow.source.alias} alone")
    topics = sorted({it.topic for it in found.tails})
    read = [it for it in topics if _contents_read(flow, it)]
    if read:
        return failed(
            f"{', '.join(read)}: {flow.target.alias} holds these topics through record rules, and what"
            f" {flow.source.alias} alone has would be written there as it is; to have it so, run this with a file"
            " without them"
        )
    export.ensure_topics(
        flow, work.clusters.target, ((topic, found.partition_counts[topic]) for topic in topics)
    )
    exported = export.export(flow, work.clusters, found.tails, work.failover, work.name, work.read)
    work.exported = exported.notes
    before = sum(it.records for it in exported.notes) - exported.records
    earlier = f", {before:,} before" if before else ""
    return done(f"{exported.records:,} records written to {len(topics):,} topics{earlier}")


def _contents_read(flow: FlowSettings, topic: str) -> bool:
    """Say whether the flow masks, hashes or changes records of a topic: then none is exported as it is."""
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    return flow.chain_of(topic, remote).reads_contents


def write_tail_files(work: Work) -> Outcome:
    """Write files of what the topics hold; a partition that was not exported to its end has none."""
    assert work.found is not None
    found, folder = work.found, reports_folder(work.flow, "failback") / work.failover
    noted = {(it.topic, it.partition): it for it in work.exported}
    missing = []
    for stretch in (*found.tails, *found.strays):
        note = noted.get((stretch.topic, stretch.partition)) if stretch in found.tails else None
        if stretch in found.tails and note is None:
            missing.append(f"{stretch.place} was not exported")
            continue
        written = files.write(
            folder, stretch, work.read(stretch, stretch.start), note.records if note else None
        )
        if written is None:
            missing.append(
                f"{stretch.place} of {work.flow.source.alias} no longer holds all that was exported"
            )
        else:
            work.files.append(written)
    if missing:
        return failed("; ".join(missing))
    if not work.files:
        return skipped("no record to write")
    return done(
        f"{sum(it.records for it in work.files):,} records in {len(work.files):,} files below {folder}"
    )


def _write_evidence(work: Work) -> Outcome:
    request = work.request
    work.evidence, _ = keep_run(
        work.flow,
        work.name,
        report_of(work).document,
        request.seal,
    )
    return done(f"evidence {work.evidence}{'' if request.seal.key else ' (not signed)'}")


COMPARE: Step[Work] = Step(
    StepName.COMPARE,
    "counts the records that are on one side alone: on the source behind what was copied, on the target behind the"
    " copies",
    "every partition looked at",
    "a partition that cannot be compared, or an open transaction on the source, is named; the others are exported."
    " Mend it, or wait until the transaction ends, and run it again",
    compare_sides,
)
EXPORT_TAIL: Step[Work] = Step(
    StepName.EXPORT_TAIL,
    "writes what is on the source alone to topics `mm2-tail.A.TOPIC.internal` on the target, behind the flow's"
    " fence: each record once",
    "as many records as were counted",
    "run it again: it goes on behind the last transaction",
    export_tails,
)
WRITE_FILES: Step[Work] = Step(
    StepName.WRITE_FILES,
    "writes the same records to Parquet files, and what clients wrote to copies on the target that no flow brings"
    " home",
    "as many records as in the topics",
    "make the folder writable and run it again; if the source has deleted records meanwhile, the topics still hold"
    " them",
    write_tail_files,
)
SAVE: tuple[Step[Work], ...] = (COMPARE, EXPORT_TAIL, WRITE_FILES, ending.REPORT.on(_write_evidence))
"""The steps of a failback that saves what the source alone has."""


def report_of(work: Work) -> FailbackReport:
    """Return what was done and found so far."""
    found = work.found
    counted = found if found is not None and not found.unseen else None
    bad = [it for it in work.steps if it.state is StepState.FAILED]
    return FailbackReport(
        flow=work.flow.name,
        run=work.name,
        mode="failback",
        state=State.FAILED if bad else State.PROMOTED,
        dry_run=work.request.dry_run,
        steps=tuple(work.steps),
        topics=found.topics if found is not None else (),
        evidence=work.evidence,
        by=work.request.by,
        next=_next(work, failed=bool(bad)),
        failover=work.failover,
        only_on_source=counted.only_on_source if counted is not None else None,
        only_on_target=counted.only_on_target if counted is not None else None,
        strayed=counted.strayed if counted is not None else None,
        exported=work.exported,
        tail_topics=tuple(sorted({work.flow.tail_topic(it.topic) for it in work.exported})),
        files=tuple(work.files),
        notes=(*found.notes, *found.unseen) if found is not None else (),
        exit_code=work.exit_code,
        transient=bool(bad) and not work.lasting,
    )


def _next(work: Work, *, failed: bool) -> str:
    again = f"twinlog failback --save --flow '{work.flow.name}'"
    if failed:
        return f"the flow stays promoted; {again} goes on"
    if work.request.dry_run:
        return f"{again} exports it; nothing on either side is changed but twinlog's own topics"
    strayed = work.found.strayed if work.found is not None else 0
    lost = (
        f"{strayed:,} records on {work.flow.target.alias} do not come home by themselves; " if strayed else ""
    )
    return f"{lost}the flow stays promoted; docs/runbooks/failback.md has the rest of the way home"
