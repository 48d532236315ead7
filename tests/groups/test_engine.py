"""Where another engine lets a group go on is compared with the map."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.cluster.admin.groups import CommittedOffset, GroupPartition, GroupState
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import GroupSyncPolicy
from twinlog.formats.ledger.observed import Observed, ObservedFinding
from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.formats.mm2.records import Checkpoint
from twinlog.gate.groups import engine_positions
from twinlog.groups.maps import PartitionMaps
from twinlog.groups.place import Place, places
from twinlog.groups.plan import Decided, at_place
from twinlog.groups.report import SyncReason, SyncState
from twinlog.groups.verdict import GroupStanding, PositionVerdict, leave, row_of
from twinlog.groups.view import Route
from twinlog.kafka_types import TopicPartition
from twinlog.observe.observed_copy import EnginePosition
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.mm2_topics import DatedCheckpoint

# The records 0 to 49 stand where they are; 50 to 99 were copied twice, and stand at 100.
MAP = PackedMap.of({0: encode_segment(MapSegment(0, 100, (Extent(0, 0, 50), Extent(50, 100, 50))))})


DOUBLED = ObservedFinding("doubled", (50, 100), (100, 150), 50, (), 1)
OBSERVED = Observed(
    "t", "", 0, "A.t", "", 0, 100, 100, 150, 150, {"doubled": 50}, {}, (DOUBLED,), 0, 0, 1, {}
)


def judged(
    ours: Place,
    there: int | None,
    checkpoint: int | None = None,
    known: PackedMap = MAP,
    seen: Observed = OBSERVED,
) -> EnginePosition:
    last = None if checkpoint is None else DatedCheckpoint(Checkpoint("g", "A.t", 0, 60, checkpoint, ""), 1)
    standing = GroupStanding(
        key=GroupPartition("g", "A.t", 0),
        topic="t",
        route=Route(TopicPartition("A.t", 0), None, None, PartitionMaps(known)),
        committed=CommittedOffset(60),
        place=ours,
        there=None if there is None else CommittedOffset(there),
        there_state=GroupState.DEAD,
        last=last,
        policy=GroupSyncPolicy.NEVER_REWIND,
        observed=seen,
    )
    verdict = leave(SyncReason.SYNC_DISABLED, "")
    (found,) = engine_positions([Decided(standing, verdict, row_of(standing, verdict, 1))])
    return found


def standing_at(place: Place, there: int, committed: int) -> GroupStanding:
    """Return a group's standing in a copy of which each record was observed once, up to offset 1000."""
    known = PackedMap.of({0: encode_segment(MapSegment(0, 1000, (Extent(0, 0, 1000),)))})
    return GroupStanding(
        key=GroupPartition("g", "A.t", 0),
        topic="t",
        route=Route(TopicPartition("A.t", 0), None, PartitionOffsets(0, 1000, 1000), PartitionMaps(known)),
        committed=CommittedOffset(committed),
        place=place,
        there=CommittedOffset(there),
        there_state=GroupState.DEAD,
        last=None,
        policy=GroupSyncPolicy.NEVER_REWIND,
        observed=replace(OBSERVED, counts={}, findings=()),
    )


@pytest.mark.parametrize(
    ("there", "again", "skipped"), [(110, 0, 0), (60, 50, 0), (130, 0, 20), (0, 110, 0), (170, 0, 40)]
)
def test_what_is_read_again_and_skipped(there: int, again: int, skipped: int):
    """A position before the map's reads again what lies between; one behind it skips records."""
    found = judged(Place(110, exact=True), there)
    assert (again, skipped, "committed") == (found.again, found.skipped, found.by)


@pytest.mark.parametrize(("offset", "again"), [(60, 10), (104, 6), (110, 0), (149, 0)])
def test_what_the_map_makes_a_group_read_again(offset: int, again: int):
    """Records 50 to 59 were read, and stand a second time from 100 on."""
    assert again == judged(Place(offset, exact=True), None).again_by_map


def test_findings_that_are_not_named_count():
    """At most all of them are met again."""
    assert 120 == replace(OBSERVED, counts={"doubled": 120}, findings=()).doubled_again(0, 0)


def test_a_checkpoint_counts_without_a_position():
    """Clients of MirrorMaker 2 translate by it."""
    found = judged(Place(110, exact=True), None, 90)
    assert (90, "checkpoint", 20) == (found.theirs, found.by, found.again)


@pytest.mark.parametrize("ours", [Place(None), Place(110)])
def test_what_is_not_exact_is_not_judged(ours: Place):
    """Nothing is counted, and so nothing is called right."""
    found = judged(ours, 60)
    assert (None, None) == (found.again, found.skipped)


def test_nowhere():
    """A group that the engine does not pass on has no place there."""
    found = judged(Place(110, exact=True), None)
    assert (None, "", None) == (found.theirs, found.by, found.skipped)


def test_what_is_copied_again_behind_the_position_is_not_skipped():
    """An engine that fell back has made the records before its position unread, and copies them once more."""
    known = PackedMap.of({0: encode_segment(MapSegment(0, 100, (Extent(80, 80, 20),)))})
    again = replace(DOUBLED, upstream=(0, 100), downstream=(100, 200), records=100)
    seen = replace(OBSERVED, counts={"doubled": 100}, findings=(again,))
    assert [0, 0, 10] == [
        judged(Place(80, exact=True), there, known=known, seen=seen).skipped for there in (150, 180, 190)
    ]


@pytest.mark.parametrize(("there", "again"), [(800, 150), (900, 50), (950, 50)])
def test_what_it_has_read_and_nobody_has_copied_counts_in_both_tables(there: int, again: int):
    """A group at 950 of a copy that ends at 900 reads 50 records a second time, wherever it goes on."""
    standing = standing_at(Place(900, exact=True, ahead=True, again=50), there, committed=950)
    row = row_of(standing, leave(SyncReason.SYNC_DISABLED, ""), 1)
    (found,) = engine_positions([Decided(standing, leave(SyncReason.SYNC_DISABLED, ""), row)])
    assert (again, again, 50) == (row.expected_duplicates, found.again, found.again_by_map)


def test_a_place_is_as_exact_in_both_tables():
    """An engine that puts a group 33 records further on makes it skip them; the map's place is right none the less."""
    standing = standing_at(Place(617, exact=True), 650, committed=600)
    verdict = PositionVerdict(SyncState.SYNCED, SyncReason.READ_ON_THERE, "")
    row = row_of(standing, verdict, 1)
    (found,) = engine_positions([Decided(standing, verdict, row)])
    assert (True, True, 33, 33) == (row.exact, found.exact, row.records_skipped, found.skipped)


def test_a_position_without_a_translation_does_not_skip_0_records():
    """Nobody knows what a group skips that stands on the target all the same; one that stands nowhere skips none."""
    standing = standing_at(Place(None, why="nothing is known of offset 60"), 650, committed=60)
    verdict = PositionVerdict(SyncState.WRONGLY_NOT, SyncReason.NOT_MAPPED, "")
    rows = [row_of(one, verdict, 1) for one in (standing, replace(standing, there=None))]
    assert [None, 0] == [row.records_skipped for row in rows]


@pytest.mark.parametrize(
    ("committed", "mapped_to", "exact", "ahead"),
    [
        (1_000, 1_000, True, False),
        (1_200, 1_000, False, False),
        (1_300, 1_000, False, True),
        # Nothing is open: what it has read beyond the copy is known.
        (1_300, 1_280, True, True),
        # The ledger tells more than the map that was read.
        (1_200, 1_280, False, False),
    ],
)
def test_a_group_that_has_read_what_the_map_does_not_tell_of_yet_has_no_exact_place(
    committed: int, mapped_to: int, exact: bool, ahead: bool
):
    """It would read again what is copied already, and nobody knows yet where that stands for good."""
    end = 1_280 if exact and ahead else 1_000
    known = PackedMap.of({0: encode_segment(MapSegment(0, end, (Extent(0, 0, end),)))})
    log = PartitionOffsets(0, 1_300, 1_300)
    maps = PartitionMaps(known)
    standing = replace(
        standing_at(Place(None), 0, committed),
        route=Route(TopicPartition("A.t", 0), log, log, maps),
        observed=replace(OBSERVED, copied_to=1_280, mapped_to=mapped_to, counts={}, findings=()),
    )
    found = at_place(standing, places([committed], maps, log, log)[0], log).place
    assert (exact, ahead, max(0, committed - end)) == (found.exact, found.ahead, found.again)


@pytest.mark.parametrize(
    ("committed", "why"),
    [(60, "it is not exact yet: its copies were not"), (5, "nothing is known of offset 5")],
)
def test_a_place_that_waits_for_the_horizon_says_so(committed: int, why: str):
    """Copies that were just seen are known, and only not for good; those before the first look are not known."""
    seen = replace(OBSERVED, begins=50, copied_to=100, mapped_to=50, counts={}, findings=())
    unmapped = Route(TopicPartition("A.t", 0), None, None)
    standing = replace(standing_at(Place(None), 0, committed), observed=seen, route=unmapped)
    found = at_place(standing, Place(None, why=f"nothing is known of offset {committed}")).place
    assert (None, False, why) == (found.offset, found.exact, found.why[: len(why)])
