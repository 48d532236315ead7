"""Plan to let the copy of a partition go on at a later upstream offset.  Pure.

The model is KIP-875 (`PATCH /connectors/{name}/offsets`): whatever copies has stopped, and a person says which offset
is copied next.  Connect takes any offset.  Here no move may double a record, and none may lose one in silence: the
offsets left out become a gap with the cause `offsets-altered`, and those that the source has deleted keep their own
cause.  A copy can only be appended to, so there is no move back: `twinlog topics rebuild` copies anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.errors import TerminalError, UsageError
from twinlog.kafka_types import OfIncarnation
from twinlog.state.ledger import Ledger
from twinlog.topics.pauses import why_paused, why_suspended

REFUSED = "alter-refused"
"""Code of the error for a move that would double records, or that is not known to double none."""

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, slots=True)
class Standing(OfIncarnation):
    """Where the copy of a partition stands: upstream offset `goes_on` is copied next.

    [`log_start`, `readable_end`) is what the source can give.
    """

    topic: str
    topic_id: str
    remote_topic: str
    partition: int
    goes_on: int
    log_start: int
    readable_end: int


@dataclass(frozen=True, slots=True)
class Alteration(OfIncarnation):
    """A move of the copy of a partition, from upstream offset `from_offset` to `to_offset`, the next to be copied.

    `deleted` and `left_out` are upstream offsets [first, end) that no copy will have: the source has deleted them, or
    still holds them.
    """

    topic: str
    topic_id: str
    partition: int
    remote_topic: str
    from_offset: int
    to_offset: int
    deleted: tuple[int, int] | None
    left_out: tuple[int, int] | None

    @property
    def moves(self) -> bool:
        """Say whether there is anything to move."""
        return self.to_offset != self.from_offset

    @property
    def told(self) -> str:
        """One line that says what the move means."""
        name = f"{self.topic}-{self.partition}"
        if not self.moves:
            return f"{name} goes on at upstream offset {self.from_offset}: nothing to move"
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
        raise UsageError(f"--to: {text!r} is no offset", "give an upstream offset, or earliest, or latest")
    return int(text)


def plan_alteration(at: Standing, to: int) -> Alteration:
    """Plan the move to upstream offset `to`.  Raises TerminalError `alter-refused`."""
    where = at.topic, at.partition
    if at.goes_on > at.readable_end:
        raise refused(
            *where,
            f"was copied up to upstream offset {at.goes_on - 1}, but the source only to {at.readable_end - 1}",
            "`twinlog status` says whether the source lost records (truncation), or has an open transaction",
        )
    if to > at.readable_end:
        raise refused(
            *where,
            f"cannot go on at upstream offset {to}: the source can be read up to {at.readable_end - 1}",
            f"--to latest is {at.readable_end}",
        )
    if to < at.goes_on:
        raise refused(
            *where,
            f"cannot go back to upstream offset {to}: its copy can only be appended to, up to {at.goes_on - 1} so far",
            f"`twinlog topics rebuild --topic {at.topic}` deletes the copy and copies anew what the source has",
        )
    gone, first = min(to, at.log_start), max(at.goes_on, at.log_start)
    return Alteration(
        *(at.topic, at.topic_id, at.partition, at.remote_topic),
        from_offset=at.goes_on,
        to_offset=to,
        deleted=(at.goes_on, gone) if at.goes_on < gone else None,
        left_out=(first, to) if first < to else None,
    )


def refused(topic: str, partition: int, why: str, hint: str) -> TerminalError:
    """Return the error `alter-refused` about a partition."""
    return TerminalError(f"{topic}-{partition} {why}", hint, code=REFUSED, topic=topic, partition=partition)


def why_not_held(ledger: Ledger, topic: str) -> str:
    """Say what a person does first so that nothing copies the topic meanwhile; "" if it is paused."""
    if why_paused(ledger, topic) or why_suspended(ledger):
        return ""
    return f"pause it first: twinlog pause --topic {topic} --reason ..."
