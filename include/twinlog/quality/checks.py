"""What must hold for every partition after a cycle: the checks as data, one code each.

A check compares two columns of a `PartitionRow` frame, or a column with a number; a row where either side is
missing is not judged.  Severity critical says that the copy must not be relied upon.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether a failed check forbids relying on the copy, or asks to have a look."""

    CRITICAL = "critical"
    WARNING = "warning"


class Relation(StrEnum):
    """How the left column must stand to the right side."""

    EQUAL = "="
    AT_LEAST = ">="


@dataclass(frozen=True, slots=True)
class Check:
    """`left` `relation` `right`; `meaning` is what it says when it holds, `advice` what to do when it does not."""

    name: str
    severity: Severity
    left: str
    relation: Relation
    right: str | int
    meaning: str
    advice: str

    @property
    def expected(self) -> str:
        """The check as an expression over the columns."""
        return f"{self.left} {self.relation} {self.right}"


PARTITION_CHECKS = (
    Check(
        "nothing-copied-twice",
        Severity.CRITICAL,
        "mapped_records",
        Relation.EQUAL,
        "mapped_upstream_offsets",
        "every upstream record stands once in the offset map",
        "do not fail over to this partition; run an audit and report it, this is a defect",
    ),
    Check(
        "downstream-counted-once",
        Severity.CRITICAL,
        "mapped_records",
        Relation.EQUAL,
        "mapped_downstream_offsets",
        "the map counts as many downstream records as upstream ones",
        "do not fail over to this partition; run an audit and report it, this is a defect",
    ),
    Check(
        "map-not-beyond-progress",
        Severity.CRITICAL,
        "next_upstream",
        Relation.AT_LEAST,
        "mapped_upstream_end",
        "what the map knows is behind the committed progress",
        "somebody set this partition's stored progress back; it would be copied again from there",
    ),
    Check(
        "progress-within-source",
        Severity.CRITICAL,
        "source_end",
        Relation.AT_LEAST,
        "next_upstream",
        "progress does not point beyond the source's end",
        "the source lost records it had acknowledged (unclean leader election), or the topic was recreated",
    ),
    Check(
        "nothing-expired-uncopied",
        Severity.CRITICAL,
        "next_upstream",
        Relation.AT_LEAST,
        "source_log_start",
        "the source still has what is not copied yet",
        "raise retention on the source or copy more often; the next cycle notes the gap",
    ),
    Check(
        "copy-not-cut-off",
        Severity.CRITICAL,
        "target_stable_end",
        Relation.AT_LEAST,
        "mapped_downstream_end",
        "the target holds all that the map says was written",
        "the copy was deleted, recreated or lost records; it must be copied anew",
    ),
    Check(
        "partition-parity",
        Severity.CRITICAL,
        "target_partitions",
        Relation.AT_LEAST,
        "source_partitions",
        "the copy has at least as many partitions as its source",
        "run sync_topics, or add the partitions by hand",
    ),
    Check(
        "progress-never-goes-back",
        Severity.CRITICAL,
        "next_upstream",
        Relation.AT_LEAST,
        "reported_next_upstream",
        "progress is not behind the last cycle report",
        "somebody set stored progress back, or another replicator writes it; stop one of the two",
    ),
    Check(
        "lag-not-negative",
        Severity.WARNING,
        "lag_records",
        Relation.AT_LEAST,
        0,
        "lag is a number of records",
        "see progress-within-source",
    ),
)
