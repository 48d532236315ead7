"""`twinlog topics offsets`: where the copy of each partition stands, and how a person moves it to another offset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from twinlog.cli import options
from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.render import Grid, login, say, show, warn
from twinlog.errors import ExitCode, UsageError
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.lifecycle.alter import AlterResult
    from twinlog.lifecycle.positions import CopyPositions


def offsets(
    *,
    topics: options.TopicsOption = None,
    partition: Annotated[
        int | None, options.option("--partition -p PARTITION", "Only this partition.")
    ] = None,
    to: Annotated[
        str, options.option("--to OFFSET", "Move it: the next upstream offset to copy, or earliest, latest.")
    ] = "",
    reason: options.ReasonOption = "",
    execute: options.ExecuteOption = False,
    config: options.ConfigOption,
    flow: options.OneFlowOption = None,
) -> int:
    """Show where the copy of each partition stands: next upstream offset, the source's log, what holds it up.

    With --to a paused partition goes on at a later upstream offset; what that leaves out becomes a gap.

    Example: `twinlog topics offsets --topic orders --partition 3 --to 4712`. Next: `twinlog topics gaps`.
    """
    _, chosen = load_one_flow(config, flow)
    named = options.parse_topics(topics)
    if to:
        if named is None or len(named) > 1 or partition is None:
            raise UsageError("--to moves one partition", "add one --topic and --partition")
        return _move(chosen, min(named), partition, to.strip(), reason, execute=execute)
    if execute or reason:
        raise UsageError("nothing is moved without --to", "add --to OFFSET, or leave these out")
    from twinlog.lifecycle import positions
    from twinlog.topics.snapshot import FlowSnapshot

    with clusters_with_ledger(chosen) as clusters:
        found = positions.run(FlowSnapshot(chosen, clusters))
    wanted = tuple(
        position
        for position in options.of_topics(found.partitions, named)
        if partition in {None, position.partition}
    )
    found = replace(found, partitions=wanted)
    show(found, _positions(found))
    return ExitCode.DONE


def _move(flow: FlowSettings, topic: str, partition: int, to: str, reason: str, *, execute: bool) -> int:
    from twinlog.lifecycle import alter as altering

    asked = altering.AlterRequest(topic, partition, to, login(), reason)
    with clusters_with_ledger(flow) as clusters:
        done = (altering.run if execute else altering.preview)(flow, clusters, asked)
    say(done.move.told)
    if done.before:
        warn(f"{flow.name} may copy {topic} now: {done.before}")
    elif not execute and done.move.moves:
        say("nothing was changed: --execute does it")
    show({**to_json(done), "dry_run": not execute}, _moved(done))
    return ExitCode.DONE


def _positions(found: CopyPositions) -> Iterator[Grid]:
    from twinlog.clock import iso

    columns = (
        "topic | partition | next: next_offset | log_start | end | at most to copy: lag"
        " | map ends: map_end | never_copied | why not: why"
    )
    title = f"{found.flow}: where the copies stand (upstream offsets)"
    yield Grid.of(title, columns, found.partitions, "it replicates no partition that was asked for")
    columns = "topic | partition | from: from_offset | to: to_offset | at | by | reason"
    yield Grid.of("moved by a person", columns, found.altered, at=lambda it: iso(it.at_ms))


def _moved(done: AlterResult) -> Iterator[Grid]:
    columns = "topic | partition | from: from_offset | to: to_offset | never_copied"
    title = f"{done.flow}: {'moved' if done.changed else 'would be moved'} (upstream offsets)"
    yield Grid.of(
        title,
        columns,
        [done.move],
        never_copied=lambda _: sum(gap.last_offset - gap.first_offset + 1 for gap in done.gaps),
    )
