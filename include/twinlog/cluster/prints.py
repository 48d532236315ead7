"""Read records as fingerprints: enough to tell whether two logs hold the same records, of any size.

Records are read by twinlog's own fetcher, so that transactions, compaction and compression make no difference to the
comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from twinlog.batches.record import Record, key_and_value
from twinlog.cluster.few_records import records_from
from twinlog.kafka_types import TopicPartition
from twinlog.logs.log_reader import read_while, refuse
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.wire import Fetched

DIGEST_BYTES = 16
_FETCH_BYTES = 4 << 20
_FEW_BYTES = 1 << 16
_FEW = 10
"""Limit up to which little is fetched at once: the first batch comes whole, however large it is."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One record's offset, timestamp (ms), digest of key, value and headers, and digest of its key (None: no key).

    `aborted`: it belongs to an aborted transaction, so that a read_committed reader does not see it.
    """

    offset: int
    timestamp: int
    content: bytes
    key: bytes | None
    aborted: bool = False


def read_fingerprints(
    brokers: Brokers, it: TopicPartition, start: int, limit: int
) -> tuple[Fingerprint, ...]:
    """Read up to `limit` records from offset `start` on, up to the present last stable offset; markers are left out.

    A start below the log start reads from there. Raises TransientError if the cluster does not serve the partition,
    FormatError if its log is damaged, and the cluster's refusal if it may not be read.
    """
    position = max(start, brokers.offsets([it], EARLIEST)[it])
    end = brokers.offsets([it], LATEST, read_committed=True)[it]
    size = _FEW_BYTES if limit <= _FEW else _FETCH_BYTES
    fetcher = Fetcher(brokers, max_bytes=size, partition_max_bytes=size, read_committed=True)
    found: list[Fingerprint] = []
    positions = {it: position}

    def take(fetched: Fetched) -> int:
        records, next_offset = records_from(fetched, brokers.settings.alias, positions[it])
        found.extend(fingerprint_of(record, aborted=aborted) for record, aborted in records)
        return next_offset

    read_while(
        brokers, fetcher, positions, lambda _: positions[it] < end and len(found) < limit, take, refuse
    )
    return tuple(one for one in found[:limit] if one.offset < end)


def fingerprint_of(record: Record, *, aborted: bool = False) -> Fingerprint:
    """Fingerprint a record."""
    key, _ = key_and_value(record)
    content = blake2b(record.rest, digest_size=DIGEST_BYTES).digest()
    return Fingerprint(record.offset, record.timestamp, content, key_digest(key), aborted)


def key_digest(key: bytes | None) -> bytes | None:
    """Digest a key; return None for None."""
    return None if key is None else blake2b(key, digest_size=DIGEST_BYTES).digest()
