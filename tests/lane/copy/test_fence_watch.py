"""What a lane at rest takes for a fence later than its own."""

import time
from threading import Event, Timer

import pytest
from damage import TOPIC, DamagingBrokers, flipped

from batches import Rec, encode
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import FencedError
from twinlog.formats.ledger.records import FlowPhase, FlowState, LaneFence
from twinlog.lane.copy import fence_watch, loops
from twinlog.lane.copy.fence_watch import is_later_fence
from twinlog.lane.copy.loops import Throttle
from twinlog.lane.spec import FenceMark, Follow
from twinlog.protocol.errors import Code
from twinlog.protocol.fetcher import Fetcher
from twinlog.protocol.wire import Fetched

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


def heard(
    brokers: DamagingBrokers, monkeypatch: pytest.MonkeyPatch, within: float, mark: FenceMark = MARK
) -> bool:
    """Whether somebody who listens to the ledger is called back."""
    monkeypatch.setattr(fence_watch, "Brokers", lambda _: brokers)
    with fence_watch.FenceWatch(ConnectionSettings("B", (("nowhere", 1),)), TOPIC, mark) as listening:
        return listening.heard.wait(within)


def test_a_later_fence_is_heard_and_other_records_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that follow the mark."""
    assert not heard(DamagingBrokers(ledger(OWN, PAUSED)), monkeypatch, 0.2)
    assert heard(DamagingBrokers(ledger(OWN, PAUSED, OTHER)), monkeypatch, 30)


def test_a_fence_in_front_of_the_mark_is_not_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger holds those of every driver there was."""
    mark = FenceMark("run", 7, 1)
    assert not heard(DamagingBrokers(ledger(OTHER, OWN)), monkeypatch, 0.2, mark)
    assert heard(DamagingBrokers(ledger(OTHER, OWN, AGAIN)), monkeypatch, 30, mark)


@pytest.mark.parametrize(
    "bit", [8 * 10, 8 * 11 + 4, 8 * 16 + 2, 8 * 20, 8 * 22 + 5, 8 * 25, 8 * 60, 8 * 62, 8 * 80, -1]
)
def test_damage_calls_back_as_a_later_fence_would(bit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been one: lengths, magic, checksum, the bit of a marker, counts, the record.  The driver looks."""
    brokers = DamagingBrokers(ledger(OWN, OTHER))
    brokers.served[1] = flipped(brokers.logs[TOPIC, 0][1], bit)
    assert heard(brokers, monkeypatch, 30)


def test_a_ledger_that_lost_its_end_calls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later fence may be what is lost, and the next one would lie in front of where this lane reads."""
    monkeypatch.setattr(Fetcher, "request", lambda *_: {})
    answer = Fetched(TOPIC, 0, Code.OFFSET_OUT_OF_RANGE, -1, -1, [], memoryview(b""))
    monkeypatch.setattr(Fetcher, "answers", lambda _: iter([[answer]]))
    assert heard(DamagingBrokers(ledger(OWN)), monkeypatch, 30)


def at_epoch(batch: bytes, epoch: int) -> bytes:
    """A batch that the leader of an epoch has taken."""
    return batch[:12] + epoch.to_bytes(4, "big") + batch[16:]


@pytest.mark.parametrize("lost", [True, False])
def test_a_ledger_that_lost_its_end_and_grew_again(lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fence lies where this lane has read something else; without one, a new leader calls nobody back."""
    brokers = DamagingBrokers([at_epoch(it, 3) for it in ledger(OWN, PAUSED)])
    monkeypatch.setattr(fence_watch, "Brokers", lambda _: brokers)
    with fence_watch.FenceWatch(ConnectionSettings("B", (("nowhere", 1),)), TOPIC, MARK) as listening:
        assert not listening.heard.wait(0.2)
        first, second, third = ledger(OWN, OTHER if lost else PAUSED, PAUSED)
        later = [at_epoch(first, 3), *(at_epoch(it, 4) for it in (second, third))]
        brokers.logs[TOPIC, 0] = later  # type: ignore[index]
        assert lost == listening.heard.wait(10 if lost else 0.5)


class Copy:
    """A lane with one range and nothing to copy."""

    def __init__(
        self, *, has_errors: bool = False, backlog: bool = False, age_ms: float = 0.0, size: int = 0
    ) -> None:
        self.has_errors = has_errors
        self.is_behind = backlog
        self.is_far = False
        self.transaction = self
        self.commits = 0
        self.waits: list[float] = []
        self._age_ms = age_ms
        self._size = size
        self._answers = [[FetchedBlock()]] if backlog else []

    def positions(self):
        return {("t", 0): 0}

    def ask(self) -> None:
        pass

    def answers(self, within=None):
        self.waits.append(within)
        time.sleep(0.005)
        return iter(self._answers)

    def take(self, answer, *, ahead: bool) -> int:
        return self._size

    def commit(self) -> bool:
        self.commits += 1
        return True

    def commit_if_due(self) -> None:
        pass

    def open_ahead(self) -> None:
        pass

    def age_ms(self) -> float:
        return self._age_ms


class FetchedBlock:
    """A megabyte: there is more where it came from."""

    block = bytes(1 << 20)


def followed(
    copy: Copy,
    *,
    seconds: float,
    longest: float,
    recalled: bool = False,
    throttle: Throttle | None = None,
) -> float:
    """Follow, and return for how long."""
    heard = Event()
    if recalled:
        heard.set()
    began = time.monotonic()
    loops.follow(copy, Follow(seconds, longest, MARK), throttle, heard)
    return time.monotonic() - began


def test_a_lane_without_trouble_goes_on_to_the_longest() -> None:
    """Looks that find nothing do not end it."""
    assert followed(Copy(), seconds=0.05, longest=0.4) >= 0.4


def test_trouble_ends_it_at_the_look() -> None:
    """The driver tries the partition again."""
    assert 0.05 <= followed(Copy(has_errors=True), seconds=0.05, longest=60) < 30


def test_a_backlog_does_not_end_it() -> None:
    """Whether dealing partitions anew would help, only the driver sees."""
    assert followed(Copy(backlog=True), seconds=0.05, longest=0.4) >= 0.4


@pytest.mark.parametrize(
    ("backlog", "age_ms", "each_time"),
    [(False, 0, True), (True, 359, False), (True, 360, True)],
)
def test_commits_keep_the_pace(backlog: bool, age_ms: float, each_time: bool) -> None:
    """Each beat where nobody sees a record before; and in any case once at the end."""
    copy = Copy(backlog=backlog, age_ms=age_ms)
    followed(copy, seconds=60, longest=0.3)
    assert each_time == (copy.commits > 1)
    assert 1 <= copy.commits


def test_the_end_of_a_backlog_is_committed_at_once() -> None:
    """Nothing more waits, so neither do those who read the copy."""
    copy = Copy(backlog=True)
    copy.is_behind = False
    followed(copy, seconds=60, longest=0.3)
    assert copy.commits > 1


@pytest.mark.parametrize(("far", "size"), [(False, 1), (True, 1), (False, 1 << 20)])
def test_a_far_source_is_asked_before_its_answer_is_sent_on(far: bool, size: int) -> None:
    """Else a record also waits until the last answer is committed.  Near by, that would be one fetch a record."""
    copy, asked = Copy(backlog=True), set[bool]()
    copy.is_far = far
    copy._answers[0][0].block = bytes(size)
    copy.take = lambda answer, *, ahead: asked.add(ahead) or size  # type: ignore[method-assign]
    followed(copy, seconds=60, longest=0.1)
    assert {far or size > 1} == asked


def called_back_after(seconds: float, copy: Copy, throttle: Throttle | None = None) -> None:
    """Follow until somebody else has the flow."""
    heard = Event()
    Timer(seconds, heard.set).start()
    with pytest.raises(FencedError):
        loops.follow(copy, Follow(60, 60, MARK), throttle, heard)


@pytest.mark.parametrize(("age_ms", "wait"), [(100, 0.26), (0, loops.IDLE_WAIT_SECONDS)])
def test_what_is_open_waits_for_nothing_new_longer_than_its_pace(age_ms: float, wait: float) -> None:
    """A burst, and then silence: progress is not written with the next record, whenever that comes."""
    copy = Copy(backlog=True, age_ms=age_ms)
    called_back_after(0.5, copy)
    assert wait == round(copy.waits[-1], 3)


@pytest.mark.parametrize(("age_ms", "at_once"), [(359, False), (360, True)])
def test_what_is_open_does_not_wait_for_the_throttle(age_ms: float, at_once: bool) -> None:
    """What was sent before is written down as far as its pace says, while nothing more may be sent."""
    copy, throttle = overdrawn(age_ms)
    called_back_after(0.5, copy, throttle)
    assert at_once == (copy.commits > 2)


def test_a_lane_that_is_called_back_says_that_it_was_fenced() -> None:
    """So the driver sees whether it was another one."""
    with pytest.raises(FencedError):
        followed(Copy(), seconds=60, longest=60, recalled=True)


def overdrawn(age_ms: float = 0.0) -> tuple[Copy, Throttle]:
    """A lane that has sent what takes the throttle an hour."""
    return Copy(backlog=True, size=3_600, age_ms=age_ms), Throttle(1.0, time.monotonic())


def test_a_throttle_keeps_no_lane_from_its_end() -> None:
    """Nor from its look, when it is in trouble."""
    copy, throttle = overdrawn()
    assert 0.2 <= followed(copy, seconds=60, longest=0.2, throttle=throttle) < 30
    copy, throttle = overdrawn()
    copy.has_errors = True
    assert 0.2 <= followed(copy, seconds=0.2, longest=60, throttle=throttle) < 30


def test_a_lane_that_waits_for_the_throttle_hears_that_it_is_called_back() -> None:
    """Otherwise it would be killed, and the lanes of every other flow with it."""
    copy, throttle = overdrawn()
    began = time.monotonic()
    called_back_after(0.2, copy, throttle)
    assert time.monotonic() - began < 30


def test_a_lane_that_is_called_back_takes_nothing_more() -> None:
    """What arrives while it hears that would be copied by both, and mapped behind what the other has read."""
    copy, heard = Copy(backlog=True), Event()
    answers = copy.answers

    def answers_late(within=None):
        heard.set()
        return answers(within)

    copy.answers = answers_late  # type: ignore[method-assign]
    copy.take = lambda answer, *, ahead: pytest.fail("taken")  # type: ignore[method-assign]
    with pytest.raises(FencedError):
        loops.follow(copy, Follow(60, 60, MARK), None, heard)


def test_a_look_forgives_a_lane_nothing_of_the_throttle() -> None:
    """What goes on waits on: it sends nothing more until its debt is paid."""
    copy, throttle = overdrawn()
    takes: list[float] = []
    copy.take = lambda answer, *, ahead: takes.append(time.monotonic()) or 3_600  # type: ignore[method-assign]
    followed(copy, seconds=0.1, longest=0.5, throttle=throttle)
    assert 1 == len(takes)
