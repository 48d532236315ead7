"""What engines do to whole topics is named on real brokers: equal offsets, compaction, other partitions, headers.

The engine is this test.  Also tests twinlog.observe.run.  Cost: about 25 s, most of it the brokers' compaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from lab import NOW, Seen, commit_group, configure, create_topic, read_with_offsets, wait_until
from twinlog import clock
from twinlog.cli.main import main

HOUR = 3_600_000
SAME_NAMES = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
EAGER = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "500",
}
LAZY = {"cleanup.policy": "compact", "min.compaction.lag.ms": "900000000"}


def some(first: int, end: int, keys: int = 1 << 30) -> list[Seen]:
    return [Seen(b"k%d" % (n % keys), b"record %d" % n, NOW - HOUR + n) for n in range(first, end)]


def relay(cluster: Any, logs: Iterable[tuple[str, int, list[Seen]]]) -> None:
    """Write records to (topic, partition), in small batches, so that compaction has segments to work on."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.num.messages": 50})
    for topic, partition, records in logs:
        for it in records:
            producer.produce(
                topic, it.value, it.key, partition, timestamp=it.timestamp, headers=list(it.headers)
            )
            producer.poll(0)
    producer.flush()


@pytest.fixture
def judged(cluster_a, cluster_b, tmp_path, capsys, monkeypatch) -> Callable[..., dict[str, Any]]:
    """Observe topics of one flow, past the horizon, and ask the gate: its answer."""

    def judge(stem: str, copied_by: str) -> dict[str, Any]:
        flow = f"A{stem}->B"
        keys = {
            f"{flow}.twinlog.copied.by": copied_by,
            "twinlog.reports.folder": str(tmp_path / "reports"),
            "replication.policy.class": SAME_NAMES,
            "heartbeats.replication.enabled": "false",
        }
        clusters = {f"A{stem}": cluster_a, "B": cluster_b}
        file = configure(tmp_path, clusters, [flow], topics=f"{stem}.*", groups=f"{stem}.*", **keys)
        main(["run", "--once", "--config", str(file)])
        later = clock.now_ms() + 10 * 60_000
        monkeypatch.setattr(clock, "now_ms", lambda: later)
        main(["run", "--once", "--config", str(file)])
        capsys.readouterr()
        page = ["--report", str(tmp_path / "page.html")]
        main(["gate", "--still-writing", *page, "--config", str(file), "--output", "json"])
        return json.loads(capsys.readouterr().out)

    return judge


def found(gate: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return what was found, by the last part of the topics' names."""
    return {it["topic"].rpartition("-")[2]: it["counts"] for it in gate["observed"]["topics"]}


def test_a_mirror_that_keeps_offsets(cluster_a, cluster_b, unique_topic, judged, tmp_path: Path):
    """One wrong record is named; where offsets went apart, every copy behind is named for it."""
    stem, records = unique_topic("mirror"), some(0, 500)
    wrong = [*records[:250], replace(records[250], value=b"wrong"), *records[251:]]
    logs = {"sound": records, "wrong": wrong, "apart": [*records[:100], *records[101:]]}
    for name in logs:
        create_topic(cluster_a, f"{stem}-{name}")
        create_topic(cluster_b, f"{stem}-{name}")
    relay(cluster_a, [(f"{stem}-{name}", 0, records) for name in logs])
    relay(cluster_b, [(f"{stem}-{name}", 0, log) for name, log in logs.items()])
    gate = judged(stem, "mirroring")
    assert {"sound": {}, "wrong": {"changed": 1}, "apart": {"changed": 399, "missing": 1}} == found(gate)
    changed = next(it for it in gate["checks"] if it["name"] == "nothing-changed")
    assert f"{stem}-apart: offset of 399: likely a record before them" in changed["message"]
    assert "1 topic(s) whose copies were all equal when read" in (tmp_path / "page.html").read_text()


@pytest.mark.long
def test_what_compaction_takes_is_neither_missing_nor_foreign(cluster_a, cluster_b, unique_topic, judged):
    """On either side alone, or both; but a key whose last record the engine left out is missing."""
    stem = unique_topic("compact")
    sides = {"there": (LAZY, EAGER), "here": (EAGER, LAZY), "both": (EAGER, EAGER), "lacks": (LAZY, EAGER)}
    for name, (here, there) in sides.items():
        create_topic(cluster_a, f"{stem}-{name}", **here)
        create_topic(cluster_b, f"{stem}-{name}", **there)
    for first, end in ((0, 600), (600, 650), (650, 700)):
        records = some(first, end, keys=50)
        relay(cluster_a, [(f"{stem}-{name}", 0, records) for name in sides])
        left = [it for it in records if it.key != b"k7"]
        relay(cluster_b, [(f"{stem}-{name}", 0, left if name == "lacks" else records) for name in sides])
    compacting = [(cluster_b, "there"), (cluster_a, "here"), (cluster_a, "both"), (cluster_b, "lacks")]
    for cluster, name in compacting:
        log = f"{stem}-{name}"
        wait_until(lambda at=cluster, log=log: len(read_with_offsets(at, log)) < 600, 90)
    commit_group(cluster_a, f"{stem}-group", f"{stem}-there", 690)
    gate = judged(stem, "other")
    assert {"there": {}, "here": {}, "both": {}, "lacks": {"missing": 1}} == found(gate)
    (named,) = next(it for it in gate["observed"]["topics"] if "lacks" in it["topic"])["findings"]["0"]
    assert [657, 658] == named["upstream"]
    assert [True] == [it["exact"] for it in gate["observed"]["groups"]]


def test_topics_that_an_engine_changes_are_said_once(cluster_a, cluster_b, unique_topic, judged):
    """Headers added to all, nulls made empty, times of the broker, another source merged in, other partitions."""
    stem, records = unique_topic("odd"), some(0, 300)
    deleting = [replace(it, value=None) if n % 10 == 0 else it for n, it in enumerate(records)]
    others = [Seen(b"x%d" % n, b"of another source %d" % n, NOW - n) for n in range(300)]
    logs = {
        "headers": (records, [replace(it, headers=(("from", b"A"),)) for it in records]),
        "nulls": (deleting, [replace(it, value=it.value or b"") for it in deleting]),
        "times": (records, records),
        "merged": (records, [*records[:150], *others, *records[150:]]),
        "wider": (records, records),
    }
    for name in logs:
        stamped = {"message.timestamp.type": "LogAppendTime"} if name == "times" else {}
        create_topic(cluster_a, f"{stem}-{name}")
        create_topic(cluster_b, f"{stem}-{name}", 2 if name == "wider" else 1, **stamped)
    relay(cluster_a, [(f"{stem}-{name}", 0, here) for name, (here, _) in logs.items()])
    relay(cluster_b, [(f"{stem}-{name}", 0, there) for name, (_, there) in logs.items()])
    relay(cluster_b, [(f"{stem}-wider", 1, others[:5])])
    gate = judged(stem, "other")
    expected = {"headers": {"changed": 300}, "nulls": {"changed": 30}, "merged": {"foreign": 300}}
    assert expected | {"times": {}, "wider": {}} == found(gate)
    told = {it["name"]: it["message"] for it in gate["checks"] if not it["passed"]}
    assert (
        f"{stem}-headers: headers of 300, and no copy is equal: likely a transform" in told["nothing-changed"]
    )
    assert (
        f"{stem}-nulls: value of 30: likely a transform (SMT), or null made empty" in told["nothing-changed"]
    )
    assert f"{stem}-wider: 5 of them in partitions that the source does not have" in told["nothing-foreign"]
    assert "audit-promised" not in told
