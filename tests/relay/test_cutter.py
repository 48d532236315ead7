"""Cutting fetched blocks into batches to send: a law over random logs, and each row of the table."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from unittest import mock

from batches import Rec, decode, encode
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.relay.aborted import AbortedTransactions
from twinlog.relay.batch import HEADER, BatchHeader
from twinlog.relay.cutter import Cutter
from twinlog.relay.outgoing import Cut, Outgoing

BIG = 1 << 20


def patch(batch: bytearray, at: int, fmt: str, value: int) -> bytearray:
    """Set a header field and make the CRC right again."""
    struct.pack_into(fmt, batch, at, value)
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


def with_gaps(kept: list[tuple[int, Rec]], base: int, last: int, codec: int = 0) -> bytearray:
    """A compacted batch: `kept` are (offset delta, record), the batch spans [base, base + last]."""
    from twinlog.relay import varint
    from twinlog.relay.codec import compress
    from twinlog.relay.rewrite import record_rest

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


RECORD = st.builds(
    Rec,
    value=st.none() | st.binary(max_size=20),
    key=st.none() | st.binary(max_size=4),
    timestamp=st.integers(0, 2**41),
    headers=st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(
        tuple
    ),
)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Batches of all kinds: dense, tiny, gapped, emptied, append-time, committed and aborted transactions."""
    batches: list[bytes] = []
    visible: list[tuple[int, Rec]] = []
    aborted: list[tuple[int, int]] = []
    offset = draw(st.integers(0, 5))
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(["dense", "dense", "gaps", "append", "commit", "abort", "horizon"]))
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


@settings(max_examples=150, deadline=None)
@given(logs(), st.data())
def test_exactly_the_visible_records_of_the_range_go_out_in_order(log: Log, data: st.DataObject) -> None:
    """Whatever the log holds, wherever the range begins and ends, whatever fits the target."""
    start = data.draw(st.integers(0, log.end))
    end = data.draw(st.integers(start, log.end))
    limit = data.draw(st.sampled_from([200, 400, BIG]))
    cut = cut_all(
        [bytearray(item) for item in log.batches],
        position=start,
        end=end,
        limit=limit,
        aborted=list(log.aborted),
    )
    expected = [item for item in log.visible if start <= item[0] < end]
    assert cut.poison is None
    assert content(cut.outgoing) == expected
    assert all(len(item.buffer) <= limit for item in cut.outgoing)
    if start < end:
        assert cut.next_upstream == end


@settings(max_examples=100, deadline=None)
@given(logs(), st.integers(1, 120))
def test_what_is_decompressed_at_once_makes_no_difference_to_what_goes_out(log: Log, room: int) -> None:
    """Runs of compressed batches are read some at a time, where they are larger than they look."""
    with (
        mock.patch("twinlog.relay.columns.TOGETHER_BYTES", room),
        mock.patch("twinlog.relay.few.MOST_RECORDS", 0),
    ):
        cut = cut_all([bytearray(item) for item in log.batches], aborted=list(log.aborted))
    assert (None, list(log.visible)) == (cut.poison, content(cut.outgoing))


@settings(max_examples=60, deadline=None)
@given(logs(), st.integers(1, 400))
def test_cutting_in_pieces_is_cutting_at_once(log: Log, size: int) -> None:
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
        cut = cutter.cut(memoryview(block), position, AbortedTransactions.of(log.aborted))
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
    assert cut.outgoing[0].stretches == ((0, 10),)


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
    assert cut.outgoing[0].stretches == ((100, 2), (104, 1))
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
