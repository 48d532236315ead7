"""Three brokers, one of which dies or freezes: groups are listed and read in full right after."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from lab import commit_group, create_topic
from twinlog.cluster.api import Cluster
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.lab.kafka.broker import EmbeddedKafka

pytestmark = pytest.mark.long

GROUPS = [f"readers-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka("lost", tmp_path_factory.mktemp("lost") / "kafka", nodes=3) as cluster:
        topic = create_topic(cluster, "read", 1)
        for number, group in enumerate(GROUPS):
            commit_group(cluster, group, topic, number)
        yield cluster


@pytest.fixture
def opened(three: EmbeddedKafka) -> Iterator[Cluster]:
    """It has asked once, so that its connections are open when the broker is lost."""
    hosts = [it.rpartition(":") for it in three.bootstrap_servers.split(",")]
    connection = ConnectionSettings("A", tuple((host, int(port)) for host, _, port in hosts))
    cluster = Cluster(ClusterSettings("A", three.bootstrap_servers, connection))
    assert set(GROUPS) <= {it.group for it in cluster.groups()}
    assert set(GROUPS) == set(cluster.committed_offsets(GROUPS).require())
    yield cluster
    cluster.close()
    three.resume()
    three.start()


def coordinator_of_some(three: EmbeddedKafka) -> int:
    admin = AdminClient({"bootstrap.servers": three.bootstrap_servers})
    (future,) = admin.describe_consumer_groups(GROUPS[:1]).values()
    return int(future.result(30).coordinator.id)


@pytest.mark.parametrize("lose", ["kill", "pause"])
def test_groups_are_listed_and_read_right_after_a_broker_was_lost(
    lose: str, three: EmbeddedKafka, opened: Cluster
) -> None:
    """It stays named for some seconds: none of its groups is left out meanwhile."""
    getattr(three, lose)(coordinator_of_some(three))
    began = time.monotonic()
    listed = {it.group for it in opened.groups()}
    after = time.monotonic() - began
    assert set(GROUPS) == listed & set(GROUPS)
    print(f"{lose}: groups were listed after {after:.1f} s")


@pytest.mark.parametrize("lose", ["kill", "pause"])
def test_offsets_are_read_right_after_a_coordinator_was_lost(
    lose: str, three: EmbeddedKafka, opened: Cluster
) -> None:
    """Within a minute, as all methods promise."""
    getattr(three, lose)(coordinator_of_some(three))
    began = time.monotonic()
    read = opened.committed_offsets(GROUPS)
    took = time.monotonic() - began
    positions = [next(iter(read.found[group].values())).offset for group in GROUPS]
    assert list(range(len(GROUPS))) == positions, read.refused
    assert took < 60
    print(f"{lose}: offsets were read after {took:.1f} s")
