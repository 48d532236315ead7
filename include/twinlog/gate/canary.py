"""The gate's canary: write a record to the source now, and wait for it on the target.

The canary is a heartbeat as the flow in the opposite direction would write it (MM2 writes heartbeats for disabled
flows too).  So it leaves nothing unusual on the source, and it takes the same way as every record.  The gate does not
copy it: the running Dag or `twinlog run` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from twinlog.cluster.open import Clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.mm2.records import Heartbeat
from twinlog.kafka_types import ReadRecord
from twinlog.monitoring.heartbeats import parsed_beat, remote_heartbeats, tail_of
from twinlog.state.internal_topics import heartbeats_topics
from twinlog.topics.own_topics import ensure_topics

POLL_SECONDS = 0.2


def fly(
    flow: FlowSettings,
    clusters: Clusters,
    *,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> float | None:
    """Write a heartbeat to the source, wait for it on the target, and return the seconds it took.

    Returns None if it did not arrive.  Raises TerminalError `canary` if the flow does not copy heartbeats,
    ClusterUnreachable and ClusterRefused.
    """
    if not flow.heartbeats_replication:
        raise TerminalError(
            f"{flow.name} copies no heartbeats (heartbeats.replication.enabled=false): a canary would not arrive",
            hint="ask the gate without --canary",
            code="canary",
        )
    sent = clock()
    beat = Heartbeat(flow.target.alias, flow.source.alias, int(sent * 1000))
    ensure_topics(clusters.source, heartbeats_topics(flow))
    record = InternalRecord(beat.key(), beat.value(), partition=0, timestamp=beat.timestamp_ms)
    clusters.source.produce(flow.policy.heartbeats_topic(), [record])
    while clock() < sent + flow.gate.canary_seconds:
        if any(is_the_canary(it, beat) for it in tail_of(clusters.target, remote_heartbeats(flow))):
            return round(clock() - sent, 3)
        sleep(POLL_SECONDS)
    return None


def is_the_canary(record: ReadRecord, beat: Heartbeat) -> bool:
    """Say whether a record on the target is this very heartbeat."""
    return parsed_beat(record) == beat
