"""A copy whose end is not where progress says."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mend import tails
from twinlog.lane.fence.fence import Grant
from twinlog.lane.spec import FenceMark, RangeSpec

RANGE = RangeSpec("t", "id", "A.t", 0, 3, 9, 100, copy_end=10)
GRANT = Grant("ours", (), {RANGE.topic_partition: 2}, FenceMark("ours", 5, 0))


class Target:
    """A target whose copy ends at `end`, whoever leads it."""

    def __init__(self, end: int) -> None:
        self.end, self.asked = end, 0

    def forget_leaders(self) -> None:
        pass

    def offsets(self, partitions: list[Any], _kind: int) -> dict[Any, int]:
        self.asked += 1
        return dict.fromkeys(partitions, self.end)


@pytest.mark.parametrize(
    ("end", "code"),
    [(9, tails.LOST_TAIL), (10, None), (11, None), (12, tails.LOST_PROGRESS)],
    ids=["shorter", "as progress says", "behind its commit marker", "longer"],
)
def test_the_end_of_a_copy_is_compared_with_progress(
    monkeypatch: pytest.MonkeyPatch, flow: FlowSettings, end: int, code: str | None
) -> None:
    """A record fewer was lost by the copy; records of ours behind the marker were lost by progress."""
    monkeypatch.setattr(tails, "_LEADER_SECONDS", 0.0)
    monkeypatch.setattr(tails, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(tails, "first_committed_after", lambda _target, known, *_: dict(known))
    clusters: Any = None
    target: Any = Target(end)
    found = tails.lost_tails(flow, clusters, target, [RANGE], {RANGE.remote: end}, GRANT)
    assert ([code] if code else []) == [it.code for it in found]
    assert (code == tails.LOST_TAIL) == target.asked  # once more: a deposed leader knows less
