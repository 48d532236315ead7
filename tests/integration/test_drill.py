"""A drill on real brokers: real consumers join cloned groups, and nothing is left of them.  Cost: about 30 s."""

from __future__ import annotations

import json
import time
import uuid
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

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
from twinlog.cli.main import main
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.formats.ledger.recovery import DrillRun, DrillState
from twinlog.groups import checkpoints
from twinlog.state.ledger import read_ledger, write_ledger

NOW = int(time.time() * 1000)
KILLED = "drill-20260101T000000Z-0000aa"
UNKNOWN = "drill-20260101T000000Z-0000bb-billing"


def seen(number: int) -> Seen:
    """A record that differs from its neighbours in every field."""
    return Seen(b"k%d" % number, b"%d" % number, NOW + number, (("h", b"%d" % number),))


def test_clones_read_the_right_records_and_nothing_is_left(cluster_a, cluster_b, tmp_path: Path) -> None:
    """Aborted transactions move offsets apart; a stray record in the copy is noticed; the clones of a dead drill go."""
    suffix = uuid.uuid4().hex[:5]
    name, topic, group = f"A{suffix}->B{suffix}", f"drill-orders-{suffix}", f"billing-{suffix}"
    ends = f"ends-{suffix}"
    file = configure(
        tmp_path,
        {f"A{suffix}": cluster_a, f"B{suffix}": cluster_b},
        [name],
        topics=topic,
        groups=f".*{suffix}",
        heartbeats__replication__enabled="false",
        heartbeats__topic__replication__factor="1",
        twinlog__rpo__seconds="20",
    )
    flow = load(file).flows[name]

    def drilled(*words: str) -> tuple[int, dict]:
        out = StringIO()
        with redirect_stdout(out):
            code = main(["drill", *words, "--config", str(file), "--output", "json"])
        return code, json.loads(out.getvalue())

    create_topic(cluster_a, topic, 2)
    produce_transaction(cluster_a, topic, [seen(it) for it in range(3)], 0, commit=False)
    for partition in range(2):
        produce(cluster_a, topic, [seen(it) for it in range(10, 20)], partition)
    cycle(flow)
    commit_group(cluster_a, group, topic, 7, 0)
    commit_group(cluster_a, group, topic, 0, 1)
    commit_group(cluster_a, ends, topic, 10, 1)
    with open_clusters(flow) as clusters:
        write_ledger(
            flow,
            clusters.target,
            [DrillRun(KILLED, DrillState.OPEN, "jo", 7, 7, clones=(f"{KILLED}-{group}",))],
        )
    copy = f"A{suffix}.{topic}"
    commit_group(cluster_b, f"{KILLED}-{group}", copy, 1)
    commit_group(cluster_b, UNKNOWN, copy, 1)

    code, report = drilled()
    assert (0, "passed") == (code, report["state"]), json.dumps(report, indent=1)
    rows = {(it["group"], it["partition"]): it for it in report["groups"]}
    first = rows[group, 0]
    assert ("right", 7, 7, True, True, 0, 0) == (
        first["found"],
        first["upstream_offset"],
        first["read_upstream"],
        first["compared"],
        first["exact"],
        first["again"],
        first["skipped"],
    )
    assert first["read_offset"] != 7
    assert ("right", 0) == (rows[group, 1]["found"], rows[group, 1]["read_upstream"])
    assert "nothing-to-read" == rows[ends, 1]["found"]
    assert 0 < report["rto_seconds"] < 60
    assert 0 == report["rpo_seconds"]
    with open_clusters(flow) as clusters:
        left = {
            it.group
            for it in clusters.target.groups()
            if it.group.startswith("drill-") and suffix in it.group
        }
        assert set() == left
        assert UNKNOWN in {it.group for it in clusters.target.groups()}
        assert (DrillState.KILLED, ()) == next(
            (it.state, it.clones) for it in read_ledger(flow, clusters.target).drills if it.run == KILLED
        )
        clusters.target.delete_groups([UNKNOWN])

    code, alone = drilled("--groups", "ends.*")
    assert (1, "waiting") == (code, alone["state"])

    with open_clusters(flow) as clusters:  # what a failover without the source has
        checkpoints.run(flow, clusters)
    commit_group(cluster_a, group, topic, 9, 0)
    for words, begun in (((), 9), (("--mode", "source-dead"), 7)):
        code, placed = drilled("--groups", f"{group}.*", *words)
        rows = {it["partition"]: it for it in placed["groups"]}
        assert (0, "right", begun) == (code, rows[0]["found"], rows[0]["read_upstream"]), placed

    waits = int(time.time() * 1000) - 25_000
    produce(cluster_a, topic, [Seen(b"k", b"late", waits) for _ in range(3000)], 0)
    code, late = drilled("--groups", f"{group}.*")
    assert (1, "failed") == (code, late["state"])
    assert f"records of {topic} wait for 2" in late["message"], late["message"]

    produce(cluster_b, copy, [seen(99)], 1)
    code, wrong = drilled("--groups", "ends.*")
    assert (1, "failed", "wrong") == (code, wrong["state"], wrong["groups"][0]["found"]), wrong
    code, history = drilled("history")
    assert (0, ["failed", "failed", "passed", "passed", "waiting", "passed", "killed"]) == (
        code,
        [it["state"] for it in history["runs"]],
    )


def test_with_unchanged_names_both_maps_tell_what_is_unread(cluster_a, cluster_b, tmp_path: Path) -> None:
    """A group that has read some of the other side's records on its own side goes on at the first that it has not."""
    suffix = uuid.uuid4().hex[:5]
    left, right, topic = f"A{suffix}", f"B{suffix}", f"drill-home-{suffix}"
    for cluster in (cluster_a, cluster_b):
        create_topic(cluster, topic)
    file = configure(
        tmp_path,
        {left: cluster_a, right: cluster_b},
        [f"{left}->{right}", f"{right}->{left}"],
        topics=topic,
        groups=f".*{suffix}",
        emit__heartbeats__enabled="false",
        heartbeats__replication__enabled="false",
        replication__policy__class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    flows = load(file).flows
    produce(cluster_a, topic, [seen(it) for it in range(10)])
    cycle(flows[f"{left}->{right}"])
    produce(cluster_b, topic, [seen(it) for it in range(100, 105)])
    cycle(flows[f"{right}->{left}"])
    produce(cluster_a, topic, [seen(it) for it in range(200, 203)])
    cycle(flows[f"{left}->{right}"])
    for number, offset in enumerate((4, 12, 15)):
        commit_group(cluster_a, f"g{number}-{suffix}", topic, offset)
    out = StringIO()
    with redirect_stdout(out):
        code = main(["drill", "--flow", f"{left}->{right}", "--config", str(file), "--output", "json"])
    report = json.loads(out.getvalue())
    assert (0, "passed") == (code, report["state"]), json.dumps(report, indent=1)
    assert [("right", 4, True), ("right", 12, True), ("right", 16, True)] == [
        (it["found"], it["read_upstream"], it["compared"]) for it in report["groups"]
    ]
    values = {offset: it.value for offset, it in read_with_offsets(cluster_b, topic)}
    assert [b"4", b"102", b"200"] == [values[it["read_offset"]] for it in report["groups"]]
