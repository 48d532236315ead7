"""Define an extent: the unit of the offset map."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """`length` records with upstream offsets from `upstream` and downstream offsets from `downstream`, both dense."""

    upstream: int
    downstream: int
    length: int

    @property
    def upstream_end(self) -> int:
        """Return one past the last upstream offset of the extent."""
        return self.upstream + self.length

    @property
    def downstream_end(self) -> int:
        """Return one past the last downstream offset of the extent."""
        return self.downstream + self.length
