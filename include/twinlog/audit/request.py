"""Say how much an audit shall compare.  A Spark application reads this before it has imported anything else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AuditMode(StrEnum):
    """Name how much is compared: what is new since the last audit, or everything."""

    INCREMENTAL = "incremental"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """Tell what is asked for.

    `topics` None means all topics of the flow.  `behind` looks behind the copies of a promoted flow, too: what clients
    of the target wrote there has to have come home.
    """

    mode: AuditMode = AuditMode.INCREMENTAL
    topics: frozenset[str] | None = None
    behind: bool = False
