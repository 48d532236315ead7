"""Plan to move the copy of a partition to another upstream offset, forward or back.  Pure.

The model is KIP-875 (`PATCH /connectors/{name}/offsets`): whatever copies has stopped, and a person says which offset
is copied next.  Connect takes any offset.  Here no move may double a record, and none may lose one in silence:

 - forward: the offsets left out become a gap with the cause `offsets-altered`; those that the source has deleted keep
   their own cause
 - back: only over offsets of which the map says that none has a copy, such as those that an earlier move left out, or
   a damaged batch that was skipped (quarantine/skip.py) and that the source has whole again.  A
   move back over copies is refused: the copy can only be appended to, so it would hold these records twice

    beginning        copies end                    goes on at           end of the source
       |=================|-- none has a copy: back --|---- forward: a gap ----|
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NoReturn

from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import Gap
from twinlog.formats.ledger.topics import LEFT_BY_A_PERSON, GapAcknowledged
from twinlog.kafka_types import OfIncarnation, OfPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger, of_partition
from twinlog.topics.pauses import why_paused, why_suspended

REFUSED = "alter-refused"
"""Code of the error for a move that would double records, or that is not known to double none."""

EARLIEST, LATEST = "earliest", "latest"


class Direction(StrEnum):
    """Name where a move leads."""

    FORWARD = "forward"
    BACK = "back"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class Standing(OfIncarnation):
    """Where the copy of a partition stands: upstream offset `goes_on` is copied next.

    `begins` is where the copy began, None if that is not known; `into_empty` says that the copy held no record then.
    [`log_start`, `readable_end`) is what the source can give.  `offset_map` is None if nothing was mapped.
    """

    topic: str
    topic_id: str
    remote_topic: str
    partition: int
    goes_on: int
    log_start: int
    readable_end: int
    begins: int | None = None
    into_empty: bool = False
    offset_map: OffsetMap | None = None

    @property
    def copies_end(self) -> int:
        """The upstream offset behind the last record that has a copy by the map; 0 if none has."""
        known = self.offset_map
        return int(known.upstream[-1] + known.length[-1]) if known is not None and len(known.length) else 0


@dataclass(frozen=True, slots=True)
class Alteration(OfPartition):
    """A move of the copy of a partition, from upstream offset `from_offset` to `to_offset`, the next to be copied.

    `deleted` and `left_out` are upstream offsets [first, end) that no copy will have: the source has deleted them, or
    still holds them.  `again` are those [first, end) that are copied although the copy had gone on behind them.
    """

    topic: str
    partition: int
    remote_topic: str
    from_offset: int
    to_offset: int
    direction: Direction
    deleted: tuple[int, int] | None = None
    left_out: tuple[int, int] | None = None
    again: tuple[int, int] | None = None

    @property
    def told(self) -> str:
        """One line that says what the move means."""
        name = f"{self.topic}-{self.partition}"
        if self.direction is Direction.NOWHERE:
            return f"{name} goes on at upstream offset {self.from_offset}: nothing to move"
        if self.again is not None:
            first, end = self.again
            return (
                f"{name}: upstream offsets {first} to {end - 1} are copied after all; none of them has a copy"
            )
        parts = [
            f"{said} {span[0]} to {span[1] - 1}, at most {span[1] - span[0]:,} records"
            for said, span in (
                ("upstream offsets", self.left_out),
                ("what the source has deleted already: upstream offsets", self.deleted),
            )
            if span is not None
        ]
        return f"{name}: never copied are {'; and '.join(parts)}"


def offset_wanted(text: str, at: Standing) -> int:
    """Read `earliest`, `latest` or an upstream offset.  Raises UsageError for anything else."""
    if text == EARLIEST:
        return at.log_start
    if text == LATEST:
        return at.readable_end
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**63 - 1:
        raise UsageError(
            f"--to: {text!r} is no offset", hint="give an upstream offset, or earliest, or latest"
        )
    return int(text)


def plan_alteration(at: Standing, to: int, ledger: Ledger) -> Alteration:
    """Plan the move to upstream offset `to`.  Raises TerminalError `alter-refused`."""
    names = at.topic, at.partition, at.remote_topic, at.goes_on, to
    if at.goes_on > at.readable_end:
        _refuse(
            at,
            f"was copied up to upstream offset {at.goes_on - 1}, but the source only to {at.readable_end - 1}",
            "`twinlog status` says whether the source lost records (truncation), or has an open transaction",
        )
    if to > at.readable_end:
        _refuse(
            at,
            f"cannot go on at upstream offset {to}: the source can be read up to {at.readable_end - 1}",
            f"--to latest is {at.readable_end}",
        )
    if to == at.goes_on:
        return Alteration(*names, Direction.NOWHERE)
    if to < at.goes_on:
        _require_no_copies(at, to, ledger)
        return Alteration(*names, Direction.BACK, again=(to, at.goes_on))
    gone = min(to, at.log_start)
    deleted = (at.goes_on, gone) if at.goes_on < gone else None
    first = max(at.goes_on, at.log_start)
    return Alteration(*names, Direction.FORWARD, deleted, (first, to) if first < to else None)


def _require_no_copies(at: Standing, to: int, ledger: Ledger) -> None:
    """Raise TerminalError unless the source still holds [`to`, `goes_on`), and none of it is known to be copied."""
    rebuild = f"`twinlog rebuild --topic {at.topic}` deletes the copy and copies anew what the source has"
    if to < at.log_start:
        _refuse(
            at,
            f"cannot go back to upstream offset {to}: the source's log starts at {at.log_start}",
            f"--to earliest is {at.log_start}",
        )
    if to < at.copies_end:
        _refuse(
            at,
            f"cannot go back to upstream offset {to}: records up to {at.copies_end - 1} are in {at.remote_topic}, which"
            " would hold them twice",
            f"offsets from {at.copies_end} on have no copy; {rebuild}"
            if at.copies_end < at.goes_on
            else rebuild,
        )
    for it in of_partition(ledger.quarantined, at.topic, at.partition):
        if to <= it.offset < at.goes_on and it.topic_id in {"", at.topic_id}:
            _refuse(
                at,
                f"cannot go back to upstream offset {to}: the record at {it.offset} was written aside, and would be a"
                " second time",
                f"go back to {it.offset + 1} at most, or {rebuild}",
            )
    # In front of its beginning an empty copy can hold nothing.
    first = max(to, at.begins) if at.begins is not None and at.into_empty else to
    covered = first >= at.goes_on or (
        at.offset_map is not None and at.offset_map.covers_all(first, at.goes_on)
    )
    if not covered:
        _refuse(
            at,
            f"cannot go back to upstream offset {to}: the map does not say whether all up to {at.goes_on - 1} was left"
            " out",
            rebuild,
        )


def _refuse(at: Standing, why: str, hint: str) -> NoReturn:
    name = f"{at.topic}-{at.partition}"
    raise TerminalError(
        f"{name} {why}", hint=hint, code=REFUSED, topic=at.topic, partition=at.partition, offset=at.goes_on
    )


def why_not_held(ledger: Ledger, topic: str) -> str:
    """Say what a person does first so that nothing copies the topic meanwhile; "" if it is paused."""
    if why_paused(ledger, topic) or why_suspended(ledger):
        return ""
    return f"pause it first: twinlog pause --topic {topic} --reason ..."


def gaps_undone(ledger: Ledger, at: Standing, to: int) -> Iterator[tuple[Gap, Gap | None]]:
    """Yield the gaps that a move back to `to` makes smaller, each with what is left of it."""
    for gap in of_partition(ledger.gaps, at.topic, at.partition):
        ours = gap.topic_id == at.topic_id and gap.cause in LEFT_BY_A_PERSON
        if ours and gap.last_offset >= to:
            left = replace(gap, last_offset=to - 1, records_estimate=to - gap.first_offset)
            yield gap, left if gap.first_offset < to else None


def acknowledged(ledger: Ledger, gap: Gap) -> GapAcknowledged | None:
    """Return who answers for a gap, None if nobody does."""
    wanted = gap.topic, gap.topic_id, gap.partition, gap.first_offset
    return next(
        (
            it
            for it in ledger.acknowledged
            if (it.topic, it.topic_id, it.partition, it.first_offset) == wanted
        ),
        None,
    )
