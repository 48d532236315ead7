"""Damage in a state topic: nothing is believed of it, and nothing that was read before is lost."""

from __future__ import annotations

import pytest
from batches import Rec, encode
from damage import TOPIC, DamagingBrokers, flipped
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cutter import control

from twinlog.errors import FormatError
from twinlog.relay.log_reader import StateLog, read_state


def wrote(base: int, key: bytes, value: bytes, producer: int = -1) -> bytes:
    """A batch of one record, in a transaction if somebody wrote it."""
    return bytes(
        encode([Rec(value, key)], base_offset=base, transactional=producer >= 0, producer_id=producer)
    )


LOG = [
    wrote(0, b"k", b"0"),
    wrote(1, b"k", b"1", 7),
    bytes(control(2, 7, commit=True)),
    wrote(3, b"k", b"3", 7),
    wrote(4, b"other", b"4", 8),
    bytes(control(5, 7, commit=False)),
    bytes(control(6, 8, commit=True)),
    wrote(7, b"k", b"7", 8),
    bytes(control(8, 8, commit=False)),
]
TRUTH = {b"k": b"1", b"other": b"4"}
CHECKED = [bit for bit in range(8 * 61) if not (bit < 64 or 96 <= bit < 128)]
"""Bits of a header that a checksum or a length guards: not base offset and leader epoch."""


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(LOG)), st.integers(0, len(LOG) - 1), st.data())
def test_a_flipped_bit_is_an_error_and_what_is_read_when_it_is_mended_is_the_truth(
    before: int, index: int, data: st.DataObject
) -> None:
    """Wherever it is, whatever was read before it: no transaction is decided otherwise, or twice."""
    bit = data.draw(st.sampled_from(CHECKED) | st.integers(61 * 8, 8 * len(LOG[index]) - 1))
    log = StateLog(TOPIC)
    if before:
        log.read(DamagingBrokers(LOG[:before]))
    brokers = DamagingBrokers(LOG)
    brokers.served[index] = flipped(LOG[index], bit)
    if index >= before:
        with pytest.raises(FormatError):
            log.read(brokers)
        brokers.served.clear()
    found = log.read(brokers)
    assert (TRUTH, read_state(DamagingBrokers(LOG), TOPIC)) == (found.committed, found)


def test_damage_is_named_by_cluster_topic_partition_and_offset() -> None:
    """Here an ABORT that would have been a COMMIT."""
    brokers = DamagingBrokers(LOG)
    marker = bytearray(LOG[8])
    at = marker.index(b"\x08\0\0\0\0", 61) + 4
    brokers.served[8] = flipped(LOG[8], 8 * at)
    with pytest.raises(FormatError) as raised:
        read_state(brokers, TOPIC)
    assert (
        "ledger-0 on cluster A cannot be read from offset 8 on: batch at offset 8 does not fit its checksum",
        "corrupt-batch",
        {"cluster": "A", "topic": "ledger", "partition": 0, "offset": 8},
    ) == (raised.value.message, raised.value.code, raised.value.data)
