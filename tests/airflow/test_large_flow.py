"""A flow of three thousand partitions: what each task leaves in XCom, in events and in its log is small, and true."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster

from twinlog.airflow.operators.audit import for_xcom as audit_for_xcom
from twinlog.airflow.operators.copy import failure_of, for_xcom
from twinlog.airflow.tasks import cycle as tasks
from twinlog.airflow.tasks import readiness
from twinlog.airflow.xcom import MOST_BYTES, NOT_SHOWN, WHOLE_IN, shortened
from twinlog.audit.request import AuditMode
from twinlog.audit.result import AuditedPartition, AuditResult
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.copying.ranges import StoppedPartition
from twinlog.copying.result import CopyResult, PartitionCopy, keep_outcome
from twinlog.errors import TwinlogError
from twinlog.gate.answer import CoverageOf, GateCheck, GateResult, GroupAtRisk
from twinlog.jsonable import Json, to_json
from twinlog.judge import validate
from twinlog.judge.check import Mode, Severity
from twinlog.kafka_types import TopicPartition
from twinlog.policy.selection import NameFilter
from twinlog.state.internal_topics import internal_topics

TOPICS, PER_TOPIC = 100, 30
PARTITIONS = TOPICS * PER_TOPIC
XCOM_BYTES = 64 * 1024
LOG_BYTES = 128 * 1024
LINE = 2_100


def settings(alias: str) -> ClusterSettings:
    return ClusterSettings(alias, "nowhere:9092", ConnectionSettings(alias, (("nowhere", 9092),)))


@pytest.fixture(scope="module")
def large() -> tuple[FlowSettings, Clusters]:
    """A hundred topics of thirty partitions, a record in each, and three hundred groups that read one each."""
    flow = FlowSettings(
        source=settings("A"),
        target=settings("B"),
        topics=NameFilter((".*",), (r"mm2.*\.internal", "__.*")),
        replication_factor=1,
        sync_group_offsets=True,
    )
    source, target = FakeCluster("A"), FakeCluster("B", brokers=3)
    for topic in internal_topics(flow):
        target.add_topic(topic.name, topic.partitions, configs={"cleanup.policy": "compact"})
    for number in range(TOPICS):
        name = f"a-topic-with-a-name-of-some-length-{number}"
        source.add_topic(name, PER_TOPIC)
        for partition in range(PER_TOPIC):
            source.append(TopicPartition(name, partition), key=b"k", value=b"v", timestamp=1_000)
            source.commit(f"group-{partition}-{number % 10}", TopicPartition(name, partition), 1)
    return flow, Clusters(source, target)


def copied(**changes: Any) -> CopyResult:
    """A copy in which every third partition failed, and a hundred were not begun."""
    partitions = tuple(
        PartitionCopy(
            f"a-topic-with-a-name-of-some-length-{number // PER_TOPIC}",
            f"A.a-topic-with-a-name-of-some-length-{number // PER_TOPIC}",
            number % PER_TOPIC,
            copied_records=number,
            bytes=100,
            last_upstream_offset=0,
            lag_records=0,
            error_code="poison" if number % 3 == 0 else "",
            error=f"partition {number} stopped for a reason of some words" if number % 3 == 0 else "",
        )
        for number in range(PARTITIONS)
    )
    stopped = tuple(
        StoppedPartition(f"t{number}", 0, "gap", f"records of t{number} are gone") for number in range(500)
    )
    records = sum(it.copied_records for it in partitions)
    result = CopyResult("A->B", "d/r/1", "failed", records, 100 * PARTITIONS, 1.0, partitions, stopped)
    return replace(result, **changes)


class Tasks:
    """The tasks of a cycle, each as Airflow calls it: with what those before it have left in XCom."""

    def __init__(self, flow: FlowSettings, clusters: Clusters, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: dict[str, Json] = {}
        self.now = ""
        ti = SimpleNamespace(
            try_number=1,
            get_task_states=lambda *_, run_ids: {run_ids[0]: {}},
            xcom_pull=lambda *, task_ids, key="": None if key else self.left.get(task_ids),
            xcom_push=lambda _, value: self.left.update({self.now: value}),
        )
        run = SimpleNamespace(dag_id="d", run_id="r", start_date=datetime.now(UTC))

        @contextmanager
        def opened(_: object) -> Iterator[Clusters]:
            yield clusters

        for name, value in {
            "get_current_context": lambda: {"dag_run": run, "ti": ti, "params": {}},
            "flow_of": lambda _: flow,
            "opened": opened,
            "gauges": SimpleNamespace(send=lambda *_: None),
            "_request": lambda: SimpleNamespace(dry_run=False, topics=(), until_ms=None),
        }.items():
            monkeypatch.setattr(tasks, name, value)
        monkeypatch.setattr(validate, "judge_with_pages", lambda flow, facts, _: validate.judge(flow, facts))

    def run(self, name: str, *more: Any) -> None:
        self.now = name
        try:
            self.left[name] = getattr(tasks, name)("A->B", *more)
        except TwinlogError as error:
            assert len(str(error)) < 10 * LINE


class Events(dict):
    """Events by asset, made when they are asked for."""

    def __missing__(self, asset: Any) -> SimpleNamespace:
        event = SimpleNamespace(extra={})
        event.add = lambda _, extra: event.extra.update(extra)
        self[asset] = event
        return event


def size(document: Any) -> int:
    return len(json.dumps(document).encode())


def test_what_tasks_leave_behind_is_small(large, monkeypatch, caplog) -> None:
    """XCom, events and logs of a whole cycle, at three thousand partitions that all have something to tell."""
    flow, clusters = large
    cycle, events = Tasks(flow, clusters, monkeypatch), Events()
    caplog.set_level(logging.INFO)
    logs: dict[str, int] = {}
    for name in (
        "discover",
        "sync_topics",
        "plan_ranges",
        "offset_syncs",
        "checkpoints",
        "heartbeats",
        "validate",
    ):
        caplog.clear()
        cycle.run(name, *([events] if name == "checkpoints" else []))
        logs[name] = sum(len(it.getMessage()) for it in caplog.records)
        assert max(len(it.getMessage()) for it in caplog.records) < LINE
    result = copied()
    cycle.left["copy"] = for_xcom(to_json(result))
    keep_outcome(flow, clusters.target, result)
    caplog.clear()
    cycle.run("publish", events)
    logs["publish"] = sum(len(it.getMessage()) for it in caplog.records)
    assert {} == {name: it for name, it in logs.items() if it > LOG_BYTES}
    assert {} == {name: it for name, left in cycle.left.items() if (it := size(left)) > XCOM_BYTES}
    assert {} == {asset: it for asset, event in events.items() if (it := size(event.extra)) > XCOM_BYTES}
    assert {"discover", "sync_topics", "plan_ranges", "copy", "validate", "publish"} <= set(cycle.left)
    for name in ("discover", "plan_ranges", "copy", "publish"):
        assert cycle.left[name][NOT_SHOWN]
        assert cycle.left[name][WHOLE_IN]


def test_the_report_is_whole_although_the_copy_travelled_cut(large) -> None:
    """Every partition's records and errors, and what was not begun: from the ledger."""
    from twinlog.monitoring import publish

    flow, clusters = large
    whole = copied(run_id="d/r/2")
    keep_outcome(flow, clusters.target, whole)
    cut = for_xcom(to_json(whole))
    assert len(cut["partitions"]) < len(whole.partitions)
    reports = [publish.run(flow, clusters, "r", it, 0) for it in (cut, to_json(whole))]
    first, second = (replace(it, at_ms=0, seconds=0.0, rpo_seconds=0.0, topics=()) for it in reports)
    assert first == second
    assert [it.partitions for it in reports[0].topics] == [it.partitions for it in reports[1].topics]
    told = [it for topic in reports[0].topics for it in topic.partitions]
    assert (PARTITIONS - 1, len(range(0, PARTITIONS, 3))) == (
        sum(bool(it.copied_records) for it in told),
        sum(bool(it.error) for it in told),
    )


def test_of_another_runs_copy_nothing_is_told(large) -> None:
    """What is not known is counted, never taken from another run."""
    from twinlog.monitoring import publish

    flow, clusters = large
    keep_outcome(flow, clusters.target, copied(run_id="somebody else's"))
    whole = copied(run_id="d/r/3")
    report = publish.run(flow, clusters, "r", for_xcom(to_json(whole)), 0)
    assert 500 == len(report.stopped) + report.stopped_not_shown
    assert report.stopped_not_shown > 0


def test_a_copy_that_failed_names_what_failed_first() -> None:
    """In XCom; the error itself is made of the whole."""
    outcome = to_json(copied())
    assert all(it["error"] for it in for_xcom(outcome)["partitions"])
    assert len(str(failure_of(outcome))) < LINE


def test_an_audit_and_a_gate_are_small_too() -> None:
    """What is least proved comes first."""
    partitions = tuple(
        AuditedPartition(
            f"topic-{n // 100}", f"A.topic-{n // 100}", n % 100, 9, n / PARTITIONS, 9, 0, 0, 0, (), 9, 1
        )
        for n in range(PARTITIONS)
    )
    audit = AuditResult("A->B", AuditMode.FULL, True, 9, 0.5, 0, (), partitions[::-1], (), 1, 1.0, 1.0)
    shown = audit_for_xcom(to_json(audit))
    assert (0.0, PARTITIONS) == (
        shown["partitions"][0]["coverage"],
        len(shown["partitions"]) + shown[NOT_SHOWN]["partitions"],
    )
    names = tuple(f"topic {n} partition {n}" for n in range(PARTITIONS))
    check = GateCheck("lag", Severity.CRITICAL, False, "x" * 500, "y", "z" * 5_000, 1.0, names)
    gate = GateResult(
        "A->B",
        Mode.PLANNED,
        False,
        1,
        False,
        (check,) * 40,
        (),
        (),
        tuple(GroupAtRisk(name, 1) for name in names),
        tuple(CoverageOf(name, 1, 1, 0, 1.0) for name in names),
    )
    shown = shortened({**to_json(gate), "evidence": "e", "page": "p"}, "there")
    assert size(shown) <= MOST_BYTES
    assert readiness.asset_extra(shown)["evidence"] == "e"
