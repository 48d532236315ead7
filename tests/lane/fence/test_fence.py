"""What a fence takes from the ledger it reads."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import FakeTarget
from fence_model import FENCE, GATE_COMMIT, GATE_WRITE, INIT_0, INIT_1, READ_0, READ_1, START

from twinlog.errors import ClusterUnreachable, TransientError, TwinlogError
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
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code


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

    monkeypatch.setattr(
        fence,
        "init_writers",
        lambda target, names, timeout_ms: [init(target, it, timeout_ms) for it in names],
    )
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


class _Coordinator:
    """Answers InitProducerId by the lane: a lane's code once, or no answer once."""

    def __init__(self, codes: dict[str, int], *, lost: bool = False) -> None:
        self.codes, self.lost = codes, lost
        self.asked: list[list[str]] = []

    def call_each(self, _: object, requests: list[dict[str, Any]]) -> list[SimpleNamespace]:
        names = [it["transactional_id"] for it in requests]
        self.asked.append(names)
        if self.lost:
            self.lost = False
            raise ClusterUnreachable("gone")
        return [
            SimpleNamespace(error_code=self.codes.pop(it, 0), producer_id=int(it[-1]), producer_epoch=3)
            for it in names
        ]


class _Coordinated:
    """A target where a lane's coordinator is told by its name."""

    def __init__(self, by_lane: dict[str, _Coordinator]) -> None:
        self.by_lane = by_lane
        self.settings = SimpleNamespace(alias="B")

    def coordinators(self, names: list[str]) -> dict[str, _Coordinator]:
        return {it: self.by_lane[it] for it in names}

    def forget_coordinators(self) -> None:
        """Nothing to forget."""


class TestManyLanes:
    """All lanes of a coordinator are asked for at once; what was not granted is asked for again."""

    @pytest.mark.parametrize("trouble", ["none", "busy", "lost"])
    def test_each_lane_is_initialised_and_in_its_place(self, trouble: str) -> None:
        """Whatever became of the questions; one that was granted is not asked for again."""
        names = [f"twinlog-f-{number}" for number in range(1, 7)]
        busy = {names[2]: int(Code.CONCURRENT_TRANSACTIONS)} if trouble == "busy" else {}
        first, second = _Coordinator(busy, lost=trouble == "lost"), _Coordinator({})
        odd, even = names[::2], names[1::2]
        by_lane = dict.fromkeys(odd, first) | dict.fromkeys(even, second)
        found = fence.init_writers(cast(Brokers, _Coordinated(by_lane)), names, 60_000)
        assert [Writer(name, int(name[-1]), 3) for name in names] == found
        again: list[list[str]] = {"none": [], "busy": [[names[2]]], "lost": [odd]}[trouble]
        assert ([odd, *again], [even]) == (first.asked, second.asked)

    def test_a_refusal_is_raised(self) -> None:
        """Of one lane among many."""
        names = ["twinlog-f-1", "twinlog-f-2"]
        coordinator = _Coordinator({names[1]: int(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)})
        with pytest.raises(TwinlogError, match="twinlog-f-2"):
            fence.init_writers(cast(Brokers, _Coordinated(dict.fromkeys(names, coordinator))), names, 60_000)
