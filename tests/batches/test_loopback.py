"""Echoes are told from records by their writer and by the map, and are left out: each record goes round once."""

from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, decode, encode
from twinlog.batches.cutter import Cutter
from twinlog.batches.loopback import LaneWriters, LoopbackRecords
from twinlog.batches.markers import AbortedTransactions
from twinlog.formats.ledger.writers import LaneWriter

LANE = LaneWriter(7, "twinlog-B->A-0", 0)
writers = st.sampled_from([-1, 3, LANE.producer_id])


def ledger() -> dict[bytes, bytes | None]:
    return {LANE.key(): LANE.value()}


def cut(blocks: list[bytearray], echoes: LoopbackRecords, end: int = 1 << 62) -> list[bytes]:
    """Values of everything that is sent on."""
    cutter = Cutter(end, 1 << 20)
    cutter.loopback = echoes
    done = cutter.cut(memoryview(b"".join(map(bytes, blocks))), 0, AbortedTransactions.of([]))
    assert done.poison is None
    return [record.value for item in done.outgoing for record in decode(item.buffer)]


@given(st.lists(st.tuples(writers, st.integers(1, 6), st.sampled_from([0, 1, 4])), max_size=12))
def test_batches_of_the_other_flows_lanes_are_left_out_and_no_others(plan) -> None:
    """Whatever lies beside them: users' transactions, plain records, any codec."""
    blocks, expected, offset = [], [], 0
    for producer, count, codec in plan:
        values = [b"%d" % (offset + n) for n in range(count)]
        records = [Rec(value) for value in values]
        blocks.append(
            encode(records, base_offset=offset, codec=codec, transactional=producer > 0, producer_id=producer)
        )
        expected += [] if producer == LANE.producer_id else values
        offset += count
    assert expected == cut(blocks, LoopbackRecords.of(LaneWriters(ledger), ()))


@given(st.sets(st.integers(0, 30)), st.integers(1, 7))
def test_offsets_the_map_knows_are_left_out_and_no_others(echoed: set[int], size: int) -> None:
    """Also in the middle of a batch: what was there before a take-over has writers of its own."""
    blocks = [
        encode([Rec(b"%d" % n) for n in range(first, min(first + size, 31))], base_offset=first)
        for first in range(0, 31, size)
    ]
    spans = tuple((offset, offset + 1) for offset in sorted(echoed))
    expected = [b"%d" % n for n in range(31) if n not in echoed]
    assert expected == cut(blocks, LoopbackRecords.of(LaneWriters(ledger), spans))


def test_the_ledger_is_read_once_for_each_writer_that_is_new() -> None:
    """A lane that began meanwhile is recognised at its first batch; a user's producer is asked about once."""
    reads = []
    latest: dict[bytes, bytes | None] = {}

    def read() -> dict[bytes, bytes | None]:
        reads.append(1)
        return latest

    known = LaneWriters(read)
    user = encode([Rec(b"user")], transactional=True, producer_id=3)
    lane = encode([Rec(b"lane")], base_offset=1, transactional=True, producer_id=7)
    assert [b"user"] == cut([user], LoopbackRecords.of(known, ()))
    latest.update(ledger())
    assert [b"user"] == cut([user, lane], LoopbackRecords.of(known, ()))
    assert [b"user"] == cut([user, lane], LoopbackRecords.of(known, ()))
    assert 2 == len(reads)
