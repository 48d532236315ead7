"""Prove that the promoted target takes writes and gives them to readers: a heartbeat is written there and read back.

It is the heartbeat that the flow writes there anyway, so it leaves nothing unusual.
"""

from __future__ import annotations

from collections.abc import Callable

from twinlog import clock
from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.mm2.records import Heartbeat
from twinlog.gate.at_source import arrival
from twinlog.procedure import Outcome, done, failed, skipped


def try_target(flow: FlowSettings, target: Cluster, sleep: Callable[[float], None]) -> Outcome:
    """Write to the target and read it back, unless no heartbeat may be written.  Raises as `arrival`."""
    if not flow.emit_heartbeats:
        return skipped(
            f"not tried: {flow.name} writes no heartbeats (emit.heartbeats.enabled=false, or it observes)"
        )
    beat = Heartbeat(flow.source.alias, flow.target.alias, clock.now_ms())
    seconds = arrival(flow, target, beat, target, flow.policy.heartbeats_topic(), sleep)
    if seconds is None:
        return failed(f"what was written to {flow.target.alias} could not be read back")
    return done(f"written and read on {flow.target.alias} in {seconds:.3f} s")
