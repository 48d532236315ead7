"""Real Kafka clusters as a context manager: `with EmbeddedKafka("A") as cluster: ...`.

In KRaft mode; versions before 3.3 have a ZooKeeper beside them.  One process per broker, usually one broker per
cluster; data, settings and log in one folder.  A cluster is ready once it answers a metadata request with all of its
brokers; its log does not count.  By default it dies with the process that started it.

Cost: 3 to 4 s to start (0.9 s of it formatting), up to 15 s on a loaded machine; 300-400 MB of memory.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import javaproperties

from twinlog.class_archive import ClassArchive
from twinlog.errors import TerminalError, TwinlogError, UsageError
from twinlog.lab.kafka.certificates import Certificates, make_certificates
from twinlog.lab.kafka.jars import KAFKA_VERSION, broker_jars, class_path, needs_zookeeper
from twinlog.lab.kafka.java import find_java
from twinlog.lab.kafka.node import format_node, launch_node, new_cluster_id, wait_until_ready
from twinlog.lab.kafka.ports import free_ports, ports_from, require_free
from twinlog.lab.kafka.process import JavaProcess
from twinlog.lab.kafka.server_properties import (
    SESSION_S,
    ClusterPlan,
    Listener,
    NodePlan,
    server_properties,
)
from twinlog.lab.kafka.state import ClusterState, claim, write_state
from twinlog.lab.kafka.zookeeper import launch_zookeeper
from twinlog.process_id import TERMINATE_WAIT_S, ProcessId

_log = logging.getLogger(__name__)

CLASSES_WITHIN_S = 120.0
"""Seconds in which a broker writes its classes as it ends; five are usual."""


class EmbeddedKafka:
    """A cluster named `name`, living in `folder` (by default a temporary one that is deleted with it).

    A folder from an earlier run of the same cluster is used again with its data.  `port` is the first of a row of
    fixed ports (one per listener, then the controller's, node by node); 0 takes free ones.  `listeners` are offered
    beside PLAINTEXT.  `users` (name to password) may log in on the SASL ones, by PLAIN or SCRAM, and are written if
    the folder is new.  `settings` override ours in server.properties.  With `outlives_us` the brokers go on when this
    process ends.  `jvm` are options of their JVMs, in place of those of `quick_start`.

    Raises on `start`: UsageError (codes `stale-folder`, `unusable-folder`, `cluster-running`, `port-taken`),
    TerminalError (`java`; `broker` if a broker dies), TransientError (`jars`; `broker` if it does not answer).
    """

    def __init__(
        self,
        name: str,
        folder: Path | None = None,
        version: str = KAFKA_VERSION,
        *,
        nodes: int = 1,
        port: int = 0,
        listeners: Sequence[Listener | str] = (),
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        outlives_us: bool = False,
        jvm: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.version = version
        self.folder = folder or Path(tempfile.gettempdir(), f"twinlog-{name}-{uuid.uuid4().hex[:8]}")
        self._folder_is_ours = folder is None
        self._node_count = nodes
        self._first_port = port
        self._listeners = tuple(dict.fromkeys([Listener.PLAINTEXT, *map(Listener, listeners)]))
        self._users = dict(users or {})
        self._settings = dict(settings or {})
        self._watched = not outlives_us
        self._jvm = jvm
        self._plan: ClusterPlan | None = None
        self._processes: dict[int, JavaProcess] = {}
        self._zookeeper: JavaProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._folder_is_ours:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of the PLAINTEXT listener, on which everything is allowed."""
        return self.address(Listener.PLAINTEXT)

    def address(self, listener: Listener | str) -> str:
        """Return the bootstrap servers of one of the cluster's listeners."""
        return self._started_plan().addresses(Listener(listener))

    @property
    def certificates(self) -> Certificates:
        """Return the certificates that clients of the SSL and SASL_SSL listeners need."""
        certificates = self._started_plan().certificates
        if certificates is None:
            raise TerminalError(f"cluster {self.name} has no TLS listener", hint="ask for one in `listeners`")
        return certificates

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the process ids of the brokers, in the order of their node ids."""
        return tuple(process.pid for process in self._processes.values())

    @property
    def logs(self) -> tuple[Path, ...]:
        """Return each broker's log file."""
        return tuple(node.log for node in self._started_plan().nodes)

    def is_running(self) -> bool:
        """Say whether all of its brokers live."""
        return bool(self._processes) and all(process.is_running() for process in self._processes.values())

    def start(self) -> None:
        """Start the brokers that do not run, and wait until all answer.

        A cluster that ran before comes back with its data, on the same addresses.
        """
        if self._plan is None:
            self._plan = self._prepare()
        self._start_zookeeper(self._plan)
        for node in self._plan.nodes:
            if node.node_id not in self._processes or not self._processes[node.node_id].is_running():
                self._processes[node.node_id] = self._launch(node)
            self._write_state()
        try:
            wait_until_ready(self.name, self._plan, self._processes)
        except BaseException:
            self.stop()
            raise

    def stop(self, patience_s: float = TERMINATE_WAIT_S) -> None:
        """Terminate the brokers (and kill them after `patience_s` seconds); their data stays."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.stop(patience_s)
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def restart(self) -> None:
        """Stop and start, on the same addresses and data."""
        self.stop()
        self.start()

    def kill(self, node_id: int | None = None) -> None:
        """Kill (SIGKILL) the brokers, or one of them; `start` brings dead ones back.

        That takes up to ten seconds longer than a first start: the controller first lets the session of the broker's
        last run expire (`broker.session.timeout.ms`).  With a ZooKeeper, this call waits until it does: a broker whose
        id is still taken does not start.
        """
        for process in self._chosen(node_id):
            process.kill()
        if self._zookeeper is not None:
            time.sleep(SESSION_S + 1)

    def pause(self, node_id: int | None = None) -> None:
        """Suspend the brokers (SIGSTOP): connections stay open, but no broker answers until `resume`."""
        for process in self._chosen(node_id):
            process.pause()

    def resume(self, node_id: int | None = None) -> None:
        """Resume the brokers (SIGCONT)."""
        for process in self._chosen(node_id):
            process.resume()

    def _chosen(self, node_id: int | None) -> list[JavaProcess]:
        return list(self._processes.values()) if node_id is None else [self._processes[node_id]]

    def _started_plan(self) -> ClusterPlan:
        if self._plan is None:
            raise TerminalError(
                f"cluster {self.name} has not been started", hint="enter its context or call start"
            )
        return self._plan

    def _identity(self) -> ClusterState:
        return ClusterState(self.name, self.version, self._node_count)

    def _prepare(self) -> ClusterPlan:
        """Claim the folder, choose ports, write the settings, and format the folder if it is new."""
        has_data = self._take_folder()
        try:
            jars = class_path(broker_jars(self.version))
            plan = self._make_plan()
            cluster_id = new_cluster_id()
            for node in plan.nodes:
                node.folder.mkdir(exist_ok=True)
                node.properties.write_text(javaproperties.dumps(server_properties(plan, node)))
                if not has_data and not needs_zookeeper(self.version):
                    format_node(node, jars, cluster_id, self._users, self._jvm_options())
        except BaseException:
            if not has_data:  # all files in it are ours and half-made: the next start must find a new folder
                shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return plan

    def _take_folder(self) -> bool:
        """Claim the folder before anything is fetched for it; return True if it holds our data already."""
        try:
            has_data = claim(self.folder, self._identity())
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder):
                return has_data
        except OSError as error:
            raise UsageError(
                f"folder {self.folder} cannot be used: {error.strerror}",
                hint="choose another",
                code="unusable-folder",
                folder=str(self.folder),
            ) from None

    def _write_state(self) -> None:
        processes = tuple(ProcessId.of(pid) for pid in self.pids)
        write_state(
            self.folder,
            replace(self._identity(), bootstrap_servers=self.bootstrap_servers, processes=processes),
        )

    def _make_plan(self) -> ClusterPlan:
        ports = ports_from(self._first_port) if self._first_port else free_ports()
        nodes = tuple(
            NodePlan(
                node_id,
                self.folder / f"node-{node_id}",
                {listener: next(ports) for listener in self._listeners},
                controller_port=next(ports),
            )
            for node_id in range(1, self._node_count + 1)
        )
        needs_tls = any(listener.endswith("SSL") for listener in self._listeners)
        certificates = make_certificates(self.folder / "certificates") if needs_tls else None
        return ClusterPlan(nodes, self._users, self._settings, certificates, self.version)

    def _start_zookeeper(self, plan: ClusterPlan) -> None:
        if needs_zookeeper(self.version) and not (self._zookeeper and self._zookeeper.is_running()):
            jars = class_path(broker_jars(self.version))
            require_free(plan.nodes[0].controller_port)
            self._zookeeper = launch_zookeeper(self.folder, plan, jars, watched=self._watched)

    def _launch(self, node: NodePlan) -> JavaProcess:
        own = () if needs_zookeeper(self.version) else (node.controller_port,)
        for port in (*node.ports.values(), *own):
            require_free(port)
        jars = class_path(broker_jars(self.version))
        return launch_node(node, jars, self._jvm_options(), watched=self._watched)

    def _jvm_options(self) -> Sequence[str]:
        return quick_start(self.version) if self._jvm is None else self._jvm


@cache
def quick_start(version: str) -> Sequence[str]:
    """Return the JVM options by which brokers of `version` start in half the CPU time.

    They need an archive of the classes that a broker loads.  If there is none, a broker is started to make it; if that
    fails, there are no such options.
    """
    jars = Path(class_path(broker_jars(version))).parent
    archive = ClassArchive(jars.name, find_java().path, jars)
    if not archive.is_usable():
        _log.warning("keeping the classes of %s, once (about 15 s)", jars.name)
        try:
            archive.make(lambda options: _start_and_stop(version, options))
        except (OSError, TwinlogError) as error:
            _log.warning("brokers start slower, since their classes could not be kept: %s", error)
    return archive.options()


def _start_and_stop(version: str, jvm: Sequence[str]) -> None:
    """Start a broker with these JVM options and let it end: it writes its classes then."""
    with EmbeddedKafka("classes", version=version, jvm=jvm) as broker:
        broker.stop(CLASSES_WITHIN_S)
