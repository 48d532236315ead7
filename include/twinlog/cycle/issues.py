"""List what kept a cycle from copying everything.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from twinlog.copying.ranges import StoppedPartition, what_to_do
from twinlog.kafka_types import PartitionIssue

if TYPE_CHECKING:
    from twinlog.copying.result import CopyResult
    from twinlog.lifecycle.sync_topics import SyncTopicsResult


def not_synced(synced: SyncTopicsResult) -> Iterator[PartitionIssue]:
    """Return the topics that have no place on the target."""
    for problem in synced.problems:
        if problem.blocking:
            yield PartitionIssue(problem.code, problem.topic, problem.message, problem.hint)
    for refusal in synced.refused:
        yield PartitionIssue(refusal.code, refusal.name, refusal.message, refusal.hint)


def not_copied(stopped: Iterable[StoppedPartition], copied: CopyResult | None) -> Iterator[PartitionIssue]:
    """Return the partitions that were not copied; what ended the copy as a whole is told once."""
    for it in stopped:
        yield PartitionIssue(it.code, it.topic, it.message, it.hint, it.partition)
    if copied is None:
        return
    carried = False
    for partition in copied.partitions:
        code, message = partition.error_code, partition.error
        if message and f"{copied.error}; ".startswith(f"{message}; "):  # this problem is what ended the copy
            carried, code, message = True, copied.error_code, copied.error
        if message:
            hint = what_to_do(code, partition.topic)
            yield PartitionIssue(code, partition.topic, message, hint, partition.partition)
    if copied.error and not carried:  # tasks that died report no partition, and others may be at their end
        yield PartitionIssue(copied.error_code, "", copied.error)
