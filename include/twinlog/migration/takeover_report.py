"""Say what a migration from MirrorMaker, or to MM2, found: plain values by partition, and the words for them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from twinlog.kafka_types import OfPartition
from twinlog.migration.alignment import Alignment, Verdict
from twinlog.migration.proof import Place
from twinlog.procedure import StepReport


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
    - `mapped` counts records the offset map was given, or would be.
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
    message: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class TakeoverReport:
    """The findings and the result of `twinlog migrate takeover` or `twinlog migrate handover`.

    `state` is "done", "dry-run", or "refused" (then nothing was written). `positions_written` counts what was written,
    `records_mapped` records that the offset map was given, `duplicates` those that are in a copy more than once, and
    `beyond` those that were copied after positions were written, and would have been copied again.  `notes` are lines
    for people.
    """

    flow: str
    direction: str
    state: str
    run_id: str
    connector: str
    offsets_topic: str
    source_group: str
    steps: tuple[StepReport, ...]
    partitions: tuple[PartitionProof, ...]
    positions_written: int
    records_mapped: int
    duplicates: int
    beyond: int
    notes: tuple[str, ...]

    @property
    def refused(self) -> tuple[PartitionProof, ...]:
        """The refused partitions."""
        return tuple(partition for partition in self.partitions if partition.state is ProofState.REFUSED)


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
