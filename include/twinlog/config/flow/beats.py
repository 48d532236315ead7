"""Decide which flow writes heartbeats for which pair of clusters: by default MM2 does so for every pair.

MM2 starts a heartbeat connector for each ordered pair whose `emit.heartbeats.enabled` is true, whether the pair copies
or not (MirrorMakerConfig.clusterPairs).  twinlog runs only flows that copy.  Each of them writes heartbeats for
itself, for its reverse flow, and for the pairs without a flow that are assigned to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from twinlog.config.flow.settings import FlowSettings


def with_beats(flows: Mapping[str, FlowSettings]) -> Mapping[str, FlowSettings]:
    """Give each copying flow the pairs it writes heartbeats for, and the writer of those on its source.  Pure."""
    copying = [flow for flow in flows.values() if flow.enabled]
    ways_back = {flow.name: _way_back(flow, flows) for flow in copying}
    taken = {back.name for back in ways_back.values() if back is not None}
    alone = [flow for flow in flows.values() if _only_beats(flow) and flow.name not in taken]

    def beating(flow: FlowSettings) -> FlowSettings:
        return replace(
            flow,
            way_back=ways_back[flow.name],
            carries=tuple(pair for pair in alone if carrier(pair, copying) is flow),
            beaten_into=_beats_into(flow.source.alias, flows.values()),
        )

    return {name: beating(flow) if flow.enabled else flow for name, flow in flows.items()}


def carrier(pair: FlowSettings, copying: Iterable[FlowSettings]) -> FlowSettings | None:
    """Choose the flow that writes heartbeats for a pair without a flow.

    The first flow that copies from or to the pair's target, because heartbeats are written there; else the first flow.
    None if no flow copies, because then nothing runs.  Pure.
    """
    flows = tuple(copying)
    meeting = (it for it in flows if pair.target.alias in {it.source.alias, it.target.alias})
    return next(meeting, flows[0] if flows else None)


def _only_beats(flow: FlowSettings) -> bool:
    return not flow.enabled and flow.emit_heartbeats


def _way_back(flow: FlowSettings, flows: Mapping[str, FlowSettings]) -> FlowSettings | None:
    found = flows.get(f"{flow.target.alias}->{flow.source.alias}")
    return found if found is not None and _only_beats(found) else None


def _beats_into(alias: str, flows: Iterable[FlowSettings]) -> FlowSettings | None:
    """Find the flow that writes heartbeats on a cluster: the reverse of a flow, or any other pair."""
    return next((flow for flow in flows if flow.target.alias == alias and flow.emit_heartbeats), None)
