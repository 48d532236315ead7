"""Faults of a target of three brokers: leaders, replicas and coordinators move, or die."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from stage import Stage
from traffic import PARTITIONS

from twinlog.lane.fence.fence import transactional_id
from twinlog.protocol.brokers import Brokers


def leaders_move(stage: Stage, cluster: Any) -> None:
    """Replicas are put in another order and the first one elected, for the copy and twinlog's own topics."""
    topics = [f"A.{stage.topic}", stage.flow.offsets_topic, stage.flow.offset_map_topic]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for turn in range(6):
        known = admin.list_topics(timeout=10).topics
        parts = [(name, number) for name in topics for number in known[name].partitions]
        reassign(cluster, {part: [(turn + n + part[1]) % 3 + 1 for n in range(3)] for part in parts})
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(*part) for part in parts]).result(10)
        time.sleep(0.3)


def replicas_move(stage: Stage, cluster: Any) -> None:
    """Partitions leave a broker altogether, and come back."""
    parts = [(f"A.{stage.topic}", number) for number in range(PARTITIONS)]
    for turn in range(3):
        reassign(cluster, {part: [(turn + part[1]) % 3 + 1] for part in parts})
        time.sleep(0.5)
    reassign(cluster, {part: [1, 2, 3] for part in parts})


def the_coordinator_dies(stage: Stage, cluster: Any) -> None:
    """SIGKILL for the broker that coordinates lane 0's transactions; later it comes back."""
    kill_then_start(cluster, node_of(stage, lambda brokers: brokers.coordinator(transactional_id("A->B", 0))))


def a_leader_dies(stage: Stage, cluster: Any) -> None:
    """SIGKILL for a broker that leads a partition of the copy."""
    kill_then_start(cluster, leader_of_the_copy(stage))


def leader_of_the_copy(stage: Stage) -> int:
    return node_of(stage, lambda brokers: brokers.node(brokers.leader(f"A.{stage.topic}", 0), "fetch"))


def node_of(stage: Stage, connection: Callable[[Brokers], Any]) -> int:
    with Brokers(stage.flow.target.connection) as brokers:
        address = connection(brokers).address
        return 1 + stage.target.bootstrap_servers.split(",").index(address)


def kill_then_start(cluster: Any, node: int) -> None:
    cluster.kill(node)
    time.sleep(5.0)  # longer than a broker's session
    cluster.start()


def reassign(cluster: Any, replicas: dict[tuple[str, int], list[int]]) -> None:
    """AlterPartitionReassignments, by kafka-python."""
    from kafka import KafkaAdminClient
    from kafka import TopicPartition as Partition

    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.alter_partition_reassignments({Partition(*part): nodes for part, nodes in replicas.items()})
    finally:
        admin.close()
