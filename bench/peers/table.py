"""Show twinlog beside the relays that pass records on one by one: two tables, by CPU time and by the clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.contenders import EXACTLY_ONCE, MM2, TWINLOG
from bench.peers.contenders import CONFLUENT, FRANZ_GO
from bench.rates import Row, number, rate


def lines(copies: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of both tables and of the memory of each; none if no relay has copied anything."""
    measured = {row["contender"] for row in copies}
    others = [it for it in (CONFLUENT, FRANZ_GO, MM2.name, EXACTLY_ONCE.name) if it in measured]
    if not measured & {CONFLUENT, FRANZ_GO}:
        return
    for key, unit in (("cpu_s", "records per CPU-s"), ("wall_s", "records/s")):
        yield from _rates(copies, others, key, unit)
        yield ""
    yield from _costs(copies, [*others, TWINLOG.name])
    yield ""
    most = {
        name: max(row["memory_mib"] for row in copies if row["contender"] == name)
        for name in (*others, TWINLOG.name)
        if name in measured
    }
    yield f"All memory of each, at most, in MiB: {', '.join(f'{it} {mib:,.0f}' for it, mib in most.items())}."


def _rates(copies: Sequence[Row], others: Sequence[str], key: str, unit: str) -> Iterator[str]:
    names = " | ".join([*others, TWINLOG.name])
    ratios = " | ".join(f"twinlog's, x {it}" for it in others)
    yield f"| topic | {unit}: {names} | {ratios} |"
    yield "|---" + "|---:" * (2 * len(others) + 1) + "|"
    for kind in dict.fromkeys(row["kind"] for row in copies):
        ours = rate(copies, TWINLOG.name, kind, key)
        theirs = [rate(copies, it, kind, key) for it in others]
        cells = [*map(number, theirs), number(ours)]
        cells += [f"**{ours / it:.1f}**" if ours and it else "-" for it in theirs]
        yield f"| {kind} | " + " | ".join(cells) + " |"


def _costs(copies: Sequence[Row], names: Sequence[str]) -> Iterator[str]:
    """Yield the CPU-seconds that a terabyte of the source's log costs each."""
    yield f"| topic | CPU-s per TB read: {' | '.join(names)} |"
    yield "|---" + "|---:" * len(names) + "|"
    for kind in dict.fromkeys(row["kind"] for row in copies):
        terabytes = [rate(copies, name, kind, "cpu_s", of="read_bytes") / 1e12 for name in names]
        yield f"| {kind} | {' | '.join(number(1 / it if it else 0) for it in terabytes)} |"
