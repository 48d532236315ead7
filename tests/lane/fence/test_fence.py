"""What a fence takes from the ledger it reads."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from fakes import FakeTarget
from fence_model import FENCE, GATE_COMMIT, GATE_WRITE, INIT_0, INIT_1, READ_0, READ_1, START

from twinlog.errors import TransientError
from twinlog.formats.ledger.entry import LedgerEntry
from twinlog.formats.ledger.records import LaneFence, LaneWriter
from twinlog.formats.mm2.connect_offset import copy_end_header, offset_value, source_offset_key
from twinlog.lane.fence import fence
from twinlog.lane.fence.fence import Grant, copy_ends, lanes_ever, last_fence
from twinlog.lane.producer import Lane
from twinlog.lane.spec import FenceMark, StateTopics
from twinlog.lane.transaction import Writer
from twinlog.logs.log_reader import StateLog
from twinlog.logs.log_state import LogState, UndecidedRecord


def ledger(committed: int | None, undecided: int | None) -> LogState:
    """A ledger with a fence of so many lanes, and one whose transaction has no end."""
    first, second = LaneFence("r1", committed or 0, 1), LaneFence("r2", undecided or 0, 2)
    writer = LaneWriter(7, "twinlog-f-0", 1)
    return LogState(
        {writer.key(): writer.value()} | ({first.key(): first.value()} if committed else {}),
        {},
        {second.key(): UndecidedRecord(7, second.value(), 0)} if undecided else {},
    )


@pytest.mark.parametrize(
    ("committed", "undecided", "most"), [(None, None, 1), (4, None, 4), (None, 4, 4), (2, 4, 4), (4, 2, 4)]
)
def test_lanes_of_a_fence_whose_end_was_lost_are_fenced_too(
    committed: int | None, undecided: int | None, most: int
) -> None:
    """Its driver heard that it had committed, and its lanes write."""
    assert most == max(lanes_ever(ledger(committed, undecided)))


def test_the_holder_is_who_committed_last() -> None:
    """A fence without an end may be that of a driver that never heard of it."""
    assert last_fence(ledger(None, 4)) is None
    assert LaneFence("r1", 2, 1) == last_fence(ledger(2, 4))


@pytest.mark.parametrize(("failures", "passes"), [(0, 1), (2, 3)])
def test_a_fence_that_nobody_can_see_is_fenced_again(
    monkeypatch: pytest.MonkeyPatch, failures: int, passes: int
) -> None:
    """With a new epoch, in which no earlier end is at large; and what it grants is what counts."""
    grant = Grant("r", (), {}, FenceMark("r", 0, 0))
    answers = [*[None] * failures, grant]
    asked: list[str] = []

    def fenced(target: object, flow: str, *_: object) -> Grant | None:
        asked.append(flow)
        return answers.pop(0)

    monkeypatch.setattr(fence, "_fenced", fenced)
    assert grant == one_fence()
    assert ["f"] * passes == asked


def test_a_fence_that_is_never_seen_is_no_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever copies the other way would take our lanes for strangers."""
    monkeypatch.setattr(fence, "_fenced", lambda *_: None)
    with pytest.raises(TransientError, match="did not reach the ledger in 3 tries"):
        one_fence()


STATE = StateTopics("offsets", 1, "map", 1, "ledger", "MirrorSourceConnector", "A")


def test_copy_ends_are_those_of_our_own_progress() -> None:
    """Of another connector's, or another source's, nothing is known; nor where MirrorMaker wrote it."""
    ours = {n: source_offset_key("MirrorSourceConnector", "A", n, "t") for n in (0, 1)}
    theirs = source_offset_key("MirrorSourceConnector", "C", 2, "t")
    known = dict.fromkeys([*ours.values(), theirs], offset_value(4))
    log = LogState(known, {}, headers={ours[0]: copy_end_header(7), theirs: copy_end_header(8)})
    assert {("t", 0): 7} == copy_ends(log, STATE)


READ_LEDGER = "read ledger"


def stepped(monkeypatch: pytest.MonkeyPatch, unanswered: int = 0) -> tuple[list[str], Grant]:
    """The steps of a fence, and its grant; the first `unanswered` of its ends get their answer at a second try."""
    did: list[str] = []
    ledger: dict[bytes, bytes] = {}

    def init(target: object, name: str, timeout_ms: int) -> Writer:
        did.append(f"init {name[-1]}")
        return Writer(name, 7 + int(name[-1]), 0)

    def read(log: StateLog, target: object) -> LogState:
        did.extend([READ_0, READ_1] if log._topic == STATE.offsets_topic else [READ_LEDGER])
        return LogState(dict(ledger), {})

    def gate(lane: Lane, state: object, records: Iterable[LedgerEntry], flow: str) -> None:
        did.extend([GATE_WRITE, GATE_COMMIT])
        lane.transaction.unacknowledged_end = did.count(GATE_COMMIT) <= unanswered
        ledger.update({it.key(): it.value() for it in records})

    monkeypatch.setattr(fence, "init_writer", init)
    monkeypatch.setattr(fence, "_commit_through_control_lane", gate)
    monkeypatch.setattr(StateLog, "read", read)
    monkeypatch.setattr(StateLog, "position", lambda *_: 0)
    target = FakeTarget(["offsets", "map", "ledger"])
    granted = fence.fence(target, "f", STATE, run_id="r", lanes=2, transaction_timeout_ms=1000)  # type: ignore[arg-type]
    return did, granted


def test_a_fence_goes_step_by_step_as_its_model_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is walked through completely (fence_model.py) is what is done; the ledger tells how many lanes there are."""
    did, granted = stepped(monkeypatch)
    assert [INIT_0, READ_LEDGER, INIT_1, GATE_WRITE, GATE_COMMIT, READ_0, READ_1, READ_LEDGER] == did
    assert FENCE == (*(it for it in did if it != READ_LEDGER), START)
    assert [0, 1] == [it.lane for it in granted.lanes]


def test_behind_an_end_that_was_not_answered_at_once_is_fenced_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker may apply the first one late, to the next transaction of this epoch."""
    did, _ = stepped(monkeypatch, unanswered=1)
    assert 2 == did.count(INIT_0)


def one_fence() -> Grant:
    """Fence flow f."""
    return fence.fence(None, "f", STATE, run_id="r", lanes=1, transaction_timeout_ms=1000)  # type: ignore[arg-type]
