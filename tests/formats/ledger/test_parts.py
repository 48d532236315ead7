"""A large ledger record in parts: whole or not at all, whatever of the ledger is seen."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinlog.errors import FormatError
from twinlog.formats.ledger.parts import LARGEST_VALUE, LEFT_OVER_MS, in_parts, is_over, is_part
from twinlog.formats.ledger.reading import LedgerReading
from twinlog.formats.ledger.records import CycleReport, parse_ledger
from twinlog.formats.ledger.topics import GroupPosition, Rebuild, RebuildPhase
from twinlog.formats.mm2.connect_offset import json_bytes

NOW = 1_700_000_000_000
POSITIONS = 100_000


def rebuild(positions: int, request: str = "") -> Rebuild:
    groups = tuple(GroupPosition(f"group-{n // 100}", n % 100, n, n + 7) for n in range(positions))
    return Rebuild(
        "t", "id", "A.t", "old", RebuildPhase.DELETING, "me", "why", 1, groups=groups, request=request
    )


def report(seed: int, size: int) -> CycleReport:
    """Make a report that cannot be compressed much."""
    return CycleReport(f"run-{seed}", {"noise": random.Random(seed).randbytes(size).hex()}, seed)


def written(*records: CycleReport | Rebuild) -> list[tuple[bytes, bytes | None]]:
    """What stands in the log, in order."""
    return [it for number, one in enumerate(records) for it in in_parts(one.key(), one.value(), NOW + number)]


def test_no_record_is_large_however_large_what_is_written():
    """A hundred thousand positions, and what cannot be compressed."""
    for record in (rebuild(POSITIONS), report(1, 3_000_000)):
        assert len(record.value()) > 6_000_000
        assert all(len(value or b"") <= LARGEST_VALUE for _, value in written(record))


def test_a_large_record_is_read_as_it_was():
    """All of a hundred thousand positions."""
    record = rebuild(POSITIONS)
    assert (record,) == LedgerReading().read(dict(written(record))).records


def test_a_small_record_is_written_as_by_every_release():
    """Under its own key, in one."""
    record = rebuild(10)
    assert [(record.key(), record.value())] == written(record)


@settings(max_examples=20)
@given(st.lists(st.sampled_from([10, 200_000, 400_000]), min_size=1, max_size=4))
def test_wherever_a_reader_stops_it_sees_one_writing_whole(sizes):
    """At every place of the log: the last record that is named there, never a mixture."""
    records = [report(number, size) for number, size in enumerate(sizes)]
    log = written(*records)
    seen: CycleReport | None = None
    count = 0
    reading = LedgerReading()
    for end in range(len(log) + 1):
        if end and not is_part(log[end - 1][0]):
            seen, count = records[count], count + 1
        found = reading.read(dict(log[:end])).records
        assert ((seen,) if seen is not None else ()) == found


def test_a_record_that_lacks_a_part_is_not_read():
    """Whichever it is: half of it would be acted upon."""
    log = dict(written(report(1, 400_000)))
    parts = [key for key in log if is_part(key)]
    assert len(parts) > 1
    for gone in parts:
        with pytest.raises(FormatError, match=f"has {len(parts) - 1} of its {len(parts)} parts"):
            LedgerReading().read({key: value for key, value in log.items() if key != gone})


def test_a_part_that_is_not_what_was_written_is_noticed():
    """A changed byte, and parts in another's place."""
    log = dict(written(report(1, 400_000)))
    first, second, *_ = (key for key in log if is_part(key))
    for damaged in ({first: log[first][:-1] + b"?"}, {first: log[second], second: log[first]}):
        with pytest.raises(FormatError, match="not what was written"):
            LedgerReading().read(log | damaged)


@pytest.mark.parametrize(
    "told", [b"{}", b'{"id":1,"count":1,"bytes":1,"crc":1}', b'{"id":"x","count":-1,"bytes":1,"crc":1}']
)
def test_parts_that_are_not_named_as_we_do_are_refused(told):
    """A later release may name them otherwise."""
    with pytest.raises(FormatError, match="does not name its parts"):
        LedgerReading().read({b'["cycle-report"]': b'{"version":2,"parts":' + told + b"}"})


def test_a_part_says_nothing_by_itself():
    """Nor does a record that names parts to a release that does not know them."""
    (part, value), *_, (key, head) = written(report(1, 400_000))
    with pytest.raises(FormatError, match="part of a ledger record"):
        parse_ledger(part, value)
    with pytest.raises(FormatError, match="version 2; only version 1"):
        parse_ledger(key, head)


def test_parts_of_what_was_written_before_are_left_over():
    """And those of a writer that died before it named them; not those that are named."""
    first, second, third = report(1, 400_000), report(2, 400_000), report(3, 400_000)
    *unnamed, _ = in_parts(third.key(), third.value(), NOW + 2)
    log = dict([*written(first, second), *unnamed])
    found = LedgerReading().read(log)
    old = [key for key, _ in written(first) if is_part(key)]
    assert ((second,), {*old, *(key for key, _ in unnamed)}) == (found.records, set(found.left_over))


def test_a_writing_is_over_after_an_hour():
    """Until then its record may come; a part that nobody of ours wrote belongs to none."""
    (part, _), *_ = written(report(1, 400_000))
    assert [False, False, True] == [is_over(part, NOW + it) for it in (0, LEFT_OVER_MS, LEFT_OVER_MS + 1)]
    assert is_over(b'["part",7]', NOW)


def test_what_has_not_changed_is_not_parsed_again(monkeypatch):
    """By counting: a hundred thousand records, of which three are new."""
    parsed: list[bytes] = []

    def record(number: int, version: int = 0) -> tuple[bytes, bytes]:
        key = json_bytes(["topic-pause", f"t{number}"])
        fields = {"version": 1, "topic": f"t{number}", "since_ms": version, "by": "me", "reason": "why"}
        return key, json_bytes(fields)

    reading = LedgerReading()
    latest = dict(record(number) for number in range(100_000))
    before = reading.read(latest)
    monkeypatch.setattr(
        "twinlog.formats.ledger.reading.parse_ledger",
        lambda key, value: parsed.append(key) or parse_ledger(key, value),
    )
    assert before is reading.read(dict(latest))
    latest |= dict(record(number, 1) for number in (5, 50_000, 100_000))
    after = reading.read(latest)
    assert (3, 100_001) == (len(parsed), len(after.records))
    del latest[record(5)[0]]
    assert (3, 100_000) == (len(parsed), len(reading.read(latest).records))
