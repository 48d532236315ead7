"""Gather what the flows of both directions know of one partition: their maps, and what they never copied. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twinlog.formats.ledger.records import GapCause
from twinlog.formats.ledger.topics import LEFT_BY_A_PERSON
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.kafka_types import SourceIncarnation
from twinlog.state.ledger import Ledger

LOST = LEFT_BY_A_PERSON | {GapCause.RETENTION, GapCause.DELETE_RECORDS}
"""Causes of lost ranges that were never copied."""

NOTHING = PackedMap.of({})

Known = PackedMap | UnreadableMap | None


@dataclass(frozen=True, slots=True)
class PartitionMaps:
    """The maps between the log that a reader comes from ("here") and the one it goes to ("there").

    - `onward` is the map of the flow that copies from here to there, `homeward` that of the flow from there to here.
      None: there is no such flow. Either may instead be the reason why it cannot be read.
    - `gaps` are upstream offsets [first, end) of the flow that copied, which are in no copy.
    - `back`: the log here is itself a copy of the one there, under another name (`B.t` on A is `t` on B). `onward` is
      then the map by which records of the copy came home.
    - `begun_empty`: such a copy held no record at its beginning.
    - `lent`: the reverse flow copies only on a way home. Behind its map nothing else came.
    """

    onward: Known = None
    homeward: Known = None
    gaps: Sequence[tuple[int, int]] = ()
    back: bool = False
    begun_empty: bool = False
    lent: bool = False

    def records_between(self, start: int, end: int) -> int:
        """Count the copied records at offsets [start, end) of the log there; without a map count the offsets.

        Raises UnreadableMap.
        """
        packed = readable(self.homeward if self.back else self.onward)
        if start >= end or packed is None:
            return max(0, end - start)
        return (packed.upstream_records_between if self.back else packed.records_between)(start, end)


NO_MAPS = PartitionMaps()


def readable(known: Known) -> PackedMap | None:
    """Return the map.  Raises UnreadableMap if it cannot be read."""
    if isinstance(known, UnreadableMap):
        raise known
    return known


def never_copied(ledger: Ledger) -> Mapping[SourceIncarnation, Sequence[tuple[int, int]]]:
    """List the upstream offsets [first, end) that the ledger knows to be in no copy, by partition of an incarnation.

    These are the gaps, and the offsets that the source had deleted when the copy of a topic began, if that copy was
    empty then.
    """
    found = defaultdict(list)
    for beginning in ledger.beginnings.values():
        for number, log_start in beginning.log_starts.items() if beginning.into_empty else ():
            found[SourceIncarnation(beginning.topic, beginning.topic_id, int(number))].append((0, log_start))
    for gap in ledger.gaps:
        if gap.cause in LOST:
            found[gap.life].append((gap.first_offset, gap.last_offset + 1))
    return found


def begun_empty(ledger: Ledger) -> frozenset[SourceIncarnation]:
    """List the partitions of incarnations whose copy held no record at its beginning: the flow copied all it holds.

    Partitions whose source was truncated since are left out: the copy keeps the records the source lost, and the map
    has forgotten them.
    """
    truncated = {gap.topic_partition for gap in ledger.gaps if gap.cause is GapCause.TRUNCATION}
    return frozenset(
        SourceIncarnation(beginning.topic, beginning.topic_id, int(number))
        for beginning in ledger.beginnings.values()
        for number in (beginning.log_starts if beginning.into_empty else ())
        if (beginning.topic, int(number)) not in truncated
    )
