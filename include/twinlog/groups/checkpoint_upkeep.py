"""Delete the checkpoints of groups that ended long ago: what bounds `A.checkpoints.internal` (decision 14).

No tombstone says that a group is gone, since MM2's client fails on one.  But whatever is still true is written again
once in `refresh.groups.interval.seconds`, so everything true lies near the end of the log, and its old beginning can be
deleted as a whole, by offset.  What lies there and may still be needed (of a group that is hidden from this user, of a
topic that has vanished from the source) is written again at the end first, with the time it had.

    offset   0 ........ 40,000 ............ 52,000
             | ended, long ago  | young: ended or alive
             | hidden: carried  |                      | carried
             deleted            ^ before: the oldest of the young
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from twinlog.cluster.admin.group import GroupPartition
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import InternalRecord, TopicPartition
from twinlog.errors import TwinlogError
from twinlog.state.internal_topics import CUT_BY_OFFSET
from twinlog.state.mm2_topics import DatedCheckpoint

DAY_MS = 24 * 3600 * 1000

KEPT_MS = 30 * DAY_MS
"""For so long checkpoints stay after the group was seen last; Kafka forgets a group's own offsets after seven days."""

WORTH_IT = 1_000
"""Checkpoints from which on deleting pays for its requests."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Delete what lies before offset `before`: `ended` checkpoints; `carried` are written again at the end."""

    before: int
    ended: int
    carried: tuple[DatedCheckpoint, ...]


def plan_cut(
    checkpoints: Mapping[GroupPartition, DatedCheckpoint],
    ended: Collection[GroupPartition],
    renewed: Collection[GroupPartition],
    now_ms: int,
) -> Cut | None:
    """Say what to delete, None while it is not worth it.  Pure.

    `renewed` are keys that were written again since `checkpoints` were read.  Nothing is deleted where nobody has
    written a checkpoint for a day: then nobody has looked, and that a group is gone may mean that the source is
    another one.
    """
    newest = max((it.at_ms for it in checkpoints.values()), default=0)
    if newest < now_ms - DAY_MS:
        return None
    old, gone = now_ms - KEPT_MS, set(ended)
    before = min(it.offset for it in checkpoints.values() if it.at_ms > old)
    behind = {key: it for key, it in checkpoints.items() if it.offset < before and key not in renewed}
    carried = sorted((it for key, it in behind.items() if key not in gone), key=lambda it: it.offset)
    count = len(behind) - len(carried)
    return Cut(before, count, tuple(carried)) if count >= WORTH_IT else None


def apply_cut(target: Cluster, topic: str, cut: Cut) -> str:
    """Write what is carried, let the topic's records be deleted, delete; return why not, "" when it is done.

    Each part may be repeated: after a failure the next step plans anew.
    """
    place = TopicPartition(topic, 0)
    try:
        _let_delete(target, topic)
        records = [
            InternalRecord(it.checkpoint.key(), it.checkpoint.value(), 0, it.at_ms) for it in cut.carried
        ]
        if records:
            target.produce(topic, records)
        target.delete_records(place, cut.before)
    except TwinlogError as error:
        return f"{topic}: {cut.ended} checkpoints of groups that ended long ago stay: {error}"
    return ""


def _let_delete(target: Cluster, topic: str) -> None:
    """Set what a topic of MM2's, or of an older release, does not have.  That nothing expires is set first."""
    configs = target.topic_configs([topic]).require()[topic]
    wrong = {name: value for name, value in CUT_BY_OFFSET.items() if configs[name].value != value}
    for name in sorted(wrong, key=lambda it: it == "cleanup.policy"):
        target.alter_topic_configs({topic: {name: wrong[name]}}).require()
