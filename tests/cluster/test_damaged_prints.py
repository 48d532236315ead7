"""No fingerprint is taken of a damaged record."""

from __future__ import annotations

import pytest
from damage import TOPIC, DamagingBrokers, flipped

from batches import Rec, encode
from twinlog.cluster import prints
from twinlog.errors import FormatError
from twinlog.kafka_types import TopicPartition

LOG = [bytes(encode([Rec(b"value %d" % n, b"k")], base_offset=n)) for n in range(3)]


class Stable(DamagingBrokers):
    """Nothing is open in it."""

    def offsets(self, partitions, timestamp, *, read_committed=False):
        return super().offsets(partitions, timestamp)


def read(brokers: Stable) -> tuple[prints.Fingerprint, ...]:
    return prints.read_fingerprints(brokers, TopicPartition(TOPIC, 0), 0, 100)


def test_a_flipped_bit_of_a_value_is_damage_and_not_another_record() -> None:
    """It would be called a difference between source and copy, or hide one."""
    brokers = Stable(LOG)
    assert [0, 1, 2] == [it.offset for it in read(brokers)]
    brokers.served[1] = flipped(LOG[1], 8 * (LOG[1].index(b"value") + 6))
    with pytest.raises(FormatError) as raised:
        read(brokers)
    assert ("corrupt-batch", {"cluster": "A", "topic": TOPIC, "partition": 0, "offset": 1}) == (
        raised.value.code,
        raised.value.data,
    )
