"""MM2's three records are MM2's bytes (Heartbeat, Checkpoint, OffsetSync)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import int32s, int64s, names
from twinlog.errors import FormatError
from twinlog.formats.mm2.records import Checkpoint, Heartbeat, OffsetSync

# record, key, value; the same layouts stand in MM2's OffsetSync, Checkpoint and Heartbeat classes
BYTES = [
    (
        OffsetSync("topic-1", 2, 3, 4),
        "00 07 74 6f 70 69 63 2d 31 00 00 00 02",
        "00 00 00 00 00 00 00 03 00 00 00 00 00 00 00 04",
    ),
    (
        OffsetSync("é", 0, -1, 0),
        "00 02 c3 a9 00 00 00 00",
        "ff ff ff ff ff ff ff ff 00 00 00 00 00 00 00 00",
    ),
    (
        Checkpoint("group-1", "topic-2", 3, 4, 5, "metadata-6"),
        "00 07 67 72 6f 75 70 2d 31 00 07 74 6f 70 69 63 2d 32 00 00 00 03",
        "00 00 00 00 00 00 00 00 00 04 00 00 00 00 00 00 00 05 00 0a 6d 65 74 61 64 61 74 61 2d 36",
    ),
    (
        Checkpoint("g", "t", 0, 1000, 750),
        "00 01 67 00 01 74 00 00 00 00",
        "00 00 00 00 00 00 00 00 03 e8 00 00 00 00 00 00 02 ee 00 00",
    ),
    (
        Heartbeat("source-1", "target-2", 1234567890),
        "00 08 73 6f 75 72 63 65 2d 31 00 08 74 61 72 67 65 74 2d 32",
        "00 00 00 00 00 00 49 96 02 d2",
    ),
    (Heartbeat("A", "B", 1718000000000), "00 01 41 00 01 42", "00 00 00 00 01 90 00 c7 9c 00"),
]

records = (
    st.builds(OffsetSync, names, int32s, int64s, int64s)
    | st.builds(Checkpoint, names, names, int32s, int64s, int64s, names)
    | st.builds(Heartbeat, names, names, int64s)
)


@pytest.mark.parametrize(("record", "key", "value"), BYTES)
def test_a_record_is_written_and_read_as_mm2_does(record, key, value):
    """Literal bytes, both ways."""
    assert (record.key().hex(" "), record.value().hex(" ")) == (key, value)
    assert type(record).parse(bytes.fromhex(key), bytes.fromhex(value)) == record


@given(records)
def test_reading_undoes_writing(record):
    """Whatever the names and numbers."""
    assert type(record).parse(record.key(), record.value()) == record


@given(records)
def test_bytes_after_the_last_field_are_ignored(record):
    """As Kafka's readers do: a later version may add fields."""
    assert type(record).parse(record.key() + b"x", record.value() + b"x") == record


@pytest.mark.parametrize("record", [record for record, _, _ in BYTES])
def test_every_truncation_raises(record):
    """No shorter bytes pass for a record."""
    key, value = record.key(), record.value()
    for cut in range(len(key)):
        with pytest.raises(FormatError, match="ends after"):
            type(record).parse(key[:cut], value)
    for cut in range(len(value)):
        with pytest.raises(FormatError, match="ends after"):
            type(record).parse(key, value[:cut])


@pytest.mark.parametrize("record", [Checkpoint("g", "t", 0, 1, 1), Heartbeat("A", "B", 1)])
def test_an_unknown_version_is_named(record):
    """Kafka 4.4 refuses it too; 4.3 would read it as version 0."""
    with pytest.raises(FormatError, match="version 1; only version 0 is known"):
        type(record).parse(record.key(), b"\x00\x01" + record.value()[2:])


@pytest.mark.parametrize(
    ("key", "words"), [(b"\xff\xff", "string of length -1"), (b"\x00\x01\xff\x00\x00\x00\x00", "not UTF-8")]
)
def test_a_string_that_is_none_raises(key, words):
    """Null strings and broken UTF-8 do not exist in these records."""
    with pytest.raises(FormatError, match=words):
        OffsetSync.parse(key, bytes(16))


@pytest.mark.parametrize(
    "record", [Checkpoint("g", "t", 0, 1, 1, "m" * 32768), OffsetSync("t", 0, 1 << 63, 0)]
)
def test_what_does_not_fit_is_refused_when_written(record):
    """Metadata beyond 32767 bytes, offsets beyond 64 bits."""
    with pytest.raises(FormatError, match="does not fit"):
        record.value()
