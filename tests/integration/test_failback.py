"""What a failover left behind, on real brokers: records are compared by identity.

Cost: two minutes on two busy cores; starting brokers, one of them twice, takes much of it.
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from test_failover import PARTITIONS, Pair, numbers_in, start_again

from lab import (
    Seen,
    configure,
    create_topic,
    cycle,
    produce,
    produce_transaction,
    read_partitions,
    wait_until,
)
from twinlog.cluster.open import open_clusters
from twinlog.config.flow.load import load
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.recovery.failback import export, failback
from twinlog.recovery.failback.one_sided import opened_logs
from twinlog.state.ledger import write_ledger

NOW = int(time.time() * 1000)


def seen(number: int) -> Seen:
    """A record that differs from its neighbours in every field; some have no key, some no value."""
    key = None if number % 5 == 0 else b"k%d" % number
    return Seen(key, b"%d" % number, NOW + number, (("h", b"%d" % number), ("h", None)))


def write(cluster, topic: str, numbers: range) -> None:
    for partition in range(PARTITIONS):
        produce(cluster, topic, [seen(it) for it in numbers if it % PARTITIONS == partition], partition)


def origin_of(record: Seen) -> tuple[str, int, int, Seen]:
    """Where an exported record was, and the record as it was there."""
    origin = {name: (value or b"").decode() for name, value in record.headers[-4:]}
    was = Seen(record.key, record.value, int(origin["twinlog.timestamp"]), record.headers[:-4])
    return origin["twinlog.topic"], int(origin["twinlog.partition"]), int(origin["twinlog.offset"]), was


def rows_of(path: str) -> list[tuple[int, Seen]]:
    return [
        (
            row["offset"],
            Seen(
                row["key"],
                row["value"],
                row["timestamp"],
                tuple((it["name"], it["value"]) for it in row["headers"]),
            ),
        )
        for row in pq.read_table(path).to_pylist()
    ]


def test_the_tail_of_a_lost_source_is_exported_once_and_exactly(
    cluster_b, tmp_path: Path, monkeypatch
) -> None:
    """The export dies half way and is run again: topic and files hold what the source's log alone holds, each once."""
    with EmbeddedKafka("east", tmp_path / "kafka") as source:
        pair = Pair(tmp_path, source, cluster_b, heartbeats__replication__enabled="false")
        write(source, "orders", range(300))
        pair.cycle()
        pair.audit()
        code, refused = pair.command("failback")
        assert (1, "not-promoted") == (code, refused["error"]["code"])
        write(source, "orders", range(300, 600))
        produce_transaction(source, "orders", [seen(900)], 0, commit=False)
        produce_transaction(source, "orders", [seen(603)], 0)
        wait_until(lambda: decided(pair))
        source.kill()
        code, report = pair.command("failover", "--mode", "source-dead", "--yes")
        assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)
        write(cluster_b, pair.remote, range(1000, 1031))
        start_again(source)

        tail = {
            partition: [(offset, it) for offset, it in rows if int(it.value) >= 300]
            for partition, rows in read_partitions(source, "orders", range(PARTITIONS)).items()
        }
        strays = {
            partition: [(offset, it) for offset, it in rows if int(it.value) >= 1000]
            for partition, rows in read_partitions(cluster_b, pair.remote, range(PARTITIONS)).items()
        }
        code, dry = pair.command("failback", "--dry-run")
        assert (0, "promoted", 301, 31, 31) == (
            code,
            dry["state"],
            *(dry[it] for it in ("only_on_source", "only_on_target", "strayed")),
        )
        rows = dry["topics"][0]["partitions"]
        assert [len(tail[it]) for it in range(PARTITIONS)] == [it["at_risk_records"] for it in rows]
        assert [len(strays[it]) for it in range(PARTITIONS)] == [it["only_on_target_records"] for it in rows]

        monkeypatch.setattr(export, "CHUNK_BYTES", 500)
        dies_after(monkeypatch, 3)
        code, broken = pair.command("failback")
        monkeypatch.undo()
        assert (1, "failed") == (code, broken["state"])
        code, done = pair.command("failback")
        assert (0, "promoted") == (code, done["state"]), json.dumps(done["steps"], indent=1)
        (topic,) = done["tail_topics"]
        found = read_partitions(cluster_b, topic, range(PARTITIONS))
        expected = {
            number: [("orders", number, offset, it) for offset, it in rows] for number, rows in tail.items()
        }
        assert expected == {number: [origin_of(it) for _, it in rows] for number, rows in found.items()}
        files = {(it["topic"], it["partition"]): rows_of(it["path"]) for it in done["files"]}
        assert {("orders", it): tail[it] for it in tail} | {
            (pair.remote, it): strays[it] for it in strays
        } == files
        assert Path(done["evidence"]).exists()

        produce(source, "orders", [seen(1500)], 1)
        code, more = pair.command("failback")
        assert (0, 302, 302) == (code, more["only_on_source"], len(numbers_in(cluster_b, topic)))


def decided(pair: Pair) -> bool:
    """The markers of all transactions are in the logs of the source: a coordinator answers before it writes them."""
    places = [TopicPartition("orders", number) for number in range(PARTITIONS)]
    with open_clusters(pair.flow) as clusters:
        ends = clusters.source.offsets(places).found
    return len(ends) == PARTITIONS and all(it.end == it.stable_end for it in ends.values())


def dies_after(monkeypatch: pytest.MonkeyPatch, chunks: int) -> None:
    """Let the process lose its last transaction, right after so many chunks were committed."""
    real, count = export._one_chunk, iter(range(chunks))

    def one(*args: object) -> int:
        if next(count, None) is None:
            raise export.TerminalError("killed", code="killed")
        return real(*args)

    monkeypatch.setattr(export, "_one_chunk", one)


def test_what_the_reverse_flow_brought_home_is_no_tail(cluster_a, cluster_b, tmp_path: Path) -> None:
    """Both ways with unchanged names: records from the target are not exported, and what is not home yet is counted."""
    left, right = (f"{it}{uuid.uuid4().hex[:5]}" for it in "AB")
    topic = f"home-{left}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    file = configure(
        tmp_path,
        {left: cluster_a, right: cluster_b},
        [f"{left}->{right}", f"{right}->{left}"],
        topics=topic,
        heartbeats__replication__enabled="false",
        replication__policy__class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        twinlog__reports__folder=str(tmp_path),
    )
    flows = load(file).flows
    there, back = flows[f"{left}->{right}"], flows[f"{right}->{left}"]
    produce(cluster_a, topic, [seen(it) for it in range(10)])
    cycle(there)
    with open_clusters(there) as clusters:
        write_ledger(there, clusters.target, [FlowState(FlowPhase.PROMOTED, NOW, "jo", "failover")])
    produce(cluster_b, topic, [seen(it) for it in range(100, 120)])
    cycle(back)
    produce(cluster_a, topic, [seen(it) for it in range(10, 13)])
    produce(cluster_b, topic, [seen(it) for it in range(120, 124)])

    request = failback.Request("jo", file, "sha", reverse=back)
    with open_clusters(there) as clusters, opened_logs(there) as read:
        report = failback.run(there, clusters, request, read)
    assert ("promoted", 3, 4, 0) == (
        report.state.value,
        report.only_on_source,
        report.only_on_target,
        report.strayed,
    ), report.steps
    assert [seen(it).value for it in (10, 11, 12)] == [
        it.value for rows in read_partitions(cluster_b, report.tail_topics[0], [0]).values() for _, it in rows
    ]
