"""Good news is earned, on real brokers: nothing compared, a map that lost a part, gaps that are over."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, ResourceType

from lab import Seen, alter_configs, assert_soon, configure, create_topic, cycle, produce
from twinlog.cli.main import main
from twinlog.cli.render import login
from twinlog.cluster.api import open_clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.map.offset_map import decode_map_key
from twinlog.lane.copy.state_records import map_partition

NOW = int(time.time() * 1000)


def records(first: int, count: int = 10) -> list[Seen]:
    return [Seen(b"key %d" % n, b"value %d" % n, NOW + n) for n in range(first, first + count)]


def flow_file(folder: Path, source: Any, target: Any, topics: list[str], **properties: str) -> Path:
    """A flow of its own state topics, so that other tests' lives and gaps are not among its."""
    settings = {
        "topics": ",".join(topics),
        "heartbeats__replication__enabled": "false",
        "twinlog__lanes": "2",
        "twinlog__gate__fence__seconds": "1",
        "twinlog__reports__folder": str(folder / "reports"),
        **properties,
    }
    alias = folder.name[-12:].replace("_", "")
    return configure(folder, {f"a{alias}": source, f"b{alias}": target}, [f"a{alias}->b{alias}"], **settings)


def flow_in(file: Path) -> FlowSettings:
    return next(iter(load(file).enabled_flows))


def asked(capsys: Any, file: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Run a command; its exit code and JSON."""
    capsys.readouterr()
    code = main([*words, "--config", str(file), "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


def blocking(answer: dict[str, Any]) -> set[str]:
    return {
        it["name"]
        for it in answer["checks"]
        if it["severity"] == "critical" and not it["passed"] and not it["waived"]
    }


def delete_records(cluster: Any, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        future.result(10)


def lose_piece(flow: FlowSettings, topic: str, first: int) -> None:
    """Tombstone one piece of a topic's map."""
    with open_clusters(flow) as clusters:
        described = clusters.target.describe_topics([flow.offset_map_topic]).require()
        number = map_partition(topic, 0, len(described[flow.offset_map_topic].partitions))
        (key,) = (
            key
            for key, value in clusters.target.latest(flow.offset_map_topic).items()
            if value is not None
            and (decode_map_key(key).topic, decode_map_key(key).first_upstream) == (topic, first)
        )
        clusters.target.produce(flow.offset_map_topic, [InternalRecord(key, None, number)])


def test_an_audit_that_compared_nothing_says_so(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, capsys: Any
) -> None:
    """Nothing there is a case of its own; what the source has deleted is not equal; the default gate asks for proof."""
    topic, empty = (create_topic(cluster_a, unique_topic(name)) for name in ("gone", "empty"))
    file = flow_file(tmp_path, cluster_a, cluster_b, [topic, empty])
    cycle(flow_in(file))
    code, audit = asked(capsys, file, "audit")
    assert (1, False, False, "nothing-to-compare") == (
        code,
        audit["equal"],
        audit["proved"],
        audit["verdict"],
    )
    assert set() == {"audit-age", "audit-promised"} & blocking(asked(capsys, file, "gate")[1])
    produce(cluster_a, topic, records(0))
    cycle(flow_in(file))
    delete_records(cluster_a, topic, 10)
    code, audit = asked(capsys, file, "audit")
    assert (1, False, "nothing-compared", 0, 0.0) == (
        code,
        audit["equal"],
        audit["verdict"],
        audit["compared"],
        audit["coverage"],
    )
    assert [{"reason": "source-retention", "records": 10}] == audit["unproved"]
    _, answer = asked(capsys, file, "gate")
    assert {"audit-age", "audit-promised"} <= blocking(answer)
    assert [(topic, 0, 0)] == [
        (it["topic"], it["proved"], it["percent"]) for it in answer["coverage"] if it["records"]
    ]
    produce(cluster_a, topic, records(10))
    cycle(flow_in(file))
    code, audit = asked(capsys, file, "audit")
    assert (0, True, True, 10, 0.5) == (
        code,
        audit["equal"],
        audit["proved"],
        audit["compared"],
        audit["coverage"],
    )
    assert set() == {"audit-age", "audit-promised"} & blocking(asked(capsys, file, "gate")[1])


@pytest.mark.long
def test_a_map_that_lost_a_piece_is_found(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, capsys: Any
) -> None:
    """By the audit, status and the gate; a full audit names the records that are missing in it."""
    topic = create_topic(cluster_a, unique_topic("lost-piece"))
    file = flow_file(tmp_path, cluster_a, cluster_b, [topic])
    flow = flow_in(file)
    for first in (0, 10, 20):
        produce(cluster_a, topic, records(first))
        cycle(flow)
    code, audit = asked(capsys, file, "audit")
    assert (0, True) == (code, audit["proved"])
    assert "map-whole" not in blocking(asked(capsys, file, "gate")[1])
    lose_piece(flow, topic, 10)
    for words in (("audit",), ("audit", "--full")):
        code, audit = asked(capsys, file, *words)
        assert (1, False, ["map-lost"]) == (code, audit["equal"], [it["code"] for it in audit["problems"]])
        assert [("map-lost", 10)] == [(it["reason"], it["records"]) for it in audit["unproved"]], audit
        assert [] == audit["differences"]
    assert "map-whole" in blocking(asked(capsys, file, "gate")[1])
    (seen,) = asked(capsys, file, "status")[1]["flows"]
    assert [10] == [row["unmapped_offsets"] for it in seen["topics"] for row in it["partitions"]]
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    admin = AdminClient({"bootstrap.servers": cluster_b.bootstrap_servers})
    admin.delete_topics([remote])[remote].result(10)
    assert_soon(False, lambda: remote in admin.list_topics(timeout=10).topics)
    create_topic(cluster_b, remote)
    produce(cluster_b, remote, [*records(0), *records(20)])
    _, audit = asked(capsys, file, "audit", "--full")
    assert set(range(10, 20)) <= {
        it["upstream_offset"] for it in audit["differences"] if it["kind"] == "missing"
    }


@pytest.mark.long
def test_a_gap_is_over_when_somebody_says_so_or_its_records_would_be(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, capsys: Any
) -> None:
    """Two gaps: one is accepted, taken back, accepted again; both expire with the topic's retention."""
    topic = create_topic(cluster_a, unique_topic("gaps"))
    file = flow_file(tmp_path, cluster_a, cluster_b, [topic], twinlog__on__gap="record-and-continue")
    produce(cluster_a, topic, records(0))
    cycle(flow_in(file))
    for first in (10, 30):
        produce(cluster_a, topic, records(first, 20))
        delete_records(cluster_a, topic, first + 10)
        cycle(flow_in(file))

    def states() -> list[str]:
        (seen,) = asked(capsys, file, "status")[1]["flows"]
        return [it["state"] for it in seen["gaps"]]

    assert ["open", "open"] == states()
    lost = ("accept", "no-gaps", "--for", topic, "--partitions", "0", "--offset")
    answer = (*lost, "10", "--reason", "nobody reads it")
    assert 0 == asked(capsys, file, *answer)[0]
    assert ["acknowledged", "open"] == states()
    assert 0 == asked(capsys, file, *lost, "10", "--withdraw")[0]
    assert ["open", "open"] == states()
    assert 0 == asked(capsys, file, *answer)[0]
    assert "no-gaps" in blocking(asked(capsys, file, "gate")[1])
    assert 0 == asked(capsys, file, *lost, "30", "--reason", "nobody reads it")[0]
    _, gate = asked(capsys, file, "gate")
    assert ("no-gaps" not in blocking(gate), [login(), login()]) == (
        True,
        [it["acknowledged_by"] for it in gate["gaps"]],
    )
    remote = flow_in(file).policy.format_remote_topic(flow_in(file).source.alias, topic)
    alter_configs(cluster_a, ResourceType.TOPIC, topic, retention_ms="1")
    assert ["acknowledged", "acknowledged"] == states()
    alter_configs(cluster_b, ResourceType.TOPIC, remote, retention_ms="1")
    assert_soon(["expired", "expired"], states)
