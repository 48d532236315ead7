"""Find the consistent cut: an upstream offset for each partition, before which no transaction of the source is split.

A transaction may have parts in many partitions, and what of it was never copied is not known.  Two rules tell:

Rule 1 (whole).  All records of a transaction are written before its first marker.  A look asks every partition for its
end twice.  If a marker lies before the first answer of its partition, all records of its transaction lie before the
second answers of theirs.  So if the copy has reached all second answers of a look, every part of such a transaction is
in the copy, or has at least begun there.  A transaction with a marker behind the first answer is left out.

Rule 2 (which parts are one).  A part is known by producer id and epoch.  Since KIP-890 each transaction has an epoch
of its own.  Before, all transactions of a producer have the same, and its parts in two partitions may belong to one of
them or not.  A producer has one transaction at a time, and a part that ends before the first answers of a look belongs
to another transaction than one that begins behind its second answers.  Parts of one producer and epoch that no look
separates count as one transaction, unless all of them lie in one partition.  That leaves out more than it has to, and
splits none.

The cut is the largest that both rules allow: from all that was copied, partitions give way until nothing is split.
Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from twinlog.cut.history import UNKNOWN, History, Part
from twinlog.formats.transactions import Look
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition


@dataclass(frozen=True, slots=True)
class Cut:
    """The cut: upstream offsets, exclusive; `as_of_ms` is when the look was taken that it rests on (epoch ms).

    `left_out` are transactions of which something was copied that lies behind it.  `topics` are those that the flow
    copied when the look was taken.  Others were copied before: they have an offset only if something lies behind it.
    """

    offsets: Mapping[TopicPartition, int]
    as_of_ms: int
    left_out: int
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class NoCut:
    """There is no cut, and why."""

    reason: str


Transaction = Sequence[Part]
"""The parts that count as one transaction."""


def find(known: History, copied: Mapping[TopicPartition, int], gone: Collection[str] = ()) -> Cut | NoCut:
    """Return the cut of what was `copied`: the next upstream offset of each partition.

    Topics that are `gone` were deleted on the source.  Once a look does not list them any more, no marker in them is
    waited for: the other parts of their transactions tell whether they are whole.

    If there is no cut, a history that goes further back may have one.
    """
    if not known.looks:
        return NoCut("no look at the source was noted yet that counts")
    usable = [look for look in known.looks if _behind(look, copied) is None]
    if not usable:
        place = _behind(known.looks[0], copied)
        assert place is not None
        return NoCut(
            f"{place.topic}-{place.partition} is copied to offset {copied.get(place, 0)}, and reached"
            f" {known.looks[0].after[place]} when the oldest look that is kept was taken",
        )
    look, floor = usable[-1], usable[0].after
    offsets, left_out = _settled(transactions(known.parts, usable), look, copied, gone)
    for place, offset in sorted(offsets.items()):
        if offset < floor.get(place, 0):
            return NoCut(
                f"every cut of {place.topic}-{place.partition} behind offset {floor[place]} splits a transaction, and"
                " what lies before is not known",
            )
    needed = {
        place: offset
        for place, offset in offsets.items()
        if place.topic in look.topic_ids or offset < copied.get(place, 0)
    }
    return Cut(needed, look.at_ms, left_out, frozenset(look.topic_ids))


def _behind(look: Look, copied: Mapping[TopicPartition, int]) -> TopicPartition | None:
    """Return a partition that was not copied as far as the look has seen it, None if there is none."""
    return next((place for place, end in look.after.items() if copied.get(place, 0) < end), None)


def transactions(parts: Iterable[Part], looks: Sequence[Look]) -> list[Transaction]:
    """Return the parts that count as one transaction each (rule 2)."""
    before, after = _columns(looks, "before"), _columns(looks, "after")
    nothing = [0] * len(looks)
    producers: defaultdict[int, list[tuple[int, int, Part]]] = defaultdict(list)
    for part in parts:
        # Looks [low, high) were taken while the part was open; it lies between look `low` - 1 and look `high`.
        low = bisect_right(after.get(part.place, nothing), part.first)
        high = (
            len(looks)
            if part.marker is None
            else max(low, bisect_right(before.get(part.place, nothing), part.marker))
        )
        producers[part.producer_id].append((low, high, part))
    return [one for spans in producers.values() for group in _joined(spans) for one in _told_apart(group)]


def _columns(looks: Sequence[Look], which: str) -> Mapping[TopicPartition, list[int]]:
    """Return the ends of each partition, look by look; one that was deleted keeps its last."""
    places = {place for look in looks for place in getattr(look, which)}
    return {
        place: list(accumulate((getattr(look, which).get(place, 0) for look in looks), max))
        for place in places
    }


def _joined(spans: Iterable[tuple[int, int, Part]]) -> Iterator[list[Part]]:
    """Yield the parts of one producer that no look separates."""
    group: list[Part] = []
    reached = -1
    for low, high, part in sorted(spans, key=lambda it: it[:2]):
        if group and low > reached:
            yield group
            group = []
        group.append(part)
        reached = max(reached, high)
    if group:
        yield group


def _told_apart(group: list[Part]) -> Iterator[Transaction]:
    """Yield the transactions of one producer between two looks: by epoch, if that of every part is known."""
    if any(it.epoch == UNKNOWN for it in group):
        yield group
        return
    for parts in grouped((part.epoch, part) for part in group).values():
        if len({it.place for it in parts}) == 1:
            yield from ([it] for it in parts)
        else:
            yield parts


def _settled(
    found: Sequence[Transaction],
    look: Look,
    copied: Mapping[TopicPartition, int],
    gone: Collection[str],
) -> tuple[dict[TopicPartition, int], int]:
    """Return the largest offsets that split none of the transactions, and how many lie behind them."""

    def ended(part: Part) -> bool:
        if part.place.topic in gone and part.place not in look.before:
            return True
        return part.marker is not None and part.marker < look.before.get(part.place, 0)

    offsets = {place: copied.get(place, 0) for place in {*copied, *look.after}}
    by_marker: defaultdict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
    giving_way: list[int] = []
    for number, parts in enumerate(found):
        if not all(map(ended, parts)):
            giving_way.append(number)
        for it in parts:
            if it.marker is not None:
                by_marker[it.place].append((it.marker, number))
    for markers in by_marker.values():
        markers.sort()
    left_out = set(giving_way)
    while giving_way:
        for part in found[giving_way.pop()]:
            if part.first >= offsets[part.place]:
                continue
            offsets[part.place] = part.first
            markers = by_marker[part.place]
            while markers and markers[-1][0] >= part.first:
                other = markers.pop()[1]
                if other not in left_out:
                    left_out.add(other)
                    giving_way.append(other)
    return offsets, len(left_out)
