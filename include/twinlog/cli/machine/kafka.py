"""`twinlog kafka start|stop|status`: the embedded clusters by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli.options import Output, OutputOption
from twinlog.cli.render import Grid, show
from twinlog.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from twinlog.lab.kafka.fleet import Fleet

app = typer.Typer(
    name="kafka",
    help="Run real Kafka clusters on this machine, without Docker: for trying things out.",
    no_args_is_help=True,
)

ClustersOption = Annotated[
    str, typer.Option("--clusters", metavar="A,B", help="Names of clusters, comma separated.")
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--folder", metavar="FOLDER", help="Where data and logs live. Default: the user's data folder."
    ),
]
FirstPortOption = Annotated[
    int,
    typer.Option(
        "--first-port",
        min=0,
        max=65_000,
        help="Fixed ports: the first cluster's, then two more for each further one. Default: free ones.",
    ),
]


@app.command()
def start(
    clusters: ClustersOption = "A,B",
    folder: FolderOption = None,
    first_port: FirstPortOption = 0,
    output: OutputOption = Output.TABLE,
) -> int:
    """Start clusters and leave them running; the first start fetches Kafka's jars (about 30 s)."""
    from twinlog.lab.kafka.fleet import default_folder, start_clusters

    names = _names(clusters)
    if not names:
        raise UsageError("--clusters names no cluster", hint="such as --clusters A,B")
    return _report(start_clusters(folder or default_folder(), names, first_port), output)


@app.command()
def stop(
    clusters: ClustersOption = "", folder: FolderOption = None, output: OutputOption = Output.TABLE
) -> int:
    """Stop clusters (by default all of the folder); their data stays for the next start."""
    from twinlog.lab.kafka.fleet import default_folder, stop_clusters

    _report(stop_clusters(folder or default_folder(), _names(clusters)), output)
    return ExitCode.DONE


@app.command()
def status(
    clusters: ClustersOption = "", folder: FolderOption = None, output: OutputOption = Output.TABLE
) -> int:
    """Show clusters (by default all of the folder) and their addresses; exit 1 when one does not run."""
    from twinlog.lab.kafka.fleet import default_folder, fleet_status

    return _report(fleet_status(folder or default_folder(), _names(clusters)), output)


def _names(clusters: str) -> list[str]:
    return [name.strip() for name in clusters.split(",") if name.strip()]


def _report(fleet: Fleet, output: Output) -> int:
    grid = Grid.of(
        "embedded clusters",
        "cluster: name | state | bootstrap_servers | Kafka: version | pid | folder",
        fleet.clusters,
        "none was ever started here",
        state=lambda it: "running" if it.running else "stopped",
        pid=lambda it: ", ".join(map(str, it.pids)) or None,
    )
    show(fleet, output, [grid])
    return ExitCode.DONE if fleet.is_running() else ExitCode.SAYS_NO
