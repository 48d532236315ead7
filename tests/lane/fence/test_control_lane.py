"""What a driver writes outside of a copy: all of it, or nothing and why."""

import pytest
from fakes import FakeTarget

from twinlog.errors import TerminalError, TransientError
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence.fence import GrantedLane, write_fenced
from twinlog.lane.transaction import Writer
from twinlog.protocol.errors import Code

PLACE = ("ledger", 0)
RECORD = StateRecord(*PLACE, b"key", b"value")


def written(target: FakeTarget) -> int:
    """Write a record as the holder of the fence; return how many can be seen then."""
    write_fenced(target, GrantedLane(0, Writer("lane", *target.init())), [RECORD])  # type: ignore[arg-type]
    return len(target.committed(PLACE))


def test_it_is_there_when_the_write_returns() -> None:
    """And readers see it."""
    assert 1 == written(FakeTarget(["ledger"]))


def test_a_leader_that_moves_is_no_refusal() -> None:
    """Airflow tries again, and nothing was written."""
    target = FakeTarget(["ledger"])
    target.faults["produce"] = [Code.NOT_LEADER_OR_FOLLOWER]
    with pytest.raises(TransientError) as moved:
        written(target)
    assert ("unsettled", []) == (moved.value.code, target.committed(PLACE))


def test_a_record_that_the_target_refuses_is_for_a_person() -> None:
    """Nothing was written."""
    target = FakeTarget(["ledger"])
    target.refuse[PLACE] = lambda records: [0]
    with pytest.raises(TerminalError) as refused:
        written(target)
    assert ("state-refused", []) == (refused.value.code, target.committed(PLACE))
