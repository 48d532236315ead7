"""Follow mode on real brokers: what arrives is copied once, whatever else happens meanwhile."""

import threading
import time
import urllib.request
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from lab import (
    Seen,
    ThreadRunner,
    create_topic,
    cycle,
    flow_of,
    grow_topic,
    produce,
    read,
    staying,
    topic_names,
    wait_until,
)
from twinlog.cluster.api import Clusters, open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import TASKS_DIED
from twinlog.copying.ownership import Ownership
from twinlog.errors import FencedError, TransientError, TwinlogError
from twinlog.follow import background, follow, topics
from twinlog.follow.background import Turn
from twinlog.follow.report import LaneGeneration, LaneTeller, Reporter, RunState, prepare
from twinlog.lab.kafka.ports import free_ports
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.monitoring.exporter import Board, Endpoints
from twinlog.state.ledger import read_ledger
from twinlog.state.progress import read_maps, read_progress
from twinlog.topics import pauses

pytestmark = pytest.mark.integration


def records(first: int, count: int) -> list[Seen]:
    return [Seen(b"k%d" % n, b"v%d" % n, 1_700_000_000_000 + n) for n in range(first, first + count)]


def followed(
    flow,
    seconds: float,
    runner=None,
    stop: threading.Event | None = None,
    run_id: str = "",
    rivals: str = " ",
    run_state: RunState | None = None,
):
    """Follow in this thread, until `stop` is set or a run takes over whose id begins with `rivals`.

    Returns the result and the windows.
    """
    windows = []
    with open_clusters(flow) as clusters:
        result = follow.run(
            flow,
            clusters,
            runner or ThreadRunner(),
            run_id=run_id or uuid.uuid4().hex,
            seconds=seconds,
            on_generation=windows.append,
            stop=stop,
            gives_way_to=lambda rival: rival.startswith(rivals),
            run_state=run_state,
        )
    return result, windows


def test_the_time_to_follow_counts_from_the_first_lanes(cluster_a, cluster_b, tmp_path, monkeypatch) -> None:
    """On a machine where preparing takes longer than that, what is there is copied all the same."""
    topic = create_topic(cluster_a, f"slow-{uuid.uuid4().hex[:6]}", 2)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    produce(cluster_a, topic, records(0, 10))

    def slowly(*asked):
        time.sleep(3)
        return prepare(*asked)

    monkeypatch.setattr(topics, "prepare", slowly)
    result, _ = followed(flow, 2)

    assert 10 == result.records


def test_what_arrives_over_several_windows_is_copied_once(cluster_a, cluster_b, tmp_path) -> None:
    """While partitions are added and a topic is born, in order, with a map that has every record.

    Whoever judges the copy meanwhile finds at most that the new partitions are not there yet.
    """
    stem = f"follow-{uuid.uuid4().hex[:6]}"
    topic = create_topic(cluster_a, f"{stem}-1", 2)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [f"{stem}.*"], twinlog__follow__seconds="3")
    cycle(flow)  # makes the state topics, which what is judged beside looks into

    def write() -> None:
        for turn in range(16):
            produce(cluster_a, topic, records(turn * 10, 10), turn % 2)
            if turn == 4:
                grow_topic(cluster_a, topic, 3)
            if turn == 6:
                create_topic(cluster_a, f"{stem}-2")
            if turn >= 8:
                produce(cluster_a, topic, records(turn, 1), 2)
                produce(cluster_a, f"{stem}-2", records(turn, 1))
            time.sleep(0.5)
        time.sleep(5)
        written.set()

    written = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    judged: list[float] = []
    reporter = Reporter(RunState("reported", 0))
    failed: set[str] = set()

    def judge(flow: FlowSettings, clusters: Clusters) -> None:
        judged.append(time.monotonic())
        reporter.report(flow, clusters)

    def on_trouble(_: str, error: TwinlogError) -> None:
        # A topic that is just being born may not be known to every broker yet.
        unjudged = [] if isinstance(error, TransientError) else [str(error)]
        failed.update(error.data.get("checks", unjudged))

    with background.beside(flow, [Turn("validate", 0.3, judge)], on_trouble):
        result, windows = followed(flow, 300, stop=written)
    writer.join()
    assert len(judged) >= 5
    assert failed <= {"partition-parity"}
    late = cycle(flow).records
    assert ("done", 160 + 16) == (result.state, result.records + late)
    assert len(windows) >= 2  # a window goes on until there is something else to follow
    assert result.records > late
    for name, partition in ((topic, 0), (topic, 1), (topic, 2), (f"{stem}-2", 0)):
        assert read(cluster_a, name, partition) == read(cluster_b, f"A.{name}", partition)
    with open_clusters(flow) as clusters:
        maps = read_maps(flow, clusters.target)
        progress = read_progress(flow, clusters.target)
        reported = read_ledger(flow, clusters.target).last_report
    assert reported is not None
    assert ("reported", "done") == (reported.run_id, reported.summary["state"])
    assert 150 <= reported.summary["records"] <= 160 + 16
    mine = {life: mapped for life, mapped in maps.items() if life.topic.startswith(stem)}
    assert 4 == len(mine)
    for life, mapped in mine.items():
        runs = mapped.runs
        copied = sum(run.length for run in runs)
        assert copied == len(read(cluster_a, life.topic, life.partition))
        assert progress[life.topic, life.partition] + 1 == runs[-1].upstream_end


def test_a_topic_is_born_beside_lanes_that_go_on(cluster_a, cluster_b, tmp_path) -> None:
    """Its lane is of the same fence: the others are not stopped, and a driver that takes the flow fences it, too."""
    stem = f"born-{uuid.uuid4().hex[:6]}"
    topic = create_topic(cluster_a, f"{stem}-1", 2)
    flow = flow_of(
        tmp_path, cluster_a, cluster_b, [f"{stem}.*"], twinlog__follow__seconds="4", twinlog__lanes="3"
    )
    produce(cluster_a, topic, records(0, 10))

    def write() -> None:
        time.sleep(3)
        create_topic(cluster_a, f"{stem}-2")
        produce(cluster_a, f"{stem}-2", records(0, 5))
        wait_until(lambda: topic_names(cluster_b, f"A.{stem}-2") and len(read(cluster_b, f"A.{stem}-2")) == 5)
        produce(cluster_a, topic, records(10, 10))
        produce(cluster_a, f"{stem}-2", records(5, 5))
        time.sleep(3)
        assert 0 == cycle(flow).records  # takes the flow from both lanes
        produce(cluster_a, f"{stem}-2", records(10, 5))

    writer = threading.Thread(target=write)
    writer.start()
    windows: list[LaneGeneration] = []
    with open_clusters(flow) as clusters, pytest.raises(FencedError, match="another twinlog"):
        follow.run(
            flow, clusters, ThreadRunner(slots=3), run_id="first", seconds=60, on_generation=windows.append
        )
    writer.join()
    assert 5 == cycle(flow).records
    assert [(1, 3, 30)] == [(it.number, it.partitions, it.records) for it in windows]
    for name in (topic, f"{stem}-2"):
        assert read(cluster_a, name) == read(cluster_b, f"A.{name}")


class DyingLane(ThreadRunner):
    """The lane of a born topic dies: before it began, or with what it has committed and not reported."""

    def __init__(self, *, late: bool) -> None:
        super().__init__(slots=3)
        self.late, self.deaths = late, 0

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        if lanes[0].lane != 2 or self.deaths:
            return super().run(lanes)
        self.deaths += 1
        if self.late:
            super().run(staying(lanes, 1.0))
        raise TransientError("the Spark job failed", hint="none", code=TASKS_DIED)


@pytest.mark.long
@pytest.mark.parametrize("late", [False, True], ids=["before it began", "with commits that nobody heard of"])
def test_the_lane_of_a_born_topic_dies(cluster_a, cluster_b, tmp_path, late: bool) -> None:
    """A fence and the next lane generation copy the rest, once."""
    stem = f"dies-{uuid.uuid4().hex[:6]}"
    topic = create_topic(cluster_a, f"{stem}-1", 2)
    flow = flow_of(
        tmp_path, cluster_a, cluster_b, [f"{stem}.*"], twinlog__follow__seconds="4", twinlog__lanes="3"
    )
    produce(cluster_a, topic, records(0, 10))
    stop, runner = threading.Event(), DyingLane(late=late)
    windows: list[LaneGeneration] = []

    def write() -> None:
        time.sleep(3)
        create_topic(cluster_a, f"{stem}-2")
        for number in range(200):
            produce(cluster_a, f"{stem}-2", records(number, 1))
            time.sleep(0.05)
        wait_until(lambda: windows and len(read(cluster_b, f"A.{stem}-2")) == 200)
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    with open_clusters(flow) as clusters:
        done = follow.run(
            flow, clusters, runner, run_id="first", seconds=90, on_generation=windows.append, stop=stop
        )
    writer.join()
    assert (210, 0) == (done.records, cycle(flow).records)
    assert (1, TASKS_DIED) == (runner.deaths, windows[0].failure and windows[0].failure.code)
    for name in (topic, f"{stem}-2"):
        assert read(cluster_a, name) == read(cluster_b, f"A.{name}")


def test_what_a_lane_foresees_of_many_partitions_comes_true(cluster_a, cluster_b, tmp_path) -> None:
    """Nothing is aborted: a broker answers for the partitions of a request in an order of its own."""
    topic = create_topic(cluster_a, f"foreseen-{uuid.uuid4().hex[:6]}", 6)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__lanes="1")
    written = threading.Event()

    def write() -> None:
        producer = Producer({
            "bootstrap.servers": cluster_a.bootstrap_servers,
            "linger.ms": 0,
            "enable.idempotence": True,
        })
        time.sleep(5)
        for turn in range(40):
            for partition in range(6):
                producer.produce(topic, f"v{turn}", partition=partition)
            producer.flush(30)
            time.sleep(0.05)
        time.sleep(2)
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    result, _ = followed(flow, 120, stop=written)
    writer.join()
    assert ("done", 240) == (result.state, result.records)
    assert result.transactions > 5
    for partition in range(6):
        expected = read(cluster_a, topic, partition)
        assert expected == read(cluster_b, f"A.{topic}", partition, isolation="read_uncommitted")


def test_metrics_are_served_while_it_follows(cluster_a, cluster_b, tmp_path) -> None:
    """What Prometheus gets over HTTP counts what was copied since the run began, and no record of a cycle before."""
    topic = create_topic(cluster_a, f"metrics-{uuid.uuid4().hex[:6]}", 2)
    port = next(free_ports())
    listen = {"twinlog__metrics__listen": f"127.0.0.1:{port}", "twinlog__follow__seconds": "3"}
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **listen)
    produce(cluster_a, topic, records(0, 5))
    assert 5 == cycle(flow).records
    board, run_state, over = Board(flow), RunState("scraped", 0), threading.Event()

    def samples() -> dict[tuple[str, str], float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            found = text_string_to_metric_families(answer.read().decode())
        return {(it.name, it.labels.get("topic", "")): it.value for each in found for it in each.samples}

    turns = [
        Turn("lanes", 0.5, LaneTeller(run_state, board).tell),
        Turn("report", 0.5, Reporter(run_state, board=board).report),
    ]
    with (
        Endpoints([board], print) as endpoints,
        ThreadPoolExecutor(1) as pool,
        background.beside(flow, turns, lambda *_: None),
    ):
        endpoints.attend()
        following = pool.submit(followed, flow, 120, stop=over, run_state=run_state)
        for partition in (0, 1):
            produce(cluster_a, topic, records(10 * partition, 10), partition)
        counted = ("twinlog_record_count_total", topic)
        wait_until(lambda: samples().get(counted) == 20)
        wait_until(lambda: samples().get(("twinlog_lag_records", topic)) == 0)
        assert samples()["twinlog_byte_count_total", topic] > 0  # no lane has ended
        over.set()
        result, _ = following.result(60)
        size = sum(it.bytes for it in result.partitions)
        wait_until(lambda: samples().get(("twinlog_byte_count_total", topic), 0) >= size > 0)
        latency = ("twinlog_replication_latency_ms", topic)
        wait_until(lambda: latency in samples())
        age = time.time() * 1000 - records(0, 10)[-1].timestamp
        assert age - 60_000 < samples()[latency] < age
    assert 20 == result.records


def test_transforms_while_it_follows(cluster_a, cluster_b, tmp_path) -> None:
    """What they drop is no record of the copy, and leaves nothing behind; a header that they remove is gone."""
    topic = create_topic(cluster_a, f"follow-{uuid.uuid4().hex[:6]}")
    chain = {
        "A->B__transforms": "live, clean",
        "A->B__transforms__live__type": "Filter",
        "A->B__transforms__live__predicate": "gone",
        "A->B__transforms__clean__type": "DropHeaders",
        "A->B__transforms__clean__headers": "trace",
        "A->B__predicates": "gone",
        "A->B__predicates__gone__type": "RecordIsTombstone",
    }
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], **chain)
    written: list[Seen] = []

    def write() -> None:
        for turn in range(10):
            some = [
                replace(it, headers=(("trace", b"1"), ("kept", b"2")))
                if number % 2
                else replace(it, value=None)
                for number, it in enumerate(records(turn * 10, 10))
            ]
            produce(cluster_a, topic, some)
            written.extend(some)
            time.sleep(0.3)

    writer = threading.Thread(target=write)
    writer.start()
    result, _ = followed(flow, 10)
    writer.join()
    expected = [replace(it, headers=(("kept", b"2"),)) for it in written if it.value is not None]
    assert (50, [0]) == (result.records, [it.lag_records for it in result.partitions])
    assert expected == read(cluster_b, f"A.{topic}")


def test_a_batch_cycle_goes_on_where_following_stopped(cluster_a, cluster_b, tmp_path) -> None:
    """The two rhythms share progress, map and fence."""
    topic = create_topic(cluster_a, f"both-{uuid.uuid4().hex[:6]}")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__follow__seconds="1")
    produce(cluster_a, topic, records(0, 5))
    _, windows = followed(flow, 4)
    assert [(5, "")] == [(it.records, str(it.failure or "")) for it in windows]  # looks find nothing new
    produce(cluster_a, topic, records(5, 5))
    result = cycle(flow)
    assert (5, read(cluster_a, topic)) == (result.records, read(cluster_b, f"A.{topic}"))


def test_whoever_follows_gives_way_to_another_driver(cluster_a, cluster_b, tmp_path) -> None:
    """By name, and at once: two that fenced each other for ever would copy nothing.  Every record is there once."""
    topic = create_topic(cluster_a, f"rival-{uuid.uuid4().hex[:6]}", 2)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__follow__seconds="3")
    produce(cluster_a, topic, records(0, 10))
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(followed, flow, 120)
        give_up = time.monotonic() + 60
        while not (f"A.{topic}" in topic_names(cluster_b, topic) and read(cluster_b, f"A.{topic}")):
            assert time.monotonic() < give_up
        produce(cluster_a, topic, records(10, 10), 1)
        assert cycle(flow).state in {"done", "nothing"}
        with pytest.raises(FencedError, match="another twinlog"):
            following.result(60)
    cycle(flow)
    for partition in (0, 1):
        assert read(cluster_a, topic, partition) == read(cluster_b, f"A.{topic}", partition)


def test_one_run_relieves_another_without_a_gap(cluster_a, cluster_b, tmp_path) -> None:
    """Three in a row under a stream: each ends in order, none takes the flow back, every record is there once."""
    topic = create_topic(cluster_a, f"relieved-{uuid.uuid4().hex[:6]}", 2)
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__follow__seconds="2")
    names = ["dag/first/1", "dag/second/1", "dag/third/1"]
    over = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        runs = []
        for turn, name in enumerate(names):
            produce(cluster_a, topic, records(turn * 20, 10), turn % 2)
            runs.append(pool.submit(followed, flow, 120, stop=over, run_id=name, rivals="dag/"))
            wait_until(lambda: all(it.done() for it in runs[:-1]))
            produce(cluster_a, topic, records(turn * 20 + 10, 10), turn % 2)
            wait_until(lambda expected=20 * (turn + 1): copied(cluster_b, topic) == expected)
            time.sleep(3)  # longer than until a look, at which the one before might have fenced again
        over.set()
        results = [run.result(60)[0] for run in runs]
    assert [*names[1:], ""] == [it.taken_over_by for it in results]
    assert (["done"] * 3, 60) == ([it.state for it in results], sum(it.records for it in results))
    assert min(it.records for it in results) >= 10
    for partition in (0, 1):
        assert read(cluster_a, topic, partition) == read(cluster_b, f"A.{topic}", partition)


def test_a_driver_that_was_relieved_does_not_fence_back(cluster_a, cluster_b, tmp_path) -> None:
    """A look that wants new lanes may fall in the moment before its lanes hear of the other."""
    flow = flow_of(tmp_path, cluster_a, cluster_b, ["nothing"])
    cycle(flow)
    with open_clusters(flow) as clusters:
        first, second = (Ownership.of(flow, clusters, f"dag/{n}", 1) for n in (1, 2))
        first.take()
        second.take()
        first.give_way(lambda rival: rival == "somebody else")
        second.give_way(lambda rival: True)
        with pytest.raises(FencedError, match="run dag/2") as taken:
            first.give_way(lambda rival: rival.startswith("dag/"))
    assert "dag/2" == taken.value.data["run_id"]


def copied(cluster, topic: str) -> int:
    """Records that the copy of a topic of two partitions has by now."""
    if f"A.{topic}" not in topic_names(cluster, topic):
        return 0
    return sum(len(read(cluster, f"A.{topic}", partition)) for partition in (0, 1))


class LostReport(ThreadRunner):
    """The first report is lost, as when the process dies after its commit."""

    turn = 0

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        reports = super().run(staying(lanes, 2.0) if lanes[0].follow else lanes)
        self.turn += 1
        if self.turn == 1:
            raise TransientError("killed", code=TASKS_DIED)
        return reports


def test_a_cycle_counts_what_a_lane_committed_that_died(cluster_a, cluster_b, tmp_path) -> None:
    """Its progress tells it, which no lane has reported."""
    topic = create_topic(cluster_a, f"dies-{uuid.uuid4().hex[:6]}")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    produce(cluster_a, topic, records(0, 500))
    done = cycle(flow, LostReport())
    assert ("done", 500, 2, True) == (done.state, done.records, done.rounds, done.bytes > 0)


def test_a_lane_that_dies_in_a_window_loses_and_doubles_nothing(cluster_a, cluster_b, tmp_path) -> None:
    """The next window fences, goes on behind what was committed, and counts it."""
    topic = create_topic(cluster_a, f"dies-{uuid.uuid4().hex[:6]}")
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__follow__seconds="2")
    produce(cluster_a, topic, records(0, 500))
    done, windows = followed(flow, 7, LostReport())
    assert (500, True) == (done.records, len(windows) > 1)
    assert read(cluster_a, topic) == read(cluster_b, f"A.{topic}")


def test_a_throttled_copy_takes_its_time(cluster_a, cluster_b, tmp_path) -> None:
    """4 MB over two partitions at 1 MB/s take 3.6 s at least: the rate holds within a tenth."""
    topic = create_topic(cluster_a, f"slow-{uuid.uuid4().hex[:6]}", 2)
    for partition in (0, 1):
        produce(
            cluster_a, topic, [Seen(None, b"x" * 10_000, n) for n in range(200)], partition, batch_size=20_000
        )
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__bytes__per__second="1000000")
    result = cycle(flow)
    assert ("done", 400) == (result.state, result.records)
    assert result.bytes / result.seconds < 1_100_000


def test_a_paused_flow_waits_and_goes_on(cluster_a, cluster_b, tmp_path) -> None:
    """Paused between windows: nothing is copied until it is resumed, and the driver stays."""
    topic = create_topic(cluster_a, f"paused-{uuid.uuid4().hex[:6]}")
    file = flow_of(tmp_path, cluster_a, cluster_b, [topic], twinlog__follow__seconds="1")
    flow = replace(file, source=replace(file.source, alias=f"P{uuid.uuid4().hex[:4]}"))
    cycle(flow)
    with open_clusters(flow) as clusters:
        pauses.pause(flow, clusters.target, by="jo", reason="load")
        produce(cluster_a, topic, records(0, 10))
        over = threading.Event()

        def resume() -> None:
            time.sleep(4)
            pauses.resume(flow, clusters.target, by="jo", reason="")
            time.sleep(14)
            over.set()

        waiting = threading.Thread(target=resume)
        waiting.start()
        result, windows = followed(flow, 120, stop=over)
        waiting.join()
    assert (0, 10) == (windows[0].records, result.records)
