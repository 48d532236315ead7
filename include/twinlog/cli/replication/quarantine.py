"""`twinlog quarantine`: what was written aside, and damaged batches skipped."""

from __future__ import annotations

from typing import Annotated

import typer

from twinlog.cli import options
from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.render import Grid, show
from twinlog.cli.say import login, say, warn
from twinlog.errors import ExitCode
from twinlog.jsonable import to_json

app = typer.Typer(
    name="quarantine",
    help="List what the copy lacks because it was written aside; skip a damaged batch.",
    no_args_is_help=True,
)


@app.command("list")
def list_quarantined(
    *,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """List what was written aside: from where, why, since when, where its bytes are."""
    from twinlog.gate.record import moment
    from twinlog.quarantine.read import listed

    _, chosen = load_one_flow(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        found = listed(chosen, clusters)
    columns = "topic | partition | offset | reason | since | bytes: size | where: place | state"
    grid = Grid.of(
        f"{chosen.name}: written aside, not in the copies",
        columns,
        found,
        "nothing",
        offset=lambda it: it.offset if it.last_offset is None else f"{it.offset} to {it.last_offset}",
        since=lambda it: moment(it.at_ms) if it.at_ms is not None else "",
        state=lambda it: it.state.value,
    )
    show({"flow": chosen.name, "records": to_json(found)}, output, [grid])
    return int(ExitCode.DONE)


@app.command("skip")
def skip(
    *,
    topic: options.SourceTopicOption,
    partition: options.PartitionOption,
    offset: Annotated[
        int, typer.Option("--offset", metavar="OFFSET", help="An upstream offset of the damaged batch.")
    ],
    reason: options.ReasonOption = "",
    execute: options.ExecuteOption = False,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
    output: options.OutputOption = options.Output.TABLE,
) -> int:
    """Write a damaged batch of the source aside, byte by byte, and let its paused partition go on behind it."""
    from twinlog.quarantine import skip as skipping

    _, chosen = load_one_flow(config, flow)
    asked = skipping.SkipRequest(topic, partition, offset, login(), reason)
    with clusters_with_ledger(chosen) as clusters:
        done = (skipping.run if execute else skipping.preview)(chosen, clusters, asked)
    say(
        f"{topic}-{partition}: {done.why} at upstream offsets {done.first_offset} to {done.last_offset},"
        f" {done.bytes:,} bytes {'are' if done.changed else 'would be'} written to {done.quarantine_topic}"
    )
    if done.before:
        warn(f"{chosen.name} may copy {topic} now: {done.before}")
    elif not execute:
        say("nothing was changed: --execute does it")
    columns = (
        "topic | partition | from offset: first_offset | to offset: last_offset | bytes | reason: why"
        " | written aside: changed"
    )
    show({**to_json(done), "dry_run": not execute}, output, [Grid.of(chosen.name, columns, [done])])
    return int(ExitCode.DONE)
