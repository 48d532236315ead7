"""The offset map's own records: a piece of one partition's map, delta-coded.

    key    byte version, STRING topic, STRING topic id, INT32 partition, INT64 first upstream offset
    value  byte version, uvarint end - first, uvarint number of runs, then for each run
           uvarint upstream offsets skipped since the last run, uvarint downstream offsets skipped (for the first
           run: its downstream offset), uvarint length

uvarint is base 128, least significant group first.  Small alternating runs take three bytes each.  The number of
runs stands in front, so that no truncation can pass for a shorter piece.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.errors import FormatError
from twinlog.formats.kafka_struct import StructReader, int32, int64, string
from twinlog.offsets.piece import LIMIT, MapPiece
from twinlog.offsets.run import Run

__all__ = [
    "MapKey",
    "MapPiece",
    "PieceDraft",
    "decode_map_key",
    "decode_piece",
    "encode_map_key",
    "encode_piece",
]

VERSION = 1


@dataclass(frozen=True, slots=True)
class MapKey:
    """What a piece is stored under; `topic` and `topic_id` (as Kafka prints it) are the source's."""

    topic: str
    topic_id: str
    partition: int
    first_upstream: int


def encode_map_key(key: MapKey) -> bytes:
    """Write the key of a piece."""
    names = string(key.topic) + string(key.topic_id)
    return bytes([VERSION]) + names + int32(key.partition) + int64(key.first_upstream)


def decode_map_key(data: bytes) -> MapKey:
    """Read the key of a piece; raises FormatError for bytes that are not one, or of another version."""
    _check_version(data, "offset map key")
    reader = StructReader(data[1:], "offset map key")
    key = MapKey(reader.string(), reader.string(), reader.int32(), reader.int64())
    if reader.position != len(reader.data):
        raise reader.error("goes on after its last field")
    return key


@dataclass(frozen=True, slots=True)
class PieceDraft:
    """A piece while it grows: its runs already encoded, so that adding one does not cost the others again.

    `upstream` and `downstream` are the ends of its last run.
    """

    first_upstream: int
    upstream: int
    downstream: int = 0
    count: int = 0
    runs: bytes = b""

    @classmethod
    def begin(cls, first_upstream: int) -> PieceDraft:
        """Begin a piece that has no runs yet."""
        return cls(first_upstream, first_upstream)

    def extended(self, runs: Iterable[Run]) -> PieceDraft:
        """Add runs behind the last.  Raises FormatError for one that is not behind it on either side."""
        data = bytearray()
        upstream, downstream, count = self.upstream, self.downstream, self.count
        for run in runs:
            if run.upstream < upstream or run.downstream < downstream or run.length < 1:
                raise FormatError(f"offset map piece has {run} out of order", piece=self.first_upstream)
            _write(data, run.upstream - upstream)
            _write(data, run.downstream - downstream)
            _write(data, run.length)
            upstream, downstream, count = run.upstream_end, run.downstream_end, count + 1
        return PieceDraft(self.first_upstream, upstream, downstream, count, self.runs + data)

    def value(self, end_upstream: int) -> bytes:
        """Write the value of the piece that covers upstream offsets up to `end_upstream`."""
        head = bytearray([VERSION])
        _write(head, end_upstream - self.first_upstream)
        _write(head, self.count)
        return bytes(head) + self.runs


def encode_piece(piece: MapPiece) -> bytes:
    """Write the value of a piece."""
    return PieceDraft.begin(piece.first_upstream).extended(piece.runs).value(piece.end_upstream)


def decode_piece(key: MapKey, value: bytes) -> MapPiece:
    """Read the value stored under `key`; raises FormatError for bytes that are not one, or of another version."""
    _check_version(value, "offset map piece")
    size, position = _read(value, 1)
    count, position = _read(value, position)
    upstream, downstream = key.first_upstream, 0
    runs = []
    for _ in range(count):
        skipped, position = _read(value, position)
        jumped, position = _read(value, position)
        length, position = _read(value, position)
        run = Run(upstream + skipped, downstream + jumped, length)
        upstream, downstream = run.upstream_end, run.downstream_end
        runs.append(run)
    if position != len(value):
        raise FormatError("offset map piece goes on after its last run", bytes=value.hex())
    return MapPiece(key.first_upstream, key.first_upstream + size, tuple(runs))


def _check_version(data: bytes, what: str) -> None:
    if not data:
        raise FormatError(f"{what} is empty")
    if data[0] != VERSION:
        raise FormatError(f"{what} has version {data[0]}; only version {VERSION} is known", bytes=data.hex())


def _write(data: bytearray, number: int) -> None:
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)


def _read(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    for index in range(position, len(data)):
        byte = data[index]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, index + 1
        shift += 7
        if number >= LIMIT or shift > 63:
            raise FormatError("offset map piece has a number beyond 63 bits", bytes=data.hex())
    raise FormatError("offset map piece ends in the middle of a number", bytes=data.hex())
