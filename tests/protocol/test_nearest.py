"""Which node a partition is read from, when leaders name a replica of the client's rack."""

from __future__ import annotations

import pytest

from twinlog.kafka_types import TopicPartition
from twinlog.protocol import fetcher
from twinlog.protocol.fetcher import NearestReplicas

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(fetcher.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def replicas(clock: list[float]) -> NearestReplicas:
    found = NearestReplicas("rack-2")
    found.choose(ONE, 2)
    found.choose(OTHER, 3)
    return found


def test_a_named_replica_is_read_from_for_five_minutes(replicas: NearestReplicas, clock: list[float]) -> None:
    assert (2, False) == (replicas.of(ONE), replicas.outdated(ONE))
    clock[0] += 300
    assert (2, True) == (replicas.of(ONE), replicas.outdated(ONE))
    replicas.forget(ONE)
    assert (None, "rack-2") == (replicas.of(ONE), replicas.asked_rack)


def test_while_a_replica_is_in_doubt_no_other_is_asked_for(
    replicas: NearestReplicas, clock: list[float]
) -> None:
    """Those that serve go on serving."""
    replicas.doubt(ONE)
    assert (None, 3, "") == (replicas.of(ONE), replicas.of(OTHER), replicas.asked_rack)
    clock[0] += 30
    assert "rack-2" == replicas.asked_rack


def test_a_lost_node_is_left_by_its_partitions_only(replicas: NearestReplicas) -> None:
    assert (True, None, 3) == (replicas.lose(2), replicas.of(ONE), replicas.of(OTHER))
    assert False is replicas.lose(2)
