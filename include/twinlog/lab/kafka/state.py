"""The state file of a cluster's folder: one JSON file beside data and logs.

It tells a folder of our own earlier run from a foreign one, and a running cluster from a dead one.  By it `twinlog
machine kafka stop` finds the processes that `twinlog machine kafka start` left running.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from twinlog.errors import UsageError
from twinlog.process_id import ProcessId

_FILE = "cluster.json"


@dataclass(frozen=True)
class ClusterState:
    """A cluster's folder: its owner, and where it was last offered by which processes."""

    name: str
    version: str
    nodes: int
    bootstrap_servers: str = ""
    processes: tuple[ProcessId, ...] = ()

    def is_running(self) -> bool:
        """Say whether any of its brokers lives."""
        return any(process.is_alive() for process in self.processes)


def read_state(folder: Path) -> ClusterState | None:
    """Return the state of the cluster in `folder`; None if there is no readable one."""
    try:
        fields = json.loads((folder / _FILE).read_text())
        processes = tuple(ProcessId(**process) for process in fields.pop("processes"))
        return ClusterState(**fields, processes=processes)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_state(folder: Path, state: ClusterState) -> None:
    """Replace the state file of `folder`; a kill in between leaves the old one."""
    new = folder / f".{_FILE}"
    new.write_text(json.dumps(asdict(state), indent=1))
    new.replace(folder / _FILE)


def claim(folder: Path, wanted: ClusterState) -> bool:
    """Make sure that `wanted` may live in `folder`; return True if its data is there from an earlier run.

    Raises UsageError: code `cluster-running` if the folder's brokers live, `stale-folder` if it holds another
    cluster's data, another version's, or files that we have not written (a half-made folder included).
    """
    found = read_state(folder)
    if found is None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise _stale(folder, "is not empty and holds no complete cluster")
        return False
    if found.is_running():
        pids = ", ".join(str(process.pid) for process in found.processes if process.is_alive())
        message = f"cluster {found.name} already runs from {folder} (pid {pids})"
        raise UsageError(message, hint="stop it first", code="cluster-running", folder=str(folder))
    if (found.name, found.version, found.nodes) != (wanted.name, wanted.version, wanted.nodes):
        raise _stale(folder, f"holds {_words(found)}, not {_words(wanted)}")
    return True


def _words(state: ClusterState) -> str:
    return f"cluster {state.name} of Kafka {state.version} with {state.nodes} node{'s'[: state.nodes > 1]}"


def _stale(folder: Path, why: str) -> UsageError:
    hint = "remove the folder or choose another"
    return UsageError(f"folder {folder} {why}", hint=hint, code="stale-folder", folder=str(folder))
