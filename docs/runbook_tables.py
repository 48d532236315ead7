"""Write the tables of runbooks/*.md, from the procedures and what bench.failover measured (`make reference`)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from twinlog.drill import drill
from twinlog.procedure import Step
from twinlog.recovery.procedures import STEPS

DOCS = Path(__file__).parent
TABLES: dict[str, Sequence[Step]] = {
    **{mode: STEPS[mode] for mode in ("planned", "source-dead", "failback")},
    "drill": drill.STEPS,
}
"""The steps of each runbook, whose table is below the heading `The command`."""


def page(name: str) -> Path:
    """Return where a runbook is."""
    return DOCS / "runbooks" / f"{name}.md"


def written(name: str, text: str) -> str:
    """Return the text of a runbook with its table as the code has it."""
    table = "".join(f"{line}\n" for line in rows(TABLES[name], seconds(name)))
    before, title, section = text.partition("\n## The command\n")
    first, *_, last = (
        it.span() for it in re.finditer(r"^\|.*\n", section.partition("\n## ")[0], re.MULTILINE)
    )
    return before + title + section[: first[0]] + table + section[last[1] :]


def seconds(mode: str) -> dict[str, float]:
    """Return what each step of a failover took, and the whole of it (""), as bench.failover measured it, if it did."""
    measured = json.loads((DOCS / "performance" / "failover.json").read_text(encoding="utf-8"))
    return {row["step"]: row["seconds"] for row in measured["rows"] if row["mode"] == mode}


def rows(steps: Sequence[Step], took: dict[str, float]) -> Iterator[str]:
    """Yield the lines of a table: what a step does, what one sees, what to do otherwise, and how long it took."""
    more = (" took, s |", "---:|") if took else ("", "")
    yield "| step | action | expected | if not |" + more[0]
    yield "|---|---|---|---|" + more[1]
    for it in steps:
        line = f"| {it.name.value} | {it.does} | {it.expected} | {it.otherwise} |"
        yield f"{line} {took[it.name.value]:.1f} |" if took else line
    if took:
        yield f"| in all | | | | {took['']:.1f} |"


if __name__ == "__main__":
    for runbook in TABLES:
        page(runbook).write_text(
            written(runbook, page(runbook).read_text(encoding="utf-8")), encoding="utf-8"
        )
