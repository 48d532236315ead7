"""Retention that overtakes the reader: segments deleted by the broker itself, between cycles, in one, and in follow.

A source of its own that looks after its logs three times a second.  About two minutes.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from lab import Seen, ThreadRunner, alter_configs, configure, create_topic, cycle, produce, read
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.copying import GapPolicy, LifecycleSettings
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.follow import follow
from twinlog.follow.report import LaneGeneration
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.jsonable import to_json
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.spec import LaneSpec
from twinlog.monitoring import publish
from twinlog.state.ledger import read_ledger

pytestmark = pytest.mark.long

QUICK = {"log.retention.check.interval.ms": "300", "log.initial.task.delay.ms": "300"}
HOUR_MS = 3_600_000
OLD_MS = int(time.time() * 1000) - 10 * HOUR_MS
GOES_ON = LifecycleSettings(on_gap=GapPolicy.RECORD_AND_CONTINUE)
BOTH = pytest.mark.parametrize("policy", list(GapPolicy))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka("R", tmp_path_factory.mktemp("retention") / "kafka", settings=QUICK) as cluster:
        yield cluster


class Stage:
    """A topic of two partitions of old records, kept for the moment, and a flow of its own that copies it."""

    def __init__(self, source: EmbeddedKafka, target: Any, folder: Path, **settings: str) -> None:
        self.source, self.target, self.folder = source, target, folder
        self.alias = f"R{uuid.uuid4().hex[:5]}"
        self.topic = create_topic(source, f"kept-{uuid.uuid4().hex[:6]}", 2, segment_bytes="1048576")
        self.remote = f"{self.alias}.{self.topic}"
        flow = f"{self.alias}->B"
        self.config = configure(
            folder,
            {self.alias: source, "B": target},
            [flow],
            topics=self.topic,
            heartbeats__replication__enabled="false",
            twinlog__metrics__folder=str(folder),
            twinlog__reports__folder=str(folder / "reports"),
            **settings,
        )
        self.flow: FlowSettings = load(self.config).flows[flow]

    def write(self, first: int, count: int, *, old: bool = True, partition: int = 0, size: int = 10) -> None:
        at = OLD_MS if old else int(time.time() * 1000)
        records = [Seen(b"%d" % n, b"%d" % n * size, at + n) for n in range(first, first + count)]
        produce(self.source, self.topic, records, partition, batch_num_messages=20)

    def expire(self) -> int:
        """Let the broker delete what is older than an hour; return where the log begins then."""
        alter_configs(self.source, ResourceType.TOPIC, self.topic, retention_ms=str(HOUR_MS))
        deadline = time.monotonic() + 60
        while (begin := self.log_start()) == 0:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return begin

    def log_start(self) -> int:
        position = TopicPartition(self.topic, 0)
        with open_clusters(self.flow) as clusters:
            return clusters.source.offsets([position]).require()[position].log_start

    def numbers(self, partition: int = 0) -> list[int]:
        return [int(it.key or b"") for it in read(self.target, self.remote, partition)]

    def gaps(self) -> list[Gap]:
        with open_clusters(self.flow) as clusters:
            return [it for it in read_ledger(self.flow, clusters.target).gaps if it.topic == self.topic]

    def shown(self) -> dict[str, Any]:
        """What status, metrics and the gate say of gaps."""
        with open_clusters(self.flow) as clusters:
            publish.run(self.flow, clusters, uuid.uuid4().hex, to_json(cycle(self.flow)), 0)
        metrics = (self.folder / f"twinlog-{self.alias}__B.prom").read_text().splitlines()
        checks = {it["name"]: it["passed"] for it in self._command("gate")["checks"]}
        (flow,) = self._command("status")["flows"]
        return {
            "status": [(it["first_offset"], it["last_offset"], it["cause"]) for it in flow["gaps"]],
            "metrics": [it.split("} ")[1] for it in metrics if it.startswith("twinlog_gap_records{")],
            "gate": checks["no-gaps"],
        }

    def _command(self, name: str) -> Any:
        out = StringIO()
        with redirect_stdout(out):
            main([name, "--config", str(self.config), "--output", "json"])
        return json.loads(out.getvalue())


@pytest.fixture
def stage(source: EmbeddedKafka, cluster_b: Any, tmp_path: Path) -> Callable[..., Stage]:
    return lambda **settings: Stage(source, cluster_b, tmp_path, **settings)


@BOTH
def test_between_two_cycles(stage: Callable[..., Stage], policy: GapPolicy) -> None:
    """Offsets, records, times and cause are noted before anything behind them is copied."""
    it = stage(twinlog__on__gap=policy.value)
    it.write(0, 2)
    cycle(it.flow)
    it.write(2, 3)
    assert 5 == it.expire()
    it.write(5, 1, old=False)
    result = cycle(it.flow)
    (gap,) = it.gaps()
    assert (2, 4, 3, GapCause.RETENTION) == (
        gap.first_offset,
        gap.last_offset,
        gap.records_estimate,
        gap.cause,
    )
    assert gap.first_ms == OLD_MS + 1
    assert gap.last_ms is not None and gap.last_ms > OLD_MS + HOUR_MS
    goes_on = policy is GapPolicy.RECORD_AND_CONTINUE
    assert ("done" if goes_on else "failed", [0, 1, 5] if goes_on else [0, 1]) == (result.state, it.numbers())
    assert goes_on == gap.copied_past
    expected = {"status": [(2, 4, "retention")], "metrics": ["3.0"], "gate": False}
    assert expected == it.shown()


class ExpiresWhileCopying(ThreadRunner):
    """Lets the broker delete everything old as soon as the first records of each of `partitions` are copied."""

    def __init__(self, stage: Stage, partitions: Iterable[int] = (0,)) -> None:
        super().__init__(1, self._meanwhile)
        self._stage, self._partitions = stage, tuple(partitions)
        self._expired: threading.Thread | None = None

    def _meanwhile(self, _: LaneSpec) -> None:
        if self._expired is None:
            self._expired = threading.Thread(target=self._expire)
            self._expired.start()

    def _expire(self) -> None:
        deadline = time.monotonic() + 60
        while not all(_copied(self._stage, it) for it in self._partitions) and time.monotonic() < deadline:
            time.sleep(0.2)
        self._stage.expire()
        self._stage.write(20_000, 5, old=False)


def _copied(stage: Stage, partition: int = 0) -> int:
    with open_clusters(stage.flow) as clusters:
        position = TopicPartition(stage.remote, partition)
        found = clusters.target.offsets([position]).found.get(position)
    return 0 if found is None else found.end


LAGGING = {
    "twinlog__bytes__per__second": "400000",
    "twinlog__transaction__bytes": "200000",
    "twinlog__follow__seconds": "10",
}
"""Three megabytes then take eight seconds."""


def assert_nothing_is_silent(it: Stage) -> Gap:
    """Every record is copied, in order, or inside the one gap, which begins where the copy stopped."""
    (gap,) = it.gaps()
    old = [number for number in it.numbers() if number < 20_000]
    assert old == list(range(gap.first_offset)), "a prefix"
    assert 0 < gap.first_offset < 20_000
    assert (19_999, GapCause.RETENTION, 20_000 - gap.first_offset) == (
        gap.last_offset,
        gap.cause,
        gap.records_estimate,
    )
    assert OLD_MS + gap.first_offset - 1 == gap.first_ms
    return gap


@BOTH
def test_in_a_cycle(stage: Callable[..., Stage], policy: GapPolicy) -> None:
    """The lane's next fetch is behind the log's start: it stops there; the next cycle does what the policy says."""
    it = stage(twinlog__on__gap=policy.value, **LAGGING)
    it.write(0, 20_000, size=30)
    it.write(0, 100, partition=1)
    result = cycle(it.flow, ExpiresWhileCopying(it, (0, 1)))
    assert {0: "gap", 1: ""} == {part.partition: part.error_code for part in result.partitions}
    after = cycle(it.flow)
    gap = assert_nothing_is_silent(it)
    new = [number for number in it.numbers() if number >= 20_000]
    if policy is GapPolicy.FAIL:
        assert ("failed", []) == (after.state, new)
        cycle(replace(it.flow, lifecycle=GOES_ON))
        new = [number for number in it.numbers() if number >= 20_000]
    assert [*range(20_000, 20_005)] == new
    assert {
        "status": [(gap.first_offset, 19_999, "retention")],
        "metrics": [f"{gap.records_estimate}.0"],
        "gate": False,
    } == it.shown()


@BOTH
def test_while_it_is_followed(stage: Callable[..., Stage], policy: GapPolicy) -> None:
    """The partition stops in its window, its neighbour goes on; the next windows do what the policy says."""
    it = stage(twinlog__on__gap=policy.value, **LAGGING)
    it.write(0, 20_000, size=30)
    windows: list[LaneGeneration] = []
    stop = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not it.gaps():
            time.sleep(0.5)
        it.write(0, 10, old=False, partition=1)
        while time.monotonic() < deadline and not (
            len(it.numbers(1)) == 10
            and (policy is GapPolicy.FAIL or it.numbers()[-5:] == [*range(20_000, 20_005)])
        ):
            time.sleep(0.5)
        stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with open_clusters(it.flow) as clusters:
        result = follow.run(
            it.flow,
            clusters,
            ExpiresWhileCopying(it),
            run_id=uuid.uuid4().hex,
            seconds=180,
            on_generation=windows.append,
            stop=stop,
        )
    watcher.join()
    print([window.line for window in windows])
    gap = assert_nothing_is_silent(it)
    new = [number for number in it.numbers() if number >= 20_000]
    goes_on = policy is GapPolicy.RECORD_AND_CONTINUE
    assert ([*range(20_000, 20_005)] if goes_on else [], list(range(10))) == (new, it.numbers(1))
    assert goes_on == gap.copied_past
    assert ("done" if goes_on else "failed") == result.state
