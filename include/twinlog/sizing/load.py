"""Say what a flow has to carry, and with what: the questions of `twinlog size`, checked.  Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from twinlog.errors import UsageError

MOST_PARTITIONS: Final = 1_000_000
MOST_MB_PER_SECOND: Final = 100_000
MOST_SECONDS: Final = 30 * 86_400
MOST_RETENTION_SECONDS: Final = 3_650 * 86_400
DEFAULT_BATCH_BYTES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of a flow that bound its lanes (twinlog's defaults).  Bytes and seconds."""

    lane_bytes: int = 256 << 20
    """for so many bytes a cycle opens each further lane"""
    transaction_bytes: int = 64 << 20
    """`twinlog.transaction.bytes`"""
    partition_fetch_bytes: int = 4 << 20
    """`twinlog.partition.fetch.bytes`"""
    tick_seconds: float = 0.015
    """commit tick of follow mode"""
    backlog_seconds: float = 0.36
    """longest time between two commits of follow mode"""
    follow_seconds: float = 60.0
    """`twinlog.follow.seconds`"""
    state_partitions: int = 25 + 16
    """partitions of the progress topic and of the map"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Tell what a flow carries.  `slots` None: as many Spark slots as are needed."""

    partitions: int
    mb_per_second: float
    batch_bytes: int = DEFAULT_BATCH_BYTES
    slots: int | None = None
    every_seconds: float = 60.0
    brokers: int = 3
    outage_seconds: float = 3_600.0
    retention_seconds: float = 7 * 86_400.0
    new_partitions_per_day: float = 0.0

    @property
    def bytes_per_second(self) -> int:
        """Return what arrives, in whole bytes."""
        return round(self.mb_per_second * 1e6)

    def times(self, factor: float) -> Load:
        """Return a flow of so many times the partitions, each of which brings as much as before."""
        return replace(
            self, partitions=math.ceil(self.partitions * factor), mb_per_second=self.mb_per_second * factor
        )


def check(load: Load) -> None:
    """Raise UsageError for a number that cannot be, with the name of its option."""
    _check("--partitions", load.partitions, 1, MOST_PARTITIONS)
    _check("--mb-per-second", load.mb_per_second, 0, MOST_MB_PER_SECOND)
    _check("--batch-bytes", load.batch_bytes, 100, 100 << 20)
    _check("--slots", 1 if load.slots is None else load.slots, 1, 100_000)
    _check("--every", load.every_seconds, 1, MOST_SECONDS)
    _check("--brokers", load.brokers, 1, 10_000)
    _check("--outage", load.outage_seconds, 0, MOST_SECONDS)
    _check("--retention", load.retention_seconds, 0, MOST_RETENTION_SECONDS)
    _check("--new-partitions-per-day", load.new_partitions_per_day, 0, MOST_PARTITIONS)


def _check(name: str, given: float, least: float, most: float) -> None:
    if not (math.isfinite(given) and least <= given <= most):
        raise UsageError(
            f"{name}: {given:g} is not possible", hint=f"name a number from {least:,} to {most:,}"
        )
