"""Keys go where Java's producer sends them."""

import pytest

from twinlog.formats.mm2.connect_offset import murmur2, partition_for

# Kafka's own published vectors (UtilsTest.testMurmur2).
VECTORS = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_murmur2_is_javas(data, expected):
    """Signed, seeded, little-endian words."""
    assert expected == murmur2(data)


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ('["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]', 7),
        ('["MirrorCheckpointConnector",{"partition":0,"topic":"A.t","group":"g"}]', 21),
        ('["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', 0),
    ],
)
def test_mm2s_keys_land_in_mm2s_partitions(key, partition):
    """Of Connect's 25 partitions of the offsets topic."""
    assert partition == partition_for(key.encode(), 25)
