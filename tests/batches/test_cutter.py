"""Cutting fetched blocks into batches to send: a law over random logs, and each row of the table."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
from crc32c import crc32c
from fakes import still_hiding
from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, decode, encode
from twinlog.batches.cutter import Cutter
from twinlog.batches.header import CONTROL, DELETE_HORIZON, HEADER, LOG_APPEND_TIME, BatchHeader
from twinlog.batches.markers import EVER, AbortedTransactions
from twinlog.batches.merge import BATCH_COST
from twinlog.batches.outgoing import Cut, Outgoing
from twinlog.batches.plain.call import Limits
from twinlog.batches.plain.take import pass_on, take_plain

BIG = 1 << 20
NOT_SENT = CONTROL | LOG_APPEND_TIME | DELETE_HORIZON
"""Attributes that no batch has which goes out."""


def patch(batch: bytearray, at: int, fmt: str, value: int) -> bytearray:
    """Set a header field and make the CRC right again."""
    struct.pack_into(fmt, batch, at, value)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


def with_gaps(kept: list[tuple[int, Rec]], base: int, last: int, codec: int = 0) -> bytearray:
    """A compacted batch: `kept` are (offset delta, record), the batch spans [base, base + last]."""
    from twinlog.batches import varint
    from twinlog.batches.codec import compress
    from twinlog.batches.record import record_rest

    body = b""
    for delta, record in kept:
        rest = bytes(record_rest(record.key, record.value, record.headers))
        time, number = varint.encode(record.timestamp), varint.encode(delta)
        body += varint.encode(1 + len(time) + len(number) + len(rest)) + b"\0" + time + number + rest
    body = compress(codec, body) if kept else b""
    latest = max((record.timestamp for _, record in kept), default=-1)
    batch = bytearray(61 + len(body))
    HEADER.pack_into(batch, 0, base, 49 + len(body), 0, 2, 0, codec, last, 0, latest, -1, -1, -1, len(kept))
    batch[61:] = body
    return patch(batch, 21, ">h", codec)


def control(base: int, producer: int, *, commit: bool) -> bytearray:
    """A transaction marker."""
    key = struct.pack(">hh", 0, 1 if commit else 0)
    batch = encode([Rec(b"\0\0\0\0\0\0", key)], base_offset=base, transactional=True, producer_id=producer)
    return patch(batch, 21, ">h", 0x30)


def cut_all(
    blocks: list[bytearray],
    *,
    position: int = 0,
    end: int = BIG,
    limit: int = BIG,
    aborted: list[tuple[int, int]] | None = None,
    cutter: Cutter | None = None,
) -> Cut:
    """Cut a block made of batches."""
    cutter = cutter or Cutter(end, limit)
    hidden = None if aborted is None else AbortedTransactions.of(aborted)
    return cutter.cut(memoryview(bytearray(b"".join(blocks))), position, hidden)


def content(outgoing: list[Outgoing]) -> list[tuple[int, Rec]]:
    """(upstream offset, record) of everything that would be sent, read by kafka-python."""
    result = []
    for item in outgoing:
        offsets = [first + step for first, length in item.stretches for step in range(length)]
        records = decode(item.buffer)
        assert len(offsets) == len(records) == item.header.record_count
        result += list(zip(offsets, records, strict=True))
    return result


# --- the law ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Log:
    """A random partition: its batches, what a read_committed consumer sees, and the aborted list."""

    batches: tuple[bytes, ...]
    visible: tuple[tuple[int, Rec], ...]
    aborted: tuple[tuple[int, int], ...]
    end: int

    def aborted_from(self, offset: int) -> list[tuple[int, int]]:
        """What a broker reports with a fetch at `offset`."""
        return still_hiding(self.aborted, self.batches, offset)


RECORD = st.builds(
    Rec,
    value=st.none() | st.binary(max_size=20),
    key=st.none() | st.binary(max_size=4),
    timestamp=st.integers(0, 2**41),
    headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(
        tuple
    ),
)


STEPS = st.lists(
    st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from(["write", "write", "commit", "abort"])),
    max_size=6,
)


@st.composite
def entangled(draw: st.DrawFn, start: int) -> Log:
    """Transactions of some producers that lie between one another's batches, each with an end."""
    batches: list[bytes] = []
    visible: list[tuple[int, Rec]] = []
    aborted: list[tuple[int, int]] = []
    held: dict[int, list[tuple[int, Rec]]] = {}
    offset = start
    for producer, what in [
        (1, "write"),
        *draw(STEPS),
        *((it, draw(st.sampled_from(["commit", "abort"]))) for it in (1, 2, 3)),
    ]:
        if what == "write":
            records = draw(st.lists(RECORD, min_size=1, max_size=2))
            held.setdefault(producer, []).extend(enumerate(records, start=offset))
            batches.append(
                bytes(encode(records, base_offset=offset, transactional=True, producer_id=producer))
            )
            offset += len(records)
        elif producer in held:
            written = held.pop(producer)
            if what == "commit":
                visible += written
            else:
                aborted.append((producer, written[0][0]))
            batches.append(bytes(control(offset, producer, commit=what == "commit")))
            offset += 1
    return Log(tuple(batches), tuple(sorted(visible, key=lambda it: it[0])), tuple(aborted), offset)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Batches of all kinds: dense, tiny, gapped, emptied, append-time, transactions alone and entangled."""
    batches: list[bytes] = []
    visible: list[tuple[int, Rec]] = []
    aborted: list[tuple[int, int]] = []
    offset = draw(st.integers(0, 5))
    for number in range(draw(st.integers(1, 8))):
        kind = draw(
            st.sampled_from(["dense", "dense", "gaps", "append", "commit", "abort", "entangled", "horizon"])
        )
        if kind == "entangled":
            part = draw(entangled(offset))
            batches += part.batches
            visible += part.visible
            aborted += part.aborted
            offset = part.end
            continue
        records = draw(st.lists(RECORD, min_size=1, max_size=6))
        codec = draw(st.sampled_from([0, 0, 1, 2, 3, 4]))
        count = len(records)
        if kind == "gaps":
            last = count + draw(st.integers(0, 3))
            deltas = sorted(draw(st.sets(st.integers(0, last), max_size=count)))
            kept = list(zip(deltas, records, strict=False))
            batches.append(bytes(with_gaps(kept, offset, last, codec)))
            visible += [(offset + delta, record) for delta, record in kept]
            offset += last + 1
        elif kind in {"commit", "abort"}:
            producer = 100 + number
            batches.append(
                bytes(encode(records, base_offset=offset, transactional=True, producer_id=producer))
            )
            if kind == "commit":
                visible += [(offset + step, record) for step, record in enumerate(records)]
            else:
                aborted.append((producer, offset))
            batches.append(bytes(control(offset + count, producer, commit=kind == "commit")))
            offset += count + 1
        else:
            batch = with_gaps(list(enumerate(records)), offset, count - 1, codec)
            shown = records
            if kind == "append":
                now = draw(st.integers(0, 2**41))
                patch(patch(batch, 35, ">q", now), 21, ">h", codec | 0x08)
                shown = [Rec(item.value, item.key, now, item.headers) for item in records]
            elif kind == "horizon":
                patch(batch, 21, ">h", codec | 0x40)
            batches.append(bytes(batch))
            visible += [(offset + step, record) for step, record in enumerate(shown)]
            offset += count
    return Log(tuple(batches), tuple(visible), tuple(aborted), offset)


WITHOUT_KERNEL = {"twinlog.batches.plain.take.LIBRARY": None}


def overwriting(*given: Any, keep: bool) -> tuple[int, int]:
    """Merge in place, as a lane does."""
    del keep
    return take_plain(*given, keep=False)


OVERWRITING = {"twinlog.batches.cutter.take_plain": overwriting}

WAYS: dict[str, dict[str, Any]] = {
    "one by one": WITHOUT_KERNEL,
    "every clean batch is large": {
        "twinlog.batches.cutter.BATCH_COST": 0.0,
    },
    "every block holds many small ones": {"twinlog.batches.merge._MANY": 1, **WITHOUT_KERNEL},
    "by the kernel, in place": {"twinlog.batches.plain.take._GROWTH": 0, **OVERWRITING},
    "by the kernel, into other memory": {},
    "by the kernel, with little room": {
        **OVERWRITING,
        "twinlog.batches.plain.take._CHUNK": 300,
        "twinlog.batches.plain.call._MOST_BATCHES": 2,
        "twinlog.batches.plain.call._MOST_STRETCHES": 3,
    },
}
"""What a block is taken for, by what is set: which batches are passed on unread, which are looked at together, and
where they are merged."""


def limits(batch_cost: float) -> Limits:
    """No end, large batches."""
    return Limits(BIG, BIG, BIG, BIG, batch_cost)


@contextmanager
def on(way: str) -> Iterator[None]:
    """Cut with blocks taken for something else."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WAYS[way].items():
            patch.setattr(name, value)
        yield


def test_every_clean_batch_can_be_made_large() -> None:
    """So that a law over small ones is one of what is passed on unread, too."""
    block = memoryview(bytearray(b"".join(bytes(encode(FIVE, base_offset=5 * n)) for n in range(3))))
    assert 0 == pass_on(block, limits(BATCH_COST), EVER, Cut([], 0))
    assert len(block) == pass_on(block, limits(0.0), EVER, Cut([], 0))


@pytest.mark.parametrize("bit", [LOG_APPEND_TIME, CONTROL, DELETE_HORIZON, 0x80])
def test_a_batch_that_has_to_be_read_is_not_passed_on_unread(bit: int) -> None:
    """However large: a broker would keep the mark, or refuse it."""
    block = memoryview(patch(encode(FIVE), 21, ">h", bit))
    assert 0 == pass_on(block, limits(0.0), EVER, Cut([], 0))


@pytest.mark.parametrize("way", WAYS)
@given(log=logs(), data=st.data())
def test_exactly_the_visible_records_of_the_range_go_out_in_order(
    way: str, log: Log, data: st.DataObject
) -> None:
    """Whatever the log holds, wherever the range begins and ends, whatever fits the target."""
    start = data.draw(st.just(0) | st.integers(0, log.end))
    end = data.draw(st.just(log.end) | st.integers(start, log.end))
    limit = data.draw(st.sampled_from([200, 400, BIG]))
    with on(way):
        cut = cut_all(
            [bytearray(item) for item in log.batches],
            position=start,
            end=end,
            limit=limit,
            aborted=log.aborted_from(start),
        )
    expected = [item for item in log.visible if start <= item[0] < end]
    assert cut.poison is None
    assert content(cut.outgoing) == expected
    assert all(len(item.buffer) <= limit for item in cut.outgoing)
    assert not any(item.header.attributes & NOT_SENT for item in cut.outgoing)
    if start < end:
        assert cut.next_upstream == end


@given(logs(), st.integers(1, 120))
def test_what_is_decompressed_at_once_makes_no_difference_to_what_goes_out(log: Log, room: int) -> None:
    """Runs of compressed batches are read some at a time, where they are larger than they look."""
    with (
        mock.patch("twinlog.batches.columns.TOGETHER_BYTES", room),
        mock.patch("twinlog.batches.merge.MOST_RECORDS", 0),
    ):
        cut = cut_all([bytearray(item) for item in log.batches], aborted=list(log.aborted))
    assert (None, list(log.visible)) == (cut.poison, content(cut.outgoing))


@pytest.mark.parametrize("way", WAYS)
@given(log=logs(), size=st.integers(1, 400))
def test_cutting_in_pieces_is_cutting_at_once(way: str, log: Log, size: int) -> None:
    """A fetch that ends anywhere, inside a batch too, is continued from the position it gave."""
    whole = b"".join(log.batches)
    position, sent, guard = 0, [], 0
    cutter = Cutter(log.end, BIG)
    while position < log.end and guard < 200:
        guard += 1
        start = at = 0
        while at < len(whole):
            header = BatchHeader.read(whole, at)
            if header.last_offset >= position:
                start = at
                break
            at += header.size
        first = BatchHeader.read(whole, start).size
        block = bytearray(whole[start : start + max(size, first)])
        with on(way):
            aborted = AbortedTransactions.of(log.aborted_from(position))
            cut = cutter.cut(memoryview(block), position, aborted)
        sent += content(cut.outgoing)
        position = cut.next_upstream
    assert sent == list(log.visible)


# --- the rows of the table --------------------------------------------------------------------------------

FIVE = [Rec(bytes([65 + n]), b"k", n) for n in range(5)]


def test_a_clean_batch_is_passed_on_as_it_is() -> None:
    """Same bytes, no copy: the outgoing buffer is a view into the fetched block."""
    block = memoryview(encode(FIVE, base_offset=10))
    cut = Cutter(BIG, BIG).cut(block, 10, None)
    assert cut.outgoing[0].buffer.obj is block.obj
    assert cut.outgoing[0].rewritten is False
    assert cut.next_upstream == 15


def test_small_batches_are_merged() -> None:
    """Ten one-record batches leave as one."""
    blocks = [encode([Rec(bytes([n]), timestamp=n)], base_offset=n) for n in range(10)]
    cut = cut_all(blocks)
    assert [item.header.record_count for item in cut.outgoing] == [10]
    assert (*cut.outgoing[0].stretches,) == ((0, 10),)


def test_one_small_batch_alone_is_not_rewritten() -> None:
    """There is nothing to merge it with."""
    assert [item.rewritten for item in cut_all([encode(FIVE[:1])]).outgoing] == [False]


def test_batches_of_different_codecs_are_not_merged() -> None:
    """The copy keeps each record's compression."""
    blocks = [bytearray(with_gaps([(0, FIVE[0])], 0, 0, 3)), bytearray(with_gaps([(0, FIVE[1])], 1, 0, 4))]
    assert [item.header.codec for item in cut_all(blocks).outgoing] == [3, 4]


def test_a_gapped_batch_is_dense_afterwards_and_its_gaps_are_in_the_map() -> None:
    """One stretch per run of offsets that survived compaction."""
    block = with_gaps([(0, FIVE[0]), (1, FIVE[1]), (4, FIVE[2])], 100, 6)
    cut = cut_all([block])
    assert (*cut.outgoing[0].stretches,) == ((100, 2), (104, 1))
    assert cut.outgoing[0].header.dense
    assert cut.next_upstream == 107


def test_an_emptied_batch_only_moves_the_position() -> None:
    """The cleaner leaves empty batches behind to keep producer state."""
    cut = cut_all([with_gaps([], 100, 9)], position=100)
    assert (cut.outgoing, cut.next_upstream) == ([], 110)


def test_a_batch_too_large_for_the_target_is_split() -> None:
    """Every piece fits, nothing is lost, offsets go on."""
    records = [Rec(bytes(100), timestamp=n) for n in range(20)]
    cut = cut_all([encode(records)], limit=700)
    assert max(len(item.buffer) for item in cut.outgoing) <= 700
    assert [record for _, record in content(cut.outgoing)] == records


def test_a_record_that_fits_nowhere_is_poison_and_what_came_before_it_goes_out() -> None:
    """The position stays on it."""
    block = encode([FIVE[0], Rec(bytes(1000)), FIVE[1]])
    cut = cut_all([block], limit=500)
    assert cut.poison is not None
    assert (cut.poison.offset, cut.next_upstream) == (1, 1)
    assert content(cut.outgoing) == [(0, FIVE[0])]


def test_a_quarantined_record_is_left_out_and_the_rest_goes_on() -> None:
    """With quarantine the cutter says which offset and why."""
    cutter = Cutter(BIG, 500, quarantine=True)
    cut = cut_all([encode([FIVE[0], Rec(bytes(1000)), FIVE[1]])], cutter=cutter)
    assert content(cut.outgoing) == [(0, FIVE[0]), (2, FIVE[1])]
    assert list(cutter.excluded) == [1]


def test_markers_are_never_copied() -> None:
    """Not under read_uncommitted either: there the aborted records are, as MM2 does it."""
    blocks = [
        encode(FIVE, base_offset=0, transactional=True, producer_id=7),
        control(5, 7, commit=False),
    ]
    assert content(cut_all(blocks, aborted=[(7, 0)]).outgoing) == []
    cut = cut_all(blocks)
    assert (len(content(cut.outgoing)), cut.next_upstream) == (5, 6)


def test_two_aborted_transactions_of_one_producer_with_a_commit_between() -> None:
    """The abort marker ends the hiding; the list's second entry begins it again."""
    blocks = [
        encode(FIVE[:1], base_offset=0, transactional=True, producer_id=7),
        control(1, 7, commit=False),
        encode(FIVE[1:2], base_offset=2, transactional=True, producer_id=7),
        control(3, 7, commit=True),
        encode(FIVE[2:3], base_offset=4, transactional=True, producer_id=7),
        control(5, 7, commit=False),
        encode(FIVE[3:4], base_offset=6),
    ]
    cut = cut_all(blocks, aborted=[(7, 4), (7, 0)])
    assert content(cut.outgoing) == [(2, FIVE[1]), (6, FIVE[3])]


def test_the_end_of_one_aborted_transaction_is_not_that_of_another() -> None:
    """Two producers at once: each one's batches are hidden up to its own marker."""

    def written(base: int, producer: int) -> bytearray:
        return encode(FIVE[:1], base_offset=base, transactional=True, producer_id=producer)

    blocks = [
        written(0, 7),
        written(1, 8),
        control(2, 7, commit=False),
        written(3, 8),
        control(4, 8, commit=False),
        encode(FIVE[1:2], base_offset=5),
    ]
    assert [(5, FIVE[1])] == content(cut_all(blocks, aborted=[(7, 0), (8, 1)]).outgoing)


def test_a_marker_without_its_record_ends_nothing() -> None:
    """Compaction leaves empty control batches behind: nobody knows which end it was, and what follows stays hidden."""
    emptied = patch(with_gaps([], 1, 0), 21, ">h", 0x30)
    blocks = [
        encode(FIVE[:1], base_offset=0, transactional=True, producer_id=7),
        patch(emptied, 43, ">q", 7),
        encode(FIVE[1:2], base_offset=2, transactional=True, producer_id=7),
    ]
    assert [] == content(cut_all(blocks, aborted=[(7, 0)]).outgoing)


def test_old_magic_is_refused_by_name_and_what_came_before_it_goes_out() -> None:
    """Message formats v0 and v1 have another layout."""
    old = encode(FIVE, base_offset=5)
    old[16] = 1
    cut = cut_all([encode(FIVE), old])
    assert cut.poison is not None
    assert (cut.poison.code, cut.poison.offset, cut.next_upstream) == ("old-magic", 5, 5)
    assert "message format v1" in cut.poison.reason
    assert [offset for offset, _ in content(cut.outgoing)] == list(range(5))


def test_a_batch_with_wrong_inner_lengths_goes_out_neither_whole_nor_in_part() -> None:
    """A record that ends outside its batch is an error, never a shorter record."""
    batch = encode(FIVE, base_offset=5)
    batch[61 + 3 * 9] = 0x7E  # the length of the fourth record, of nine bytes each
    patch(batch, 21, ">h", 0x08)  # append time: forces the records to be read
    cut = cut_all([encode(FIVE), batch])
    assert cut.poison is not None
    assert (cut.poison.code, cut.next_upstream) == ("bad-record", 5)
    assert [offset for offset, _ in content(cut.outgoing)] == list(range(5))


def test_damage_in_a_batch_that_is_read_is_not_blessed_by_a_new_checksum() -> None:
    """What is rewritten gets a checksum of its own, so the old one is checked first."""
    batches = [with_gaps([(0, FIVE[0]), (3, FIVE[1])], 5 * number, 4) for number in range(3)]
    batches[1][-2] ^= 1
    cut = cut_all(batches)
    assert cut.poison is not None
    assert (cut.poison.code, cut.poison.offset, cut.next_upstream) == ("corrupt-batch", 5, 5)
    assert content(cut.outgoing) == [(0, FIVE[0]), (3, FIVE[1])]


# --- leader epochs ----------------------------------------------------------------------------------------


def of_epoch(epoch: int, batch: bytearray) -> bytearray:
    """A batch as the leader of that epoch wrote it."""
    struct.pack_into(">i", batch, 12, epoch)
    return batch


@pytest.mark.parametrize(
    ("second", "end", "expected"), [(5, 5, 3), (5, 10, 4), (9, 9, 4), (9, 7, 4), (9, 5, 3)]
)
def test_a_range_that_ends_in_a_hole_has_the_epoch_of_what_lies_behind(
    second: int, end: int, expected: int
) -> None:
    """The epoch before the hole may end in front of the range's end; the one behind it says that nothing is between."""
    log = [of_epoch(3, encode(FIVE)), of_epoch(4, encode(FIVE, base_offset=second))]
    cut = cut_all(log, end=end)
    assert (end, expected) == (cut.next_upstream, cut.leader_epoch)


BAD = Rec(bytes(1000))


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([encode(FIVE), encode([BAD], base_offset=5), encode(FIVE, base_offset=6)], (5, 0)),
        ([encode(FIVE), encode([FIVE[0], BAD], base_offset=5), encode(FIVE, base_offset=7)], (6, 1)),
        ([encode(FIVE), encode([BAD], base_offset=9), encode(FIVE, base_offset=10)], (9, 1)),
        ([encode([BAD]), encode(FIVE, base_offset=1)], (0, -1)),
        ([encode([BAD], base_offset=3), encode(FIVE, base_offset=4)], (3, 0)),
        ([encode([FIVE[0], BAD]), encode(FIVE, base_offset=2)], (1, 0)),
    ],
)
def test_a_cut_that_ends_in_poison_has_no_epoch_from_behind_it(
    log: list[bytearray], expected: tuple[int, int]
) -> None:
    """Batches are looked at in runs: what lies behind poison is neither copied nor owed by the source."""
    cut = cut_all([of_epoch(number, batch) for number, batch in enumerate(log)], limit=500)
    assert cut.poison is not None
    assert expected == (cut.next_upstream, cut.leader_epoch)


def test_an_epoch_is_not_taken_from_what_cannot_be_read() -> None:
    """A batch that begins in front of what was read says nothing."""
    log = [of_epoch(3, encode(FIVE)), of_epoch(77, encode(FIVE, base_offset=2))]
    cut = cut_all(log)
    assert (5, 3) == (cut.next_upstream, cut.leader_epoch)
