"""A source, and what an engine made of it, as logs that can be read from any offset; pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hypothesis import strategies as st
from pydantic import TypeAdapter

from batches import Rec, encode
from twinlog.formats.ledger.audit import Unproved
from twinlog.jsonable import to_json
from twinlog.logs.partition_reader import Block, Item, Lost
from twinlog.observe.align import match
from twinlog.observe.values import HORIZON_MS, Carried, Finding, Matched

Records = list[tuple[int, Rec]]
AS_JSON = TypeAdapter(Matched)
LATER = 10 * HORIZON_MS


@dataclass
class ListLog:
    """Records by their offsets, in batches of so many; what lies before `start` has expired.

    With `append_time` its topic stamps every record by itself.
    """

    records: Records
    end: int = 1 << 60
    sizes: Sequence[int] = (3, 1, 7)
    start: int = 0
    codec: int = 0
    append_time: int = 0

    def __call__(self, start: int) -> Iterator[Item]:
        if start < self.start:
            yield Lost(start, self.start, Unproved.SOURCE_RETENTION)
        shown = [it for it in self.records if self.start <= it[0] < self.end]
        turn = at = 0
        while at < len(shown):
            size = self.sizes[turn % len(self.sizes)]
            part, at, turn = shown[at : at + size], at + size, turn + 1
            if part[-1][0] >= start:
                raw = bytearray(_encoded(tuple(part), self.codec))
                if self.append_time:
                    raw[22] |= 8
                    raw[35:43] = (self.append_time + turn).to_bytes(8, "big")
                yield Block.of(memoryview(raw))


@cache
def _encoded(part: tuple[tuple[int, Rec], ...], codec: int) -> bytes:
    base = part[0][0]
    deltas = [offset - base for offset, _ in part]
    return bytes(encode([rec for _, rec in part], base_offset=base, deltas=deltas, codec=codec))


def distinct(count: int) -> list[Rec]:
    """Records that all differ; keys come again."""
    return [
        Rec(b"value %d" % n, b"key %d" % (n % 7), 1000 + n // 3, (("h", b"%d" % n),)) for n in range(count)
    ]


@st.composite
def sources(draw: Any, least: int = 1, most: int = 60) -> Records:
    """Records with offset gaps."""
    offset, found = draw(st.sampled_from([0, 0, 5])), []
    for record in distinct(draw(st.integers(least, most))):
        found.append((offset, record))
        offset += draw(st.sampled_from([1, 1, 1, 1, 2, 6]))
    return found


def laid(records: Sequence[Rec], draw: Any = None) -> Records:
    """Lay records into a log, with gaps if there is chance."""
    offset, found = 0, []
    for record in records:
        offset += draw(st.sampled_from([0, 0, 0, 1])) if draw else 0
        found.append((offset, record))
        offset += 1
    return found


def told(matched: Sequence[Matched], source: Records, target: Records) -> set[tuple[Any, ...]]:
    """Every record that was found, one by one."""
    found: set[tuple[Any, ...]] = set()
    for it in (one for result in matched for one in result.findings):
        sides = ((it.upstream, source), (it.downstream, target))
        up, down = (
            [offset for offset, _ in log if span[0] <= offset < span[1]] if span else [None] * it.records
            for span, log in sides
        )
        assert it.records == len(up) == len(down)
        found |= {(it.kind, *both, it.fields) for both in zip(up, down, strict=True)}
    return found


def count(matched: Sequence[Matched], kind: Finding) -> int:
    """Count the records found."""
    return sum(it.counts.get(kind, 0) for it in matched)


NUMBERED = list(enumerate(distinct(20)))


def observed(
    source: Records, target: Records, cuts: Sequence[tuple[int, int]] = (), **how: Any
) -> list[Matched]:
    """Match in increments that end at (upstream, downstream), then to the ends, then once more past the horizon."""
    results: list[Matched] = []
    carried = Carried(0, 0)
    starts = {"start": how.pop("source_start", 0)}, {"start": how.pop("target_start", 0)}
    shape = {"sizes": how.pop("sizes", (3, 1, 7)), "codec": how.pop("codec", 0)}
    append_time = how.pop("append_time", 0)
    ends = [*cuts, (1 << 60, 1 << 60)]
    for turn, (upstream, downstream) in enumerate([*ends, ends[-1], ends[-1]]):
        now = (max(0, turn - len(cuts))) * LATER
        logs = (
            ListLog(source, upstream, **shape, **starts[0]),
            ListLog(target, downstream, append_time=append_time, **shape, **starts[1]),
        )
        result = match(*logs, carried, now_ms=now, **how)
        results.append(AS_JSON.validate_json(json.dumps(to_json(result))))
        carried = results[-1].carried
    return results
