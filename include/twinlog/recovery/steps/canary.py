"""Prove that the promoted target takes writes and gives them to readers: a heartbeat is written there and read back.

It is the heartbeat that the flow writes there anyway, so it leaves nothing unusual.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from twinlog import clock
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.facts.heartbeats import tail_of
from twinlog.formats.mm2.records import Heartbeat
from twinlog.gate.at_source import POLL_SECONDS, is_the_canary
from twinlog.procedure import Outcome, done, failed, skipped
from twinlog.state.internal_topics import heartbeats_topics
from twinlog.topics.own_topics import ensure_topics


def try_target(flow: FlowSettings, target: Cluster, sleep: Callable[[float], None]) -> Outcome:
    """Write to the target and read it back, unless no heartbeat may be written.  Raises as `write_and_read`."""
    if not flow.emit_heartbeats:
        return skipped(
            f"not tried: {flow.name} writes no heartbeats (emit.heartbeats.enabled=false, or it observes)"
        )
    seconds = write_and_read(flow, target, sleep)
    if seconds is None:
        return failed(f"what was written to {flow.target.alias} could not be read back")
    return done(f"written and read on {flow.target.alias} in {seconds:.3f} s")


def write_and_read(flow: FlowSettings, target: Cluster, sleep: Callable[[float], None]) -> float | None:
    """Write a heartbeat and wait for it; return the seconds it took, None if it did not appear.

    Raises ClusterRefused if the target does not take it.
    """
    began = time.monotonic()
    ensure_topics(target, heartbeats_topics(flow))
    beat = Heartbeat(flow.source.alias, flow.target.alias, clock.now_ms())
    record = InternalRecord(beat.key(), beat.value(), partition=0, timestamp=beat.timestamp_ms)
    topic = flow.policy.heartbeats_topic()
    target.produce(topic, [record])
    while time.monotonic() < began + flow.gate.canary_seconds:
        if any(is_the_canary(it, beat) for it in tail_of(target, topic)):
            return round(time.monotonic() - began, 3)
        sleep(POLL_SECONDS)
    return None
