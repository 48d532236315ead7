"""`twinlog machine kafka start|stop|status`: the embedded clusters by themselves."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from twinlog.cli.options import option
from twinlog.cli.render import Grid, show
from twinlog.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from twinlog.lab.kafka.fleet import Fleet


class What(StrEnum):
    """Name what to do with the clusters."""

    START = "start"
    STOP = "stop"
    STATUS = "status"


def kafka(
    what: Annotated[What, Argument(help="start, and leave them running; stop; or show status.")],
    clusters: Annotated[
        str | None,
        option(
            "--clusters A,B",
            "Names of clusters, comma separated. Default: A,B at the start, then all of the folder.",
        ),
    ] = None,
    folder: Annotated[
        Path | None, option("--folder FOLDER", "Where data and logs live. Default: the user's data folder.")
    ] = None,
    first_port: Annotated[
        int,
        option(
            "--first-port",
            "The first cluster's port, then two more for each further one. Default: those they had, or free ones.",
            min=0,
            max=65_000,
            show_default=False,
        ),
    ] = 0,
) -> int:
    """Run real Kafka clusters on this machine, without Docker: for trying things out.

    The first start fetches Kafka's jars (about 30 s). Data stays for the next start. Exit code 1: one does not run.

    Example: `twinlog machine kafka start --clusters A,B`. Next: `twinlog machine kafka stop`.
    """
    from twinlog.lab.kafka import fleet

    place, names = folder or fleet.default_folder(), _names(clusters)
    match what:
        case What.START:
            if clusters is not None and not names:
                raise UsageError("--clusters names no cluster", "such as --clusters A,B")
            return _report(fleet.start_clusters(place, names or ["A", "B"], first_port))
        case What.STOP:
            _report(fleet.stop_clusters(place, names))
            return ExitCode.DONE
        case What.STATUS:
            return _report(fleet.fleet_status(place, names))


def _names(clusters: str | None) -> list[str]:
    return [name.strip() for name in (clusters or "").split(",") if name.strip()]


def _report(fleet: Fleet) -> int:
    grid = Grid.of(
        "embedded clusters",
        "cluster: name | state | bootstrap_servers | Kafka: version | pid | folder",
        fleet.clusters,
        "none was ever started here",
        state=lambda it: "running" if it.running else "stopped",
        pid=lambda it: ", ".join(map(str, it.pids)) or None,
    )
    show(fleet, [grid])
    return ExitCode.of(fleet.is_running())
