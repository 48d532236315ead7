"""Write the table of metrics in metrics.md, from what the code declares (`make reference`)."""

from __future__ import annotations

import re
from pathlib import Path

from twinlog.monitoring.metrics import METRICS, Metric, Part

PAGE = Path(__file__).with_name("metrics.md")
BETWEEN_MARKERS = re.compile(r"(<!-- metrics: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """Return the page with its tables as the code has them."""
    return BETWEEN_MARKERS.sub(lambda found: f"{found[1]}{table(Part[found[2].upper()])}{found[3]}", page)


def table(part: Part) -> str:
    """Return the table of the metrics that one part tells, in the order of the code."""
    lines = ["| metric | labels | is | MirrorMaker 2's |", "|---|---|---|---|"]
    lines += [row(it) for it in METRICS.values() if it.part is part]
    return "\n".join([*lines, ""])


def row(metric: Metric) -> str:
    """Return the row of a metric."""
    labels = ", ".join(f"`{it}`" for it in ("flow", *metric.labels))
    unit = f" ({metric.unit})" if metric.unit and metric.unit not in metric.exported else ""
    mm2 = f"`{metric.mm2}`" if metric.mm2 else ""
    return f"| `{metric.exported}` | {labels} | {metric.help}{unit} | {mm2} |"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
