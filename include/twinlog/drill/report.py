"""The result of a drill, as people and programs see it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from twinlog.errors import ExitCode
from twinlog.formats.ledger.recovery import DrillState
from twinlog.procedure import StepReport
from twinlog.recovery.report import Documented, TopicAtRisk


class Found(StrEnum):
    """Name what became of one position: `right` alone speaks for the standby."""

    RIGHT = "right"
    NOTHING_TO_READ = "nothing-to-read"
    WRONG = "wrong"
    NOT_PLACED = "not-placed"


@dataclass(frozen=True, slots=True)
class DrilledPosition:
    """One position of a group, and what its clone read first on the target.

    - `upstream_offset` is committed on the source, `downstream_offset` where the clone began (None: nowhere).
    - `read_offset` is the offset of its first record on the target, `read_upstream` of the same record on the source
      (None: none was read, or it is on the target alone).
    - `again` counts records behind it that the group has read already, `skipped` those before it that it has not,
      by the map; None if unknown.
    - `exact`: the right record, and none is read again.
    - `compared`: key, value, headers and timestamp are equal to the source's record; None if the source does not
      answer, or has that record no more.
    - `seconds` from the start of the clone's consumer to the record.
    """

    group: str
    topic: str
    remote_topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int | None
    found: Found
    message: str
    read_offset: int | None = None
    read_upstream: int | None = None
    again: int | None = None
    skipped: int | None = None
    exact: bool = False
    compared: bool | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class DrillReport(Documented):
    """The contract of docs/drills.md: what was tried, and whether the standby kept its promise.

    `rto_seconds` is what twinlog's part of a failover took: to place the groups, and to the slowest first record; None
    if no record was read.  `rpo_seconds` is the age of the oldest record that is not on the target, None if unknown.
    `not_drilled` are groups that were not tried.  `left` are clones that could not be deleted.
    """

    flow: str
    run: str
    mode: str
    state: DrillState
    dry_run: bool
    steps: tuple[StepReport, ...]
    topics: tuple[TopicAtRisk, ...]
    groups: tuple[DrilledPosition, ...]
    rto_seconds: float | None
    rpo_seconds: float | None
    evidence: str
    by: str
    message: str
    drilled: tuple[str, ...]
    not_drilled: tuple[str, ...]
    left: tuple[str, ...]
    exit_code: ExitCode
