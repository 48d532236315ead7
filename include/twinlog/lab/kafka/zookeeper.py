"""The ZooKeeper that a broker before KRaft needs: its settings, and the same server in an EmbeddedKafka's folder.

Kafka 2.8 is the newest that the lab starts so; KRaft is ready from 3.3 on (KIP-833).  One ZooKeeper serves a cluster;
it comes with the broker's jars, and listens on the first node's controller port.  SCRAM credentials of users are
written into it before the brokers start.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import javaproperties

from twinlog.errors import TerminalError
from twinlog.lab.kafka.java import find_java, run
from twinlog.lab.kafka.node import JVM, cause_of_death
from twinlog.lab.kafka.process import JavaProcess
from twinlog.lab.kafka.server_properties import HOST, ClusterPlan, NodePlan, scram_entry

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_FOLDER = "zookeeper"
_WRITTEN_WITHIN_S = 120.0


def launch_zookeeper(folder: Path, plan: ClusterPlan, class_path: str, *, watched: bool) -> JavaProcess:
    """Start the ZooKeeper of a cluster; brokers wait for it by themselves.

    A new one gets the users' SCRAM credentials, 3 s a user.  Raises TerminalError (`broker`) if it does not.
    """
    home = folder / _FOLDER
    is_new = not home.exists()
    home.mkdir(exist_ok=True)
    properties = home / "zookeeper.properties"
    properties.write_text(javaproperties.dumps(_settings(home, plan.nodes[0])))
    command: list[str | Path] = [find_java().path, "-Xmx128m", *JVM, "-cp", class_path, _MAIN, properties]
    process = JavaProcess(command, home / "zookeeper.log", watched=watched)
    try:
        for name, password in plan.users.items() if is_new else ():
            _write_user(plan, class_path, name, password)
    except BaseException:
        process.kill()
        shutil.rmtree(home)
        raise
    return process


def _write_user(plan: ClusterPlan, class_path: str, name: str, password: str) -> None:
    """Write one user's SCRAM credentials, as kafka-configs.sh does; it waits for ZooKeeper."""
    command: list[str | Path] = [find_java().path, "-Xmx128m", "-cp", class_path, "kafka.admin.ConfigCommand"]
    command += ["--zookeeper", f"{HOST}:{plan.nodes[0].controller_port}", "--alter"]
    command += ["--entity-type", "users", "--entity-name", name, "--add-config", scram_entry(password)]
    answer = run(command, _WRITTEN_WITHIN_S)
    # It ends with 0 whatever has happened.
    if "Completed" not in answer.stdout:
        raise TerminalError(
            f"user {name} could not be written into ZooKeeper: {cause_of_death(answer.stderr + answer.stdout)}",
            hint="look at the users that were given",
            code="broker",
        )


def _settings(home: Path, node: NodePlan) -> Mapping[str, str]:
    return {
        "dataDir": str(home / "data"),
        "clientPort": str(node.controller_port),
        "clientPortAddress": HOST,
        "tickTime": "500",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }
