"""Flows that meet: two-way, fan-in, fan-out, chains.  Nothing bounces, every record arrives once.

Each test uses aliases of its own, so that flows of different tests share no internal topic on the session's
clusters.  Costs about a minute and a half, three brokers included.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, configure, create_topic, cycle, produce, produce_transaction, read, topic_names
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.mm2.records import Heartbeat
from twinlog.monitoring import heartbeats

NOW = int(time.time() * 1000)
QUIET = {"emit__heartbeats__enabled": "false", "heartbeats__replication__enabled": "false"}


@dataclass(frozen=True)
class Topology:
    """Clusters under aliases that no other test uses, and the flows between them."""

    suffix: str
    clusters: Mapping[str, Any]
    flows: Mapping[str, FlowSettings]

    def alias(self, letter: str) -> str:
        """The alias of one cluster in this test."""
        return f"{letter}{self.suffix}"

    def __getitem__(self, letter: str) -> Any:
        return self.clusters[letter]

    def path(self, *parts: str) -> str:
        """`path("B", "A", "t")` is the name of A's topic t after two hops."""
        return ".".join([*(self.alias(letter) for letter in parts[:-1]), parts[-1]])

    def flow(self, name: str) -> FlowSettings:
        """The flow between two clusters, by letters: `A->B`."""
        return self.flows["->".join(self.alias(letter) for letter in name.split("->"))]


def connect(
    folder: Path, clusters: Mapping[str, Any], flows: Iterable[str], stem: str, **properties: str
) -> Topology:
    """Configure flows (by letters) over clusters, for every topic with `stem` in its name."""
    suffix = uuid.uuid4().hex[:4]
    named = {f"{letter}{suffix}": cluster for letter, cluster in clusters.items()}
    enabled = ["->".join(f"{letter}{suffix}" for letter in flow.split("->")) for flow in flows]
    path = configure(folder, named, enabled, topics=f".*{stem}.*", **QUIET | properties)
    return Topology(suffix, clusters, load(path).flows)


def turn(topology: Topology, *flows: str) -> list[tuple[str, int]]:
    """One cycle of each flow, in this order: its state, and the records it copied."""
    results = [cycle(topology.flow(name)) for name in flows]
    return [(result.state, result.records) for result in results]


def traffic(cluster: Any, topic: str, number: int) -> int:
    """Fifteen records over two partitions, three of them in a transaction, and three aborted ones."""
    origin = cluster.name.encode()
    records = [Seen(origin, b"%d/%d" % (number, n), NOW + n) for n in range(6)]
    for partition in (0, 1):
        produce(cluster, topic, records, partition)
    produce_transaction(cluster, topic, records[:3], 0)
    produce_transaction(cluster, topic, records[3:], 1, commit=False)
    return 15


def contents(cluster: Any, topic: str) -> list[list[Seen]]:
    """Both partitions, as a read_committed consumer sees them."""
    return [read(cluster, topic, partition) for partition in (0, 1)]


@pytest.mark.long
@pytest.mark.parametrize("left", ["A", "us.A"])
def test_two_way(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, left: str
) -> None:
    """Under one topic name each side has its own and the other's copy; nothing bounces, whatever aliases contain."""
    topic = unique_topic("two")
    here, home = f"{left}->B", f"B->{left}"
    net = connect(tmp_path, {left: cluster_a, "B": cluster_b}, [here, home], topic)
    for cluster in net.clusters.values():
        create_topic(cluster, topic, 2)
    for number in range(3):
        there, back = traffic(net[left], topic, number), traffic(net["B"], topic, number)
        assert turn(net, here, home) == [("done", there), ("done", back)]
    assert turn(net, here, home) == [("nothing", 0)] * 2
    assert topic_names(net[left], topic) == {topic, net.path("B", topic)}
    assert topic_names(net["B"], topic) == {topic, net.path(left, topic)}
    assert contents(net["B"], net.path(left, topic)) == contents(net[left], topic)
    assert contents(net[left], net.path("B", topic)) == contents(net["B"], topic)


def test_fan_in(
    cluster_a: Any, cluster_b: Any, cluster_c: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A->K and B->K: two copies side by side, each equal to its own source."""
    topic = unique_topic("in")
    net = connect(tmp_path, {"A": cluster_a, "B": cluster_b, "K": cluster_c}, ["A->K", "B->K"], topic)
    for letter in "AB":
        create_topic(net[letter], topic, 2)
    for number in range(3):
        counts = [traffic(net[letter], topic, number) for letter in "AB"]
        assert turn(net, "A->K", "B->K") == [("done", count) for count in counts]
    assert turn(net, "B->K", "A->K") == [("nothing", 0)] * 2
    assert topic_names(net["K"], topic) == {net.path("A", topic), net.path("B", topic)}
    for letter in "AB":
        assert topic_names(net[letter], topic) == {topic}
        assert contents(net["K"], net.path(letter, topic)) == contents(net[letter], topic)


def test_fan_out(
    cluster_a: Any, cluster_b: Any, cluster_c: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """K->A and K->B: the same records on both, each flow with a progress of its own."""
    topic = unique_topic("out")
    net = connect(tmp_path, {"A": cluster_a, "B": cluster_b, "K": cluster_c}, ["K->A", "K->B"], topic)
    create_topic(net["K"], topic, 2)
    first = traffic(net["K"], topic, 0)
    assert turn(net, "K->A") == [("done", first)]
    second = traffic(net["K"], topic, 1)
    assert turn(net, "K->A", "K->B") == [("done", second), ("done", first + second)]
    assert turn(net, "K->A", "K->B") == [("nothing", 0)] * 2
    for letter in "AB":
        assert topic_names(net[letter], topic) == {net.path("K", topic)}
        assert contents(net[letter], net.path("K", topic)) == contents(net["K"], topic)


@pytest.mark.long
def test_chain(
    cluster_a: Any, cluster_b: Any, cluster_c: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A->B->C: a record goes one hop a cycle, and its name says the way it came."""
    topic = unique_topic("chain")
    net = connect(tmp_path, {"A": cluster_a, "B": cluster_b, "C": cluster_c}, ["A->B", "B->C"], topic)
    create_topic(net["A"], topic, 2)
    for number in range(3):
        count = traffic(net["A"], topic, number)
        assert turn(net, "A->B", "B->C") == [("done", count)] * 2
    assert turn(net, "A->B", "B->C") == [("nothing", 0)] * 2
    assert topic_names(net["B"], topic) == {net.path("A", topic)}
    assert topic_names(net["C"], topic) == {net.path("B", "A", topic)}
    assert contents(net["C"], net.path("B", "A", topic)) == contents(net["A"], topic)


@pytest.mark.long
def test_ring(
    cluster_a: Any, cluster_b: Any, cluster_c: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A->B->C->A: records travel two hops and stop before they come home."""
    topic = unique_topic("ring")
    clusters = {"A": cluster_a, "B": cluster_b, "C": cluster_c}
    net = connect(tmp_path, clusters, ["A->B", "B->C", "C->A"], topic)
    for letter in "ABC":
        create_topic(net[letter], topic, 2)
        traffic(net[letter], topic, 0)
    for _ in range(2):
        turn(net, "A->B", "B->C", "C->A")
    assert turn(net, "A->B", "B->C", "C->A") == [("nothing", 0)] * 3
    for here, before, first in [("A", "C", "B"), ("B", "A", "C"), ("C", "B", "A")]:
        near, far = net.path(before, topic), net.path(before, first, topic)
        assert topic_names(net[here], topic) == {topic, near, far}
        assert contents(net[here], near) == contents(net[before], topic)
        assert contents(net[here], far) == contents(net[first], topic)


def test_heartbeats_travel_down_a_chain(
    cluster_a: Any, cluster_b: Any, cluster_c: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """`heartbeats` of A is `A.heartbeats` on B and `B.A.heartbeats` on C, and the first flow sees its latency."""
    net = connect(
        tmp_path,
        {"A": cluster_a, "B": cluster_b, "C": cluster_c},
        ["A->B", "B->C"],
        unique_topic("beats"),
        emit__heartbeats__enabled="true",
        heartbeats__replication__enabled="true",
    )
    sent = [beat(net, "B->A") for _ in range(3)]
    for name in ("A->B", "B->C"):
        assert cycle(net.flow(name)).state == "done"
    latency = heartbeats_of(net, "A->B").latency_ms
    for cluster, topic in [("B", net.path("A", "heartbeats")), ("C", net.path("B", "A", "heartbeats"))]:
        assert beats_of(net[cluster], topic, net.alias("B"), net.alias("A")) == sent
    assert latency is not None and 0 <= latency < 60_000
    home = topic_names(net["A"], "heartbeats")
    assert not {name for name in home if net.alias("A") in name.split(".")[1:]}


def beat(net: Topology, name: str) -> int:
    """Let a flow beat once; the beat's time."""
    return heartbeats_of(net, name).timestamp_ms


def heartbeats_of(net: Topology, name: str) -> heartbeats.HeartbeatsResult:
    with open_clusters(net.flow(name)) as clusters:
        return heartbeats.run(net.flow(name), clusters)


def beats_of(cluster: Any, topic: str, source: str, target: str) -> list[int]:
    """Times of the beats of one flow in a topic that other tests' flows may share."""
    beats = [Heartbeat.parse(seen.key or b"", seen.value or b"") for seen in read(cluster, topic)]
    return [it.timestamp_ms for it in beats if (it.source_alias, it.target_alias) == (source, target)]


@pytest.mark.parametrize(
    ("separator", "enabled", "checkpoints"),
    [("__", "true", "{a}__checkpoints__internal"), ("-", "false", "{a}.checkpoints.internal")],
)
def test_a_custom_separator(
    separator: str,
    enabled: str,
    checkpoints: str,
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Remote names carry the separator, internal ones as KIP-949's flag says; nothing bounces over cycles."""
    topic = unique_topic("sep").replace("-", ".")
    net = connect(
        tmp_path,
        {"A": cluster_a, "B": cluster_b},
        ["A->B", "B->A"],
        topic,
        replication__policy__separator=separator,
        replication__policy__internal__topic__separator__enabled=enabled,
    )
    create_topic(net["A"], topic, 2)
    remote = f"{net.alias('A')}{separator}{topic}"
    for number in range(2):
        count = traffic(net["A"], topic, number)
        assert turn(net, "A->B", "B->A") == [("done", count), ("nothing", 0)]
    assert (topic_names(net["A"], topic), topic_names(net["B"], topic)) == ({topic}, {remote})
    assert contents(net["B"], remote) == contents(net["A"], topic)
    assert checkpoints.format(a=net.alias("A")) in topic_names(net["B"], "checkpoints")


def test_identity_policy_one_way(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Names stay as they are, records are equal, over several cycles."""
    topic = unique_topic("same")
    net = connect(
        tmp_path,
        {"A": cluster_a, "B": cluster_b},
        ["A->B"],
        topic,
        replication__policy__class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    create_topic(net["A"], topic, 2)
    for number in range(3):
        count = traffic(net["A"], topic, number)
        assert turn(net, "A->B") == [("done", count)]
    assert turn(net, "A->B") == [("nothing", 0)]
    assert (topic_names(net["A"], topic), topic_names(net["B"], topic)) == ({topic}, {topic})
    assert contents(net["B"], topic) == contents(net["A"], topic)
