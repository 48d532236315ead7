"""Hold records that rules route to another topic, and write where they come from behind their own headers.

A routed record keeps its key, its value (as the rules before left it), its headers and its timestamp.  Behind its own
headers stand

    twinlog.source                                      the alias of the source
    twinlog.topic, twinlog.topic.id                     its topic there, and the topic's incarnation
    twinlog.partition, twinlog.offset                   its place (upstream)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from twinlog.batches.build import LARGEST_PREFIX
from twinlog.batches.outgoing import Outgoing
from twinlog.batches.record import Record, build_batch, with_headers
from twinlog.errors import FormatError
from twinlog.transforms.routes import Route

BATCH_BYTES: Final = 512 * 1024
"""The most bytes of records in one batch of several."""

OBJECT_BYTES: Final = 300
"""About what a routed record takes in memory until it is written, beside its bytes."""

ORIGIN: Final = ("twinlog.source", "twinlog.topic", "twinlog.topic.id", "twinlog.partition", "twinlog.offset")
"""The names of the headers that say where a routed record comes from, in their order."""


class RoutedRecord(NamedTuple):
    """A record as a rule routes it: its upstream offset, timestamp (ms), key, and end without origin."""

    offset: int
    timestamp: int
    key: bytes | None
    rest: bytes
    route: Route

    @property
    def held_bytes(self) -> int:
        """Return about how much memory it takes until it is written."""
        return len(self.rest) + OBJECT_BYTES


class Origin(NamedTuple):
    """Where a routed record comes from: an upstream offset of a topic's incarnation on a source."""

    source: str
    topic: str
    topic_id: str
    partition: int
    offset: int


def with_origin(rest: bytes, origin: Origin) -> bytes:
    """Return a record's end with the headers of its origin behind its own."""
    told = tuple((name, str(it).encode()) for name, it in zip(ORIGIN, origin, strict=True))
    return with_headers(rest, told)


def origin_of(headers: Sequence[tuple[bytes, bytes | None]]) -> Origin | None:
    """Return the origin that a record's headers tell, None if they tell none as `with_origin` writes it."""
    told = headers[-len(ORIGIN) :]
    if tuple(name for name, _ in told) != _NAMES:
        return None
    try:
        source, topic, topic_id, partition, offset = ((content or b"").decode() for _, content in told)
        return Origin(source, topic, topic_id, int(partition), int(offset))
    except ValueError:
        return None


_NAMES: Final = tuple(name.encode() for name in ORIGIN)


def batches(
    records: Iterable[tuple[RoutedRecord, Origin]], max_message_bytes: int, codec: int
) -> Iterator[Outgoing]:
    """Build batches of records that are routed to one partition, in their order.

    Raises FormatError (`poison-record`), with the upstream offset, for a record that does not fit even alone.
    """
    most = min(BATCH_BYTES, max_message_bytes // 2)
    group: list[Record] = []
    room = most
    for record, origin in records:
        written = Record(record.offset, record.timestamp, memoryview(with_origin(record.rest, origin)))
        size = len(written.rest) + LARGEST_PREFIX
        if group and size > room:
            yield _batch(group, max_message_bytes, codec)
            group, room = [], most
        group.append(written)
        room -= size
    if group:
        yield _batch(group, max_message_bytes, codec)


def _batch(group: Sequence[Record], max_message_bytes: int, codec: int) -> Outgoing:
    batch = build_batch(group, codec)
    if len(batch) > max_message_bytes:
        batch = build_batch(group, 0)
    if len(batch) > max_message_bytes:
        raise FormatError(
            f"a batch of this record alone has {len(batch)} bytes where it is routed to, more than max.message.bytes="
            f"{max_message_bytes} there",
            code="poison-record",
            offset=group[0].offset,
        )
    return Outgoing.built(batch, tuple((it.offset, 1) for it in group))
