"""Record rules by column are those of each record, whatever lies beside it."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, decode, encode
from twinlog.batches.cutter import Cutter
from twinlog.batches.header import BatchHeader
from twinlog.batches.transform.apply import Transform
from twinlog.transforms.chain import Chain, Filter, RecordIsTombstone, Step
from twinlog.transforms.rules import DROPPED, FieldMatches, NotJson, Rule, applied

RULE = Rule(
    "r",
    (".*",),
    drop_key="x.*",
    drop_field=FieldMatches(("d",)),
    masked=(("a",), ("b", "c")),
    not_json=NotJson.PASS,
)
documents = st.dictionaries(
    st.sampled_from(["a", "b", "d", "e"]),
    st.integers() | st.text(max_size=40) | st.fixed_dictionaries({"c": st.text()}),
)
values = (
    st.none() | st.binary(max_size=5) | documents.map(lambda it: json.dumps(it).encode("utf-8", "replace"))
)
recs = st.builds(
    Rec,
    values,
    st.none() | st.sampled_from([b"x1", b"", b"y"]),
    st.integers(0, 5000),
    st.lists(st.tuples(st.sampled_from(["a", "ü"]), st.none() | st.binary(max_size=9)), max_size=2).map(
        tuple
    ),
)


def expected(records: list[Rec], chain: Chain) -> list[tuple[int, Rec]]:
    """Return what the rules make of each record by itself, with its place."""
    apply = applied(chain.rules)
    left = []
    for place, record in enumerate(records):
        made = DROPPED if chain.steps and record.value is None else apply(record.key, record.value)
        if made is not DROPPED:
            left.append((place, dataclasses.replace(record, value=made)))
    return left


@given(st.lists(recs, min_size=1, max_size=12), st.sampled_from([0, 1, 4]), st.booleans())
def test_by_column_batch_by_batch_and_one_by_one_are_the_same(
    records: list[Rec], codec: int, first: bool
) -> None:
    """Law: what goes out, the offsets that it stands for, what the audit sees; with a transform of Connect before."""
    chain = Chain((Step(Filter(), RecordIsTombstone()),) if first else (), (RULE,))
    blocks = [bytes(encode(records, base_offset=at, codec=codec)) for at in (0, len(records))]
    cutter = Cutter(1 << 60, 1 << 20)
    cutter.transform = Transform(chain)
    cut = cutter.cut(memoryview(b"".join(blocks)), 0, None)
    sent = [record for out in cut.outgoing for record in decode(out.buffer)]
    offsets = [start + n for out in cut.outgoing for start, length in out.stretches for n in range(length)]
    wanted = expected([*records, *records], chain)
    assert (wanted, 2 * len(records), None) == (
        [*zip(offsets, sent, strict=True)],
        cut.next_upstream,
        cut.poison,
    )
    block = memoryview(blocks[0])
    audited = Transform(chain).batch(BatchHeader.read(block), block)
    seen = [it for each in ([block] if audited is None else audited) for it in decode(each)]
    assert [it for _, it in expected(records, chain)] == seen


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_value_that_is_no_json_stops_in_front_of_its_batch(at: int) -> None:
    """All batches before it go out; the line names its offset."""
    good = [Rec(b"{}"), Rec(b'{"a":1}')]
    bad = [*good[:at], Rec(b"no json"), *good[at:]]
    cutter = Cutter(1 << 60, 1 << 20)
    cutter.transform = Transform(Chain(rules=(dataclasses.replace(RULE, not_json=NotJson.FAIL),)))
    block = encode(good, base_offset=0), encode(bad, base_offset=2), encode(good, base_offset=5)
    cut = cutter.cut(memoryview(b"".join(map(bytes, block))), 0, None)
    assert [b"{}", b'{"a":0}'] == [it.value for out in cut.outgoing for it in decode(out.buffer)]
    assert cut.poison is not None
    reason = f"record at upstream offset {2 + at}: rule r: the value is no JSON"
    assert (2, 2, "transform-failed", reason) == (
        cut.next_upstream,
        cut.poison.offset,
        cut.poison.code,
        cut.poison.reason,
    )


def test_a_record_that_is_quarantined_is_quarantined_as_it_would_be_copied() -> None:
    """Its place is on the target, where the field must not be seen."""
    noise = bytes(range(35, 92)).replace(b"\\", b"") * 30
    record = Rec(b'{"a":"secret","n":"%s"}' % noise)
    cutter = Cutter(1 << 60, 400, quarantine=True)
    cutter.transform = Transform(Chain(rules=(RULE,)))
    cut = cutter.cut(memoryview(bytes(encode([record]))), 0, None)
    assert ([], None, [0]) == (cut.outgoing, cut.poison, [*cutter.captured])
    assert b"secret" not in cutter.captured[0][1]
