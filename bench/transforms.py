"""Measure transforms in MirrorMaker 2 and in twinlog: a filter by a header, and headers that are dropped.

    python -m bench.transforms [--only TEXT] [--scale X] [--repetitions N] [--logs FOLDER] [--out FOLDER]

Each record has three headers.  The filter looks for a fourth and drops none, so that as many records arrive as were
written; in another row one of the three is dropped, so that every record is written anew.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from bench import pages
from bench.contenders import MM2, TWINLOG, Contender
from bench.side_by_side import Clusters, run
from bench.topics import BROKER, TARGET, Kind
from twinlog.lab.kafka.broker import EmbeddedKafka

Row = dict[str, Any]

HEADERS = ("source", "trace-id", "schema")
KINDS = (
    Kind("1 KB", 1000, headers=HEADERS, mm2_records=200_000, twinlog_records=600_000),
    Kind("100 B", 100, headers=HEADERS, mm2_records=400_000, twinlog_records=1_500_000),
)

_FILTER = """
{alias}->B.transforms = test
{alias}->B.transforms.test.type = org.apache.kafka.connect.transforms.Filter
{alias}->B.transforms.test.predicate = marked
{alias}->B.predicates = marked
{alias}->B.predicates.marked.type = org.apache.kafka.connect.transforms.predicates.HasHeaderKey
{alias}->B.predicates.marked.name = test
"""
_DROP = """
{alias}->B.transforms = clean
{alias}->B.transforms.clean.type = org.apache.kafka.connect.transforms.DropHeaders
{alias}->B.transforms.clean.headers = trace-id
"""


CHAINS = {"filter by header": _FILTER, "drop a header": _DROP}
GOAL = 5
"""The required multiple of MM2's records per CPU-second."""


def main() -> None:
    """Measure and write the table."""
    given = arguments()
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        tempfile.TemporaryDirectory(prefix="twinlog-bench-", dir=given.logs) as logs,
        EmbeddedKafka("A", Path(logs, "A"), settings=BROKER) as source,
        EmbeddedKafka("B", Path(logs, "B"), settings=TARGET) as target,
    ):
        for number, (chain, lines) in enumerate(CHAINS.items()):
            if given.only and given.only not in chain:
                continue
            contenders = [with_chain(it, lines, number) for it in (MM2, TWINLOG)]
            done = run(
                Clusters(source, target),
                contenders,
                KINDS,
                repetitions=given.repetitions,
                scale=given.scale,
                folder=Path(folder, str(number)),
            )
            for row in done:
                print(row, flush=True)
                if "kind" in row:
                    rows.append({"chain": chain, **row})
    machine = pages.machine()
    document = {"machine": machine, "copies": rows}
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "transforms.json").write_text(json.dumps(document, indent=1) + "\n")
    text = "\n".join([machine, "", *table(rows), ""])
    print(text)
    (given.out / "transforms.md").write_text(text)


def with_chain(contender: Contender, lines: str, number: int) -> Contender:
    """Return a contender that copies through a chain, under an alias of its own: its topics are its own, too."""
    alias = f"{contender.alias}{'XY'[number]}"
    extra = contender.extra + lines.format(alias=alias)
    return replace(contender, alias=alias, extra=extra)


def table(rows: Sequence[Row]) -> Iterable[str]:
    """Return the medians, side by side."""
    yield "| transform | records | records per CPU-s: MM2 | twinlog | x MM2 (goal) | records/s, x MM2 |"
    yield "|---|---|---:|---:|---:|---:|"
    for chain in CHAINS:
        for kind in KINDS:
            of_kind = [row for row in rows if (row["chain"], row["kind"]) == (chain, kind.name)]
            cpu, wall = ([rate(of_kind, it.name, by) for it in (MM2, TWINLOG)] for by in ("cpu_s", "wall_s"))
            if None in (*cpu, *wall):
                continue
            (mm2, twinlog), (mm2_wall, twinlog_wall) = cpu, wall
            yield (
                f"| {chain} | {kind.name} | {mm2:,.0f} | {twinlog:,.0f} | {twinlog / mm2:.1f} ({GOAL})"
                f" | {twinlog_wall / mm2_wall:.1f} |"
            )


def rate(rows: Iterable[Row], contender: str, by: str) -> Any:
    """Return the median of records per second of CPU or of the clock; None if nothing was measured."""
    found = [row["records"] / row[by] for row in rows if row["contender"] == contender]
    return median(found) if found else None


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--only", default="", help="only transforms with this in their name")
    parser.add_argument("--logs", type=Path, help="where both brokers write; default: the temporary folder")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
