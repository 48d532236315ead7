"""Both ways with unchanged names, under traffic on both sides: each record once on each side, and no loop."""

import random
import threading
import time
import uuid
from collections import Counter

import pytest

from lab import (
    Seen,
    ThreadRunner,
    commit_group,
    configure,
    create_topic,
    cycle,
    produce,
    produce_transaction,
    read,
    read_with_offsets,
    staying,
)
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.errors import TransientError
from twinlog.follow import follow
from twinlog.groups import checkpoints

pytestmark = pytest.mark.integration

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def both_ways(tmp_path, a, b, topic: str, suffix: str):
    """The two flows, under aliases of their own so that other tests' ledgers are not theirs."""
    left, right = f"A{suffix}", f"B{suffix}"
    file = configure(
        tmp_path,
        {left: a, right: b},
        [f"{left}->{right}", f"{right}->{left}"],
        topics=topic,
        heartbeats__replication__enabled="false",
        replication__policy__class=IDENTITY,
        sync__group__offsets__enabled="true",
        twinlog__follow__seconds="2",
    )
    flows = load(file).flows
    return flows[f"{left}->{right}"], flows[f"{right}->{left}"]


def values(cluster, topic: str, partition: int) -> list[bytes]:
    return [seen.value for seen in read(cluster, topic, partition)]


class Dies(ThreadRunner):
    """Lanes whose reports are lost now and then, as when their process is killed behind a commit."""

    def __init__(self, seed: int) -> None:
        super().__init__(1)
        self._random = random.Random(seed)

    def run(self, lanes):
        reports = super().run(staying(lanes, 2.0))
        if self._random.random() < 0.4:
            raise TransientError("killed", code="tasks-died")
        return reports


def test_each_record_is_once_on_each_side_under_traffic_and_kills(cluster_a, cluster_b, tmp_path) -> None:
    """Two followed flows, producers on both sides, some of them transactional, lanes that die."""
    suffix = uuid.uuid4().hex[:5]
    topic = f"two-way-{suffix}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic, 2)
    flows = both_ways(tmp_path, cluster_a, cluster_b, topic, suffix)
    written: dict[str, list[bytes]] = {"a": [], "b": []}

    def write(name: str, cluster) -> None:
        for turn in range(20):
            records = [Seen(b"k", f"{name}-{turn}-{n}".encode(), 1_700_000_000_000) for n in range(20)]
            written[name] += [it.value for it in records]
            (produce_transaction if turn % 5 == 4 else produce)(cluster, topic, records, turn % 2)
            time.sleep(0.4)

    def go(flow, seed: int) -> None:
        with open_clusters(flow) as clusters:
            follow.run(flow, clusters, Dies(seed), run_id=uuid.uuid4().hex, seconds=18)

    threads = [threading.Thread(target=write, args=it) for it in (("a", cluster_a), ("b", cluster_b))]
    threads += [threading.Thread(target=go, args=(flow, seed)) for seed, flow in enumerate(flows)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(2):
        results = [cycle(flow) for flow in flows]

    expected = Counter(written["a"] + written["b"])
    for cluster in (cluster_a, cluster_b):
        assert expected == Counter(values(cluster, topic, 0) + values(cluster, topic, 1))
    for partition in (0, 1):
        for name in ("a", "b"):
            own = [value for value in written[name] if int(value.split(b"-")[1]) % 2 == partition]
            for cluster in (cluster_a, cluster_b):
                assert own == [it for it in values(cluster, topic, partition) if it.startswith(name.encode())]
    assert [0, 0] == [result.records for result in results]


@pytest.mark.long
def test_what_was_there_before_goes_over_once(cluster_a, cluster_b, tmp_path) -> None:
    """Both sides full before either flow began, and one flow long before the other; nothing comes back."""
    suffix = uuid.uuid4().hex[:5]
    topic = f"both-full-{suffix}"
    for name, cluster in (("a", cluster_a), ("b", cluster_b)):
        create_topic(cluster, topic)
        produce(cluster, topic, [Seen(None, f"{name}{n}".encode(), n) for n in range(50)])
    there, back = both_ways(tmp_path, cluster_a, cluster_b, topic, suffix)
    copied = [cycle(flow).records for flow in (there, there, back, there, back)]
    assert [50, 0, 50, 0, 0] == copied
    assert sorted(values(cluster_a, topic, 0)) == sorted(values(cluster_b, topic, 0))
    assert 100 == len(values(cluster_a, topic, 0))


@pytest.mark.long
def test_a_group_goes_over_to_the_earliest_record_it_has_not_read(cluster_a, cluster_b, tmp_path) -> None:
    """Of both sides' records, interleaved differently on each; what it will see again is counted."""
    suffix = uuid.uuid4().hex[:5]
    topic, group = f"two-way-group-{suffix}", f"group-{suffix}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    there, back = both_ways(tmp_path, cluster_a, cluster_b, topic, suffix)
    for turn in range(3):
        for name, cluster in (("a", cluster_a), ("b", cluster_b)):
            produce(cluster, topic, [Seen(None, f"{name}{turn}-{n}".encode(), n) for n in range(10)])
        cycle(there)
        cycle(back)
    log = read_with_offsets(cluster_a, topic)
    committed = log[24][0]
    commit_group(cluster_a, group, topic, committed)
    with open_clusters(there) as clusters:
        result = checkpoints.run(there, clusters)
        position = clusters.target.committed_offsets([group]).found[group][topic, 0].offset
    (row,) = [it for it in result.rows if it.group == group]
    already = {seen.value for offset, seen in log if offset < committed}
    other = read_with_offsets(cluster_b, topic)
    assert position == min(offset for offset, seen in other if seen.value not in already)
    again = sum(seen.value in already for offset, seen in other if offset >= position)
    assert (("synced", again)) == (row.state.value, row.expected_duplicates)
