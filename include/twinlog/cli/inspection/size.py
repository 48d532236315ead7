"""`twinlog size`: what a flow of so many partitions and MB/s needs, by a model of measured costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli.options import Output, OutputOption, parse_duration
from twinlog.cli.render import Cell, Grid, show
from twinlog.errors import ExitCode

if TYPE_CHECKING:
    from twinlog.sizing.size import Sized, Sizing

PartitionsOption = Annotated[
    int, typer.Option("--partitions", metavar="N", help="Source partitions that the flow copies.")
]
RateOption = Annotated[
    float,
    typer.Option(
        "--mb-per-second", metavar="X", help="MB a second, of 1,000,000 bytes, as the logs hold them."
    ),
]
BatchOption = Annotated[
    int,
    typer.Option(
        "--batch-bytes", metavar="N", help="Bytes of a mean record batch. Default: a full one of batch.size."
    ),
]
SlotsOption = Annotated[
    int | None,
    typer.Option("--slots", metavar="N", help="Tasks Spark runs at once. Default: as many as are needed."),
]
EveryOption = Annotated[
    str, typer.Option("--every", metavar="TIME", help="Time between two scheduled cycles: 60s, 5m.")
]
BrokersOption = Annotated[int, typer.Option("--brokers", metavar="N", help="Brokers of the target.")]
OutageOption = Annotated[
    str, typer.Option("--outage", metavar="TIME", help="An outage to catch up with afterwards: 1h.")
]
RetentionOption = Annotated[
    str, typer.Option("--retention", metavar="TIME", help="How long copies keep their records: 7d.")
]
GrowthOption = Annotated[
    float,
    typer.Option(
        "--new-partitions-per-day",
        metavar="N",
        help="Partitions that are added every day, as busy as the others.",
    ),
]


def size(
    *,
    partitions: PartitionsOption,
    mb_per_second: RateOption,
    batch_bytes: BatchOption = 16_384,
    slots: SlotsOption = None,
    every: EveryOption = "60s",
    brokers: BrokersOption = 3,
    outage: OutageOption = "1h",
    retention: RetentionOption = "7d",
    new_partitions_per_day: GrowthOption = 0.0,
    output: OutputOption = Output.TABLE,
) -> int:
    """Estimate what a flow needs: lanes, cores, memory, state, catch-up time, and what breaks first.

    A model of measured costs answers, for follow mode and for scheduled cycles; no cluster is asked. Exit code 1: the
    flow fits in neither.
    """
    from twinlog.sizing.load import Load
    from twinlog.sizing.size import size as size_load

    load = Load(
        partitions=partitions,
        mb_per_second=mb_per_second,
        batch_bytes=batch_bytes,
        slots=slots,
        every_seconds=parse_duration(every, "--every"),
        brokers=brokers,
        outage_seconds=parse_duration(outage, "--outage"),
        retention_seconds=parse_duration(retention, "--retention"),
        new_partitions_per_day=new_partitions_per_day,
    )
    sized = size_load(load)
    show(sized, output, _grids(sized))
    return int(ExitCode.DONE if sized.fits else ExitCode.SAYS_NO)


def _grids(sized: Sized) -> Iterator[Grid]:
    load = sized.load
    title = f"{load.partitions:,} partitions, {load.mb_per_second:,g} MB/s in batches of {load.batch_bytes:,} bytes"
    columns = [dict(_rows(it)) for it in sized.rhythms]
    yield Grid(
        title,
        ("", *(it.rhythm for it in sized.rhythms)),
        [(name, *(column[name] for column in columns)) for name in columns[0]],
    )
    yield Grid(
        "what bounds it, in percent of what it bears",
        ("rhythm", "%", "bound", "moved by"),
        [
            (rhythm.rhythm, f"{100 * it.used:,.0f}", it.name, it.knob)
            for rhythm in sized.rhythms
            for it in sorted(rhythm.limits, key=lambda it: it.used, reverse=True)
        ],
    )


def _rows(it: Sizing) -> Iterator[tuple[str, Cell]]:
    first = it.breaks_first
    when = "not at 1,024 times this load" if first.times is None else f"at {first.times:,g} times this load"
    yield "fits", "yes" if it.fits else "no"
    yield "lanes needed", f"{it.lanes_needed:,}"
    yield "lanes that run", f"{it.lanes:,}, {100 * it.lane_busy:.0f} % busy"
    yield "cores, brokers' not counted", f"{it.cores:,.2f}"
    yield "memory, MiB", f"{it.memory_mib:,.0f} ({it.memory_mib_per_lane:,.0f} a lane)"
    yield (
        "a cycle takes, s",
        "longer each time" if it.cycle_seconds is None else _none_if_zero(it.cycle_seconds),
    )
    yield "a lane commits every, s", f"{it.commit_seconds:,.3g}"
    yield "transactions a second", f"{it.transactions_per_second:,.2f}"
    yield "markers a second", f"{it.markers_per_second:,.0f}"
    yield "to state topics, MB a day", f"{it.state_mb_per_day:,.0f}"
    yield "markers, MB a day", f"{it.markers_mb_per_day:,.0f}"
    yield "offset map in the end, MB", f"{it.map_mb:,.0f}"
    yield "lanes catch up in, s", "for ever" if it.catch_up_seconds is None else f"{it.catch_up_seconds:,.0f}"
    yield "breaks first", f"{first.name}, {when}"
    if first.days is not None:
        yield "  at this growth in, days", f"{first.days:,.0f}"
    yield "  moved by", first.knob


def _none_if_zero(seconds: float) -> str:
    return f"{seconds:,.1f}" if seconds else "-"
