"""The course of the demo: fill topics, let records flow, watch cycles, stop the flow, compare both sides."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from twinlog.errors import ClusterUnreachable, TerminalError, TransientError
from twinlog.lab.demo.api import AirflowApi
from twinlog.lab.demo.comparison import TopicComparison, compare_topic
from twinlog.lab.demo.stage import DAG_ID, SOURCE, Machinery, Stage
from twinlog.lab.demo.workload import TOPICS, Stream, create_topics, freeze_compacted
from twinlog.protocol import retry

STREAM_S = 40
LONGEST_S = 540
"""Seconds in which the records that flow have to come over; two idle cores need one minute, a busy machine more."""

PATIENCE_S = 180
"""Seconds in which Airflow has to answer a question."""

POLL_S = 1.0
FINISHED = frozenset({"success", "failed"})

Say = Callable[[str], None]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Cycle:
    """One finished Dag run, as its tasks reported it."""

    run_id: str
    state: str
    records: int
    seconds: float
    copy_seconds: float
    by_topic: dict[str, int]
    lag_by_topic: dict[str, int]
    heartbeat_latency_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """One topic at the end.  `records_per_second` counts the seconds in which a Spark job was copying."""

    topic: str
    remote_topic: str
    shows: str
    source_records: int
    target_records: int
    lag_records: int
    records_per_second: int
    equal: bool
    difference: str


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The demo's outcome.  `heartbeat_latency_ms` is the age of the newest copied heartbeat in the last cycle."""

    topics: tuple[TopicOutcome, ...]
    cycles: int
    failed_cycles: int
    seconds: float
    heartbeat_latency_ms: int | None

    @property
    def records(self) -> int:
        """Return the number of records on the target."""
        return sum(topic.target_records for topic in self.topics)

    @property
    def records_per_second(self) -> int:
        """Return how many records were copied in each second in which a Spark job was copying."""
        return sum(topic.records_per_second for topic in self.topics)

    @property
    def equal(self) -> bool:
        """Say whether every record of every topic is equal on both sides."""
        return bool(self.topics) and all(topic.equal for topic in self.topics)


@dataclass
class Watch:
    """Follows the Dag's runs, and reports each finished one."""

    api: AirflowApi
    say: Say
    deadline: float
    cycles: dict[str, Cycle] = field(default_factory=dict)

    def until(self, enough: Callable[[list[dict[str, Any]]], bool]) -> bool:
        """Look at the runs again and again until `enough` returns true; return False if time is up first."""
        while time.monotonic() < self.deadline:
            runs = patiently(lambda: self.api.runs(DAG_ID), self.say)
            for run in runs:
                if run["state"] in FINISHED and run["dag_run_id"] not in self.cycles:
                    cycle = patiently(partial(read_cycle, self.api, run), self.say)
                    self.cycles[cycle.run_id] = cycle
                    self.say(describe(cycle))
            if enough(runs):
                return True
            time.sleep(POLL_S)
        return False


def play(stage: Stage, say: Say) -> DemoReport:
    """Play the demo on a stage: in less than three minutes on an idle machine.

    Raises TerminalError if Airflow does not load the Dag, TransientError if the producer fails.
    """
    started = time.monotonic()
    stream = prepare(stage.source.bootstrap_servers, say)
    _wait_for_dag(stage, say)
    say(f"Airflow is up at {stage.airflow.api.url}, {DAG_ID} runs every minute; records keep flowing")
    stream.start()
    flowing = time.monotonic()
    watch = Watch(stage.airflow.api, say, flowing + LONGEST_S)
    patiently(lambda: stage.airflow.api.pause(DAG_ID, paused=False), say)
    watch.until(lambda _: time.monotonic() - flowing > STREAM_S)
    stream.stop()
    say(f"the stream has stopped after {stream.written:,} records; one more cycle takes what is left")
    stopped = dt.datetime.now(dt.UTC)
    patiently(lambda: stage.airflow.api.trigger(DAG_ID), say)
    if not watch.until(lambda runs: any(is_finished_since(stopped, run) for run in runs)):
        say(f"time is up after {LONGEST_S} s, before the last cycle was done: this machine is busy")
    say("reading both sides, record by record")
    return make_report(compare_all(stage), list(watch.cycles.values()), time.monotonic() - started)


def prepare(bootstrap: str, say: Say) -> Stream:
    """Create and fill the topics of the source; return the stream of further records, which has not begun."""
    create_topics(bootstrap)
    stream = Stream(bootstrap)
    stream.fill()
    freeze_compacted(bootstrap)
    say(f"{len(TOPICS)} topics with {stream.written:,} records on {SOURCE}")
    return stream


def compare_all(made: Machinery) -> list[TopicComparison]:
    """Compare every topic with its copy, record by record."""
    source, target = made.source.bootstrap_servers, made.target.bootstrap_servers
    return [compare_topic(source, target, topic.name, f"{SOURCE}.{topic.name}") for topic in TOPICS]


def patiently(ask: Callable[[], _T], say: Say) -> _T:
    """Ask Airflow until it answers, for at most PATIENCE_S, and tell of each question that it left unanswered.

    On a busy machine its API server may not answer for a minute.  A run that is triggered twice is one cycle more.
    """
    errors: list[ClusterUnreachable] = []

    def attempt() -> tuple[_T] | None:
        try:
            return (ask(),)
        except ClusterUnreachable as error:
            say("Airflow does not answer, this machine is busy; asking again")
            errors.append(error)
            return None

    return retry.until(attempt, lambda: errors[-1], seconds=PATIENCE_S)[0]


def _wait_for_dag(stage: Stage, say: Say) -> None:
    stage.airflow.wait_until_healthy()
    deadline = time.monotonic() + PATIENCE_S
    while DAG_ID not in patiently(stage.airflow.api.dag_ids, say):
        errors = patiently(stage.airflow.api.import_errors, say)
        if errors:
            raise TerminalError(f"Airflow could not read the Dag: {errors[0].strip().splitlines()[-1]}")
        if time.monotonic() > deadline:
            raise TransientError(f"Airflow has not found {DAG_ID}", hint=f"see {stage.airflow.home / 'logs'}")
        time.sleep(POLL_S)


def is_finished_since(moment: dt.datetime, run: dict[str, Any]) -> bool:
    """Say whether a run, triggered or scheduled, began after `moment` and is done."""
    started = run["start_date"]
    return run["state"] in FINISHED and bool(started) and dt.datetime.fromisoformat(started) > moment


def read_cycle(api: AirflowApi, run: dict[str, Any]) -> Cycle:
    """Read the results of a finished run's tasks; a task that failed or was skipped has none."""
    run_id = run["dag_run_id"]

    def returned(task: str) -> dict[str, Any]:
        try:
            return dict(api.result(DAG_ID, run_id, task))
        except TerminalError:
            return {}

    report, copied, beat = returned("publish"), returned("copy"), returned("heartbeats")
    return Cycle(
        run_id=run_id,
        state=run["state"],
        records=report.get("records", 0),
        seconds=float(run.get("duration") or 0),
        copy_seconds=copied.get("seconds", 0.0),
        by_topic=dict(sums(report, "copied_records")),
        lag_by_topic=dict(sums(report, "lag_records")),
        heartbeat_latency_ms=beat.get("latency_ms"),
    )


def make_report(compared: list[TopicComparison], cycles: list[Cycle], seconds: float) -> DemoReport:
    """Join the comparison with the reports of the cycles.  Pure."""
    copied: Counter[str] = Counter()
    for cycle in cycles:
        copied.update(cycle.by_topic)
    copying = sum(cycle.copy_seconds for cycle in cycles) or 1.0
    lag = cycles[-1].lag_by_topic if cycles else {}
    shows = {topic.name: topic.why for topic in TOPICS}
    return DemoReport(
        topics=tuple(
            TopicOutcome(
                topic=comparison.topic,
                remote_topic=comparison.remote_topic,
                shows=shows[comparison.topic],
                source_records=comparison.source_records,
                target_records=comparison.target_records,
                lag_records=lag.get(comparison.topic, comparison.source_records - comparison.target_records),
                records_per_second=round(copied[comparison.topic] / copying),
                equal=comparison.equal,
                difference=comparison.difference,
            )
            for comparison in compared
        ),
        cycles=len(cycles),
        failed_cycles=sum(cycle.state == "failed" for cycle in cycles),
        seconds=round(seconds, 1),
        heartbeat_latency_ms=next(
            (it.heartbeat_latency_ms for it in reversed(cycles) if it.heartbeat_latency_ms is not None), None
        ),
    )


def sums(report: dict[str, Any], name: str) -> Iterator[tuple[str, int]]:
    """Yield each topic of a cycle's report with the sum of a number of its partitions."""
    for topic in report.get("topics", ()):
        yield topic["topic"], sum(partition[name] for partition in topic["partitions"])


def describe(cycle: Cycle) -> str:
    """Say in a line how a cycle ended."""
    kind, named, _ = cycle.run_id.partition("__")
    return f"cycle {cycle.state}{f' ({kind})' if named else ''}: {cycle.records:,} records in {cycle.seconds:.0f} s"
