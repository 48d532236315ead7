"""Audits of a flow that does not stand still: written to, copied, compacted, grown, deleted all the while."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka.admin import ResourceType
from test_audit import FULL, audited, delete_topic

from lab import Seen, alter_configs, create_topic, cycle, flow_of, grow_topic, produce
from twinlog.formats.ledger.audit import Unproved

AUDITS = 6
NOW = int(time.time() * 1000)


@contextmanager
def repeated(work: Callable[[int], None]) -> Iterator[None]:
    """Do `work` again and again beside the block; what it raises is raised at the end."""
    over = threading.Event()

    def loop() -> None:
        for number in itertools.count():
            if over.is_set():
                return
            work(number)

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(loop)
        try:
            yield
        finally:
            over.set()
        done.result(60)


def test_audits_beside_a_copy(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """No false alarm at any moment; what was deleted is a clear answer, and the end is proved in full."""
    both = (cluster_a, cluster_b)
    for cluster in both:
        alter_configs(cluster, ResourceType.BROKER, "1", log_cleaner_backoff_ms="100")
    plain, growing = (
        create_topic(cluster_a, unique_topic("plain")),
        create_topic(cluster_a, unique_topic("grow")),
    )
    doomed, compacted = create_topic(cluster_a, unique_topic("doomed")), unique_topic("compacted")
    for cluster, name in ((cluster_a, compacted), (cluster_b, f"A.{compacted}")):
        create_topic(
            cluster, name, cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="1000"
        )
    topics = [plain, growing, doomed, compacted]
    flow = flow_of(tmp_path, cluster_a, cluster_b, topics, config__properties__exclude="cleanup.policy")
    grown, deleted = threading.Event(), threading.Event()

    def write_and_copy(number: int) -> None:
        batch = [Seen(b"%d" % (n % 30), b"%d/%d" % (number, n), NOW + number * 2000 + n) for n in range(200)]
        produce(cluster_a, plain, batch)
        produce(cluster_a, compacted, batch, compression_type="lz4")
        produce(cluster_a, growing, batch, partition=1 if grown.is_set() and number % 2 else 0)
        if not deleted.is_set():
            produce(cluster_a, doomed, batch)
        cycle(flow)

    write_and_copy(0)
    with repeated(lambda number: write_and_copy(number + 1)):
        for number in range(AUDITS):
            result = audited(flow, FULL if number % 2 else None)
            assert [] == list(result.differences)
            assert {it.topic for it in result.problems} <= ({doomed} if deleted.is_set() else set())
            if number == 1:
                grow_topic(cluster_a, growing, 2)
                grown.set()
            if number == 3:
                deleted.set()
                time.sleep(1)
                delete_topic(cluster_a, doomed)
    produce(cluster_a, growing, [Seen(b"last", b"last", NOW)], partition=1)
    cycle(flow)
    last = audited(flow, FULL)
    rows = {(it.topic, it.partition): it for it in last.partitions if it.topic != doomed}
    assert {(plain, 0), (growing, 0), (growing, 1), (compacted, 0)} == set(rows)
    assert {1.0} == {it.coverage for it in rows.values()}
    assert {Unproved.COMPACTED} >= {span.reason for it in rows.values() for span in it.unproved}
    for cluster in both:
        alter_configs(cluster, ResourceType.BROKER, "1", log_cleaner_backoff_ms=None)
