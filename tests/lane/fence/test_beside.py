"""Those who write a flow's state beside its lanes, and the driver of a fence, keep each other out."""

from types import SimpleNamespace

import pytest
from fakes import FakeTarget

from twinlog.errors import TransientError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.topics import LeaderEpoch
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence import beside
from twinlog.lane.fence.beside import Alone, take_turn
from twinlog.lane.fence.fence import GrantedLane, write_fenced
from twinlog.lane.transaction import Writer

PLACE = ("ledger", 0)
RECORD = StateRecord(*PLACE, b"key", b"value")
STATE = FlowState(FlowPhase.PROMOTED, 1, "jo", "disaster").key()
OF_A_COPY = LeaderEpoch("orders", "id", 0, 1, 2).key()


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> FakeTarget:
    """Turns are taken on a target of their own."""
    target = FakeTarget(["ledger"])
    monkeypatch.setattr(beside, "init_writer", lambda _, name, timeout_ms: Writer(name, *target.init()))
    return target


class Log:
    """A ledger whose readings find these keys open, one reading after the other; the last one for good."""

    def __init__(self, *readings: set[bytes]) -> None:
        self.left = list(readings)

    def read(self, _: object) -> SimpleNamespace:
        return SimpleNamespace(undecided=self.left.pop(0) if len(self.left) > 1 else self.left[0])


class TestAlone:
    def write(self, turns: FakeTarget, *, between: bool) -> list[object]:
        """Write behind a fence, with a turn of somebody else since the ledger was read; return what is committed."""
        target, alone = FakeTarget(["ledger"]), Alone.taken(turns, "A->B", 1)  # type: ignore[arg-type]
        if between:
            turns.init()
        lane = GrantedLane(0, Writer("lane", *target.init()))
        try:
            write_fenced(target, lane, [RECORD], alone.require)  # type: ignore[arg-type]
        except TransientError as error:
            assert "overtaken" == error.code
        return target.committed(PLACE)

    def test_nobody_came_between(self, turns: FakeTarget) -> None:
        """The records are committed."""
        assert 1 == len(self.write(turns, between=False))

    def test_somebody_came_between(self, turns: FakeTarget) -> None:
        """The records were in the log, and are aborted."""
        assert [] == self.write(turns, between=True)


class TestTurn:
    def test_waits_for_a_fence_that_commits(self, turns: FakeTarget) -> None:
        """What lanes write as they copy is nobody's reason to wait."""
        log = Log({STATE, OF_A_COPY}, {STATE}, {OF_A_COPY})
        take_turn(turns, "A->B", 60_000, log)  # type: ignore[arg-type]
        assert [{OF_A_COPY}] == log.left

    def test_a_transaction_that_has_lost_its_end_is_waited_for_no_longer_than_it_can_be_open(
        self, turns: FakeTarget, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A pause is possible all the same."""
        monkeypatch.setattr(beside, "ENDED_SECONDS", 0.0)
        assert 0 == take_turn(turns, "A->B", 50, Log({STATE})).producer_epoch  # type: ignore[arg-type]
