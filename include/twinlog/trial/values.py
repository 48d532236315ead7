"""What became of each part of a trial, and what twinlog does without it.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Answer(StrEnum):
    """Say what became of a part: `failed` is no answer, or one that may be another the next time."""

    WORKS = "works"
    REFUSED = "refused"
    FAILED = "failed"
    NOT_TRIED = "not tried"


class Without(StrEnum):
    """Say what twinlog does without a part; docs/refused-requests.md says so of requests."""

    NOTHING = "nothing is copied"
    UNSAFE = "records could be lost or doubled: do not copy to this cluster"
    CODECS = "batches of that codec are not copied, unless twinlog.compression.type names another"
    OTHER_BATCHES = "the copy has the same records, in batches of the cluster's own"
    NEW_TOPICS = "topics without a copy wait; the others are copied"
    NEW_PARTITIONS = "new partitions wait; the others are copied"
    SYNCS_AND_BEATS = "MM2's offset syncs and heartbeats for the reverse flow are not written"
    GROUPS = "groups are not synced"
    DRILLS = "drills cannot read"
    SEEN_IF_SHORTER = (
        "such a loss is noticed only if a log is shorter; a partition whose leader changes in a copy stops"
    )
    STATE_ANEW = "state is read from its beginning each time"
    CONFIGS = "settings are not synced"
    ACLS = "ACLs are not synced"
    QUOTAS = "quotas are not synced"
    LANES = "lanes are assigned by offsets"
    DISKS = "the gate warns"
    OWNER = "its producer is not named"
    CLONES = "the groups of drills stay behind"
    REBUILDS = "no copy can be deleted or made anew"

    @property
    def stops(self) -> bool:
        """Say whether a cycle copies nothing, or not all that it should, or must not."""
        return self in STOPPING


STOPPING = frozenset({
    *(Without.NOTHING, Without.UNSAFE, Without.CODECS, Without.NEW_TOPICS, Without.NEW_PARTITIONS)
})


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a part on one cluster: `said` are figures, its refusal, or why it was not tried.

    `remedy` is what to grant or set, "" if nobody knows.
    """

    cluster: str
    tried: str
    answer: Answer
    said: str
    without: Without
    remedy: str = ""

    @property
    def forbids(self) -> bool:
        """Say whether the flow cannot copy all that it should, or nobody knows."""
        return self.answer is Answer.FAILED or (self.answer is Answer.REFUSED and self.without.stops)
