"""MM2's own Java client, console formatters and checkpoint connector read what we wrote, and read it right.

Costs about 15 s, and 40 s more for the connector (marker mm2).
"""

from __future__ import annotations

import re
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from lab import (
    Seen,
    commit_group,
    configure,
    create_topic,
    cycle,
    produce,
    produce_transaction,
    read_with_offsets,
)
from twinlog import clock
from twinlog.cluster.api import Cluster, open_clusters
from twinlog.config.flow.load import Configuration, load
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.mm2.records import Checkpoint
from twinlog.groups import checkpoint_upkeep, checkpoints
from twinlog.lab.kafka.jars import class_path, mirror_maker_jars
from twinlog.lab.kafka.java import find_java
from twinlog.monitoring import heartbeats
from twinlog.offset_sync import emit
from twinlog.state.internal_topics import CUT_BY_OFFSET

PROGRAM = Path(__file__).parent / "ReadAsMirrorClient.java"
NOW = int(time.time() * 1000)
ONE_REPLICA = dict.fromkeys(
    (
        "offset-syncs__topic__replication__factor",
        "checkpoints__topic__replication__factor",
        "heartbeats__topic__replication__factor",
        "status__storage__replication__factor",
        "config__storage__replication__factor",
    ),
    "1",
)


def read_as_java(*arguments: str) -> list[str]:
    command = [
        str(find_java().path),
        "-Xshare:auto",
        "-cp",
        class_path(mirror_maker_jars()),
        str(PROGRAM),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def fill(cluster: Any, topic: str, first: int, count: int) -> None:
    half = count // 2
    produce(cluster, topic, [Seen(b"%d" % n, b"x" * 50, NOW) for n in range(first, first + half)])
    produce_transaction(cluster, topic, [Seen(b"aborted", b"x", NOW)] * 5, commit=False)
    produce_transaction(
        cluster, topic, [Seen(b"%d" % n, b"x" * 50, NOW) for n in range(first + half, first + count)]
    )


def beat(configuration: Configuration, name: str) -> None:
    with open_clusters(configuration.flows[name]) as clusters:
        heartbeats.run(configuration.flows[name], clusters)


def sync(flow: FlowSettings) -> checkpoints.CheckpointsResult:
    with open_clusters(flow) as clusters:
        assert emit.run(flow, clusters).syncs
        return checkpoints.run(flow, clusters)


def test_the_java_client_and_formatters_read_what_we_wrote(cluster_a, cluster_b, tmp_path, unique_topic):
    """translateOffsets, upstreamClusters, replicationHops, and every record of the three topics, word by word."""
    suffix = uuid.uuid4().hex[:4]
    a, b, topic = f"us{suffix}", f"eu{suffix}", create_topic(cluster_a, unique_topic("java"))
    group = f"a group, of: {topic}/é"
    path = configure(
        tmp_path,
        {a: cluster_a, b: cluster_b},
        [f"{a}->{b}"],
        topics=topic,
        groups=f".*{topic}.*",
        **{"consumer__isolation__level": "read_committed"},
    )
    configuration = load(path)
    flow = configuration.flows[f"{a}->{b}"]
    fill(cluster_a, topic, 0, 300)
    beat(configuration, f"{b}->{a}")
    cycle(flow)
    beat(configuration, flow.name)
    commit_group(cluster_a, group, topic, 120)
    commit_group(cluster_a, f"deleted {topic}", topic, 60)
    assert 2 == sync(flow).checkpoints
    Cluster(flow.source).delete_groups([f"deleted {topic}"]).require()
    fill(cluster_a, topic, 300, 10)
    cycle(flow)
    (row,) = sync(flow).rows
    assert (row.exact, row.expected_duplicates, row.downstream_offset is not None) == (True, None, True)
    lines = read_as_java(
        cluster_b.bootstrap_servers,
        a,
        group,
        *(cluster_a.bootstrap_servers, f"mm2-offset-syncs.{b}.internal", "OffsetSyncFormatter"),
        *(cluster_b.bootstrap_servers, f"{a}.checkpoints.internal", "CheckpointFormatter"),
        *(cluster_b.bootstrap_servers, "heartbeats", "HeartbeatFormatter"),
    )
    remote = f"{a}.{topic}"
    assert lines[0] == "hops 1"
    assert lines[1].startswith("upstream [") and a in lines[1]
    assert lines[2] == f"offset {remote}-0 {row.downstream_offset} "
    assert (
        f"Checkpoint{{consumerGroupId={group}, topicPartition={remote}-0, upstreamOffset=120,"
        f" downstreamOffset={row.downstream_offset}, metadata=}}"
    ) in lines
    assert any(
        line.startswith(f"Heartbeat{{sourceClusterAlias={a}, targetClusterAlias={b}, timestamp=")
        for line in lines
    )
    assert_syncs_are_true(lines, cluster_a, cluster_b, topic, remote)


def test_the_java_client_reads_on_when_old_checkpoints_were_deleted(
    cluster_a, cluster_b, tmp_path, unique_topic, monkeypatch
):
    """Of a group that ended a month ago nothing is left in MM2's topic, and no tombstone stops the client."""
    suffix = uuid.uuid4().hex[:4]
    a, b, topic = f"us{suffix}", f"eu{suffix}", create_topic(cluster_a, unique_topic("ended"))
    group, ended = f"alive {topic}", f"ended {topic}"
    create_topic(cluster_b, kept := f"{a}.checkpoints.internal", cleanup_policy="compact")
    path = configure(tmp_path, {a: cluster_a, b: cluster_b}, [f"{a}->{b}"], topics=topic, groups=f".*{topic}")
    flow = load(path).flows[f"{a}->{b}"]
    fill(cluster_a, topic, 0, 100)
    cycle(flow)
    commit_group(cluster_a, ended, topic, 20)
    commit_group(cluster_a, group, topic, 20)
    monkeypatch.setattr(checkpoint_upkeep, "WORTH_IT", 1)
    monkeypatch.setattr(clock, "now_ms", lambda: NOW - checkpoint_upkeep.KEPT_MS - 3_600_000)
    assert 2 == sync(flow).checkpoints
    Cluster(flow.source).delete_groups([ended]).require()
    for at, expected in ((NOW - 3_600_000, (1, 0, 1, ())), (NOW, (1, 1, 1, ())), (NOW, (0, 0, 0, ()))):
        monkeypatch.setattr(clock, "now_ms", lambda at=at: at)
        with open_clusters(flow) as clusters:
            result = checkpoints.run(flow, clusters)
        assert expected == (result.ended, result.deleted, result.checkpoints, result.notes)
    target = Cluster(flow.target)
    assert [group] == [it.group for it in checkpoints_of(target, kept)]
    assert CUT_BY_OFFSET == {
        name: value.value
        for name, value in target.topic_configs([kept]).require()[kept].items()
        if name in CUT_BY_OFFSET
    }
    beat(load(path), flow.name)
    lines = read_as_java(
        cluster_b.bootstrap_servers, a, group, *(cluster_b.bootstrap_servers, kept, "CheckpointFormatter")
    )
    assert any(line.startswith(f"offset {a}.{topic}-0 20 ") for line in lines)
    assert not any(ended in line for line in lines)


def assert_syncs_are_true(lines: list[str], a: Any, b: Any, topic: str, remote: str) -> None:
    """Each sync names one record on both sides, by its key."""
    pattern = rf"OffsetSync\{{topicPartition={topic}-0, upstreamOffset=(\d+), downstreamOffset=(\d+)\}}"
    pairs = [tuple(map(int, found.groups())) for line in lines if (found := re.fullmatch(pattern, line))]
    here = {offset: seen.key for offset, seen in read_with_offsets(a, topic)}
    there = {offset: seen.key for offset, seen in read_with_offsets(b, remote)}
    assert len(pairs) > 2
    assert [here[up] for up, _ in pairs] == [there[down] for _, down in pairs]
    assert pairs[-1] == (max(here), max(there))


@pytest.mark.mm2
def test_mm2s_checkpoint_connector_runs_on_our_copies(
    cluster_a, cluster_b, tmp_path, unique_topic, start_mirror_maker
):
    """It translates by our syncs: never beyond the exact position, and exactly at the end of the copy."""
    suffix = uuid.uuid4().hex[:4]
    a, b, topic = f"us{suffix}", f"eu{suffix}", create_topic(cluster_a, unique_topic("connector"))
    path = configure(
        tmp_path,
        {a: cluster_a, b: cluster_b},
        [f"{a}->{b}"],
        topics=topic,
        groups=f".*{topic}",
        emit__heartbeats__enabled="false",
        heartbeats__replication__enabled="false",
        sync__topic__acls__enabled="false",
        sync__topic__configs__enabled="false",
        emit__checkpoints__interval__seconds="1",
        refresh__groups__interval__seconds="1",
        **ONE_REPLICA,
    )
    flow = load(path).flows[f"{a}->{b}"]
    fill(cluster_a, topic, 0, 2000)
    cycle(flow)
    end = read_with_offsets(cluster_a, topic)[-1][0] + 1
    committed = {f"g{at}-{topic}": at for at in (0, 700, 1500, end - 1, end)}
    for group, at in committed.items():
        commit_group(cluster_a, group, topic, at)
    with open_clusters(flow) as clusters:
        assert emit.run(flow, clusters).syncs
        exact = {
            row.group: row.downstream_offset for row in checkpoints.run(flow, clusters, dry_run=True).rows
        }
        start_mirror_maker(path.read_text())
        found: dict[str, int] = {}
        deadline = time.monotonic() + 150
        translated = {f"g{at}-{topic}" for at in (1500, end - 1, end)}
        while not translated <= set(found) and time.monotonic() < deadline:
            time.sleep(1)
            latest = checkpoints_of(clusters.target, f"{a}.checkpoints.internal")
            found = {it.group: it.downstream_offset for it in latest}
    assert found[f"g{end}-{topic}"] == exact[f"g{end}-{topic}"]
    assert found[f"g{end - 1}-{topic}"] == exact[f"g{end - 1}-{topic}"]
    assert all(found[group] <= exact[group] for group in found)
    assert translated <= set(found)


def checkpoints_of(cluster: Any, topic: str) -> list[Checkpoint]:
    if cluster.describe_topics([topic]).refused:
        return []
    return [Checkpoint.parse(key, value) for key, value in cluster.latest(topic).items() if value is not None]
