"""Old messages become batches that a consumer reads as it would read the messages, by kafka-python's own encoder."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from test_cutter import Cutter, content

from batches import Rec, decode, encode
from twinlog.batches import codec as codecs
from twinlog.batches.header import walk
from twinlog.errors import FormatError
from twinlog.protocol.legacy import as_batches, is_old

APPEND_TIME = 0x08


@dataclass
class Set:
    """A message set, and what a consumer sees of it."""

    entries: list[bytes] = field(default_factory=list)
    visible: list[tuple[int, Rec]] = field(default_factory=list)
    end: int = 0

    @property
    def raw(self) -> bytes:
        """All of it, as a fetch returns it."""
        return b"".join(self.entries)


def message(offset: int, magic: int, record: Rec, attributes: int = 0) -> bytes:
    """One message, by kafka-python; attributes and CRC set afterwards."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 24)
    builder.append(offset, timestamp=record.timestamp, key=record.key, value=record.value)
    raw = bytearray(builder.build())
    raw[17] = attributes
    return bytes(summed(raw))


def summed(raw: bytearray) -> bytearray:
    """Make the CRC of a message right."""
    raw[12:16] = zlib.crc32(bytes(raw[16:])).to_bytes(4, "big")
    return raw


def wrapper(
    first: int, magic: int, records: list[tuple[int, Rec]], codec: int, append: int | None = None
) -> bytes:
    """A compressed set: absolute offsets in v0, relative ones in v1, its own offset being the last one's."""
    shift = first if magic else 0
    inner = b"".join(message(offset - shift, magic, record) for offset, record in records)
    packed = codecs.compress(codec, inner)
    if magic == 0 and codec == codecs.LZ4:
        packed = packed[:6] + b"\x00" + packed[7:]  # the wrong checksum of old producers
    stamp = append if append is not None else max(record.timestamp for _, record in records)
    attributes = codec | (APPEND_TIME if append is not None else 0)
    return message(records[-1][0], magic, Rec(packed, None, stamp), attributes)


RECORD = st.builds(
    Rec,
    value=st.none() | st.binary(max_size=20),
    key=st.none() | st.binary(max_size=5),
    timestamp=st.integers(0, 2**41),
)


@st.composite
def sets(draw: st.DrawFn) -> Set:
    """Plain and wrapped messages of both formats, with gaps as compaction leaves them."""
    result = Set(end=draw(st.integers(0, 3)))
    for _ in range(draw(st.integers(1, 6))):
        magic = draw(st.sampled_from([0, 1]))
        count = draw(st.integers(1, 5))
        offsets = sorted(
            draw(st.sets(st.integers(result.end, result.end + 7), min_size=count, max_size=count))
        )
        records = list(zip(offsets, draw(st.lists(RECORD, min_size=count, max_size=count)), strict=True))
        codec = draw(st.sampled_from([0, 0, 1, 2, 3]))
        append = draw(st.none() | st.integers(0, 2**41)) if magic else None
        if codec:
            result.entries.append(wrapper(result.end, magic, records, codec, append))
        for offset, record in records:
            shown = -1 if magic == 0 else record.timestamp if append is None else append
            if not codec:
                attributes = APPEND_TIME if append is not None else 0
                stamped = Rec(record.value, record.key, shown if magic else 0)
                result.entries.append(message(offset, magic, stamped, attributes))
            result.visible.append((offset, Rec(record.value, record.key, shown)))
        result.end = offsets[-1] + 1
    return result


@given(sets(), st.data())
def test_consumers_see_the_same(old: Set, data: st.DataObject) -> None:
    """Offsets, keys, values and timestamps; from any position on; behind them a batch as it is today."""
    start = data.draw(st.integers(0, old.end))
    block = as_batches(memoryview(old.raw + bytes(encode([Rec()], base_offset=old.end))))
    cut = Cutter(1 << 40, 1 << 20).cut(block, start, None)
    assert cut.poison is None
    assert content(cut.outgoing) == [item for item in old.visible if item[0] >= start]
    assert cut.next_upstream == max(start, old.end)


@given(sets(), st.integers(0, 400))
def test_a_message_cut_off_is_left_for_the_next_fetch(old: Set, size: int) -> None:
    """Whatever is whole is there, in order, and nothing else."""
    block = as_batches(memoryview(old.raw[:size]))
    seen = content(Cutter(1 << 40, 1 << 20).cut(block, 0, None).outgoing)
    assert seen == old.visible[: len(seen)]


@given(sets(), st.data())
def test_damage_is_refused_or_left_out_never_copied(old: Set, data: st.DataObject) -> None:
    """One byte changed: what comes out is what went in up to some message, or an error that names an offset."""
    at = data.draw(st.integers(0, len(old.raw) - 1))
    raw = bytearray(old.raw)
    raw[at] ^= data.draw(st.integers(1, 255))
    try:
        block = as_batches(memoryview(raw)) if is_old(memoryview(raw)) else memoryview(bytearray())
    except FormatError as error:
        assert "upstream offset" in error.message
        return
    seen = [record for header, batch in walk(block) for record in decode(batch)]
    assert seen == [record for _, record in old.visible][: len(seen)]


def test_a_wrapper_keeps_its_codec() -> None:
    """The copy is compressed as the source was."""
    raw = wrapper(0, 1, [(n, Rec(b"v" * 50)) for n in range(9)], codecs.GZIP)
    assert [header.codec for header, _ in walk(as_batches(memoryview(raw)))] == [codecs.GZIP]


def test_a_bomb_in_a_wrapper_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrappers are decompressed within the same bound as batches."""
    monkeypatch.setattr(codecs, "MAX_DECOMPRESSED", 10_000)
    raw = wrapper(7, 1, [(7, Rec(bytes(20_000)))], codecs.GZIP)
    with pytest.raises(FormatError, match="more than"):
        as_batches(memoryview(raw))


@pytest.mark.parametrize("value", [b"no gzip", b"", codecs.compress(codecs.GZIP, bytes(100))[:-9]])
@pytest.mark.parametrize("inner_codec", [1, 2, 3, 7])
@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrapper_in_a_wrapper_is_refused_and_never_unpacked(
    magic: int, inner_codec: int, value: bytes
) -> None:
    """Consumers refuse it, too; and nobody bounds what it unpacks to."""
    nested = message(0, magic, Rec(value), inner_codec)
    outer = message(9, magic, Rec(codecs.compress(codecs.GZIP, nested)), codecs.GZIP)
    with pytest.raises(FormatError, match="old message at upstream offset 9 holds a compressed message"):
        as_batches(memoryview(bytearray(outer)))
