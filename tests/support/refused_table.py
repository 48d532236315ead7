"""The table of docs/refused-requests.md as rows: which requests a flow sends, and what it does without each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SOURCE, TARGET = "source", "target"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "refused-requests.md"
KEYS = {
    "Produce": 0,
    "Fetch": 1,
    "ListOffsets": 2,
    "Metadata": 3,
    "OffsetCommit": 8,
    "OffsetFetch": 9,
    "FindCoordinator": 10,
    "ListGroups": 16,
    "CreateTopics": 19,
    "InitProducerId": 22,
    "OffsetForLeaderEpoch": 23,
    "AddPartitionsToTxn": 24,
    "EndTxn": 26,
    "DescribeAcls": 29,
    "CreateAcls": 30,
    "DescribeConfigs": 32,
    "DescribeLogDirs": 35,
    "CreatePartitions": 37,
    "IncrementalAlterConfigs": 44,
    "DescribeClientQuotas": 48,
    "AlterClientQuotas": 49,
    "DescribeProducers": 61,
    "ListTransactions": 66,
}
"""Kafka's api keys."""

NOTHING = "nothing is copied"
GROUPS = "groups are not synced"
GUARDED = "nothing is missing: brokers themselves move no group that is in use"
STATE_ANEW = "state is read from its beginning each time"
WAITING = "the others are copied"


@dataclass(frozen=True)
class Use:
    """One request to one side of a flow, and what a cycle does without it."""

    side: str
    name: str
    without: str

    @property
    def key(self) -> int:
        return KEYS[self.name]

    @property
    def stops(self) -> bool:
        """Say whether a cycle fails, because it copies nothing, or not all that it should."""
        return self.without == NOTHING or self.without.endswith(WAITING)


def rows() -> tuple[Use, ...]:
    """Read the page."""
    cells = (line.strip("| ").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines())
    return tuple(Use(it[0], it[1], it[4]) for it in cells if it[0] in {SOURCE, TARGET})
