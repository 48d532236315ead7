"""A flow without transactions, on real brokers: nothing is lost, and in order nothing is there twice."""

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from test_follow import copied, followed

from lab import Seen, create_topic, cycle, flow_of, produce, read, read_with_offsets, wait_until
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import state_topics
from twinlog.errors import FencedError
from twinlog.lane.copy.state_records import progress_record
from twinlog.lane.fence.fence import GrantedLane, init_writer, write_fenced
from twinlog.offsets.offset_map import Translation
from twinlog.protocol.brokers import Brokers
from twinlog.state.progress import read_maps, read_progress

pytestmark = pytest.mark.integration

AT_LEAST_ONCE = {"twinlog__guarantee": "at_least_once"}


def records(first: int, count: int) -> list[Seen]:
    return [Seen(b"k%d" % n, b"v%d" % n, 1_700_000_000_000 + n) for n in range(first, first + count)]


def test_it_copies_without_transactions(cluster_a: Any, cluster_b: Any, tmp_path: Any) -> None:
    """No marker in the copy's log: offsets are dense.  Progress and map follow the acknowledgements."""
    topic = create_topic(cluster_a, f"loose-{uuid.uuid4().hex[:6]}")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **AT_LEAST_ONCE)
    for _ in range(2):
        produce(cluster_a, topic, records(0, 200))
        assert 200 == cycle(flow).records
    assert "nothing" == cycle(flow).state
    assert list(enumerate(records(0, 200) * 2)) == read_with_offsets(cluster_b, f"A.{topic}")


def test_a_map_beyond_progress_is_cut(cluster_a: Any, cluster_b: Any, tmp_path: Any) -> None:
    """As a lane leaves it that dies between the two: the rest is copied again, and every offset is translated."""
    topic = create_topic(cluster_a, f"loose-{uuid.uuid4().hex[:6]}")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **AT_LEAST_ONCE)
    produce(cluster_a, topic, records(0, 10))
    cycle(flow)
    with open_clusters(flow) as clusters:
        state = state_topics(flow, clusters)
    with Brokers(flow.target.connection) as target:
        behind = progress_record(state, topic, 0, 6)
        write_fenced(target, GrantedLane(0, init_writer(target, None, 0)), [behind])
    assert 3 == cycle(flow).records
    assert records(0, 10) + records(7, 3) == read(cluster_b, f"A.{topic}")
    with open_clusters(flow) as clusters:
        [mapped] = [it for life, it in read_maps(flow, clusters.target).items() if life.topic == topic]
    assert [*range(7), 10, 11, 12] == [mapped.translate(upstream).offset for upstream in range(10)]


def test_windows_change_without_a_record_twice(cluster_a, cluster_b, tmp_path) -> None:
    """Lanes that are called back write down how far they are, and the next window begins behind that.

    They are called back for a topic that is born, by the end, and by another driver: no broker would stop them.
    """
    stem = f"loose-{uuid.uuid4().hex[:6]}"
    topic = create_topic(cluster_a, f"{stem}-1", 2)
    settings = {"twinlog__follow__seconds": "2", **AT_LEAST_ONCE}
    flow = flow_of(tmp_path, cluster_a, cluster_b, [f"{stem}.*"], **settings)
    over = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(followed, flow, 120, stop=over)
        for turn in range(60):  # some of it while windows change
            produce(cluster_a, topic, records(turn * 5, 5), turn % 2)
            if turn == 20:
                create_topic(cluster_a, f"{stem}-2")
                produce(cluster_a, f"{stem}-2", records(0, 5))
            time.sleep(0.1)
        wait_until(lambda: copied(cluster_b, topic) == 300)
        wait_until(lambda: len(read(cluster_b, f"A.{stem}-2")) == 5)
        over.set()
        result, windows = following.result(60)
    assert ("done", 305) == (result.state, result.records)
    assert 2 <= len(windows)
    assert "nothing" == cycle(flow).state

    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(followed, flow, 120)
        produce(cluster_a, topic, records(300, 5))
        wait_until(lambda: copied(cluster_b, topic) == 305)
        assert "nothing" == cycle(flow).state  # the lanes had a moment to write down how far they are
        with pytest.raises(FencedError, match="another twinlog"):
            following.result(60)
    for name, partition in ((topic, 0), (topic, 1), (f"{stem}-2", 0)):
        assert read(cluster_a, name, partition) == read(cluster_b, f"A.{name}", partition)
        assert_mapped(flow, cluster_a, cluster_b, name, partition)


@pytest.mark.long
def test_a_flow_taken_in_the_middle_of_traffic_keeps_its_map(cluster_a, cluster_b, tmp_path) -> None:
    """Again and again, by drivers that copy what comes meanwhile: no record is lost, every offset is translated."""
    topic = create_topic(cluster_a, f"loose-{uuid.uuid4().hex[:6]}", 2)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **AT_LEAST_ONCE)
    cycle(flow)
    over = threading.Event()

    def traffic() -> None:
        turn = 0
        while not over.is_set():
            produce(cluster_a, topic, records(turn * 5, 5))
            turn += 1
            time.sleep(0.002)

    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(traffic)
        try:
            for _ in range(4):
                before = copied(cluster_b, topic)
                following = pool.submit(followed, flow, 120)
                wait_until(lambda before=before: copied(cluster_b, topic) > before + 100)
                cycle(flow)
                with pytest.raises(FencedError, match="another twinlog"):
                    following.result(60)
        finally:
            over.set()
        writing.result(60)
    cycle(flow)
    assert set(read(cluster_a, topic)) == set(read(cluster_b, f"A.{topic}"))
    found = translated(flow, cluster_a, cluster_b, topic, 0)
    assert all(it is not None for it in found)  # not exactly, where a lane heard too late on a slow machine


def assert_mapped(flow: FlowSettings, source: Any, target: Any, topic: str, partition: int) -> None:
    """Every upstream offset up to progress is translated exactly, to a copy of its record."""
    assert all(it is not None and it.exact for it in translated(flow, source, target, topic, partition))


def translated(
    flow: FlowSettings, source: Any, target: Any, topic: str, partition: int
) -> list[Translation | None]:
    """Translate every upstream offset up to progress; what is exact is a copy of its record."""
    with open_clusters(flow) as clusters:
        last = read_progress(flow, clusters.target)[topic, partition]
        maps = read_maps(flow, clusters.target)
        [mapped] = [it for life, it in maps.items() if (life.topic, life.partition) == (topic, partition)]
    found = [mapped.translate(upstream) for upstream in range(last + 1)]
    there = dict(read_with_offsets(target, f"A.{topic}", partition))
    for record, it in zip(read(source, topic, partition), found, strict=False):
        assert it is None or not it.exact or record == there[it.offset]
    return found
