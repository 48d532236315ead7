"""The real MM2.  Cost: about 20 s beside the session's two clusters."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from twinlog.errors import TerminalError
from twinlog.lab.kafka.mirror_maker import MirrorMaker

pytestmark = [pytest.mark.integration, pytest.mark.mm2]

PROPERTIES = """
clusters = src, dst
src.bootstrap.servers = {src}
dst.bootstrap.servers = {dst}
src->dst.enabled = true
src->dst.topics = {topic}
dst->src.enabled = false
emit.heartbeats.enabled = false
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""


def test_mm2_copies_a_topic_and_says_so_in_its_log(cluster_a, cluster_b, unique_topic, tmp_path):
    """Records of the source arrive in the remote topic, and the log names MM2's version."""
    topic = unique_topic("mm2")
    admin = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    producer = Producer({"bootstrap.servers": cluster_a.bootstrap_servers})
    producer.produce(topic, b"one")
    producer.flush(10)
    text = PROPERTIES.format(src=cluster_a.bootstrap_servers, dst=cluster_b.bootstrap_servers, topic=topic)
    consumer = Consumer({
        "bootstrap.servers": cluster_b.bootstrap_servers,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": "500",
    })
    with MirrorMaker(text, tmp_path / "mm2") as mirror_maker:
        consumer.subscribe([f"src.{topic}"])
        values: list[bytes] = []
        deadline = time.monotonic() + 240
        while not values and time.monotonic() < deadline:
            mirror_maker.require_running()
            values = [message.value() for message in consumer.consume(1, 0.5) if not message.error()]
        assert [b"one"] == values
        assert "4.3.1" in mirror_maker.log_text()
    consumer.close()
    with pytest.raises(TerminalError):
        mirror_maker.require_running()
