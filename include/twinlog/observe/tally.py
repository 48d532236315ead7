"""Collect what is found while both sides are walked.  Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinlog.batches.columns import Int64s
from twinlog.observe.likeness import names
from twinlog.observe.values import Finding, Found, Stretch

LISTED = 1_000
"""Findings of each kind that are listed of one increment; all records are counted."""


@dataclass(slots=True)
class Tally:
    """The findings in the order found, and the records counted; neighbours with one finding are one."""

    findings: list[Found] = field(default_factory=list)
    counts: Counter[Finding] = field(default_factory=Counter)
    listed: Counter[Finding] = field(default_factory=Counter)
    equal: int = 0
    indistinct: int = 0
    not_comparable: int = 0

    def add(
        self,
        kind: Finding,
        upstream: Stretch | None,
        downstream: Stretch | None,
        records: int,
        fields: tuple[str, ...] = (),
    ) -> None:
        """Note a finding of neighbouring records."""
        self.counts[kind] += records
        last = self.findings[-1] if self.findings else None
        alike = last is not None and (last.kind, last.fields) == (kind, fields)
        if (
            last is not None
            and alike
            and _touch(last.upstream, upstream)
            and _touch(last.downstream, downstream)
        ):
            both = _joined(last.upstream, upstream), _joined(last.downstream, downstream)
            self.findings[-1] = Found(kind, *both, last.records + records, fields)
            return
        if self.listed[kind] < LISTED:
            self.listed[kind] += 1
            self.findings.append(Found(kind, upstream, downstream, records, fields))

    def rows(self, kind: Finding, upstream: Int64s, downstream: Int64s, chosen: Any) -> None:
        """Note a finding of the rows that a mask chooses."""
        for start, end in runs_of(chosen):
            self.add(kind, _stretch(upstream, start, end), _stretch(downstream, start, end), end - start)

    def changed(self, upstream: Int64s, downstream: Int64s, differs: Int64s) -> None:
        """Note what differs between source records and their copies, row by row."""
        other = int(np.count_nonzero(differs))
        self.equal += len(differs) - other
        if not other:
            return
        for fields in np.unique(differs[differs != 0]).tolist():
            for start, end in runs_of(differs == fields):
                both = _stretch(upstream, start, end), _stretch(downstream, start, end)
                self.add(Finding.CHANGED, *both, end - start, names(fields))


def runs_of(chosen: Any) -> list[tuple[int, int]]:
    """Return the runs [start, end) of rows that a mask chooses."""
    edges = np.flatnonzero(np.diff(chosen.astype(np.int8), prepend=0, append=0))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _stretch(offsets: Int64s, start: int, end: int) -> Stretch:
    return int(offsets[start]), int(offsets[end - 1]) + 1


def _touch(one: Stretch | None, another: Stretch | None) -> bool:
    return one is another if one is None or another is None else one[1] == another[0]


def _joined(one: Stretch | None, another: Stretch | None) -> Stretch | None:
    return None if one is None or another is None else (one[0], another[1])
