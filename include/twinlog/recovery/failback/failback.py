"""Save what a failover left behind, once the source answers again, and say what differs: the way home begins here.

The flow stays promoted: neither side's records are changed.  Running it again goes on, and exports what came since.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from twinlog import clock
from twinlog.cluster.api import Cluster, Clusters, awaited
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.errors import ExitCode, TerminalError
from twinlog.formats.ledger.accepted import SHOWN_FOR_MS, Accepted, counting
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import FAILBACK, StepState, TailExported
from twinlog.gate.evidence import Seal
from twinlog.gate.record import keep_run
from twinlog.judge.data_docs import reports_folder
from twinlog.procedure import Outcome, Step, StepName, Told, done, failed, skipped, walk
from twinlog.recovery import transitions, walking
from twinlog.recovery.failback import export, homes, rights
from twinlog.recovery.one_sided import files
from twinlog.recovery.one_sided.divergence import compare
from twinlog.recovery.one_sided.read import Read, opened_logs
from twinlog.recovery.procedure import Actor
from twinlog.recovery.report import FailbackReport, State
from twinlog.recovery.reverse import Way, as_noted, require_clients_there
from twinlog.recovery.steps import ending
from twinlog.recovery.steps.world import LOOKING, Request, Tools, World
from twinlog.recovery.ways_home import reverse_of
from twinlog.state.ledger import Ledger, read_ledger, require_own
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import and_more

YES_TO_SAVE = "save"
"""The question of a mere save, to which a person in Airflow says yes."""


def run(
    flow: FlowSettings,
    clusters: Clusters,
    request: Request,
    tools: Tools,
    read: Read,
    reverse: FlowSettings | None = None,
) -> FailbackReport:
    """Compare, export, and write the evidence; a step that fails is in the report.

    `reverse` is the enabled flow from the target to the source, if the file has one.
    Raises TerminalError `not-promoted` for a flow that was not failed over, the refusal of a source that is another
    cluster, ClusterRefused `unauthorised` if a right is missing, and ClusterUnreachable while the source does not
    answer.
    """
    flow.require_copied("a way home")
    flow = as_noted(flow, clusters.target)
    ledger = read_ledger(flow, clusters.target)
    if ledger.phase is FlowPhase.FAILING_BACK:
        raise transitions.on_its_way_home(flow.name, ledger)
    failover = export.require_promoted(flow, ledger)
    require_both(flow, clusters, ledger)
    if flow.homes is None:
        require_clients_there(flow, clusters)
    else:
        flow = _told(flow, clusters, reverse)
    saved = homes.saved_topics(FlowSnapshot(flow, clusters))
    rights.require_to_save(flow, clusters, [topic.topic for topic in saved])
    actor, name = Actor(request.by, ""), clock.new_run_name("failback")
    world = World.of(Way(flow, clusters), request, tools, actor, name, ask_source=True)
    world = replace(world, failover=failover, read=read, homeward=reverse)
    if request.dry_run:
        world, seen = walking.look(world, SAVE, None)
        stopped: tuple[Outcome, ...] = () if seen is None else (seen,)
    else:
        walked = walk(SAVE, world, tools.told, keep=World.after, goes_on=_goes_on)
        world, stopped = walked.world, walked.stopped
    return replace(
        report_of(world),
        exit_code=max((outcome.exit_code for outcome in stopped), default=ExitCode.DONE),
        transient=bool(stopped) and all(outcome.transient for outcome in stopped),
    )


def save(
    configuration: Configuration,
    flow: FlowSettings,
    clusters: Clusters,
    request: Request,
    told: Told,
    sign_with: Path | None = None,
) -> FailbackReport:
    """Save by the logs of both clusters, as `run` does; `sign_with` as for `Seal.of`, and a dry run has no key."""
    seal = Seal.of(configuration, None if request.dry_run else flow, sign_with)
    tools = replace(LOOKING, seal=seal, told=told)
    with opened_logs(flow) as read:
        return run(flow, clusters, request, tools, read, reverse_of(configuration, flow))


def _goes_on(world: World, _outcome: Outcome) -> bool:
    """Say that a save does every step, also behind one that has failed, unless nothing could be compared."""
    return world.found.apart is not None


def yes_to_save(by: str, driver: str) -> Accepted:
    """Return a person's yes to save, in Airflow, for the Dag run `driver` alone.  Pure."""
    now_ms = clock.now_ms()
    known_by, until_ms = Actor(by, "", driver=driver).known_by, now_ms + SHOWN_FOR_MS
    return Accepted(YES_TO_SAVE, driver, "approved in Airflow", by, known_by, now_ms, until_ms, None)


def approver_of(flow: FlowSettings, target: Cluster, driver: str) -> str:
    """Return who said yes to save, by the ledger.  Raises TerminalError `not-approved`."""
    for accepted in counting(read_ledger(flow, target).accepted, YES_TO_SAVE, clock.now_ms()):
        if accepted.subject == driver:
            return accepted.by
    raise TerminalError("nobody has approved this run", "clear the task `approve`", code="not-approved")


def _told(flow: FlowSettings, clusters: Clusters, reverse: FlowSettings | None) -> FlowSettings:
    """Return a flow home that knows where the copies end; a way home has told it.

    Raises TerminalError `no-way-home` if that is not known: what is on one side alone could only be guessed.
    """
    known = as_noted(replace(flow, homes={}), clusters.target)
    if known.homes:
        return known
    raise TerminalError(
        f"what {flow.source.alias} alone has is not known: no ledger there says how far the copies go",
        f"`twinlog recovery status` says where {reverse.name if reverse else 'the flow'} stands;"
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


def compare_sides(world: World) -> Outcome:
    """Count what each side alone has; say no if something could not be looked at."""
    flow = world.flow
    found = compare(flow, world.clusters, world.read, world.homeward)
    known = replace(world.found, apart=found)
    text = (
        f"{found.least}{found.only_on_source:,} records are on {flow.source.alias} alone,"
        f" {found.least}{found.only_on_target:,} on {flow.target.alias} alone"
    )
    if found.strayed:
        text += f"; no cycle brings {found.strayed:,} of those home: a way home does, or says what stays"
    text = "; ".join([text, *found.notes])
    if not found.unseen:
        return done(text, known)
    return failed(f"{text}; not in full: {found.unseen[0]}{and_more(len(found.unseen))}", known)


def export_tails(world: World) -> Outcome:
    """Write what the source alone has to topics on the target, once."""
    flow, found = world.flow, world.found.apart
    assert found is not None
    if not found.tails:
        return skipped(f"nothing was found on {flow.source.alias} alone")
    topics = sorted({tail.topic for tail in found.tails})
    export.ensure_topics(
        flow, world.clusters.target, ((topic, found.partition_counts[topic]) for topic in topics)
    )
    notes, written = export.export(flow, world.clusters, found.tails, world.failover, world.run, world.read)
    before = sum(note.records for note in notes) - written
    earlier = f", {before:,} before" if before else ""
    text = f"{written:,} records written to {len(topics):,} topics{earlier}"
    return done(text, replace(world.found, exported=notes))


def write_tail_files(world: World) -> Outcome:
    """Write files of what the topics hold; a partition that was not exported to its end has none."""
    apart, folder = world.found.apart, reports_folder(world.flow, "failback") / world.failover
    assert apart is not None
    noted = {(tail.topic, tail.partition): tail for tail in world.found.exported}
    missing, there = list[str](), list[files.WrittenFile]()
    for stretch in (*apart.tails, *apart.strays):
        note = noted.get((stretch.topic, stretch.partition)) if stretch in apart.tails else None
        if stretch in apart.tails and note is None:
            missing.append(f"{stretch.place} was not exported")
            continue
        written = files.write(
            folder, stretch, world.read(stretch, stretch.start), note.records if note else None
        )
        if written is None:
            missing.append(
                f"{stretch.place} of {world.flow.source.alias} no longer holds all that was exported"
            )
        else:
            there.append(written)
    found = replace(world.found, files=tuple(there))
    if missing:
        return failed("; ".join(missing), found)
    if there:
        records = sum(file.records for file in there)
        return done(f"{records:,} records in {len(there):,} files below {folder}", found)
    return skipped("no record to write", found)


def _write_evidence(world: World) -> Outcome:
    seal = world.tools.seal
    path, _ = keep_run(world.flow, world.run, report_of(world).document, seal)
    return done(f"evidence {path}{'' if seal.key else ' (not signed)'}", replace(world.found, evidence=path))


COMPARE = Step(
    StepName.COMPARE,
    "counts the records that are on one side alone: on the source behind what was copied, on the target behind the"
    " copies",
    "every partition looked at",
    "a partition that cannot be compared, or an open transaction on the source, is named; the others are exported."
    " Mend it, or wait until the transaction ends, and run it again",
    compare_sides,
    compare_sides,
)
EXPORT_TAIL = Step(
    StepName.EXPORT_TAIL,
    "writes what is on the source alone to topics `mm2-tail.A.TOPIC.internal` on the target, behind the flow's"
    " fence: each record once",
    "as many records as were counted",
    "run it again: it goes on behind the last transaction",
    export_tails,
    lambda world: (
        f"would export {world.found.apart.least}{world.found.apart.only_on_source:,} records"
        if world.found.apart is not None
        else ""
    ),
)
WRITE_FILES = Step(
    StepName.WRITE_FILES,
    "writes the same records to Parquet files, and what clients wrote to copies on the target that no flow brings"
    " home",
    "as many records as in the topics",
    "make the folder writable and run it again; if the source has deleted records meanwhile, the topics still hold"
    " them",
    write_tail_files,
)
SAVE = (COMPARE, EXPORT_TAIL, WRITE_FILES, ending.REPORT.on(_write_evidence))
"""The steps of a failback that saves what the source alone has."""


def report_of(world: World) -> FailbackReport:
    """Return what was done and found so far."""
    known = world.found
    found = known.apart
    counted = found if found is not None and not found.unseen else None
    bad = any(step.state is StepState.FAILED for step in world.steps)
    return FailbackReport(
        flow=world.flow.name,
        run=world.run,
        mode=FAILBACK,
        state=State.FAILED if bad else State.PROMOTED,
        dry_run=world.request.dry_run,
        steps=world.steps,
        topics=found.topics if found is not None else (),
        evidence=known.evidence,
        by=world.request.by,
        next=_next(world, failed=bad),
        failover=world.failover,
        only_on_source=counted.only_on_source if counted is not None else None,
        only_on_target=counted.only_on_target if counted is not None else None,
        strayed=counted.strayed if counted is not None else None,
        exported=known.exported,
        tail_topics=tail_topics(world.flow, known.exported),
        files=known.files,
        notes=(*found.notes, *found.unseen) if found is not None else (),
    )


def tail_topics(flow: FlowSettings, exported: Iterable[TailExported]) -> tuple[str, ...]:
    """Return the topics that hold what was exported.  Pure."""
    return tuple(sorted({flow.tail_topic(tail.topic) for tail in exported}))


def _next(world: World, *, failed: bool) -> str:
    again = f"twinlog failback --save --flow '{world.flow.name}'"
    if failed:
        return f"the flow stays promoted; {again} goes on"
    if world.request.dry_run:
        return f"{again} exports it; nothing on either side is changed but twinlog's own topics"
    apart = world.found.apart
    lost = (
        f"no cycle brings {apart.strayed:,} records of {world.flow.target.alias} home: a way home does, or says what"
        " stays; "
        if apart is not None and apart.strayed
        else ""
    )
    return f"{lost}the flow stays promoted; docs/runbooks/failback.md has the rest of the way home"
