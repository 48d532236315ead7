"""The Dag `translate_group` on a real scheduler: asked through the REST API, as its form asks."""

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer

from twinlog.cluster.admin.groups import OffsetChange
from twinlog.cluster.api import open_clusters
from twinlog.cluster.values import NewTopic
from twinlog.config.flow.load import load
from twinlog.copying import copy
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.copy_lane import copy_lane
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.lifecycle import sync_topics

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

DAG = "translate_group"


class OneLane:
    """Copies in this process: the test is not about Spark."""

    slots = 1

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        return tuple(copy_lane(lane) for lane in lanes)


@pytest.fixture(scope="module")
def group(scheduler, cluster_b) -> Iterator[str]:
    """A group of the west that has read 7 of 20 records of a topic that is copied to the east; the Dag may run."""
    flow = load(Path(scheduler.instance.environment["TWINLOG_CONFIG"])).flows["west->east"]
    name = f"submitted-{uuid.uuid4().hex[:6]}"
    with open_clusters(flow) as clusters:
        clusters.source.create_topics([NewTopic(name, 1, 1)]).require()
        producer = Producer({"bootstrap.servers": cluster_b.bootstrap_servers})
        for number in range(20):
            producer.produce(name, b"%d" % number, partition=0)
        assert 0 == producer.flush(30)
        sync_topics.run(flow, clusters)
        assert 20 == copy.run(flow, clusters, OneLane(), run_id=uuid.uuid4().hex, topics=[name]).records
        position = {TopicPartition(name, 0): OffsetChange(7, None)}
        clusters.source.alter_offsets({f"readers, of {name}": position}).require()
    yield f"readers, of {name}"
    with open_clusters(flow) as clusters:  # other tests count the topics of this flow
        clusters.source.delete_topics([name]).require()
        clusters.target.delete_topics([f"west.{name}"]).require()


def test_the_answer_is_the_xcom(scheduler, group) -> None:
    """Where the group goes on at the other side, exactly."""
    run_id = scheduler.api.trigger(DAG, flow="west->east", groups=[group], pattern="", at=None)
    assert {"translate": "success"} == scheduler.finish(DAG, run_id)
    found = scheduler.api.result(DAG, run_id, "translate")
    (answer,) = found["answers"]
    topic = group.removeprefix("readers, of ")
    assert (group, topic, f"west.{topic}", 7, 7, True) == tuple(
        answer[name]
        for name in ("group", "source_topic", "topic", "upstream_offset", "downstream_offset", "exact")
    )


def test_an_unknown_group_fails_once_with_the_reason(scheduler, group) -> None:
    """In one line of the log; nothing is tried again."""
    run_id = scheduler.api.trigger(DAG, flow="west->east", groups=["nobody-at-all"])
    assert {"translate": "failed"} == scheduler.finish(DAG, run_id)
    (task,) = scheduler.api.tasks(DAG, run_id)
    assert 1 == task["try_number"]
    log = json.dumps(scheduler.api.get(f"dags/{DAG}/dagRuns/{run_id}/taskInstances/translate/logs/1"))
    assert "west has no group nobody-at-all" in log
    assert "error_detail" not in log  # the frames below it
