"""An observed flow of a real Kafka Connect cluster is failed over by the page's recipe; a killed watch goes on.

Takes about a minute and a half.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from test_after_observing import Scene, said, some, steps
from test_mirror_maker import share

from lab import commit_group, create_topic, produce, read_with_offsets, wait_until
from twinlog.lab.kafka.jars import class_path, mirror_maker_jars
from twinlog.lab.kafka.java import find_java
from twinlog.lab.kafka.node import JVM
from twinlog.lab.kafka.ports import free_ports
from twinlog.lab.kafka.process import JavaProcess

pytestmark = [pytest.mark.mm2, pytest.mark.long]

PAGE = Path(__file__).parents[2] / "docs/howto/migrate.md"


class Connect:
    """A distributed worker with MirrorMaker's connectors, spoken to by REST."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, path: str, body: dict[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self.address}/{path}",
            data,
            {"Content-Type": "application/json"},
            method="GET" if body is None else "PUT",
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def states(self, connector: str) -> list[str]:
        """The state of the connector and of its tasks; none as long as it does not answer."""
        with suppress(OSError):
            status = self.ask(f"connectors/{connector}/status")
            return [status["connector"]["state"], *(it["state"] for it in status["tasks"])]
        return []


@contextmanager
def worker(folder: Path, group: str, target: Any) -> Iterator[Connect]:
    """Run a worker, until it answers; it dies with us."""
    port = next(free_ports())
    converter = "org.apache.kafka.connect.json.JsonConverter"
    keys = {
        "bootstrap.servers": target.bootstrap_servers,
        "group.id": group,
        "key.converter": converter,
        "value.converter": converter,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.flush.interval.ms": "1000",
    }
    for kind in ("offset", "config", "status"):
        keys |= {f"{kind}.storage.topic": f"{group}-{kind}s", f"{kind}.storage.replication.factor": "1"}
    folder.mkdir()
    file = folder / "worker.properties"
    file.write_text("\n".join(f"{key} = {value}" for key, value in keys.items()))
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    jars = class_path(mirror_maker_jars())
    process = JavaProcess((find_java().path, "-Xmx512M", *JVM, "-cp", jars, main, file), folder / "log")
    connect = Connect(f"127.0.0.1:{port}")

    def answers() -> bool:
        assert process.is_running(), process.output()[-3000:]
        with suppress(OSError):
            return bool(connect.ask(""))
        return False

    try:
        wait_until(answers, 120)
        yield connect
    finally:
        process.stop(20)


def mirror(connect: Connect, name: str, kind: str, source: Any, target: Any, **keys: str) -> None:
    """Create a connector, and wait until it and its task run."""
    config = {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        "sync.topic.acls.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        **dict.fromkeys(
            [
                "replication.factor",
                *(f"{it}.topic.replication.factor" for it in ("offset-syncs", "checkpoints", "heartbeats")),
            ],
            "1",
        ),
        **keys,
    }
    connect.ask(f"connectors/{name}/config", config)


def test_stopped_by_the_recipe(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, capsys: Any
) -> None:
    """Paused connectors, and ones that nobody named, may go on; stopped ones do not copy any more."""
    topic = create_topic(cluster_a, unique_topic("recipe"))
    shared = share(tmp_path, cluster_a, cluster_b, topic, groups=f"{topic}.*")
    flow, group = shared.flow, f"workers-{topic}"
    aliases = {"source.cluster.alias": flow.source.alias, "target.cluster.alias": flow.target.alias}
    names = {kind: f"{topic}-{kind.lower()}" for kind in ("Source", "Checkpoint", "Heartbeat")}
    scene = Scene(flow, tmp_path / "observing.properties", topic, cluster_a, cluster_b, capsys)
    produce(cluster_a, topic, some(0, 500))
    commit_group(cluster_a, f"{topic}-half", topic, 300)
    with worker(tmp_path / "connect", group, cluster_b) as connect:
        for kind, name in names.items():
            chosen = {"topics": topic, "groups": f"{topic}.*", **aliases}
            mirror(connect, name, kind, cluster_a, cluster_b, **chosen)
        for name in names.values():
            wait_until(lambda name=name: {"RUNNING"} == set(connect.states(name)), 90)
        wait_until(lambda: len(read_with_offsets(cluster_b, scene.remote)) == 500, 60)

        def write(command: str, *, named: bool = True) -> None:
            lines = {
                f"{flow.name}.twinlog.copied.by": "mirrormaker2",
                "twinlog.failover.stop.command": command,
                "twinlog.failover.wait.seconds": "15",
                "twinlog.reports.folder": str(tmp_path / "reports"),
                "twinlog.gate.fence.seconds": "1",
                "twinlog.gate.free.disk.percent": "0",
            }
            if named:
                lines[f"{flow.name}.twinlog.connector.name"] = names["Source"]
                lines[f"{flow.target.alias}.offset.storage.topic"] = f"{group}-offsets"
            scene.file.write_text(
                "\n".join([shared.text, *(f"{key} = {value}" for key, value in lines.items())])
            )

        (recipe,) = re.findall(r"\| Kafka Connect \| `(curl [^`]*)` \|", PAGE.read_text())
        stop = recipe.replace("HOST:8083", connect.address).replace(
            "SOURCE,CHECKPOINT,HEARTBEAT", ",".join(names.values())
        )
        tasks = f"workers of {group} on {flow.target.alias} run 1 task(s) of {names['Source']}"
        write(stop.replace("/stop", "/pause"))
        scene.run("run", "--once")
        _, paused = scene.run("failover", "--mode", "planned", "--yes")
        assert ("waiting", "waiting") == (paused["state"], steps(paused).get("stopped")), paused["steps"]
        assert tasks in said(paused, "stopped")
        for name in names.values():
            wait_until(lambda name=name: {"PAUSED"} == set(connect.states(name)), 30)
        write("true", named=False)
        _, unnamed = scene.run("failover", "--mode", "planned", "--yes")
        assert "nobody knows the connector" in said(unnamed, "stopped"), unnamed["steps"]
        write(stop)
        code, report = scene.run("failover", "--mode", "planned", "--yes")
        assert (0, "promoted") == (code, report["state"]), json.dumps(report["steps"], indent=1)
        assert f"before the stop command {tasks}, and now none" in said(report, "stopped")
        assert b"record 300" == scene.next_read("half")
        produce(cluster_a, topic, some(500, 600))
        time.sleep(5)
        assert 500 == len(read_with_offsets(cluster_b, scene.remote))
        assert [["STOPPED"]] * 3 == [connect.states(name) for name in names.values()]


def test_a_watch_that_was_killed_goes_on(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, capsys: Any
) -> None:
    """`run --for`, killed again and again, finds what a run that nobody kills finds, each once."""
    topic = create_topic(cluster_a, unique_topic("killed"))
    shared = share(tmp_path, cluster_a, cluster_b, topic)
    lines = {
        f"{shared.flow.name}.twinlog.copied.by": "other",
        "twinlog.follow.seconds": "1",
        "twinlog.reports.folder": str(tmp_path / "reports"),
    }
    file = tmp_path / "observing.properties"
    file.write_text("\n".join([shared.text, *(f"{key} = {value}" for key, value in lines.items())]))
    scene = Scene(shared.flow, file, topic, cluster_a, cluster_b, capsys)
    create_topic(cluster_b, scene.remote)
    command = (sys.executable, "-m", "twinlog", "run", "--for", "60s", "--config", str(file))
    for round_ in range(4):
        first = 200 * round_
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for at in range(first, first + 200, 20):
                produce(cluster_a, topic, some(at, at + 20))
                produce(cluster_b, scene.remote, [*some(at, at + 20), *some(at, at + 5)])
                time.sleep(0.5 + 0.1 * round_)
            assert process.poll() is None
        finally:
            process.kill()
            process.wait()
    code, _ = scene.run("run", "--once")
    assert 0 == code
    _, gate = scene.run("gate", "--still-writing")
    (seen,) = gate["observed"]["topics"]
    assert ({"doubled": 200}, 1000) == (seen["counts"], seen["equal"])
