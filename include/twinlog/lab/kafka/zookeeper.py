"""The ZooKeeper that a broker before KRaft needs: its settings, and the same server in an EmbeddedKafka's folder.

Kafka 2.8 is the newest that the lab starts so; KRaft is ready from 3.3 on (KIP-833).  One ZooKeeper serves a cluster;
it comes with the broker's jars, and listens on the first node's controller port.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import javaproperties

from twinlog.lab.kafka.java import find_java
from twinlog.lab.kafka.node import JVM
from twinlog.lab.kafka.process import JavaProcess
from twinlog.lab.kafka.server_properties import HOST, ClusterPlan, NodePlan

_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_FOLDER = "zookeeper"


def launch_zookeeper(folder: Path, plan: ClusterPlan, class_path: str, *, watched: bool) -> JavaProcess:
    """Start the ZooKeeper of a cluster; brokers wait for it by themselves."""
    home = folder / _FOLDER
    home.mkdir(exist_ok=True)
    properties = home / "zookeeper.properties"
    properties.write_text(javaproperties.dumps(_settings(home, plan.nodes[0])))
    command: list[str | Path] = [find_java().path, "-Xmx128m", *JVM, "-cp", class_path, _MAIN, properties]
    return JavaProcess(command, home / "zookeeper.log", watched=watched)


def _settings(home: Path, node: NodePlan) -> Mapping[str, str]:
    return {
        "dataDir": str(home / "data"),
        "clientPort": str(node.controller_port),
        "clientPortAddress": HOST,
        "tickTime": "500",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }
