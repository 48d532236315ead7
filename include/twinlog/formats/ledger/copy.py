"""Define the ledger record of what a copy did to each of many partitions (twinlog.formats.ledger.records)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from twinlog.formats.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class CopyOutcome(LedgerEntry):
    """The result of the copy of `run_id`; only the newest is kept, and only of a flow with many partitions.

    By topic and partition (as text): `copied` holds the number of records of partitions that got some, `errors` the
    reason of those that stopped.  `stopped` are the partitions that could not even be begun, as in the copy's result.
    """

    KIND: ClassVar[str] = "copy-outcome"
    run_id: str
    copied: Mapping[str, Mapping[str, int]]
    errors: Mapping[str, Mapping[str, str]]
    stopped: tuple[Mapping[str, Any], ...]
    at_ms: int
