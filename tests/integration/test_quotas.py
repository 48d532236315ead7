"""Quotas of brokers slow a copy down, and do nothing else: every record arrives once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab import NOW, Seen, create_topic, cycle, flow_of, produce, read
from twinlog.cluster.admin.access_values import QuotaEntity
from twinlog.cluster.api import Cluster
from twinlog.config.security.connection import ClusterSettings

pytestmark = pytest.mark.integration

BYTES_PER_SECOND = 100_000


@contextmanager
def quota(settings: ClusterSettings, key: str, rate: float) -> Iterator[None]:
    """Let the flow's clients alone have a quota."""
    cluster = Cluster(settings)
    entity = QuotaEntity.of({"client-id": settings.connection.client_id})
    cluster.alter_quotas({entity: {key: rate}}).require()
    try:
        yield
    finally:
        cluster.alter_quotas({entity: {key: None}}).require()


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_quota_of_a_tenth_of_a_megabyte_costs_only_time(
    side: str, cluster_a: Any, cluster_b: Any, unique_topic: Any, tmp_path: Path
) -> None:
    """In two partitions, with less time for a transaction than the records need together."""
    topic, chance = create_topic(cluster_a, unique_topic("slow"), 2), Random(1)
    for partition in range(2):
        records = [Seen(b"%d" % n, chance.randbytes(1000), NOW + n) for n in range(1000)]
        produce(cluster_a, topic, records, partition, batch_size=200_000)
    flow = flow_of(
        tmp_path,
        cluster_a,
        cluster_b,
        [topic],
        twinlog__transaction__timeout__ms="15000",
    )
    key = "consumer_byte_rate" if side == "source" else "producer_byte_rate"
    with quota(getattr(flow, side), key, BYTES_PER_SECOND):
        result = cycle(flow)
    assert ("done", 2000, 1, True) == (
        result.state,
        result.records,
        result.rounds,
        result.throttled_ms > 1000,
    )
    for partition in range(2):
        assert read(cluster_a, topic, partition) == read(cluster_b, f"A.{topic}", partition)


def test_a_batch_that_no_transaction_has_time_for_is_named(
    cluster_a: Any, cluster_b: Any, unique_topic: Any, tmp_path: Path
) -> None:
    """With the quota and the key; nothing is written, and the next cycle copies it."""
    topic = create_topic(cluster_a, unique_topic("stuck"))
    records = [Seen(None, Random(2).randbytes(900_000), NOW)]
    produce(cluster_a, topic, records)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__transaction__timeout__ms="11000")
    with quota(flow.target, "producer_byte_rate", 10_000):
        try:
            said = cycle(flow).error
        except Exception as error:  # noqa: BLE001 - whichever way it is told
            said = str(error)
    assert all(it in said for it in ("producer_byte_rate", "twinlog.transaction.timeout.ms"))
    assert [] == read(cluster_b, f"A.{topic}")
    assert 1 == cycle(flow).records
    assert records == read(cluster_b, f"A.{topic}")
