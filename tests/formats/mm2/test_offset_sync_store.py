"""MM2's sync store: its vectors (OffsetSyncStoreTest), and its invariants as laws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.formats.mm2.offset_sync_store import (
    SLOTS,
    OffsetSyncStore,
    PartitionSyncs,
    apart,
    recent,
)
from twinlog.formats.mm2.records import OffsetSync


def sync(upstream: int, downstream: int | None = None) -> OffsetSync:
    return OffsetSync("orders", 0, upstream, upstream if downstream is None else downstream)


def syncs(offsets: Iterable[int]) -> list[OffsetSync]:
    return [sync(offset) for offset in offsets]


def translate(store: OffsetSyncStore, upstream: int) -> int:
    """As MM2 says it: -1 for too old."""
    answer = store.translate("orders", 0, upstream)
    return -1 if answer is None else answer


def distinct(store: OffsetSyncStore) -> list[tuple[int, int, int, int]]:
    """(first slot, last slot, upstream, downstream) of each distinct sync."""
    slots = store.partitions["orders", 0].slots
    found, at = [], 0
    for _, group in groupby(slots, key=id):
        members = list(group)
        found.append((
            at,
            at + len(members) - 1,
            members[0].upstream_offset,
            members[0].downstream_offset,
        ))
        at += len(members)
    return found


def uppers(store: OffsetSyncStore) -> list[tuple[int, int]]:
    """(first slot, upstream) of each distinct sync."""
    return [(first, upstream) for first, _, upstream, _ in distinct(store)]


def test_one_sync_then_another_then_a_rewind() -> None:
    """A sync is met exactly, passed by one; nothing older is translated; a rewind forgets what was."""
    read = [sync(100, 200)]
    store = OffsetSyncStore.of(read)
    assert [(0, 63, 100, 200)] == distinct(store)
    assert 201 == translate(store, 150)
    store = OffsetSyncStore.of(read := [*read, sync(150, 251)])
    assert [251, -1] == [translate(store, 150), translate(store, 5)]
    store = OffsetSyncStore.of(read := [*read, sync(200, 10)])
    assert 10 == translate(store, 200)
    store = OffsetSyncStore.of([*read, sync(20, 20)])
    assert [(0, 63, 20, 20)] == distinct(store)
    assert 20 == translate(store, 20)


def test_partition_without_syncs_has_no_translation() -> None:
    """MM2 has no answer."""
    assert OffsetSyncStore.of([]).translate("orders", 0, 7) is None
    assert OffsetSyncStore.of([sync(1)]).translate("orders", 1, 7) is None


def test_a_sync_of_the_initial_read() -> None:
    """Older offsets are too old."""
    store = OffsetSyncStore.of([sync(100, 200)])
    assert [-1, 200, 201] == [translate(store, it) for it in (0, 100, 200)]


TEN_TO_1000 = syncs(range(0, 1001, 10))
AFTER_1000 = syncs(range(1010, 10001, 10))


def test_the_first_sync_is_all_there_is_before_it() -> None:
    """MM2's vectors for a topic of whose content at the start only the newest sync counts."""
    store = OffsetSyncStore.of(TEN_TO_1000[-1:])
    assert [(0, 63, 1000, 1000)] == distinct(store)
    assert [-1, 1000, 1001, 1001] == [translate(store, it) for it in (999, 1000, 1001, 1002)]

    store = OffsetSyncStore.of([TEN_TO_1000[-1], *AFTER_1000])
    assert [
        (0, 10000),
        (5, 9990),
        (6, 9970),
        (7, 9940),
        (8, 9880),
        (9, 9640),
        (10, 9160),
        (11, 8680),
        (12, 6760),
        (13, 4840),
        (14, 1000),
    ] == uppers(store)
    assert [1001, 4840, 4841, 9991] == [translate(store, it) for it in (4839, 4840, 6759, 9999)]
    for offset, before in [
        (1000, -1), (4840, 1000), (6760, 4840), (8680, 6760), (9160, 8680), (9640, 9160),
        (9880, 9640), (9940, 9880), (9970, 9940), (9990, 9970), (10000, 9990),
    ]:  # fmt: skip
        assert_sparse(store, offset, before)


def test_history_is_kept_when_checkpoints_could_be_read() -> None:
    """Exponentially spaced, the oldest included."""
    store = OffsetSyncStore.of(TEN_TO_1000)
    assert [
        (0, 1000),
        (5, 990),
        (6, 960),
        (7, 900),
        (8, 840),
        (9, 720),
        (10, 480),
        (11, 0),
    ] == uppers(store)
    assert [1, 481, 991] == [translate(store, it) for it in (479, 719, 999)]
    for offset, before in [(480, 0), (720, 480), (1000, 990)]:
        assert_sparse(store, offset, before)

    store = OffsetSyncStore.of([*TEN_TO_1000, *syncs(range(1000, 10001, 10))])
    assert [
        (0, 10000),
        (5, 9990),
        (6, 9960),
        (7, 9900),
        (8, 9840),
        (9, 9600),
        (10, 9120),
        (11, 8640),
        (12, 7680),
        (13, 3840),
        (14, 0),
    ] == uppers(store)
    assert [1, 3841] == [translate(store, it) for it in (3839, 7679)]
    for offset, before in [
        (3840, 0), (7680, 3840), (8640, 7680), (9120, 8640), (9600, 9120), (9840, 9600),
        (9900, 9840), (9960, 9900), (9990, 9960), (10000, 9990),
    ]:  # fmt: skip
        assert_sparse(store, offset, before)


def assert_sparse(store: OffsetSyncStore, offset: int, before: int) -> None:
    """`offset` is a sync and `before` the one before it (-1: none); all syncs are x:x."""
    expected = [-1 if before == -1 else before + 1, offset, offset + 1, offset + 1]
    assert expected == [translate(store, offset + step) for step in (-1, 0, 1, 2)]


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([100, 200, 300], [(0, 300), (8, 200), (9, 100)]),
        (range(0, 1001, 100), [(0, 1000), (8, 900), (9, 800), (10, 400), (11, 0)]),
    ],
)
def test_a_few_syncs(offsets: Sequence[int], expected: list[tuple[int, int]]) -> None:
    """The slots of short histories."""
    assert expected == uppers(OffsetSyncStore.of(syncs(offsets)))


def test_between_two_of_three() -> None:
    """One past the sync before."""
    assert 201 == translate(OffsetSyncStore.of(syncs([100, 200, 300])), 250)


def test_the_same_upstream_offset_twice() -> None:
    """The newer pair is what counts, the older stays behind it."""
    store = OffsetSyncStore.of([sync(100, 200), sync(100, 201)])
    assert [(0, 0, 100, 201), (1, 63, 100, 200)] == distinct(store)
    assert [-1, 201, 202] == [translate(store, it) for it in (99, 100, 101)]


@pytest.mark.parametrize("step", [(1 << bits) - 1 for bits in range(1, 57, 5)])
@pytest.mark.parametrize("first", [0, 1, 13, 29])
def test_a_constant_step_loses_one_sync_an_update(step: int, first: int) -> None:
    """Regular syncs expire one by one (upstream's bound), also near the end of 63 bits."""
    assert_loses_at_most(1, [first + step * n for n in range(100)])


def test_two_steps_mixed_lose_two() -> None:
    """Upstream's bound for steps of 100 and 200."""
    steps = [100 if (n * 7) % 3 else 200 for n in range(2000)]
    assert_loses_at_most(2, list(accumulate(steps)))


def assert_loses_at_most(most: int, offsets: Sequence[int]) -> None:
    slots = PartitionSyncs.first(sync(offsets[0]))
    for offset in offsets[1:]:
        before = {id(it) for it in slots.slots}
        newest = sync(offset)
        slots = slots.then(newest)
        now = {id(it) for it in slots.slots}
        assert most >= len(before - now)
        assert (newest.upstream_offset, offsets[0]) == (
            slots.slots[0].upstream_offset,
            slots.slots[-1].upstream_offset,
        )


upstream_steps = st.one_of(
    st.integers(1, 3), st.integers(1, 200), st.integers(1, 1 << 20), st.integers(1, 1 << 54)
)
histories = st.lists(upstream_steps, min_size=1, max_size=120).map(lambda steps: list(accumulate(steps)))


@given(histories)
def test_invariants_hold_after_every_sync(offsets: list[int]) -> None:
    """A, D, and B and C for all pairs, whatever the steps (of syncs that do go on: MM2 may sync a record twice)."""
    slots = PartitionSyncs.first(sync(offsets[0]))
    for offset in offsets[1:]:
        slots = slots.then(sync(offset))
    held = slots.slots
    assert (offsets[-1], offsets[0]) == (held[0].upstream_offset, held[-1].upstream_offset)
    for i in range(SLOTS):
        for j in range(i + 1, SLOTS):
            assert recent(held[i], held[j], i, j), f"B does not hold for {i}, {j}"
            assert apart(held[i], held[j], i), f"C does not hold for {i}, {j}"


@given(histories, st.lists(st.integers(0, 1 << 61), max_size=20))
def test_translations_are_monotonic_and_never_too_far(offsets: list[int], asked: list[int]) -> None:
    """For syncs of equal offsets nobody is sent past what was asked, nor back when asking for more."""
    store = OffsetSyncStore.of(syncs(offsets))
    answers = [translate(store, it) for it in sorted(asked)]
    assert sorted(answers) == answers
    assert all(answer <= it for answer, it in zip(answers, sorted(asked), strict=True))


@given(histories, st.integers(0, 119))
def test_a_rewind_forgets_everything(offsets: list[int], back: int) -> None:
    """Upstream offsets that go back are another life."""
    again = sync(max(0, offsets[-1] - back - 1), 5)
    store = OffsetSyncStore.of([*syncs(offsets), again])
    assert [(0, 63, again.upstream_offset, 5)] == distinct(store)
