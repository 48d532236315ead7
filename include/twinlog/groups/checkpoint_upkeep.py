"""Delete the checkpoints of groups that ended long ago; this bounds `A.checkpoints.internal` (decision 14).

No tombstone says that a group is gone, since MM2's client fails on one. But every checkpoint that is still true is
written again once in `refresh.groups.interval.seconds`. So all true checkpoints lie near the end of the log, and its
old beginning can be deleted as a whole, by offset. Some old checkpoints may still be needed: of a group that is hidden
from this user, or of a topic that has vanished from the source. These are first written again at the end, with their
original time.

    offset   0 ........ 40,000 ............ 52,000
             | ended, long ago  | young: ended or alive
             | hidden: carried  |                      | carried
             deleted            ^ before: the oldest of the young
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from twinlog.cluster.admin.groups import GroupPartition
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import InternalRecord
from twinlog.errors import ClusterRefused, TwinlogError
from twinlog.kafka_types import TopicPartition
from twinlog.state.internal_topics import CUT_BY_OFFSET
from twinlog.state.mm2_topics import DatedCheckpoint

DAY_MS = 24 * 3600 * 1000

KEPT_MS = 30 * DAY_MS
"""How long checkpoints stay after the group was last seen; Kafka forgets a group's own offsets after seven days."""

TAKES_EFFECT_S = 10.0
"""Seconds in which a broker that answered to a change of configs may still work by the old ones."""

WORTH_IT = 1_000
"""Number of ended checkpoints from which on a deletion is worth its requests."""


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
    """Plan what to delete, None while it is not worth it. Pure.

    `renewed` are keys that were written again since `checkpoints` were read. If no checkpoint was written for a day,
    nothing is deleted. The groups were then not looked at, and a missing group may mean that the source is another
    cluster.
    """
    newest = max((checkpoint.at_ms for checkpoint in checkpoints.values()), default=0)
    if newest < now_ms - DAY_MS:
        return None
    old, gone = now_ms - KEPT_MS, set(ended)
    before = min(checkpoint.offset for checkpoint in checkpoints.values() if checkpoint.at_ms > old)
    behind = {key: it for key, it in checkpoints.items() if it.offset < before and key not in renewed}
    carried = sorted((it for key, it in behind.items() if key not in gone), key=lambda it: it.offset)
    count = len(behind) - len(carried)
    return Cut(before, count, tuple(carried)) if count >= WORTH_IT else None


def apply_cut(target: Cluster, topic: str, cut: Cut) -> str:
    """Write the carried checkpoints again, allow deletion in the topic, and delete; return why not, "" if done.

    Each part may be repeated: after a failure the next step plans anew.
    """
    place = TopicPartition(topic, 0)
    try:
        changed = _let_delete(target, topic)
        records = [
            InternalRecord(checkpoint.checkpoint.key(), checkpoint.checkpoint.value(), 0, checkpoint.at_ms)
            for checkpoint in cut.carried
        ]
        if records:
            target.produce(topic, records)
        _delete(target, place, cut.before, patience_s=TAKES_EFFECT_S if changed else 0.0)
    except TwinlogError as error:
        return f"{topic}: {cut.ended} checkpoints of groups that ended long ago stay: {error}"
    return ""


def _delete(target: Cluster, place: TopicPartition, before: int, patience_s: float) -> None:
    """Delete what lies before an offset; for `patience_s` a refusal may come of configs that are not in effect yet."""
    Retrying(
        retry=retry_if_exception_type(ClusterRefused),
        stop=stop_after_delay(patience_s),
        wait=wait_fixed(0.2),
        reraise=True,
    )(target.delete_records, place, before)


def _let_delete(target: Cluster, topic: str) -> bool:
    """Set the configs for deletion by offset that a topic of MM2's, or of an older release, lacks; say if any did.

    The settings by which nothing expires are set first, and `cleanup.policy` last.
    """
    configs = target.topic_configs([topic]).require()[topic]
    wrong = {name: value for name, value in CUT_BY_OFFSET.items() if configs[name].value != value}
    for name in sorted(wrong, key=lambda it: it == "cleanup.policy"):
        target.alter_topic_configs({topic: {name: wrong[name]}}).require()
    return bool(wrong)
