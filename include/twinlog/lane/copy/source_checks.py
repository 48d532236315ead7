"""Ask the source more, if an answer leaves the state of a range open (source checks)."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.errors import TwinlogError
from twinlog.lane.copy import range_errors
from twinlog.lane.copy.range_errors import SOURCE_LOST, RangeError
from twinlog.lane.copy.range_state import RangeCopy
from twinlog.protocol.brokers import EARLIEST, Brokers
from twinlog.protocol.errors import Code
from twinlog.protocol.leader_epochs import ReadUpTo, diverged_at, epoch_ends

_SOURCE_LOST = frozenset({SOURCE_LOST, "stalled"})


def other_history(source: Brokers, copy: RangeCopy) -> RangeError | None:
    """Check, under a new leader, whether the source's log still holds what was copied (KIP-320).

    A log that an unclean election truncated, and that has grown again, answers fetches as if nothing had happened.
    """
    try:
        ends = epoch_ends(source, {copy.source: ReadUpTo(copy.epoch, copy.sent)})
    except TwinlogError as error:
        return range_errors.stopped_at(copy.name, copy.sent, error.message)
    if copy.source not in ends:
        return range_errors.stopped_at(
            copy.name, copy.sent, "its leader is moving, or does not answer OffsetForLeaderEpoch"
        )
    at = diverged_at(copy.epoch, ends[copy.source], copy.sent)
    return range_errors.diverged(copy.name, at) if at is not None else None


def recreated_ranges(source: Brokers, progressed: Iterable[RangeCopy]) -> list[RangeCopy]:
    """Return the ranges whose topic has another id by now: their fetched records may belong to the recreated topic.

    Ids never come back: if the id is the same now, it was the same at every earlier fetch.  If the source is lost, no
    range is returned, and the records that it gave are kept.
    """
    known = [
        copy
        for copy in progressed
        if copy.spec.topic_id and (copy.error is None or copy.error.code not in _SOURCE_LOST)
    ]
    try:
        found = source.metadata({copy.spec.topic for copy in known})
    except TwinlogError:
        return []
    ids = {name: topic.topic_id for name, topic in found.items() if topic.topic_id}
    return [copy for copy in known if ids.get(copy.spec.topic, copy.spec.topic_id) != copy.spec.topic_id]


def other_incarnation(source: Brokers, copy: RangeCopy) -> RangeError | None:
    """Check whether a topic whose id a leader does not know is gone or recreated; None if the leader only lags."""
    try:
        found = source.metadata([copy.spec.topic])[copy.spec.topic]
    except TwinlogError as error:
        return range_errors.stopped_at(copy.name, copy.sent, error.message)
    if found.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
        return range_errors.topic_deleted(copy.name)
    return range_errors.recreated(copy.name) if found.topic_id != copy.spec.topic_id else None


def out_of_range(source: Brokers, copy: RangeCopy) -> RangeError:
    """Ask where the log begins; the broker's answer to the fetch does not say."""
    try:
        begin = source.offsets([copy.source], EARLIEST)[copy.source]
    except TwinlogError as error:
        return range_errors.stopped_at(copy.name, copy.sent, error.message)
    return range_errors.out_of_range(copy.name, copy.sent, begin)
