"""Clusters that run by themselves, each in a folder of its own: started once, found again, stopped later.

The state file in a folder (twinlog.lab.kafka.state) is all there is to know about its cluster: any process of the same
user can read it and stop the cluster.  Data stays when a cluster stops, and comes back when it starts again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from twinlog.errors import UsageError
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lab.kafka.ports import is_free
from twinlog.lab.kafka.state import ClusterState, read_state
from twinlog.process_id import stop_pid

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PORTS_PER_CLUSTER = 2
_AGAIN_S = 0.2


@dataclass(frozen=True)
class ClusterStatus:
    """One cluster as it is now; a stopped one has no addresses and no processes."""

    name: str
    running: bool
    bootstrap_servers: str | None
    version: str | None
    pids: tuple[int, ...]
    folder: str


@dataclass(frozen=True)
class Fleet:
    """The clusters below one folder, by name."""

    clusters: tuple[ClusterStatus, ...]

    def is_running(self) -> bool:
        """Say whether every one of them runs."""
        return all(cluster.running for cluster in self.clusters)


def default_folder() -> Path:
    """Return the folder that holds this user's clusters."""
    return platformdirs.user_data_path("twinlog") / "kafka"


def start_clusters(folder: Path, names: Sequence[str], first_port: int = 0) -> Fleet:
    """Start those of `names` that do not run, side by side.

    If one fails, or Ctrl-C comes, all that this call started are stopped.  `first_port`: cluster i listens on
    first_port + 2i; 0 takes free ports.  Raises UsageError for an invalid name, and what EmbeddedKafka.start raises.
    """
    _require_names(names)
    clusters = [
        EmbeddedKafka(
            name,
            folder / name,
            port=first_port + index * _PORTS_PER_CLUSTER if first_port else _port_before(folder / name),
            outlives_us=True,
        )
        for index, name in enumerate(names)
        if not _status(folder, name).running
    ]
    if clusters:
        _start_side_by_side(clusters)
    return fleet_status(folder, names)


def _port_before(folder: Path) -> int:
    """Return the first port of the cluster that a folder holds, so that its clients find it again; 0 for none."""
    state = read_state(folder)
    if state is None:
        return 0
    port = int(state.bootstrap_servers.partition(",")[0].rpartition(":")[2])
    return port if all(is_free(port + more) for more in range(_PORTS_PER_CLUSTER * state.nodes)) else 0


def _start_side_by_side(clusters: Sequence[EmbeddedKafka]) -> None:
    pool = ThreadPoolExecutor(len(clusters))
    starts: list[Future[None]] = []
    try:
        starts.extend(pool.submit(cluster.start) for cluster in clusters)
        for start in starts:
            start.result()
    except BaseException:
        under_way = True
        while under_way:  # one that is still preparing starts its broker later
            under_way = bool(wait(starts, timeout=_AGAIN_S).not_done)
            for cluster in clusters:
                cluster.stop()
        raise
    finally:
        pool.shutdown()


def stop_clusters(folder: Path, names: Sequence[str] = ()) -> Fleet:
    """Stop the named clusters, or all below `folder`; stopping a stopped one is no error."""
    for name in names or _names_in(folder):
        state = read_state(folder / name)
        for process in state.processes if state else ():
            if process.is_alive():
                stop_pid(process.pid)
    return fleet_status(folder, names)


def fleet_status(folder: Path, names: Sequence[str] = ()) -> Fleet:
    """Return the status of the named clusters, or of all below `folder`; one that was never started is stopped."""
    return Fleet(tuple(_status(folder, name) for name in names or _names_in(folder)))


def _names_in(folder: Path) -> list[str]:
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(each.name for each in found if read_state(each) is not None)


def _status(folder: Path, name: str) -> ClusterStatus:
    state: ClusterState | None = read_state(folder / name)
    running = state is not None and state.is_running()
    return ClusterStatus(
        name=name,
        running=running,
        bootstrap_servers=state.bootstrap_servers if state and running else None,
        version=state.version if state else None,
        pids=tuple(process.pid for process in state.processes) if state and running else (),
        folder=str(folder / name),
    )


def _require_names(names: Sequence[str]) -> None:
    for name in names:
        if not _NAME.fullmatch(name):
            hint = "use letters, digits, dots, dashes and underscores"
            raise UsageError(f"{name!r} is no name for a cluster", hint=hint, code="cluster-name")
    if len(set(names)) < len(names):
        hint = "name each cluster once"
        raise UsageError(f"a cluster is named twice: {', '.join(names)}", hint=hint, code="cluster-name")
