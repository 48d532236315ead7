"""Side by side with MirrorMaker 2: the same kinds of topics, the same machine, one after the other.

    make bench         the short form, under five minutes
    make bench-full    everything, several times over, and all else that is measured, into docs/performance

Or `python -m bench [--full] [--with-peers] [--tls] [--kind NAME ...] [--repetitions N] [--scale X]
[--logs FOLDER] [--out FOLDER]`.

The CPU time covers the replicating processes with all of their children (Spark's JVM included), but not the brokers
and the loader of the topics.  The start is reported separately.  Results: results.json, results.md, results.png.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from bench import memory, pages, plain_relay, report, side_by_side
from bench.contenders import EXACTLY_ONCE, LISTENERS, MM2, TUNED, TWINLOG, Contender
from bench.peers.contenders import relays
from bench.topics import BROKER, TARGET
from twinlog.lab.kafka.broker import EmbeddedKafka


def main() -> None:
    """Measure and write the report."""
    given = arguments()
    contenders = (MM2, TUNED, EXACTLY_ONCE, TWINLOG) if given.full else (MM2, TWINLOG)
    repetitions = given.repetitions or (3 if given.full else 1)
    scale = given.scale or (2.0 if given.full else 0.6)
    document: dict[str, Any] = {
        "machine": f"{pages.machine()} {where(given.logs)}" + "  TLS on both sides." * given.tls,
        "starts": [],
        "copies": [],
    }
    document["plain_relay"] = plain_relay.bytes_per_cpu_s()
    try:
        measure(document, given, contenders, repetitions, scale)
        for size, rate in plain_relay.bytes_per_cpu_s().items():  # a virtual machine's speed changes
            document["plain_relay"][size] = max(rate, document["plain_relay"][size])
    finally:  # results measured before a failure are worth reading
        print("\n" + report.write(document, given.out))


def measure(
    document: dict[str, Any],
    given: argparse.Namespace,
    contenders: Sequence[Contender],
    repetitions: int,
    scale: float,
) -> None:
    """Add rows to the document as they come."""
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        tempfile.TemporaryDirectory(prefix="twinlog-bench-", dir=given.logs) as logs,
        EmbeddedKafka("A", Path(logs, "A"), settings=BROKER, listeners=LISTENERS[given.tls]) as source,
        EmbeddedKafka("B", Path(logs, "B"), settings=TARGET, listeners=LISTENERS[given.tls]) as target,
    ):
        clusters = side_by_side.Clusters(source, target)
        kinds = side_by_side.kinds_named(given.kind)
        if given.full or given.with_peers:
            contenders = [*contenders, *relays(Path(folder, "relays"))]
        contenders = [replace(it, tls=given.tls) for it in contenders]
        rows = side_by_side.run(
            clusters, contenders, kinds, repetitions=repetitions, scale=scale, folder=Path(folder)
        )
        for row in rows:
            document["copies" if "kind" in row else "starts"].append(row)
            say(row)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--full", action="store_true", help="every contender, more of everything")
    parser.add_argument(
        "--with-peers", action="store_true", help="relays in Go and Python, too (with --full they always run)"
    )
    parser.add_argument(
        "--kind", action="append", default=[], help="only this kind of topic (may be repeated)"
    )
    parser.add_argument("--tls", action="store_true", help="let every contender read and write over TLS")
    parser.add_argument("--repetitions", type=int, help="default: 1, or 3 for --full")
    parser.add_argument("--scale", type=float, help="of the volumes; default: 0.6, or 2 for --full")
    parser.add_argument("--logs", type=Path, help="folder for the brokers' logs, /dev/shm for instance")
    parser.add_argument("--out", type=Path, default=Path("bench-results"), help="folder of the results")
    return parser.parse_args()


def where(logs: Path | None) -> str:
    """Say where the brokers write to, and the cost of a page of memory that was not at hand."""
    folder = (logs or Path(tempfile.gettempdir())).resolve()
    mounts = {Path(it.mountpoint): it.fstype for it in psutil.disk_partitions(all=True)}
    kind = next(mounts[it] for it in (folder, *folder.parents) if it in mounts)
    return f"Logs of the brokers are on {kind}.  A page of memory first written: {memory.touch(1 << 30) * 1e6:.1f} µs."


def say(row: dict[str, Any]) -> None:
    """Print one line for people who watch."""
    if "kind" in row:
        print(
            f"{row['contender']:26} {row['kind']:18} {row['records']:>9,} records {row['wall_s']:6.1f} s"
            f" {row['cpu_s']:6.1f} cpu-s  {row['records'] / row['cpu_s']:>10,.0f} per cpu-s",
            flush=True,
        )
    else:
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
