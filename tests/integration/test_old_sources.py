"""Sources that people migrate from: Kafka 2.0 and 2.4, with a ZooKeeper and without topic ids.

Costs about half a minute a version, brokers of their own included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed
from test_audit import audited, delete_topic

from lab import (
    Seen,
    commit_group,
    committed,
    create_topic,
    cycle,
    flow_of,
    produce,
    produce_transaction,
    read,
)
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.groups import checkpoints
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lifecycle import rebuild, sync_topics
from twinlog.topics.discovery import ProblemCode
from twinlog.topics.snapshot import FlowSnapshot

pytestmark = pytest.mark.long

NOW = int(time.time() * 1000)
NO_FORMAT = r"message\\.format\\.version"  # backslashes are doubled in a properties file
CODECS = ("none", "gzip", "snappy", "lz4")


@pytest.fixture(scope="module", params=["2.0.1", "2.4.1"])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    """A broker of long ago, and its ZooKeeper."""
    with EmbeddedKafka("old", tmp_path_factory.mktemp("old") / "kafka", request.param, jvm=()) as cluster:
        yield cluster


def records(prefix: str, count: int = 40, at: int = NOW) -> list[Seen]:
    return [Seen(b"k%d" % (n % 9), f"{prefix}-{n}".encode(), at + n) for n in range(count)]


@retry(retry=retry_if_exception_type(KafkaException), wait=wait_fixed(0.2), stop=stop_after_delay(30))
def create_again(cluster: EmbeddedKafka, topic: str) -> None:
    """ZooKeeper has a deleted topic for a moment after brokers show it no more."""
    create_topic(cluster, topic)


def from_old(folder: Path, old: EmbeddedKafka, target: Any, topics: list[str], **more: str) -> FlowSettings:
    alias = "V" + old.version.replace(".", "")
    return flow_of(folder, old, target, topics, alias=alias, config__properties__exclude=NO_FORMAT, **more)


def test_it_is_copied_audited_and_its_groups_translated(
    old: EmbeddedKafka, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """All codecs, a committed transaction and an aborted one; topics in the message formats v0 and v1."""
    new = create_topic(old, unique_topic("batches"))
    for codec in CODECS:
        produce(old, new, records(codec), compression_type=codec)
    produce_transaction(old, new, records("kept", 5))
    produce_transaction(old, new, records("aborted", 5), commit=False)
    produce(old, new, records("last", 3))
    ancient = {
        create_topic(old, unique_topic(f"v{magic}"), message_format_version=version): magic
        for magic, version in enumerate(("0.9.0", "0.10.0"))
    }
    for topic in ancient:
        for codec in CODECS:
            produce(old, topic, records(codec), compression_type=codec, enable_idempotence=False)
    flow = from_old(tmp_path, old, cluster_b, [new, *ancient], sync__group__offsets__enabled="true")
    commit_group(old, new, new, 33)

    assert cycle(flow).records == 4 * 40 + 5 + 3 + 2 * 4 * 40
    for topic in (new, *ancient):
        assert read(cluster_b, f"{flow.source.alias}.{topic}") == read(old, topic)
    assert [True, []] == [(result := audited(flow)).equal, list(result.differences)]
    with open_clusters(flow) as clusters:
        checkpoints.run(flow, clusters)
    assert 33 == committed(cluster_b, new, f"{flow.source.alias}.{new}")


def test_a_recreated_topic_is_told_by_its_records(
    old: EmbeddedKafka, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Without an id, and longer than what was copied: it stops before a record is skipped, and a rebuild copies it."""
    topic = create_topic(old, unique_topic("again"))
    produce(old, topic, records("first"))
    flow = from_old(tmp_path, old, cluster_b, [topic])
    assert 40 == cycle(flow).records
    produce(old, topic, records("second"))
    assert 40 == cycle(flow).records

    delete_topic(old, topic)
    create_again(old, topic)
    produce(old, topic, records("other", 200))
    with open_clusters(flow) as clusters:
        (problem,) = FlowSnapshot(flow, clusters).discovery.problems
        assert (ProblemCode.OTHER_LOG, True) == (problem.code, problem.blocking)
        assert 0 == cycle(flow).records
        rebuild.run(flow, clusters, topic, by="test", reason="recreated", request="r1")
    assert 200 == cycle(flow).records
    assert read(cluster_b, f"{flow.source.alias}.{topic}") == read(old, topic)


def test_it_is_refused_as_a_target(
    old: EmbeddedKafka, cluster_a: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Nothing is made there; the line names the broker, the request and the oldest target."""
    topic = create_topic(cluster_a, unique_topic("there"))
    flow = flow_of(tmp_path, cluster_a, old, [topic])
    with (
        open_clusters(flow) as clusters,
        pytest.raises(ClusterRefused, match=r"cluster B at .* offers") as caught,
    ):
        sync_topics.run(flow, clusters)
    assert ("broker-version", True) == (caught.value.code, "Kafka 2.8" in caught.value.hint)
    with open_clusters(from_old(tmp_path, old, cluster_a, [topic])) as clusters:
        assert () == tuple(name for name in clusters.source.topic_names() if topic in name)
