"""What a driver finds behind its fence counts only while the fence is the last one."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mend import copies
from twinlog.copying.mend.tails import LOST_PROGRESS
from twinlog.copying.ownership import Ownership
from twinlog.copying.ranges import ResolvedRanges, StoppedPartition
from twinlog.copying.resolve import resolve_now, without_lost_markers
from twinlog.errors import FencedError
from twinlog.formats.ledger.records import LaneFence
from twinlog.lane.fence.fence import Grant
from twinlog.lane.spec import FenceMark, RangeSpec, StateTopics
from twinlog.lifecycle import sync_topics
from twinlog.logs.log_state import LogState
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.topics.snapshot import FlowSnapshot

RANGES = ResolvedRanges((RangeSpec("t", "id", "A.t", 0, 3, 9),), ())
STOPPED = ResolvedRanges((), (StoppedPartition("t", 0, LOST_PROGRESS, "it lies behind"),))
GRANT = Grant("ours", (), {}, FenceMark("ours", 5, 0))


def owned(flow: FlowSettings, last: LaneFence) -> Ownership:
    """A driver that was granted the flow, with a ledger whose last fence is this one."""
    ledger = SimpleNamespace(read=lambda _: LogState({last.key(): last.value()}, {}))
    state = StateTopics("offsets", 1, "map", 1, "ledger", "MirrorSourceConnector", "A")
    logs: Any = SimpleNamespace(ledger=ledger)
    found = Ownership(flow, state, "ours", 1, logs)
    found.grant = GRANT
    return found


def left(
    monkeypatch: pytest.MonkeyPatch, found: ResolvedRanges, flow: FlowSettings, last: LaneFence
) -> ResolvedRanges:
    """What is left to copy when `found` was found."""
    monkeypatch.setattr(copies, "without_lost_markers", lambda *_: found)
    clusters: Any = None
    return without_lost_markers(owned(flow, last), clusters, RANGES, ())


@pytest.mark.parametrize("last", [LaneFence("rival", 1, 9), LaneFence("ours", 1, 9)])
def test_a_loss_seen_behind_an_old_fence_is_another_driver_at_work(
    monkeypatch: pytest.MonkeyPatch, flow: FlowSettings, last: LaneFence
) -> None:
    """What it copied since looks like progress that was lost."""
    with pytest.raises(FencedError, match="another twinlog took over"):
        left(monkeypatch, STOPPED, flow, last)


def test_a_loss_seen_behind_the_last_fence_is_one(
    monkeypatch: pytest.MonkeyPatch, flow: FlowSettings
) -> None:
    """Nobody else can have written."""
    assert STOPPED == left(monkeypatch, STOPPED, flow, LaneFence("ours", 1, 5))


def test_without_a_loss_nobody_has_to_ask(monkeypatch: pytest.MonkeyPatch, flow: FlowSettings) -> None:
    """The lanes hear of another fence soon enough."""
    assert RANGES == left(monkeypatch, RANGES, flow, LaneFence("rival", 1, 9))


def test_a_copy_begins_where_the_ledger_of_now_says(flow, clusters, target, orders):
    """A rebuild has moved the beginning since the topics were found: by the old one, records would be left out."""
    sync_topics.run(flow, clusters)
    noted = read_ledger(flow, target).beginnings["orders"]
    write_ledger(flow, target, [replace(noted, offsets={"0": 4})])
    found = FlowSnapshot(flow, clusters).discovery.topics
    write_ledger(flow, target, [replace(noted, offsets={"0": 1})])
    behind_fence: Any = SimpleNamespace(flow=flow, progress={})
    resolved = resolve_now(behind_fence, clusters, found, {}, {})
    assert ([4], [1]) == ([it.begins for it in found[0].partitions], [it.start for it in resolved.ranges])
