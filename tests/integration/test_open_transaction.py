"""A transaction of the source that stays open: nothing says that all is well with what lies behind it.

Cost: about 20 s.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lab import Seen, configure, create_topic, cycle, produce
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.jsonable import to_json
from twinlog.judge import validate
from twinlog.monitoring import publish

HOUR_MS = 3_600_000
BEHIND = 10_000


@contextmanager
def open_transaction(cluster, topic: str, at_ms: int) -> Iterator[str]:
    """Hold a transaction with one record open; gives its transactional id."""
    name = f"payments-{uuid.uuid4().hex[:6]}"
    producer = Producer({
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": name,
        "transaction.timeout.ms": 600_000,
    })
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", timestamp=at_ms)
    producer.flush(30)
    try:
        yield name
    finally:
        producer.abort_transaction(30)


class Flow:
    """A flow by its file: command lines, and cycles."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.settings = next(iter(load(file).enabled_flows))

    def command(self, *words: str) -> tuple[int, dict]:
        out = StringIO()
        with redirect_stdout(out):
            code = main([*words, "--config", str(self.file), "--output", "json"])
        return code, json.loads(out.getvalue())

    def cycle(self) -> publish.FlowReport:
        copied = cycle(self.settings)
        with open_clusters(self.settings) as clusters:
            return publish.run(
                self.settings,
                clusters,
                uuid.uuid4().hex,
                to_json(copied),
                int(time.time() * 1000),
                tells=True,
            )


@pytest.fixture
def make(cluster_a, cluster_b, tmp_path):
    def of(topic: str, isolation: str = "read_committed") -> Flow:
        aliases = [f"{side}{uuid.uuid4().hex[:4]}" for side in ("east", "west")]
        file = configure(
            tmp_path,
            dict(zip(aliases, (cluster_a, cluster_b), strict=True)),
            ["->".join(aliases)],
            topics=topic,
            groups="none",
            heartbeats__replication__enabled="false",
            twinlog__gate__fence__seconds="1",
            twinlog__gate__free__disk__percent="0",
            twinlog__reports__folder=str(tmp_path / "reports"),
            twinlog__metrics__folder=str(tmp_path / "metrics"),
            twinlog__rpo__seconds="86400",
            **{f"{'->'.join(aliases)}.consumer.isolation.level": isolation},
        )
        return Flow(file)

    return of


def failed(answer: dict) -> dict[str, str]:
    return {
        it["name"]: it["message"]
        for it in answer["checks"]
        if it["severity"] == "critical" and not it["passed"]
    }


@pytest.mark.long
def test_nothing_is_said_to_be_missing_only_when_nothing_is(make, cluster_a, tmp_path) -> None:
    """Status, metrics, alarms and the gate in every mode tell of what lies behind a transaction of an hour ago."""
    topic = create_topic(cluster_a, f"held-{uuid.uuid4().hex[:6]}")
    flow = make(topic)
    an_hour_ago = int(time.time() * 1000) - HOUR_MS
    produce(cluster_a, topic, [Seen(b"k", b"v%d" % n, an_hour_ago - 1) for n in range(5)])
    with open_transaction(cluster_a, topic, an_hour_ago) as transactional_id:
        produce(cluster_a, topic, [Seen(b"k", b"v%d" % n, an_hour_ago + 1) for n in range(BEHIND)])
        (alarm,) = flow.cycle().alarms
        assert transactional_id in alarm
        assert 0 == flow.command("audit")[0]

        (seen,) = flow.command("status")[1]["flows"]
        assert (0, BEHIND + 1) == (seen["lag_records"], seen["undecided_records"])
        assert seen["rpo_seconds"] >= 3600
        assert (0, BEHIND + 1) == (seen["topics"][0]["lag_records"], seen["topics"][0]["undecided_records"])
        (held,) = seen["undecided"]
        assert (topic, 0, 5, transactional_id) == tuple(
            held[name] for name in ("topic", "partition", "first_offset", "transactional_id")
        )
        assert held["producer_id"] >= 0
        assert ", begun 20" in held["message"]
        assert held["message"].endswith("time-out 600 s)")
        assert f"let the application of {transactional_id}" in held["hint"]

        (planned,) = flow.command("plan")[1]["flows"]
        assert [{"topic": topic, "partition": 0, "start": 5, "end": 6 + BEHIND}] == planned["undecided"]
        assert [] == planned["ranges"]

        (metrics,) = (tmp_path / "metrics").glob("*.prom")
        numbers = dict(
            line.rsplit(" ", 1) for line in metrics.read_text().splitlines() if not line.startswith("#")
        )
        name = flow.settings.name
        assert BEHIND + 1 == float(numbers[f'twinlog_undecided_records{{flow="{name}",topic="{topic}"}}'])
        assert 3600 <= float(numbers[f'twinlog_rpo_seconds{{flow="{name}"}}'])

        assert 3600 <= float(numbers[f'twinlog_undecided_seconds{{flow="{name}"}}'])

        assert {"transactions-end"} == failed_validation(flow)
        for words in ([], ["--still-writing"]):
            code, answer = flow.command("gate", *words)
            assert 1 == code
            assert transactional_id in failed(answer)["transactions-end"]
            assert BEHIND + 1 == answer["topics"][0]["records"] == answer["topics"][0]["undecided"]
            assert ("lag-records" in failed(answer)) == (not words)
        code, answer = flow.command("gate", "--mode", "source-dead")
        assert 1 == code
        assert transactional_id in failed(answer)["known-transactions-end"]
        assert (None, BEHIND + 1) == tuple(answer["topics"][0][name] for name in ("records", "known"))

    flow.cycle()
    after = flow.cycle()
    assert (0, 0, 0.0) == (after.lag_records, after.undecided_records, after.rpo_seconds)
    assert 0 == flow.command("audit")[0]
    for words in ([], ["--still-writing"]):
        code, answer = flow.command("gate", *words)
        assert (0, True) == (code, answer["ready"]), failed(answer)


def failed_validation(flow: Flow) -> set[str]:
    with open_clusters(flow.settings) as clusters:
        names = {it.name for it in validate.run(flow.settings, clusters).failed}
    return names & {"transactions-end", "rpo-within-budget"}


def test_a_flow_that_reads_uncommitted_lags_by_what_it_has_not_copied(make, cluster_a) -> None:
    """Records behind an open transaction lag like any other, and are copied like any other."""
    topic = create_topic(cluster_a, f"uncommitted-{uuid.uuid4().hex[:6]}")
    flow = make(topic, "read_uncommitted")
    an_hour_ago = int(time.time() * 1000) - HOUR_MS
    with open_transaction(cluster_a, topic, an_hour_ago):
        (before,) = flow.command("status")[1]["flows"]
        assert (1, 0) == (before["lag_records"], before["undecided_records"])
        assert before["rpo_seconds"] >= 3600
        report = flow.cycle()
        assert (0, 0, 0.0) == (report.lag_records, report.undecided_records, report.rpo_seconds)
        produce(cluster_a, topic, [Seen(b"k", b"v", an_hour_ago + 1)] * 3)
        (behind,) = flow.command("status")[1]["flows"]
        assert (3, 0) == (behind["lag_records"], behind["undecided_records"])
        flow.cycle()
        code, answer = flow.command("audit")
        assert (0, True, 4) == (code, answer["equal"], answer["partitions"][0]["records"])
