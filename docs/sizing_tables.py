"""Write the tables of sizing.md: what the model says of four flows, and what it is fed with (`make reference`)."""

from __future__ import annotations

import re
from pathlib import Path

from twinlog.sizing.costs import MEASURED, Curve
from twinlog.sizing.load import Load
from twinlog.sizing.size import Sizing, size

PAGE = Path(__file__).with_name("sizing.md")
BETWEEN = re.compile(r"(<!-- (flows|costs) -->\n).*?(<!-- end -->)", re.DOTALL)

FLOWS = {
    "1 GB/s over 10,000 partitions, 32 slots": Load(partitions=10_000, mb_per_second=1_000, slots=32),
    "the same in batches of 256 KB": Load(
        partitions=10_000, mb_per_second=1_000, batch_bytes=262_144, slots=32
    ),
    "10,000 partitions, nearly idle: 1 MB/s": Load(partitions=10_000, mb_per_second=1, slots=32),
    "1,000 topics of 10 partitions, 100 MB/s, 50 topics more a day": Load(
        partitions=10_000, mb_per_second=100, slots=32, new_partitions_per_day=500
    ),
}
"""The cases of the page: batches of 16 KB, three brokers, an outage of an hour, retention of a week."""


def written(page: str) -> str:
    """Return the page with its tables as the model has them."""
    return BETWEEN.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", page)


def flows() -> str:
    """Return what the model says of each flow, a row for each rhythm."""
    columns = (
        "flow", "rhythm", "fits", "lanes needed", "cores", "memory, MiB", "a cycle, s", "a lane commits every, s",
        "transactions a second", "markers a second", "state topics, MB a day", "offset map, MB",
        "catching up, s", "breaks first", "at times this load", "moved by",
    )  # fmt: skip
    lines = [f"| {' | '.join(columns)} |", f"|---|---|---|{'---:|' * 10}---|---:|---|"]
    for name, load in FLOWS.items():
        lines += [f"| {name} | {' | '.join(_cells(it))} |" for it in size(load).rhythms]
    return "\n".join([*lines, ""])


def _cells(it: Sizing) -> tuple[str, ...]:
    first = it.breaks_first
    times = "over 1,024" if first.times is None else f"{first.times:,.2g}"
    days = "" if first.days is None else f", in {first.days:,.0f} days"
    cycle = "longer and longer" if it.cycle_seconds is None else f"{it.cycle_seconds:,.1f}"
    return (
        it.rhythm,
        "yes" if it.fits else "**no**",
        f"{it.lanes_needed:,}",
        f"{it.cores:,.1f}",
        f"{it.memory_mib:,.0f}",
        "-" if it.rhythm == "follow" else cycle,
        f"{it.commit_seconds:,.2g}",
        f"{it.transactions_per_second:,.1f}",
        f"{it.markers_per_second:,.0f}",
        f"{it.state_mb_per_day:,.0f}",
        f"{it.map_mb:,.0f}",
        "never" if it.catch_up_seconds is None else f"{it.catch_up_seconds:,.0f}",
        first.name,
        times + days,
        first.knob,
    )


def costs() -> str:
    """Return what the model is fed with, and where each figure comes from."""
    lines = ["| cost | value | from |", "|---|---|---|"]
    for name, it in MEASURED.listed():
        if isinstance(it, Curve):
            value = "; ".join(f"{cost:g} at {size:,} bytes a batch" for size, cost in it.points)
        else:
            value = f"{it.value:,g}"
        lines.append(f"| {name.replace('_', ' ')} | {value} {it.unit} | {it.source} |")
    return "\n".join([*lines, ""])


TABLES = {"flows": flows, "costs": costs}

if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
