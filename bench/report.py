"""Show rows of measurements as a table, as JSON and as a plot."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.contenders import MM2, TUNED, TWINLOG
from bench.peers import table
from bench.rates import number, rate
from bench.topics import BOUND_GOAL, KINDS, WALL_GOAL

Row = dict[str, Any]


def write(document: Row, folder: Path) -> str:
    """Write results.json, results.md and results.png into `folder`; return the Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join([markdown(document), *table.lines(document["copies"])])
    (folder / "results.json").write_text(json.dumps(document, indent=1) + "\n")
    (folder / "results.md").write_text(text)
    plot(document["copies"], folder / "results.png")
    return text


def markdown(document: Row) -> str:
    """Return all measurements as tables."""
    parts = [document["machine"], ""]
    copies = document["copies"]
    bound = max(document.get("plain_relay", {}).values(), default=0.0)
    if copies:
        parts += [*_comparison(copies), "", *_shares(copies, bound), "", *_starts(document["starts"]), ""]
    if bound:
        parts += [
            f"A plain byte relay through sockets, same machine: {bound / 1e9:.2f} GB per CPU-second.",
            "",
        ]
    return "\n".join(parts) + "\n"


def _comparison(copies: Sequence[Row]) -> Iterable[str]:
    yield (
        "| topic | records per CPU-s: MM2 | MM2 tuned | twinlog | x MM2 | goal | x tuned"
        f" | records/s: MM2 | tuned | twinlog | x MM2 (goal {WALL_GOAL}) |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for kind in dict.fromkeys(row["kind"] for row in copies):
        cpu = {it.name: rate(copies, it.name, kind, "cpu_s") for it in (MM2, TUNED, TWINLOG)}
        wall = {it.name: rate(copies, it.name, kind, "wall_s") for it in (MM2, TUNED, TWINLOG)}
        cells = [*map(number, cpu.values()), _ratio(cpu, MM2.name), _goal(kind), _ratio(cpu, TUNED.name)]
        cells += [*map(number, wall.values()), _ratio(wall, MM2.name)]
        yield f"| {kind} | " + " | ".join(cells) + " |"


def _shares(copies: Sequence[Row], bound: float) -> Iterable[str]:
    yield "What twinlog used, and how much of it the relay (the Python workers), Spark's JVM and the driver:"
    yield ""
    yield (
        "| topic | records | MB read | MB written | CPU s | relay | JVM | driver"
        f" | MB per CPU-s | of the plain relay's (goal in large batches: {BOUND_GOAL:.0%}) | relay alone"
        " | MiB, largest worker |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for kind in dict.fromkeys(row["kind"] for row in copies):
        rows = [row for row in copies if row["kind"] == kind and row["contender"] == TWINLOG.name]
        if not rows:
            continue
        at = {
            key: median(row[key] for row in rows) for key in rows[0] if isinstance(rows[0][key], int | float)
        }
        cells = [
            f"{at['records']:,.0f}",
            f"{at['read_bytes'] / 1e6:,.0f}",
            f"{at['written_bytes'] / 1e6:,.0f}",
            *(f"{at[key]:.2f}" for key in ("cpu_s", "workers_cpu_s", "jvm_cpu_s", "driver_cpu_s")),
            f"{at['written_bytes'] / at['cpu_s'] / 1e6:,.0f}",
            f"{at['written_bytes'] / at['cpu_s'] / bound:.0%}" if bound else "-",
            f"{at['written_bytes'] / max(at['workers_cpu_s'], 0.01) / 1e6:,.0f}",
            f"{at['worker_mib']:.0f}",
        ]
        yield f"| {kind} | " + " | ".join(cells) + " |"
    yield ""
    yield "Bytes MM2 writes for one it reads, and all memory of each (MiB):"
    yield ""
    yield "| topic | written / read: MM2 | tuned | twinlog | memory: MM2 | tuned | twinlog |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for kind in dict.fromkeys(row["kind"] for row in copies):
        cells = []
        for contender in (MM2, TUNED, TWINLOG):
            rows = [row for row in copies if (row["kind"], row["contender"]) == (kind, contender.name)]
            cells.append(
                f"{median(it['written_bytes'] / it['read_bytes'] for it in rows):.2f}" if rows else "-"
            )
        for contender in (MM2, TUNED, TWINLOG):
            rows = [row for row in copies if (row["kind"], row["contender"]) == (kind, contender.name)]
            cells.append(f"{max(it['memory_mib'] for it in rows):,.0f}" if rows else "-")
        yield f"| {kind} | " + " | ".join(cells) + " |"


def _starts(starts: Sequence[Row]) -> Iterable[str]:
    yield "| starting, until the first record has arrived | s | CPU-s |"
    yield "|---|---:|---:|"
    for name in dict.fromkeys(row["contender"] for row in starts):
        rows = [row for row in starts if row["contender"] == name]
        yield f"| {name} | {median(it['wall_s'] for it in rows):.1f} | {median(it['cpu_s'] for it in rows):.1f} |"


def _goal(kind: str) -> str:
    goal = next((it.goal for it in KINDS if it.name == kind), 0)
    return str(goal) if goal else "-"


def _ratio(rates: dict[str, float], other: str) -> str:
    return f"**{rates[TWINLOG.name] / rates[other]:.1f}**" if rates[other] and rates[TWINLOG.name] else "-"


def plot(copies: Sequence[Row], path: Path) -> None:
    """Plot records per CPU-second by kind of topic, on a logarithmic scale."""
    if not copies:
        return
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    kinds = list(dict.fromkeys(row["kind"] for row in copies))
    figure, axes = pyplot.subplots(figsize=(11, 4.5), layout="constrained")
    for place, contender in enumerate((MM2, TUNED, TWINLOG)):
        rates = [rate(copies, contender.name, kind, "cpu_s") for kind in kinds]
        if not any(rates):
            continue
        bars = axes.bar(
            [n + 0.27 * (place - 1) for n in range(len(kinds))], rates, 0.26, label=contender.name
        )
        axes.bar_label(bars, [f"{rate / 1000:,.0f}k" for rate in rates], fontsize=7, padding=1)
    axes.set_yscale("log")
    axes.set_xticks(range(len(kinds)), kinds, rotation=15, fontsize=8)
    axes.set_ylabel("records per CPU-second")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
