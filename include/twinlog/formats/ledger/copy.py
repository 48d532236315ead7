"""What a copy did to each of many partitions: a ledger record (twinlog.formats.ledger.records)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from twinlog.formats.ledger.entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class CopyOutcome(LedgerEntry):
    """What the copy of `run_id` did; the newest one only, and only of a flow of many partitions.

    By topic and partition (as text): `copied` has the records of those that got some, `errors` why those stopped that
    did.  `stopped` are the partitions that could not even be begun, as in the copy's result.
    """

    KIND: ClassVar[str] = "copy-outcome"
    run_id: str
    copied: Mapping[str, Mapping[str, int]]
    errors: Mapping[str, Mapping[str, str]]
    stopped: tuple[Mapping[str, Any], ...]
    at_ms: int
