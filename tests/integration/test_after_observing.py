"""What follows from an observed copy, on real brokers: it is failed over, taken over, and left behind by a hand-over.

Cost: about 40 s with its brokers; with the real MirrorMaker 2 (long) two
minutes more.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from test_mirror_maker import share, wait_until_copied

from lab import (
    NOW,
    Seen,
    commit_group,
    committed,
    configure,
    create_topic,
    produce,
    read_with_offsets,
    ten_minutes_on,
)
from twinlog.cli.main import main
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.lab.kafka.mirror_maker import MirrorMaker

HOUR = 3_600_000
MM2_NAMES, SAME_NAMES = (
    f"org.apache.kafka.connect.mirror.{name}ReplicationPolicy" for name in ("Default", "Identity")
)


def some(first: int, end: int) -> list[Seen]:
    return [Seen(b"k%d" % it, b"record %d" % it, NOW - HOUR + it) for it in range(first, end)]


@dataclass(frozen=True)
class Scene:
    """An observed flow, its file, its topic on both clusters."""

    flow: FlowSettings
    file: Path
    topic: str
    source: Any
    target: Any
    capsys: Any

    @property
    def remote(self) -> str:
        return self.flow.remote_name(self.topic)

    def run(self, *words: str, file: Path | None = None) -> tuple[int, dict[str, Any]]:
        self.capsys.readouterr()
        code = main([*words, "--config", str(file or self.file), "--output", "json"])
        out, err = self.capsys.readouterr()
        print(err)
        return code, json.loads(out) if out else {}

    def groups(self, **places: tuple[int, int]) -> None:
        """Groups that stand here on the source, and there on the target, where the engine has put them."""
        for name, (here, there) in places.items():
            commit_group(self.source, f"{self.topic}-{name}", self.topic, here)
            commit_group(self.target, f"{self.topic}-{name}", self.remote, there)

    def next_read(self, name: str) -> bytes | None:
        """What the group reads first on the target, None at its end."""
        place = committed(self.target, f"{self.topic}-{name}", self.remote)
        later = [
            seen.value for offset, seen in read_with_offsets(self.target, self.remote) if offset >= place
        ]
        return later[0] if later else None


@pytest.fixture
def scene(request, cluster_a, cluster_b, unique_topic, tmp_path, capsys) -> Scene:
    """One hundred records; the engine restarted behind eighty, and copied the last forty of them again."""
    topic = create_topic(cluster_a, unique_topic("over"), retention_ms="604800000")
    alias = f"A{topic[-6:]}"
    name = f"{alias}->B"
    file = configure(
        tmp_path,
        {alias: cluster_a, "B": cluster_b},
        [name],
        topics=topic,
        groups=f"{topic}.*",
        **{
            f"{name}.twinlog.copied.by": "other",
            "twinlog.reports.folder": str(tmp_path / "reports"),
            "twinlog.gate.fence.seconds": "1",
            "twinlog.failover.wait.seconds": "5",
            "twinlog.failover.stop.command": "true",
            "replication.policy.class": getattr(request, "param", MM2_NAMES),
            "heartbeats.replication.enabled": "false",
            "twinlog.gate.free.disk.percent": "0",
        },
    )
    made = Scene(load(file).flows[name], file, topic, cluster_a, cluster_b, capsys)
    create_topic(cluster_b, made.remote, retention_ms="604800000")
    produce(cluster_a, topic, some(0, 100))
    produce(cluster_b, made.remote, [*some(0, 80), *some(40, 100)])
    return made


def steps(report: dict[str, Any]) -> dict[str, str]:
    return {it["name"]: it["state"] for it in report["steps"]}


def said(report: dict[str, Any], step: str) -> str:
    return next(it["message"] for it in report["steps"] if it["name"] == step)


def test_planned(scene: Scene) -> None:
    """What the engine doubled wants a yes; every group goes on at its first unread record, whatever the engine did."""
    scene.groups(first=(10, 10), again=(50, 20), ahead=(60, 130), done=(100, 140))
    scene.run("run", "--once")
    code, dry = scene.run("failover", "--mode", "planned", "--dry-run")
    assert ["nothing-doubled"] == [it["check"] for it in dry["accept"]], dry["steps"]
    code, refused = scene.run("failover", "--mode", "planned", "--yes")
    assert (1, "failed") == (code, steps(refused)["fence-producers"])
    scene.run(
        "accept", "nothing-doubled", "--for", scene.topic, "--up-to", "40", "--reason", "clients bear it"
    )
    code, report = scene.run("failover", "--mode", "planned", "--yes")
    assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)
    assert {"first": b"record 10", "again": b"record 50", "ahead": b"record 60", "done": None} == {
        name: scene.next_read(name) for name in ("first", "again", "ahead", "done")
    }
    assert 0.0 == report["rpo_seconds"]
    produce(scene.target, scene.remote, [Seen(b"new", b"of a client", NOW)])
    _, cycle = scene.run("run", "--once")
    assert 0 == cycle["flows"][0]["records"]


def test_an_engine_that_nobody_stops_keeps_it_waiting(scene: Scene) -> None:
    """Without a command, or with one that fails, nothing is placed; an abort says what is left to do."""
    scene.groups(first=(10, 10))
    scene.run("run", "--once")
    scene.run(
        "accept", "nothing-doubled", "--for", scene.topic, "--up-to", "40", "--reason", "clients bear it"
    )
    for command, why in (("", "is not set"), ("false", "ended with 1")):
        text = scene.file.read_text().replace("stop.command = true", f"stop.command = {command}")
        other = scene.file.with_name("other.properties")
        other.write_text(text)
        code, report = scene.run("failover", "--mode", "planned", "--yes", file=other)
        assert (1, "waiting", "waiting") == (code, report["state"], steps(report)["stopped"])
        assert why in said(report, "stopped")
        assert "planned" == steps(report)["groups"]
    code, cycle = scene.run("run", "--once")
    assert (0, 0) == (code, cycle["flows"][0]["records"])
    code, _ = scene.run("recovery", "abort", "--reason", "not today")
    assert 0 == code
    produce(scene.source, scene.topic, some(100, 110))
    produce(scene.target, scene.remote, some(100, 110))
    _, cycle = scene.run("run", "--once")
    assert 10 == cycle["flows"][0]["records"]


def test_source_dead(scene: Scene) -> None:
    """What was observed last stands; who is to stop the engine is named, and stops nothing."""
    scene.groups(first=(10, 10))
    scene.run("run", "--once")
    text = scene.file.read_text().replace(scene.source.bootstrap_servers, "127.0.0.1:1")
    dead = scene.file.with_name("dead.properties")
    dead.write_text(text.replace("stop.command = true", "stop.command = "))
    _, dry = scene.run("failover", "--mode", "source-dead", "--dry-run", file=dead)
    assert "nothing-doubled" in {it["check"] for it in dry["accept"]}
    words = ("--accept", "the site is lost", "--seen", dry["seen"])
    code, report = scene.run("failover", "--mode", "source-dead", *words, file=dead)
    assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)
    assert "does not go on once" in said(report, "stopped")
    assert b"record 10" == scene.next_read("first")


@pytest.mark.parametrize(("scene", "depth"), [(MM2_NAMES, "10"), (SAME_NAMES, "10000")], indirect=["scene"])
def test_taken_over(scene: Scene, depth: str) -> None:
    """What the engine doubled is no difference to an audit in full; what a stranger writes later is one."""
    scene.run("run", "--once")
    with ten_minutes_on():
        scene.run("run", "--once")
    commit_group(scene.source, f"engine-{scene.topic}", scene.topic, 100)
    own = scene.file.with_name("own.properties")
    own.write_text(scene.file.read_text().replace("copied.by = other", "copied.by = twinlog"))
    words = ("--source-group", f"engine-{scene.topic}", "--depth", depth)
    code, taken = scene.run("migrate", "takeover", *words, file=own)
    assert (0, "done") == (code, taken["flows"][0]["state"]), taken
    produce(scene.source, scene.topic, some(100, 110))
    code, cycle = scene.run("run", "--once", file=own)
    assert (0, 10) == (code, cycle["flows"][0]["records"]), cycle
    code, audit = scene.run("audit", "--full", file=own)
    assert (0, True, 110) == (code, audit["equal"], audit["records"]), audit
    log = [seen for _, seen in read_with_offsets(scene.target, scene.remote)]
    assert [*some(0, 80), *some(40, 110)] == log
    produce(scene.target, scene.remote, [Seen(b"whose", b"is this", NOW)])
    code, audit = scene.run("audit", "--full", file=own)
    assert (1, 1) == (code, audit["difference_count"]), audit


@pytest.mark.mm2
@pytest.mark.long
def test_handed_over(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """MirrorMaker 2 goes on behind twinlog's copies; observing goes on there, too, and reads nothing again."""
    topic = create_topic(cluster_a, unique_topic("on"))
    shared = share(tmp_path, cluster_a, cluster_b, topic, groups=f"{topic}.*")
    own, observing = tmp_path / "own.properties", tmp_path / "observing.properties"
    own.write_text(shared.text)
    observing.write_text(f"{shared.text}\n{shared.flow.name}.twinlog.copied.by = mirrormaker2\n")
    scene = Scene(shared.flow, own, topic, cluster_a, cluster_b, capsys)
    produce(cluster_a, topic, some(0, 300))
    _, cycle = scene.run("run", "--once")
    assert 300 == cycle["flows"][0]["records"]
    code, handed = scene.run("migrate", "handover")
    assert (0, "done") == (code, handed["flows"][0]["state"]), handed
    mirror_maker = start_mirror_maker(shared.text)
    produce(cluster_a, topic, some(300, 500))
    commit_group(cluster_a, f"{topic}-old", topic, 120)
    commit_group(cluster_a, f"{topic}-new", topic, 420)
    wait_until_copied(mirror_maker, cluster_b, scene.remote, 500)
    code, cycle = scene.run("run", "--once", file=observing)
    assert (0, 200) == (code, cycle["flows"][0]["records"]), cycle
    with ten_minutes_on():
        scene.run("run", "--once", file=observing)
        _, gate = scene.run("gate", "--still-writing", file=observing)
    (seen,) = gate["observed"]["topics"]
    assert ({}, 200) == (seen["counts"], seen["equal"])
    assert [(500, 500)] == [(it["records"], it["proved"]) for it in gate["coverage"]]
    log = {it.value: offset for offset, it in read_with_offsets(cluster_b, scene.remote)}
    expected = {f"{topic}-old": log[b"record 120"], f"{topic}-new": log[b"record 420"]}
    assert expected == {it["group"]: it["ours"] for it in gate["observed"]["groups"] if it["exact"]}


@pytest.mark.mm2
@pytest.mark.long
@pytest.mark.parametrize("doubled", [False, True], ids=["sound", "doubled"])
def test_mirror_maker(
    start_mirror_maker: Callable[[str], MirrorMaker],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    doubled: bool,
) -> None:
    """It places groups itself meanwhile, is stopped by the command, and each group goes on at the right record."""
    topic = create_topic(cluster_a, unique_topic("mm2"))
    keys = {"sync.group.offsets.enabled": "true", "groups": f"{topic}.*"}
    keys |= {f"{it}.interval.seconds": "1" for it in ("emit.checkpoints", "sync.group.offsets")}
    shared = share(tmp_path, cluster_a, cluster_b, topic, **keys)
    text = shared.text.replace("offset.flush.interval.ms = 1000", "offset.flush.interval.ms = 60000")
    produce(cluster_a, topic, some(0, 2_000))
    commit_group(cluster_a, f"{topic}-half", topic, 700)
    commit_group(cluster_a, f"{topic}-done", topic, 2_000)
    mirror_maker, remote = start_mirror_maker(text), shared.remote(topic)
    wait_until_copied(mirror_maker, cluster_b, remote, 2_000)
    if doubled:
        mirror_maker.kill()
        mirror_maker.start()
        wait_until_copied(mirror_maker, cluster_b, remote, 4_000)
    produce(cluster_a, topic, some(2_000, 2_500))
    commit_group(cluster_a, f"{topic}-half", topic, 1_700)
    commit_group(cluster_a, f"{topic}-done", topic, 2_500)
    wait_until_copied(mirror_maker, cluster_b, remote, 4_500 if doubled else 2_500)
    time.sleep(3)  # it places groups once a second
    name, file = shared.flow.name, tmp_path / "observing.properties"
    stop = f"{sys.executable} -c 'import os; os.kill({mirror_maker.pid}, 15)'"
    lines = {
        f"{name}.twinlog.copied.by": "mirrormaker2",
        "twinlog.failover.stop.command": stop,
        "twinlog.reports.folder": str(tmp_path / "reports"),
        "twinlog.gate.fence.seconds": "1",
        "twinlog.gate.free.disk.percent": "0",
    }
    file.write_text("\n".join([text, *(f"{key} = {value}" for key, value in lines.items())]))
    scene = Scene(shared.flow, file, topic, cluster_a, cluster_b, capsys)
    scene.run("run", "--once")
    _, dry = scene.run("failover", "--mode", "planned", "--dry-run")
    assert (["nothing-doubled"] if doubled else []) == [it["check"] for it in dry["accept"]], dry["steps"]
    words = ("--accept", "clients bear it", "--seen", dry["seen"]) if doubled else ("--yes",)
    idle = tmp_path / "idle.properties"
    idle.write_text(f"{file.read_text().replace(stop, 'true')}\ntwinlog.failover.wait.seconds = 1\n")
    _, waiting = scene.run("failover", "--mode", "planned", *words, file=idle)
    assert ("waiting", "waiting") == (waiting["state"], steps(waiting)["stopped"])
    worker = f"its worker group {shared.flow.worker_group} on {shared.flow.target.alias} has 1 member(s)"
    assert worker in said(waiting, "stopped")
    code, report = scene.run("failover", "--mode", "planned", "--yes")
    assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)
    assert f"before the stop command {worker}, and now none" in said(report, "stopped")
    assert (b"record 1700", None) == (scene.next_read("half"), scene.next_read("done"))
    assert report["rpo_seconds"] == 0.0


def test_followed(scene: Scene) -> None:
    """`run --for` looks again and again; the last look is reported, and without Spark."""
    file = scene.file.with_name("often.properties")
    file.write_text(f"{scene.file.read_text()}\ntwinlog.follow.seconds = 1\n")
    code, seen = scene.run("run", "--for", "6s", file=file)
    assert (0, 0) == (code, seen["flows"][0]["records"]), seen
    assert 1 < seen["flows"][0]["windows"]
    _, gate = scene.run("gate", "--still-writing")
    assert {"doubled": 40} == gate["observed"]["topics"][0]["counts"]
