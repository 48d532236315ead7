"""A copy that another engine makes is observed on real brokers, and nothing of it is changed.

The engine is this test: it copies by hand, and does everything wrong once.  Also tests twinlog.observe.run and
twinlog.observe.lane.  Cost: about 15 s.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lab import (
    NOW,
    Seen,
    commit_group,
    committed,
    configure,
    create_topic,
    grow_topic,
    produce,
    ten_minutes_on,
    topic_names,
)
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.observe.lane import LocalObserveRunner
from twinlog.observe.run import run as observe
from twinlog.state.ledger import read_ledger
from twinlog.topics.snapshot import FlowSnapshot

HOUR = 3_600_000


def some(first: int, end: int) -> list[Seen]:
    return [Seen(b"k%d" % it, b"record %d" % it, NOW - HOUR + it) for it in range(first, end)]


@dataclass(frozen=True)
class Scene:
    """A flow that is only observed, its file, and a copy whose records stand in no offset of their own."""

    flow: FlowSettings
    file: Path
    topic: str
    clusters: dict[str, Any]
    capsys: Any

    def run(self, *words: str, file: Path | None = None) -> tuple[int, dict[str, Any]]:
        self.capsys.readouterr()
        code = main([*words, "--config", str(file or self.file), "--output", "json"])
        return code, json.loads(self.capsys.readouterr().out)

    @property
    def remote(self) -> str:
        return self.flow.remote_name(self.topic)


@pytest.fixture
def scene(cluster_a, cluster_b, unique_topic, tmp_path, capsys) -> Scene:
    """One hundred records; ten copies are there twice, three missing, one is changed, one is a stranger's."""
    topic = create_topic(cluster_a, unique_topic("seen"))
    alias = f"A{topic[-6:]}"
    flow = f"{alias}->B"
    file = configure(
        tmp_path,
        {alias: cluster_a, "B": cluster_b},
        [flow],
        topics=f"{topic},{topic}-nobody",
        groups=f"{topic}.*",
        **{f"{flow}.twinlog.copied.by": "other", "twinlog.reports.folder": str(tmp_path / "reports")},
    )
    made = Scene(load(file).flows[flow], file, topic, {"A": cluster_a, "B": cluster_b}, capsys)
    create_topic(cluster_b, made.remote)
    produce(cluster_a, topic, some(0, 100))
    changed = replace(some(60, 61)[0], value=b"another value")
    stranger = Seen(b"whose", b"is this", NOW)
    copies = [*some(0, 50), *some(40, 50), *some(53, 60), changed, *some(61, 80), stranger, *some(80, 100)]
    produce(cluster_b, made.remote, copies)
    return made


def test_observed_copy(scene, cluster_a, cluster_b, unique_topic, tmp_path):
    """Each finding is named and counted once, positions are judged, and only two own topics are new."""
    create_topic(cluster_a, f"{scene.topic}-nobody")
    commit_group(cluster_a, f"{scene.topic}-group", scene.topic, 45)
    commit_group(cluster_b, f"{scene.topic}-group", scene.remote, 70)
    before = topic_names(cluster_b, "")
    code, first = scene.run("run", "--once")
    assert (0, "done") == (code, first["flows"][0]["state"]), first
    own = {scene.flow.ledger_topic, scene.flow.offset_map_topic}
    assert own == topic_names(cluster_b, "") - before - {"__transaction_state"}
    _, at_once = scene.run("gate", "--still-writing")
    (waits,) = (it for it in at_once["checks"] if it["name"] == "nothing-missing")
    assert (False, True) == (waits["passed"], "3 record(s) have no copy so far" in waits["message"])
    assert 3 == next(it["records"] for it in at_once["topics"] if it["topic"] == scene.topic)
    with ten_minutes_on():
        scene.run("run", "--once")
        report = tmp_path / "report.html"
        code, gate = scene.run("gate", "--still-writing", "--report", str(report))
    seen = gate["observed"]
    assert 1 == code
    assert {"missing": 3, "doubled": 10, "changed": 1, "foreign": 1} == seen["topics"][0]["counts"]
    assert [f"{scene.topic}-nobody"] == seen["not_copied"]
    names = {it["name"] for it in gate["checks"] if not it["passed"] and it["severity"] == "critical"}
    assert {"nothing-missing", "nothing-doubled", "nothing-changed", "nothing-foreign", "copy-there"} <= names
    assert "nothing-reordered" not in names
    (group,) = seen["groups"]
    # The last copy of record 45 stands at 55; from 70 on the records 45 to 49, 53 to 62 would not be read.
    assert (55, True, 70, "committed") == (group["ours"], group["exact"], group["theirs"], group["by"])
    assert (0, 15, 0) == (group["again"], group["skipped"], group["again_by_map"])
    assert 70 == committed(cluster_b, f"{scene.topic}-group", scene.remote)
    assert "Where groups would go on" in report.read_text()

    dead = tmp_path / "dead.properties"
    servers = cluster_a.bootstrap_servers
    dead.write_text(scene.file.read_text().replace(servers, "127.0.0.1:1"))
    code, lost = scene.run("gate", "--mode", "source-dead", file=dead)
    assert (1, seen["topics"][0]["counts"]) == (code, lost["observed"]["topics"][0]["counts"])


def test_the_lag_of_a_busy_copy_is_known_as_of_the_cycle_that_read_it(scene):
    """The engine copies on while a cycle reports: what lagged when it had read is a number, what lags now is none."""
    stop = Event()

    def copy_on() -> None:
        for first in count(100, 10):
            if stop.is_set():
                return
            produce(scene.clusters["A"], scene.topic, some(first, first + 10))
            produce(scene.clusters["B"], scene.remote, some(first, first + 10))

    engine = Thread(target=copy_on)
    engine.start()
    try:
        _, cycle = scene.run("run", "--once")
    finally:
        stop.set()
        engine.join(30)
    for cluster, topic in (("A", scene.topic), ("B", scene.remote)):
        produce(scene.clusters[cluster], topic, some(1_000_000, 1_000_010))
    _, status = scene.run("status")
    (report,), (flow,) = cycle["flows"], status["flows"]
    (topic,) = (it for it in report["topics"] if it["topic"] == scene.topic)
    print(report["lag_records"], topic["lag_records"], flow["lag_records"], flow["lag_when_read"])
    assert report["lag_records"] is not None
    assert (report["lag_records"], None) == (flow["lag_when_read"], flow["lag_records"])
    assert topic["lag_records"] <= sum(it["lag_records"] for it in topic["partitions"])


def test_what_would_change_the_copy_is_refused(scene):
    """A pause, a rebuild, an audit and a take-over say in one line who copies."""
    scene.run("run", "--once")
    for words in (
        ["pause", "--reason", "x"],
        ["topics", "rebuild", "--topic", scene.topic, "--reason", "x"],
        ["migrate", "takeover", "--dry-run"],
        ["audit"],
    ):
        scene.capsys.readouterr()
        assert 2 == main([*words, "--config", str(scene.file)]), words
        assert "copied by other and only observed here" in scene.capsys.readouterr().err


def test_gate_and_groups_say_the_same_of_a_position(scene):
    """Of one that has read what is not copied yet, one before its place, and one that the engine put behind it."""
    produce(scene.clusters["A"], scene.topic, some(100, 120))
    for name, here, there in (("ahead", 110, 90), ("before", 45, 40), ("behind", 45, 70)):
        commit_group(scene.clusters["A"], f"{scene.topic}-{name}", scene.topic, here)
        commit_group(scene.clusters["B"], f"{scene.topic}-{name}", scene.remote, there)
    scene.run("run", "--once")
    with ten_minutes_on():
        scene.run("run", "--once")
        _, gate = scene.run("gate", "--still-writing")
        _, groups = scene.run("groups")
    whys = {it["text"].partition(";")[0] for it in groups["flows"][0]["rows"]}
    assert {"the engine places groups", "it has read on there, or was moved there"} == whys
    told = [
        (it["downstream_offset"], it["exact"], it["expected_duplicates"], it["records_skipped"])
        for it in groups["flows"][0]["rows"]
    ]
    judged = [(it["ours"], it["exact"], it["again"], it["skipped"]) for it in gate["observed"]["groups"]]
    # The copy ends at 108; ten records behind it were read, too.
    assert [(108, True, 28, 0), (55, True, 15, 0), (55, True, 0, 15)] == told
    assert told == judged


def test_nobody_says_that_twinlog_copies(scene):
    """Plan, status and a cycle name what is to read; the topic that nobody copies is named, and not counted."""
    create_topic(scene.clusters["A"], f"{scene.topic}-nobody")
    produce(scene.clusters["A"], f"{scene.topic}-nobody", some(0, 7))
    scene.capsys.readouterr()
    commit_group(scene.clusters["A"], f"{scene.topic}-group", scene.topic, 45)
    said = []
    for words in (["plan"], ["status"], ["run", "--once"], ["plan"]):
        main([*words, "--config", str(scene.file)])
        said.append("".join(scene.capsys.readouterr()))
    planned, never_ran, cycle, after = said
    assert f"nobody has copied {scene.topic}-nobody to B" in planned
    assert "to read, at most 100 records" in planned
    assert "no cycle has ever ended" in never_ran
    assert "at most 100 records to read in 1 partition" in cycle
    assert "nothing to read" in after
    assert [] == [it for it in said if "to copy" in it.replace("--to copy", "")]


def test_two_who_observe_at_once_count_once(scene):
    """Who looked at what another has remembered meanwhile remembers nothing."""
    scene.run("run", "--once")
    produce(scene.clusters["A"], scene.topic, some(100, 120))
    produce(scene.clusters["B"], scene.remote, [*some(100, 120), *some(110, 120)])
    with open_clusters(scene.flow) as clusters:
        seen = [FlowSnapshot(scene.flow, clusters).read_state() for _ in range(2)]
        assert [scene.flow.name] * 2 == [it.discovery.flow for it in seen]
        for it in seen:
            observe(scene.flow, clusters, LocalObserveRunner(), run_id="r", snapshot=it)
        (known,) = read_ledger(scene.flow, clusters.target).observed.values()
    assert 20 == known.counts["doubled"]


def test_a_copy_that_lacks_a_partition_and_a_source_that_lost_records(scene):
    """The missing partition forbids a failover by its name; a copy without its source record is not called foreign."""
    grow_topic(scene.clusters["A"], scene.topic, 2)
    admin = AdminClient({"bootstrap.servers": scene.clusters["A"].bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(scene.topic, 0, 30)]).values():
        deleted.result()
    scene.run("run", "--once")
    _, gate = scene.run("gate", "--still-writing")
    failed = {it["name"] for it in gate["checks"] if not it["passed"] and it["severity"] == "critical"}
    assert {"copy-there", "partition-parity"} <= failed
    (topic,) = gate["observed"]["topics"]
    assert (1, 30) == (topic["counts"]["foreign"], topic["not_comparable"])


def test_what_left_the_copy_before_it_was_read(scene):
    """Somebody deletes copies that no cycle has read: they count, and a group among them has no exact place."""
    scene.run("run", "--once")
    produce(scene.clusters["A"], scene.topic, some(100, 200))
    produce(scene.clusters["B"], scene.remote, some(100, 200))
    for name, place in (("within", 120), ("behind", 180)):
        commit_group(scene.clusters["A"], f"{scene.topic}-{name}", scene.topic, place)
    admin = AdminClient({"bootstrap.servers": scene.clusters["B"].bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(scene.remote, 0, 158)]).values():
        deleted.result()
    scene.run("run", "--once")
    with ten_minutes_on():
        scene.run("run", "--once")
        _, gate = scene.run("gate", "--still-writing")
        _, groups = scene.run("groups")
    failed = {it["name"]: it["message"] for it in gate["checks"] if not it["passed"]}
    assert "partition 0: deleted early 147." in failed["nothing-deleted-early"]  # all but 3 that never came
    assert (
        f"{scene.topic}-within topic {scene.topic} partition 0: missing records 50"
        in failed["group-all-there"]
    )
    told = {it["group"][-6:]: (it["exact"], it["downstream_offset"]) for it in groups["flows"][0]["rows"]}
    assert {"within": (False, 158), "behind": (True, 188)} == told
    judged = {it["group"][-6:]: (it["exact"], it["again_by_map"]) for it in gate["observed"]["groups"]}
    assert {"within": (False, None), "behind": (True, 0)} == judged
