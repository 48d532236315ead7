"""Taking a flow that copies at least once: what a lane left in the map, and another driver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strategies import maps
from twinlog.copying.mend import at_least_once
from twinlog.copying.mend.at_least_once import LAST_WORD_SECONDS, beyond
from twinlog.errors import FencedError
from twinlog.formats.ledger.records import LaneFence
from twinlog.formats.map.offset_map import MapKey, decode_map_key, encode_map_key, encode_segment
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.kafka_types import ReadRecord
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence.fence import FenceLogs, Grant
from twinlog.lane.spec import RangeSpec, StateTopics
from twinlog.lane.transaction import Writer
from twinlog.logs.log_state import LogState
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment

STATE = StateTopics("offsets", 4, "map", 4, "ledger", "MirrorSourceConnector", "A")


def range_from(start: int, partition: int = 0) -> RangeSpec:
    return RangeSpec("t", "id", "A.t", partition, start, start + 100)


def stored(pieces: Iterable[MapSegment], topic_id: str = "id") -> dict[bytes, bytes]:
    """The map topic's records of one partition."""
    return {
        encode_map_key(MapKey("t", topic_id, 0, it.first_upstream)): encode_segment(it)
        for it in pieces
        if it.first_upstream < it.end_upstream
    }


def after(records: dict[bytes, bytes], start: int) -> dict[bytes, bytes]:
    """The map topic before a range is copied from `start` on."""
    written = {it.key: it.value for it in beyond(STATE, records, [range_from(start)])}
    return {key: value for key, value in {**records, **written}.items() if value is not None}


def opened(records: dict[bytes, bytes]) -> OffsetMap:
    return PackedMap.of({decode_map_key(key).first_upstream: it for key, it in records.items()}).open()


def offsets(runs: Iterable[Extent]) -> dict[int, int]:
    """Downstream offsets by upstream."""
    return {
        up: run.downstream + up - run.upstream for run in runs for up in range(run.upstream, run.upstream_end)
    }


@given(maps(), st.integers(0, 40))
def test_the_next_copy_contradicts_nothing(pieces: list[MapSegment], start: int) -> None:
    """Every run up to where it begins is as it was, none is beyond, and a piece that begins there fits."""
    records = after(stored(pieces), start)
    again = MapSegment(start, start + 2, (Extent(start, 1_000_000, 2),))
    kept = {up: down for up, down in offsets(run for it in pieces for run in it.runs).items() if up < start}
    found = offsets(opened(records | stored([again])).runs)
    assert {**kept, start: 1_000_000, start + 1: 1_000_001} == found


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 40), st.integers(1, 40))
def test_what_two_drivers_copied_at_once_is_mapped_once(
    begun: int, more: int, behind: int, length: int
) -> None:
    """The first goes on behind what the second began with: up to there its copy counts, from there the other's."""
    first = MapSegment(0, begun + more, (Extent(0, 0, begun + more),))
    second = MapSegment(begun, begun + length, (Extent(begun, 100 + behind, length),))
    records = after(stored([first]) | stored([second]), begun + length)
    expected = dict(zip(range(begun), range(begun), strict=True))
    expected |= {begun + number: 100 + behind + number for number in range(length)}
    assert expected == offsets(opened(records).runs)


class Copier:
    """One of two drivers that copy the same records: what it writes down, in pieces of at most four runs."""

    def __init__(self, start: int, records: dict[bytes, bytes]) -> None:
        self.at = self._first = start
        self._runs: list[Extent] = []
        self._records = records

    def copy(self, downstream: int) -> None:
        """Copy ten records."""
        last = self._runs[-1] if self._runs else None
        if last is not None and last.downstream_end == downstream:
            self._runs[-1] = Extent(last.upstream, last.downstream, last.length + 10)
        else:
            self._runs.append(Extent(self.at, downstream, 10))
        self.at += 10
        self._records |= stored([MapSegment(self._first, self.at, tuple(self._runs))])
        if len(self._runs) == 4:
            self._first, self._runs = self.at, []


@settings(max_examples=300)
@given(st.integers(1, 5), st.sampled_from([0, 10]), st.lists(st.booleans(), min_size=2, max_size=30))
@example(1, 10, [False, True, False, True, False, True, True, False])
def test_however_two_drivers_copied_at_once_the_map_can_be_read_and_is_true(
    before: int, back: int, turns: list[bool]
) -> None:
    """One goes on beside the other for long: every offset that is mapped is one at which its record was written."""
    records: dict[bytes, bytes] = {}
    written: set[tuple[int, int]] = set()
    one = Copier(0, records)
    downstream = 0

    def copied(by: Copier) -> None:
        nonlocal downstream
        written.update((by.at + number, downstream + number) for number in range(10))
        by.copy(downstream)
        downstream += 10

    for _ in range(before):
        copied(one)
    other = Copier(one.at - back, records)
    for turn in turns:
        copied(one if turn else other)
    found = offsets(opened(after(records, max(one.at, other.at))).runs)
    assert set(found.items()) <= written
    assert list(found.values()) == sorted(found.values())


def test_pieces_that_repeat_each_other_stay() -> None:
    """An upkeep of the map may have died between writing a joined piece and forgetting its parts."""
    joined, part = MapSegment(0, 9, (Extent(0, 0, 9),)), MapSegment(4, 9, (Extent(4, 4, 5),))
    assert [] == list(beyond(STATE, stored([joined, part]), [range_from(9)]))


def test_what_is_not_copied_now_is_left() -> None:
    """An earlier life of the topic, another partition, a map that cannot be read, a stranger's record."""
    records = stored([MapSegment(0, 9, (Extent(0, 0, 9),))])
    assert [] == list(beyond(STATE, stored([MapSegment(0, 9, ())], "earlier"), [range_from(4)]))
    assert [] == list(beyond(STATE, records, [range_from(4, partition=1)]))
    assert [] == list(beyond(STATE, {next(iter(records)): b"\xff"}, [range_from(4)]))
    assert [] == list(beyond(STATE, {**records, b"stranger": b""}, [range_from(4)]))
    assert 1 == len(list(beyond(STATE, records, [range_from(4)])))


def test_a_first_copy_that_died_before_it_wrote_progress_leaves_no_map() -> None:
    """It is copied from its beginning again."""
    pieces = [MapSegment(0, 100, (Extent(0, 0, 100),)), MapSegment(100, 150, (Extent(100, 100, 50),))]
    assert {} == after(stored(pieces), 0)


class Scripted:
    """A state log; each reading finds what `now` says."""

    def __init__(self, now: Callable[[], dict[bytes, bytes]]) -> None:
        self._now = now

    def read(self, target: object) -> LogState:
        return LogState(self._now(), {})

    def position(self, partition: int) -> int:
        return 7

    @property
    def records(self) -> dict[bytes, ReadRecord]:
        return {key: ReadRecord(n, 0, key, value, 0) for n, (key, value) in enumerate(self._now().items())}


class Flow:
    """A flow whose ledger has the fences of `drivers`; `slept` is for how long others were waited for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, drivers: Sequence[str], rival: str = "") -> None:
        self.ledger: dict[bytes, bytes] = {}
        self.slept = 0.0
        self._rival = rival
        for number, run_id in enumerate(drivers):
            self._note(LaneFence(run_id, 3, number))
        monkeypatch.setattr(at_least_once, "_write", self._write)
        monkeypatch.setattr(at_least_once.fence, "init_writer", lambda *_: Writer(None, 7, 0))
        monkeypatch.setattr(at_least_once.time, "sleep", self._sleep)

    def grant(self, run_id: str) -> Grant:
        nothing = Scripted(dict)
        logs = FenceLogs(*(cast(Any, it) for it in (Scripted(lambda: dict(self.ledger)), nothing, nothing)))
        return at_least_once.grant(cast(Any, None), "A->B", STATE, run_id=run_id, lanes=2, logs=logs)

    def _note(self, fence: LaneFence) -> None:
        self.ledger[fence.key()] = fence.value()

    def _write(self, target: object, records: Sequence[StateRecord]) -> None:
        for it in records:
            self.ledger[it.key] = it.value or b""
        if self._rival:
            self._note(LaneFence(self._rival, 1, 1))

    def _sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_another_drivers_lanes_have_a_moment_for_their_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they still write down is copied by nobody twice; one's own are waited for by whoever opened them."""
    flow = Flow(monkeypatch, ["other"])
    granted = flow.grant("mine")
    assert ("mine", 2, LAST_WORD_SECONDS) == (granted.mark.run_id, len(granted.lanes), flow.slept)
    flow.grant("mine")
    assert LAST_WORD_SECONDS == flow.slept


def test_a_first_driver_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody was ever called."""
    flow = Flow(monkeypatch, [])
    flow.grant("mine")
    assert 0 == flow.slept


def test_of_two_drivers_that_call_at_once_one_has_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The later one in the ledger; lanes of the other would hear it, and end."""
    with pytest.raises(FencedError, match="another twinlog runs the flow: rival"):
        Flow(monkeypatch, [], rival="rival").grant("mine")


def test_the_fence_of_a_map_in_contradiction_was_needed() -> None:
    """Two drivers' pieces as they are cannot be opened: that is what is mended."""
    pieces = [MapSegment(0, 150, (Extent(0, 0, 150),)), MapSegment(100, 200, (Extent(100, 150, 100),))]
    with pytest.raises(UnreadableMap):
        opened(stored(pieces))
