"""A source of three brokers that lose each other: a lost fetch is asked again, a lost history is found and noted.

Minutes.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lab import Seen, ThreadRunner, cycle, flow_of, produce, read
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.copying import GapPolicy, LifecycleSettings
from twinlog.config.flow.settings import FlowSettings
from twinlog.follow import follow
from twinlog.follow.report import LaneGeneration
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.monitoring import status
from twinlog.state.ledger import read_ledger

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.integration,
    pytest.mark.long,
]

ALIAS = "three"


@dataclass
class Watched(ThreadRunner):
    """Runs lanes and keeps what they reported; `began` is set when the first one runs."""

    reports: list[LaneReport] = field(default_factory=list)
    began: threading.Event = field(default_factory=threading.Event)
    slots: int = 1

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        self._before = lambda _: self.began.set()
        done = super().run(lanes)
        self.reports += done
        return done

    @property
    def codes(self) -> dict[int, str]:
        """The error code of each partition in the last report."""
        return {it.partition: it.error_code for it in self.reports[-1].ranges}


@pytest.fixture
def source(three_brokers: Any) -> Iterator[Any]:
    """All three run before and after, and no flow has a ledger on them: a reverse one has to be readable."""
    three_brokers.resume()
    three_brokers.start()
    admin = AdminClient({"bootstrap.servers": three_brokers.bootstrap_servers})
    left = [it for it in admin.list_topics(timeout=10).topics if it.startswith("mm2-ledger.")]
    for done in admin.delete_topics(left).values() if left else ():
        done.result(30)
    yield three_brokers
    three_brokers.resume()
    three_brokers.start()


def create(cluster: Any, replicas: list[list[int]], **configs: str) -> str:
    """A topic whose partitions lie on these nodes, the first one leading."""
    name = f"nodes-{uuid.uuid4().hex[:6]}"
    config = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
    new = NewTopic(name, len(replicas), replica_assignment=replicas, config=config)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([new])[name].result(30)
    return name


def values(stem: str, count: int) -> list[Seen]:
    return [Seen(None, f"{stem}{n}".encode() + b"x" * 100, 1_700_000_000_000 + n) for n in range(count)]


def wait_for(happened: Callable[[], Any], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def leader_of(cluster: Any, topic: str, partition: int = 0) -> int:
    found = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(topic, timeout=10)
    return int(found.topics[topic].partitions[partition].leader)


def in_background(action: Callable[[], Any]) -> Callable[[], Any]:
    """Start it in a thread; what is returned waits for its result."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(action()))
    thread.start()

    def join() -> Any:
        thread.join(300)
        (only,) = result
        return only

    return join


def slowly(flow: FlowSettings, rate: int) -> FlowSettings:
    return replace(flow, copy=replace(flow.copy, bytes_per_second=rate, transaction_bytes=rate))


def test_a_leader_that_dies_costs_its_lane_nothing_but_time(
    source: Any, cluster_b: Any, tmp_path: Path
) -> None:
    """Its partitions go on with the leaders elected in its place, in the same lane; those of others never stop."""
    topic = create(source, [[1, 2], [2, 3], [3, 1]])
    for partition in range(3):
        produce(source, topic, values("r", 20_000), partition, batch_num_messages=50)
    flow = slowly(flow_of(tmp_path, source, cluster_b, [topic], alias=ALIAS, twinlog__lanes="1"), 400_000)
    runner = Watched()
    copied = in_background(lambda: cycle(flow, runner))
    assert runner.began.wait(60)
    time.sleep(3)
    source.kill(1)
    result = copied()
    assert ("done", 1, 60_000) == (result.state, len(runner.reports), result.records), runner.codes
    source.start()
    for partition in range(3):
        assert read(source, topic, partition) == read(cluster_b, f"{ALIAS}.{topic}", partition)


def test_a_partition_without_any_leader_is_left_and_its_neighbours_are_copied(
    source: Any, cluster_b: Any, tmp_path: Path
) -> None:
    """Its only replica is dead: the lane asks for twenty seconds, and the next cycle goes on."""
    topic = create(source, [[1], [2], [3]])
    for partition in range(3):
        produce(source, topic, values("r", 20_000), partition, batch_num_messages=50)
    flow = slowly(flow_of(tmp_path, source, cluster_b, [topic], alias=ALIAS, twinlog__lanes="1"), 400_000)
    runner = Watched()
    copied = in_background(lambda: cycle(flow, runner))
    assert runner.began.wait(60)
    time.sleep(3)
    source.kill(1)
    result = copied()
    assert {0: "source-lost", 1: "", 2: ""} == runner.codes
    assert ("failed", True) == (result.state, result.transient)
    with open_clusters(flow) as clusters:
        (shown,) = status.run(flow, clusters).topics
    assert (None, [1, 2]) == (shown.lag_records, [it.partition for it in shown.partitions])
    source.start()
    assert "done" == cycle(flow).state
    for partition in range(3):
        assert read(source, topic, partition) == read(cluster_b, f"{ALIAS}.{topic}", partition)


def lose_history(source: Any, topic: str) -> None:
    """Records that only node 1 has are lost: node 2, which slept while they were written, is elected."""
    source.kill(1)
    source.resume(2)
    position = TopicPartition(topic, 0)

    def elected() -> bool:
        admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
        try:
            admin.elect_leaders(ElectionType.UNCLEAN, [position]).result(10)
            return leader_of(source, topic) == 2
        except (KafkaException, TimeoutError):
            return False

    wait_for(elected, 120)


def only_node_1_has(source: Any, topic: str, records: list[Seen]) -> None:
    """Write while node 2 sleeps and is out of sync."""
    source.pause(2)

    def alone() -> bool:
        admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
        try:
            return [1] == list(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].isrs)
        except KafkaException:
            return False

    wait_for(alone)
    produce(source, topic, records)


def gaps_of(flow: FlowSettings, topic: str) -> list[Gap]:
    with open_clusters(flow) as clusters:
        return [it for it in read_ledger(flow, clusters.target).gaps if it.topic == topic]


def followed_until(
    flow: FlowSettings, runner: Watched, stop: threading.Event, windows: list[LaneGeneration]
) -> Callable[[], Any]:
    """Follow in the background until `stop` is set; what is returned waits for the result."""

    def following() -> Any:
        with open_clusters(flow) as clusters:
            run_id = uuid.uuid4().hex
            return follow.run(
                flow, clusters, runner, run_id=run_id, seconds=300, stop=stop, on_generation=windows.append
            )

    return in_background(following)


def test_a_leader_that_freezes_is_left_by_a_lane_that_follows(
    source: Any, cluster_b: Any, tmp_path: Path
) -> None:
    """Its connections stay open and say nothing: after request.timeout.ms its partitions are read elsewhere."""
    topic = create(source, [[1, 2], [2, 3]])
    flow = flow_of(
        tmp_path,
        source,
        cluster_b,
        [topic],
        alias=ALIAS,
        twinlog__lanes="1",
        three__consumer__request__timeout__ms="6000",
    )
    for partition in range(2):
        produce(source, topic, values("before", 5), partition)
    stop, runner, windows = threading.Event(), Watched(), list[LaneGeneration]()
    followed = followed_until(flow, runner, stop, windows)
    try:
        wait_for(lambda: _copied(cluster_b, f"{ALIAS}.{topic}") == 5)
        source.pause(1)
        wait_for(lambda: _led_by(source, topic) == 2)
        for partition in range(2):
            produce(source, topic, values("after", 5), partition, **_IMPATIENT)
        wait_for(lambda: _copied(cluster_b, f"{ALIAS}.{topic}") == 10, 45)
        assert 10 == len(read(cluster_b, f"{ALIAS}.{topic}", 1))
        assert [] == windows
    finally:
        source.resume()
        stop.set()
        result = followed()
    assert ("done", 20) == (result.state, result.records)


_FROZEN_SECONDS = 150.0
"""A start may ask a frozen broker a few times, for 8 s each (docs/chaos.md); the rest is for a busy machine."""

_IMPATIENT: Any = {"enable_idempotence": False, "socket_timeout_ms": 3000}
"""For a producer that may ask the frozen broker first."""


def _led_by(source: Any, topic: str) -> int:
    try:
        return leader_of(source, topic)
    except KafkaException:
        return -1


@pytest.mark.parametrize("grown", [False, True])
def test_an_unclean_election_between_two_cycles(
    source: Any, cluster_b: Any, tmp_path: Path, grown: bool
) -> None:
    """Found whether the log is shorter than what was copied or has grown again; by default that partition stops."""
    topic = create(source, [[1, 2], [3, 1]], unclean_leader_election_enable="true")
    flow = flow_of(tmp_path, source, cluster_b, [topic], alias=ALIAS, twinlog__lanes="1")
    produce(source, topic, values("both", 6))
    only_node_1_has(source, topic, values("lost", 4))
    assert 10 == cycle(flow).records
    lose_history(source, topic)
    produce(source, topic, values("new", 9 if grown else 2))
    produce(source, topic, values("other", 3), 1)
    result = cycle(flow)
    assert "failed" == result.state
    assert {1: ""} == {it.partition: it.error_code for it in result.partitions if it.copied_records}
    (gap,) = gaps_of(flow, topic)
    assert (6, 9, 4, GapCause.TRUNCATION, False) == (
        gap.first_offset,
        gap.last_offset,
        gap.records_estimate,
        gap.cause,
        gap.copied_past,
    )
    goes_on = replace(flow, lifecycle=LifecycleSettings(on_gap=GapPolicy.RECORD_AND_CONTINUE))
    assert "failed" != cycle(goes_on).state
    new = values("new", 9 if grown else 2)
    expected = [*values("both", 6), *values("lost", 4), *new]
    assert expected == read(cluster_b, f"{ALIAS}.{topic}")


@pytest.mark.parametrize("grown", [False, True])
def test_an_unclean_election_while_it_is_followed(
    source: Any, cluster_b: Any, tmp_path: Path, grown: bool
) -> None:
    """The lane finds it before a record of the other history is copied; its neighbour goes on; the ledger has it."""
    topic = create(source, [[1, 2], [3, 1]], unclean_leader_election_enable="true")
    flow = flow_of(
        tmp_path, source, cluster_b, [topic], alias=ALIAS, twinlog__lanes="1", twinlog__follow__seconds="15"
    )
    produce(source, topic, values("both", 6))
    only_node_1_has(source, topic, values("lost", 4))
    stop, runner = threading.Event(), Watched()
    windows: list[LaneGeneration] = []

    followed = followed_until(flow, runner, stop, windows)
    try:
        wait_for(lambda: _copied(cluster_b, f"{ALIAS}.{topic}") == 10, _FROZEN_SECONDS)
        lose_history(source, topic)
        produce(source, topic, values("new", 9 if grown else 2))
        produce(source, topic, values("other", 3), 1)
        wait_for(lambda: gaps_of(flow, topic), 180)
        wait_for(lambda: len(read(cluster_b, f"{ALIAS}.{topic}", 1)) == 3, _FROZEN_SECONDS)
    finally:
        source.resume()
        source.start()
        stop.set()
        followed()
    print([window.line for window in windows], [report.ranges for report in runner.reports])
    (gap,) = gaps_of(flow, topic)
    assert (6, 9, GapCause.TRUNCATION) == (gap.first_offset, gap.last_offset, gap.cause)
    assert [*values("both", 6), *values("lost", 4)] == read(cluster_b, f"{ALIAS}.{topic}")
    with open_clusters(flow) as clusters:
        shown = [it for it in status.run(flow, clusters).gaps if it.topic == topic]
    assert [("truncation", 6, 9)] == [(it.cause.value, it.first_offset, it.last_offset) for it in shown]


def _copied(cluster: Any, topic: str) -> int:
    try:
        return len(read(cluster, topic))
    except (AssertionError, KeyError):
        return 0


def test_a_source_that_was_frozen_whole_is_found_again(source: Any, cluster_b: Any, tmp_path: Path) -> None:
    """Behind the lanes' patience and the driver's: nobody has to restart who follows."""
    topic = create(source, [[1, 2], [3, 1]])
    flow = flow_of(tmp_path, source, cluster_b, [topic], alias=ALIAS, twinlog__follow__seconds="5")
    produce(source, topic, values("before", 4))
    stop = threading.Event()
    windows: list[LaneGeneration] = []
    followed = followed_until(flow, Watched(), stop, windows)
    try:
        wait_for(lambda: _copied(cluster_b, f"{ALIAS}.{topic}") == 4)
        source.pause()
        wait_for(lambda: any(window.failure is not None for window in windows), 240)
        source.resume()
        produce(source, topic, values("after", 4))
        wait_for(lambda: _copied(cluster_b, f"{ALIAS}.{topic}") == 8, 120)
    finally:
        source.resume()
        stop.set()
        followed()
    assert values("before", 4) + values("after", 4) == read(cluster_b, f"{ALIAS}.{topic}")
