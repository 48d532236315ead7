"""Open the flow in the other direction: what it copies back belongs to what groups have read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

from twinlog.cluster.api import ClusterReader, Clusters, open_clusters
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun
from twinlog.policy.state_topics import HOME, ledger_topic
from twinlog.recovery.homeward import promoted_without as clients_are_home
from twinlog.recovery.transitions import brings_nothing_home, is_lent, open_run
from twinlog.recovery.ways_home import reverse_of, way_home
from twinlog.state.ledger import Ledger, ledger_in, read_ledger
from twinlog.topics.pauses import why_suspended


@dataclass(frozen=True, slots=True)
class Way:
    """A flow and its clusters."""

    flow: FlowSettings
    clusters: Clusters


def why_nothing_home(flow: FlowSettings, ledger: Ledger) -> str:
    """Say why a cycle of a flow that only brings home has nothing to do; "" if it has.  Pure."""
    run = open_run(ledger)
    if run is None or not is_lent(run):
        return brings_nothing_home(flow.name).message
    held = why_suspended(ledger)
    return f"{flow.name} is {held}; `twinlog failback` goes on with it" if held else ""


def as_noted(flow: FlowSettings, target: ClusterReader) -> FlowSettings:
    """Return a flow that only brings home with the names that its ledger has; another flow as it is.

    Its source need not answer.  Raises errors of the target.
    """
    if flow.homes is None or flow.homes:
        return flow
    lives = read_ledger(flow, target).incarnations.values()
    return replace(flow, homes={life.topic: life.remote_topic for life in lives})


def once_back(flow: FlowSettings, home: str) -> str:
    """Say what to do once the source of a flow is back that was promoted without it, on the way home of `home`."""
    return (
        f"once {flow.source.alias} answers, keep clients away from it: `twinlog failback --save --flow '{flow.name}'`"
        f" saves what never came home, `twinlog recovery follow --flow '{home}'` lets {home} follow"
    )


def opened_reverse(configuration: Configuration, flow: FlowSettings) -> AbstractContextManager[Way | None]:
    """Open the clusters of the enabled flow in the other direction; None if the file has none."""
    return _opened(reverse_of(configuration, flow))


def opened_way_home(configuration: Configuration, flow: FlowSettings) -> AbstractContextManager[Way | None]:
    """Open the clusters of the flow by which this one goes home; None if there is none."""
    try:
        return _opened(way_home(configuration, flow) if flow.homes is None else None)
    except TerminalError:
        return _opened(None)


@contextmanager
def _opened(flow: FlowSettings | None) -> Iterator[Way | None]:
    if flow is None:
        yield None
        return
    with open_clusters(flow) as clusters:
        yield Way(flow, clusters)


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
        raise clients_are_home(reverse.flow.name, flow.name, found)


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
        raise clients_are_home(f"{back}->{flow.source.alias}", flow.name, run)
