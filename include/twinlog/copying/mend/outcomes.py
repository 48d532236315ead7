"""Judge the outcome of a transaction whose commit marker the target lost, by its other writes. Pure.

Data, progress and map of a source partition are committed together, so one known outcome decides the others. If all
three are open, no reader can have seen any of them, so either outcome is right for all three.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.lane.fence.lost_progress import LostProgress
from twinlog.lane.open_transactions import HangingTransaction
from twinlog.offsets.segments import MapSegment


class Outcome(StrEnum):
    """Name how a transaction ended; EITHER: no marker of it is left anywhere, UNKNOWN: a person has to look."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    EITHER = "either"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class MapSeen:
    """The map topic's content for one source partition: the map, and segments that are not in it.

    `undecided` are segments whose transaction has no marker there, with the producer that wrote them. `aborted` are
    the upstream offsets at which uncommitted segments began.
    """

    known: PackedMap | UnreadableMap | None = None
    undecided: tuple[tuple[int, MapSegment], ...] = ()
    aborted: Collection[int] = field(default_factory=frozenset)

    @property
    def end(self) -> int | None:
        """Upstream offset where the map ends, None without a map."""
        return self.known.end_upstream if isinstance(self.known, PackedMap) else None

    def written_by(self, producer_id: int) -> list[MapSegment]:
        """Return the undecided segments of a producer."""
        return [piece for writer, piece in self.undecided if writer == producer_id]


def of_copy(
    found: HangingTransaction, last_copied: int | None, known: PackedMap | UnreadableMap | None
) -> Outcome:
    """Judge the open transaction at the end of a copy by progress (upstream) and map, which must agree."""
    if known is None or last_copied is None:
        return Outcome.ABORTED if known is None and last_copied is None else Outcome.UNKNOWN
    if isinstance(known, UnreadableMap) or known.end_upstream != last_copied + 1:
        return Outcome.UNKNOWN
    try:
        if known.open().end_downstream > found.log_end:
            return Outcome.UNKNOWN
        mapped = known.records_between(found.first_offset, found.log_end)
    except UnreadableMap:
        return Outcome.UNKNOWN
    if mapped == 0:
        return Outcome.ABORTED
    return Outcome.COMMITTED if mapped == found.log_end - found.first_offset else Outcome.UNKNOWN


def of_progress(lost: LostProgress, last_copied: int | None, seen: MapSeen, in_copy: Outcome) -> Outcome:
    """Judge progress by the map; if the map is open as well, by the copy.

    `last_copied` is the progress that is certain. `in_copy` is the outcome of the records that the open segments map.
    """
    if lost.last is not None and lost.last == last_copied:
        return Outcome.EITHER  # the fence has written it again
    if lost.last is None or isinstance(seen.known, UnreadableMap):
        return Outcome.UNKNOWN
    if seen.end == lost.last + 1:
        return Outcome.COMMITTED
    if seen.end != (None if last_copied is None else last_copied + 1):
        return Outcome.UNKNOWN
    written = seen.written_by(lost.producer_id)
    if written:
        whole = max(segment.end_upstream for segment in written) == lost.last + 1
        return in_copy if whole else Outcome.UNKNOWN
    first = seen.end if seen.end is not None else min(seen.aborted, default=-1)
    return Outcome.ABORTED if first in seen.aborted else Outcome.UNKNOWN


def of_map(producer_id: int, last_copied: int | None, seen: MapSeen) -> Outcome:
    """Judge a producer's undecided map segments of one source partition, by the partition's progress."""
    written = seen.written_by(producer_id)
    if not written or isinstance(seen.known, UnreadableMap):
        return Outcome.UNKNOWN
    copied_to = None if last_copied is None else last_copied + 1
    first, end = min(segment.first_upstream for segment in written), max(it.end_upstream for it in written)
    continues = seen.end is None or first == seen.end
    if copied_to == seen.end and (continues or _covers(seen.known, first, end)):
        return Outcome.ABORTED
    return Outcome.COMMITTED if continues and copied_to == end else Outcome.UNKNOWN


def _covers(known: PackedMap | None, first: int, end: int) -> bool:
    """Say whether a map covers all upstream offsets [first, end): then another lane copied them."""
    try:
        return known is not None and known.open().covers_all(first, end)
    except UnreadableMap:
        return False


def together(verdicts: Iterable[Outcome]) -> Outcome:
    """Join the outcomes of all that one marker would end; abort if every outcome is EITHER.

    Outcomes that contradict each other give UNKNOWN.
    """
    definite = set(verdicts) - {Outcome.EITHER}
    if not definite:
        return Outcome.ABORTED
    return definite.pop() if len(definite) == 1 else Outcome.UNKNOWN
