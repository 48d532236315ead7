"""A routed topic is equal only if each record that the rules route is there once, in order, with equal bytes."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cutter import RECORD

from batches import Rec
from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.audit.comparison.routed import (
    ROW,
    Expected,
    RoutedTopicWalk,
    known_within,
    packed,
    row_of,
    unpacked,
)
from twinlog.batches.record import record_rest
from twinlog.batches.routed import Origin, RoutedRecord, with_origin
from twinlog.formats.ledger.audit import DifferenceKind as Kind
from twinlog.kafka_types import SourceIncarnation
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import MapSegment
from twinlog.transforms.routes import Partitioner, Route

ROUTE = Route("alerts", Partitioner.KEY)
PARTITIONS = 3


@dataclass(frozen=True)
class Placed:
    """A record of the routed topic: where it comes from, and what it is."""

    life: SourceIncarnation
    offset: int
    record: Rec
    source: str = "A"

    @property
    def routed(self) -> RoutedRecord:
        rest = bytes(record_rest(self.record.key, self.record.value, self.record.headers))
        return RoutedRecord(self.offset, self.record.timestamp, self.record.key, rest, ROUTE)

    @property
    def partition(self) -> int:
        return ROUTE.place(self.record.key, self.life.partition) % PARTITIONS

    def at(self, offset: int) -> RawRecord:
        """The record as it lies in the log."""
        origin = Origin(self.source, *self.life, self.offset)
        return RawRecord(offset, self.record.timestamp, with_origin(self.routed.rest, origin))


LIVES = [SourceIncarnation("orders", "id-1", n) for n in (0, 1)]


def placed(records: list[list[Rec]], step: int = 2) -> list[Placed]:
    """Records of each source partition, at every second offset from 10 on."""
    return [
        Placed(life, 10 + step * n, record)
        for life, some in zip(LIVES, records, strict=True)
        for n, record in enumerate(some)
    ]


def logs_of(some: list[Placed]) -> dict[int, list[Placed]]:
    """Lay records into the partitions that they are routed to."""
    found: dict[int, list[Placed]] = {number: [] for number in range(PARTITIONS)}
    for it in some:
        found[it.partition].append(it)
    return found


def walked(
    expected: list[Placed],
    logs: dict[int, list[Placed]],
    starts: dict[int, int] | None = None,
    *,
    compacted: bool = False,
    source_compacted: bool = False,
    **more: object,
) -> RoutedTopicWalk:
    """Compare logs with what is expected of upstream offsets [10, 1000)."""
    walk = RoutedTopicWalk(
        "alerts",
        "A",
        [
            Expected(
                life,
                unpacked(
                    [
                        packed(
                            "alerts",
                            b"".join(row_of(it.routed, life.partition) for it in expected if it.life == life),
                        )
                    ],
                    "alerts",
                ),
                compacted=source_compacted,
                **{"judged": ((10, 1000),), "known_to": 1000, **more},  # type: ignore[arg-type]
            )
            for life in LIVES
        ],
    )
    begins = starts or dict.fromkeys(range(PARTITIONS), 0)
    for number, log in logs.items():
        for offset, it in enumerate(log):
            if offset >= begins[number]:
                walk.take(number, it.at(offset), append_time=False)
    walk.finish(begins, PARTITIONS, compacted=compacted)
    return walk


def counts(walk: RoutedTopicWalk) -> dict[Kind, int]:
    """Count the differences of a walk by kind; loose ones are extra."""
    found: dict[Kind, int] = {}
    for way in walk.ways.values():
        for kind, count in way.counts.items():
            found[kind] = found.get(kind, 0) + count
    if walk.loose_count:
        found[Kind.EXTRA] = found.get(Kind.EXTRA, 0) + walk.loose_count
    return found


RECORDS = st.lists(RECORD, max_size=12)


@given(RECORDS, RECORDS, st.randoms(use_true_random=False))
def test_a_good_topic_is_equal_however_partitions_are_mixed(
    first: list[Rec], second: list[Rec], chance: random.Random
) -> None:
    """Law: source partitions may be mixed as they like; each keeps its own order."""
    some = placed([first, second])
    turns = [0] * len(first) + [1] * len(second)
    chance.shuffle(turns)
    rows = [iter([it for it in some if it.life == life]) for life in LIVES]
    walk = walked(some, logs_of([next(rows[turn]) for turn in turns]))
    assert ({}, len(some)) == (counts(walk), sum(way.equal for way in walk.ways.values()))


DAMAGES = ("drop", "double", "key", "value", "headers", "timestamp", "forge", "beyond")


@given(
    st.lists(RECORD, min_size=1, max_size=12),
    RECORDS,
    st.sampled_from(DAMAGES),
    st.randoms(use_true_random=False),
)
def test_one_damage_is_one_difference(
    first: list[Rec], second: list[Rec], damage: str, chance: random.Random
) -> None:
    """Law: whichever record it meets, and all others are equal."""
    some = placed([first, second])
    logs = logs_of(some)
    at = chance.randrange(len(some))
    victim = some[at]
    log = logs[victim.partition]
    place = log.index(victim)
    record = victim.record
    match damage:
        case "drop":
            del log[place]
        case "double":
            log.append(victim)
        case "key":
            log[place] = replace(victim, record=replace(record, key=(record.key or b"") + b"!"))
        case "value":
            log[place] = replace(victim, record=replace(record, value=(record.value or b"") + b"!"))
        case "headers":
            log[place] = replace(victim, record=replace(record, headers=(*record.headers, ("!", None))))
        case "timestamp":
            log[place] = replace(victim, record=replace(record, timestamp=record.timestamp + 1))
        case "forge":
            log.append(replace(victim, offset=999))
        case _:
            log.append(replace(victim, offset=5000))
    kind = {"drop": Kind.MISSING, "double": Kind.EXTRA, "forge": Kind.EXTRA, "beyond": Kind.EXTRA}.get(damage)
    walk = walked(some, logs)
    assert {kind or Kind(damage): 1} == counts(walk)
    left = len(some) - (damage not in {"double", "forge", "beyond"})
    assert left == sum(way.equal for way in walk.ways.values())


def keyed(count: int) -> list[Rec]:
    """Records of one key: they go to one partition."""
    return [Rec(b"%d" % n, b"key", n) for n in range(count)]


def test_a_record_that_moved_behind_later_ones_is_out_of_order() -> None:
    """Those of another source partition do not count."""
    some = placed([keyed(5), []])
    log = logs_of(some)
    (number,) = [it for it, found in log.items() if found]
    log[number] = [*log[number][1:], log[number][0]]
    walk = walked(some, log)
    assert ({Kind.ORDER: 1}, 4) == (counts(walk), sum(way.equal for way in walk.ways.values()))
    (found,) = [it for way in walk.ways.values() for it in way.listed]
    assert (10, f"in alerts-{number} at offset 4 it stands behind 18") == (
        found.upstream_offset,
        found.message,
    )


@given(st.integers(0, 6))
def test_what_retention_took_is_expired_and_not_missing(gone: int) -> None:
    """Law: in front of the first record that is left of its partition; a gap behind that is no retention's work."""
    some = placed([keyed(6), []])
    log = logs_of(some)
    (number,) = [it for it, found in log.items() if found]
    starts = {**dict.fromkeys(range(PARTITIONS), 0), number: gone}
    walk = walked(some, log, starts)
    assert ({}, gone) == (counts(walk), sum(way.expired for way in walk.ways.values()))
    del log[number][5]
    walk = walked(some, log, starts)
    missing = {Kind.MISSING: 1} if gone < 5 else {}
    assert missing == counts(walk)


def test_compaction_leaves_records_unproved() -> None:
    """Of the routed topic, and of the source, whose records are gone that were routed."""
    some = placed([keyed(4), []])
    log = logs_of(some)
    fewer = {number: found[-1:] for number, found in log.items()}
    walk = walked(some, fewer, compacted=True)
    assert ({}, 3) == (counts(walk), sum(way.compacted for way in walk.ways.values()))
    assert {Kind.EXTRA: 2} == counts(walked(some[2:], log))
    source = walked(some[2:], log, source_compacted=True)
    assert ({}, 2, 2) == (
        counts(source),
        sum(way.equal for way in source.ways.values()),
        sum(way.compacted for way in source.ways.values()),
    )


def test_what_the_source_could_not_show_and_what_is_not_audited_is_not_judged() -> None:
    """Neither good nor bad; but a record of it that comes twice is doubled."""
    some = placed([keyed(4), []])
    log = logs_of(some)
    walk = walked([], log, unread=((10, 1000),))
    assert ({}, 4) == (counts(walk), walk.unjudged)
    walk = walked([], log, judged=())
    assert ({}, 4) == (counts(walk), walk.unjudged)
    (number,) = [it for it, found in log.items() if found]
    log[number].append(log[number][0])
    assert {Kind.EXTRA: 1} == counts(walked([], log, judged=()))


def test_records_of_other_sources_are_theirs_to_prove() -> None:
    """Counted, not judged; a topic's id tells a source that was renamed since."""
    some = placed([keyed(3), []])
    renamed = [replace(it, source="old") for it in some]
    assert 3 == sum(way.equal for way in walked(some, logs_of(renamed)).ways.values())
    others = [replace(it, source="C", life=SourceIncarnation("orders", "id-9", 0)) for it in some]
    walk = walked([], logs_of(others))
    assert ({}, 3, 0) == (counts(walk), walk.others, walk.unjudged)


def test_a_record_that_was_being_copied_is_dropped_when_the_map_knows_it() -> None:
    """Its transaction's markers came one after the other; one that no map ever knows is extra."""
    (one,) = placed([[Rec(b"v", b"key", 5)], []])
    log = logs_of([replace(one, offset=1000), replace(one, offset=2000)])
    walk = walked([], log)
    assert 2 == walk.loose_count
    walk.settle({LIVES[0]: 1001})
    assert (1, [2000]) == (walk.loose_count, [it.upstream for it in walk.loose])


def test_rows_of_many_scopes_are_joined_in_order() -> None:
    """A lane may answer its scopes in any order; parts of other topics are left out."""
    rows = [row_of(it.routed, 0) for it in placed([keyed(4), []])]
    parts = [
        packed("alerts", rows[2] + rows[3]),
        packed("other", rows[0]),
        packed("alerts", rows[0] + rows[1]),
    ]
    assert np.array_equal(np.frombuffer(b"".join(rows), ROW), unpacked(parts, "alerts"))
    assert 0 == len(unpacked([], "alerts"))


@pytest.mark.parametrize("append_time", [True, False])
def test_a_brokers_timestamp_is_no_difference(append_time: bool) -> None:
    """A routed topic with LogAppendTime has the broker's."""
    (one,) = placed([[Rec(b"v", b"key", 5)], []])
    walk = walked([one], {})
    walk = RoutedTopicWalk("alerts", "A", [walk.ways[tuple(one.life)].expected])
    walk.take(0, one.at(0)._replace(timestamp=77), append_time=append_time)
    assert ({} if append_time else {Kind.TIMESTAMP: 1}) == counts(walk)


def test_a_record_without_an_origin_is_extra() -> None:
    """No flow wrote it; a routed topic has no other writers."""
    walk = RoutedTopicWalk("alerts", "A", [])
    walk.take(
        2, RawRecord(7, 5, bytes(record_rest(b"k", b"v", (("twinlog.offset", b"3"),)))), append_time=False
    )
    (found,) = walk.loose
    assert (1, 2, Kind.EXTRA, 7) == (
        walk.loose_count,
        found.partition,
        found.difference.kind,
        found.difference.downstream_offset,
    )


def test_a_partition_that_could_not_be_read_lacks_nothing() -> None:
    """A problem says so; what is expected there is neither missing nor proved."""
    some = placed([keyed(4), []])
    (number,) = {it.partition for it in some}
    others = {it: 0 for it in range(PARTITIONS) if it != number}
    walk = RoutedTopicWalk("alerts", "A", [way.expected for way in walked(some, logs_of(some)).ways.values()])
    walk.finish(others, PARTITIONS, compacted=False)
    assert ({}, 0) == (counts(walk), sum(way.equal for way in walk.ways.values()))


def test_only_what_the_map_knows_is_judged() -> None:
    """What lies in a hole of the map may have been routed or not."""
    known = OffsetMap.of([MapSegment(0, 10, ()), MapSegment(20, 30, ())])
    assert [(5, 10), (20, 25)] == [*known_within(5, 25, known)]
    assert [] == [*known_within(10, 20, known)]
