"""Group partitions by topic, for the cycle report and `status`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from twinlog.checks.partitions import PartitionRow


def rows_by_topic(rows: Iterable[PartitionRow]) -> dict[str, list[PartitionRow]]:
    """Group rows by source topic, partitions in order."""
    topics: defaultdict[str, list[PartitionRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.topic, row.partition)):
        topics[row.topic].append(row)
    return dict(topics)
