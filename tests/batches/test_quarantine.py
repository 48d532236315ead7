"""Poisonous records are written aside whole, with their origin."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batches import Rec, decode
from twinlog.batches.quarantine import Captured, batches
from twinlog.batches.record import record_rest
from twinlog.errors import FormatError
from twinlog.policy.replication import DefaultReplicationPolicy

ORIGIN = {
    "twinlog.topic": b"orders",
    "twinlog.topic.id": b"id",
    "twinlog.partition": b"3",
    "twinlog.offset": b"42",
    "twinlog.timestamp": b"1234",
    "twinlog.reason": b"too large",
}


def aside(record: Rec, limit: int) -> list[Rec]:
    """The records written for one, read by kafka-python."""
    rest = bytes(record_rest(record.key, record.value, record.headers))
    captured = Captured("orders", "id", 3, 42, 1234, rest, "too large")
    made = list(batches([captured], limit, 99))
    assert all(len(item.buffer) <= limit for item in made)
    return [shown for item in made for shown in decode(item.buffer)]


RECORD = st.builds(
    Rec,
    value=st.none() | st.binary(max_size=3000),
    key=st.none() | st.binary(max_size=40),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(
        tuple
    ),
)


@given(RECORD, st.integers(700, 4000))
def test_the_parts_are_the_record(record: Rec, limit: int) -> None:
    """Key, value and headers can be put together again; each part fits, and says where it comes from."""
    written = aside(record, limit)
    values = [item.value for item in written]
    assert (None if values == [None] else b"".join(v or b"" for v in values)) == record.value
    assert written[0].key == record.key
    assert written[0].headers[: len(record.headers)] == record.headers
    for number, item in enumerate(written):
        own = dict(item.headers[len(record.headers) if number == 0 else 0 :])
        part = own.pop("twinlog.part", None)
        assert (own, item.timestamp) == (ORIGIN, 99)
        assert part == (b"%d/%d" % (number + 1, len(written)) if len(written) > 1 else None)


def test_a_key_that_fits_nowhere_cannot_be_written_aside() -> None:
    """Nothing is cut off: the partition ends there."""
    with pytest.raises(FormatError, match="orders-3 at upstream offset 42"):
        aside(Rec(b"v", bytes(2000)), 1000)


def test_nobody_replicates_the_topic() -> None:
    """Neither MM2's rule nor ours."""
    assert DefaultReplicationPolicy().is_mm2_internal_topic("mm2-quarantine.A.internal")
