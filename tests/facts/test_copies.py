"""What the target alone tells of a partition that another engine copies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.cluster.values import PartitionOffsets
from twinlog.fact import Total
from twinlog.facts.copies import copied
from twinlog.facts.partition import PartitionFacts
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps, PackedMaps

LIFE, AT = SourceIncarnation("orders", "id", 0), TopicPartition("orders", 0)


def packed(*pieces: tuple[int, int]) -> PackedMap:
    return PackedMap.of({
        start: encode_segment(MapSegment(start, end, (Extent(start, start, end - start),)))
        for start, end in pieces
    })


def facts(
    known: PackedMap,
    mapped_to: int,
    *,
    copied_to: int = 3_280,
    progress: int = 3_280,
    log_start: int = 0,
    read_to: int = 0,
) -> PartitionFacts:
    """Return the facts of a copy whose records stand where they do on the source."""
    tail = {"upstream": mapped_to, "downstream": mapped_to, "length": copied_to - mapped_to}
    carried = {"open": [tail] if mapped_to < copied_to else []}
    seen = Observed(
        *LIFE,
        "A.orders",
        "",
        0,
        copied_to,
        mapped_to,
        copied_to,
        copied_to,
        {},
        {},
        (),
        0,
        0,
        1,
        carried,
        read_to,
    )
    log = PartitionOffsets(log_start, progress, progress)
    ledger, maps = Ledger(observed={LIFE: seen}), Maps({LIFE: known}, {})
    return copied(ledger, maps, {AT: progress - 1}, LIFE, "A.orders", {AT: progress}, log, observed=True)


@pytest.mark.parametrize(
    ("known", "mapped_to", "progress", "lost", "still_open"),
    [
        (packed((0, 3_000)), 3_000, 3_280, 0, 280),
        (packed((0, 3_280)), 3_280, 3_280, 0, 0),
        # The last segment is lost; one in the middle; the tail of a map that nothing leaves open any more.
        (packed((0, 2_900)), 3_000, 3_280, 100, 280),
        (packed((0, 1_000), (1_200, 3_000)), 3_000, 3_280, 200, 280),
        (packed((0, 3_000)), 3_280, 3_280, 280, 0),
        # Behind what was observed somebody else has copied: nothing leaves that open.
        (packed((0, 3_000)), 3_000, 3_300, 300, 280),
    ],
)
def test_what_is_not_exact_yet_is_not_lost(
    known: PackedMap, mapped_to: int, progress: int, lost: int, still_open: int
) -> None:
    """An engine that copies all the time leaves the map's end open; what the map has lost before it still counts."""
    row = facts(known, mapped_to, progress=progress)
    assert (lost, still_open) == (row.unmapped_offsets, row.open_offsets)


@pytest.mark.parametrize(
    ("mapped_to", "log_start", "lost_open"),
    [
        (3_000, 0, False),
        (3_000, 3_000, False),
        (3_000, 3_001, True),
        (0, 300, True),
        (3_280, 3_280, False),
        # Without a map nobody knows of which records the copies left before the first look.
        (100, 100, True),
    ],
)
def test_records_that_left_the_copy_before_the_map_tells_of_them_are_seen(
    mapped_to: int, log_start: int, lost_open: bool
) -> None:
    """Once the map tells of them, they are judged by it."""
    known = packed((0, mapped_to)) if mapped_to > 100 else PackedMap.of({})
    assert lost_open is facts(known, mapped_to, log_start=log_start).lost_open


@pytest.mark.parametrize(
    ("progress", "read_to", "unread"), [(3_280, 0, 0), (3_300, 0, 20), (3_300, 3_290, 10), (3_300, 3_300, 0)]
)
def test_what_no_cycle_has_read_of_a_copy_is_told(progress: int, read_to: int, unread: int) -> None:
    """Markers behind the last record were read with it; of an older ledger only the last record is known."""
    assert unread == facts(packed((0, 3_280)), 3_280, progress=progress, read_to=read_to).unread


def test_of_a_copy_that_was_never_looked_at_all_is_unread() -> None:
    """Not so if twinlog makes it."""
    log, nothing = PartitionOffsets(5, 9, 9), PackedMaps({}, {})
    rows = [copied(Ledger(), nothing, {}, LIFE, "A.orders", {}, log, observed=it) for it in (True, False)]
    assert [4, 0] == [row.unread for row in rows]


@pytest.mark.parametrize(
    ("unread", "noted", "since", "expected"),
    [
        (20, 7, 1, Total(7)),
        # Nobody has written to the copy since: what lags now is known; no look was as late, or noted it: it is not.
        (0, 7, 1, Total(30)),
        (20, 7, 2, Total(10, "20 offsets of the copy were not looked at yet: run a cycle")),
        (20, None, 1, Total(10, "20 offsets of the copy were not looked at yet: run a cycle")),
    ],
)
def test_what_lags_in_a_busy_copy_is_known_as_of_a_look(
    unread: int, noted: int | None, since: int, expected: Total
) -> None:
    """An engine that copies all the time leaves something unread at any moment; an older look says nothing of now."""
    row = replace(facts(packed((0, 3_280)), 3_280), lag_records=30, unread=unread, lag_when_read=noted)
    assert (expected, 1) == (row.uncopied_since(since), row.read_ms)
