"""The ledger's records of audits come back as they were written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import int32s, names
from twinlog.formats.ledger.audit import (
    DifferenceKind,
    FoundDifference,
    PartitionAudit,
    Unproved,
    UnprovedSpan,
)
from twinlog.formats.ledger.records import parse_ledger

SPANS = (UnprovedSpan(0, 1, 1, Unproved.SOURCE_RETENTION),)
FOUND = (FoundDifference(DifferenceKind.VALUE, 5, 6), FoundDifference(DifferenceKind.EXTRA, None, 6))
BYTES = [
    (
        PartitionAudit("t", "id", 0, "A.t", "rid", 0, 9, 10, 9, 5, 2, SPANS, 2, FOUND, 7),
        '["audit","t","id",0]',
        '{"version":1,"topic":"t","topic_id":"id","partition":0,"remote_topic":"A.t","remote_topic_id":"rid",'
        '"start":0,"end":9,"downstream_end":10,"records":9,"equal_bytes":5,"equal_records":2,'
        '"unproved":[{"start":0,"end":1,"records":1,"reason":"source-retention"}],"difference_count":2,'
        '"differences":[{"kind":"value","upstream_offset":5,"downstream_offset":6},'
        '{"kind":"extra","upstream_offset":null,"downstream_offset":6}],"at_ms":7}',
    ),
]
numbers = st.integers(0, 1 << 62)
counts = (numbers, numbers, numbers)
spans = st.builds(UnprovedSpan, *counts, st.sampled_from(Unproved))
found = st.builds(FoundDifference, st.sampled_from(DifferenceKind), st.none() | numbers, st.none() | numbers)
many_found = st.lists(found, max_size=3).map(tuple)
records = st.builds(
    PartitionAudit,
    *(names, names, int32s, names, names),
    *counts,
    *counts,
    st.lists(spans, max_size=3).map(tuple),
    numbers,
    many_found,
    numbers,
)


@pytest.mark.parametrize(("record", "key", "value"), BYTES)
def test_the_bytes_of_a_record_stay(record, key, value):
    """A ledger must be read by every later release; both ways."""
    assert (record.key().decode(), record.value().decode()) == (key, value)
    assert parse_ledger(key.encode(), value.encode()) == record


@given(records)
def test_reading_undoes_writing(record):
    """Both kinds."""
    assert parse_ledger(record.key(), record.value()) == record
