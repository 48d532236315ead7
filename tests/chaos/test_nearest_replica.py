"""A source that is read from the replica of the client's rack (KIP-392), and what happens when that replica goes.

About a minute.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from lab import Seen, cycle, flow_of, produce, read
from twinlog.config.flow.settings import FlowSettings
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.wire import Fetched

pytestmark = [pytest.mark.chaos, pytest.mark.integration]

ALIAS = "three"
TOPICS = "rack-"


@pytest.fixture
def source(three_brokers: Any) -> Iterator[Any]:
    """All three run before and after."""
    three_brokers.start()
    yield three_brokers
    three_brokers.start()


@pytest.fixture
def read_from(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Bytes of records that each node has answered with, state that other tests have left on the brokers aside."""
    found: Counter[int] = Counter()
    told = Fetcher._redirected

    def telling(self: Fetcher, node: int, fetched: Fetched) -> bool:
        if fetched.topic.startswith(TOPICS):
            found[node] += len(fetched.block)
        return told(self, node, fetched)

    monkeypatch.setattr(Fetcher, "_redirected", telling)
    return found


def leaders_of(admin: AdminClient, topic: str) -> list[int]:
    partitions = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return [partitions[number].leader for number in sorted(partitions)]


def topic_of(source: Any, replicas: list[list[int]]) -> str:
    """A topic whose partitions lie on these nodes, the first one leading, with 5,000 records each."""
    name = f"{TOPICS}{uuid.uuid4().hex[:6]}"
    new = NewTopic(name, len(replicas), replica_assignment=replicas, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    admin.create_topics([new])[name].result(30)
    wanted = [it[0] for it in replicas]
    deadline = time.monotonic() + 60
    while leaders_of(admin, name) != wanted:  # a broker that has just come back leads nothing yet
        assert time.monotonic() < deadline
        time.sleep(0.2)
    for partition in range(len(replicas)):
        records = [Seen(None, b"%d" % n + b"x" * 200, 1_700_000_000_000 + n) for n in range(5000)]
        produce(source, name, records, partition, batch_num_messages=50)
    return name


def flow_in(folder: Path, source: Any, target: Any, topic: str, rack: str) -> FlowSettings:
    return flow_of(
        folder, source, target, [topic], alias=ALIAS, twinlog__lanes="1", three__consumer__client__rack=rack
    )


def same(source: Any, target: Any, topic: str, partition: int) -> bool:
    return read(source, topic, partition) == read(target, f"{ALIAS}.{topic}", partition)


def test_records_come_from_the_replica_of_the_rack(
    source: Any, cluster_b: Any, tmp_path: Path, read_from: Counter[int]
) -> None:
    """A partition without a replica there comes from its leader."""
    topic = topic_of(source, [[1, 2], [3, 2], [1, 3]])
    result = cycle(flow_in(tmp_path, source, cluster_b, topic, "rack-2"))

    assert ("done", 15_000) == (result.state, result.records)
    assert [True] * 3 == [same(source, cluster_b, topic, it) for it in range(3)]
    assert 0 == read_from[3]
    assert 1.9 < read_from[2] / read_from[1] < 2.1


def test_without_a_rack_or_with_an_unknown_one_leaders_are_read(
    source: Any, cluster_b: Any, tmp_path: Path, read_from: Counter[int]
) -> None:
    topic = topic_of(source, [[1, 2]])
    result = cycle(flow_in(tmp_path, source, cluster_b, topic, "rack-9"))

    assert ("done", 5000) == (result.state, result.records)
    assert [1] == [node for node, size in read_from.items() if size]


@pytest.mark.long
def test_a_replica_that_dies_is_left_for_the_leader(
    source: Any, cluster_b: Any, tmp_path: Path, read_from: Counter[int]
) -> None:
    """The same lane goes on at once, and copies each record once."""
    topic = topic_of(source, [[1, 2]])
    flow = flow_in(tmp_path, source, cluster_b, topic, "rack-2")
    flow = replace(flow, copy=replace(flow.copy, bytes_per_second=150_000, transaction_bytes=75_000))
    done: list[Any] = []
    copying = threading.Thread(target=lambda: done.append(cycle(flow)))
    copying.start()
    deadline = time.monotonic() + 60
    while not read_from[2]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    source.kill(2)
    copying.join(120)
    (result,) = done

    assert ("done", 5000) == (result.state, result.records)
    assert read_from[1] > 0
    source.start()
    assert same(source, cluster_b, topic, 0)
