"""`twinlog quarantine`: what was written aside because the target cannot hold it, and its replay to another topic."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.options import ConfigOption, OneFlowOption, Output, OutputOption
from twinlog.cli.render import Grid, show
from twinlog.cli.say import say, warn
from twinlog.errors import ExitCode
from twinlog.jsonable import to_json

app = typer.Typer(
    name="quarantine",
    help="List records that the target could not hold; replay them to a topic of your own.",
    no_args_is_help=True,
)


@app.command("list")
def list_quarantined(
    *, config: ConfigOption, flow: OneFlowOption = None, output: OutputOption = Output.TABLE
) -> int:
    """List what was written aside: from where, why, where its bytes are, and where it was replayed to."""
    from twinlog.gate.record import moment
    from twinlog.quarantine.read import listed

    _, chosen = load_one_flow(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        found = listed(chosen, clusters)
    grid = Grid(
        f"{chosen.name}: written aside, not in the copies",
        ("topic", "partition", "offset", "reason", "on", "bytes", "where", "state", "replayed to"),
        [
            (
                it.topic,
                it.partition,
                it.offset if it.last_offset is None else f"{it.offset} to {it.last_offset}",
                it.reason,
                moment(it.at_ms) if it.at_ms is not None else "",
                it.size,
                it.place,
                it.state.value,
                ", ".join(it.replayed_to),
            )
            for it in found
        ],
        empty="nothing",
    )
    show({"flow": chosen.name, "records": to_json(found)}, output, [grid])
    return int(ExitCode.DONE)


@app.command("skip")
def skip(
    *,
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="The source topic.")],
    partition: Annotated[int, typer.Option("--partition", "-p", metavar="PARTITION")],
    offset: Annotated[
        int, typer.Option("--offset", metavar="OFFSET", help="An upstream offset of the damaged batch.")
    ],
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the ledger.")] = "",
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it. Default: say what would be done, and change nothing.")
    ] = False,
    config: ConfigOption,
    flow: OneFlowOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Write a damaged batch of the source aside, byte by byte, and let its paused partition go on behind it."""
    from twinlog.quarantine import skip as skipping

    _, chosen = load_one_flow(config, flow)
    asked = skipping.SkipRequest(topic, partition, offset, getpass.getuser(), reason)
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
    grid = Grid(
        chosen.name,
        ("topic", "partition", "from offset", "to offset", "bytes", "reason", "written aside"),
        [
            (
                done.topic,
                done.partition,
                done.first_offset,
                done.last_offset,
                done.bytes,
                done.why,
                done.changed,
            )
        ],
    )
    show({**to_json(done), "dry_run": not execute}, output, [grid])
    return int(ExitCode.DONE)


@app.command("replay")
def replay(
    *,
    to: Annotated[
        str, typer.Option("--to", metavar="TOPIC", help="A topic of your own on the target; it must exist.")
    ],
    config: ConfigOption,
    flow: OneFlowOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Write every record of the quarantine to a topic that has not got it yet, each exactly once.

    Not into the copy: records stand there in the order of the source.
    """
    from twinlog.quarantine.replay import run

    _, chosen = load_one_flow(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        done = run(chosen, clusters, to.strip(), by=getpass.getuser())
    say(f"{done.records:,} records written to {done.to_topic}; it had {done.before:,} of them already")
    show(
        to_json(done),
        output,
        [Grid(chosen.name, ("to topic", "written", "had"), [(done.to_topic, done.records, done.before)])],
    )
    return int(ExitCode.DONE)
