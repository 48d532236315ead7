"""Groups of every kind in one report: consumer and streams protocol, static members, share groups, a recreated topic.

Costs about 20 s; the long test is a share group with Kafka's own Java consumer.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from lab import Seen, commit_group, configure, create_topic, cycle, produce
from twinlog.client.pairs import Ask
from twinlog.client.translator import FlowTranslator
from twinlog.cluster.admin.groups import GroupType, OffsetChange
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.groups import checkpoints
from twinlog.groups.report import SyncReason, SyncState
from twinlog.kafka_types import TopicPartition as KafkaPartition
from twinlog.lab.kafka.jars import class_path, tools_jars
from twinlog.lab.kafka.java import find_java
from twinlog.lifecycle import sync_topics

NOW = int(time.time() * 1000)
RECORDS = [Seen(b"%d" % n, b"v", NOW + n) for n in range(50)]


def flow_of_groups(folder: Path, a: Any, b: Any, *topics: str) -> FlowSettings:
    alias = f"A{uuid.uuid4().hex[:5]}"
    settings = {
        "topics": ",".join(topics),
        "groups": f".*{topics[0]}.*",
        "sync__group__offsets__enabled": "true",
        "heartbeats__replication__enabled": "false",
        "emit__heartbeats__enabled": "false",
    }
    path = configure(folder, {alias: a, "B": b}, [f"{alias}->B"], **settings)
    return load(path).flows[f"{alias}->B"]


def member(cluster: Any, group: str, topic: str, **settings: str) -> Consumer:
    """A consumer that has been given its partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        | {key.replace("__", "."): value for key, value in settings.items()}
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        assert time.monotonic() < deadline
        consumer.poll(0.2)
    return consumer


def read_as_member(cluster: Any, group: str, topic: str, count: int, **settings: str) -> None:
    """Commit as a member that has read so many, and go; a static member does not say that it goes."""
    consumer = member(cluster, group, topic, **settings)
    consumer.commit(offsets=[TopicPartition(topic, 0, count)], asynchronous=False)
    consumer.close()


def test_each_is_reported_as_what_it_is(cluster_a, cluster_b, tmp_path, unique_topic) -> None:
    """A group of the new protocol is synced; a static member on B counts until its session ends."""
    topic, anew = (
        create_topic(cluster_a, unique_topic("kinds")),
        create_topic(cluster_a, unique_topic("anew")),
    )
    flow = flow_of_groups(tmp_path, cluster_a, cluster_b, topic, anew)
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    for name in (topic, anew):
        produce(cluster_a, name, RECORDS)
    cycle(flow)
    new, static, odd, recreated = (f"{kind}{topic}" for kind in ("new,", "static:", "ö/ä#", "anew "))
    read_as_member(cluster_a, new, topic, 20, group__protocol="consumer")
    commit_group(cluster_a, static, topic, 30)
    commit_group(cluster_a, odd, topic, 40)
    read_as_member(cluster_b, static, remote, 5, group__instance__id="one", session__timeout__ms="45000")
    there = member(cluster_b, new, remote, group__protocol="consumer")
    with open_clusters(flow) as clusters:
        clusters.source.delete_topics([anew]).require()
        deadline = time.monotonic() + 60
        admin = AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
        while anew in admin.list_topics(timeout=10).topics:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        create_topic(cluster_a, anew)
        produce(cluster_a, anew, RECORDS[:10])
        commit_group(cluster_a, recreated, anew, 3)
        sync_topics.run(flow, clusters)
        found = {row.group: row for row in checkpoints.run(flow, clusters).rows}
        assert {
            new: (20, SyncState.INTENTIONALLY_NOT, SyncReason.ACTIVE_THERE),
            static: (30, SyncState.INTENTIONALLY_NOT, SyncReason.ACTIVE_THERE),
            odd: (40, SyncState.SYNCED, SyncReason.WRITTEN),
            recreated: (None, SyncState.WRONGLY_NOT, SyncReason.NOT_COPIED),
        } == {group: (row.downstream_offset, row.state, row.reason) for group, row in found.items()}
        assert anew in found[recreated].text, found[recreated]
        assert (25, 5) == (found[static].expected_duplicates, found[static].committed_there)
        there.close()
        (again,) = (row for row in checkpoints.run(flow, clusters).rows if row.group == new)
        assert (SyncState.SYNCED, SyncReason.WRITTEN, 20) == (
            again.state,
            again.reason,
            again.committed_there,
        )


def compact(text: str | None) -> bytes:
    return b"\0" if text is None else bytes([len(text.encode()) + 1]) + text.encode()


def streams_heartbeat(cluster: Any, group: str, epoch: int, topic: str) -> int:
    """Join a streams group (epoch 0) or leave it (-1), as Kafka Streams does; return the error code (KIP-1071)."""
    subtopology = compact("0") + b"\x02" + compact(topic) + b"\1\1\1\1\1\0"
    topology = b"\1" + struct.pack(">i", 1) + b"\x02" + subtopology + b"\0" if epoch == 0 else b"\xff"
    tasks = b"\1\1\1" if epoch == 0 else b"\0\0\0"
    body = compact(group) + compact("member-one") + struct.pack(">ii", epoch, -1) + compact(None) * 2
    body += (
        struct.pack(">i", 30_000) + topology + tasks + compact("process-one") + b"\xff" + b"\0\0\0" + b"\0\0"
    )
    request = struct.pack(">hhih", 88, 0, 1, -1) + b"\0" + body
    host, _, port = cluster.bootstrap_servers.split(",")[0].rpartition(":")
    with socket.create_connection((host, int(port)), 20) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.recv(65_536)
    return int(struct.unpack(">h", answer[13:15])[0])


def test_a_streams_group_is_placed_by_its_input(cluster_a, cluster_b, tmp_path, unique_topic) -> None:
    """Its progress is committed offsets; on B its application joins the group that we made, and finds them."""
    topic = create_topic(cluster_a, unique_topic("streams"))
    flow = flow_of_groups(tmp_path, cluster_a, cluster_b, topic)
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    group = f"app-{topic}"
    produce(cluster_a, topic, RECORDS)
    cycle(flow)
    # A group's first heartbeat may find the coordinator loading.
    deadline = time.monotonic() + 30
    while (code := streams_heartbeat(cluster_a, group, 0, topic)) != 0:
        assert code in {14, 15, 16} and time.monotonic() < deadline, code
        time.sleep(0.2)
    with open_clusters(flow) as clusters:
        assert GroupType.STREAMS is next(it.type for it in clusters.source.groups() if it.group == group)
        assert 0 == streams_heartbeat(cluster_a, group, -1, topic)
        commit_group(cluster_a, group, topic, 20)
        result = checkpoints.run(flow, clusters)
        [row] = result.rows
        assert (group, 20, 20, SyncReason.WRITTEN, ()) == (
            row.group,
            row.downstream_offset,
            row.committed_there,
            row.reason,
            result.uncovered,
        )
        assert 0 == streams_heartbeat(cluster_b, group, 0, remote)
        there = clusters.target.committed_offsets([group]).require()[group]
        assert {(remote, 0): (20, -1)} == {it: (at.offset, at.leader_epoch) for it, at in there.items()}
        assert GroupType.STREAMS is next(it.type for it in clusters.target.groups() if it.group == group)


def test_a_member_without_an_offset_is_named_and_its_epochs_are_not_passed_on(
    cluster_a, cluster_b, tmp_path, unique_topic
) -> None:
    """Its first commit ends that; the leader epoch in it is the source's, and nothing of it reaches the target."""
    topic = create_topic(cluster_a, unique_topic("fresh"))
    flow = flow_of_groups(tmp_path, cluster_a, cluster_b, topic)
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    produce(cluster_a, topic, RECORDS)
    cycle(flow)
    for protocol in ("classic", "consumer"):
        group = f"{protocol}-{topic}"
        consumer = member(cluster_a, group, topic, group__protocol=protocol)
        with open_clusters(flow) as clusters:
            named = [it for it in checkpoints.run(flow, clusters).uncovered if it.group == group]
            assert [f"it reads {topic}-0 and has committed nothing there"] == [
                it.reason.partition(":")[0] for it in named
            ]
            consumer.commit(offsets=[TopicPartition(topic, 0, 20, leader_epoch=0)], asynchronous=False)
            assert () == checkpoints.run(flow, clusters).uncovered
            consumer.close()
            here = clusters.source.committed_offsets([group]).require()[group]
            there = clusters.target.committed_offsets([group]).require()[group]
        assert [0] == [it.leader_epoch for it in here.values()]
        assert {(remote, 0): (20, -1)} == {it: (at.offset, at.leader_epoch) for it, at in there.items()}


def test_of_a_source_that_holds_nothing_any_more_nothing_comes_again(
    cluster_a, cluster_b, tmp_path, unique_topic
) -> None:
    """Its records expired before the first cycle: the copy was never filled, and the group is in its exact place."""
    topic = create_topic(cluster_a, unique_topic("expired"))
    flow = flow_of_groups(tmp_path, cluster_a, cluster_b, topic)
    produce(cluster_a, topic, RECORDS)
    commit_group(cluster_a, f"done-{topic}", topic, len(RECORDS))
    with open_clusters(flow) as clusters:
        clusters.source.delete_records(KafkaPartition(topic, 0), len(RECORDS))
        cycle(flow)
        [row] = checkpoints.run(flow, clusters).rows
        [answer] = FlowTranslator(flow, clusters).translate([Ask(topic, 0, len(RECORDS))])
    assert (0, True, False, 0) == (row.downstream_offset, row.exact, row.ahead, row.expected_duplicates)
    assert (0, True, 0) == (answer.downstream_offset, answer.exact, answer.again)


def copied_in_two_cycles(flow: FlowSettings, cluster: Any, topic: str) -> None:
    """Copy with a commit marker between records 19 and 20, so that offsets on the target differ from there on."""
    for part in (RECORDS[:20], RECORDS[20:]):
        produce(cluster, topic, part)
        cycle(flow)


def test_a_share_group_starts_on_the_target_where_the_map_says(
    cluster_a, cluster_b, tmp_path, unique_topic
) -> None:
    """The group is made there; MM2 gets no checkpoint of it, and with the same start nothing is set again."""
    topic = create_topic(cluster_a, unique_topic("start"))
    flow = flow_of_groups(tmp_path, cluster_a, cluster_b, topic)
    remote = KafkaPartition(flow.policy.format_remote_topic(flow.source.alias, topic), 0)
    group = f"shared-{topic}"
    copied_in_two_cycles(flow, cluster_a, topic)
    with open_clusters(flow) as clusters:
        starts = {group: {KafkaPartition(topic, 0): OffsetChange(25, None)}}
        clusters.source.alter_share_starts(starts).require()
        [answer] = FlowTranslator(flow, clusters).translate([Ask(topic, 0, 25)])
        assert 26 == answer.downstream_offset
        for reason in (SyncReason.WRITTEN, SyncReason.UNCHANGED):
            result = checkpoints.run(flow, clusters)
            [row] = result.rows
            assert (group, 26, 26, False, 0, reason) == (
                row.group,
                row.downstream_offset,
                row.committed_there,
                row.exact,
                row.expected_duplicates,
                row.reason,
            )
            assert ((), 0) == (result.uncovered, result.checkpoints)
        [there] = clusters.target.share_starts([group]).require().items()
        assert (group, {remote: 26}) == (there[0], {it: start.offset for it, start in there[1].items()})
        refused = clusters.target.alter_share_starts({group: {remote: OffsetChange(0, 25)}}).refused
        assert ["offset-moved"] == [error.code for error in refused.values()]
        assert {"nobody": {}} == clusters.target.share_starts(["nobody"]).require()


def read_as_share_member(cluster: Any, group: str, topic: str, count: int) -> list[bytes]:
    """Read and acknowledge as Kafka's own Java share consumer; return the values."""
    command = [str(find_java().path), "-cp", class_path(tools_jars())]
    command += ["org.apache.kafka.tools.consumer.ConsoleShareConsumer", "--topic", topic, "--group", group]
    command += ["--bootstrap-server", cluster.bootstrap_servers, "--formatter-property", "print.key=true"]
    command += ["--max-messages", str(count), "--timeout-ms", "10000"]
    found = subprocess.run(command, capture_output=True, timeout=120, check=False).stdout
    return [line.partition(b"\t")[0] for line in found.splitlines()]


@pytest.mark.long
def test_a_share_consumer_goes_on_at_the_next_record_on_the_target(
    cluster_a, cluster_b, tmp_path, unique_topic
) -> None:
    """Before its first acknowledgement the group is named: nobody finds out on the day."""
    topic = create_topic(cluster_a, unique_topic("share"))
    flow = flow_of_groups(tmp_path, cluster_a, cluster_b, topic)
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    group = f"shared-{topic}"
    copied_in_two_cycles(flow, cluster_a, topic)
    assert [] == read_as_share_member(cluster_a, group, topic, 1)  # share.auto.offset.reset is latest
    with open_clusters(flow) as clusters:
        result = checkpoints.run(flow, clusters)
        assert [(group, "share")] == [(it.group, it.type) for it in result.uncovered]
        assert () == result.rows
        starts = {group: {KafkaPartition(topic, 0): OffsetChange(15, None)}}
        clusters.source.alter_share_starts(starts).require()
        assert [b"%d" % n for n in range(15, 22)] == read_as_share_member(cluster_a, group, topic, 7)
        [row] = checkpoints.run(flow, clusters).rows
        assert (22, 23, 23, 0) == (
            row.upstream_offset,
            row.downstream_offset,
            row.committed_there,
            row.expected_duplicates,
        )
        assert [b"22", b"23"] == read_as_share_member(cluster_b, group, remote, 2)
        [row] = checkpoints.run(flow, clusters).rows
        assert (SyncReason.READ_ON_THERE, 25) == (row.reason, row.committed_there)
