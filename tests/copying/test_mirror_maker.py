"""A flow that MirrorMaker 2 has copied is taken over before twinlog's first copy: else its records come twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from twinlog.cluster.admin.group_members import ConnectWorkers
from twinlog.cluster.values import PartitionOffsets
from twinlog.copying.mirror_maker import require_taken_over
from twinlog.errors import ClusterRefused, TerminalError
from twinlog.formats.ledger.records import LaneFence
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.formats.mm2.records import OffsetSync
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import write_ledger
from twinlog.steps import discover


@pytest.fixture
def mirrored(flow: Any, source: Any, target: Any, orders: Any, with_internal: Any) -> Any:
    """MM2 has copied three records of orders-0, and says so in its offset-syncs."""
    target.add_topic("A.orders", 3)
    for n in range(3):
        target.append(TopicPartition("A.orders", 0), key=b"k", value=b"%d" % n)
    syncs = flow.policy.offset_syncs_topic("B")
    source.add_topic(syncs)
    sync = OffsetSync("orders", 0, 2, 2)
    source.append(TopicPartition(syncs, 0), key=sync.key(), value=sync.value())
    return flow


def refused(flow: Any, clusters: Any) -> str:
    """The code of the refusal, "" if there is none."""
    try:
        require_taken_over(flow, clusters, discover.run(flow, clusters))
    except TerminalError as error:
        assert "twinlog migrate takeover" in error.hint
        return error.code
    return ""


def test_copies_that_mirror_maker_made_are_not_copied_again(mirrored: Any, clusters: Any) -> None:
    """Nobody knows how far they go: its positions are lost, or under a Connect cluster's names."""
    assert "mm2-copied" == refused(mirrored, clusters)


def test_a_mirror_maker_at_work_is_seen(flow: Any, clusters: Any, target: Any, orders: Any) -> None:
    """Its workers run tasks of the flow's connector; workers that only beat are no matter."""
    target.workers["A-mm2"] = ConnectWorkers(1, {"MirrorHeartbeatConnector": 1})
    assert "" == refused(flow, clusters)
    target.workers["A-mm2"] = ConnectWorkers(1, {"MirrorSourceConnector": 2})
    assert "mm2-running" == refused(flow, clusters)


@pytest.mark.parametrize("why", ["empty copy", "no syncs", "position", "fenced", "paused", "heartbeats"])
def test_nothing_else_is_refused(mirrored: Any, clusters: Any, source: Any, target: Any, why: str) -> None:
    """An empty copy, a copy that nobody synced, a known position, and each copy after the first one."""
    if why == "no syncs":
        source.topics[mirrored.policy.offset_syncs_topic("B")].logs[0].records.clear()
    elif why == "position":
        key = source_offset_key(mirrored.connector_name, "A", 0, "orders")
        target.append(TopicPartition(mirrored.offsets_topic, 0), key=key, value=offset_value(2))
    elif why == "fenced":
        write_ledger(mirrored, target, [LaneFence("run", 1, 1)])
    discovery = discover.run(mirrored, clusters)
    if why == "paused":
        discovery = replace(discovery, stands_by="paused by jo")
    elif why == "empty copy":
        emptied = [replace(it, target=PartitionOffsets(3, 3, 3)) for it in discovery.topics[0].partitions]
        discovery = replace(discovery, topics=(replace(discovery.topics[0], partitions=tuple(emptied)),))
    elif why == "heartbeats":
        discovery = replace(
            discovery, topics=tuple(replace(it, topic="heartbeats") for it in discovery.topics)
        )
    require_taken_over(mirrored, clusters, discovery)


def test_a_cluster_that_does_not_tell_refuses_nothing(mirrored: Any, clusters: Any, target: Any) -> None:
    """No right to see the workers' group: then only what can be seen counts."""
    target.refuse("connect_workers", "A-mm2", ClusterRefused("no", hint="grant DESCRIBE on group A-mm2"))
    assert "mm2-copied" == refused(mirrored, clusters)
