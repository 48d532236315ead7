"""Transforms on encoded records: by column and batch by batch, held to the chain's own word on each record."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, decode, encode
from twinlog.batches import cutter as cutter_module
from twinlog.batches.columns import Columns, read_columns
from twinlog.batches.cutter import Cutter
from twinlog.batches.header import BatchHeader, require_crc
from twinlog.batches.transform.apply import Transform
from twinlog.errors import FormatError
from twinlog.transforms.chain import Chain, DropHeaders, Filter, HasHeaderKey, RecordIsTombstone, Step

contents = st.none() | st.binary(max_size=200)
recs = st.builds(
    Rec,
    contents,
    contents,
    st.integers(0, 5000),
    st.lists(st.tuples(st.sampled_from(["a", "ü", "c"]), contents), max_size=3).map(tuple),
)
steps = st.builds(
    Step,
    st.just(Filter()) | st.builds(DropHeaders, st.lists(st.sampled_from(["a", "ü"]), min_size=1).map(tuple)),
    st.sampled_from([RecordIsTombstone(), HasHeaderKey("a"), HasHeaderKey("ü")]),
    st.booleans(),
)
chains = st.lists(steps, min_size=1, max_size=3).map(lambda it: Chain(tuple(it)))


def made(chain: Chain, records: list[Rec]) -> list[tuple[int, Rec]]:
    """Return what a chain leaves of records, with their offsets in the batch."""
    left = []
    for offset, record in enumerate(records):
        kept = chain.kept(record.value is None, [name for name, _ in record.headers])
        if kept is not None:
            headers = tuple(record.headers[index] for index in kept)
            left.append((offset, dataclasses.replace(record, headers=headers)))
    return left


@given(chains, st.lists(recs, min_size=1, max_size=12), st.sampled_from([0, 1, 4]), st.booleans())
def test_a_cut_sends_what_the_chain_leaves_and_the_map_has_its_offsets(
    chain: Chain, records: list[Rec], codec: int, large: bool
) -> None:
    """Law: the records that go out, and the upstream offsets they stand for, are the chain's; the rest is a gap.

    Two batches in a row: a large one that the chain leaves alone is passed on, and so may be the next.
    """
    blocks = (
        encode(records, base_offset=7, codec=codec),
        encode(records, base_offset=7 + len(records), codec=codec),
    )
    cutter = Cutter(1 << 60, 1 << 20)
    cutter.transform = Transform(chain)
    with pytest.MonkeyPatch.context() as patched:
        if large:
            patched.setattr(cutter_module, "BATCH_COST", 0)
        cut = cutter.cut(memoryview(b"".join(blocks)), 7, None)
    sent = [record for out in cut.outgoing for record in decode(out.buffer)]
    offsets = [first + step - 7 for out in cut.outgoing for first, n in out.stretches for step in range(n)]
    expected = made(chain, [*records, *records])
    assert expected == list(zip(offsets, sent, strict=True))
    assert (7 + 2 * len(records), None) == (cut.next_upstream, cut.poison)


@given(chains, st.lists(recs, min_size=1, max_size=12), st.sampled_from([0, 1, 4]))
def test_a_batch_as_the_audit_sees_it_holds_the_same_at_the_same_offsets(
    chain: Chain, records: list[Rec], codec: int
) -> None:
    """Law: batch by batch the result is that of the copy; what is left alone is not built anew."""
    batch = memoryview(bytes(encode(records, base_offset=7, codec=codec)))
    found = Transform(chain).batch(BatchHeader.read(batch), batch)
    expected = made(chain, records)
    if found is None:
        assert expected == list(enumerate(records))
        return
    seen = []
    for each in found:
        header = BatchHeader.read(each)
        require_crc(header, each)
        assert header.dense
        seen += [(header.base_offset - 7 + n, record) for n, record in enumerate(decode(each))]
    assert expected == seen


def test_a_whole_batch_that_is_dropped_is_progress_without_a_record() -> None:
    """As with an aborted transaction: the next offset is behind it."""
    cutter = Cutter(1 << 60, 1 << 20)
    cutter.transform = Transform(Chain((Step(Filter()),)))
    cut = cutter.cut(memoryview(bytes(encode([Rec(), Rec()], base_offset=3))), 3, None)
    assert ([], 5) == (cut.outgoing, cut.next_upstream)


def test_a_record_that_is_dropped_is_no_poison_however_large() -> None:
    """The target never sees it."""
    cutter = Cutter(1 << 60, 500)
    cutter.transform = Transform(Chain((Step(Filter(), HasHeaderKey("a")),)))
    records = [Rec(b"1"), Rec(b"x" * 900, headers=(("a", b""),)), Rec(b"2")]
    cut = cutter.cut(memoryview(bytes(encode(records))), 0, None)
    assert ([((0, 1), (2, 1))], None) == ([(*it.stretches,) for it in cut.outgoing], cut.poison)


def test_a_record_that_is_too_large_for_the_target_is_never_sent_as_it_came() -> None:
    """The batch that it came in still has the header."""
    cutter = Cutter(1 << 60, 400)
    cutter.transform = Transform(Chain((Step(DropHeaders(("a",))),)))
    noise = bytes(range(256)) * 2
    block = memoryview(bytes(encode([Rec(noise, headers=(("a", b"secret"),))], codec=4)))
    cut = cutter.cut(block, 0, None)
    assert all(b"secret" not in bytes(out.buffer) for out in cut.outgoing)


@pytest.mark.parametrize("at", [65, 67, 69, 70, 72])
def test_a_record_that_cannot_be_read_is_refused(at: int) -> None:
    """Lengths beyond the record's end are damage, not an answer."""
    batch = encode([Rec(b"v", b"k", headers=(("a", b"1"),))])
    batch[at] = 0x7E
    transform = Transform(Chain((Step(DropHeaders(("a",))),)))
    with pytest.raises(FormatError):
        transform.columns(read_columns(memoryview(bytes(batch)), [0], checked=True))


@given(
    chains,
    st.lists(recs, min_size=1, max_size=6),
    st.integers(0, 1 << 16),
    st.integers(0, 255),
)
def test_by_column_and_one_by_one_damage_is_the_same(
    chain: Chain, records: list[Rec], at: int, byte: int
) -> None:
    """Law: with any byte of the records changed, both ways give the same records, or neither gives any."""
    batch = encode(records)
    batch[61 + at % (len(batch) - 61)] = byte
    try:
        columns = read_columns(memoryview(bytes(batch)), [0], checked=True)
    except FormatError:
        return
    transform = Transform(chain)
    singly = _rests(columns)
    assert _left(
        lambda: [(n, made) for n, rest in singly if (made := transform.rest(rest, n)) is not None]
    ) == _left(lambda: _rests(transform.columns(columns)))


def _rests(columns: Columns) -> list[tuple[int, memoryview]]:
    bounds = zip(columns.offsets.tolist(), columns.starts.tolist(), columns.ends.tolist(), strict=True)
    return [(offset, columns.data[start:end]) for offset, start, end in bounds]


def _left(read: Callable[[], list[tuple[int, memoryview]]]) -> list[tuple[int, bytes]] | str:
    try:
        return [(offset, bytes(rest)) for offset, rest in read()]
    except FormatError as error:
        return error.code


@pytest.mark.parametrize("count", [31, 32, 33, 200])
def test_many_headers(count: int) -> None:
    """By column or one by one, as many as there are."""
    headers = tuple((f"h{n}", b"%d" % n) for n in range(count - 1))
    records = [
        Rec(b"1", headers=(*headers, ("a", b"x"))),
        Rec(b"2", headers=(("a", b"y"), *headers)),
        Rec(b"3"),
    ]
    chain = Chain((Step(DropHeaders(("a",))), Step(Filter(), HasHeaderKey(f"h{count - 1}"))))
    columns = Transform(chain).columns(read_columns(memoryview(bytes(encode(records))), [0]))
    expected = [Rec(b"1", headers=headers), Rec(b"2", headers=headers), Rec(b"3")]
    made = encode(expected)
    assert _rests(read_columns(memoryview(bytes(made)), [0])) == _rests(columns)


def test_a_large_batch_that_the_chain_leaves_alone_goes_out_as_it_came() -> None:
    """Still compressed; the next one, in which something changes, is built anew."""
    untouched = encode([Rec(bytes([n]) * 600) for n in range(250)], codec=1)
    touched = encode([Rec(b"x", headers=(("a", b""),)), Rec(b"y" * 9000)], base_offset=250, codec=1)
    cutter = Cutter(1 << 60, 1 << 20)
    cutter.transform = Transform(Chain((Step(Filter(), HasHeaderKey("a")),)))
    cut = cutter.cut(memoryview(bytes(untouched + touched)), 0, None)
    assert [bytes(untouched), ((251, 1),)] == [bytes(cut.outgoing[0].buffer), (*cut.outgoing[1].stretches,)]
