"""`twinlog offsets`: where the copy of each partition stands, and how a person moves it to another offset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli import options
from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.render import Grid, login, say, show, warn
from twinlog.errors import ExitCode
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from twinlog.lifecycle.alter import AlterResult
    from twinlog.lifecycle.positions import CopyPositions

app = typer.Typer(
    name="offsets",
    help="Show where the copy of each partition stands; move it to another upstream offset.",
    no_args_is_help=True,
)


@app.command("show")
def show_offsets(
    *,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """Show the next upstream offset of each partition, the source's log, the map's end, and what holds it up."""
    from twinlog.lifecycle import positions
    from twinlog.topics.snapshot import FlowSnapshot

    _, chosen = load_one_flow(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        found = positions.run(FlowSnapshot(chosen, clusters))
    rows = [{**to_json(it), "lag": it.lag} for it in found.partitions]
    show({**to_json(found), "partitions": rows}, output, _positions(found))
    return int(ExitCode.DONE)


@app.command("alter")
def alter(
    *,
    topic: options.SourceTopicOption,
    partition: options.PartitionOption,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="OFFSET", help="The next upstream offset to copy, or earliest, or latest."
        ),
    ],
    reason: options.ReasonOption = "",
    execute: options.ExecuteOption = False,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """Let the copy of a paused partition go on at a later upstream offset; what it leaves out becomes a gap."""
    from twinlog.lifecycle import alter as altering

    _, chosen = load_one_flow(config, flow)
    asked = altering.AlterRequest(topic, partition, to.strip(), login(), reason)
    with clusters_with_ledger(chosen) as clusters:
        done = (altering.run if execute else altering.preview)(chosen, clusters, asked)
    say(done.move.told)
    if done.before:
        warn(f"{chosen.name} may copy {topic} now: {done.before}")
    elif not execute and done.move.direction is not done.move.direction.NOWHERE:
        say("nothing was changed: --execute does it")
    show({**to_json(done), "dry_run": not execute}, output, _moved(done))
    return int(ExitCode.DONE)


def _positions(found: CopyPositions) -> Iterator[Grid]:
    from twinlog.clock import iso

    columns = (
        "topic | partition | next: next_offset | log_start | end | at most to copy: lag"
        " | map ends: map_end | never_copied | why not: why"
    )
    title = f"{found.flow}: where the copies stand (upstream offsets)"
    yield Grid.of(title, columns, found.partitions, "it replicates no topic")
    columns = "topic | partition | from: from_offset | to: to_offset | at | by | reason"
    yield Grid.of("moved by a person", columns, found.altered, at=lambda it: iso(it.at_ms))


def _moved(done: AlterResult) -> Iterator[Grid]:
    columns = "topic | partition | from: from_offset | to: to_offset | never_copied"
    title = f"{done.flow}: {'moved' if done.changed else 'would be moved'} (upstream offsets)"
    yield Grid.of(
        title,
        columns,
        [done.move],
        never_copied=lambda _: sum(it.last_offset - it.first_offset + 1 for it in done.gaps),
    )
