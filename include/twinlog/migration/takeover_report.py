"""Say what a migration from MirrorMaker, or to MM2, found: plain values by partition, and the words for them. Pure.

MM2's offset-syncs and checkpoints are compared with what was proved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from twinlog.formats.mm2.records import Checkpoint, OffsetSync
from twinlog.kafka_types import OfPartition, TopicPartition
from twinlog.migration.alignment import Alignment, Verdict
from twinlog.migration.proof import Place
from twinlog.state.mm2_topics import Checkpoints


class ProofState(StrEnum):
    """The state of the proof where one copy ends.

    - `proved`: found by comparing records.
    - `not-compared`: nothing was left to compare; the position is the word of MM2, or of twinlog.
    - `nothing-copied`: there is neither a position nor a record.
    - `refused`: the copy's end is not known, and no work may rely on it.
    """

    PROVED = "proved"
    NOT_COMPARED = "not-compared"
    NOTHING_COPIED = "nothing-copied"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PartitionProof(OfPartition):
    """The proof of one partition.

    - `position` is the last upstream offset its copier says it has copied (None: it has no position).
    - `last_upstream` is the one found by comparing, -1 for nothing.
    - `compared` counts records found equal; `duplicates` those among them that are in the copy more than once,
      `beyond` those copied after the position was written.
    - `mapped` counts records the offset map was given.
    - `syncs` counts MM2's offset-syncs in the part that was compared, `wrong_syncs` those that name another record.
    - `message` and `hint` say why a partition is refused, or what else is noteworthy.
    """

    topic: str
    remote_topic: str
    partition: int
    state: ProofState
    position: int | None
    last_upstream: int
    compared: int = 0
    duplicates: int = 0
    beyond: int = 0
    mapped: int = 0
    syncs: int = 0
    wrong_syncs: int = 0
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointReview:
    """MM2's checkpoints, compared with what was proved.

    Of `partitions` positions of `groups` groups, `exact` name the first record not yet read. `early` ones would make
    groups read records again, at most `most_early`. `beyond` ones would make them miss records. `not_compared` lie
    outside of what was compared.
    """

    topic: str
    groups: int = 0
    partitions: int = 0
    exact: int = 0
    early: int = 0
    most_early: int = 0
    beyond: int = 0
    not_compared: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class TakeoverReport:
    """The findings and the result of `twinlog migrate takeover` or `twinlog migrate handover`.

    `state` is "done", "dry-run", or "refused" (then nothing was written). `positions_written` and `records_mapped`
    count what was written; `notes` are lines for people.
    """

    flow: str
    direction: str
    state: str
    run_id: str
    connector: str
    offsets_topic: str
    partitions: tuple[PartitionProof, ...]
    checkpoints: CheckpointReview
    source_group: str = ""
    positions_written: int = 0
    records_mapped: int = 0
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> tuple[PartitionProof, ...]:
        """The refused partitions."""
        return tuple(it for it in self.partitions if it.state is ProofState.REFUSED)

    @property
    def duplicates(self) -> int:
        """Records that are in a copy more than once."""
        return sum(it.duplicates for it in self.partitions)

    @property
    def beyond(self) -> int:
        """Records that were copied after positions were written, and would have been copied again."""
        return sum(it.beyond for it in self.partitions)


def proof_of(place: Place, found: Alignment) -> PartitionProof:
    """Say what a comparison means for a partition. Pure."""
    message, hint = _words(place, found)
    if found.verdict is Verdict.PROVED:
        state = ProofState.PROVED
    elif found.verdict is Verdict.NOT_COMPARED:
        state = ProofState.NOTHING_COPIED if found.last_upstream < 0 else ProofState.NOT_COMPARED
    else:
        state = ProofState.REFUSED
    return PartitionProof(
        topic=place.source.topic,
        remote_topic=place.target.topic,
        partition=place.source.partition,
        state=state,
        position=place.said,
        last_upstream=found.last_upstream,
        compared=found.compared,
        duplicates=found.duplicates,
        beyond=found.beyond,
        message=message,
        hint=hint,
    )


def refusal_of(
    topic: str, remote_topic: str, partition: int, position: int | None, message: str, hint: str
) -> PartitionProof:
    """Refuse a partition for a reason that needs no comparison."""
    return PartitionProof(
        topic,
        remote_topic,
        partition,
        ProofState.REFUSED,
        position,
        -1 if position is None else position,
        message=message,
        hint=hint,
    )


def _words(place: Place, found: Alignment) -> tuple[str, str]:
    copy = f"{place.target.topic}-{place.target.partition}"
    said = "nothing" if place.said is None else f"everything up to upstream offset {place.said}"
    match found.verdict:
        case Verdict.DIFFERENT:
            return (
                f"{copy} holds at downstream offset {found.at} a record that {place.name} does not have there",
                "find out whether records were transformed on their way, or who else writes to the copy; or leave the"
                " topic out with --topics",
            )
        case Verdict.INCOMPLETE:
            return (
                f"{copy} should hold {said} of {place.name}, and lacks a record (seen at offset {found.at})",
                "somebody deleted records or the whole copy; exclude the topic, or copy it anew",
            )
        case Verdict.AMBIGUOUS:
            return (
                f"{copy}: its last records are identical to the byte and the millisecond, so nobody can tell how many"
                f" were copied after upstream offset {place.said}",
                "start MirrorMaker again, let it write its offsets, and stop it in order",
            )
        case Verdict.NOT_COMPARED if place.said is not None:
            return (
                f"{place.name} or its copy has no records left to compare: the position stands as it is",
                "",
            )
    gap = place.said is not None and place.said + 1 < place.source_offsets.log_start
    if gap and found.last_upstream + 1 < place.source_offsets.log_start:
        return (
            f"{place.name}: upstream offsets {found.last_upstream + 1} to {place.source_offsets.log_start - 1} were"
            " deleted before anybody copied them",
            "the next cycle says what becomes of them",
        )
    return "", ""


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
        found = result[sync.topic_partition]
        if found and sync.upstream_offset < found[-1].upstream_offset:
            found.clear()
        found.append(sync)
    return result


def review_checkpoints(
    checkpoints: Checkpoints, proofs: Mapping[TopicPartition, Alignment]
) -> CheckpointReview:
    """Compare each checkpoint with the record the group would have to read next; `proofs` by the copy's partition."""
    pairs = {it: _Pairs(found) for it, found in proofs.items() if found.pairs}
    distances = [_distance(it, pairs.get(it.topic_partition)) for it in checkpoints.records]
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
