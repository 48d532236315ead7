"""Batches that are read and not sent on: nobody but their reader looks at their checksums.

Brokers verify what they take, not what they serve; Java's consumer does (`check.crcs`).  One flipped bit in a state
topic would move progress, or make a commit of an abort.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twinlog.batches.header import OLD_MAGIC, BatchHeader, require_crc, walk
from twinlog.errors import FormatError
from twinlog.protocol.wire import Fetched

_HINT = "nothing was taken from it; let a replica with a sound log lead the partition"


def walk_verified(block: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield whole batches as `walk` does, each checked before anything of it is believed, its offsets included.

    Raises FormatError as `walk_headers` does, for a batch that does not fit its checksum, and for bytes that hold no
    whole batch: brokers serve one or nothing (KIP-74), so its length is damaged, and asking again would never end.
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
    """Name cluster, topic, partition and offset in a FormatError that is raised over what was fetched.

    The offset is the batch's where that is known, else where the fetch began.
    """
    try:
        yield
    except FormatError as error:
        offset = error.data.get("offset", fetched.asked_offset)
        why = error.message.replace("upstream offset", "offset")  # what is read here is nobody's copy
        raise FormatError(
            f"{fetched.topic}-{fetched.partition} on cluster {cluster} cannot be read from offset {offset} on: {why}",
            hint="" if error.code == OLD_MAGIC else _HINT,
            code=error.code,
            cluster=cluster,
            topic=fetched.topic,
            partition=fetched.partition,
            offset=offset,
        ) from error
