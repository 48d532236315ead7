"""`twinlog topics gaps` and `twinlog gap`: what will never be copied, and who answers for going on without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from twinlog import clock
from twinlog.cli.flows import clusters_with_ledger, load_one_flow
from twinlog.cli.options import ByOption, ConfigOption, OneFlowOption, Output, OutputOption
from twinlog.cli.render import Grid, show
from twinlog.errors import TerminalError, UsageError
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twinlog.checks.gaps import GapReport
    from twinlog.cluster.api import Clusters
    from twinlog.config.flow.settings import FlowSettings

app = typer.Typer(
    name="gap",
    help="Acknowledge that records which will never be copied are lost; `twinlog topics gaps` lists them.",
    no_args_is_help=True,
)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The source topic.")]
PartitionArgument = Annotated[int, typer.Argument(metavar="PARTITION")]
OffsetArgument = Annotated[int, typer.Argument(metavar="OFFSET", help="The first offset of the gap.")]


def gaps(*, config: ConfigOption, flow: OneFlowOption = None, output: OutputOption = Output.TABLE) -> int:
    """List records that will never be copied: deleted by the source, or left out; expired and acknowledged gaps too."""
    _, chosen = load_one_flow(config, flow)
    with clusters_with_ledger(chosen) as clusters:
        found = _gaps(chosen, clusters)
    _show(chosen, found, output)
    return 0


@app.command("acknowledge")
def acknowledge(
    topic: TopicArgument,
    partition: PartitionArgument,
    offset: OffsetArgument,
    *,
    reason: Annotated[
        str, typer.Option("--reason", help="Why the flow and a failover may do without these records.")
    ],
    by: ByOption,
    config: ConfigOption,
    flow: OneFlowOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Acknowledge that the records of one gap are lost; the gap no longer makes the gate not ready.

    Should the gap grow later, it is open again.
    """
    from twinlog.formats.ledger.topics import GapAcknowledged
    from twinlog.state.ledger import write_ledger

    if not reason.strip() or not by.strip():
        raise UsageError("to acknowledge a gap takes a reason and a name", hint="fill --reason and --by")
    _, chosen = load_one_flow(config, flow)
    now_ms = clock.now_ms()
    with clusters_with_ledger(chosen) as clusters:
        found = _named(chosen, _gaps(chosen, clusters), topic, partition, offset)
        records = [
            GapAcknowledged(
                gap.topic,
                gap.topic_id,
                gap.partition,
                gap.first_offset,
                gap.last_offset,
                reason.strip(),
                by.strip(),
                now_ms,
            )
            for gap in found
        ]
        write_ledger(chosen, clusters.target, records)
        gaps = _named(chosen, _gaps(chosen, clusters), topic, partition, offset)
    _show(chosen, gaps, output)
    return 0


@app.command("reopen")
def reopen(
    topic: TopicArgument,
    partition: PartitionArgument,
    offset: OffsetArgument,
    *,
    config: ConfigOption,
    flow: OneFlowOption = None,
    output: OutputOption = Output.TABLE,
) -> int:
    """Withdraw an acknowledgement: the gap makes the gate not ready again, unless it has expired."""
    from twinlog.state.ledger import forget, read_ledger

    _, chosen = load_one_flow(config, flow)
    wanted = topic, partition, offset
    with clusters_with_ledger(chosen) as clusters:
        _named(chosen, _gaps(chosen, clusters), *wanted)
        known = read_ledger(chosen, clusters.target).acknowledged
        found = [it for it in known if (it.topic, it.partition, it.first_offset) == wanted]
        if not found:
            raise TerminalError(
                f"nobody has acknowledged the gap of {topic}-{partition} at offset {offset}",
                hint="see `twinlog topics gaps`",
                code="no-gap",
            )
        for record in found:
            forget(chosen, clusters.target, record)
        gaps = _named(chosen, _gaps(chosen, clusters), *wanted)
    _show(chosen, gaps, output)
    return 0


def _gaps(flow: FlowSettings, clusters: Clusters) -> tuple[GapReport, ...]:
    from twinlog.facts.copies import read_gaps
    from twinlog.state.ledger import read_ledger

    ledger = read_ledger(flow, clusters.target)
    return read_gaps(flow, clusters.target, ledger, clock.now_ms(), clusters.source)


def _named(
    flow: FlowSettings, gaps: Sequence[GapReport], topic: str, partition: int, offset: int
) -> tuple[GapReport, ...]:
    wanted = topic, partition, offset
    found = tuple(it for it in gaps if (it.topic, it.partition, it.first_offset) == wanted)
    if not found:
        raise TerminalError(
            f"{flow.name} has no gap of {topic}-{partition} that begins at offset {offset}",
            hint="see `twinlog topics gaps`",
            code="no-gap",
        )
    return found


def grid(flow: str, gaps: Sequence[GapReport], empty: str = "") -> Grid:
    """Show gaps as a table."""
    columns = (
        "topic | partition | from offset: first_offset | to offset: last_offset | at most: records"
        " | from: since | to: until | cause | copied on: copied_past | state | expires"
        " | by: acknowledged_by | reason: acknowledged_reason"
    )
    return Grid.of(
        f"{flow}: gaps, never to be copied", columns, gaps, empty, expires=lambda it: it.expires or "never"
    )


def _show(flow: FlowSettings, gaps: Sequence[GapReport], output: Output) -> None:
    show({"flow": flow.name, "gaps": to_json(gaps)}, output, [grid(flow.name, gaps, "none")])
