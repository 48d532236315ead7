"""What engines do to whole topics is told apart: two at once, several sources in one, equal offsets, compaction.

Covers twinlog.observe.align, .search and .likeness.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observed_logs import LATER, NUMBERED, ListLog, count, distinct, laid, observed, told

from batches import Rec
from twinlog.logs.partition_reader import Item
from twinlog.observe.align import match
from twinlog.observe.values import HORIZON_MS, Carried, Finding


class CountedLog(ListLog):
    """A log that counts the records it hands out."""

    handed = 0

    def __call__(self, start: int) -> Iterator[Item]:
        for item in super().__call__(start):
            self.handed += sum(it.header.record_count for it in item.batches())
            yield item


@pytest.mark.parametrize("apart", [50, 6_000])
def test_two_engines_at_once_double_each_record(apart):
    """Their batches lie between one another's, far apart in the source; it is not searched anew for each of them."""
    total, batch = 12_000, 200
    source = list(enumerate(distinct(total)))
    rows: list[int] = []
    for first in range(0, total + apart, batch):
        rows += range(min(first, total), min(first + batch, total))
        rows += range(max(0, first - apart), max(0, min(first + batch - apart, total)))
    log = CountedLog(source, sizes=(batch,))
    result = match(
        log, ListLog(laid([source[row][1] for row in rows]), sizes=(batch,)), Carried(0, 0), now_ms=0
    )
    assert {Finding.DOUBLED: len(rows) - total} == result.counts
    assert log.handed < 20 * len(rows)


def test_what_another_source_writes_into_the_copy_is_foreign():
    """Of two sources merged into one topic each keeps its records, and the other one is not searched for them again."""
    total, batch = 20_000, 500
    source = list(enumerate(distinct(total)))
    records: list[Rec] = []
    for first in range(0, total, batch):
        records += [Rec(b"theirs %d" % it, b"key %d" % (it % 7), 5) for it in range(first, first + batch)]
        records += [it for _, it in source[first : first + batch]]
    log = CountedLog(source, sizes=(batch,))
    result = match(log, ListLog(laid(records), sizes=(batch,)), Carried(0, 0), now_ms=0)
    assert ({Finding.FOREIGN: total}, total) == (result.counts, result.equal)
    assert log.handed < 20 * total


def test_a_copy_that_keeps_offsets_is_verified():
    """None at another offset passes: from a record that was left out on, each is named for its offset."""
    sound = observed(NUMBERED, NUMBERED, equal_offsets=True)
    assert set() == told(sound, NUMBERED, NUMBERED)
    target = laid([it for number, it in NUMBERED if number != 7])
    expected = {(Finding.CHANGED, number, number - 1, ("offset",)) for number in range(8, 20)}
    expected.add((Finding.MISSING, 7, None, ()))
    assert expected == told(observed(NUMBERED, target, equal_offsets=True), NUMBERED, target)


def test_one_wrong_record_among_equal_offsets_is_named():
    """The ones around it stay equal."""
    target = list(NUMBERED)
    target[7] = 7, dataclasses.replace(target[7][1], value=b"another")
    results = observed(NUMBERED, target, equal_offsets=True)
    assert {(Finding.CHANGED, 7, 7, ("value",))} == told(results, NUMBERED, target)
    assert 19 == sum(it.equal for it in results)


@given(st.data())
def test_the_last_record_of_a_key_is_missing_from_a_compacted_copy(data):
    """Compaction takes no such record; the others of the key it may have taken, and deletions."""
    source = list(enumerate(distinct(data.draw(st.integers(20, 60)))))
    last = {record.key: offset for offset, record in source}
    gone = data.draw(st.sampled_from(sorted(last.values())[:-1]))
    kept = [it for it in source if last[it[1].key] == it[0] or data.draw(st.booleans())]
    target = [it for it in kept if it[1].key != source[gone][1].key]
    expected = {(Finding.MISSING, gone, None, ())} if target[0][0] < gone else set()
    if data.draw(st.booleans()):
        source[gone] = gone, dataclasses.replace(source[gone][1], value=None)
        expected = set()
    assert expected == told(observed(source, target, compacted=True), source, target)


def test_a_record_awaited_by_its_key_is_missing_behind_the_horizon():
    """Not before: the copy of a later one may have come, and compaction, since the copy was read."""
    source = list(enumerate(distinct(25)))
    target = [it for it in source[:17] if it[0] != 15]
    looks, carried = [], Carried(0, 0)
    for now in (0, HORIZON_MS - 1, LATER):
        looks.append(match(ListLog(source, 17), ListLog(target), carried, now_ms=now, compacted=True))
        carried = looks[-1].carried
    assert [0, 0, 1] == [count([look], Finding.MISSING) for look in looks]
    went_on = ListLog([*target, *source[17:]])
    resumed = match(ListLog(source), went_on, looks[0].carried, now_ms=LATER, compacted=True)
    assert (0, 1) == (count([resumed], Finding.MISSING), resumed.not_comparable)
