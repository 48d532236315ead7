"""Prepare one broker: format its folder, launch it, and ask the cluster whether it is there."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from twinlog.errors import TerminalError, TransientError
from twinlog.lab.kafka.java import find_java, run
from twinlog.lab.kafka.process import JavaProcess
from twinlog.lab.kafka.server_properties import HOST, ClusterPlan, Listener, NodePlan, scram_arguments

_READY_WITHIN_S = 180.0
"""Seconds: five are usual and fifteen a lot; beyond this limit something is wrong and waiting does not help."""
_FORMAT_WITHIN_S = 120.0
JVM = (
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
)
"""JVM options of all Kafka programs: they end if out of memory, and the log on stderr has times."""
_HEAP = ("-Xms128m", "-Xmx512m")


def new_cluster_id() -> str:
    """Return a random id as Kafka writes them: a UUID in unpadded base64 that does not begin with a dash."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


def format_node(
    node: NodePlan, class_path: str, cluster_id: str, users: Mapping[str, str], jvm: Sequence[str]
) -> None:
    """Format a broker's empty folder, with the users' SCRAM credentials.  Raises TerminalError (`broker`)."""
    java: list[str | Path] = [find_java().path, "-Xmx128m", *jvm]
    tool = (*java, "-cp", class_path, "kafka.tools.StorageTool", "format")
    answer = run((*tool, "-t", cluster_id, "-c", node.properties, *scram_arguments(users)), _FORMAT_WITHIN_S)
    if answer.returncode:
        reason = cause_of_death(answer.stderr + answer.stdout)
        raise TerminalError(
            f"folder {node.data} could not be formatted: {reason}",
            hint="look at the settings and users that were given",
            code="broker",
        )


def launch_node(node: NodePlan, class_path: str, jvm: Sequence[str], *, watched: bool) -> JavaProcess:
    """Start a formatted broker; its output is appended to its log."""
    java = find_java().path
    options = (*_HEAP, *JVM, *jvm)
    command: list[str | Path] = [java, *options, "-cp", class_path, "kafka.Kafka", node.properties]
    return JavaProcess(command, node.log, watched=watched)


def wait_until_ready(name: str, plan: ClusterPlan, processes: Mapping[int, JavaProcess]) -> None:
    """Return once every broker itself answers with metadata that names all brokers and a controller.

    Raises TerminalError (code `broker`) if a broker dies meanwhile, TransientError if time is up.
    """
    deadline = time.monotonic() + _READY_WITHIN_S
    for node in plan.nodes:
        while not _answers(node, len(plan.nodes)):
            _require_alive(name, processes)
            if time.monotonic() > deadline:
                message = (
                    f"broker {node.node_id} of cluster {name} did not answer within {_READY_WITHIN_S:.0f} s"
                )
                raise TransientError(message, hint=f"read {node.log}", code="broker")
            time.sleep(0.1)


def _answers(node: NodePlan, brokers: int) -> bool:
    """Say whether the broker itself answers: after a crash the others go on naming it for a session's length."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    address = f"{HOST}:{node.ports[Listener.PLAINTEXT]}"
    try:
        metadata = AdminClient({"bootstrap.servers": address, "log_level": 0}).list_topics(timeout=1.0)
    except KafkaException:  # it does not listen yet
        return False
    return len(metadata.brokers) == brokers and metadata.controller_id >= 0


def _require_alive(name: str, processes: Mapping[int, JavaProcess]) -> None:
    for node_id, process in processes.items():
        if not process.is_running():
            raise TerminalError(
                f"broker {node_id} of cluster {name} died while starting: {cause_of_death(process.output())}",
                hint=f"read {process.log}",
                code="broker",
            )


def cause_of_death(output: str) -> str:
    """Return the last line of a Java program's output that names an error, or its last line of all."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    frameless = [line for line in lines if not line.startswith("at ")]
    telling = [line for line in frameless if "Exception" in line or " ERROR " in line]
    return (telling or lines or ["it printed nothing"])[-1]
