"""Tell where a failover or failback stands and what was done before, from the ledger and from a source that answers."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TerminalError, TwinlogError
from twinlog.facts.flow import FlowFacts
from twinlog.facts.observe import observe
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import FAILBACK, JournalEntry, RecoveryRun, RunState
from twinlog.judge.check import Mode
from twinlog.recovery.procedure import left
from twinlog.recovery.procedures import steps_of
from twinlog.recovery.report import TopicAtRisk, partitions_at_risk, seconds_of
from twinlog.recovery.reverse import as_noted, once_back, require_clients_there
from twinlog.recovery.transitions import open_run, taken_back, way_home
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class RunStatus:
    """One failover or failback: who began it, how long it took or has taken, its journal, and how to prove it."""

    run: str
    mode: str
    state: RunState
    by: str
    started_ms: int
    seconds: float
    rto_seconds: float | None
    rpo_seconds: float | None
    at_risk_records: int | None
    known: int | None
    denied_topics: int
    evidence: str
    evidence_sha256: str
    journal: tuple[JournalEntry, ...]


@dataclass(frozen=True, slots=True)
class RecoveryStatus:
    """The state of a flow, the failover or failback it is in, the steps that are left, and what can be done now.

    `left_on_source` are the records of a lost source that were never copied, counted in its logs once it answers again,
    by offsets: transaction markers and aborted records are among them.  `unseen_on_source` partitions of it could not
    be looked at.  Both are None while it does not answer, or if none was lost.
    """

    flow: str
    state: str
    since_ms: int | None
    by: str
    reason: str
    run: RunStatus | None
    left: tuple[str, ...]
    next: str
    left_on_source: tuple[TopicAtRisk, ...] | None
    unseen_on_source: int | None


def status(flow: FlowSettings, clusters: Clusters) -> RecoveryStatus:
    """Read where the flow stands.  Raises errors of the target."""
    flow = as_noted(flow, clusters.target)
    ledger = read_ledger(flow, clusters.target)
    run, state = way_home(ledger) or ledger.present_recovery, ledger.flow_state
    open_one = None if run is None or run.cleared else run
    todo = left(steps_of(open_one.mode, observed=flow.observed), open_one) if open_one else ()
    seen = _seen_on_source(flow, clusters, ledger.present_failover)
    return RecoveryStatus(
        flow=flow.name,
        state=STATES[ledger.phase],
        since_ms=state.since_ms if state is not None else None,
        by=state.by if state is not None else "",
        reason=state.reason if state is not None else "",
        run=status_of(run) if run is not None else None,
        left=tuple(name.value for name in todo),
        next="; ".join([
            _if_left(flow, clusters, ledger) or what_next(flow, ledger),
            *(  # its process may have made them late
                f"{run.run} may have left {len(run.denied):,} denials of WRITE: `twinlog recovery abort --flow"
                f" '{flow.name}' --reason ...` removes them"
                for run in ledger.recoveries
                if run.state is RunState.ABORTED and run.denied
            ),
        ]),
        left_on_source=partitions_at_risk(seen) if seen is not None else None,
        unseen_on_source=seen.unseen if seen is not None else None,
    )


def _if_left(flow: FlowSettings, clusters: Clusters, ledger: Ledger) -> str:
    """Say what to do if clients work on the source again, promoted without the target; "" if they do not, as known."""
    if not ledger.phase.out_of_service or flow.homes is not None:
        return ""
    try:
        require_clients_there(flow, clusters)
    except TerminalError as error:
        return f"{error.message}; {error.hint}"
    except TwinlogError:
        return ""  # the source does not answer
    return ""


def _seen_on_source(flow: FlowSettings, clusters: Clusters, run: RecoveryRun | None) -> FlowFacts | None:
    if run is None or run.state is not RunState.PROMOTED or run.mode != Mode.SOURCE_DEAD:
        return None
    try:
        return observe(FlowSnapshot(flow, clusters), configs=False)
    except ClusterUnreachable as error:
        if error.cluster != flow.source.alias:
            raise
        return None


STATES = {
    FlowPhase.ACTIVE: "following",
    FlowPhase.PAUSED: "paused",
    FlowPhase.FAILING_OVER: "failing-over",
    FlowPhase.PROMOTED: "promoted",
    FlowPhase.FAILING_BACK: "failing-back",
}


def history(flow: FlowSettings, clusters: Clusters) -> tuple[RunStatus, ...]:
    """Return every failover and failback that the ledger keeps, newest first.  Raises errors of the target."""
    ledger = read_ledger(flow, clusters.target)
    return tuple(status_of(recovery) for recovery in reversed(ledger.recoveries))


def status_of(run: RecoveryRun) -> RunStatus:
    """Show a run.  Pure but for the clock, if it is still under way."""
    seconds, promoted = seconds_of(run, clock.now_ms()), run.state is RunState.PROMOTED
    return RunStatus(
        run=run.run,
        mode=run.mode,
        state=run.state,
        by=run.by,
        started_ms=run.started_ms,
        seconds=seconds,
        rto_seconds=seconds if promoted and run.cleared else None,
        rpo_seconds=run.rpo_seconds,
        at_risk_records=run.at_risk_records,
        known=run.known if run.known is not None else run.at_risk_records,
        denied_topics=len(run.denied),
        evidence=run.evidence,
        evidence_sha256=run.evidence_sha256,
        journal=run.journal,
    )


def what_next(flow: FlowSettings, ledger: Ledger) -> str:
    """Say what a person can do now.  Pure."""
    run = open_run(ledger)
    named = f"--flow '{flow.name}'"
    if homeward := _next_on_the_way_home(flow, ledger):
        return homeward
    if run is not None:
        return (
            f"`twinlog failover --mode {run.mode} {named}` goes on with it;"
            f" `twinlog recovery abort {named} --reason ...` " + taken_back(run)
        )
    kept = ledger.present_recovery
    if ledger.phase is FlowPhase.PROMOTED and kept is not None and not kept.cleared:
        return (
            f"`twinlog failover --mode {kept.mode} {named}` does the steps that are left after the promotion"
        )
    if ledger.phase.out_of_service:
        return _next_once_promoted(flow, kept)
    if ledger.phase is FlowPhase.PAUSED:
        handed_over = ledger.flow_state is not None and ledger.flow_state.handed_over
        return f"`twinlog {'migrate takeover' if handed_over else 'resume'} {named}` lets it go on"
    return f"`twinlog failover --mode planned --dry-run {named}` shows what a failover would do"


def _next_once_promoted(flow: FlowSettings, run: RecoveryRun | None) -> str:
    named, clients = f"--flow '{flow.name}'", f"clients work on {flow.target.alias}"
    if run is not None and run.home:
        return f"{clients}; {once_back(flow, run.home)}"
    return (
        f"{clients}; once {flow.source.alias} answers, `twinlog failback --save --dry-run {named}` says what each side"
        f" alone has; `twinlog failback {named}` goes home"
    )


def _next_on_the_way_home(flow: FlowSettings, ledger: Ledger) -> str:
    """Say what can be done about the way home of the flow, or of the one it copies for; "" if there is none."""
    home, run, named = way_home(ledger), open_run(ledger), f"--flow '{flow.name}'"
    if home is not None and home.state is RunState.PROMOTED:
        return f"`twinlog failback {named}` does the steps that are left; clients work on {flow.source.alias}"
    if home is not None:
        stay = f"`twinlog recovery abort {named} --reason ...` leaves clients on {flow.target.alias}"
        return f"`twinlog failback {named}` goes on; {stay}"
    if run is not None and run.mode == FAILBACK:
        other = run.home or f"{flow.target.alias}->{flow.source.alias}"
        lost = f"if {flow.source.alias} is lost: `twinlog failover --mode source-dead {named}`"
        return f"it copies home for {other}: `twinlog recovery status --flow '{other}'`; {lost}"
    return ""
