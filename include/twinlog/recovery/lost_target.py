"""Tell a flow, once its target is back, that its source was promoted without it: the target was lost meanwhile.

The ledger of the flow is on the target, and still says that the flow is promoted, or on its way home.  That of the
flow home is on the source, and says who has promoted it.
"""

from __future__ import annotations

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import FAILBACK, RecoveryRun, RunState
from twinlog.policy.state_topics import HOME, ledger_topic
from twinlog.recovery import homeward, transitions
from twinlog.recovery.journal import Journal
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.source_writers import still_denied
from twinlog.state.ledger import Ledger, ledger_in, read_ledger


def promoted_without(flow: str, reverse: Way | None, run: RecoveryRun) -> RecoveryRun | None:
    """Return the failover by which the source was promoted on this way home, or before it was told of it; else None.

    Raises errors of the source.
    """
    if reverse is None or reverse.clusters.target.describe_topics([reverse.flow.ledger_topic]).refused:
        return None
    ledger = read_ledger(reverse.flow, reverse.clusters.target)
    found = ledger.recovery(run.run)
    if found is not None and found.promoted_ms is not None:
        return found
    return _clients_there(ledger, flow)


def _clients_there(ledger: Ledger, home: str) -> RecoveryRun | None:
    """Return the failover by which the source of the flow `home` is promoted now, by the ledger of the flow home."""
    run = ledger.present_recovery
    promoted = ledger.phase is FlowPhase.PROMOTED and run is not None and run.home == home
    return run if promoted else None


def require_not_promoted(flow: FlowSettings, reverse: Way | None, run: RecoveryRun) -> None:
    """Raise TerminalError `promoted` if clients work on the source; one that does not answer has not told."""
    try:
        found = promoted_without(flow.name, reverse, run)
    except ClusterUnreachable:
        return
    if found is not None and reverse is not None:
        raise homeward.promoted_without(reverse.flow.name, flow.name, found)


def require_clients_there(flow: FlowSettings, clusters: Clusters) -> None:
    """Raise TerminalError `promoted` if the source was promoted without the target, by the flow home with other names.

    Raises errors of the source.
    """
    back = f"{flow.target.alias}{HOME}"
    try:
        ledger = ledger_in(clusters.source, ledger_topic(back))
    except ClusterRefused:  # whoever may not read it was never told
        return
    if (run := _clients_there(ledger, flow.name)) is not None:
        raise homeward.promoted_without(f"{back}->{flow.source.alias}", flow.name, run)


def end(journal: Journal, reverse: Way | None, reason: str) -> RecoveryRun | None:
    """Let the flow follow, and return its way home; also one that was ended so, and whose denials are left.

    The result is None if the flow is not on its way home.  Raises TerminalError `failing-back` if its source was not
    promoted without the target, and errors of both clusters.
    """
    flow = journal.flow.name
    ledger = read_ledger(journal.flow, journal.clusters.target)
    if ledger.phase is FlowPhase.ACTIVE:
        ended = [it for it in ledger.recoveries if it.mode == FAILBACK and it.failover][-1:]
        half = ended and ended[0].state is RunState.RETURNED and _denied(ledger, ended[0])
        return ended[0] if half else None
    run = transitions.way_home(ledger)
    if ledger.phase is not FlowPhase.FAILING_BACK or run is None:
        return None
    if promoted_without(flow, reverse, run) is None:
        raise transitions.on_its_way_home(flow, ledger)
    return journal.move(
        lambda now: homeward.end_without(flow, now, journal.actor, run.run, reason, clock.now_ms())
    )


def _denied(ledger: Ledger, run: RecoveryRun) -> bool:
    failover = ledger.recovery(run.failover)
    return bool(run.denied or (failover is not None and failover.denied))


def denials(journal: Journal, run: RecoveryRun) -> list[str]:
    """Remove those of the way home from the target, and those of its failover from the source; say what stays."""
    flow, clusters = journal.flow, journal.clusters
    left = still_denied(clusters.target, journal, run)
    failover = read_ledger(flow, clusters.target).recovery(run.failover)
    if failover is not None:
        left += still_denied(clusters.source, journal, failover)
    return left
