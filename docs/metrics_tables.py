"""Write the tables of metrics.md, from what the code declares and the alert rules (`make reference`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from twinlog.monitoring.metrics import METRICS, Metric, Part
from twinlog.shipped import folder

PAGE = Path(__file__).with_name("metrics.md")
RULES = folder("config") / "monitoring" / "rules.yml"
BETWEEN_MARKERS = re.compile(r"(<!-- metrics: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
BETWEEN_ALERTS = re.compile(r"(<!-- alerts -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """Return the page with its tables as the code has them."""
    page = BETWEEN_MARKERS.sub(lambda found: f"{found[1]}{table(Part[found[2].upper()])}{found[3]}", page)
    return BETWEEN_ALERTS.sub(lambda found: f"{found[1]}{alerts()}{found[2]}", page)


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


OUTDATED = " unless on (flow, job, instance) twinlog:outdated"
"""Text that nearly every rule has; the page has it once."""


def alerts() -> str:
    """Return the table of the alert rules, in their order."""
    lines = ["| alert | expression | for | severity |", "|---|---|---|---|"]
    rules: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    lines += [
        f"| {it['alert']} | `{it['expr'].replace(OUTDATED, '')}` | {it.get('for', '')} | {it['labels']['severity']} |"
        for it in rules
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
