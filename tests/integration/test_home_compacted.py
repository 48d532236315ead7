"""The way home of compacted topics, with the gaps that real log cleaners leave on both sides.  Cost: a minute."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import ResourceType
from test_failover import PARTITIONS, steps_of
from test_home_other_names import Pair

from lab import Seen, alter_configs, produce, read_partitions, wait_until

KEYS = 10
SECOND = 1000


@pytest.fixture(autouse=True)
def quick_cleaners(cluster_a, cluster_b) -> Iterator[None]:
    """Both log cleaners look for work all the time, instead of every 15 s."""
    for cluster in (cluster_a, cluster_b):
        alter_configs(cluster, ResourceType.BROKER, "1", log_cleaner_backoff_ms="100")
    yield
    for cluster in (cluster_a, cluster_b):
        alter_configs(cluster, ResourceType.BROKER, "1", log_cleaner_backoff_ms=None)


def update(cluster, topic: str, values: range) -> None:
    """Write updates of a few keys to each partition; record time moves on, so that segments roll and are cleaned."""
    began = int(time.time() * SECOND)
    for partition in range(PARTITIONS):
        for value in values:
            record = Seen(b"k%d" % (value % KEYS), b"%d" % value, began + value * 50, ())
            produce(cluster, topic, [record], partition)


def state(cluster, topic: str) -> dict[tuple[int, bytes], int]:
    """The newest value of each key, by partition."""
    found = read_partitions(cluster, topic, range(PARTITIONS))
    return {(number, it.key): int(it.value) for number, rows in found.items() for _, it in rows}


def records(cluster, topic: str) -> int:
    """How many records the topic still holds."""
    return sum(map(len, read_partitions(cluster, topic, range(PARTITIONS)).values()))


def expected(values: range) -> dict[tuple[int, bytes], int]:
    return {(number, b"k%d" % (it % KEYS)): it for number in range(PARTITIONS) for it in values}


@pytest.mark.long
def test_a_compacted_topic_comes_home_with_the_newest_value_of_each_key(
    cluster_a, cluster_b, tmp_path: Path
) -> None:
    """Updates on A, over, updates on B, all thinned out by cleaners, home, over, home: no side has an older value."""
    pair = Pair(tmp_path, cluster_a, cluster_b)
    compact = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.01", "segment_ms": "1000"}
    alter_configs(cluster_a, ResourceType.TOPIC, pair.topic, **compact)
    update(cluster_a, pair.topic, range(100))
    wait_until(lambda: records(cluster_a, pair.topic) < 100 * PARTITIONS)
    pair.cycle()
    alter_configs(cluster_b, ResourceType.TOPIC, pair.copy, **compact)
    pair.fail_over()

    written = 200
    update(cluster_b, pair.copy, range(100, written))
    wait_until(lambda: records(cluster_b, pair.copy) < 100 * PARTITIONS)
    report = pair.home()
    assert "following" == report.state.value, steps_of(report)
    assert expected(range(written)) == state(cluster_a, pair.topic)
    update(cluster_a, pair.topic, range(200, 230))
    pair.cycle()
    assert 0 == pair.cycle()
    assert pair.equal()
    both = state(cluster_a, pair.topic), state(cluster_b, pair.copy)
    assert (expected(range(230)),) * 2 == both

    pair.fail_over()
    update(cluster_b, pair.copy, range(230, 260))
    report = pair.home()
    assert "following" == report.state.value, steps_of(report)
    assert expected(range(260)) == state(cluster_a, pair.topic)
    pair.cycle()
    assert pair.equal()
