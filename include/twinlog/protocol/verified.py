"""Verify the checksums of batches that are read and not sent on, so that no later broker will check them.

Brokers verify the batches that they receive, not those that they serve; Java's consumer verifies them (`check.crcs`).
A single flipped bit in a state topic would change progress, or turn an abort into a commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twinlog.batches.header import OLD_MAGIC, BatchHeader, require_crc, walk
from twinlog.errors import FormatError
from twinlog.protocol.wire import Fetched

_HINT = "nothing was taken from it; let a replica with a sound log lead the partition"


def walk_verified(block: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield whole batches as `walk` does, each CRC-verified before any of its fields, even its offsets, is used.

    Raises FormatError as `walk_headers` does, for a batch that does not fit its checksum, and for bytes that hold no
    whole batch.  Brokers serve a whole batch or nothing (KIP-74), so such a batch's length is damaged, and asking
    again would never end.
    """
    whole = False
    for header, batch in walk(block):
        require_crc(header, batch)
        whole = True
        yield header, batch
    if len(block) and not whole:
        raise FormatError("a batch ends behind what was fetched", code="bad-batch")


@contextmanager
def naming(fetched: Fetched, cluster: str) -> Iterator[None]:
    """Add cluster, topic, partition and offset to a FormatError raised while fetched data is read.

    The offset is that of the batch if it is known, else the offset from which the fetch began.
    """
    try:
        yield
    except FormatError as error:
        offset = error.data.get("offset", fetched.asked_offset)
        why = error.message.replace("upstream offset", "offset")  # data read here is not being copied
        raise FormatError(
            f"{fetched.topic}-{fetched.partition} on cluster {cluster} cannot be read from offset {offset} on: {why}",
            hint="" if error.code == OLD_MAGIC else _HINT,
            code=error.code,
            cluster=cluster,
            topic=fetched.topic,
            partition=fetched.partition,
            offset=offset,
        ) from error
