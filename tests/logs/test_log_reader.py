"""Damage in a state topic: nothing is believed of it, and nothing that was read before is lost."""

from __future__ import annotations

import time
from typing import Any

import pytest
from damage import TOPIC, DamagingBrokers, flipped
from hypothesis import given
from hypothesis import strategies as st
from test_cutter import control

from batches import Rec, encode
from twinlog.errors import FormatError
from twinlog.logs import cache, log_reader
from twinlog.logs.log_reader import StateLog, read_state
from twinlog.logs.log_state import Resolver
from twinlog.protocol.brokers import TopicMetadata
from twinlog.protocol.leader_epochs import EpochEnd


def wrote(base: int, key: bytes, value: bytes | None, producer: int = -1) -> bytes:
    """A batch of one record, in a transaction if somebody wrote it."""
    return bytes(
        encode([Rec(value, key)], base_offset=base, transactional=producer >= 0, producer_id=producer)
    )


LOG = [
    wrote(0, b"k", b"0"),
    wrote(1, b"k", b"1", 7),
    bytes(control(2, 7, commit=True)),
    wrote(3, b"k", b"3", 7),
    wrote(4, b"other", b"4", 8),
    bytes(control(5, 7, commit=False)),
    bytes(control(6, 8, commit=True)),
    wrote(7, b"k", b"7", 8),
    bytes(control(8, 8, commit=False)),
]
TRUTH = {b"k": b"1", b"other": b"4"}
CHECKED = [bit for bit in range(8 * 61) if not (bit < 64 or 96 <= bit < 128)]
"""Bits of a header that a checksum or a length guards: not base offset and leader epoch."""


@given(st.integers(0, len(LOG)), st.integers(0, len(LOG) - 1), st.data())
def test_a_flipped_bit_is_an_error_and_what_is_read_when_it_is_mended_is_the_truth(
    before: int, index: int, data: st.DataObject
) -> None:
    """Wherever it is, whatever was read before it: no transaction is decided otherwise, or twice."""
    bit = data.draw(st.sampled_from(CHECKED) | st.integers(61 * 8, 8 * len(LOG[index]) - 1))
    log = StateLog(TOPIC)
    if before:
        log.read(DamagingBrokers(LOG[:before]))
    brokers = DamagingBrokers(LOG)
    brokers.served[index] = flipped(LOG[index], bit)
    if index >= before:
        with pytest.raises(FormatError):
            log.read(brokers)
        brokers.served.clear()
    found = log.read(brokers)
    assert (TRUTH, read_state(DamagingBrokers(LOG), TOPIC)) == (found.committed, found)


@pytest.mark.parametrize("before", range(len(LOG) + 1))
def test_what_a_log_has_gained_is_all_that_is_new(before: int) -> None:
    """Also what was read before with an open transaction, and is committed since."""
    log = StateLog(TOPIC)
    if before:
        log.read(DamagingBrokers(LOG[:before]))
    known, (_, since) = log.records, log.gained({})
    log.read(DamagingBrokers(LOG))
    gained, _ = log.gained(since)
    assert log.records == known | gained


def test_damage_is_named_by_cluster_topic_partition_and_offset() -> None:
    """Here an ABORT that would have been a COMMIT."""
    brokers = DamagingBrokers(LOG)
    marker = bytearray(LOG[8])
    at = marker.index(b"\x08\0\0\0\0", 61) + 4
    brokers.served[8] = flipped(LOG[8], 8 * at)
    with pytest.raises(FormatError) as raised:
        read_state(brokers, TOPIC)
    assert (
        "ledger-0 on cluster A cannot be read from offset 8 on: batch at offset 8 does not fit its checksum",
        "corrupt-batch",
        {"cluster": "A", "topic": "ledger", "partition": 0, "offset": 8},
    ) == (raised.value.message, raised.value.code, raised.value.data)


@given(st.lists(st.tuples(st.sampled_from("kl"), st.booleans(), st.integers(-1, 2)), max_size=12), st.data())
def test_deleted_keys_are_forgotten_and_nobody_can_tell(
    plan: list[tuple[str, bool, int]], data: st.DataObject
) -> None:
    """Read a part at a time, transactions open or not, the state is that of one reading by the definition."""
    log: list[bytes] = []
    values: dict[int, tuple[bytes, bytes | None, int]] = {}
    ended: dict[int, tuple[int, bool]] = {}
    for key, lives, producer in plan:
        if producer == 2:
            of, commit = data.draw(st.integers(0, 1)), data.draw(st.booleans())
            ended |= {at: (of, commit) for at, it in values.items() if it[2] == of and at not in ended}
            log.append(bytes(control(len(log), of, commit=commit)))
        else:
            values[len(log)] = (key.encode(), b"%d" % len(log) if lives else None, producer)
            log.append(wrote(len(log), *values[len(log)]))
    newest = {key: at for at, (key, _, _) in values.items()}
    committed = {
        key: (at, value)
        for at, (key, value, producer) in values.items()
        if producer < 0 or ended.get(at, (0, False))[1]
    }
    overshadowed = {
        key: committed.get(key, (-1, None))[1]
        for key, at in newest.items()
        if at > committed.get(key, (-1, None))[0]
    }
    reader, cached = StateLog(TOPIC), StateLog(TOPIC, cached=True)
    for end in sorted({*data.draw(st.lists(st.integers(1, len(log)))), len(log)}) if log else ():
        brokers = DamagingBrokers(log[:end])
        found = reader.read(brokers)
        cached.catch_up(brokers)
    if log:
        alive = {key: value for key, (_, value) in committed.items() if value is not None}
        assert (alive, overshadowed) == (found.committed, found.overshadowed)
        assert alive == {key: it.value for key, it in cached.records.items()}


@pytest.mark.parametrize("cached", [False, True])
def test_a_reader_holds_what_the_topic_holds(cached: bool) -> None:
    """Whatever was written and deleted since it began."""
    log = StateLog(TOPIC, cached=cached)
    written: list[bytes] = []
    for number in range(50):
        written += [wrote(2 * number, b"%d" % number, b"v"), wrote(2 * number + 1, b"%d" % number, None)]
        log.catch_up(DamagingBrokers(written))
    [resolver] = log._resolvers.values()
    assert ({}, {}, set()) == (resolver.committed, resolver.newest, resolver.deleted)


class Led(DamagingBrokers):
    """A cluster that tells who it is, and which leader serves the topic."""

    def __init__(self, batches: list[bytes], *, epoch: int = 0, cluster: str = "one") -> None:
        super().__init__(batches)
        self.epoch, self.cluster = epoch, cluster

    def metadata(self, topics: Any) -> dict[str, TopicMetadata]:
        return {name: TopicMetadata(name, 0, {0: 1}, "id", self.cluster, {0: self.epoch}) for name in topics}


OLD = [wrote(0, b"k", b"old"), wrote(1, b"lost", b"old")]
NEW = [wrote(0, b"k", b"old"), wrote(1, b"k", b"new"), wrote(2, b"more", b"new")]
KEPT_KEYS = {b"k": b"new", b"more": b"new"}


def values(log: StateLog) -> dict[bytes, bytes | None]:
    return {key: it.value for key, it in log.records.items()}


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (EpochEnd(0, 1), KEPT_KEYS),
        (EpochEnd(-1, -1), KEPT_KEYS),
        (None, KEPT_KEYS),
        (EpochEnd(0, 2), {b"k": b"old", b"lost": b"old", b"more": b"new"}),
    ],
)
def test_a_log_that_was_cut_off_and_has_grown_again_is_read_anew(monkeypatch, end, expected) -> None:
    """It ends behind what was read: only its leader epochs tell.  Where they say nothing it is read, too."""
    monkeypatch.setattr(
        log_reader, "epoch_ends", lambda brokers, asked: {} if end is None else dict.fromkeys(asked, end)
    )
    log = StateLog(TOPIC)
    log.catch_up(Led(OLD))
    log.catch_up(Led(NEW, epoch=1))
    assert expected == values(log)


def test_while_the_leader_stays_nothing_is_asked(monkeypatch) -> None:
    """It cuts nothing off."""
    monkeypatch.setattr(log_reader, "epoch_ends", None)
    log = StateLog(TOPIC)
    for end in (1, 2, 3):
        log.catch_up(Led(NEW[:end], epoch=4))
    assert KEPT_KEYS == values(log)


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Keep everything that is read, below a folder of the test's."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "state")
    monkeypatch.setattr(log_reader, "COSTLY_RECORDS", 1)
    return tmp_path / "state"


def remembered(brokers: Led) -> dict[bytes, bytes | None]:
    """What a process finds that begins with the cache of the one before."""
    log = StateLog(TOPIC, cached=True)
    log.catch_up(brokers)
    return values(log)


def test_a_cache_is_used_where_the_log_is_the_one_that_was_read(caches, monkeypatch) -> None:
    """Then only what is new is fetched; the cluster was asked, since the process did not see who led."""
    monkeypatch.setattr(log_reader, "epoch_ends", lambda brokers, asked: dict.fromkeys(asked, EpochEnd(0, 9)))
    remembered(Led(OLD))
    begun = Led([*OLD, wrote(2, b"more", b"new")])
    begun.served[0] = wrote(0, b"k", b"would be read")
    assert {b"k": b"old", b"lost": b"old", b"more": b"new"} == remembered(begun)


@pytest.mark.parametrize("end", [EpochEnd(0, 1), EpochEnd(-1, -1), None])
def test_a_cache_of_another_log_is_not_used(caches, monkeypatch, end) -> None:
    """Cut off and grown again, or of an epoch the log does not know, or nobody says."""
    remembered(Led(OLD))
    monkeypatch.setattr(
        log_reader, "epoch_ends", lambda brokers, asked: {} if end is None else dict.fromkeys(asked, end)
    )
    assert KEPT_KEYS == remembered(Led(NEW))


def test_a_cache_that_ends_behind_the_log_is_not_used(caches, monkeypatch) -> None:
    """Nor is that of another cluster with the same topic id, which is not even asked about."""
    monkeypatch.setattr(log_reader, "epoch_ends", lambda brokers, asked: dict.fromkeys(asked, EpochEnd(0, 9)))
    remembered(Led([*OLD, wrote(2, b"ahead", b"v")]))
    assert {b"k": b"old"} == remembered(Led(OLD[:1]))
    monkeypatch.setattr(log_reader, "epoch_ends", None)
    assert KEPT_KEYS == remembered(Led(NEW, cluster="two"))


def test_a_reader_that_slept_begins_anew(monkeypatch) -> None:
    """A tombstone may have come and gone: what it took is not in the log any more."""
    log = StateLog(TOPIC)
    log.catch_up(Led(OLD))
    later = time.time() + cache.MAX_AGE_SECONDS
    monkeypatch.setattr(log_reader.time, "time", lambda: later)
    log.catch_up(Led([OLD[0], wrote(5, b"after", b"v")]))
    assert {b"k": b"old", b"after": b"v"} == values(log)


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=8), st.integers(0, 9))
def test_what_lies_before_the_log_start_is_not_known_any_more(keys: list[bytes], start: int) -> None:
    """Whether it was read before the log start moved or after, also of a batch that straddles it."""
    batch = memoryview(bytes(encode([Rec(b"%d" % number, key) for number, key in enumerate(keys)])))
    before, after = Resolver(0), Resolver(0)
    before.add(batch, 0)
    before.forget_before(start)
    after.forget_before(start)
    after.add(batch, min(start, len(keys)))
    expected = {key: b"%d" % number for number, key in enumerate(keys) if number >= start}
    assert expected == {key: it.value for key, it in before.committed.items()}
    assert (expected, before.newest) == ({key: it.value for key, it in after.committed.items()}, after.newest)
