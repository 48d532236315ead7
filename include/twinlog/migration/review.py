"""Compare MM2's offset-syncs and checkpoints with what was proved. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from twinlog.cluster.values import TopicPartition
from twinlog.formats.mm2.checkpoint import Checkpoint
from twinlog.formats.mm2.offset_sync import OffsetSync
from twinlog.migration.alignment import Alignment
from twinlog.migration.takeover_report import CheckpointReview, PartitionProof
from twinlog.state.mm2_topics import Checkpoints


@dataclass(slots=True)
class _Pairs:
    """The compared records of one partition, each with its copies."""

    alignment: Alignment
    copies: dict[int, set[int]] = field(default_factory=dict)
    firsts: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for upstream, downstream in self.alignment.pairs:
            self.copies.setdefault(upstream, set()).add(downstream)
        self.firsts = sorted((upstream, min(found)) for upstream, found in self.copies.items())

    def knows(self, upstream: int) -> bool:
        """Say whether the record at `upstream`, or the next one, was compared."""
        return bool(self.firsts) and self.firsts[0][0] <= upstream <= self.alignment.last_upstream + 1

    def next_copy(self, upstream: int) -> int:
        """Return where a group that has read everything before `upstream` goes on."""
        at = bisect_left(self.firsts, (upstream, -1))
        return self.firsts[at][1] if at < len(self.firsts) else max(d for _, d in self.alignment.pairs) + 1


def review_syncs(proof: PartitionProof, found: Alignment, syncs: Iterable[OffsetSync]) -> PartitionProof:
    """Count the partition's syncs that lie in what was compared, and those that name another record."""
    pairs = _Pairs(found)
    known = [it for it in syncs if it.upstream_offset in pairs.copies]
    wrong = [it for it in known if it.downstream_offset not in pairs.copies[it.upstream_offset]]
    if not wrong:
        return replace(proof, syncs=len(known))
    message = (
        f"offset-sync {wrong[-1].upstream_offset} -> {wrong[-1].downstream_offset} of {proof.topic}-{proof.partition}"
        " names another record"
    )
    return replace(
        proof,
        syncs=len(known),
        wrong_syncs=len(wrong),
        message="; ".join(filter(None, (proof.message, message))),
    )


def syncs_by_partition(syncs: Iterable[OffsetSync]) -> Mapping[TopicPartition, list[OffsetSync]]:
    """Sort syncs by source partition, in their order; those before a step back upstream are dropped.

    MM2's store forgets them (OffsetSyncStore.updateSyncArray): they are of an earlier incarnation, or of a copy made
    anew.
    """
    result: defaultdict[TopicPartition, list[OffsetSync]] = defaultdict(list)
    for sync in syncs:
        found = result[TopicPartition(sync.topic, sync.partition)]
        if found and sync.upstream_offset < found[-1].upstream_offset:
            found.clear()
        found.append(sync)
    return result


def review_checkpoints(
    checkpoints: Checkpoints, proofs: Mapping[TopicPartition, Alignment]
) -> CheckpointReview:
    """Compare each checkpoint with the record the group would have to read next; `proofs` by the copy's partition."""
    pairs = {it: _Pairs(found) for it, found in proofs.items() if found.pairs}
    distances = [
        _distance(it, pairs.get(TopicPartition(it.topic, it.partition))) for it in checkpoints.records
    ]
    known = [it for it in distances if it is not None]
    return CheckpointReview(
        topic=checkpoints.topic,
        groups=len({it.group for it in checkpoints.records}),
        partitions=len(checkpoints.records),
        exact=sum(it == 0 for it in known),
        early=sum(it > 0 for it in known),
        most_early=max((it for it in known if it > 0), default=0),
        beyond=sum(it < 0 for it in known),
        not_compared=len(distances) - len(known),
        unreadable=checkpoints.unreadable,
    )


def _distance(checkpoint: Checkpoint, pairs: _Pairs | None) -> int | None:
    """Return how many downstream offsets the checkpoint lies before the right one; None if that was not compared."""
    if pairs is None or not pairs.knows(checkpoint.upstream_offset):
        return None
    return pairs.next_copy(checkpoint.upstream_offset) - checkpoint.downstream_offset
