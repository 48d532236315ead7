"""The gaps of a flow, with the retention of their topics on both clusters.  Changes nothing."""

from __future__ import annotations

from twinlog.checks.gaps import GapReport, gap_reports, keeps_ms
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TransientError
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import remote_name


def read_gaps(
    flow: FlowSettings,
    target: ClusterReader,
    ledger: Ledger,
    now_ms: int,
    source: ClusterReader | None = None,
) -> tuple[GapReport, ...]:
    """List the gaps of a flow as of `now_ms`.

    If `source` is None or does not answer, nothing is left of the records there, so the copy's retention counts.
    Without gaps no cluster is asked.  Raises ClusterUnreachable for the target.
    """
    names = sorted({it.topic for it in ledger.gaps} | {it.topic for it in ledger.quarantined})
    if not names:
        return ()
    remote = {name: _remote(flow, ledger, name) for name in names}
    copies = target.topic_configs(sorted(set(remote.values()))).found
    try:
        origins = source.topic_configs(names) if source is not None else None
    except TransientError:
        origins = None
    keeps = {}
    for name in names:
        sides = [copies.get(remote[name], {})]
        if origins is not None:
            sides.append(origins.found.get(name, {}))
        keeps[name] = keeps_ms(sides)
    return gap_reports(ledger, keeps, now_ms)


def _remote(flow: FlowSettings, ledger: Ledger, topic: str) -> str:
    life = ledger.incarnations.get(topic)
    return life.remote_topic if life is not None else remote_name(flow, topic)
