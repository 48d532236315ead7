"""Stored offsets are Connect's exact bytes, and anything else is told apart (OffsetStorageWriter, MirrorUtils)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import int32s, names
from twinlog.errors import FormatError
from twinlog.formats.mm2.connect_offset import (
    COPY_END,
    SourceOffsetKey,
    copy_end_header,
    offset_value,
    parse_copy_end,
    parse_offset_key,
    parse_offset_value,
    source_offset_key,
)

SOURCE = "MirrorSourceConnector"
BYTES = [
    (
        source_offset_key(SOURCE, "A", 0, "t"),
        '["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]',
    ),
    (
        source_offset_key("A->B.MirrorSourceConnector", "é", 3, "t"),
        '["A->B.MirrorSourceConnector",{"cluster":"é","partition":3,"topic":"t"}]',
    ),
    (offset_value(41), '{"offset":41}'),
]
keys = st.builds(SourceOffsetKey, names, names, int32s, names)


@pytest.mark.parametrize(("written", "expected"), BYTES)
def test_keys_and_values_are_connects_bytes(written, expected):
    """Order, no blanks, no escapes: Connect compares bytes."""
    assert expected.encode() == written


@given(keys)
def test_reading_a_key_undoes_writing_it(key):
    """It is known again by its fields."""
    assert parse_offset_key(key.encode()) == key


@given(st.integers(0, (1 << 63) - 1))
def test_reading_a_value_undoes_writing_it(offset):
    """64 bits."""
    assert parse_offset_value(offset_value(offset)) == offset


def test_another_order_of_fields_is_another_key():
    """It is read, and its own bytes show that it is not Connect's."""
    foreign = b'["MirrorSourceConnector",{"topic":"t","partition":0,"cluster":"A"}]'
    assert parse_offset_key(foreign) == SourceOffsetKey(SOURCE, "A", 0, "t")
    assert parse_offset_key(foreign).encode() != foreign


@pytest.mark.parametrize("value", [None, b"null", b"{}", b'{"offset":null}', b'{"offset":-1}'])
def test_nothing_stored_is_none(value):
    """MM2 takes all of these for a partition never copied."""
    assert parse_offset_value(value) is None


@pytest.mark.parametrize(
    "value", [b"", b"41", b"[]", b'{"offset":"41"}', b'{"offset":41.0}', b'{"offset":true}', b"\xff"]
)
def test_a_value_that_holds_no_whole_number_raises(value):
    """Guessing an offset loses or doubles records."""
    with pytest.raises(FormatError):
        parse_offset_value(value)


@pytest.mark.parametrize(
    "key",
    [
        ["MirrorSourceConnector"],
        ["MirrorSourceConnector", {}],
        ["MirrorSourceConnector", {"cluster": "A", "partition": "0", "topic": "t"}],
        ["MirrorSourceConnector", {"cluster": "A", "partition": True, "topic": "t"}],
        ["MirrorSourceConnector", {"cluster": "A", "partition": -1, "topic": "t"}],
        ["MirrorSourceConnector", {"cluster": "A", "partition": 0, "topic": "t", "more": 1}],
        [1, {"cluster": "A", "partition": 0, "topic": "t"}],
        ["FileStreamSource", {"filename": "x"}],
        ["MirrorCheckpointConnector", {"partition": 0, "topic": "A.t", "group": "g"}],
        ["MirrorHeartbeatConnector", {"sourceClusterAlias": "A", "targetClusterAlias": "B"}],
        None,
    ],
)
def test_keys_of_others_raise(key):
    """The offsets topic may hold any connector's keys, and those that MM2 writes and never reads."""
    with pytest.raises(FormatError, match="none of MirrorMaker's"):
        parse_offset_key(json.dumps(key).encode())


def test_every_truncation_of_a_key_raises():
    """No shorter bytes pass for a key."""
    key = source_offset_key(SOURCE, "A", 0, "t")
    for cut in range(len(key)):
        with pytest.raises(FormatError, match="not JSON"):
            parse_offset_key(key[:cut])


@given(st.none() | st.integers(0, 1 << 62))
def test_a_copy_end_survives_the_round_trip(end):
    """Among whatever other headers."""
    other = ("twinlog.other", b"7")
    assert parse_copy_end((other, *copy_end_header(end), other)) == end


@pytest.mark.parametrize("content", [None, b"", b"-1", b"7 ", b"\xc2\xb2"])
def test_a_copy_end_that_is_no_number_raises(content):
    """It is never guessed."""
    with pytest.raises(FormatError, match="holds no whole number"):
        parse_copy_end(((COPY_END, content),))
