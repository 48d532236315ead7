"""Compress batches anew on their way, for a line between lanes and target that is thinner than their CPU is dear.

By default batches keep the codec that their producers chose and are never unpacked (decision 3).  With another codec
each batch is unpacked and packed once, records are not read, and the offsets, times and order of all stay.
"""

from __future__ import annotations

from twinlog.batches.codec import compress, decompress
from twinlog.batches.header import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    require_crc,
    write_crc,
)
from twinlog.batches.outgoing import Outgoing


def recompressed(found: Outgoing, codec: int) -> Outgoing:
    """Return the batch in this codec, or as it is if it has that codec already, or would not become smaller.

    Raises FormatError for a batch that cannot be unpacked, or does not fit its checksum: a new one would hide that.
    """
    header = found.header
    if header.codec == codec:
        return found
    require_crc(header, found.buffer)
    body = compress(codec, bytes(decompress(header.codec, found.buffer[HEADER_BYTES:])))
    size = HEADER_BYTES + len(body)
    if size >= header.size:
        return found
    batch = memoryview(bytearray(size))
    batch[HEADER_BYTES:] = body
    attributes = header.attributes & ~CODEC_MASK | codec
    HEADER.pack_into(batch, 0, *header._replace(batch_length=size - LOG_OVERHEAD, attributes=attributes))
    write_crc(batch)
    return Outgoing.built(batch, found.stretches, rewritten=True)
