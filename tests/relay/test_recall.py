"""What a lane at rest takes for a fence later than its own."""

import time
from threading import Event

import pytest
from batches import Rec, encode
from damage import TOPIC, DamagingBrokers, flipped

from twinlog.config.connection import ConnectionSettings
from twinlog.errors import FencedError
from twinlog.formats.ledger import FlowPhase, FlowState, LaneFence
from twinlog.relay import recall, rhythm
from twinlog.relay.recall import is_later_fence
from twinlog.relay.spec import FenceMark, Follow

MARK = FenceMark("run", 7, 0)
OWN, AGAIN, OTHER = LaneFence("run", 2, 7), LaneFence("run", 2, 8), LaneFence("another", 2, 7)
PAUSED = FlowState(FlowPhase.PAUSED, 9, "jo", "load")


@pytest.mark.parametrize(("record", "later"), [(OWN, False), (AGAIN, True), (OTHER, True), (PAUSED, False)])
def test_only_another_fence_calls_back(record, later: bool) -> None:
    """The same driver's next one, or another driver's."""
    assert later == is_later_fence(record.key(), record.value(), MARK)


@pytest.mark.parametrize(("key", "value"), [(None, b""), (OWN.key(), None), (b"x", b"y"), (OWN.key(), b"{")])
def test_what_is_no_record_calls_nobody_back(key, value) -> None:
    """Tombstones, strangers' bytes, records of a later version."""
    assert not is_later_fence(key, value, MARK)


def ledger(*records: LaneFence | FlowState) -> list[bytes]:
    """A ledger's batches, of one record each."""
    return [
        bytes(encode([Rec(it.value(), it.key())], base_offset=offset)) for offset, it in enumerate(records)
    ]


def heard(brokers: DamagingBrokers, monkeypatch: pytest.MonkeyPatch, within: float) -> bool:
    """Whether somebody who listens to the ledger is called back."""
    monkeypatch.setattr(recall, "Brokers", lambda _: brokers)
    with recall.Recall(ConnectionSettings("B", (("nowhere", 1),)), TOPIC, MARK) as listening:
        return listening.heard.wait(within)


def test_a_later_fence_is_heard_and_other_records_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the mark on."""
    assert not heard(DamagingBrokers(ledger(OWN, PAUSED)), monkeypatch, 0.2)
    assert heard(DamagingBrokers(ledger(OWN, PAUSED, OTHER)), monkeypatch, 30)


@pytest.mark.parametrize(
    "bit", [8 * 10, 8 * 11 + 4, 8 * 16 + 2, 8 * 20, 8 * 22 + 5, 8 * 25, 8 * 60, 8 * 62, 8 * 80, -1]
)
def test_damage_calls_back_as_a_later_fence_would(bit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been one: lengths, magic, checksum, the bit of a marker, counts, the record.  The driver looks."""
    brokers = DamagingBrokers(ledger(OWN, OTHER))
    brokers.served[1] = flipped(brokers.logs[TOPIC, 0][1], bit)
    assert heard(brokers, monkeypatch, 30)


class Copy:
    """A lane with one range and nothing to copy."""

    def __init__(self, *, troubled: bool = False, backlog: bool = False) -> None:
        self.troubled = troubled
        self.transaction = self
        self._answers = [[FetchedBlock()]] if backlog else []

    def positions(self):
        return {("t", 0): 0}

    def ask(self) -> None:
        pass

    def answers(self, within=None):
        time.sleep(0.005)
        return iter(self._answers)

    def take(self, answer, *, ahead: bool) -> int:
        return 0

    def commit(self) -> bool:
        return True

    def open_ahead(self) -> None:
        pass

    def age_ms(self) -> float:
        return 0.0


class FetchedBlock:
    """A megabyte: there is more where it came from."""

    block = bytes(1 << 20)


def followed(copy: Copy, *, seconds: float, longest: float, recalled: bool = False) -> float:
    """Follow, and return for how long."""
    heard = Event()
    if recalled:
        heard.set()
    began = time.monotonic()
    rhythm.follow(copy, Follow(seconds, longest), None, heard)
    return time.monotonic() - began


def test_a_lane_without_trouble_goes_on_to_the_longest() -> None:
    """Looks that find nothing do not end it."""
    assert followed(Copy(), seconds=0.05, longest=0.4) >= 0.4


def test_trouble_ends_it_at_the_look() -> None:
    """The driver tries the partition again."""
    assert 0.05 <= followed(Copy(troubled=True), seconds=0.05, longest=60) < 30


def test_a_backlog_does_not_end_it() -> None:
    """Whether dealing partitions anew would help, only the driver sees."""
    assert followed(Copy(backlog=True), seconds=0.05, longest=0.4) >= 0.4


def test_a_lane_that_is_called_back_says_that_it_was_fenced() -> None:
    """So the driver sees whether it was another one."""
    with pytest.raises(FencedError):
        followed(Copy(), seconds=60, longest=60, recalled=True)
