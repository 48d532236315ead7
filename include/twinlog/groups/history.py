"""Keep looks in the ledger: where all groups stood, at most once a minute, and the older the fewer.

Their number and their bytes are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from twinlog.cluster.api import Cluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.groups import GroupLook, Stand
from twinlog.groups.report import GroupPartitionRow
from twinlog.groups.view import GroupView
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import forget, write_ledger

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
KEPT = ((HOUR_MS, MINUTE_MS), (DAY_MS, HOUR_MS), (30 * DAY_MS, DAY_MS))
"""Up to which age one look is kept of each minute, hour and day; of older ones only the newest is."""

MOST_BYTES = 4 * 1024 * 1024
"""The most that all looks may hold, packed; beyond it, looks are left out that are close to their neighbours."""


def note(flow: FlowSettings, target: Cluster, seen: GroupView, rows: Iterable[GroupPartitionRow]) -> None:
    """Write where the groups stand if that has changed since the last look, and forget looks that make room."""
    looks = seen.ledger.group_looks
    if (
        not seen.ledger.copies
        or seen.held
        or (looks and looks[-1].at_ms // MINUTE_MS >= seen.at_ms // MINUTE_MS)
    ):
        return
    new = GroupLook.of(seen.at_ms, _stands(seen, rows), (it.group for it in seen.uncovered if it.refused))
    if not is_news(looks, new):
        return
    write_ledger(flow, target, [new])
    for it in superfluous([*looks, new], seen.at_ms):
        forget(flow, target, it)


def _stands(seen: GroupView, rows: Iterable[GroupPartitionRow]) -> Iterator[Stand]:
    for it in rows:
        route = seen.routes.get(TopicPartition(it.topic, it.partition))
        yield Stand(
            it.group,
            it.topic,
            it.partition,
            it.remote_topic,
            route.remote_id if route is not None else "",
            it.upstream_offset,
            it.downstream_offset,
            it.exact,
        )


def is_news(looks: Sequence[GroupLook], new: GroupLook) -> bool:
    """Say whether a look tells of anything that the last one did not.  Pure."""
    if not looks:
        return any(new.stands)
    return (new.positions, new.unseen) != (looks[-1].positions, looks[-1].unseen)


def superfluous(looks: Sequence[GroupLook], now_ms: int) -> tuple[GroupLook, ...]:
    """Return the looks, of all from the oldest on, that are not kept; the newest always is.  Pure."""
    kept = _of_their_age(looks, now_ms)
    while len(kept) > 1 and sum(map(_bytes, kept)) > MOST_BYTES:
        kept.remove(min(kept[:-1], key=lambda it: _distance(kept, it, now_ms)))
    return tuple(it for it in looks if it not in kept)


def _of_their_age(looks: Sequence[GroupLook], now_ms: int) -> list[GroupLook]:
    """Keep the first look of each stretch, so that a look that is kept stays so until its stretch grows."""
    kept: dict[tuple[int, int], GroupLook] = {}
    oldest: GroupLook | None = None
    for it in looks:
        step = next((step for age, step in KEPT if now_ms - it.at_ms <= age), None)
        if step is None:
            oldest = it
        else:
            kept.setdefault((step, it.at_ms // step), it)
    found = [it for it in (oldest, *kept.values()) if it is not None]
    return found if not looks or looks[-1] in found else [*found, looks[-1]]


def _distance(kept: Sequence[GroupLook], it: GroupLook, now_ms: int) -> float:
    """Return how much would be lost with a look: the time between its neighbours, in proportion to its age.

    The oldest goes last: the history would begin later.
    """
    place = kept.index(it)
    if not place:
        return math.inf
    return (kept[place + 1].at_ms - kept[place - 1].at_ms) / max(1, now_ms - it.at_ms)


def _bytes(it: GroupLook) -> int:
    return len(it.positions) + sum(len(name.encode()) + 3 for name in it.unseen)
