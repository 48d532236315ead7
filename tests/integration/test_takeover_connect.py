"""A connector in a shared Connect cluster is taken over, and what it left unproved is not taken for anybody's own.

What the connector left is written by hand, as MM2 4.3.1 leaves it (positions in Connect's offsets topic,
records with the source's timestamps, written by no transaction).  Costs about 20 s.
"""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, configure, create_topic, cycle, produce, read
from twinlog.cli.main import main
from twinlog.client import Ask, open_flow
from twinlog.cluster.api import open_clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.load import load
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
CONNECTOR = "mirror-orders"
NOW = int(time.time() * 1000)


def some(first: int, count: int, key: bytes = b"a") -> list[Seen]:
    return [Seen(key + b"%d" % n, b"value %d" % n, NOW + n) for n in range(first, first + count)]


def strangers(alias: str, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Offsets of other connectors in the same topic: of any shape, one of them of the very same partition."""
    return [
        (b'["files",{"filename":"/var/log/a"}]', b'{"position":17}'),
        (b'["jdbc",{"table":"orders"}]', b'{"incrementing":99,"timestamp":null}'),
        (b'["empty",null]', None),
        (b"neither JSON nor anything", b"\x00\x01"),
        (source_offset_key("mirror-elsewhere", alias, 0, topic), offset_value(4)),
        (source_offset_key(CONNECTOR, f"{alias}x", 0, topic), offset_value(5)),
        (source_offset_key("MirrorHeartbeatConnector", alias, 0, topic), b'{"offset":0}'),
    ]


def say(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main([*words, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.long
def test_shared_connect_cluster_and_a_way_back(
    cluster_a: Any, cluster_b: Any, tmp_path: Path, unique_topic: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Foreign records are left alone; the flow the other way stops in front of what was not compared."""
    suffix, topic = uuid.uuid4().hex[:5], unique_topic("shared")
    left, right, shared = f"A{suffix}", f"B{suffix}", f"connect-offsets-{suffix}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    path = configure(
        tmp_path,
        {left: cluster_a, right: cluster_b},
        [f"{left}->{right}", f"{right}->{left}"],
        topics=topic,
        heartbeats__replication__enabled="false",
        emit__heartbeats__enabled="false",
        replication__policy__class=IDENTITY,
    )
    flows = load(path).flows
    there, back = flows[f"{left}->{right}"], flows[f"{right}->{left}"]
    produce(cluster_a, topic, some(0, 300))
    produce(cluster_b, topic, some(0, 250))
    create_topic(cluster_b, shared, cleanup_policy="compact")
    with open_clusters(there) as clusters:
        mine = (source_offset_key(CONNECTOR, left, 0, topic), offset_value(239))
        offsets = [*strangers(left, topic), mine]
        clusters.target.produce(shared, [InternalRecord(key, value) for key, value in offsets])
        before = clusters.target.latest_records(shared)
    names = ["--connector", CONNECTOR, "--offsets-topic", shared, "--worker-group", f"connect-{suffix}"]
    take = ["migrate", "takeover", "--config", str(path), "--flow", there.name]

    code, document = say(capsys, *take, *names, "--depth", "50", "--dry-run")
    assert (0, "dry-run") == (code, document["flows"][0]["state"]), document
    code, document = say(capsys, *take, *names, "--depth", "50")
    report = document["flows"][0]
    (partition,) = report["partitions"]
    assert (0, "done", "proved", 249, 10) == (
        code,
        report["state"],
        partition["state"],
        partition["last_upstream"],
        partition["beyond"],
    ), document
    with open_clusters(there) as clusters:
        assert before == clusters.target.latest_records(shared), "other connectors' records are theirs"
    assert 50 == cycle(there).records
    assert some(0, 300) == read(cluster_b, topic)
    with open_flow(path, there.name) as flow:
        low, high = flow.translate([Ask(topic, 0, 20), Ask(topic, 0, 245)])
        assert (False, True, 245) == (low.exact, high.exact, high.downstream_offset)

    held = cycle(back)
    (stopped,) = held.stopped
    assert ("uncompared", 0) == (stopped.code, stopped.first_offset), stopped
    assert 0 == held.records
    assert some(0, 300) == read(cluster_a, topic), "nothing came back"

    code, document = say(capsys, *take, "--depth", "1000")
    assert (0, "done") == (code, document["flows"][0]["state"]), document
    assert () == (again := cycle(back)).stopped and 0 == again.records, again
    produce(cluster_b, topic, some(0, 5, b"b"))
    assert 5 == cycle(back).records
    assert 0 == cycle(there).records
    assert [*some(0, 300), *some(0, 5, b"b")] == read(cluster_a, topic) == read(cluster_b, topic)
