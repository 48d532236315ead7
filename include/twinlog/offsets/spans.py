"""Hold stretches of offsets of one partition.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Column


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Stretches [firsts, ends), in order; stretches that touch are joined."""

    firsts: Column = field(default_factory=lambda: np.empty(0, np.int64))
    ends: Column = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def downstream_of(cls, maps: Iterable[OffsetMap]) -> Spans:
        """Return the downstream offsets that these maps know to have been written."""
        return cls._of(
            (offset_map.downstream, offset_map.downstream + offset_map.length) for offset_map in maps
        )

    @classmethod
    def upstream_of(cls, maps: Iterable[OffsetMap]) -> Spans:
        """Return the upstream offsets that these maps know to have been copied."""
        return cls._of((offset_map.upstream, offset_map.upstream + offset_map.length) for offset_map in maps)

    @classmethod
    def between(cls, first: int, end: int) -> Spans:
        """Return the offsets from `first` to `end`."""
        return cls._joined(np.array([first], np.int64), np.array([end], np.int64))

    @classmethod
    def joined(cls, spans: Iterable[Spans]) -> Spans:
        """Return the offsets that lie in any of these."""
        return cls._of((span.firsts, span.ends) for span in spans)

    @classmethod
    def _of(cls, bounds: Iterable[tuple[Column, Column]]) -> Spans:
        known = list(bounds)
        return cls._joined(*map(np.concatenate, zip(*known, strict=True))) if known else cls()

    @classmethod
    def _joined(cls, firsts: Column, ends: Column) -> Spans:
        if not len(firsts):
            return cls()
        order = np.argsort(firsts, kind="stable")
        firsts, reached = firsts[order], np.maximum.accumulate(ends[order])
        new = np.concatenate(([True], firsts[1:] > reached[:-1]))
        return cls(firsts[new], reached[np.append(new[1:], True)])

    @classmethod
    def copies_of(cls, offset_map: OffsetMap, start: int, end: int) -> Spans:
        """Return the downstream offsets of the copies of upstream offsets [start, end)."""
        return cls._across(offset_map.upstream, offset_map.downstream, offset_map.length, start, end)

    @classmethod
    def copied_into(cls, offset_map: OffsetMap, start: int, end: int) -> Spans:
        """Return the upstream offsets whose copies lie in [start, end) downstream."""
        return cls._across(offset_map.downstream, offset_map.upstream, offset_map.length, start, end)

    @classmethod
    def _across(cls, here: Column, there: Column, length: Column, start: int, end: int) -> Spans:
        """Return the offsets on the other side of those in [start, end) here, by a map's columns."""
        low, high = np.maximum(here, start), np.minimum(here + length, end)
        some = high > low
        shift = (there - here)[some]
        return cls._joined(low[some] + shift, high[some] + shift)

    def without(self, others: Spans) -> Spans:
        """Return the offsets of these that lie in none of the others."""
        firsts, ends = np.append(0, others.ends), np.append(others.firsts, np.iinfo(np.int64).max)

        def outside(first: int, end: int) -> tuple[Column, Column]:
            low, high = np.maximum(firsts, first), np.minimum(ends, end)
            return low[high > low], high[high > low]

        return self._of(
            outside(*bounds) for bounds in zip(self.firsts.tolist(), self.ends.tolist(), strict=True)
        )

    @property
    def count(self) -> int:
        """Return the number of offsets."""
        return int((self.ends - self.firsts).sum())

    def __bool__(self) -> bool:
        return bool(len(self.firsts))

    def hold(self, firsts: Column, ends: Column) -> Any:
        """Return a mask of the stretches [firsts, ends) that lie as a whole in one of these."""
        if not self:
            return np.zeros(len(firsts), bool)
        index = np.searchsorted(self.firsts, firsts, side="right") - 1
        return (index >= 0) & (ends <= self.ends[index])

    def touch(self, firsts: Column, ends: Column) -> Any:
        """Return a mask of the stretches [firsts, ends) that overlap one of these."""
        if not self:
            return np.zeros(len(firsts), bool)
        index = np.searchsorted(self.firsts, ends, side="left") - 1
        return (index >= 0) & (self.ends[index] > firsts)

    def touches(self, first: int, end: int) -> bool:
        """Say whether offsets from `first` to `end` overlap one of these."""
        return bool(self.touch(np.array([first]), np.array([end]))[0])

    def has(self, offset: int) -> bool:
        """Say whether an offset lies in one of these."""
        return bool(self.hold(np.array([offset]), np.array([offset + 1]))[0])
