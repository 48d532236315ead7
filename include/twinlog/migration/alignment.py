"""Prove where a copy ends, by comparing records: which source records the end of the target's log holds. Pure.

MM2 copies a partition in order, and after a restart goes on behind the position it wrote last. So the log of a copy is
the source's records in order, now and then falling back and repeating some:

    source    a b c d e f
                  ^ the position MM2 wrote last
    target    a b c d | d e      restarted behind c: repeated d, went on to e

While the target's records are walked, two bounds are kept: the furthest source record they can be (`upper`), and the
furthest they must be (`lower`), given that everything up to the position MM2 wrote is there. Records that cannot be
told apart push the two bounds away from each other. The end is proved only if both meet.

Compacted topics may lack records on either side. A record with a key may be gone from the source. A record after MM2's
position may be missing from the target if a later one there has its key.

Copies that are only observed are matched by another walk (`observe/align`): it goes on over what it cannot match, and
names it.  Here one end is proved by two bounds, or nobody takes over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from twinlog.cluster.prints import Fingerprint
from twinlog.offsets.segments import Extent


class Verdict(StrEnum):
    """The outcome of a comparison.

    - `proved`: the copy ends at `last_upstream`.
    - `not-compared`: one side has no record left to compare, and nothing contradicts MM2's position.
    - `look-further-back`: a record of the target lies before the part of the source that was read.
    - The others say why nothing is proved.
    """

    PROVED = "proved"
    NOT_COMPARED = "not-compared"
    LOOK_FURTHER_BACK = "look-further-back"
    DIFFERENT = "different"
    INCOMPLETE = "incomplete"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class Window:
    """The records of one partition to compare.

    `source` and `target` are records in order of their offsets. `from_source_start` says that nothing older is left on
    the source. `from_first_record` says that both begin with the first record there ever was: the copy began there.
    `progress` is the last upstream offset MM2 says it has copied, None if it has no position. If `timestamps` is false
    they are not compared: the target's topic stamps records by itself.
    """

    source: Sequence[Fingerprint]
    target: Sequence[Fingerprint]
    progress: int | None
    from_source_start: bool
    from_first_record: bool = False
    compacted: bool = False
    timestamps: bool = True


@dataclass(frozen=True, slots=True)
class Alignment:
    """The result of a comparison.

    - `last_upstream` is the upstream offset up to which the copy is complete, -1 for nothing.
    - `compared` counts records of the target that were found on the source, `duplicates` those of them that repeat an
      earlier one, `beyond` those behind the position MM2 wrote, `aborted` those of aborted transactions, which a
      read_uncommitted copier takes along.
    - `pairs` are (upstream, downstream) of all of them.
    - `runs` are extents of the first copy of each record. They are empty if records that cannot be told apart are
      repeated, so that the first copy is not known.
    - `at` is the downstream offset of the record that prevents a proof, -1 if there is none.
    """

    verdict: Verdict
    last_upstream: int
    compared: int = 0
    duplicates: int = 0
    beyond: int = 0
    aborted: int = 0
    runs: tuple[Extent, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    at: int = -1


def align(window: Window) -> Alignment:
    """Prove where the copy ends."""
    said = -1 if window.progress is None else window.progress
    if not window.source or not window.target:
        return Alignment(Verdict.NOT_COMPARED, said)
    return _Walk(window, said).align()


class _Walk:
    """One pass over the target's records."""

    def __init__(self, window: Window, said: int) -> None:
        self._window = window
        self._said = said
        self._source = window.source
        self._places: dict[Hashable, list[int]] = {}
        for place, record in enumerate(self._source):
            self._places.setdefault(self._identity(record), []).append(place)
        self._said_place = bisect_right(self._source, said, key=lambda it: it.offset) - 1
        while self._said_place >= 0 and self._source[self._said_place].aborted:
            self._said_place -= 1  # a read_committed reader has passed it, and copied nothing
        self._upper = -1
        self._lower = self._said_place
        self._at = -1  # the place of the record before, to prefer going on over falling back
        self._copied = -1  # the furthest place taken as copied
        self._pairs: list[tuple[int, int]] = []
        self._first: list[tuple[int, int]] = []
        self._unclear = False
        self._aborted = 0

    def align(self) -> Alignment:
        for number, record in enumerate(self._window.target):
            found = self._candidates(record, first=number == 0)
            if found:
                self._step(record, found)
            elif self._pairs and not (self._window.compacted and record.key is not None):
                return self._stopped(record)
        return self._concluded()

    def _identity(self, record: Fingerprint) -> Hashable:
        return (record.content, record.timestamp) if self._window.timestamps else record.content

    def _candidates(self, record: Fingerprint, *, first: bool) -> list[int]:
        """Return the source places that the record can be: those reached without leaving a record out."""
        places = self._places.get(self._identity(record), [])
        if self._window.compacted or (first and not self._window.from_first_record):
            return places
        limit = self._following(self._upper)
        return places[: bisect_right(places, limit)]

    def _following(self, place: int) -> int:
        """Return the place of the next record after `place` that must be copied; aborted ones may be left out."""
        place += 1
        while place < len(self._source) and self._source[place].aborted:
            place += 1
        return place

    def _step(self, record: Fingerprint, places: list[int]) -> None:
        self._upper = max(self._upper, places[-1])
        self._lower = max(self._lower, places[0])
        onward = [place for place in places if self._at < place <= self._following(self._at)]
        chosen = onward[0] if onward else places[-1]
        self._unclear |= len(places) > 1 and not onward
        self._at = chosen
        self._aborted += self._source[chosen].aborted
        pair = self._source[chosen].offset, record.offset
        self._pairs.append(pair)
        if chosen > self._copied:
            self._copied = chosen
            self._first.append(pair)

    def _stopped(self, record: Fingerprint) -> Alignment:
        known = self._places.get(self._identity(record))
        if known:
            verdict = Verdict.INCOMPLETE  # the record is there, but beyond a record that was never copied
        elif self._window.from_source_start:
            verdict = Verdict.DIFFERENT
        else:
            verdict = Verdict.LOOK_FURTHER_BACK
        return self._unproved(verdict, record.offset)

    def _unproved(self, verdict: Verdict, at: int) -> Alignment:
        return Alignment(verdict, self._said, len(self._pairs), at=at)

    def _concluded(self) -> Alignment:
        if not self._pairs:
            # Fine if the source has none left of the records that MM2 copied.
            if self._said_place >= 0 or self._said < 0:
                return self._unproved(Verdict.DIFFERENT, self._window.target[-1].offset)
            return Alignment(Verdict.NOT_COMPARED, self._said)
        if self._upper < self._said_place:
            return self._unproved(Verdict.INCOMPLETE, self._pairs[-1][1])
        if self._lower != self._upper:
            return self._unproved(Verdict.AMBIGUOUS, self._pairs[-1][1])
        if self._window.compacted and (missing := self._missing()) >= 0:
            return self._unproved(Verdict.INCOMPLETE, missing)
        last = max(
            self._said, self._source[self._upper].offset
        )  # up to MM2's position only aborted ones follow
        return Alignment(
            Verdict.PROVED,
            last,
            compared=len(self._pairs),
            duplicates=len(self._pairs) - len(self._first),
            beyond=sum(upstream > self._said for upstream, _ in self._first),
            aborted=self._aborted,
            runs=() if self._unclear else extents_of(self._first),
            pairs=tuple(self._pairs),
        )

    def _missing(self) -> int:
        """Return the upstream offset of a record that was left out although no later record has its key, or -1."""
        copied = {upstream for upstream, _ in self._pairs}
        later = {record.key for record in self._window.target}
        for record in self._source[self._said_place + 1 : self._upper]:
            if (
                record.offset not in copied
                and not record.aborted
                and (record.key is None or record.key not in later)
            ):
                return record.offset
        return -1


def extents_of(pairs: Sequence[tuple[int, int]]) -> tuple[Extent, ...]:
    """Join neighbours among (upstream, downstream) pairs that rise on both sides."""
    runs: list[Extent] = []
    for upstream, downstream in pairs:
        if runs and (runs[-1].upstream_end, runs[-1].downstream_end) == (upstream, downstream):
            runs[-1] = Extent(runs[-1].upstream, runs[-1].downstream, runs[-1].length + 1)
        else:
            runs.append(Extent(upstream, downstream, 1))
    return tuple(runs)
