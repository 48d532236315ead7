"""Choose partitions as Java's default partitioner for keyed records does: murmur2, sign bit off, modulo.

A topic that both MM2 and twinlog write must be partitioned alike, or a key's newest value could be in two places.
"""

from __future__ import annotations

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Hash as org.apache.kafka.common.utils.Utils.murmur2 does; return a signed 32-bit number."""
    whole = len(data) & ~3
    hashed = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ word
    if len(data) > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition, of `partitions`, that Java's producer chooses for `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
