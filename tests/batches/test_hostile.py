"""Hostile and damaged batches: refused by name, nothing of theirs or behind them is copied, neighbours go on.

The fuzz test is bounded by TWINLOG_FUZZ_EXAMPLES (logs, each damaged in twenty ways).
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from unittest import mock

import pytest
from crc32c import crc32c
from fakes import FakeTarget
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from test_copy_lane import agree, copy, encoded, source_of
from test_cutter import Log, logs, patch, with_gaps

from batches import Rec, decode, encode
from twinlog.batches import codec as codecs
from twinlog.batches.cutter import Cutter
from twinlog.batches.header import HEADER
from twinlog.batches.markers import AbortedTransactions
from twinlog.batches.merge import MOST_RECORDS
from twinlog.batches.plain.library import LIBRARY
from twinlog.batches.relabel import relabel

EXAMPLES = int(os.environ.get("TWINLOG_FUZZ_EXAMPLES", "60"))
RECORDS = [Rec(b"value %d" % n, b"k", 1_000 + n) for n in range(40)]
GOOD = Log((bytes(encode(RECORDS)),), tuple(enumerate(RECORDS)), (), 40)


def flipped(at: int) -> Callable[[bytearray], bytearray]:
    """One byte changed, the checksum left as it was."""

    def spoil(batch: bytearray) -> bytearray:
        batch[at] ^= 0x5A
        return batch

    return spoil


def body(batch: bytearray, at: int, value: int) -> bytearray:
    """A byte of the records changed, and the checksum made right: what an attacker would send."""
    batch[at] = value
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return batch


def bomb(batch: bytearray) -> bytearray:
    """Half a kilobyte of gzip that holds a megabyte, where the bound is 64 KiB."""
    packed = codecs.compress(codecs.GZIP, bytes(1 << 20))
    made = bytearray(61 + len(packed))
    HEADER.pack_into(made, 0, 40, 49 + len(packed), 0, 2, 0, codecs.GZIP, 9, 0, 0, -1, -1, -1, 5)
    made[61:] = packed
    return patch(made, 21, ">h", codecs.GZIP)


def truncated(batch: bytearray) -> bytearray:
    """Its last record is missing, its length says nothing of that."""
    del batch[-12:]
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    return body(batch, 61, batch[61])


APPEND_TIME = 0x08
"""Forces the records to be read."""

HOSTILE: dict[str, Callable[[bytearray], bytearray]] = {
    "a wrong checksum, passed on": flipped(100),
    "a wrong checksum, read": lambda it: flipped(100)(patch(it, 21, ">h", APPEND_TIME)),
    "a wrong checksum in the header": flipped(30),
    "a varint without an end": lambda it: body(patch(it, 21, ">h", APPEND_TIME), 61, 0xFF),
    "a record longer than its batch": lambda it: body(patch(it, 21, ">h", APPEND_TIME), 61, 0x7E),
    "a negative length": lambda it: body(patch(it, 21, ">h", APPEND_TIME), 61, 0x01),
    "fewer records than it says": lambda it: patch(patch(it, 57, ">i", 60), 23, ">i", 59),
    "more records than it says": lambda it: patch(it, 57, ">i", 5),
    "more records than offsets": lambda it: patch(it, 23, ">i", 3),
    "a negative count": lambda it: patch(it, 57, ">i", -7),
    "a negative last offset": lambda it: patch(patch(it, 23, ">i", -2), 57, ">i", -1),
    "offsets that go back": lambda it: patch(it, 0, ">q", 17),
    "a size below its header": lambda it: patch(it, 8, ">i", 20),
    "a negative size": lambda it: patch(it, 8, ">i", -100),
    "a format of the future": lambda it: patch(it, 16, ">b", 9),
    "a codec that does not exist": lambda it: patch(it, 21, ">h", 6 | APPEND_TIME),
    "a codec it does not have": lambda it: patch(it, 21, ">h", codecs.ZSTD | APPEND_TIME),
    "nothing behind the last whole record": truncated,
    "a decompression bomb": bomb,
    "an emptied batch with a wrong checksum": lambda _: flipped(30)(with_gaps([], 40, 9)),
}


@pytest.mark.parametrize("quarantine", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_batch_ends_its_partition_and_no_other(
    kind: str, quarantine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies before it is copied, the message says where it is, the neighbour is copied whole."""
    monkeypatch.setattr(codecs, "MAX_DECOMPRESSED", 1 << 16)
    bad = bytes(HOSTILE[kind](encode(RECORDS, base_offset=40)))
    behind = bytes(encode(RECORDS, base_offset=80))
    hostile = Log((*GOOD.batches, bad, behind), GOOD.visible, (), 120)
    target = FakeTarget(["A.t", "offsets", "map", "ledger", "aside"])
    report = copy(
        source_of([hostile, GOOD], 1 << 20), target, {0: 0, 1: 0}, {0: 120, 1: 40}, quarantine=quarantine
    )
    bad_range, good_range = report.ranges
    assert (good_range.error_code, good_range.records) == ("", 40)
    agree(target, 1, GOOD)
    assert [rest for _, rest in target.committed(("A.t", 0))] == encoded(GOOD.visible)
    assert (bad_range.next_upstream, bad_range.records) == (40, 40)
    assert bad_range.error_code in {"corrupt-batch", "bad-batch", "bad-record", "poison-record"}
    assert "t-0" in bad_range.error
    assert "upstream offset 40" in bad_range.error or "upstream offset 17" in bad_range.error


def damaged(log: Log, chance: random.Random) -> bytearray:
    """Some bytes changed, and the end cut off, anywhere but in the two header fields no checksum covers."""
    raw = bytearray(b"".join(log.batches))
    bare = set()
    at = 0
    for batch in log.batches:
        bare |= {*range(at, at + 8), *range(at + 12, at + 16)}
        at += len(batch)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at = chance.randrange(len(raw))
        if at not in bare:
            raw[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    if chance.random() < 0.3:
        del raw[chance.randrange(len(raw)) :]
    return raw


def hold(log: Log, seed: int) -> None:
    """Damage a log in twenty ways, and cut it each time.

    What goes out with a checksum that fits is what a consumer of the sound log sees; and whatever lies below the
    position afterwards went out, or lies behind the first batch that the target will refuse, where the copy ends.
    """
    chance = random.Random(seed)
    visible = dict(log.visible)
    for _ in range(20):
        raw = damaged(log, chance)
        cutter = Cutter(log.end, chance.choice([300, 1 << 20]), overwrites=chance.choice([True, False]))
        with (
            mock.patch("twinlog.batches.merge.MOST_RECORDS", chance.choice([0, MOST_RECORDS])),
            mock.patch("twinlog.batches.plain.take.LIBRARY", chance.choice([None, LIBRARY])),
        ):
            cut = cutter.cut(memoryview(raw), 0, AbortedTransactions.of(log.aborted))
        gone: set[int] = set()
        last, end = -1, cut.next_upstream
        for item in cut.outgoing:
            offsets = [first + step for first, length in item.stretches for step in range(length)]
            assert offsets[0] > last
            last = offsets[-1]
            gone |= set(offsets)
            sent = relabel(item.buffer, item.header, 7, 0, 0)
            if crc32c(bytes(sent[21:])) == int.from_bytes(sent[17:21], "big"):
                assert decode(sent) == [visible.get(at) for at in offsets]
            else:
                end = min(end, offsets[0])
        assert {at for at in visible if at < end} <= gone


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs(), st.integers(0, 1 << 32))
def test_damage_is_never_copied_and_never_passed_over(log: Log, seed: int) -> None:
    """Seeded damage to valid fetch blocks, wherever it strikes."""
    hold(log, seed)


@pytest.mark.parametrize("check", ["columns._check", "merge.require_crc", "cutter.require_crc"])
def test_the_fuzz_finds_a_check_that_is_missing(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With any of the checks taken away damage gets through: the law is able to fail.

    (That a header says what can be is for headers under a right checksum: HOSTILE has them.)
    """
    monkeypatch.setattr(f"twinlog.batches.{check}", lambda *_: None)

    @settings(max_examples=4_000, deadline=None, database=None, phases=[Phase.generate])
    @given(logs(), st.integers(0, 1 << 32))
    def search(log: Log, seed: int) -> None:
        hold(log, seed)

    # What got through may be no records at all: then it is the reader of the copy that finds it.
    with pytest.raises((AssertionError, CorruptRecordError, ExceptionGroup)):
        search()


def test_a_damaged_batch_is_not_passed_over_for_what_it_says_of_its_end() -> None:
    """It holds the offset that was asked for, and says that it ends before."""
    damaged = bytearray(encode(RECORDS, base_offset=40))
    struct.pack_into(">i", damaged, 23, 3)  # its lastOffsetDelta
    struct.pack_into(">i", damaged, 57, 4)  # and as many records
    cut = Cutter(120, 1 << 20).cut(memoryview(damaged), 45, None)
    assert cut.poison is not None
    assert (45, [], 45) == (cut.next_upstream, cut.outgoing, cut.poison.offset)
